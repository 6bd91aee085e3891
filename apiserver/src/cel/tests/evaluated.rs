//! Tests of functions and operators.

use std::collections::BTreeSet;

use super::{evaluated, variables};
use crate::cel::{Error, Value, overload};

/// Expressions that are true, at least one for each signature.
const TRUE: &str = include_str!("true.txt");

/// Expressions that fail, with the errors.
const FAILING: [(&str, &str); 42] = [
    ("9223372036854775807 + 1", "integer overflow"),
    ("-9223372036854775808 - 1", "integer overflow"),
    ("-(-9223372036854775808)", "integer overflow"),
    ("9223372036854775807 * 2", "integer overflow"),
    ("0u - 1u", "unsigned integer overflow"),
    ("uint(self.spec.n - 4)", "unsigned integer overflow"),
    ("int(1e19 + 1.0)", "integer overflow"),
    ("1 / 0", "division by zero"),
    ("1 % 0", "modulus by zero"),
    ("self.list[3]", "index out of bounds: 3"),
    ("self.list[-1]", "index out of bounds: -1"),
    ("self.map['z']", "no such key: z"),
    ("self.map.z", "no such key: z"),
    ("self.spec.d", "no such key: d"),
    ("self.any + 1", "no such overload"),
    ("self.any < 1", "no such overload"),
    ("self.any && true", "no such overload"),
    ("int(self.spec.s)", "type conversion error from 'string' to 'int'"),
    ("bool(self.spec.s)", "type conversion error from 'string' to 'bool'"),
    ("duration(self.spec.s)", "type conversion error from 'string' to 'google.protobuf.Duration'"),
    ("string(b'\\xff' + b'')", "invalid UTF-8 in bytes, cannot convert to string"),
    ("optional.none().value()", "optional.none() dereference"),
    ("[].max()", "max called on empty list"),
    ("'abc'.charAt(4)", "index out of range: 4"),
    ("'abc'.substring(2, 1)", "invalid substring range. start: 2, end: 1"),
    ("'abc'.substring(4)", "index out of range: 4"),
    ("self.spec.s.find('a' + '(')", "Illegal regex: error parsing regexp: "),
    ("[1].slice(0, 2)", "cannot slice(0, 2), list is length 1"),
    ("[1].slice(1, 0)", "cannot slice(1, 0), start index must be less than or equal to end index"),
    ("[1].slice(-1, 0)", "cannot slice(-1, 0), negative indexes not supported"),
    ("quantity('10 apples')", "quantities must match the regular expression"),
    ("quantity('10mi')", "unable to parse quantity's suffix"),
    ("quantity('1.5').asInteger()", "cannot convert value to integer"),
    ("semver('1.0')", "unexpected end of input"),
    ("ip('1.2.3')", "IP Address \"1.2.3\" parse error during conversion from string: "),
    ("ip('::ffff:1.2.3.4')", "IPv4-mapped IPv6 address \"::ffff:1.2.3.4\" is not allowed"),
    ("ip('fe80::1%eth0')", "IP address \"fe80::1%eth0\" with zone value is not allowed"),
    ("cidr('10.0.0.0/33')", "network address parse error during conversion from string: "),
    ("url('x')", "URL parse error during conversion from string: parse \"x\": invalid URI for request"),
    ("{'a': 1, self.spec.s.substring(0, 1): 2}.size()", "Failed with repeated key: a"),
    ("[1, 1].transformMapEntry(i, v, {v: i})", "insert failed: key 1 already exists"),
    ("t.getHours('Mars/Olympus')", "unknown time zone Mars/Olympus"),
];

#[test]
fn expressions_have_the_expected_values() {
    let lines = TRUE.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let wrong: Vec<String> = lines
        .filter_map(|line| match evaluated(line) {
            Ok(Value::Bool(true)) => None,
            other => Some(format!("{line}: {other:?}")),
        })
        .collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn each_signature_has_an_example() {
    let examples = TRUE.lines().chain(FAILING.iter().map(|(text, _)| *text)).collect::<Vec<_>>().join("\n");
    let names: BTreeSet<&str> = overload::lines().filter_map(overload::name).collect();
    let missing: Vec<&&str> = names
        .iter()
        .filter(|name| name.chars().all(|c| c.is_alphanumeric() || c == '.') && !examples.contains(**name))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn errors_have_messages() {
    for (text, told) in FAILING {
        let error = evaluated(text).map(|value| format!("{value:?}")).unwrap_err();
        assert!(error.starts_with(told), "{text}: {error}");
    }
}

#[test]
fn expensive_evaluations_are_cancelled() {
    let program = super::compile("lists.range(2000).all(x, lists.range(2000).all(y, x + y >= 0))").unwrap();
    let (outcome, cost) = program.evaluate(&variables(), 1_000_000);
    assert_eq!(outcome.unwrap_err(), Error::TooExpensive);
    assert!(cost > 1_000_000 && cost < 1_100_000, "{cost}");
}

#[test]
fn costs_are_counted() {
    for (text, cost) in [
        ("true", 0),
        ("self.spec.n == 3", 4),
        ("self.spec.s.contains('b')", 4),
        ("self.list.all(x, x > 0)", 2 + 3 * 4 + 1),
        ("[1, 2, 3].size() == 3", 10 + 1 + 1),
        ("has(self.spec.n)", 2),
        ("self.spec.s.matches('^[a-z]+$')", 3 + 2),
        ("quantity('1Gi').isLessThan(quantity('2Gi'))", 3),
    ] {
        let program = super::compile(text).unwrap();
        let (outcome, found) = program.evaluate(&variables(), 1_000_000);
        assert!(outcome.is_ok());
        assert_eq!(found, cost, "{text}");
    }
}
