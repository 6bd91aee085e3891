//! The plain library: functions and methods of lists, maps, texts, times, versions, addresses and other formats.

use serde_json::{Value, json};

use super::world::{failure, result};

/// Checks that expressions have these values.
fn gives(expressions: &[(&str, Value)]) {
    for (expression, expected) in expressions {
        let text =
            if expression.starts_with("let ") { format!("{expression};") } else { format!("return {expression};") };
        assert_eq!(&result(&text), expected, "{expression}");
    }
}

/// Checks that expressions fail with errors that contain these texts.
fn fails(expressions: &[(&str, &str)]) {
    for (expression, expected) in expressions {
        let text = failure(&format!("return {expression};"));
        assert!(text.contains(expected), "{expression}: {text}");
    }
}

#[test]
fn lists_give_changed_lists() {
    gives(&[
        ("[\"a\", 1, true].join(\", \")", json!("a, 1, true")),
        ("[\"a\", \"b\"].join()", json!("ab")),
        ("\", \".join([\"a\", \"b\"])", json!("a, b")),
        ("spec.nested.keys().join(\"-\")", json!("deep")),
        ("[3, 1.5, 2].sorted()", json!([1.5, 2, 3])),
        ("[\"b\", \"a\"].sorted().reversed()", json!(["b", "a"])),
        ("[[2, \"a\"], [1, \"b\"], [1, \"a\"]].sorted()", json!([[1, "a"], [1, "b"], [2, "a"]])),
        ("[#{n: 2}, #{n: 1}].sorted_by(\"n\")", json!([{"n": 1}, {"n": 2}])),
        ("[\"ccc\", \"a\", \"bb\"].sorted_by(|t| t.len())", json!(["a", "bb", "ccc"])),
        ("[1, 2, 1, 1.0, \"1\"].unique()", json!([1, 2, "1"])),
        ("[#{a: 1}, #{a: 1.0}].unique()", json!([{"a": 1}])),
        ("[#{k: 1, v: 1}, #{k: 1, v: 2}].unique_by(\"k\")", json!([{"k": 1, "v": 1}])),
        ("[1, 2, 3].group_by(|n| if n % 2 == 0 { \"even\" } else { \"odd\" })", json!({"even": [2], "odd": [1, 3]})),
        ("[#{t: \"x\"}, #{}].group_by(\"t\")", json!({"": [{}], "x": [{"t": "x"}]})),
        ("[1, 2, 3].zip([\"a\", \"b\"])", json!([[1, "a"], [2, "b"]])),
        ("[1, 2].zip([3, 4], |a, b| a + b)", json!([4, 6])),
        ("[[1], [2, [3]], 4].flatten()", json!([1, 2, [3], 4])),
        ("[[1, 2], 0.5].flatten().sum()", json!(3.5)),
        ("[].sum()", json!(0)),
        ("[[2, 1].min(), [2, 1].max(), [].min()]", json!([1, 2, null])),
        ("[1, 2].union([2, 3, 3])", json!([1, 2, 3])),
        ("[1, 2, 2].intersection([2, 3])", json!([2])),
        ("[1, 2, 1].difference([2])", json!([1])),
        ("[[\"a\", 1], #{key: \"b\", value: 2}].to_map()", json!({"a": 1, "b": 2})),
        ("[3, 2].min() + min(5, 4)", json!(6)),
    ]);
    fails(&[
        ("[1, \"a\"].sorted()", "have no order"),
        ("[#{}].join(\",\")", "has no plain text"),
        ("[\"a\"].sum()", "is not a number"),
        ("[9223372036854775807, 1].sum()", "too large"),
        ("[|| 1].unique()", "has no JSON form"),
        ("[1].union(2)", "it needs a list, not 2"),
        ("[1].group_by(\"a\")", "has no `a`"),
        ("spec.nested.sorted()", "this is a map"),
    ]);
}

