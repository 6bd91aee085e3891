//! Timers, daemons, and indexes.

use std::str::FromStr;
use std::time::Duration;

use croner::Cron;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::handling::{Handler, On, Policy};
use crate::script::BindingKind;
use crate::script::language::arguments;

use super::binding::{BINDING, Concern, Ids, Request, is_identifier, misplaced};
use super::builder::{Block, OperatorBuilder, POLICY, Script};
use super::filters::{Asking, FILTERS};
use super::operator::{Daemon, Delay, Rhythm, Ticks, Timer};
use super::reader::{Fields, Item};
use super::tree::Kind;
use super::values::MAX_DURATION;

/// A cron expression that has no tick after this time never runs.
const EARLIEST: Timestamp = Timestamp::UNIX_EPOCH;

/// The minimum interval of a timer, unless it is zero.
const MIN_INTERVAL: Duration = Duration::from_millis(1);

/// The minimum interval of checks on a stopping daemon.
const MIN_POLLING: Duration = Duration::from_millis(100);

impl OperatorBuilder<'_> {
    /// Reads one item of `timers`.
    pub(super) fn timer(&mut self, item: &Item<'_>, block: &Block<'_>, ids: &mut Ids) {
        let reader = self.reader;
        let own = ["interval", "cron", "timezone", "sharp", "idle", "initialDelay"];
        let known = [&BINDING[..], &FILTERS, &POLICY, &own].concat();
        let Some(fields) = reader.fields_but(item, "a timer", &known, |key| misplaced("a timer", key)) else { return };
        let script = self.script(&fields, &block.script);
        let asking = Asking { kind: BindingKind::Timer, script: script.clone() };
        let rhythm = self.rhythm(&fields);
        let idle = fields.get("idle").and_then(|item| reader.duration(&item));
        if !["interval", "cron", "idle"].iter().any(|key| fields.mentions(key)) {
            reader.warn(item, "the timer runs only once", "add `interval`, `cron`, or `idle`");
        }
        let initial_delay = self.delay(&fields, &asking);
        if let Some(handler) = self.spawned(&fields, block, ids, (&script, &asking), On::Timer) {
            self.operator.timers.push(Timer { handler, rhythm, idle, initial_delay });
        }
    }

    /// Reads one item of `daemons`.
    pub(super) fn daemon(&mut self, item: &Item<'_>, block: &Block<'_>, ids: &mut Ids) {
        let reader = self.reader;
        let own = ["initialDelay", "cancellationBackoff", "cancellationTimeout", "cancellationPolling"];
        let known = [&BINDING[..], &FILTERS, &POLICY, &own].concat();
        let Some(fields) = reader.fields_but(item, "a daemon", &known, |key| misplaced("a daemon", key)) else {
            return;
        };
        let script = self.script(&fields, &block.script);
        let asking = Asking { kind: BindingKind::Daemon, script: script.clone() };
        let initial_delay = self.delay(&fields, &asking);
        let duration = |key: &str| fields.get(key).and_then(|item| reader.duration(&item));
        let backoff = duration("cancellationBackoff");
        let timeout = duration("cancellationTimeout");
        let polling = fields.get("cancellationPolling");
        let polling = polling
            .and_then(|item| reader.duration_in(&item, &(MIN_POLLING..=MAX_DURATION), "leave it out for the default"));
        if let Some(handler) = self.spawned(&fields, block, ids, (&script, &asking), On::Daemon) {
            self.operator.daemons.push(Daemon {
                handler,
                initial_delay,
                cancellation_backoff: backoff,
                cancellation_timeout: timeout,
                cancellation_polling: polling,
            });
        }
    }

    /// Reads one item of `indexes`.
    pub(super) fn index(&mut self, item: &Item<'_>, block: &Block<'_>, ids: &mut Ids) {
        let reader = self.reader;
        let known = [&BINDING[..], &FILTERS, &POLICY].concat();
        let Some(fields) = reader.fields_but(item, "an index", &known, |key| misplaced("an index", key)) else {
            return;
        };
        let script = self.script(&fields, &block.script);
        let asking = Asking { kind: BindingKind::Index, script: script.clone() };
        let field = self.field(&fields);
        let filters = self.filters(&fields, block, field.as_ref(), &asking);
        let policy = self.policy(&fields, &Policy::default());
        self.know_index(&fields);
        let request = Request { kind: BindingKind::Index, script: &script, suffix: None, deadline: None };
        let Some(bound) = self.bind(&fields, &request) else { return };
        let place = fields.get("id").or_else(|| fields.get("fn")).unwrap_or_else(|| item.clone());
        if !is_identifier(&bound.id) {
            let hint = "scripts read it as a variable: use letters, digits and `_`, and begin with a letter";
            reader.error_with(&place, format!("`{}` cannot be the id of an index", bound.id), hint);
            return;
        }
        if arguments::is_argument(&bound.id) {
            let hint = "scripts would not see the argument of that name any more: choose another `id`";
            reader.error_with(
                &place,
                format!("`{}` is the name of an argument, and cannot be the id of an index", bound.id),
                hint,
            );
            return;
        }
        self.register(ids, &bound, "an index");
        let concern = Concern { selectors: block.selectors.clone(), field, filters };
        self.operator.indexes.push(bound.handler(On::Index, concern, policy));
    }

    /// Scripts may use the index, even if its declaration has errors.
    fn know_index(&mut self, fields: &Fields<'_>) {
        self.is_unready |= fields.mentions("id") && fields.get("id").is_none();
        let name = fields.get("id").or_else(|| fields.get("fn"));
        let Some(name) = name.as_ref().and_then(|item| item.node.text()) else { return };
        let indexes = &mut self.operator.declaration.indexes;
        if is_identifier(name) && !arguments::is_argument(name) && !indexes.iter().any(|known| known == name) {
            indexes.push(name.to_owned());
        }
    }

    fn spawned(
        &mut self,
        fields: &Fields<'_>,
        block: &Block<'_>,
        ids: &mut Ids,
        code: (&Script, &Asking),
        on: On,
    ) -> Option<Handler> {
        let (script, asking) = code;
        let field = self.field(fields);
        let filters = self.filters(fields, block, field.as_ref(), asking);
        let policy = self.policy(fields, &self.operator.defaults.clone());
        let request = Request { kind: asking.kind, script, suffix: field.as_ref(), deadline: None };
        let bound = self.bind(fields, &request)?;
        let noun = if on == On::Timer { "a timer" } else { "a daemon" };
        let is_new = self.register(ids, &bound, noun);
        if !is_new && !self.reader.has_errors() {
            let message = format!("{noun} with the id `{}` is declared above, and only the first one runs", bound.id);
            self.reader.warn(&fields.item, message, "give it an `id` of its own");
        }
        Some(bound.handler(on, Concern { selectors: block.selectors.clone(), field, filters }, policy))
    }

    fn rhythm(&mut self, fields: &Fields<'_>) -> Rhythm {
        let reader = self.reader;
        let (interval, cron) = (fields.get("interval"), fields.get("cron"));
        if let (Some(_), Some(cron)) = (&interval, &cron) {
            reader.key_error(cron, "`interval` and `cron` exclude each other", "leave one of them out");
        }
        if let (Some(timezone), false) = (fields.get("timezone"), fields.mentions("cron")) {
            reader.key_error(&timezone, "`timezone` needs `cron`", "leave it out: intervals have no time zone");
        }
        let pause = interval.as_ref().and_then(|item| reader.duration(item));
        if let (Some(pause), Some(item)) = (pause, &interval)
            && !pause.is_zero()
            && pause < MIN_INTERVAL
        {
            reader.error_with(item, "`interval` must be from 1ms to 36500d, or 0", "write 0 for no pause after a call");
        }
        let is_sharp = reader.flag(fields, "sharp").unwrap_or(false);
        if let Some(sharp) = fields.get("sharp").filter(|_| is_sharp) {
            let is_zero = pause == Some(Duration::ZERO);
            if is_zero || !fields.mentions("interval") {
                reader.key_error(
                    &sharp,
                    "`sharp` needs an `interval` of more than zero",
                    "add `interval: 60s`, or leave `sharp` out",
                );
            }
        }
        match (self.ticks(fields), pause) {
            (Some(ticks), _) => Rhythm::Cron(Box::new(ticks)),
            (None, Some(pause)) => Rhythm::Interval { pause, is_sharp },
            (None, None) => Rhythm::Once,
        }
    }

    /// Reads `cron` and `timezone`.
    pub(super) fn ticks(&self, fields: &Fields<'_>) -> Option<Ticks> {
        let reader = self.reader;
        let timezone = match fields.get("timezone") {
            None => Some(TimeZone::UTC),
            Some(item) => {
                let name = &reader.text(&item)?.value;
                let zone = TimeZone::get(name).ok();
                if zone.is_none() {
                    reader.error_with(
                        &item,
                        format!("unknown time zone `{name}`"),
                        "write such as `Europe/Berlin` or `UTC`",
                    );
                }
                zone
            }
        };
        let item = fields.get("cron")?;
        let text = &reader.text(&item)?.value;
        match Cron::from_str(text) {
            Ok(cron) => {
                let ticks = Ticks { cron, timezone: timezone? };
                if ticks.next_after(EARLIEST).is_none() {
                    reader.error_with(
                        &item,
                        format!("the cron expression `{text}` never runs"),
                        "check the day, the month and the year",
                    );
                    return None;
                }
                Some(ticks)
            }
            Err(error) => {
                let words = error.to_string();
                let words = words.rsplit(": ").next().unwrap_or(&words).trim_end_matches('.').to_owned();
                let hint = "write minute, hour, day, month and weekday, such as `*/5 * * * *`";
                reader.error_with(&item, format!("bad cron expression `{text}`: {}", lower(&words)), hint);
                None
            }
        }
    }

    fn delay(&mut self, fields: &Fields<'_>, asking: &Asking) -> Option<Delay> {
        let item = fields.get("initialDelay")?;
        if let Kind::Text(text) = &item.node.kind
            && !text.value.trim().is_empty()
            && !text.value.trim_start().starts_with(|c: char| c.is_ascii_digit() || c == '-')
        {
            return Some(Delay::Expression(self.expression(text, asking, false, true)));
        }
        self.reader.duration(&item).map(Delay::Fixed)
    }
}

fn lower(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
}
