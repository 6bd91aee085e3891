//! Hostile scripts, as data in `tests/limits/`: each is ended by the right limit at the right place, in little memory
//! and time, while another object of the same thread is served.
//!
//! A case has a `name`, the body `run` of a handler or an expression `when`, functions `main`, further `files`,
//! `limits`, and one expectation: `limit` (with `line`, the line of the body, or of `main` if there is one, at which
//! the call ends; `inline: true` means the body in any case), `fails` (a part of the text of an ordinary error),
//! `refused` (a part of the text of an error when the scripts are loaded), or `ends: true` for a script that does no
//! harm. `times` repeats the call.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "these are tests, which tell what they do before the process may die"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kopfd::handling::index::Member;
use kopfd::handling::index_key::Key;
use kopfd::handling::{Candidate, Verdict};
use kopfd::kit::Clock;
use kopfd::object::{Body, yaml};
use kopfd::outside;
use kopfd::script::outside::files::FilePattern;
use kopfd::script::outside::programs::{AllowedProgram, DEFAULT_OUTPUT, DEFAULT_TIME};
use kopfd::script::{Call, Limit, Limits, Options, Plain, Returned, Threads};
use serde_json::{Value, json};

use super::world::{Operator, World};

/// The time for which another object may wait. Unoptimised, single functions of other packages take up to ten times as
/// long.
const MAX_WAIT: Duration = Duration::from_millis(if cfg!(debug_assertions) { 1_000 } else { 100 });

/// The memory that a call may take at its peak, in MiB: five times its limit of 64 MiB. A text in a template that grows
/// beyond the limit is there twice, and one of them is moved to a place of twice its size.
const MAX_MEMORY: u64 = 320;

/// The time limit of a case that sets none: short if it is ended by its time, else long enough for a busy machine.
const TIME: Duration = Duration::from_millis(300);
const LONG_TIME: Duration = Duration::from_mins(2);

/// The line of the manifest at which the body of a handler begins.
const FIRST_LINE: u64 = 10;

struct Case {
    name: String,
    fields: Value,
}

impl Case {
    fn text(&self, key: &str) -> Option<&str> {
        self.fields[key].as_str()
    }

    fn limits(&self) -> Limits {
        let given = &self.fields["limits"];
        let number = |key: &str, default: u64| given[key].as_u64().unwrap_or(default);
        let default = Limits::default();
        // A fast machine makes all operations in less than the time.
        let (time, operations) =
            if self.fields["limit"] == "time" { (TIME, u64::MAX) } else { (LONG_TIME, default.operations) };
        Limits {
            operations: number("operations", operations),
            time: Some(given["time"].as_f64().map_or(time, Duration::from_secs_f64)),
            memory: number("memory", default.memory),
            depth: number("depth", default.depth as u64) as usize,
            string_size: number("stringSize", default.string_size as u64) as usize,
            array_size: number("arraySize", default.array_size as u64) as usize,
            map_size: number("mapSize", default.map_size as u64) as usize,
            api_calls: number("apiCalls", default.api_calls),
            api_calls_per_minute: number("apiCallsPerMinute", default.api_calls_per_minute),
            output: number("output", default.output),
        }
    }

    fn operator(&self) -> Operator {
        let mut operator = Operator::new(self.text("main").unwrap_or_default());
        for (name, text) in self.fields["files"].as_object().into_iter().flatten() {
            operator = operator.with_file(name, text.as_str().unwrap());
        }
        operator = operator.runs("return spec.size;");
        operator = operator.runs(self.text("run").unwrap_or("return 1;"));
        operator.declaration.bindings[1].limits = self.limits();
        let program = |(name, path): (&str, &str)| {
            let (time, output) = (DEFAULT_TIME, DEFAULT_OUTPUT);
            (name.to_owned(), AllowedProgram { path: path.into(), args: vec!["*".to_owned()], time, output })
        };
        let programs = [("cat", "/bin/cat"), ("head", "/usr/bin/head"), ("sh", "/bin/sh")];
        operator.declaration.allow.exec = programs.map(program).into();
        operator.declaration.allow.files = ["/etc/*", "/dev/*"].map(|text| FilePattern::parse(text).unwrap()).into();
        self.text("when").into_iter().fold(operator, |operator, when| operator.asks(when, false))
    }
}

