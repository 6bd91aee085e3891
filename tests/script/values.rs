//! The operations of scripts on objects, on the patch, and on the memory.

use kopfd::handling::Candidate;
use serde_json::json;

use super::world::{Operator, failure, in_virtual_time, patch, result};

#[test]
fn objects_behave_like_maps_and_lists() {
    for (expression, expected) in [
        ("spec.size", json!(3)),
        ("spec.size + 1", json!(4)),
        ("spec[\"name\"]", json!("x")),
        ("spec.missing", json!(null)),
        ("spec.none", json!(null)),
        ("spec?.a?.b ?? \"default\"", json!("default")),
        ("spec.nested.deep.leaf", json!(true)),
        ("spec.list[0]", json!(1)),
        ("spec.list[-1].a", json!("b")),
        ("spec.list.len()", json!(3)),
        ("spec.len()", json!(5)),
        ("status.is_empty()", json!(true)),
        ("status.anything", json!(null)),
        ("labels.keys()", json!(["app", "tier"])),
        ("meta.labels.keys()", json!(["app", "tier"])),
        ("labels.values()", json!(["web", "db"])),
        ("\"app\" in labels", json!(true)),
        ("\"none\" in spec", json!(true)),
        ("\"missing\" in spec", json!(false)),
        ("2 in spec.list", json!(true)),
        ("labels.contains(\"tier\")", json!(true)),
        ("spec.nested == #{deep: #{leaf: true}}", json!(true)),
        ("spec.list == [1, 2, #{a: \"b\"}]", json!(true)),
        ("spec.nested != spec.list", json!(true)),
        ("spec.nested == body.spec.nested", json!(true)),
        ("spec == ()", json!(false)),
        ("labels + #{more: 1}", json!({"app": "web", "tier": "db", "more": 1})),
        ("#{more: 1} + labels", json!({"app": "web", "tier": "db", "more": 1})),
        ("spec.list + [4]", json!([1, 2, {"a": "b"}, 4])),
        ("spec.list.map(|item| type_of(item))", json!(["i64", "i64", "Object"])),
        ("spec.list.filter(|item| item == 2)", json!([2])),
        ("spec.list.some(|item| item == 2)", json!(true)),
        ("spec.list.all(|item| item == 2)", json!(false)),
        ("spec.list.find(|item| item != 1)", json!(2)),
        ("spec.list.filter(|item| item != spec.nested).len()", json!(3)),
        ("[1, 2, 3].reduce(|sum, item| sum + item, 0)", json!(6)),
        ("spec.list.filter(|i| type_of(i) == \"i64\").reduce(|sum, item| sum + item, 0)", json!(3)),
        ("labels.to_json()", json!("{\"app\":\"web\",\"tier\":\"db\"}")),
        ("`${labels}`", json!("{\"app\":\"web\",\"tier\":\"db\"}")),
        ("let c = spec.copy(); c.size = 9; [c.size, spec.size]", json!([9, 3])),
        ("let n = 0; for item in spec.list { n += 1 } n", json!(3)),
        ("let all = []; for key in labels { all.push(key) } all", json!(["app", "tier"])),
        ("spec.nested", json!({"deep": {"leaf": true}})),
        ("name + namespace + uid", json!("obj".to_owned() + "nsu-1")),
        ("meta.name", json!("obj")),
        ("new.spec.size", json!(3)),
        ("old", json!(null)),
        ("diff[0].op", json!("add")),
        ("resource.plural", json!("examples")),
        ("new?.default", json!(null)),
        ("null == ()", json!(true)),
        ("LIMIT + double(LIMIT)", json!(15)),
        ("type_of(started) + retry", json!("Time0")),
        ("reason", json!("create")),
    ] {
        let text = expression.rsplit_once([';', '}']).filter(|_| expression.starts_with("let")).map_or_else(
            || format!("return {expression};"),
            |(before, last)| format!("{before}{} return {last};", &expression[before.len()..=before.len()]),
        );
        assert_eq!(result(&text), expected, "{expression}");
    }
}

