//! Reads and writes the records of peers, in the status of a peering object.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::text;
use crate::handling::Moment;
use crate::handling::peering::Peer;

/// How many seconds a record without a lifetime is valid.
const DEFAULT_LIFETIME: i64 = 60;

/// The records of a peering object.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Records {
    /// The readable ones.
    pub peers: Vec<Peer>,
    /// The others.
    pub malformed: Vec<Malformed>,
}

/// A record that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Malformed {
    /// Its key.
    pub identity: String,
    /// The reason why it is malformed.
    pub reason: String,
}

/// Reads the records in the status of a peering object.
pub fn read(status: Option<&Value>, now: Timestamp) -> Records {
    let mut records = Records::default();
    for (identity, record) in status.and_then(Value::as_object).into_iter().flatten() {
        match read_one(identity, record, now) {
            Ok(peer) => records.peers.push(peer),
            Err(reason) => records.malformed.push(Malformed { identity: identity.clone(), reason }),
        }
    }
    records
}

/// Reads one record.
///
/// # Errors
/// The reason why it cannot be read.
pub fn read_one(identity: &str, record: &Value, now: Timestamp) -> Result<Peer, String> {
    let fields = record.as_object().ok_or("it is not a mapping")?;
    let priority =
        fields.get("priority").map_or(Ok(0), |value| whole(value).ok_or_else(|| unreadable("priority", value)))?;
    let lifetime = fields
        .get("lifetime")
        .map_or(Ok(DEFAULT_LIFETIME), |value| seconds(value).ok_or_else(|| unreadable("lifetime", value)))?;
    let last_seen = match fields.get("lastseen") {
        None | Some(Value::Null) => Moment::utc(now),
        Some(value) => value.as_str().and_then(moment).ok_or_else(|| unreadable("lastseen", value))?,
    };
    let shown = format!("priority={priority}, lifetime={lifetime}, lastseen='{}'", written(last_seen));
    Ok(Peer { identity: identity.to_owned(), priority, lifetime, last_seen, shown })
}

fn unreadable(field: &str, value: &Value) -> String {
    format!("its {field} is {value}")
}

/// A whole number, however it is written.
fn whole(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_f64().filter(|float| float.fract() == 0.0).and_then(truncated))
}