/// Reads the cases of a file, and checks their keys.
fn cases(group: &str) -> Vec<Case> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/limits").join(group).with_extension("yaml");
    let documents = yaml::parse(&std::fs::read_to_string(path).unwrap()).unwrap();
    let known = [
        "name", "run", "when", "main", "files", "limits", "limit", "line", "fails", "refused", "ends", "times",
        "inline",
    ];
    let read = |fields: &Value| {
        let name = fields["name"].as_str().unwrap().to_owned();
        for key in fields.as_object().unwrap().keys() {
            assert!(known.contains(&key.as_str()), "{name}: {key}");
        }
        let expectations = ["limit", "fails", "refused", "ends"].iter().filter(|key| !fields[**key].is_null()).count();
        assert_eq!(expectations, 1, "{name} has one expectation");
        let has_place = !fields["line"].is_null() || !fields["when"].is_null();
        assert!(fields["limit"].is_null() || has_place, "{name}: `limit` needs a `line`");
        Case { name, fields: fields.clone() }
    };
    documents[0].as_array().unwrap().iter().map(read).collect()
}

/// The object that a hostile user of the cluster has written.
fn hostile_object() -> Value {
    let list: Vec<u64> = (0..20_000).collect();
    // Without a pattern, so that an automaton meets new states all the time.
    let bits: String =
        (0_u64..400_000).map(|n| if n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63 == 0 { '0' } else { '1' }).collect();
    json!({
        "apiVersion": "example.com/v1", "kind": "Example",
        "metadata": {"name": "obj", "namespace": "ns", "uid": "u-1"},
        "spec": {
            "size": 3, "text": "x".repeat(1 << 20), "lines": "ab\n".repeat(300_000), "list": list,
            "digits": "0123456789".repeat(100_000), "bits": bits, "huge": i64::MAX, "format": "%1000000000d", "find": "", "pattern": ".*?y|x",
        },
    })
}

/// Returns the processor time of the script thread: unlike the wall time, it does not depend on other processes.
fn processor_time() -> Duration {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path());
    let is_script = |task: &std::path::PathBuf| {
        std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name.starts_with("script-"))
    };
    let times = tasks.filter(is_script).map(|task| std::fs::read_to_string(task.join("schedstat")).unwrap_or_default());
    times
        .map(|times| {
            Duration::from_nanos(times.split(' ').next().and_then(|time| time.parse().ok()).unwrap_or_default())
        })
        .sum()
}

