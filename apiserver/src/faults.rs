//! Fault injection: rules that select requests and their faults.
//!
//! The same rules and the same requests in the same order give the same faults: randomness comes from the seeds of the
//! rules, time from the requests. Each firing is recorded. The server applies the faults.

pub mod action;
pub mod injection;
pub mod pattern;
mod request;
pub mod requests;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use jiff::Timestamp;
use kopfd_base::kit::TokenBucket;
use serde::{Deserialize, Serialize};

pub use action::{Action, AnswerBody, Drop, Expiry, Phase, WebhookFailure};
use pattern::{OneOrMany, matches};
pub use request::Request;

/// Limit of recorded firings: an hour of a test that fails every request.
const MAX_FIRINGS: usize = 100_000;

/// A fault rule.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    /// The matching requests.
    #[serde(rename = "match", default)]
    pub matching: Match,
    /// How many of them pass before it fires.
    #[serde(default)]
    pub skip: u64,
    /// The maximum number of firings; `None` means no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// The probability of a firing.
    #[serde(default = "always")]
    pub probability: f64,
    /// The seed of its randomness.
    #[serde(default)]
    pub seed: u64,
    /// The fault.
    pub action: Action,
}

impl Rule {
    /// Returns a rule that fires at every matching request.
    pub fn new(matching: Match, action: Action) -> Self {
        Self { matching, skip: 0, times: None, probability: always(), seed: 0, action }
    }
}

fn always() -> f64 {
    1.0
}

/// The requests of a rule. Missing fields match everything; `*` in a text matches any text.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Match {
    /// The verbs of the API, such as `patch`.
    #[serde(skip_serializing_if = "OneOrMany::is_empty")]
    pub verb: OneOrMany,
    /// The API group; empty for the core group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The plural name of the resource, also with its group as in `widgets.ex.dev`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// The subresource; empty for the object itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subresource: Option<String>,
    /// The namespace; empty for none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The object's name; empty for collections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The user agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
    /// The user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// The fault of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Fault {
    /// The rule.
    pub rule: u64,
    /// The fault.
    pub action: Action,
    /// A random number for the action, such as for its jitter.
    pub random: u64,
}

/// One firing of a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Firing {
    /// The rule.
    pub rule: u64,
    /// The time.
    pub at: Timestamp,
    /// The verb of the request.
    pub verb: String,
    /// Its resource, with group and subresource: `widgets.ex.dev/status`.
    pub resource: String,
    /// Its namespace.
    pub namespace: String,
    /// Its object.
    pub name: String,
}

/// All rules, and their firings.
#[derive(Debug, Default)]
pub struct Faults {
    last: u64,
    seed: u64,
    rules: Vec<ActiveRule>,
    firings: VecDeque<Firing>,
    /// The tokens issued while there were rules: their users are authenticated again.
    fresh_tokens: BTreeSet<String>,
}

#[derive(Debug)]
struct ActiveRule {
    id: u64,
    rule: Rule,
    random: Random,
    since: Timestamp,
    seen: u64,
    fired: u64,
    /// The remaining requests of each user.
    buckets: HashMap<String, TokenBucket>,
}