#[test]
fn lists_are_sorted_by_functions_whose_errors_are_told() {
    gives(&[
        ("let l = [3, 1, 2]; l.sort(|a, b| b - a); return l", json!([3, 2, 1])),
        ("let l = [0.3, 0.1, 0.2]; l.sort_by(|a, b| a - b); return l", json!([0.1, 0.2, 0.3])),
        (
            "let l = [#{k: 2, v: 1}, #{k: 1, v: 2}, #{k: 2, v: 3}]; l.sort(|a, b| a.k < b.k); return l.map(|x| x.v)",
            json!([2, 1, 3]),
        ),
        ("[#{k: 2, v: 1}, #{k: 1, v: 2}, #{k: 2, v: 3}].order_by(|a, b| a.k > b.k).map(|x| x.v)", json!([1, 3, 2])),
        (
            "let l = [2, 1]; try { l.sort(|a, b| throw \"no\"); } catch (error) { l.push(error); } return l",
            json!([2, 1, "no"]),
        ),
    ]);
    fails(&[
        ("[2, 1].order(|a, b| throw \"incomparable\")", "incomparable"),
        ("[2, 1].order(|a, b| a / 0)", "zero"),
        ("[2, 1].order_by(|a, b| ())", "`order_by`: the function must return a number or a boolean, not ()"),
    ]);
}

#[test]
fn errors_name_types_in_plain_words() {
    let told = [
        ("[3, 1].sort_by(|a| \"x\");", "the closure cannot be called with an integer and an integer"),
        ("[1].map(|a, b, c, d| 1);", "the closure cannot be called with"),
        ("base64::encode([1.5]);", "must be a text or bytes, not a list"),
        ("crypto::sha1(#{});", "must be a text or bytes, not a map"),
        ("sleep([1]);", "a list is no duration"),
        ("[[|| 1]].unique();", "a function has no JSON form"),
        ("let l = [1]; l[5];", "there is no item 5: the list has 1 item"),
        ("let t = \"ab\"; t[7];", "there is no character 7: the text has 2 characters"),
        ("let n = true; n[\"a\"];", "a boolean has no parts by a text"),
        ("let n = 5; n.oops;", "an integer has no `oops`"),
        ("let n = 5; for x in n { }", "a loop goes over a list"),
        ("let n = 5; if n { }", "a boolean is needed here, not an integer"),
        ("#{} * 1;", "there is no function `*` for a map and an integer"),
        ("[1] - \"a\";", "there is no function `-` for a list and a text"),
        ("(0..3) * 1.5;", "there is no function `*` for a range and a float"),
        ("now() * 'c';", "there is no function `*` for a time and a character"),
        ("spec * (|x| x);", "there is no function `*` for a part of the object and a function"),
        ("to_bytes(\"a\") * logger;", "there is no function `*` for bytes and the logger"),
    ];
    for (text, expected) in told {
        let found = failure(text);
        assert!(found.contains(expected), "{text}: {found}");
        for word in ["anon$", "i64", "f64", "ImmutableString", "Dynamic", " | ", "rhai::", "alloc::", "array", "string"]
        {
            assert!(!found.contains(word), "{text}: {found}");
        }
    }
}

#[test]
fn views_have_the_methods_of_lists_and_maps() {
    gives(&[
        ("spec.list.reversed()[0].a", json!("b")),
        ("spec.list.extract(0, 2).sum()", json!(3)),
        ("labels.items()", json!([{"key": "app", "value": "web"}, {"key": "tier", "value": "db"}])),
        ("labels.pick([\"app\", \"none\"])", json!({"app": "web"})),
        ("labels.omit([\"app\"])", json!({"tier": "db"})),
        ("labels.merge(#{app: \"x\", more: 1})", json!({"app": "x", "tier": "db", "more": 1})),
        ("spec.nested.get(\"deep.leaf\", false)", json!(true)),
        ("spec.get([\"list\", 2, \"a\"], \"none\")", json!("b")),
        ("spec.get(\"list.-1.a\", \"none\")", json!("b")),
        ("spec.get(\"no.such\", \"none\")", json!("none")),
        ("spec.list.unique()", json!([1, 2, {"a": "b"}])),
        ("spec.list.zip([5])", json!([[1, 5]])),
        ("[9].union(spec.list)", json!([9, 1, 2, {"a": "b"}])),
        ("jsonpath(spec, \"$.list[?@.a == 'b'].a\")", json!(["b"])),
        ("body.jsonpath(\"{.spec.list[*].a}\")", json!(["b"])),
    ]);
}