#[test]
fn labels_and_annotations_of_an_object_without_any_are_empty_maps() {
    in_virtual_time(async {
        let texts =
            ["labels.app == () && labels.len() == 0", "!(\"app\" in annotations)", "annotations?.note?.len() == ()"];
        let operator = texts.iter().fold(Operator::new(""), |operator, text| operator.asks(text, false));
        let mut world = operator.runs("return [labels, annotations, labels.keys()];").start().await;
        for absent in [json!({"name": "obj"}), json!({"name": "obj", "labels": null, "annotations": null})] {
            world.body["metadata"] = absent;
            for (number, text) in texts.iter().enumerate() {
                assert_eq!(world.ask(number, Candidate::Whole).await, Ok(true), "{text}");
            }
            assert_eq!(super::endings::returned(world.call(0).await), json!([{}, {}, []]));
        }
    });
}

#[test]
fn owner_references_have_the_flags_of_the_options() {
    for (options, expected) in [
        ("#{}", json!({"controller": true, "blockOwnerDeletion": true})),
        ("#{controller: false, blockOwnerDeletion: false}", json!({"controller": false, "blockOwnerDeletion": false})),
        (
            "#{controller: false, block_owner_deletion: false}",
            json!({"controller": false, "blockOwnerDeletion": false}),
        ),
        ("#{controller: (), block_owner_deletion: ()}", json!({})),
    ] {
        let mut expected = expected;
        let owner = json!({"apiVersion": "example.com/v1", "kind": "Example", "name": "obj", "uid": "u-1"});
        expected.as_object_mut().unwrap().extend(owner.as_object().unwrap().clone());
        let text = format!("return append_owner(#{{kind: \"A\"}}, {options}).metadata.ownerReferences;");
        assert_eq!(result(&text), json!([expected]), "{options}");
    }
}

#[test]
fn the_two_names_of_one_option_exclude_each_other() {
    for (first, second) in [("true", "true"), ("true", "false"), ("()", "()")] {
        let text =
            format!("append_owner(#{{kind: \"A\"}}, #{{blockOwnerDeletion: {first}, block_owner_deletion: {second}}})");
        let error = failure(&format!("return {text};"));
        assert_eq!(error, "`blockOwnerDeletion` and `block_owner_deletion` of `append_owner` are one option", "{text}");
    }
}

#[test]
fn an_owner_without_a_uid_adopts_objects_that_have_no_other_owner() {
    let owner = "let owner = #{apiVersion: \"v1\", kind: \"X\", metadata: #{name: \"x\"}};";
    let adopted = result(&format!("{owner} return adopt(#{{kind: \"A\"}}, #{{owner: owner}}).metadata;"));
    let reference =
        json!({"apiVersion": "v1", "kind": "X", "name": "x", "controller": true, "blockOwnerDeletion": true});
    assert_eq!(adopted, json!({"generateName": "x-", "namespace": null, "labels": {}, "ownerReferences": [reference]}));
    for call in ["adopt(o, #{owner: owner})", "append_owner(o, #{owner: owner})", "remove_owner(o, #{owner: owner})"] {
        assert_eq!(
            failure(&format!("{owner} let o = adopt(#{{kind: \"A\"}}); return {call};")),
            "the owner has no uid",
            "{call}"
        );
    }
}

#[test]
fn objects_cannot_be_changed() {
    // Through another variable, so that the check does not refuse it.
    for text in [
        "o.size = 4;",
        "let b = body; b.spec.size = 4;",
        "o.list[0] = 4;",
        "o.fresh = 1;",
        "o.nested.deep.leaf = false;",
    ] {
        let error = failure(&format!("let o = spec; {text}"));
        assert!(error.contains("read-only") && error.contains("patch"), "{text}: {error}");
    }
}