impl Faults {
    /// Returns an empty set of rules. The randomness of later rules depends on this seed and on their own.
    pub fn seeded(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    /// Adds a rule and returns its id.
    pub fn add(&mut self, rule: Rule, now: Timestamp) -> u64 {
        self.last += 1;
        let random = Random(rule.seed ^ self.seed.rotate_left(32));
        self.rules.push(ActiveRule {
            id: self.last,
            rule,
            random,
            since: now,
            seen: 0,
            fired: 0,
            buckets: HashMap::new(),
        });
        self.last
    }

    /// Removes a rule. Returns whether it existed.
    pub fn remove(&mut self, id: u64) -> bool {
        let before = self.rules.len();
        self.rules.retain(|live| live.id != id);
        self.rules.len() < before
    }

    /// Removes all rules. Their firings stay recorded.
    pub fn clear(&mut self) {
        self.rules.clear();
        self.fresh_tokens.clear();
    }

    /// Tells whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Forgets the firings.
    pub fn forget_firings(&mut self) {
        self.firings.clear();
    }

    /// Records an issued token, which is not affected by the expiry of others.
    pub fn note_token(&mut self, token: &str) {
        if !self.is_empty() {
            self.fresh_tokens.insert(token.to_owned());
        }
    }

    /// Returns the rules with their ids.
    pub fn rules(&self) -> impl Iterator<Item = (u64, &Rule)> {
        self.rules.iter().map(|live| (live.id, &live.rule))
    }

    /// Returns the firings, in order.
    pub fn firings(&self) -> impl Iterator<Item = &Firing> {
        self.firings.iter()
    }

    /// Decides about the fault of a request: the first rule that fires wins.
    pub fn decide(&mut self, request: &Request<'_>) -> Option<Fault> {
        let is_fresh = self.fresh_tokens.contains(request.token);
        let is_spared = |action: &Action| is_fresh && matches!(action, Action::Unauthorized { .. });
        self.decide_by(request, |action| !is_spared(action) && !action.is_conversion_of(request))
    }

    /// Decides whether the admission webhooks of a request fail; rules of other faults do not count it.
    pub fn decide_about_webhooks(&mut self, request: &Request<'_>) -> Option<Fault> {
        self.decide_by(request, |action| {
            matches!(action, Action::WebhookFail { .. }) && !action.is_conversion_of(request)
        })
    }

    /// Decides how a call of the conversion webhook of a resource fails, which has the name of its definition.
    pub fn decide_about_conversion(&mut self, request: &Request<'_>) -> Option<WebhookFailure> {
        let is_of_all = |action: &Action| matches!(action, Action::WebhookFail { name: None, .. });
        let fault = self.decide_by(request, |action| is_of_all(action) || action.is_conversion_of(request))?;
        match fault.action {
            Action::WebhookFail { kind, .. } => Some(kind),
            _ => None,
        }
    }

    fn decide_by(&mut self, request: &Request<'_>, may_fire: impl Fn(&Action) -> bool) -> Option<Fault> {
        let may_fire = |live: &ActiveRule| may_fire(&live.rule.action);
        let fault = self.rules.iter_mut().filter(|live| may_fire(live)).find_map(|live| live.decide(request))?;
        if self.firings.len() == MAX_FIRINGS {
            self.firings.pop_front();
        }
        self.firings.push_back(Firing::of(fault.rule, request));
        Some(fault)
    }
}

impl Firing {
    fn of(rule: u64, request: &Request<'_>) -> Self {
        let mut resource = request.resource.to_owned();
        for (separator, part) in [(".", request.group), ("/", request.subresource)] {
            if !part.is_empty() {
                resource += separator;
                resource += part;
            }
        }
        let text = str::to_owned;
        Self {
            rule,
            at: request.at,
            verb: text(request.verb),
            resource,
            namespace: text(request.namespace),
            name: text(request.name),
        }
    }
}

impl ActiveRule {
    fn decide(&mut self, request: &Request<'_>) -> Option<Fault> {
        let is_meant = || self.rule.action.is_for(request) && self.rule.matching.is_for(request);
        if self.limit().is_some_and(|times| self.fired >= times) || !is_meant() {
            return None;
        }
        self.seen += 1;
        if self.seen <= self.rule.skip || self.random.share() >= self.rule.probability || !self.is_due(request) {
            return None;
        }
        self.fired += 1;
        Some(Fault { rule: self.id, action: self.rule.action.clone(), random: self.random.next() })
    }

    fn limit(&self) -> Option<u64> {
        match self.rule.action {
            Action::Conflict { times: Some(times) } => Some(self.rule.times.map_or(times, |own| own.min(times))),
            _ => self.rule.times,
        }
    }

    /// Tells whether a time-dependent action applies: a token has expired, a bucket of requests is empty.
    fn is_due(&mut self, request: &Request<'_>) -> bool {
        match self.rule.action {
            Action::Unauthorized { after_ms } => {
                request.at.as_millisecond() - self.since.as_millisecond() >= after_ms as i64
            }
            Action::NotReady { ms } => request
                .defined_at
                .is_some_and(|defined_at| request.at.as_millisecond() - defined_at.as_millisecond() < ms as i64),
            Action::Throttle { qps, burst, .. } => {
                let bucket = self.buckets.entry(request.user.to_owned()).or_default();
                let now = Duration::try_from(request.at.as_duration()).unwrap_or_default();
                bucket.take_at(qps, u32::try_from(burst).unwrap_or(u32::MAX), now).is_err()
            }
            _ => true,
        }
    }
}

impl Match {
    fn is_for(&self, request: &Request<'_>) -> bool {
        let fits = |pattern: &Option<String>, text: &str| pattern.as_ref().is_none_or(|pattern| matches(pattern, text));
        let full = request.full_resource();
        let resource = self.resource.as_ref().is_none_or(|pattern| {
            !request.resource.is_empty() && matches(pattern, request.resource)
                || !request.group.is_empty() && matches(pattern, &full)
        });
        (self.verb.is_empty() || self.verb.has(request.verb))
            && resource
            && fits(&self.group, request.group)
            && fits(&self.subresource, request.subresource)
            && fits(&self.namespace, request.namespace)
            && fits(&self.name, request.name)
            && fits(&self.user_agent, request.user_agent)
            && fits(&self.user, request.user)
    }
}

/// A small generator with the same numbers on every platform and in every version, which libraries do not guarantee.
#[derive(Debug, Clone)]
struct Random(u64);

impl Random {
    /// Mixes a counter with a step of the golden ratio.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from zero to one, without one.
    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests;