#[test]
fn maps_give_changed_maps() {
    gives(&[
        ("#{a: #{b: 1, c: 2}, l: [1]}.merge(#{a: #{b: 3}, l: [2]})", json!({"a": {"b": 3, "c": 2}, "l": [2]})),
        ("merge(#{a: 1}, #{b: 2})", json!({"a": 1, "b": 2})),
        ("#{b: 2, a: 1}.items()", json!([{"key": "a", "value": 1}, {"key": "b", "value": 2}])),
        ("#{a: 1, b: 2}.pick([\"a\"])", json!({"a": 1})),
        ("#{a: 1}.get(\"a\", 5) + #{a: ()}.get(\"a\", 5)", json!(6)),
        ("#{\"x.y/z\": 1}.get(\"x.y/z\", 0)", json!(1)),
        ("[#{a: 1}].get(\"0.a\", 0)", json!(1)),
        ("#{a: 1}.copy()", json!({"a": 1})),
    ]);
    fails(&[
        ("#{}.merge(1)", "it needs a map, not 1"),
        ("#{}.get([], 1)", "the path is empty"),
        ("#{}.get([true], 1)", "a path is a text"),
        ("#{}.pick([1])", "each key must be a text"),
        ("jsonpath(#{}, \"$[\")", "not a JSONPath"),
        ("jsonpath(spec, \"$\" + \"..*\".repeated(50))", "too many parts"),
    ]);
}

#[test]
fn texts_give_changed_texts() {
    gives(&[
        ("\"[\" + \" x \".trimmed() + \"]\"", json!("[x]")),
        (
            "[\"--x-\".trimmed(\"-\"), \" x \".trimmed_start(), \" x \".trimmed_end(), \"//x\".trimmed_start('/')]",
            json!(["x", "x ", " x", "x"]),
        ),
        ("\"a.b.c\".replaced(\".\", \"-\")", json!("a-b-c")),
        (
            "[\"v1.2\".without_prefix(\"v\"), \"a.yaml\".without_suffix(\".yaml\"), \"a\".without_prefix(\"b\")]",
            json!(["1.2", "a", "a"]),
        ),
        (
            "[\"7\".padded_start(3, \"0\"), \"ab\".padded(4) + \"|\", \"long\".padded(2)]",
            json!(["007", "ab  |", "long"]),
        ),
        ("\"ab\".repeated(3) + \"abc\".reversed()", json!("abababcba")),
        ("\"a\\nb\\r\\n\\nc\\n\".lines()", json!(["a", "b", "", "c"])),
        ("[\"my pod-name\".title_case(), \"ÉCOLE\".capitalized()]", json!(["My Pod-Name", "École"])),
        (
            "[\"podIPAddress v2\".kebab_case(), \"PodName\".snake_case(), \"pod-name\".camel_case()]",
            json!(["pod-ip-address-v2", "pod_name", "podName"]),
        ),
    ]);
    fails(&[
        ("\"x\".repeated(-1)", "an integer that is not negative"),
        ("\"x\".padded(5, \"\")", "is empty"),
        ("\"x\".replaced(1, \"\")", "it needs a text, not 1"),
    ]);
}

#[test]
fn numbers_and_durations_are_formatted() {
    gives(&[
        ("format(3.14159, \".2f\")", json!("3.14")),
        ("format(1234567, \",\")", json!("1,234,567")),
        (
            "[format(255, \"x\"), format(5, \"03d\"), format(0.5, \".0%\"), format(\"a\", \">3\")]",
            json!(["ff", "005", "50%", "  a"]),
        ),
        (
            "[format_duration(5400), format_duration(0.5), format_duration(0), format_duration(90061)]",
            json!(["1h30m", "500ms", "0s", "1d1h1m1s"]),
        ),
        ("duration(format_duration(\"1h30m\"))", json!(5400.0)),
    ]);
    fails(&[
        ("format(1, \"zz\")", "is not a format of numbers"),
        ("format(1.5, \"d\")", "is not a format of 1.5"),
        ("format([], \"d\")", "neither"),
    ]);
}

