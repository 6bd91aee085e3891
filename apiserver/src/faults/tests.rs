//! Tests of rules.

use serde_json::json;

use super::*;

fn rule(value: serde_json::Value) -> Rule {
    serde_json::from_value(value).unwrap()
}

fn faults(rules: &[serde_json::Value]) -> Faults {
    let mut faults = Faults::default();
    for value in rules {
        faults.add(rule(value.clone()), Timestamp::UNIX_EPOCH);
    }
    faults
}

fn patch(name: &str) -> Request<'_> {
    Request {
        verb: "patch",
        group: "ex.dev",
        resource: "widgets",
        namespace: "default",
        name,
        user: "u",
        ..Request::default()
    }
}

fn fires(faults: &mut Faults, requests: usize) -> Vec<bool> {
    (0..requests).map(|_| faults.decide(&patch("a")).is_some()).collect()
}

#[test]
fn a_rule_skips_fires_and_ends() {
    let mut faults = faults(&[json!({"skip": 1, "times": 2, "action": {"status": {"code": 500}}})]);
    assert_eq!(fires(&mut faults, 5), [false, true, true, false, false]);
}

#[test]
fn a_rule_is_only_for_what_it_matches() {
    let mut faults = faults(&[
        json!({"match": {"verb": ["update", "patch"], "group": "ex.dev", "resource": "widgets", "name": "a*",
        "namespace": "*", "subresource": ""}, "action": {"status": {"code": 409}}}),
    ]);
    assert!(faults.decide(&patch("abc")).is_some());
    assert!(faults.decide(&patch("xyz")).is_none());
    assert!(faults.decide(&Request { verb: "get", ..patch("a") }).is_none());
    assert!(faults.decide(&Request { group: "", ..patch("a") }).is_none());
    assert!(faults.decide(&Request { subresource: "status", ..patch("a") }).is_none());
}

#[test]
fn a_resource_may_be_written_with_its_group() {
    let mut faults = faults(&[
        json!({"match": {"verb": "patch", "resource": "widgets.ex.dev"}, "action": {"statusAfter": {"code": 500}}}),
    ]);
    assert!(faults.decide(&patch("a")).is_some());
    assert!(faults.decide(&Request { group: "other.dev", ..patch("a") }).is_none());
}

#[test]
fn the_first_rule_that_fires_wins() {
    let mut faults =
        faults(&[json!({"times": 1, "action": {"status": {"code": 500}}}), json!({"action": {"delay": {"ms": 1}}})]);
    assert_eq!(faults.decide(&patch("a")).map(|fault| fault.rule), Some(1));
    assert_eq!(faults.decide(&patch("a")).map(|fault| fault.rule), Some(2));
    assert!(faults.remove(2) && !faults.remove(2));
    assert_eq!(faults.decide(&patch("a")), None);
}