/// Calls the first binding for another object until the future has ended. Returns the longest processor time until an
/// answer.
async fn served_beside<T>(world: &Arc<World>, hostile: impl Future<Output = T>) -> (T, Duration) {
    let mut hostile = std::pin::pin!(hostile);
    let mut longest = Duration::ZERO;
    loop {
        let begun = processor_time();
        let mut call = world.a_call(0);
        call.subject = world.creation("u-2");
        let answer = world.host.call(&world.installed, call);
        tokio::select! {
            biased;
            ended = &mut hostile => return (ended, longest.max(processor_time().saturating_sub(begun))),
            returned = answer => assert_eq!(returned.verdict, Verdict::Returned(Some(json!(3)))),
        }
        longest = longest.max(processor_time().saturating_sub(begun));
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

async fn problem_of(case: &Case) -> Result<(), String> {
    let options =
        Options { threads: Threads::Own(1), outside: outside::of_process(String::new, None), ..Options::default() };
    let started = case.operator().start_at(options, Clock::system()).await;
    let mut world = match started {
        Ok(world) => world,
        Err(problems) => {
            let found = problems.iter().map(|problem| problem.message.clone()).collect::<Vec<_>>().join("; ");
            let is_expected = case.text("refused").is_some_and(|part| found.contains(part));
            return if is_expected { Ok(()) } else { Err(format!("refused: {found}")) };
        }
    };
    world.body = hostile_object();
    let world = Arc::new(world);
    super::hostile::reset_peak_memory();
    let before = super::hostile::peak_memory();
    let begun = processor_time();
    let times = case.fields["times"].as_u64().unwrap_or(1);
    let mut wrong = Vec::new();
    let mut longest = Duration::ZERO;
    for _ in 0..times {
        if case.text("when").is_some() {
            let (asked, waited) = served_beside(&world, world.ask(0, Candidate::Whole)).await;
            longest = longest.max(waited);
            wrong.extend(mismatch_of_expression(case, asked));
        } else {
            let (returned, waited) = served_beside(&world, world.call(1)).await;
            longest = longest.max(waited);
            wrong.extend(mismatch(case, &returned));
        }
    }
    let (taken, grown) = (processor_time().saturating_sub(begun), super::hostile::peak_memory().saturating_sub(before));
    let limit = case.limits().time.unwrap_or_default() * times as u32;
    println!("    {taken:?}, {grown} MiB, others waited {longest:?}");
    if taken > limit + MAX_WAIT {
        wrong.push(format!("it took {taken:?}"));
    }
    if longest > MAX_WAIT {
        wrong.push(format!("another object waited for {longest:?}"));
    }
    if grown > MAX_MEMORY {
        wrong.push(format!("it took {grown} MiB"));
    }
    Arc::into_inner(Arc::into_inner(world).unwrap().host).unwrap().stop().await;
    wrong.dedup();
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
}

fn mismatch(case: &Case, returned: &Returned) -> Option<String> {
    let limit = case.text("limit").map(|name| *Limit::ALL.iter().find(|limit| limit.as_str() == name).unwrap());
    match (&returned.verdict, limit) {
        (Verdict::Failed { text, trace, .. }, Some(limit)) => {
            let line = case.fields["line"].as_u64().unwrap();
            let line = match case.text("main").filter(|_| case.fields["inline"] != true) {
                Some(_) => format!("main.rhai:{line}:"),
                None => format!("operator.yaml:{}:", (FIRST_LINE + line).saturating_sub(1)),
            };
            let trace = trace.clone().unwrap_or_default();
            let is_named = text.starts_with("the call has used up its budget: ");
            // The conversion of a result has no place.
            let is_placed = case.fields["line"] == 0 || trace.lines().next().unwrap_or_default().contains(&line);
            let is_right = returned.overrun == Some(limit) && is_named && is_placed;
            (!is_right).then(|| format!("{:?}: {text}\n{trace}", returned.overrun))
        }
        (Verdict::Failed { text, .. }, None) if case.text("fails").is_some_and(|part| text.contains(part)) => None,
        (Verdict::Returned(_), None) if case.fields["ends"] == true => None,
        (other, _) => Some(shortened(&format!("{other:?}"))),
    }
}

fn mismatch_of_expression(case: &Case, asked: Result<bool, String>) -> Option<String> {
    match (asked, case.text("limit"), case.text("fails")) {
        (Err(text), Some(limit), _) if text.contains(&format!("limits.{limit}")) => None,
        (Err(text), _, Some(part)) if text.contains(part) => None,
        (Ok(_), None, None) => None,
        (other, ..) => Some(shortened(&format!("{other:?}"))),
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(600).collect()
}

fn holds(group: &str) {
    let _alone = super::alone();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let mut wrong: BTreeMap<String, String> = BTreeMap::new();
    for case in cases(group) {
        // If the process dies, this tells why.
        println!("{group}: {}", case.name);
        if let Err(problem) = runtime.block_on(problem_of(&case)) {
            println!("    WRONG: {problem}");
            wrong.insert(case.name.clone(), problem);
        }
    }
    assert!(wrong.is_empty(), "{} of {group} do not hold: {wrong:#?}", wrong.len());
}

#[test]
fn new_calls_wait_while_the_running_ones_hold_more_than_the_process_may() {
    let _alone = super::alone();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let waited = |memory: u64| {
        runtime.block_on(async {
            let operator = Operator::new("")
                .runs("return 3;")
                .runs("let t = \"\"; t.pad(4000000, \"x\"); sleep(2); return t.len();");
            let options = Options { threads: Threads::Own(1), memory, ..Options::default() };
            let world = operator.start_at(options, Clock::system()).await.unwrap();
            let small = async {
                tokio::time::sleep(Duration::from_millis(500)).await;
                let begun = tokio::time::Instant::now();
                let returned =
                    world.host.call(&world.installed, Call { subject: world.creation("u-2"), ..world.a_call(0) }).await;
                assert_eq!(returned.verdict, Verdict::Returned(Some(json!(3))));
                begun.elapsed()
            };
            let (large, waited) = tokio::join!(world.call(1), small);
            assert_eq!(large.verdict, Verdict::Returned(Some(json!(4_000_000))));
            Arc::into_inner(world.host).unwrap().stop().await;
            waited
        })
    };
    assert!(waited(1 << 20) > Duration::from_secs(1), "the other call still sleeps");
    assert!(waited(1 << 30) < Duration::from_secs(1), "there is enough for both");
}

/// Calls a script with a limit of 1 MiB beside an index of 20 MB: one value of each name, and all values under one key.
fn reads_an_index(text: &str) -> Returned {
    let mut operator = Operator::new("").runs(text);
    operator.declaration.indexes = vec!["by_name".into()];
    operator.declaration.bindings[0].limits = Limits { memory: 1 << 20, ..Limits::default() };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let world = operator.start().await;
        let index = world.installed.indexes().get("by_name").unwrap();
        for number in 0..2_000 {
            let name = format!("o{number}");
            let value = Plain::from(json!({"name": name, "text": "x".repeat(10_000)}));
            let entries = [name.as_str(), "all"].map(|key| (Key::from(key), value.clone()));
            let body = Body::from(json!({"metadata": {"namespace": "ns", "name": name, "uid": name}}));
            index.replace(&Member::of(&body), entries.to_vec());
        }
        world.call(0).await
    })
}

#[test]
fn what_is_not_read_of_an_index_is_not_copied() {
    let _alone = super::alone();
    for (text, expected) in [
        ("return by_name.len();", json!(2_001)),
        ("return [\"o7\" in by_name, by_name.contains(\"nobody\")];", json!([true, false])),
        ("let count = 0; for key in by_name { count += 1; } return count;", json!(2_001)),
        ("return by_name[\"o7\"][0].text.len();", json!(10_000)),
        ("return by_name.all.len();", json!(2_000)),
        ("return by_name.all.filter(|one| one.name == \"o7\")[0].name;", json!("o7")),
        ("let sum = 0; for key in by_name.keys() { sum += by_name[key].len(); } return sum;", json!(4_000)),
    ] {
        assert_eq!(reads_an_index(text).verdict, Verdict::Returned(Some(expected)), "{text}");
    }
    // What is copied counts.
    assert_eq!(
        reads_an_index("let all = []; for one in by_name.all { all.push(one.copy()); }").overrun,
        Some(Limit::Memory)
    );
}

/// Tells the process of this test to overflow a stack.
const OVERFLOW: &str = "KOPFD_TEST_OVERFLOW";

#[test]
fn an_overflow_of_the_stack_names_the_script_before_the_process_ends() {
    if std::env::var_os(OVERFLOW).is_some() {
        overflow();
    }
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "limits::an_overflow_of_the_stack_names_the_script_before_the_process_ends", "--nocapture"])
        .env(OVERFLOW, "1");
    let output = super::child::output(&mut command);
    assert!(!output.status.success());
    let told = String::from_utf8_lossy(&output.stderr);
    let line =
        "kopfd: the stack has overflowed in the script of `inline` (operator.yaml:10, object ns/obj); the process ends";
    assert!(told.contains(line), "{told}");
}

