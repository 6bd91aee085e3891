//! Errors reported before anything runs.

use kopfd::script::{Limits, Threads};

use super::endings::returned;
use super::world::{Operator, in_virtual_time};

fn problems(operator: Operator) -> Vec<String> {
    let started = in_virtual_time(async { operator.start_on(Threads::Current).await.err() });
    started.expect("there is something wrong").into_iter().map(|problem| problem.message).collect()
}

#[test]
fn wrong_scripts_are_not_installed() {
    for (operator, part) in [
        (Operator::new("fn f(nmae) {}").binds("f", Limits::default()), "`nmae` is no argument"),
        (Operator::new("fn g() {}").binds("f", Limits::default()), "no function `f`"),
        (Operator::new("private fn f() {}").binds("f", Limits::default()), "private"),
        (Operator::new("fn f() {} fn f(name) {}").binds("f", Limits::default()), "there are 2 functions `f`"),
        (Operator::new("fn f( {}").binds("f", Limits::default()), ""),
        (Operator::new("").runs("let x = ;"), ""),
        (Operator::new("").asks("let x = 1", false), ""),
        (Operator::new("import \"missing\" as m;").runs("1"), "missing"),
        (Operator::new("import \"../up\" as m;").runs("1"), "`..`"),
        (Operator::new("loop {}").runs("1"), "operations"),
        (Operator::new("sleep(1);").runs("1"), "not available in the top level"),
        (Operator::new("throw \"no\";").runs("1"), "no"),
    ] {
        let found = problems(operator);
        assert!(found.iter().any(|text| text.contains(part)), "{part}: {found:?}");
    }
}

#[test]
fn a_circle_of_imports_is_shown() {
    let operator = Operator::new("import \"lib/b\" as b;")
        .with_file("lib/b.rhai", "import \"./c\" as c;")
        .with_file("lib/c.rhai", "import \"main\" as m;");
    let found = problems(operator.runs("1")).join("\n");
    assert!(found.contains("lib/b.rhai -> lib/c.rhai -> main.rhai"), "{found}");
}

#[test]
fn files_see_their_constants_and_imports() {
    in_virtual_time(async {
        let main = "import \"lib/util\" as util; const BASE = 10; fn f(spec) { return util::plus(BASE, spec.size); }";
        let util = "import \"./more\" as more; const ONE = 1; fn plus(a, b) { a + b + ONE + more::two() }";
        let operator =
            Operator::new(main).with_file("lib/util.rhai", util).with_file("lib/more.rhai", "fn two() { 2 }");
        let world = operator.binds("f", Limits::default()).runs("return BASE + util::plus(1, 1);").start().await;
        assert_eq!(returned(world.call(0).await), 16);
        assert_eq!(returned(world.call(1).await), 15);
    });
}

#[test]
fn imported_files_do_not_see_the_functions_of_each_other() {
    in_virtual_time(async {
        let main = r#"
            import "one" as one;
            import "two" as two;
            export const SHOWN = 5;
            fn f(spec) {
                let seen = [];
                for round in 0..4 {
                    seen.push(one::tell(1) + two::tell(1) + own(1));
                    seen.push(#{ a: 7 }.get("a", 0));
                    seen.push(two::apply(|x| x + own(x)));
                }
                return seen + [one::SHOWN, one::two::tell(1)];
            }
            fn own(x) { "m" }
        "#;
        let one = r#"
            import "two" as two;
            export const SHOWN = 1;
            fn tell(x) { helper(x) + get("a", 1) }
            private fn helper(x) { "one " }
            private fn own(x) { "never" }
            fn get(path, default) { "own " }
        "#;
        let two = r#"
            const MAP = #{ a: "two " };
            fn tell(x) { helper(x) + global::MAP.get("a", 0) }
            private fn helper(x) { "second " }
            fn apply(function) { function.call("c") }
        "#;
        let operator = Operator::new(main).with_file("one.rhai", one).with_file("two.rhai", two);
        let world = operator.binds("f", Limits::default()).start().await;
        let expected = ["one own second two m".into(), serde_json::json!(7), "cm".into()];
        let mut expected: Vec<serde_json::Value> = std::iter::repeat_n(expected, 4).flatten().collect();
        expected.extend([1.into(), "second two ".into()]);
        assert_eq!(returned(world.call(0).await), serde_json::Value::Array(expected));
    });
}

#[test]
fn kwargs_are_everything() {
    in_virtual_time(async {
        let world = Operator::new("fn f(kwargs) { return [kwargs.name, kwargs.spec.size, kwargs.retry]; }")
            .binds("f", Limits::default())
            .start()
            .await;
        assert_eq!(returned(world.call(0).await), serde_json::json!(["obj", 3, 0]));
    });
}
