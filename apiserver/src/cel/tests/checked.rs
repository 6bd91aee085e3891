//! Expressions that the type checker refuses, with the messages of cel-go.

use super::compile;

/// Returns the errors without the lines of their positions.
fn mistakes(text: &str) -> String {
    let told = compile(text)
        .map_or_else(|mistake| mistake.to_string(), |program| format!("a program of type {}", program.result()));
    told.lines().filter(|line| !line.starts_with(" |")).collect::<Vec<_>>().join("\n").replace("ERROR: <input>:", "")
}

#[test]
fn mistakes_are_shown_with_their_places() {
    let told = compile("self.spec.nope == 1 &&\n  \tself.none").unwrap_err().to_string();
    let shown = "ERROR: <input>:1:10: undefined field 'nope'\n | self.spec.nope == 1 &&\n | .........^\n\
                 ERROR: <input>:2:8: undefined field 'none'\n |    self.none\n | .......^";
    assert_eq!(told, shown);
    let told = compile("'ä' == self.nope").unwrap_err().to_string();
    assert_eq!(told, "ERROR: <input>:1:12: undefined field 'nope'\n | 'ä' == self.nope\n | .．.........^");
}

#[test]
fn mismatched_types_are_refused() {
    for (text, told) in [
        ("self.nope", "1:5: undefined field 'nope'"),
        ("nope", "1:1: undeclared reference to 'nope' (in container '')"),
        ("nope(1)", "1:5: undeclared reference to 'nope' (in container '')"),
        ("self.spec.n.nope", "1:12: type 'int' does not support field selection"),
        ("self.spec.n == 'a'", "1:13: found no matching overload for '_==_' applied to '(int, string)'"),
        ("self.spec.s.size() + 1 == '4'", "1:24: found no matching overload for '_==_' applied to '(int, string)'"),
        (
            "self.list.startsWith('a')",
            "1:21: found no matching overload for 'startsWith' applied to 'list(int).(string)'",
        ),
        ("self.spec.n && true", "1:10: expected type 'bool' but found 'int'"),
        (
            "self.spec.all(x, true)",
            "1:5: expression of type 'selfType.spec' cannot be range of a comprehension (must be list, map, or dynamic)",
        ),
        ("[1, 'a']", "1:5: expected type 'int' but found 'string'"),
        ("{'a': 1, 'b': 'c'}", "1:15: expected type 'int' but found 'string'"),
        ("duration('1x') == self.spec.d", "1:10: invalid duration argument"),
        ("timestamp('yesterday') == t", "1:11: invalid timestamp argument"),
        ("self.spec.s.matches('a(')", "1:21: invalid matches argument"),
        (
            "'%d'.format(['a'])",
            "1:14: error during formatting: decimal clause can only be used on integers, was given string",
        ),
        ("'%s'.format([1, 2])", "1:12: too many arguments supplied to string.format (expected 1, got 2)"),
        ("self.list.all(self.x, true)", "1:19: argument must be a simple name"),
        ("self.map.all(k, k, true)", "1:17: duplicate variable name: k"),
        ("has(self)", "1:5: invalid argument to has() macro"),
        (
            "quantity('1Gi') > quantity('1Mi')",
            "1:17: found no matching overload for '_>_' applied to '(kubernetes.Quantity, kubernetes.Quantity)'",
        ),
        ("optional.of(1) == 1", "1:16: found no matching overload for '_==_' applied to '(optional_type(int), int)'"),
        ("Foo{a: 1}", "1:4: undeclared reference to 'Foo' (in container '')"),
        ("int('a') == 1", "program instantiation failed: type conversion error from 'string' to 'int'"),
        ("duration(1000) == self.spec.d", "1:10: invalid duration argument"),
        ("google.protobuf.Int32Value{value: 1}", "messages of protocol buffers are not supported"),
    ] {
        assert_eq!(mistakes(text), told, "{text}");
    }
}

#[test]
fn types_are_found() {
    for (text, found) in [
        ("self.?spec.n", "optional_type(int)"),
        ("self.list.map(x, string(x))", "list(string)"),
        ("self.list.filter(x, x > 1)", "list(int)"),
        ("self.map.transformList(k, v, k)", "list(string)"),
        ("self.map.transformMap(k, v, v + 1)", "map(string, int)"),
        ("self.list.transformMapEntry(i, v, {string(v): i})", "map(string, int)"),
        ("self.list.sortBy(x, -x)", "list(int)"),
        ("self.?spec.?s.optMap(s, s.size())", "optional_type(int)"),
        ("self.map['x']", "int"),
        ("self.any + 1", "int"),
        ("true ? self.any : 1", "dyn"),
        ("type(self.any)", "type(dyn)"),
        ("[]", "list(dyn)"),
        ("[].first()", "optional_type(dyn)"),
        ("self.spec", "selfType.spec"),
        ("t - t", "duration"),
        ("url('a').getQuery()", "map(string, list(string))"),
        ("format.named('uuid')", "optional_type(kubernetes.NamedFormat)"),
        ("null", "null"),
        ("self.spec == null", "bool"),
    ] {
        assert_eq!(mistakes(text), format!("a program of type {found}"), "{text}");
    }
}

#[test]
fn malformed_texts_are_refused() {
    for text in ["self.(", "", "1 +", "'a", "self..x", "for", "a.?b[", "{", "1 2", "\u{0}", "`a`"] {
        let told = compile(text).map(drop).unwrap_err().to_string();
        assert!(told.starts_with("ERROR: <input>:1:"), "{text}: {told}");
    }
}