/// Nests data where the check of variables does not see it, until a copy of all levels does not fit into the stack.
fn overflow() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    runtime.block_on(async {
        // Each step moves the data into nearly as many levels as an expression of a function may have.
        let nested = format!("{}this.pop(){}", "[".repeat(12), "]".repeat(12));
        let deepen = format!("fn deepen() {{ for step in 0..500 {{ this.push({nested}); }} }}");
        let operator = Operator::new(&format!("{deepen} fn fill() {{ loop {{ this.deepen(); let copy = this; }} }}"));
        let operator = operator.runs("let a = [0]; a.fill();");
        let options = Options { threads: Threads::Own(1), ..Options::default() };
        let world = operator.start_at(options, Clock::system()).await.unwrap();
        world.call(0).await;
    });
}

macro_rules! groups {
    ($($group:ident),+ $(,)?) => {
        $(#[test]
        fn $group() {
            holds(stringify!($group));
        })+

        #[test]
        fn there_are_enough_hostile_scripts() {
            let groups = [$(stringify!($group)),+];
            let files = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/limits")).unwrap().count();
            assert_eq!(files, groups.len(), "every file is a group");
            let names: Vec<String> = groups.iter().flat_map(|group| cases(group)).map(|case| case.name).collect();
            let distinct: std::collections::BTreeSet<&String> = names.iter().collect();
            assert_eq!(distinct.len(), names.len(), "names are distinct");
            assert!(names.len() >= 200, "{}", names.len());
        }
    };
}

groups!(
    callbacks,
    data,
    language,
    library,
    memo_and_patch,
    memory,
    nesting,
    output,
    programs,
    starving,
    sub_handlers,
    templates,
    texts
);
