use std::time::{Duration, Instant};

use super::*;
use crate::script::outside::files::FilePattern;
use crate::script::outside::programs::ProgramFailure;

/// Limit of any wait: the machine may be busy.
const PATIENCE: Duration = Duration::from_mins(1);

/// Returns a request for a script of the shell.
fn script(text: &str) -> ProgramRequest {
    request("/bin/sh", &["-c", text])
}

fn request(path: &str, arguments: &[&str]) -> ProgramRequest {
    ProgramRequest {
        name: "it".to_owned(),
        path: path.into(),
        arguments: arguments.iter().map(|argument| (*argument).to_owned()).collect(),
        stdin: Vec::new(),
        environment: std::collections::BTreeMap::new(),
        files: std::collections::BTreeMap::new(),
        outputs: Vec::new(),
        time: PATIENCE,
        output: 1 << 20,
    }
}

async fn run(request: ProgramRequest) -> Result<Finished, ProgramError> {
    LocalPrograms::default().run(request).await
}

/// Tells whether a process exists that is not a zombie. Its number is in a file.
fn is_running(file: &std::path::Path) -> bool {
    let id = std::fs::read_to_string(file).unwrap();
    let status = std::fs::read_to_string(format!("/proc/{}/stat", id.trim())).unwrap_or_default();
    status.rsplit(')').next().is_some_and(|rest| !rest.is_empty() && !rest.trim_start().starts_with('Z'))
}

/// Waits for something, up to a limit.
async fn until(what: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Returns the numbers of the zombies that are children of this process, and belong to a group.
fn zombies(group: &str) -> Vec<String> {
    let own = std::process::id().to_string();
    let stats = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path().join("stat")).ok());
    let is_one = |stat: &String| {
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
        fields.first() == Some(&"Z") && fields.get(1) == Some(&own.as_str()) && fields.get(2) == Some(&group)
    };
    stats.filter(is_one).collect()
}

#[tokio::test]
async fn output_and_code_are_returned() {
    let finished = run(script("echo out; echo err >&2; exit 3")).await.unwrap();
    assert_eq!((finished.code, &*finished.stdout, &*finished.stderr), (3, &b"out\n"[..], &b"err\n"[..]));
    assert_eq!(run(script("kill -9 $$")).await.unwrap().code, -9);
}

#[tokio::test]
async fn the_environment_is_empty_but_for_the_private_directory() {
    let mut request = request("/usr/bin/env", &[]);
    request.environment.insert("REGION".to_owned(), "eu".to_owned());
    let finished = run(request).await.unwrap();
    let text = String::from_utf8(finished.stdout).unwrap();
    let names: Vec<&str> = text.lines().filter_map(|line| line.split('=').next()).collect();
    assert_eq!(names, ["HOME", "REGION", "TMPDIR"], "{text}");
}

#[tokio::test]
async fn arguments_are_no_text_of_a_shell() {
    let finished = run(request("/bin/echo", &["$HOME; `id`", "*"])).await.unwrap();
    assert_eq!(String::from_utf8(finished.stdout).unwrap(), "$HOME; `id` *\n");
}

#[tokio::test]
async fn input_is_written_while_output_is_read() {
    // More than pipes hold, in both directions.
    let input: Vec<u8> = (0..1_000_000_u32).map(|index| index as u8).collect();
    let finished =
        run(ProgramRequest { stdin: input.clone(), output: 2 << 20, ..request("/bin/cat", &[]) }).await.unwrap();
    assert!(finished.stdout == input);
    // A program may end without reading its input.
    assert_eq!(run(ProgramRequest { stdin: input, ..script("exit 4") }).await.unwrap().code, 4);
}

