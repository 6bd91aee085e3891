use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use rhai::{Dynamic, EvalAltResult};
use serde_json::{Value, json};

use crate::kit::Stop;
use crate::script::interface::declaration::Allow;
use crate::script::language::convert;
use crate::script::limits::{Limit, Limits};
use crate::script::outside;
use crate::script::outside::Outside;
use crate::script::outside::files::{FileError, FileFailure, FilePath, FilePattern, Files};
use crate::script::outside::programs::{
    AllowedProgram, Finished, ProgramError, ProgramFailure, ProgramRequest, Programs,
};
use crate::script::runtime::budget::{Budget, Ending};
use crate::script::runtime::context::testing::{environment, run_as, run_in};
use crate::script::runtime::context::{Context, Environment, Mode};
use crate::script::values::script_error::Failure;

/// Answers with the request itself, and keeps the requests.
#[derive(Default)]
struct Echo {
    requests: Mutex<Vec<ProgramRequest>>,
    dropped: Mutex<usize>,
}

impl Programs for Echo {
    fn run(&self, request: ProgramRequest) -> BoxFuture<'_, Result<Finished, ProgramError>> {
        let first = request.arguments.first().cloned().unwrap_or_default();
        self.requests.lock().push(request.clone());
        let ended = Ended(self);
        async move {
            let _ended = ended;
            match first.as_str() {
                "hang" => std::future::pending().await,
                "timeout" => Err(ProgramError {
                    stderr: b"so far".to_vec(),
                    ..ProgramError::new(ProgramFailure::Timeout, "too late")
                }),
                _ => {
                    let code = request.environment.get("CODE").map_or(0, |code| code.parse().unwrap());
                    Ok(Finished { code, stdout: request.stdin, stderr: b"err\n".to_vec(), files: request.files })
                }
            }
        }
        .boxed()
    }
}

struct Ended<'a>(&'a Echo);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        *self.0.dropped.lock() += 1;
    }
}

/// Files in memory.
struct Memory;

impl Files for Memory {
    fn read(&self, _: FilePattern, path: FilePath, _: usize) -> BoxFuture<'_, Result<Vec<u8>, FileError>> {
        let found = match path.to_string().as_str() {
            "/etc/app/a.yaml" => Ok(b"a: 1".to_vec()),
            "/etc/app/key" => Ok(vec![0, 255]),
            _ => Err(FileError::new(FileFailure::NotFound, "it does not exist")),
        };
        std::future::ready(found).boxed()
    }

    fn list(&self, allowed: Vec<FilePattern>, wanted: FilePattern) -> BoxFuture<'_, Result<Vec<String>, FileError>> {
        let shown = allowed.iter().chain([&wanted]).map(ToString::to_string).collect();
        std::future::ready(Ok(shown)).boxed()
    }
}

fn with(programs: &Arc<Echo>) -> Environment {
    let program = |args: &[&str]| AllowedProgram {
        path: "/bin/it".into(),
        args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        time: Duration::from_secs(10),
        output: 1_000,
    };
    let exec = BTreeMap::from([("it".to_owned(), program(&["*"])), ("get".to_owned(), program(&["get", "*"]))]);
    let files =
        ["/etc/app/*.yaml", "/etc/app/key", "/etc/app/gone"].map(|text| FilePattern::parse(text).unwrap()).into();
    let outside =
        Outside { programs: Some(Arc::clone(programs) as _), files: Some(Arc::new(Memory)), ..Outside::default() };
    Environment { allow: Allow { exec, files, ..Allow::default() }, outside, ..environment() }
}

async fn ran(script: &str) -> Result<Dynamic, Box<EvalAltResult>> {
    run_as(Mode::Function, with(&Arc::default()), script).await
}

async fn value(script: &str) -> Value {
    convert::to_json(&ran(script).await.unwrap()).unwrap()
}

fn thrown_by(error: EvalAltResult) -> String {
    match error {
        EvalAltResult::ErrorRuntime(thrown, _) => thrown.cast::<Failure>().message,
        other => panic!("{other}"),
    }
}

/// Returns the properties of the error that a script throws.
async fn caught(call: &str) -> Value {
    let script = format!("try {{ {call}; }} catch (e) {{ return [e.kind, e.reason, e.message, e.code, e.stderr]; }}");
    value(&script).await
}