#[test]
fn the_same_seed_gives_the_same_faults() {
    let run = |seed: u64| {
        fires(&mut faults(&[json!({"probability": 0.5, "seed": seed, "action": {"status": {"code": 500}}})]), 64)
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
    let share = run(7).iter().filter(|fired| **fired).count();
    assert!((16..48).contains(&share), "{share}");
}

#[test]
fn each_firing_is_recorded() {
    let mut faults = faults(&[json!({"skip": 1, "action": {"delay": {"ms": 5, "jitter": 3, "phase": "after"}}})]);
    fires(&mut faults, 2);
    let firings: Vec<&Firing> = faults.firings().collect();
    assert_eq!(firings.len(), 1);
    assert_eq!((firings[0].rule, firings[0].resource.as_str(), firings[0].name.as_str()), (1, "widgets.ex.dev", "a"));
}

#[test]
fn users_are_throttled_by_their_own_bucket() {
    let mut faults = faults(&[json!({"action": {"throttle": {"qps": 1.0, "burst": 2, "retryAfter": 1}}})]);
    assert_eq!(fires(&mut faults, 4), [false, false, true, true]);
    assert!(faults.decide(&Request { user: "other", ..patch("a") }).is_none());
    let later = Timestamp::from_second(1).unwrap();
    assert!(faults.decide(&Request { at: later, ..patch("a") }).is_none());
    assert!(faults.decide(&Request { at: later, ..patch("a") }).is_some());
}

#[test]
fn users_may_be_throttled_to_less_than_a_request_per_second() {
    let mut faults = faults(&[json!({"action": {"throttle": {"qps": 0.25, "burst": 1}}})]);
    let mut fires =
        |seconds: i64| faults.decide(&Request { at: Timestamp::from_second(seconds).unwrap(), ..patch("a") }).is_some();
    assert_eq!([0, 3, 4, 5, 8].map(&mut fires), [false, true, false, true, false]);
    // The clock of the server is set back.
    assert_eq!([1, 4, 5].map(&mut fires), [true, true, false]);
}

#[test]
fn tokens_expire_after_their_time() {
    let mut faults = faults(&[json!({"action": {"unauthorized": {"afterMs": 1000}}})]);
    assert!(faults.decide(&patch("a")).is_none());
    assert!(faults.decide(&Request { at: Timestamp::from_second(1).unwrap(), ..patch("a") }).is_some());
}

#[test]
fn conflicts_end_by_their_own_number() {
    let mut faults = faults(&[json!({"action": {"conflict": {"times": 2}}})]);
    assert_eq!(fires(&mut faults, 3), [true, true, false]);
}

#[test]
fn a_rule_ignores_requests_to_which_its_action_does_not_apply() {
    let mut faults = faults(&[
        json!({"times": 1, "action": {"watchStall": {}}}),
        json!({"times": 1, "action": {"staleRead": {"revisions": 1}}}),
    ]);
    assert!(faults.decide(&patch("a")).is_none());
    assert_eq!(faults.decide(&Request { verb: "get", ..patch("a") }).map(|fault| fault.rule), Some(2));
    assert_eq!(faults.decide(&Request { verb: "watch", ..patch("") }).map(|fault| fault.rule), Some(1));
}

#[test]
fn a_fresh_token_is_known_again() {
    let mut faults = faults(&[json!({"action": {"unauthorized": {}}})]);
    faults.note_token("fresh");
    assert!(faults.decide(&Request { token: "old", ..patch("a") }).is_some());
    assert!(faults.decide(&Request { token: "fresh", ..patch("a") }).is_none());
}

#[test]
fn a_definition_is_not_ready_for_a_while() {
    let mut faults = faults(&[json!({"action": {"notReady": {"ms": 500}}})]);
    let at = |ms: i64| Timestamp::from_millisecond(ms).unwrap();
    let mut fires =
        |now: i64| faults.decide(&Request { defined_at: Some(at(1000)), at: at(now), ..patch("a") }).is_some();
    assert!(fires(1100) && !fires(1500));
    assert!(faults.decide(&patch("a")).is_none());
}

#[test]
fn every_action_reads_as_it_is_written() {
    for action in [
        json!({"status": {"code": 429, "reason": "TooManyRequests", "message": "m", "retryAfter": 1, "body": "html"}}),
        json!({"reset": {"phase": "mid-body"}}),
        json!({"watchDrop": {"afterEvents": 2, "afterMs": null, "how": "mid-line"}}),
        json!({"watchExpire": {"how": "http"}}),
        json!({"watchError": {"code": 500, "reason": ""}}),
        json!({"watchStall": {"ms": 5}}),
        json!({"watchDuplicate": {}}),
        json!({"watchDelay": {"ms": 5}}),
        json!({"slowBody": {"bytesPerSec": 10}}),
        json!({"staleRead": {"revisions": 3, "ms": null}}),
        json!({"webhookFail": {"name": "v.ex.dev", "kind": "500"}}),
        json!({"notReady": {"ms": 5}}),
        json!({"discoveryFail": {"group": "ex.dev", "code": 503}}),
    ] {
        let read = rule(json!({"action": action}));
        assert_eq!(serde_json::to_value(&read).unwrap()["action"], action);
    }
    assert!(serde_json::from_value::<Rule>(json!({"action": {"explode": {}}})).is_err());
    assert!(serde_json::from_value::<Rule>(json!({"match": {"verbs": []}, "action": {"watchDuplicate": {}}})).is_err());
}

#[test]
fn stars_match_any_text() {
    for (pattern, text, wanted) in [
        ("*", "", true),
        ("a*", "abc", true),
        ("*c", "abc", true),
        ("a*c", "abc", true),
        ("a*b*c", "axbyc", true),
        ("a*a", "a", false),
        ("abc", "abcd", false),
        ("", "", true),
        ("", "x", false),
    ] {
        assert_eq!(matches(pattern, text), wanted, "{pattern} {text}");
    }
}
