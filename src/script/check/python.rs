//! Hints for words of Python, and of other languages, that Rhai writes in another way.

use std::sync::LazyLock;

use regex::Regex;

/// Patterns of lines that Rhai cannot read, and what to write. Texts in the lines are blanked, and comments are cut
/// off. The first one counts.
const LINES: &[(&str, &str)] = &[
    (r"^\s*(async\s+)?def\s+\w", "Rhai writes a function as `fn name(a, b) { … }`"),
    (r"^\s*(function|func)\s+\w", "Rhai writes a function as `fn name(a, b) { … }`"),
    (r"^\s*class\s+\w", "Rhai has no classes: use functions, and maps for data"),
    (
        r"^\s*@\w",
        "Rhai has no decorators: handlers are bound to functions in the manifest, as `{on: create, fn: on_create}`",
    ),
    (
        r"^\s*from\s+[\w.]+\s+import\b|^\s*import\s+[\w.]+\s*;?\s*$",
        "Rhai imports a file by its path: `import \"lib/names\" as names;`",
    ),
    (r"\belif\b|\belsif\b", "Rhai writes `else if`"),
    (r"\braise\b", "Rhai writes `throw`, as in `throw temporary(\"why\", 10);`"),
    (r"\bexcept\b", "Rhai writes `try { … } catch (error) { … }`"),
    (r"^\s*(try|finally)\s*:", "Rhai writes `try { … } catch (error) { … }`, and has no `finally`"),
    (r"\blambda\b", "Rhai writes a closure as `|x| x + 1`"),
    (r"\)\s*=>", "Rhai writes a closure as `|x| x + 1`; `=>` is for the cases of `switch`"),
    (
        r"\bfor\s*\(?\s*\w+\s*,\s*\w+\s*\)?\s+in\s+[\w.]+\.items\(\)",
        "`items()` gives one value: `for item in map.items() { item.key, item.value }`",
    ),
    (
        r"\bfor\s+\w+\s*,\s*\w+\s+in\b",
        "the names stand in parentheses, the item first: `for (item, index) in list { … }`; for maps, `for item in map.items() { item.key, item.value }`",
    ),
    // A value before `for`; and a bracket that closes around both, before any `{`, which would begin the block of a
    // loop.
    (
        r"[^\s\[({;]\s+for\s+\w+\s+in\b(?:[^\[\](){};#]|\((?:[^(){}]|\([^(){}]*\))*\)|\[[^\[\]]*\]|#\{[^{}]*\})*[\])}]",
        "Rhai has no comprehensions: write `list.map(|x| …)`, or `list.filter(|x| …)`",
    ),
    (r"\bis\s+not\b", "Rhai writes `!=`, as in `x != ()`"),
    (r"\bis\s+(None|True|False|null)\b", "Rhai writes `==`, as in `x == ()`"),
    (r"\w\s+not\s+in\b", "Rhai writes `!(x in list)`"),
    (r"\band\b", "Rhai writes `&&`"),
    (r"\bor\b", "Rhai writes `||`"),
    (r"\bnot\b", "Rhai writes `!`"),
    (r#"\b[fFrRbB]{1,2}""#, "text with values in it stands in back-ticks: `a ${b}`"),
    (r#"^[^"]*"{3}"#, "text of several lines stands in back-ticks"),
    (r"===|!==", "Rhai writes `==` and `!=`"),
    (r"\+\+|--", "Rhai writes `x += 1` and `x -= 1`"),
    (r"^\s*fn\s+\w+\s*\([^)]*\*", "functions have a fixed number of parameters: pass a list, or a map"),
    (
        r"^\s*fn\s+\w+\s*\([^)]*=",
        "parameters have no defaults: write a second function with fewer parameters, which calls this one",
    ),
    (r"^\s*fn\s+\w+\s*\([^)]*:", "parameters have no types: write only their names"),
    (
        r"#\{[^}]*(\[\w+\]|`[^`]*`)\s*:",
        "the keys of a map are plain: make the map first, then write `map[key] = value;`",
    ),
    (r#"(^|[^#\w]\s*)\{\s*"_*\s*[:,}]"#, "Rhai writes a map as `#{ a: 1 }`"),
    (r"\w\[[^\[\]]*:[^\[\]]*\]", "Rhai has no slices: write `list.extract(1..3)`, or `text.sub_string(1, 3)`"),
    (r"\bif\b[^{]*\belse\b[^{]*$", "Rhai writes `if condition { a } else { b }`, also as a value"),
    (r"^\s*(if|else if|else|for|while|with|match)\b.*:\s*$", "Rhai writes blocks in braces: `if condition { … }`"),
    (r"\bawait\b", "Rhai has no `await`: every call waits by itself, and holds no thread"),
    (r"^\s*del\b", "Rhai writes `map.remove(\"key\")`"),
    (r"^\s*assert\b", "Rhai writes `if !condition { throw \"why\"; }`"),
    (r"^\s*with\b", "Rhai has no `with`: what a call has taken is released at its end"),
    (r"^\s*(var|const\s+\w+\s*:|let\s+\w+\s*:)", "Rhai declares a variable as `let x = 1;`, without a type"),
    (
        r"^\s*(let\s+)?\w+\s*,\s*\w+\s*=[^=]",
        "Rhai assigns one value: `let pair = f(); let a = pair[0]; let b = pair[1];`",
    ),
    (r"\w\([^()]*\b\w+\s*=[^=]", "arguments have no names: write them in their order, or pass a map"),
    (r"^\s*yield\b", "Rhai has no generators: return a list"),
    (r"^\s*(global|nonlocal)\b", "scripts have no global variables: use `memo` or `shared`"),
];

/// Functions of Python, and what takes their place.
const FUNCTIONS: &[(&str, &str)] = &[
    ("any", "write `list.some(|x| …)`"),
    ("bool", "compare, as in `x != ()` or `x.len() > 0`"),
    ("dict", "write `#{ a: 1 }`, or `pairs.to_map()`"),
    ("enumerate", "write `for (item, index) in list { … }`"),
    ("float", "write `parse_float(text)`, or `number.to_float()`"),
    ("getattr", "write `map.get(\"name\", default)`, or `map[name]`"),
    ("hasattr", "write `\"name\" in map`"),
    ("int", "write `parse_int(text)`, or `number.to_int()`"),
    ("isinstance", "write `type_of(x) == \"string\"`"),
    ("list", "write `[…]`"),
    ("open", "templates are the only files: `template(\"file.yaml\", #{…})`"),
    ("repr", "write `json::dump(x)`"),
    ("set", "write `list.unique()`, with `union`, `intersection` and `difference`"),
    ("setattr", "write `map[name] = value`"),
    ("str", "write `${x}` in back-ticks, or `x.to_string()`"),
    ("tuple", "write `[…]`"),
];

/// Methods of Python and of JavaScript, and what takes their place.
const METHODS: &[(&str, &str)] = &[
    ("add", "write `list.push(item)`, and `list.unique()` for a set"),
    ("b64decode", "write `base64::decode(text)`"),
    ("b64encode", "write `base64::encode(text)`"),
    ("capitalize", "write `text.capitalized()`"),
    ("decode", "write `base64::decode(text)` or `url::decode(text)`"),
    ("discard", "write `list.retain(|x| x != item)`"),
    ("encode", "write `base64::encode(text)` or `url::encode(text)`"),
    ("endswith", "write `text.ends_with(\"…\")`"),
    ("extend", "write `list.append(other)`, or `list + other`"),
    ("forEach", "write `list.for_each(|x| …)`, or `for x in list { … }`"),
    ("groups", "`regex::captures(pattern, text)` gives a list of the groups"),
    ("includes", "write `x in list`, or `list.contains(x)`"),
    ("isdigit", "write `regex::is_match(\"^[0-9]+$\", text)`"),
    ("isoformat", "write `time.to_string()`"),
    ("issubset", "write `list.difference(other).is_empty()`"),
    ("length", "write `len()`"),
    ("ljust", "write `text.padded(8)`"),
    ("lstrip", "write `text.trimmed_start()`"),
    ("match", "write `regex::is_match(\"…\", text)`, or `regex::captures(\"…\", text)`"),
    ("matches", "write `regex::is_match(\"…\", text)`"),
    ("removeprefix", "write `text.without_prefix(\"…\")`"),
    ("removesuffix", "write `text.without_suffix(\"…\")`"),
    ("rjust", "write `text.padded_start(8)`"),
    ("rstrip", "write `text.trimmed_end()`"),
    ("setdefault", "write `if !(key in map) { map[key] = value; }`"),
    ("slice", "write `list.extract(1..3)`, or `text.sub_string(1, 3)`"),
    ("splitlines", "write `text.lines()`"),
    ("startswith", "write `text.starts_with(\"…\")`"),
    ("strftime", "write `time.format(\"%Y-%m-%d\")`"),
    ("strip", "write `text.trimmed()`"),
    ("strptime", "write `time(text, \"%Y-%m-%d\")`"),
    ("title", "write `text.title_case()`"),
    ("toLowerCase", "write `text.to_lower()`"),
    ("toString", "write `x.to_string()`"),
    ("toUpperCase", "write `text.to_upper()`"),
    ("total_seconds", "the difference of two times is in seconds already"),
    ("zfill", "write `text.padded_start(8, \"0\")`"),
];

/// Names of Python and of JavaScript that stand for values, and what takes their place.
const NAMES: &[(&str, &str)] = &[
    ("False", "Rhai writes `false`"),
    ("None", "Rhai writes `()` or `null`"),
    ("True", "Rhai writes `true`"),
    ("nil", "Rhai writes `()` or `null`"),
    ("pass", "an empty block is `{ }`"),
    ("self", "Rhai writes `this`, in functions that are called as methods"),
    ("undefined", "Rhai writes `()` or `null`"),
];

/// Returns what to write instead of a line that Rhai cannot read.
pub(super) fn of_line(line: &str) -> Option<&'static str> {
    static PATTERNS: LazyLock<Vec<(Regex, &'static str)>> = LazyLock::new(|| {
        LINES.iter().map(|(pattern, hint)| (Regex::new(pattern).expect("the pattern is valid"), *hint)).collect()
    });
    let line = blanked(line);
    PATTERNS.iter().find(|(pattern, _)| pattern.is_match(&line)).map(|(_, hint)| *hint)
}

/// Returns what takes the place of a function.
pub(super) fn of_function(name: &str) -> Option<&'static str> {
    look_up(FUNCTIONS, name)
}