#[tokio::test]
async fn files_go_in_and_come_out() {
    let mut request = script(
        "pwd; ls -l values.yaml; cp values.yaml copy.yaml; mkdir out; echo 1 >out/a.txt; echo 2 >out/b.log; echo 3 >.c.txt",
    );
    request.files.insert("values.yaml".to_owned(), b"a: 1".to_vec());
    request.files.insert("deep/er/x".to_owned(), b"\0\xff".to_vec());
    request.outputs =
        ["copy.yaml", "**/*.txt", "deep/*/x", "missing"].map(|text| FilePattern::relative(text).unwrap()).into();
    let finished = run(request).await.unwrap();
    let text = String::from_utf8(finished.stdout).unwrap();
    assert!(text.contains("-rw-------"), "{text}");
    let names: Vec<&str> = finished.files.keys().map(String::as_str).collect();
    assert_eq!(names, ["copy.yaml", "deep/er/x", "out/a.txt"]);
    assert_eq!(finished.files["deep/er/x"], b"\0\xff");
    let directory = text.lines().next().unwrap();
    assert!(!std::path::Path::new(directory).exists(), "{directory} is removed");
}

#[tokio::test]
async fn no_file_comes_out_through_a_link_or_a_pipe() {
    let mut request =
        script("ln -s /etc/passwd link.txt; mkfifo pipe.txt; ln -s / root; echo 1 >real.txt; ln -s real.txt inner.txt");
    request.outputs = ["*.txt", "root/etc/passwd", "**/passwd"].map(|text| FilePattern::relative(text).unwrap()).into();
    let finished = run(request).await.unwrap();
    assert_eq!(finished.files.keys().collect::<Vec<_>>(), ["inner.txt", "real.txt"]);
}

#[tokio::test]
async fn files_count_in_the_limit_of_output() {
    let mut request = ProgramRequest { output: 1_000, ..script("echo text; head -c 996 /dev/zero >big") };
    request.outputs.push(FilePattern::relative("big").unwrap());
    let error = run(request).await.unwrap_err();
    assert_eq!(
        (error.reason, &*error.message),
        (ProgramFailure::TooMuchOutput, "it has ended, but its files have more than 995 bytes")
    );
    assert_eq!(error.stdout, b"text\n");
}

#[tokio::test]
async fn a_program_that_floods_is_killed() {
    let error =
        run(ProgramRequest { output: 100_000, ..script("echo begin >&2; exec cat /dev/zero") }).await.unwrap_err();
    assert_eq!(
        (error.reason, &*error.message),
        (ProgramFailure::TooMuchOutput, "it has written more than 100000 bytes, and is killed")
    );
    assert_eq!(error.stdout.len() + error.stderr.len(), 100_000);
    assert_eq!(error.stderr, b"begin\n");
}

#[tokio::test]
async fn a_program_that_ignores_signals_and_never_ends_is_killed_with_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let (parent, child) = (folder.path().join("parent"), folder.path().join("child"));
    let text = format!(
        "trap '' TERM INT HUP QUIT; echo begin; sh -c \"trap '' TERM HUP; echo \\$\\$ >{0}.new; mv {0}.new {0}; while :; do sleep 1; done\" & \
         echo $$ >{1}; while :; do sleep 1; done",
        child.display(),
        parent.display()
    );
    let error = run(ProgramRequest { time: Duration::from_secs(2), ..script(&text) }).await.unwrap_err();
    assert_eq!(
        (error.reason, &*error.message),
        (ProgramFailure::Timeout, "it has not ended within 2 seconds, and is killed")
    );
    assert_eq!(error.stdout, b"begin\n");
    assert!(!is_running(&parent));
    assert!(!is_running(&child));
    assert_eq!(zombies(std::fs::read_to_string(&parent).unwrap().trim()), [""; 0]);
}

#[tokio::test]
async fn children_that_outlive_the_program_neither_delay_its_result_nor_stay() {
    let folder = tempfile::tempdir().unwrap();
    let child = folder.path().join("child");
    // The child holds the pipes.
    let text = format!(
        "sh -c 'echo $$ >{0}.new; mv {0}.new {0}; exec sleep 600' & while ! test -e {0}; do :; done; echo done",
        child.display()
    );
    let finished = run(script(&text)).await.unwrap();
    assert_eq!((finished.code, &*finished.stdout), (0, &b"done\n"[..]));
    assert!(!is_running(&child));
}

