//! Closures that use the variable whose method calls them.

use kopfd::handling::Verdict;
use serde_json::json;

use super::world::{patch, result, run};

#[test]
fn closures_read_the_list_on_which_the_method_is_called() {
    for (expression, expected) in [
        ("l.filter(|x| x != l[0])", json!([1, 2])),
        ("l.map(|x| x + l.len())", json!([6, 4, 5])),
        ("l.all(|x| x <= l[0])", json!(true)),
        ("l.some(|x| x > l[0])", json!(false)),
        ("l.find(|x| x == l[1])", json!(1)),
        ("l.find(|x| x == l[1], 1)", json!(1)),
        ("l.find_map(|x| if x == l[1] { x * 10 })", json!(10)),
        ("l.index_of(|x| x == l[2])", json!(2)),
        ("l.index_of(|x| x == l[2], 1)", json!(2)),
        ("l.reduce(|sum, x| sum + x + l.len(), 0)", json!(15)),
        ("l.reduce(|sum, x| (sum ?? 0) + x + l.len())", json!(15)),
        ("l.reduce_rev(|sum, x| sum * 10 + x + l[0] - 3, 0)", json!(213)),
        ("l.zip([1, 1, 1], |a, b| a + b + l[0])", json!([7, 5, 6])),
        ("l.order(|a, b| if l[0] == 3 { a - b } else { 0 })", json!([1, 2, 3])),
        ("l.order_by(|a, b| if l[0] == 3 { a - b } else { 0 })", json!([1, 2, 3])),
        ("l.filter(|x| x != l[0]).map(|x| x + l[0]).len() + l.len()", json!(5)),
        ("l.filter(|x, i| i < l.len() - 1)", json!([3, 1])),
        ("l.map(|x| l.filter(|y| y > x).len() + l.len())", json!([3, 5, 4])),
        ("l.map(|x| l.map(|y| l.index_of(|z| z == y && l[0] == 3)))[0]", json!([0, 1, 2])),
        ("filter(l, |x| x != l[0])", json!([1, 2])),
        ("l.group_by(|x| x >= l[0])", json!({"false": [1, 2], "true": [3]})),
        ("l.unique_by(|x| x > l[1])", json!([3, 1])),
        ("l.sorted_by(|x| if l[0] == 3 { -x } else { x })", json!([3, 2, 1])),
    ] {
        assert_eq!(result(&format!("let l = [3, 1, 2]; return {expression};")), expected, "{expression}");
        assert_eq!(
            result(&format!("let l = [3, 1, 2]; let f = || {expression}; return f.call();")),
            expected,
            "{expression}"
        );
    }
}

#[test]
fn closures_read_the_map_on_which_the_method_is_called() {
    for (expression, expected) in [
        ("m.keys().filter(|k| m[k] == 1)", json!(["a"])),
        ("m.values().map(|v| v + m.a)", json!([2, 3])),
        ("m.keys().map(|k| `${k}=${m[k]}`).filter(|t| t.len() > m.b)", json!(["a=1", "b=2"])),
        ("m.filter(|k| m[k] > 1)", json!({"b": 2})),
        ("m.map(|k, v| v + m.len())", json!({"a": 3, "b": 4})),
        ("m.keys().filter(|k| m.keys().some(|other| m[other] > m[k]))", json!(["a"])),
        ("m.keys().reduce(|sum, k| sum + m[k], 0)", json!(3)),
    ] {
        assert_eq!(result(&format!("let m = #{{a: 1, b: 2}}; return {expression};")), expected, "{expression}");
    }
}

#[test]
fn closures_read_the_variable_in_which_the_list_is() {
    for (expression, expected) in [
        ("m.items.filter(|i| i < m.limit)", json!([1])),
        ("m[\"items\"].filter(|i| i < m[\"limit\"])", json!([1])),
        ("m.nested.items.map(|i| i + m.items.len() + m.nested.items.len())", json!([8])),
        ("m.rows[1].filter(|i| i > m.rows[0][0])", json!([9])),
        ("m.rows[-1].filter(|i| i > m.rows[0].len())", json!([9])),
        ("m.rows.map(|row| row.filter(|i| row.contains(i) && m.limit > i)).len()", json!(2)),
        ("m?.items?.filter(|i| i < m.limit)", json!([1])),
        ("m.items.filter(|i| m.nested.items.some(|n| n > m.items.len() + i))", json!([1])),
        ("m.name.split(\",\").filter(|part| part != m.items[0].to_string())", json!(["x", "y"])),
    ] {
        let map = "#{items: [1, 3], limit: 2, name: \"x,1,y\", nested: #{items: [5]}, rows: [[1], [0, 9]]}";
        assert_eq!(result(&format!("let m = {map}; return {expression};")), expected, "{expression}");
    }
}