/// Seconds: also fractions, which are cut, and texts, as in kopf.
fn seconds(value: &Value) -> Option<i64> {
    match value {
        Value::Number(number) => number.as_i64().or_else(|| number.as_f64().and_then(truncated)),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

fn truncated(float: f64) -> Option<i64> {
    // A larger number is no valid number of seconds, and no valid priority.
    (float.abs() < 9e15).then_some(float as i64)
}

/// Reads a time in ISO 8601; without an offset it is in UTC.
fn moment(text: &str) -> Option<Moment> {
    let found = text::parse_moment(text).or_else(|_| text::parse_moment(&format!("{text}Z"))).ok();
    let found = found.or_else(|| text::parse_moment(&format!("{text}T00Z")).ok())?;
    Some(Moment { offset: found.offset, ..Moment::utc(found.at) })
}

/// Returns a time as kopf writes it: without the fraction if that is zero.
fn written(moment: Moment) -> String {
    text::moment(moment).replacen(".000000", "", 1)
}

/// Returns the record of an operator.
pub fn record(priority: i64, lifetime: i64, now: Timestamp) -> Value {
    json!({"priority": priority, "lifetime": lifetime, "lastseen": written(Moment::utc(now))})
}

/// Returns the record of a peer as it would be written by itself.
pub fn record_of(peer: &Peer) -> Value {
    json!({"priority": peer.priority, "lifetime": peer.lifetime, "lastseen": written(peer.last_seen)})
}

/// Returns the changes of a peering object that write a record, or remove it: a record without a lifetime would be
/// invalid at once.
pub fn keep_alive(identity: &str, priority: i64, lifetime: i64, now: Timestamp) -> Map<String, Value> {
    let record = if lifetime > 0 { record(priority, lifetime, now) } else { Value::Null };
    changes([(identity.to_owned(), record)])
}

/// Returns the changes of a peering object that remove records.
pub fn removal<'a>(identities: impl IntoIterator<Item = &'a String>) -> Map<String, Value> {
    changes(identities.into_iter().map(|identity| (identity.clone(), Value::Null)))
}

fn changes(records: impl IntoIterator<Item = (String, Value)>) -> Map<String, Value> {
    let records: Map<String, Value> = records.into_iter().collect();
    Map::from_iter([("status".to_owned(), Value::Object(records))])
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: &str = "2020-01-01T00:00:00.5Z";

    fn read_from(status: &Value) -> Records {
        read(Some(status), NOW.parse().unwrap())
    }

    #[test]
    fn records_are_read_in_all_forms_of_kopf() {
        let seen = |record: Value| {
            let records = read_from(&json!({"a": record}));
            records.peers.first().map_or_else(|| records.malformed[0].reason.clone(), |peer| peer.shown.clone())
        };
        assert_eq!(seen(json!({})), "priority=0, lifetime=60, lastseen='2020-01-01T00:00:00.500000+00:00'");
        let times = [
            ("2020-01-01T10:00:00+02:00", "2020-01-01T10:00:00+02:00"),
            ("2020-01-01T10:00:00.1234567Z", "2020-01-01T10:00:00.123456+00:00"),
            ("2020-01-01 10:00:00", "2020-01-01T10:00:00+00:00"),
            ("20200101T100000Z", "2020-01-01T10:00:00+00:00"),
            ("2020-01-01", "2020-01-01T00:00:00+00:00"),
        ];
        for (text, shown) in times {
            assert_eq!(
                seen(json!({"lastseen": text})),
                format!("priority=0, lifetime=60, lastseen='{shown}'"),
                "{text}"
            );
        }
        for (lifetime, read) in [(json!("30"), "30"), (json!(30.9), "30"), (json!(-5), "-5")] {
            assert!(seen(json!({"lifetime": lifetime})).contains(&format!("lifetime={read},")), "{lifetime}");
        }
        for record in [
            json!(null),
            json!(5),
            json!({"lastseen": "yesterday"}),
            json!({"lastseen": 5}),
            json!({"priority": "high"}),
        ] {
            assert!(seen(record.clone()).starts_with("it"), "{record}");
        }
        assert_eq!(seen(json!({"lifetime": "1.5"})), r#"its lifetime is "1.5""#);
    }

    #[test]
    fn a_malformed_record_does_not_hide_the_others() {
        let records = read_from(&json!({"a": {"priority": 1}, "b": {"lastseen": "x"}, "c": {}}));
        let names: Vec<&str> = records.peers.iter().map(|peer| peer.identity.as_str()).collect();
        assert_eq!((names, records.malformed.len()), (vec!["a", "c"], 1));
        assert_eq!(
            [read(None, Timestamp::UNIX_EPOCH), read_from(&json!("x"))],
            [Records::default(), Records::default()]
        );
    }

    #[test]
    fn own_records_are_written_as_by_kopf_and_read_again() {
        let now: Timestamp = NOW.parse().unwrap();
        let written = keep_alive("me", 7, 33, now);
        let expected =
            json!({"status": {"me": {"priority": 7, "lifetime": 33, "lastseen": "2020-01-01T00:00:00.500000+00:00"}}});
        assert_eq!(Value::from(written.clone()), expected);
        let peer = read(written.get("status"), now).peers.remove(0);
        assert_eq!(record_of(&peer), expected["status"]["me"]);
        assert_eq!(Value::from(keep_alive("me", 7, 0, now)), json!({"status": {"me": null}}));
        assert_eq!(Value::from(removal(&["a".to_owned(), "b".to_owned()])), json!({"status": {"a": null, "b": null}}));
    }
}