#[tokio::test]
async fn children_that_leave_the_group_are_killed_too() {
    let folder = tempfile::tempdir().unwrap();
    let child = folder.path().join("child");
    let text = format!(
        "setsid sh -c 'echo $$ >{0}.new; mv {0}.new {0}; exec sleep 600' & while ! test -e {0}; do :; done; echo done",
        child.display()
    );
    let finished = run(script(&text)).await.unwrap();
    assert_eq!((finished.code, &*finished.stdout), (0, &b"done\n"[..]));
    assert!(!is_running(&child));
}

#[tokio::test]
async fn a_program_ends_with_the_call() {
    let folder = tempfile::tempdir().unwrap();
    let (parent, child) = (folder.path().join("parent"), folder.path().join("child"));
    let text = format!(
        "trap '' TERM; pwd >{1}.directory; sh -c 'echo $$ >{0}.new; mv {0}.new {0}; exec sleep 600' & while ! test -e {0}; do :; done; \
         echo $$ >{1}.new; mv {1}.new {1}; while :; do sleep 1; done",
        child.display(),
        parent.display()
    );
    let programs = LocalPrograms::default();
    {
        let running = programs.run(script(&text));
        tokio::pin!(running);
        tokio::select! {
            ended = &mut running => panic!("{ended:?}"),
            () = until("the program has begun", || parent.exists()) => {}
        }
    }
    until("both are killed", || !is_running(&parent) && !is_running(&child)).await;
    until("its place is free", || programs.places.available_permits() == MAX_PROGRAMS).await;
    let directory = std::fs::read_to_string(parent.with_extension("directory")).unwrap();
    assert!(!std::path::Path::new(directory.trim()).exists());
    assert_eq!(zombies(std::fs::read_to_string(&parent).unwrap().trim()), [""; 0]);
}

#[tokio::test]
async fn the_first_process_of_a_container_reaps_what_it_inherits() {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "sleep 600 & echo $! >{0}/same; setsid sleep 600 & echo $! >{0}/other; echo $$ >{0}/leader",
        folder.path().display()
    );
    assert_eq!(run(script(&text)).await.unwrap().code, 0);
    for name in ["same", "other", "leader"] {
        let id = std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(!std::path::Path::new(&format!("/proc/{}", id.trim())).exists(), "{name}");
    }
}

#[tokio::test]
async fn few_programs_run_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let programs = LocalPrograms::default();
    let text = format!("touch {0}/$$; while ! test -e {0}/go; do sleep 0.01; done", folder.path().display());
    let count = || std::fs::read_dir(folder.path()).unwrap().count();
    let all = futures::future::join_all((0..MAX_PROGRAMS + 3).map(|_| programs.run(script(&text))));
    let released = async {
        until("as many as may have begun", || count() == MAX_PROGRAMS).await;
        assert_eq!(programs.places.available_permits(), 0);
        std::fs::write(folder.path().join("go"), "").unwrap();
    };
    let (ended, ()) = tokio::join!(all, released);
    assert!(ended.iter().all(|ended| ended.as_ref().is_ok_and(|finished| finished.code == 0)));
    assert_eq!(count(), MAX_PROGRAMS + 4);
}

#[tokio::test]
async fn a_program_that_cannot_be_started_is_an_error() {
    for path in ["/no/such/program", "/etc/passwd", "/etc"] {
        let error = run(request(path, &[])).await.unwrap_err();
        assert_eq!(error.reason, ProgramFailure::Failed, "{path}");
        assert!(error.message.starts_with(&format!("{path} cannot be started: ")), "{}", error.message);
    }
}