#[tokio::test(start_paused = true)]
async fn a_program_gets_what_the_call_gives() {
    let echo = Arc::<Echo>::default();
    let script = r#"
        let done = exec::run("it", ["a", 3, "$HOME"], #{
            stdin: "input", files: #{ "sub/a": "text", b: random::bytes(3) }, env: #{ A: "1", B: () }, timeout: "3s", outputs: ["*.txt"],
        });
        [done.code, done.stdout, done.stderr, type_of(done.files.b), done.files.b.len()]
    "#;
    let result = run_as(Mode::Function, with(&echo), script).await.unwrap();
    assert_eq!(convert::to_json(&result).unwrap(), json!([0, "input", "err\n", "Bytes", 3]));
    let request = echo.requests.lock().pop().unwrap();
    assert_eq!((request.name.as_str(), request.path.to_str()), ("it", Some("/bin/it")));
    assert_eq!(request.arguments, ["a", "3", "$HOME"]);
    assert_eq!(request.environment, BTreeMap::from([("A".to_owned(), "1".to_owned())]));
    assert_eq!((request.time, request.output), (Duration::from_secs(3), 1_000));
    assert_eq!(request.files["b"].len(), 3, "bytes are no base64");
}

#[tokio::test(start_paused = true)]
async fn a_call_can_only_shorten_the_time() {
    let echo = Arc::<Echo>::default();
    let ran = run_as(Mode::Function, with(&echo), "exec::run(`it`, [], #{ timeout: 60 }).code").await.unwrap();
    assert_eq!(ran.as_int(), Ok(0));
    assert_eq!(echo.requests.lock()[0].time, Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn a_code_is_no_error_unless_it_is_checked() {
    assert_eq!(value("exec::run(`it`, [], #{ env: #{ CODE: `3` } }).code").await, 3);
    let thrown = caught("exec::run(`it`, [], #{ env: #{ CODE: `3` }, check: true })").await;
    assert_eq!(thrown, json!(["exec", "ExitCode", "it has ended with the code 3: err", 3, "err\n"]));
    assert_eq!(value("exec::run(`it`, [], #{ check: true }).code").await, 0);
}

#[tokio::test(start_paused = true)]
async fn output_is_text_or_bytes() {
    assert_eq!(
        value("exec::run(`it`, [], #{ stdin: base64::decode_bytes(`Yf/w`) }).stdout").await,
        "a\u{fffd}\u{fffd}"
    );
    let bytes = "let o = exec::run(`it`, [], #{ stdin: base64::decode_bytes(`YfBi`), binary: true }).stdout; [type_of(o), o.len()]";
    assert_eq!(value(bytes).await, json!(["Bytes", 3]));
}

#[tokio::test(start_paused = true)]
async fn what_is_not_allowed_is_refused() {
    let unlisted = caught("exec::run(`sh`, [])").await;
    assert_eq!(unlisted, json!(["exec", "Forbidden", "the program sh is not listed under `allow.exec`", null, null]));
    let thrown = caught("exec::run(`get`, [`secret-token`])").await;
    let message = "`exec::run`: get is not allowed with these arguments: the argument number 1 must match `get`";
    assert_eq!(thrown, json!(["exec", "Forbidden", message, null, null]));
    for (mode, text) in [
        (Mode::Expression, "expressions"),
        (Mode::TopLevel, "the top level of a file"),
        (Mode::Transform, "transformations"),
    ] {
        for call in ["exec::run(`it`, [])", "file::read(`/etc/app/a.yaml`)", "file::list(`/etc/app`)"] {
            let error = run_as(mode, with(&Arc::default()), call).await.unwrap_err();
            let message = thrown_by(*error);
            assert!(message.contains(&format!("is not available in {text}")), "{call}: {message}");
        }
    }
    let nowhere = Environment { outside: outside::Outside::default(), ..with(&Arc::default()) };
    let error = run_as(Mode::Function, nowhere, "exec::run(`it`, [])").await.unwrap_err();
    assert_eq!(thrown_by(*error), "`exec::run` cannot run programs here");
}

#[tokio::test(start_paused = true)]
async fn failures_have_the_output_so_far() {
    assert_eq!(caught("exec::run(`it`, [`timeout`])").await, json!(["exec", "Timeout", "too late", null, "so far"]));
}

#[tokio::test(start_paused = true)]
async fn wrong_arguments_are_errors() {
    for (call, expected) in [
        ("exec::run(1, [])", "the name of the program must be a text"),
        ("exec::run(`it`, `a b`)", "the arguments must be a list"),
        ("exec::run(`it`, [()])", "an argument must be a text"),
        ("exec::run(`it`, [`a\\u0000`.to_string()], 1)", "the options must be a map"),
        ("exec::run(`it`, [], #{ shell: true })", "there is no option `shell`"),
        ("exec::run(`it`, [], #{ files: #{ `../a`: `` } })", "the path must have no `.` and no `..`"),
        ("exec::run(`it`, [], #{ files: #{ `/a`: `` } })", "without empty parts"),
        ("exec::run(`it`, [], #{ outputs: [`/etc/passwd`] })", "without empty parts"),
        ("exec::run(`it`, [], #{ env: #{ `A=B`: `` } })", "cannot be a variable"),
        ("exec::run(`it`, [], #{ env: #{ A: 1 } })", "the variable A must be a text"),
        ("exec::run(`it`, [], #{ timeout: 0 })", "must be more than zero"),
        ("exec::run(`it`, [], #{ stdin: 1 })", "must be a text or bytes"),
        ("file::read(`etc`)", "the path must be absolute"),
        ("file::list(`/etc/../x`)", "no `..`"),
    ] {
        let thrown = caught(&call.replace("#{ `", "#{ \"").replace("`:", "\":")).await;
        assert!(
            thrown[0] == "argument" && thrown[2].as_str().is_some_and(|text| text.contains(expected)),
            "{call}: {thrown}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_program_ends_with_its_call() {
    let echo = Arc::<Echo>::default();
    let limits = Limits { time: Some(Duration::from_secs(5)), ..Limits::default() };
    let budget = Rc::new(Budget::new(&limits, Stop::new()));
    let context = Context::new(Rc::new(with(&echo)), budget, Mode::Function);
    let began = tokio::time::Instant::now();
    let error = run_in(context, "try { exec::run(`it`, [`hang`]) } catch { 1 }").await.unwrap_err();
    assert!(matches!(*error, EvalAltResult::ErrorTerminated(..)), "{error}");
    assert_eq!((began.elapsed().as_secs(), *echo.dropped.lock()), (5, 1));
}

#[tokio::test(start_paused = true)]
async fn runs_and_reads_count_as_calls() {
    let limits = Limits { api_calls: 3, ..Limits::default() };
    let budget = Rc::new(Budget::new(&limits, Stop::new()));
    let context = Context::new(Rc::new(with(&Arc::default())), budget, Mode::Function);
    let script = "exec::run(`it`, []); file::read(`/etc/app/a.yaml`); file::list(`/etc/app`); try { exec::run(`it`, []) } catch { 1 }";
    let error = run_in(context.clone(), script).await.unwrap_err();
    assert!(matches!(*error, EvalAltResult::ErrorTerminated(..)), "{error}");
    assert!(matches!(context.budget().ending(), Some(Ending::Overrun(overrun)) if overrun.limit == Limit::ApiCalls));
}

#[tokio::test(start_paused = true)]
async fn files_are_texts_or_bytes() {
    assert_eq!(value("yaml::parse(file::read(`/etc/app/a.yaml`)).a").await, 1);
    assert_eq!(value("file::read_bytes(`/etc/app/key`).len()").await, 2);
    let thrown = caught("file::read(`/etc/app/key`)").await;
    assert_eq!(
        thrown,
        json!(["file", "NotText", "/etc/app/key is not UTF-8 text; `file::read_bytes` reads it as bytes", null, null])
    );
    assert_eq!(
        caught("file::read(`/etc/app/gone`)").await,
        json!(["file", "NotFound", "it does not exist", null, null])
    );
    let thrown = caught("file::read(`/etc/passwd`)").await;
    assert_eq!(
        thrown,
        json!(["file", "Forbidden", "the file /etc/passwd is not listed under `allow.files`", null, null])
    );
}

#[tokio::test(start_paused = true)]
async fn lists_ask_for_the_patterns_that_may_have_files() {
    let all = json!(["/etc/app/*.yaml", "/etc/app/key", "/etc/app/gone", "/etc/app/*"]);
    assert_eq!(value("file::list(`/etc/app`)").await, all);
    assert_eq!(value("file::list(`/etc/app/`)").await, all);
    assert_eq!(value("file::list(`/etc/app/k*`)").await, json!(["/etc/app/*.yaml", "/etc/app/key", "/etc/app/k*"]));
    let thrown = caught("file::list(`/root`)").await;
    assert_eq!(thrown, json!(["file", "Forbidden", "no file of /root is listed under `allow.files`", null, null]));
}
