//! Tests of the reported problems: scripts and bindings in, lines of problems out.

use std::fmt::Write as _;

use serde_json::Value;

use super::*;
use crate::kit::source::SourcePosition;
use crate::script::interface::declaration::BindingKind;

/// Scripts in a folder, and the declarations of a manifest about them.
struct Case {
    folder: tempfile::TempDir,
    declaration: Declaration,
}

fn place(line: usize, column: usize) -> SourcePosition {
    SourcePosition { file: "operator.yaml".into(), line, column }
}

impl Case {
    fn new(script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let declaration = Declaration {
            root: folder.path().to_path_buf(),
            indexes: vec!["by_team".into()],
            ..Declaration::default()
        };
        Self { folder, declaration }.file("main.rhai", script)
    }

    fn file(self, name: &str, text: &str) -> Self {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    fn bind(mut self, kind: BindingKind, code: Declared) -> Self {
        let line = self.declaration.bindings.len() + 1;
        let (limits, param) = (Limits::default(), Value::Null);
        self.declaration.bindings.push(Binding { id: "id".into(), code, kind, limits, place: place(line, 5), param });
        self
    }

    fn runs(self, kind: BindingKind, name: &str) -> Self {
        self.bind(kind, Declared::Function { file: "main.rhai".into(), name: name.into() })
    }

    fn inline(self, kind: BindingKind, text: &str) -> Self {
        self.bind(kind, Declared::Inline { text: text.into(), place: place(20, 7), file: Some("main.rhai".into()) })
    }

    fn when(mut self, kind: BindingKind, text: &str, has_value: bool) -> Self {
        let (file, place) = (Some("main.rhai".into()), place(30 + self.declaration.expressions.len(), 10));
        self.declaration.expressions.push(Expression {
            text: text.into(),
            place,
            kind,
            has_value,
            file,
            is_delay: false,
        });
        self
    }

    /// Returns the problems, one per line, with hints after an arrow. Each must have a hint.
    fn problems(&self) -> String {
        let mut text = String::new();
        for problem in check(&self.declaration) {
            assert!(problem.hint.is_some(), "{}", problem.message);
            let Problem { severity, place: SourcePosition { file, line, column }, message, hint, .. } = problem;
            let file = file.strip_prefix(self.folder.path()).unwrap_or(&file).display().to_string();
            let severity = format!("{severity:?}").to_lowercase();
            let hint = hint.map(|hint| format!(" => {hint}")).unwrap_or_default();
            writeln!(text, "{severity} {file}:{line}:{column} {message}{hint}").unwrap();
        }
        text.replace(&self.folder.path().display().to_string(), "ROOT")
    }
}

fn change(script: &str) -> String {
    Case::new(script).runs(BindingKind::Change, "f").problems()
}

const GOOD: &str = r#"
        import "lib/tools" as tools;
        const SIZE = 3;
        /// Creates the children.
        fn f(spec, name, patch, logger, memo, by_team, kwargs) {
            let items = spec.items ?? [];
            for item in items { logger.info(`${item} of ${name} is ${SIZE + global::SIZE}`); }
            patch.status.state = "x";
            memo.count = (memo.count ?? 0) + 1;
            let doubled = items.map(|item| item * SIZE).filter(|x| x > 1);
            subhandler("a", |spec, name| { helper(spec); });
            subhandler("b", #{param: 1}, Fn("sub"));
            let o = adopt(#{kind: "Pod", handle: || 1});
            o.handle();
            try { k8s::apply(o); } catch (error) { if error.status == 409 { throw temporary("busy", 5); } }
            if by_team["a"].len() > 1 { sleep(1); }
            switch name { "x" => return tools::twice(2), "y" if name.len() > 3 => debug("long"), 1..5 => (), _ => () }
            let n = 0;
            for i in 0..=3 { n += i; if !("x" in spec) || i in [1, 2] { continue } }
            while n > -1 { n -= 1; break; }
            let f = |a| a ** 2;
            let g = call(f, n) + f.call(1) + f.curry(1).call();
            let text = type_of(g) + g.type_of() + `${if n == 1 { "one" } else { n.to_string() }}`;
            let list = [1, 2][-1]; list = o?.spec?["a"]?.b ?? null;
            o.spec.size += 1; o["x"].y = 2;
            tools::twice(items[0].name.sub_string(1));
            o.touch();
            let default = yaml::parse("a: 1").default; let new = default;
            return #{ok: true};
        }
        fn sub(old, new, param) { return new?.x; }
        fn helper(x) { x.keys().len() + random(1, 2) }
        fn touch() { this.touched = now(); }
    "#;

#[test]
fn a_good_script_has_no_problems() {
    let script = GOOD;
    let found = Case::new(script)
        .file("lib/tools.rhai", "import \"./more\" as more; fn twice(x) { more::thrice(x) }")
        .file("lib/more.rhai", "fn thrice(x) { x * 3 }")
        .runs(BindingKind::Change, "f")
        .inline(
            BindingKind::Event,
            "helper(spec); let x = SIZE;\nfn own(a) { a }\nif type == \"ADDED\" { own(x); tools::twice(x); }",
        )
        .when(
            BindingKind::Change,
            "spec.replicas > SIZE && !name.starts_with(\"tmp-\") && spec?.a?.b == by_team.len() && helper2(old)",
            false,
        )
        .when(BindingKind::Change, "value.len() > 3 && labels.app != ()", true)
        .problems();
    assert_eq!(found, "error operator.yaml:30:94 unknown function `helper2` => did you mean `helper`?\n");
}

#[test]
fn unknown_names_are_all_reported_with_suggestions() {
    let found = change(
        r#"fn f(spec, name) {
            let count = spec.count;
            foo(cuont);
            lenn(name);
            yaml::prase(name);
            ymal::parse(name);
            k8s::get();
            helper(1, 2);
            name.to_uper();
            let c = |x| x + missing;
            count(1);
            Fn("helpr");
            f2::g();
            status.x
        }
        let top = 1;
        fn helper(a) { a + top }"#,
    );
    insta::assert_snapshot!(found);
}

#[test]
fn handler_functions_are_public_single_and_take_known_arguments() {
    let found = Case::new("fn f(spec, nmae, foo) {}\nprivate fn g() {}\nfn h() {} fn h(spec) {}\nfn i(stopped) {}")
        .runs(BindingKind::Change, "f")
        .runs(BindingKind::Change, "g")
        .runs(BindingKind::Change, "h")
        .runs(BindingKind::Change, "ff")
        .runs(BindingKind::Change, "i")
        .problems();
    insta::assert_snapshot!(found);
}

#[test]
fn parameters_of_sub_handlers_are_arguments_too() {
    insta::assert_snapshot!(change(
        "fn f(spec) {\n  subhandler(\"a\", |spec, nmae| 1);\n  subhandler(\"b\", Fn(\"g\"));\n}\nfn g(psec) { }"
    ));
}

#[test]
fn host_values_have_known_members() {
    insta::assert_snapshot!(
        Case::new(
            r#"
            fn f(logger, settings) { logger.inof("x"); logger.level; settings.posting.levle = 1; settings.pasting; helper(logger, settings.posting); }
            fn helper(log, posting) { log.warn("x"); [1].for_each(|x| log.tell(x)); }
            fn d(stopped) { stopped.wait(1); stopped.sleep(1); stopped.reason; if stopped.is_set() { } }"#
        )
        .runs(BindingKind::Startup, "f")
        .runs(BindingKind::Daemon, "d")
        .problems()
    );
}

#[test]
fn the_object_cannot_be_assigned_to() {
    insta::assert_snapshot!(change(
        r#"fn f(spec, patch, labels, meta, body, old, name, memo) {
            spec.x = 1;
            spec.a.b[0] = 2;
            labels["a.b/c"] = "x";
            meta.labels.x += "1";
            patch = #{};
            patch.status.x = 1;
            name = "mine";
            memo.x = 1;
            old.x = 1;
            helper(spec);
        }
        fn helper(s) { s.y = 1; let c = |x| { s.z = x; }; c.call(1); shadow(s); }
        fn shadow(s) { let s = s.copy(); s.a = 1; }"#
    ));
}

#[test]
fn calls_are_refused_where_they_cannot_work() {
    insta::assert_snapshot!(
        Case::new(
            r#"
            const NOW = now();
            fn login() { return helper(); }
            fn helper() { k8s::get("v1/secrets", "x") }
            fn event() { subhandler("a", || 1); [1].map(|x| execute()); }
            fn f(patch) { patch.transform(|body| { k8s::get("v1/pods", "x"); return body; }); helper(); subhandler("a", || 1); }
            fn check(x) { sleep(1); log() + x }
            fn log() { print("x"); 1 }"#
        )
        .runs(BindingKind::Login, "login")
        .runs(BindingKind::Event, "event")
        .runs(BindingKind::Change, "f")
        .when(BindingKind::Change, "check(1) > random() && now() > time(\"2020-01-01T00:00:00Z\") && logger.info(name)", false)
        .problems()
    );
}

#[test]
fn lost_results_are_errors_and_hidden_returns_are_warnings() {
    insta::assert_snapshot!(
        Case::new(
            r"
            fn f(spec) { let o = #{}; adopt(o); if true { label(o); } for x in [1] { adopt(o) } adopt(o) }
            fn make(o) { adopt(o) }
            fn index(spec) { #{a: 1} }
            fn validate(spec) { if spec.x == 1 { return false; } return; }
            fn sha256(x) { x }
            fn loops(spec) { for item in spec.items { subhandler(item, || item); [1].map(|x| x + item); } }"
        )
        .runs(BindingKind::Change, "f")
        .runs(BindingKind::Index, "index")
        .runs(BindingKind::Validate, "validate")
        .runs(BindingKind::Change, "loops")
        .inline(BindingKind::Index, "by_team")
        .problems()
    );
}

#[test]
fn functions_in_place_of_methods_that_are_called_are_warnings() {
    let problems = |script: &str| {
        let case = Case::new(script).runs(BindingKind::Change, "f");
        case.problems()
    };
    let get = "fn get(key) { key } fn f(spec) { let m = #{a: 1}; ";
    for called in ["print(m.get(\"a\"));", "print(spec.labels.get(\"a\"));", "print([m].map(|one| one.get(\"a\")));"] {
        let found = problems(&format!("{get}{called} }}"));
        assert!(
            found.contains("`get` is also called where this file calls the method `get` of a value"),
            "{called}: {found}"
        );
    }
    // Without such a call, with another number of arguments, and as a method on purpose.
    for script in [
        format!("{get} print(m); }}"),
        "fn get(map, key) { map[key] } fn f(spec) { print(#{a: 1}.get(\"a\")); }".to_owned(),
        "fn get(key) { this[key] } fn f(spec) { print(#{a: 1}.get(\"a\")); }".to_owned(),
        "fn double(key) { key } fn f(spec) { print(double(1)); }".to_owned(),
    ] {
        assert!(!problems(&script).contains("is also called"), "{script}: {}", problems(&script));
    }
}

#[test]
fn expressions_see_their_arguments_and_warn_about_missing_steps() {
    insta::assert_snapshot!(
        Case::new("fn f() {}")
            .when(BindingKind::Change, "spec.a.b > 1 && retry > 1 && value == 1 && spec.name.starts_with(\"x\")", false)
            .when(BindingKind::Index, "old == new", false)
            .when(BindingKind::Change, "let x = 1", false)
            .when(BindingKind::Change, "name == 'tmp'", false)
            .when(BindingKind::Timer, "meta?.labels?.app == () && value.a.b == 1", true)
            .problems()
    );
}

#[test]
fn one_mistake_in_a_file_gives_one_error() {
    let case = Case::new("fn f(spec) { let x = ; }")
        .runs(BindingKind::Change, "f")
        .runs(BindingKind::Change, "g")
        .inline(BindingKind::Change, "helper(1) + CONSTANT")
        .when(BindingKind::Change, "helper(2)", false);
    insta::assert_snapshot!(case.problems());
}

#[test]
fn imports_are_followed_and_their_mistakes_reported_once() {
    insta::assert_snapshot!(
        Case::new(
            "import \"broken\" as broken;\nimport \"gone\" as gone;\nimport \"../up\" as up;\nimport \"a\" as a;\nimport \"kopf/x\" as x;\n\
             fn f() { broken::x(); gone::y(); a::pub_fn(); a::priv_fn(); a::pub_fn(1); a::K + a::L; import \"inner\" as inner; inner::g(); nowhere::z(); }"
        )
        .file("broken.rhai", "fn x( {}")
        .file("a.rhai", "import \"b\" as b;\nexport const K = 1;\nconst L = 2;\nfn pub_fn() {}\nprivate fn priv_fn() {}")
        .file("b.rhai", "import \"a\" as a;")
        .file("inner.rhai", "fn g() { lost }")
        .runs(BindingKind::Change, "f")
        .problems()
    );
}

#[test]
fn unreadable_files_are_reported_where_the_manifest_names_them() {
    let function = |file: &str| Declared::Function { file: file.into(), name: "f".into() };
    insta::assert_snapshot!(
        Case::new("fn f() {}")
            .file("folder.rhai/x", "")
            .bind(BindingKind::Change, function("gone.rhai"))
            .bind(BindingKind::Change, function("gone.rhai"))
            .bind(BindingKind::Change, function("folder.rhai"))
            .bind(BindingKind::Change, function("../x.rhai"))
            .problems()
    );
}

#[test]
fn places_in_inline_code_are_those_of_the_manifest() {
    insta::assert_snapshot!(
        Case::new("fn f() {}")
            .inline(BindingKind::Change, "let x = 1;\n  foo(x);\nlogger.inof(\"x\");\nspec.x = 1")
            .problems()
    );
}

#[test]
fn syntax_errors_have_hints() {
    let told = |text: &str| Case::new(text).runs(BindingKind::Change, "f").problems();
    let texts = [
        "fn f() { let x = 'abc'; }",
        "fn f(spec) { spec.in }",
        "fn f(spec) { eval(\"1\") }",
        "fn f(x) { if x and y {} }",
        "fn f(x) { let y = x ? 1 : 2; }",
        "fn f(x, x) { }",
        "fn f(x) { x",
        "fn f(x) { \"abc }",
    ];
    insta::assert_snapshot!(texts.map(told).concat());
}

#[test]
fn requests_are_refused_where_nothing_may_wait() {
    let script = r#"
        fn login(param) { http::get(param) }
        fn ask(x) { http::get(x).status == 200 }
        fn f(patch, param) { patch.transform(|body| { http::pages(param); return body; }); }
        const A = http::request("GET", `https://${1}`);"#;
    let case = Case::new(script).runs(BindingKind::Login, "login").runs(BindingKind::Change, "f");
    insta::assert_snapshot!(case.when(BindingKind::Change, "ask(name)", false).problems());
}

#[test]
fn addresses_of_hosts_that_are_not_listed_are_reported() {
    let script = r#"
        fn f(name) {
            http::get("https://api.example.com/x");
            http::get(`https://${name}.example.com/x`);
            http::get("https://api.exmaple.com/x", #{timeout: 5});
            http::post("https://api.example.com:8443/x", 1);
            http::request("GET", "http://other.org/");
            http::delete("api.example.com/x");
            http::get("ftp://api.example.com");
        }"#;
    let mut case = Case::new(script).runs(BindingKind::Change, "f");
    case.declaration.allow.http.push("api.example.com".to_owned());
    insta::assert_snapshot!(case.problems());
}

#[test]
fn metrics_are_counted_in_functions_only() {
    assert_eq!(change("fn f() { metric::inc(\"x\"); metric::set(\"y\", 1, #{ a: \"b\" }); }"), "");
    insta::assert_snapshot!(change(
        "fn f() { metric::inc(); metric::increment(\"x\"); }\nconst X = metric::inc(\"x\");"
    ));
}

#[test]
fn truncated_scripts_are_checked_without_a_panic() {
    let ends: Vec<usize> = GOOD.char_indices().map(|(index, _)| index).step_by(23).collect();
    for (&start, &end) in ends.iter().zip(ends.iter().skip(1)) {
        let case = Case::new(&format!("{}{}", &GOOD[..start], &GOOD[end..]));
        case.runs(BindingKind::Change, "f")
            .inline(BindingKind::Event, &GOOD[start..])
            .when(BindingKind::Change, &GOOD[end..], true)
            .problems();
    }
}

#[test]
fn deep_nesting_is_an_error_of_its_own() {
    for text in [
        "(".repeat(5_000),
        "if true {".repeat(5_000),
        "[".repeat(5_000),
        "a.".repeat(5_000),
        "-".repeat(5_000),
        "|x| ".repeat(5_000),
    ] {
        let found = change(&format!("fn f() {{ {text} }}"));
        assert_eq!(found.lines().count(), 1, "{found}");
    }
}

#[test]
fn many_handlers_of_one_file_are_checked_in_reasonable_time() {
    let functions = (0..200)
        .map(|n| format!("fn f{n}(spec, name, patch) {{ helper(spec); patch.status.x = name.len() + {n}; }}\n"));
    let script = format!("fn helper(x) {{ x.keys() }}\n{}", functions.collect::<String>());
    let case = (0..200).fold(Case::new(&script), |case, n| case.runs(BindingKind::Change, &format!("f{n}")));
    let begun = std::time::Instant::now();
    assert_eq!(case.problems(), "");
    // It takes a fraction of a second even unoptimised; the limit catches quadratic checks.
    assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
}

#[test]
fn words_of_python_give_hints() {
    for (line, expected) in [
        ("if spec.a == None { }", "unknown variable `None` => Rhai writes `()` or `null`"),
        ("let t = str(spec.a);", "unknown function `str` => write `${x}` in back-ticks, or `x.to_string()`"),
        ("let t = name.strip();", "unknown method `strip` => write `text.trimmed()`"),
        ("let m = {\"a\": 1};", "=> Rhai writes a map as `#{ a: 1 }`"),
        ("for k, v in spec { }", "=> the names stand in parentheses"),
        ("let x = 1 if spec.a else 2;", "=> Rhai writes `if condition { a } else { b }`, also as a value"),
        ("raise(\"x\") from None;", "=> Rhai writes `throw`"),
        ("if spec.a is not None { }", "=> Rhai writes `!=`"),
        ("let t = f\"{name}\";", "=> text with values in it stands in back-ticks"),
        ("let l = [x for x in spec.list];", "=> Rhai has no comprehensions"),
        ("let l = spec.list.map(lambda x: x);", "=> Rhai writes a closure as `|x| x + 1`"),
        ("let m = #{ [name]: 1 };", "=> the keys of a map are plain"),
        ("if spec.a and spec.b { }", "=> Rhai writes `&&`"),
        ("if not spec.a { }", "=> Rhai writes `!`"),
        ("if spec.a { } elif spec.b { }", "=> Rhai writes `else if`"),
        ("let t = spec.list[1:2];", "=> Rhai has no slices"),
    ] {
        let problems = change(&format!("fn f(spec, name) {{\n    {line}\n}}"));
        assert!(problems.starts_with("error main.rhai:2:") && problems.contains(expected), "{line}: {problems}");
    }
    let problems = change("def f(spec):\n    pass\n");
    assert!(problems.contains("=> Rhai writes a function as `fn name(a, b) { … }`"), "{problems}");
    let problems = change("fn f(spec, name = 1) { }");
    assert!(problems.contains("=> parameters have no defaults"), "{problems}");
}

#[test]
fn used_results_of_methods_that_return_nothing_are_told() {
    let warned = |line: &str| {
        change(&format!("fn f(spec, name, logger) {{\n    let l = [\"b\"]; let m = #{{}};\n    {line}\n}}"))
    };
    for (line, expected) in [
        (
            "logger.info(\"[\" + name.trim() + \"]\");",
            "`trim` changes its value in place and returns `()`, which is used here => `trimmed()` returns it",
        ),
        ("let s = l.sort();", "`sort` changes its value"),
        ("return name.replace(\"a\", \"b\");", "=> `replaced` returns it"),
        ("let all = l.map(|x| x.trim());", "`trim` changes its value"),
        ("let s = trim(name);", "`trim` changes its value"),
        ("for x in l.reverse() { logger.info(x); }", "`reverse` changes its value"),
    ] {
        let problems = warned(line);
        assert!(problems.starts_with("warning main.rhai:3:") && problems.contains(expected), "{line}: {problems}");
    }
    for line in [
        "l.sort();",
        "let t = name; t.trim(); logger.info(t);",
        "l.for_each(|x| x.trim());",
        "let s = l.pop();",
        "if l.len() > 0 { l.push(1); }",
    ] {
        assert_eq!(warned(line), "", "{line}");
    }
    assert_eq!(change("fn trim(x) { x }\nfn f(name) { let t = trim(name); }"), "");
    let problems = Case::new("").when(BindingKind::Change, "labels.app.trim() == \"x\"", false).problems();
    assert!(problems.contains("`trim` changes its value"), "{problems}");
}

#[test]
fn loops_that_change_only_copies_are_told() {
    let warned =
        |line: &str| change(&format!("fn f(spec, logger, patch) {{\n    let list = [#{{ a: 1 }}];\n    {line}\n}}"));
    for line in [
        "for c in list { c.image = \"x\"; }",
        "for c in list { c.args.push(1); }",
        "for c in list { if spec.a { c.a += 1; } }",
    ] {
        let problems = warned(line);
        assert!(
            problems.starts_with("warning main.rhai:3:") && problems.contains("`c` is a copy of the item"),
            "{line}: {problems}"
        );
    }
    for line in [
        "for c in list { c.image = \"x\"; patch.status.c = c; }",
        "for (c, i) in list { list[i].image = \"x\"; logger.info(c.a); }",
        "for c in list { let c = #{}; c.a = 1; }",
        "for c in list { c.a = 1; let f = || c; f.call(); }",
        "for c in list { c.a = 1; logger.info(`${c}`); }",
        "for c in list { logger.info(c.a); }",
    ] {
        assert_eq!(warned(line), "", "{line}");
    }
}

#[test]
fn a_reduce_without_a_start_is_told() {
    let warned = |line: &str| change(&format!("fn f(spec, logger) {{\n    logger.info({line});\n}}"));
    for line in ["[\"a\"].reduce(|all, x| all + x)", "spec.list.reduce_rev(|all, x| all + x)"] {
        let problems = warned(line);
        assert!(
            problems.starts_with("warning main.rhai:2:") && problems.contains("without a start begins with `()`"),
            "{line}: {problems}"
        );
    }
    for line in [
        "[1].reduce(|all, x| all + x, 0)",
        "[1].reduce(|all, x| if all == () { x } else { all + x })",
        "[1].reduce(|all, x| (all ?? 0) + x)",
    ] {
        assert_eq!(warned(line), "", "{line}");
    }
}