#[test]
fn the_patch_makes_the_maps_that_it_needs() {
    for (text, expected) in [
        ("patch.status.a.b = 1;", json!({"status": {"a": {"b": 1}}})),
        ("patch.metadata.labels[\"x/y\"] = \"z\";", json!({"metadata": {"labels": {"x/y": "z"}}})),
        ("patch.meta.labels.x = \"y\";", json!({"metadata": {"labels": {"x": "y"}}})),
        ("patch.spec.x = ();", json!({"spec": {"x": null}})),
        ("patch.status = #{a: (), b: [1]};", json!({"status": {"a": null, "b": [1]}})),
        ("patch.status = ();", json!({})),
        ("patch.status.list = [1]; patch.status.list.push(2);", json!({"status": {"list": [1, 2]}})),
        ("patch.status.list.push(2);", json!({"status": {"list": [2]}})),
        ("patch.status.list = [#{a: 1}]; patch.status.list[0].a = 2;", json!({"status": {"list": [{"a": 2}]}})),
        ("patch.status.n = 1; patch.status.n += 2;", json!({"status": {"n": 3}})),
        ("let st = patch.status; st.ready = true;", json!({"status": {"ready": true}})),
        ("patch.status.copy = spec.nested;", json!({"status": {"copy": {"deep": {"leaf": true}}}})),
        (
            "patch.status.part = #{labels: labels};",
            json!({"status": {"part": {"labels": {"app": "web", "tier": "db"}}}}),
        ),
        ("let f = || patch.status.x = spec.size; f.call(); f.call();", json!({"status": {"x": 3}})),
        ("let f = |p| p.status.x = 1; f.call(patch);", json!({"status": {"x": 1}})),
        ("if patch.status.x == () { patch.status.y = !(\"x\" in patch.status); }", json!({"status": {"y": true}})),
        ("patch.status.x = 1; patch.status.remove(\"x\");", json!({})),
        ("patch.status.keys();", json!({})),
        ("let x = patch.status.a.b;", json!({})),
    ] {
        assert_eq!(patch(text), expected, "{text}");
    }
}

#[test]
fn values_without_a_json_form_are_refused() {
    for (text, part) in [
        ("patch.status.f = || 1;", "a function has no JSON form"),
        ("patch.status.f = #{a: [0.0 / 0.0]};", "(at a.0)"),
        ("patch.status.x = 1; patch.status.x.y = 2;", "has no `y`"),
        (
            "patch.status.x = 1; let s = patch.status; s.x = 2; let deep = patch.spec.a; patch.spec.a = 1; deep.b = 2;",
            "not a mapping",
        ),
        ("patch.status.n += 1;", "patch.status.n"),
        ("return || 1;", "the result cannot be stored"),
    ] {
        let error = failure(text);
        assert!(error.contains(part), "{text}: {error}");
    }
}

#[test]
fn the_memory_of_an_object_is_shared_by_its_calls() {
    in_virtual_time(async {
        let operator = Operator::new("")
            .runs("memo.n = (memo.n ?? 0) + 1; memo.list = memo.list ?? []; memo.list.push(memo.n); return memo.list;");
        let world = operator
            .runs("memo.f = || 1;")
            .runs("memo.part = spec.nested; memo.part.deep.leaf = 5; return memo.part;")
            .start()
            .await;
        for expected in [json!([1]), json!([1, 2])] {
            assert_eq!(super::endings::returned(world.call(0).await), expected);
        }
        assert!(super::endings::failed(world.call(1).await).contains("plain data"));
        assert_eq!(super::endings::returned(world.call(2).await), json!({"deep": {"leaf": 5}}));
        world.host.forget(&"u-1".into());
        assert_eq!(super::endings::returned(world.call(0).await), json!([1]));
    });
}

#[test]
fn expressions_cannot_change_their_arguments() {
    in_virtual_time(async {
        let mut operator = Operator::new("fn is_big(spec) { spec.size > 2 }");
        for text in [
            "spec.size > 1 && !name.starts_with(\"tmp-\")",
            "spec.none",
            "labels",
            "is_big(spec)",
            "memo.x ?? \"\"",
            "0.0",
        ] {
            operator = operator.asks(text, false);
        }
        for text in ["memo.remove(\"x\")", "patch.status.push(1)", "sleep(1)", "print(1)", "spec.a.b"] {
            operator = operator.asks(text, false);
        }
        let world = operator.asks("value.len() > 3", true).start().await;
        let mut answers = Vec::new();
        for number in 0..6 {
            answers.push(world.ask(number, Candidate::Whole).await.unwrap());
        }
        assert_eq!(answers, [true, false, true, true, false, false]);
        for number in 6..11 {
            assert!(world.ask(number, Candidate::Whole).await.is_err(), "{number}");
        }
        assert!(world.ask(11, Candidate::Value(json!("long enough"))).await.unwrap());
        assert!(world.ask(11, Candidate::Absent).await.is_err());
    });
}