#[test]
fn regular_expressions_give_their_groups() {
    gives(&[
        ("regex::captures(\"(a+)(b)?\", \"xaac\")", json!(["aa", "aa", null])),
        ("regex::captures(\"z\", \"a\")", json!(null)),
        ("regex::captures_all(\"([a-z])([0-9])\", \"a1 b2\")", json!([["a1", "a", "1"], ["b2", "b", "2"]])),
        ("regex::named(\"(?P<host>[^:]+):(?P<port>[0-9]+)\", \"db:5432\")", json!({"host": "db", "port": "5432"})),
        ("regex::split(\", *\", \"a,b,  c\")", json!(["a", "b", "c"])),
        ("regex::is_match(regex::escape(\"a.b\"), \"axb\")", json!(false)),
    ]);
}

#[test]
fn times_have_parts_and_formats() {
    gives(&[
        ("time(\"2024-02-29T12:30:45Z\").format(\"%Y-%m-%d %H:%M\")", json!("2024-02-29 12:30")),
        ("time(\"2024-02-29T12:30:45Z\").format(\"%H:%M\", \"Europe/Berlin\")", json!("13:30")),
        ("time(\"29.02.2024\", \"%d.%m.%Y\")", json!("2024-02-29T00:00:00Z")),
        ("time(\"2024-02-29 10:00 +0200\", \"%Y-%m-%d %H:%M %z\")", json!("2024-02-29T08:00:00Z")),
        ("time(86400)", json!("1970-01-02T00:00:00Z")),
        ("time(\"1970-01-01T00:00:01.5Z\").unix", json!(1.5)),
        (
            "let t = time(\"2024-02-29T12:30:45Z\"); return [t.year, t.month, t.day, t.hour, t.minute, t.second, t.weekday, t.day_of_year]",
            json!([2024, 2, 29, 12, 30, 45, 3, 60]),
        ),
        ("[time(2), time(1)].sorted()[0].unix", json!(1.0)),
    ]);
    fails(&[
        ("time(\"x\", \"%Y\")", "is no time of the format"),
        ("time(0).format(\"%Y\", \"Mars/Base\")", "there is no time zone"),
        ("time(0).format(\"%!\")", "is no format of times"),
    ]);
}

#[test]
fn versions_addresses_and_networks_are_understood() {
    gives(&[
        ("version::compare(\"v1.10.0\", \"1.9\")", json!(1)),
        ("version::satisfies(\"1.2.3\", \">=1.2, <2\")", json!(true)),
        ("version::sorted([\"1.10\", \"1.9\", \"v1.2.0-rc.1\"])", json!(["v1.2.0-rc.1", "1.9", "1.10"])),
        ("version::parse(\"1.2.3-rc.1+x\")", json!({"major": 1, "minor": 2, "patch": 3, "pre": "rc.1", "build": "x"})),
        (
            "url::parse(\"https://u:p%40@h.example/a/b?x=1&x=2&y=%20#f\")",
            json!({
                "scheme": "https", "username": "u", "password": "p@", "host": "h.example", "port": 443, "path": "/a/b",
                "query": {"x": ["1", "2"], "y": " "}, "fragment": "f",
            }),
        ),
        ("url::join(\"https://h/a/b\", \"../c?d=1\")", json!("https://h/c?d=1")),
        ("[url::encode(\"a b/ü\"), url::decode(\"a%20b\")]", json!(["a%20b%2F%C3%BC", "a b"])),
        ("url::query(#{a: 1, b: [\"x y\", \"z\"], c: ()})", json!("a=1&b=x%20y&b=z")),
        ("ip::contains(\"10.0.0.0/8\", \"10.1.2.3\") && !ip::contains(\"10.0.0.0/24\", \"10.0.0.0/8\")", json!(true)),
        ("ip::hosts(\"192.168.0.0/30\")", json!(["192.168.0.1", "192.168.0.2"])),
        (
            "ip::parse(\"10.0.0.5/24\").pick([\"network\", \"first\", \"last\", \"netmask\", \"is_private\"])",
            json!({
                "network": "10.0.0.0/24", "first": "10.0.0.0", "last": "10.0.0.255", "netmask": "255.255.255.0", "is_private": true,
            }),
        ),
        (
            "[ip::is_valid(\"::1\"), ip::is_valid(\"300.0.0.1\"), version::is_valid(\"1.x\")]",
            json!([true, false, false]),
        ),
    ]);
    fails(&[
        ("version::compare(\"x\", \"1\")", "\"x\" is no version"),
        ("url::parse(\"no address\")", "is no address"),
        ("ip::contains(\"10.0.0.0/33\", \"10.0.0.1\")", "is no IP address or network"),
    ]);
}