#[test]
fn methods_that_change_the_value_do_so_with_closures_that_read_it() {
    for (text, expected) in [
        ("l.retain(|x| x != l[0]);", json!([1, 2, 3])),
        ("l.drain(|x| x == l[0]);", json!([1, 2, 3])),
        ("l.sort(|a, b| if l.len() == 4 { a - b } else { 0 });", json!([1, 2, 3, 7])),
        ("l.sort_by(|a, b| if l[0] == 7 { b - a } else { 0 });", json!([7, 3, 2, 1])),
        ("l.dedup(|a, b| l.len() == 4 && a < b + 5);", json!([7, 1])),
        ("l.for_each(|i| this += i + l.len());", json!([11, 6, 8, 10])),
        ("l.for_each(|| this += l[0]);", json!([14, 8, 9, 10])),
        ("l.filter(|x| { l.push(x); false });", json!([7, 1, 2, 3, 7, 1, 2, 3])),
        ("l.for_each(|i| l[0] += i);", json!([13, 1, 2, 3])),
        ("l.for_each(|| l.push(this));", json!([7, 1, 2, 3, 7, 1, 2, 3])),
    ] {
        assert_eq!(result(&format!("let l = [7, 1, 2, 3]; {text} return l;")), expected, "{text}");
        assert_eq!(
            result(&format!(
                "let m = #{{l: [7, 1, 2, 3]}}; {} return m.l;",
                text.replace("l.", "m.l.").replace("l[", "m.l[")
            )),
            expected,
            "{text}"
        );
    }
    for (text, expected) in [
        ("m.retain(|k| m[k] > 1);", json!({"b": 2, "c": 3})),
        ("m.drain(|k| m[k] > m.a);", json!({"a": 1})),
        ("m.keys().for_each(|| m[this] += 1);", json!({"a": 2, "b": 3, "c": 4})),
        ("m.keys().filter(|k| m[k] > 1).for_each(|| m.remove(this));", json!({"a": 1})),
    ] {
        assert_eq!(result(&format!("let m = #{{a: 1, b: 2, c: 3}}; {text} return m;")), expected, "{text}");
    }
}

#[test]
fn other_variables_and_functions_are_as_they_were() {
    for (text, expected) in [
        ("let sum = 0; [1, 2].for_each(|| sum += this); return sum;", json!(3)),
        ("let out = []; [1, 2].for_each(|| out.push(this * 2)); return out;", json!([2, 4])),
        ("let out = #{}; [\"a\"].for_each(|| out[this] = 1); out.b = 2; return out;", json!({"a": 1, "b": 2})),
        ("let a = [1]; let f = || a.push(2); let b = a; f.call(); return [a, b];", json!([[1, 2], [1]])),
        ("let a = [1]; let b = a; b.filter(|x| true); b.push(2); return [a, b];", json!([[1], [1, 2]])),
        ("let f = (); f = |n| if n == 0 { 0 } else { n + f.call(n - 1) }; return f.call(3);", json!(6)),
        ("let n = 1; let f = |x| x + n; n = 5; return f.call(1);", json!(6)),
        ("return [[1, 2], [3]].map(|item| item.filter(|x| x != item[0]));", json!([[2], []])),
        ("return [1, 2].map(|item| { let item = [item, 9]; item.filter(|x| x != item[0]) });", json!([[9], [9]])),
        (
            "let o = #{items: [1, 2], find: |x| x * 10}; return [o.find(4), o.items.filter(|i| i > 1)];",
            json!([40, [2]]),
        ),
        ("let l = [1]; let g = |x| x > l[0]; return [2, 0].filter(g) + l.filter(g);", json!([2])),
        ("let o = spec.copy(); return o.list.filter(|i| i == o.size - 1);", json!([2])),
        ("let o = #{s: spec}; return o.s.list.filter(|i| i == o.s.size - 1);", json!([2])),
        ("return spec.list.filter(|i| i == spec.list[1] && spec.nested.deep.leaf);", json!([2])),
        ("return labels.keys().filter(|k| labels[k] == \"web\");", json!(["app"])),
        ("const L = [1, 2]; return L.filter(|x| x > L[0]);", json!([2])),
        ("return [LIMIT].map(|x| x + LIMIT);", json!([10])),
        ("let l = [2, 1]; let c = []; for x in l { c.push(l.filter(|y| y < x).len()); } return c;", json!([1, 0])),
        ("memo.l = [1, 2]; memo.limit = 1; return memo.l.filter(|x| x > memo.limit);", json!([2])),
        ("let t = \"a,b\"; return t.split(\",\").filter(|part| t.starts_with(part));", json!(["a"])),
    ] {
        assert_eq!(result(text), expected, "{text}");
    }
    let kept =
        patch("patch.status.l = [1, 2]; patch.status.kept = patch.status.l.filter(|x| x in patch.status.l && x > 1);");
    assert_eq!(kept["status"]["kept"], json!([2]));
}

#[test]
fn changes_that_contradict_each_other_are_errors_with_their_place() {
    for (text, part) in [
        (
            "let l = [1, 2, 3]; l.retain(|x| { l.push(x); x > 1 });",
            "`retain` changes `l`, and a closure that it calls changes it, too",
        ),
        ("let m = #{l: [2, 1]}; m.l.sort(|a, b| { m.l = []; a - b });", "`sort` changes `m`"),
        ("const L = [2, 1]; L.retain(|x| x > L[1]);", "constant"),
        ("let l = [1]; l.filter(|x| x.oops);", "an integer has no `oops`"),
        ("let l = [1]; l.filter(|x| l[9] == x);", "the list has 1 item"),
    ] {
        let Verdict::Failed { text: error, trace, .. } = run(text).verdict else { panic!("{text}") };
        assert!(error.contains(part), "{text}: {error}");
        assert!(trace.as_deref().unwrap_or_default().contains("(operator.yaml:10:"), "{text}: {trace:?}");
    }
}

#[test]
fn a_variable_used_by_its_own_method_is_reported_as_in_use() {
    let text = "fn keep(f) { this.retain(f) } let l = [1, 2]; l.keep(|x| x > l[0]); return l;";
    let Verdict::Failed { text: error, trace, .. } = run(text).verdict else { panic!("{text}") };
    assert_eq!(
        error,
        "a variable is in use by the method that calls this closure: give the closure a copy, made before the call"
    );
    let lines: Vec<&str> = trace.as_deref().unwrap_or_default().lines().map(str::trim).collect();
    assert_eq!(lines, ["--> keep (operator.yaml)", "called from inline (operator.yaml:10:56)"]);
    let text = "fn keep(f) { this.retain(f) } let l = [1, 2]; let first = l[0]; l.keep(|x| x > first); return l;";
    assert_eq!(result(text), json!([2]));
}