/// Returns what takes the place of a method.
pub(super) fn of_method(name: &str) -> Option<&'static str> {
    look_up(METHODS, name)
}

/// Returns what takes the place of a name that stands for a value.
pub(super) fn of_name(name: &str) -> Option<&'static str> {
    look_up(NAMES, name)
}

fn look_up(table: &[(&str, &'static str)], name: &str) -> Option<&'static str> {
    table.iter().find(|(known, _)| *known == name).map(|(_, hint)| *hint)
}

/// Returns a line with `_` for the signs of texts in double quotes and for the quotes that end them, and without a
/// comment. The marks of a text of several lines stay.
fn blanked(line: &str) -> String {
    let mut blanked = String::new();
    let mut rest = line;
    while let Some(c) = rest.chars().next() {
        if rest.starts_with("\"\"\"") || rest.starts_with("//") {
            let marks = if rest.starts_with('"') { "\"\"\"" } else { "" };
            return blanked + marks;
        }
        rest = &rest[c.len_utf8()..];
        blanked.push(c);
        if c != '"' {
            continue;
        }
        let length = length_of_text(rest);
        blanked.extend(std::iter::repeat_n('_', rest[..length].chars().count()));
        rest = &rest[length..];
    }
    blanked
}

/// Returns the bytes of a text up to and with the quote that ends it.
fn length_of_text(rest: &str) -> usize {
    let mut is_escaped = false;
    for (index, c) in rest.char_indices() {
        match c {
            '"' if !is_escaped => return index + 1,
            '\\' => is_escaped = !is_escaped,
            _ => is_escaped = false,
        }
    }
    rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_python_gives_its_hint() {
        for (line, hint) in [
            ("def create_fn(spec, **kwargs):", "`fn name(a, b)"),
            ("elif x > 1:", "else if"),
            ("let x = f\"{name}-db\";", "back-ticks"),
            ("let m = {\"a\": 1};", "#{ a: 1 }"),
            ("call({\"a\": 1, \"b\": 2})", "#{ a: 1 }"),
            ("for k, v in m.items() {", "one value"),
            ("for i, x in list {", "in parentheses"),
            ("let y = a if b else c;", "also as a value"),
            ("raise ValueError(\"no\")", "throw"),
            ("except Exception as e:", "catch"),
            ("try:", "catch"),
            ("let f = lambda x: x + 1;", "closure"),
            ("let l = [x.name for x in items];", "comprehensions"),
            ("let l = [x.name for x in f(g(1), [2]) if x];", "comprehensions"),
            ("if any(x.ok for x in spec.items) {", "comprehensions"),
            ("fn f(spec) { let m = {x.key: x for x in spec.items}; }", "comprehensions"),
            ("if x is not None {", "!="),
            ("if x is None {", "=="),
            ("if x not in l {", "!(x in list)"),
            ("if not x {", "`!`"),
            ("if a and b {", "&&"),
            ("if a or b {", "||"),
            ("fn f(a, b = 1) {", "no defaults"),
            ("fn f(*args) {", "fixed number"),
            ("fn f(a: int) {", "no types"),
            ("let m = #{ [key]: 1 };", "map[key] = value"),
            ("let m = #{ `a${x}`: 1 };", "map[key] = value"),
            ("let x = l[1:3];", "slices"),
            ("if x > 1:", "braces"),
            ("import os", "by its path"),
            ("from os import path", "by its path"),
            ("@kopf.on.create(\"x\")", "decorators"),
            ("let a, b = f();", "one value"),
            ("f(a, size = 3)", "no names"),
            ("await f()", "await"),
            ("x++;", "+= 1"),
            ("if a === b {", "`==`"),
            ("let t = \"\"\"abc", "several lines"),
        ] {
            assert!(of_line(line).is_some_and(|found| found.contains(hint)), "{line}: {:?}", of_line(line));
        }
    }

    #[test]
    fn texts_comments_and_loops_on_one_line_give_no_hints() {
        for line in [
            "let x = \"a and b\" c;",
            "let x = 1 // not a word",
            "let x = #{a: 1} y;",
            "#{\"a\": 1} x",
            "x.find(\"elif\") y",
            "fn it(spec) { for x in spec.items { let y = ; } }",
            "fn it(l) { for k in #{a: 1} { f(k) } }",
            "if true { for k in #{ a: 1, b: 2 } { f(k) } }",
            "fn it(l) { f(l) for x in g(h(1), [2]) { f(x) } }",
            "fn it(l) { if l { f(1); } for x in [1, 2] { f(x) } }",
        ] {
            assert_eq!(of_line(line), None, "{line}");
        }
    }
}