#[test]
fn toml_is_read_and_written() {
    gives(&[
        (
            "toml::parse(\"a = 1\\n[b]\\nc = [1.5, true]\\nd = 2024-01-01\\n\")",
            json!({"a": 1, "b": {"c": [1.5, true], "d": "2024-01-01"}}),
        ),
        ("toml::parse(toml::dump(#{a: \"x\", b: #{c: [1, 2]}}))", json!({"a": "x", "b": {"c": [1, 2]}})),
    ]);
    fails(&[
        ("toml::parse(\"a = 1\\nb =\")", "(line 2)"),
        ("toml::dump(#{a: ()})", "has no form in TOML"),
        ("toml::dump([1])", "always a map"),
    ]);
}

#[test]
fn metadata_are_cleaned_for_children() {
    gives(&[
        (
            "clean(#{name: \"a\", uid: \"u\", labels: #{app: \"x\"}, annotations: #{\"kopf.zalando.org/last-handled-configuration\": \"{}\", note: \"n\"}})",
            json!({"name": "a", "labels": {"app": "x"}, "annotations": {"note": "n"}}),
        ),
        ("\"status\" in clean(body) || \"uid\" in clean(meta)", json!(false)),
        ("clean(body).metadata.labels", json!({"app": "web", "tier": "db"})),
    ]);
    fails(&[("clean(1)", "it needs the metadata")]);
}

#[test]
fn texts_are_rendered_with_the_filters_of_helm() {
    gives(&[
        ("template_text(\"{{ a }}-{{ b | b64encode }}\", #{a: 1, b: \"x\"})", json!("1-eA==")),
        ("template_text(\"{{ m | to_yaml }}\", #{m: #{a: [1]}})", json!("a:\n- 1")),
        (
            "template_text(\"{{ m | to_json }} {{ t | quote }} {{ t | urlencode }}\", #{m: #{a: 1}, t: \"<a b>\"})",
            json!("{\"a\":1} \"<a b>\" %3Ca%20b%3E"),
        ),
        (
            "template_text(\"{{ t | sha256 }}\", #{t: \"abc\"})",
            json!("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
        ),
        ("template_text(\"{{ 'eA==' | b64decode }}:{{ t | nindent(2) }}\", #{t: \"a\\nb\"})", json!("x:\n  a\n  b")),
    ]);
    fails(&[
        ("template_text(\"{{ a }}\")", "undefined"),
        ("template_text(\"{{ a | to_yaml }}\" + \"\", #{})", "undefined"),
        ("template_text(\"{% include 'main.rhai' %}\" + \"\", #{})", "main.rhai"),
        ("template_text(\"\\n{{ '/w==' | b64decode }}\" + \"\", #{})", "text:2: the bytes are not UTF-8"),
    ]);
}

#[test]
fn errors_of_the_library_can_be_caught() {
    let text = "try { version::parse(\"x\") } catch (error) { return [error.kind, error.message]; }";
    assert_eq!(result(text), json!(["parse", "`version::parse`: \"x\" is no version, as \"1.2.3\""]));
    let text = "try { [1].union(2) } catch (error) { return error.kind; }";
    assert_eq!(result(text), json!("argument"));
}

#[test]
fn bytes_are_values() {
    gives(&[
        (
            "let b = base64::decode_bytes(\"/wBh\"); return [b.len(), b[0], b[-1], b.to_hex(), b.to_base64(), `${b}`]",
            json!([3, 255, 97, "ff0061", "/wBh", "bytes(3)"]),
        ),
        ("to_bytes(\"Grüße\").to_text()", json!("Grüße")),
        ("(to_bytes([1, 2]) + hex::decode(\"03fF\")).to_hex()", json!("010203ff")),
        ("to_bytes(\"abcd\").extract(1, 2) == to_bytes(\"bc\")", json!(true)),
        ("to_bytes(\"a\") != to_bytes(\"b\") && to_bytes(\"\").is_empty()", json!(true)),
        ("#{data: #{key: to_bytes(\"x\")}}", json!({"data": {"key": "eA=="}})),
        ("[base64::encode(to_bytes([255])), hex::encode(\"ab\")]", json!(["/w==", "6162"])),
    ]);
    fails(&[
        ("to_bytes([255]).to_text()", "not UTF-8"),
        ("to_bytes([256])", "integers from 0 to 255"),
        ("to_bytes(1.5)", "must be a text or bytes"),
        ("hex::decode(\"abc\")", "an even number of hexadecimal digits"),
        ("hex::decode(\"zz\")", "an even number of hexadecimal digits"),
        ("base64::decode_bytes(\"*\")", "base64::decode_bytes"),
    ]);
}

/// The vectors of RFC 1321, FIPS 180, RFC 7693, RFC 2202 and RFC 4231.
#[test]
fn digests_and_codes_are_those_of_the_published_vectors() {
    gives(&[
        ("crypto::md5(\"abc\")", json!("900150983cd24fb0d6963f7d28e17f72")),
        ("crypto::sha1(\"abc\")", json!("a9993e364706816aba3e25717850c26c9cd0d89d")),
        ("crypto::sha224(\"abc\")", json!("23097d223405d8228642a477bda255b32aadbce4bda0b3f7e36c9da7")),
        ("crypto::sha256(to_bytes(\"abc\")) == sha256(\"abc\")", json!(true)),
        (
            "crypto::sha384(\"abc\")",
            json!("cb00753f45a35e8bb5a03d699ac65007272c32ab0eded1631a8b605a43ff5bed8086072ba1e7cc2358baeca134c825a7"),
        ),
        ("crypto::sha512(\"abc\").sub_string(0, 32)", json!("ddaf35a193617abacc417349ae204131")),
        ("crypto::blake2b(\"abc\").sub_string(0, 32)", json!("ba80a53f981c4d0d6a2797b69f12f6e9")),
        (
            "crypto::hmac(\"md5\", \"Jefe\", \"what do ya want for nothing?\")",
            json!("750c783e6ab0b503eaa86e310a5db738"),
        ),
        (
            "crypto::hmac(\"sha1\", \"Jefe\", \"what do ya want for nothing?\")",
            json!("effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"),
        ),
        (
            "crypto::hmac(\"sha256\", hex::decode(\"0b\".repeated(20)), \"Hi There\")",
            json!("b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"),
        ),
        (
            "[crypto::equal(\"a\", to_bytes(\"a\")), crypto::equal(\"a\", \"b\"), crypto::equal(\"a\", \"ab\")]",
            json!([true, false, false]),
        ),
    ]);
    fails(&[
        ("crypto::hmac(\"crc\", \"k\", \"v\")", "the algorithm is md5"),
        ("crypto::sha1(1)", "must be a text or bytes, not an integer"),
    ]);
}

#[test]
fn passwords_and_tokens_have_their_lengths_and_alphabets() {
    gives(&[
        ("regex::is_match(\"^[A-Za-z0-9]{32}$\", random::password(32))", json!(true)),
        ("regex::is_match(\"^[ab]{200}$\", random::password(200, \"aabb\"))", json!(true)),
        ("regex::is_match(\"^[A-Za-z0-9_-]{43}$\", random::token(43))", json!(true)),
        ("random::bytes(16).len()", json!(16)),
        ("random::password(20) == random::password(20)", json!(false)),
    ]);
    fails(&[
        ("random::password(0)", "an integer from 1 to 4096"),
        ("random::password(8, \"a\")", "from 2 to 256 characters"),
    ]);
    let operator = super::world::Operator::new("").asks("random::token(8) != \"\"", false);
    let problems = super::world::in_virtual_time(async {
        operator.start_on(kopfd::script::Threads::Current).await.err().map(|problems| problems[0].message.clone())
    });
    assert_eq!(problems.as_deref(), Some("`random::token` is not available in expressions"));
}
