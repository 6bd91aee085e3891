//! `kopfd dev`: the built binary, without any cluster.

mod hostile;
mod logs;
mod several;

use std::io::{BufRead as _, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command, Output, Stdio};

use kopfd::kit::Clock;

use super::child::{self, LIMIT};

fn example(name: &str, file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name).join(file)
}

fn kopfd(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kopfd"));
    command.arg("dev").arg("--kubeconfig-out").arg(folder.join("kubeconfig")).current_dir(folder);
    command
}

/// Runs an example with `--once`.
fn tried_once(folder: &Path, name: &str) -> Output {
    let mut command = kopfd(folder);
    command
        .arg("--config")
        .arg(example(name, "operator.yaml"))
        .arg("--apply")
        .arg(example(name, "obj.yaml"))
        .arg("--once");
    child::output(&mut command)
}

#[test]
fn an_example_is_tried_once_and_ends_well() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = tried_once(folder.path(), "01-minimal");
    let account = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{account}");
    assert!(!account.contains('\u{1b}'), "colours are for terminals:\n{account}");
    let begins_with_a_time = |line: &str| line.len() > 8 && line[..8].bytes().filter(u8::is_ascii_digit).count() == 6;
    assert!(account.lines().all(begins_with_a_time), "{account}");
    for line in [
        "[default/first-steps] first-steps wants to take 1m.",
        "[default/first-steps] Handler 'on_create' is invoked.",
        "[default/first-steps] Handler 'on_create' succeeded.",
        "[default/first-steps] │ + status.on_create.message: \"will take 1m\"",
    ] {
        assert!(account.contains(line), "{line} is missing in:\n{account}");
    }
    assert!(String::from_utf8_lossy(&run.stdout).starts_with("export KUBECONFIG="));
}

#[test]
fn a_handler_that_fails_for_good_is_the_exit_code() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write(folder.path(), "operator.yaml", &manifest("refuse"));
    write(folder.path(), "code.rhai", "fn refuse(name) { throw permanent(`no ${name}`); }");
    write(folder.path(), "obj.yaml", OBJECT);
    let run = child::output(kopfd(folder.path()).args(["--config", "operator.yaml", "--apply", "obj.yaml", "--once"]));
    let account = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(1), "{account}");
    assert!(account.contains("Handler 'refuse' failed permanently: no one"), "{account}");
    assert!(account.ends_with("error: 1 handler failed permanently: 'refuse' of ConfigMap default/one\n"), "{account}");
}

#[test]
fn a_kind_that_is_not_served_is_the_exit_code() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write(folder.path(), "operator.yaml", &manifest("greet").replace("v1/configmaps", "things.ex.dev"));
    write(folder.path(), "code.rhai", "fn greet() {}");
    let run = child::output(kopfd(folder.path()).args(["--config", "operator.yaml", "--once"]));
    let account = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(1), "{account}");
    assert!(
        account.ends_with("error: unresolved resources cannot be served (try creating their CRDs): ex.dev/things\n"),
        "{account}"
    );
}

#[test]
fn unnamed_kinds_need_not_be_watchable() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write(
        folder.path(),
        "operator.yaml",
        &manifest("greet").replace("v1/configmaps", "everything").replace("create", "event"),
    );
    write(folder.path(), "code.rhai", "fn greet() {}");
    let run = child::output(kopfd(folder.path()).args(["operator.yaml", "--once"]));
    let account = String::from_utf8_lossy(&run.stderr);
    assert!(account.contains("Non-watchable resources will not be served: "), "{account}");
    assert_eq!(run.status.code(), Some(0), "{account}");

    let manifest =
        manifest("greet").replace("v1/configmaps", "tokenreviews.authentication.k8s.io").replace("create", "event");
    write(folder.path(), "operator.yaml", &manifest);
    let run = child::output(kopfd(folder.path()).args(["operator.yaml", "--once"]));
    let account = String::from_utf8_lossy(&run.stderr);
    let reason = "error: non-watchable resources will not be served: tokenreviews.v1.authentication.k8s.io\n";
    assert!(account.ends_with(reason), "{account}");
    assert_eq!(run.status.code(), Some(1), "{account}");
}

#[test]
fn a_trial_that_does_not_settle_lists_its_pending_handlers() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write(folder.path(), "operator.yaml", &manifest("wait"));
    write(folder.path(), "code.rhai", "fn wait() { throw temporary(\"not yet\", 3600); }");
    write(folder.path(), "obj.yaml", OBJECT);
    let once = ["operator.yaml", "--apply", "obj.yaml", "--once", "--timeout", "2s"];
    let run = child::output(kopfd(folder.path()).args(once));
    let account = String::from_utf8_lossy(&run.stderr);
    let expected = "not settled within 2s: 'wait' of ConfigMap default/one is retried in N seconds (not yet)";
    assert_eq!(unsettled(&account), expected, "{account}");
    assert_eq!(run.status.code(), Some(1), "{account}");

    write(folder.path(), "code.rhai", "fn wait() { sleep(3600); }");
    let run = child::output(kopfd(folder.path()).args(once));
    let account = String::from_utf8_lossy(&run.stderr);
    assert!(account.contains("within 2s: 'wait' of ConfigMap default/one has been running for "), "{account}");
    assert_eq!(run.status.code(), Some(1), "{account}");
}

/// Returns the error of a trial that has not settled, without its hint, and with N for numbers of seconds.
fn unsettled(account: &str) -> String {
    let (_, end) = account.split_once("error: ").unwrap_or_else(|| panic!("{account}"));
    let error = end
        .strip_suffix("\nhint: raise `--timeout` if this is expected to take longer\n")
        .unwrap_or_else(|| panic!("{account}"));
    regex::Regex::new(r"\d+ seconds").expect("the pattern is valid").replace_all(error, "N seconds").into_owned()
}

#[test]
fn a_trial_that_does_not_settle_lists_its_pending_activities() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write(folder.path(), "code.rhai", "fn greet() {}");
    let retried = r#"startup: [{id: begin, run: 'throw temporary("not yet", 3600);'}]"#;
    let running = "login: [{id: sign_in, run: 'sleep(3600);'}]";
    for (activity, pending) in [
        (retried, "'begin' of the startup activity of operator 'tried' is retried in N seconds (not yet)"),
        (running, "'sign_in' of the login activity of operator 'tried' has been running for N seconds"),
    ] {
        write(folder.path(), "operator.yaml", &format!("{}  activities:\n    {activity}\n", manifest("greet")));
        let run = child::output(kopfd(folder.path()).args(["operator.yaml", "--once", "--timeout", "2s"]));
        let account = String::from_utf8_lossy(&run.stderr);
        assert_eq!(unsettled(&account), format!("not settled within 2s: {pending}"), "{account}");
        assert_eq!(run.status.code(), Some(1), "{account}");
    }
}

#[test]
fn a_trial_that_does_not_settle_lists_its_pending_schedules() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    // The last tick comes well before the timeout, and the next one after it.
    let seconds = [2, 4, 6].map(|later| ((Clock::system().now().as_second() + later) % 60).to_string()).join(",");
    let schedules = format!(
        "  schedules:\n    - {{id: retried, cron: '{seconds} * * * * *', run: 'throw temporary(\"not yet\", 3600);'}}\n    \
         - {{id: running, cron: '{seconds} * * * * *', run: 'sleep(3600);'}}\n"
    );
    write(folder.path(), "operator.yaml", &(manifest("wait") + &schedules));
    // Without it, the trial would settle before the first tick.
    write(folder.path(), "code.rhai", "fn wait() { throw temporary(\"not yet\", 3600); }");
    write(folder.path(), "obj.yaml", OBJECT);
    let run =
        child::output(kopfd(folder.path()).args(["operator.yaml", "--apply", "obj.yaml", "--once", "--timeout", "8s"]));
    let account = String::from_utf8_lossy(&run.stderr);
    let expected = "not settled within 8s: 'retried' of the schedules of operator 'tried' is retried in N seconds (not yet), \
                    'running' of the schedules of operator 'tried' has been running for N seconds and \
                    'wait' of ConfigMap default/one is retried in N seconds (not yet)";
    assert_eq!(unsettled(&account), expected, "{account}");
    assert_eq!(run.status.code(), Some(1), "{account}");
}

#[test]
fn a_trial_waits_for_five_minutes_unless_it_is_told_otherwise() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let help = child::output(kopfd(folder.path()).arg("--help"));
    let help = String::from_utf8_lossy(&help.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    let (_, timeout) = help.split_once("--timeout <DURATION> ").unwrap_or_else(|| panic!("{help}"));
    assert!(timeout.split_once(" --").is_some_and(|(timeout, _)| timeout.ends_with("[default: 5m]")), "{help}");
}

#[test]
fn a_folder_of_everything_can_be_applied() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write(folder.path(), "operator.yaml", &manifest("greet"));
    write(folder.path(), "code.rhai", "fn greet(logger) { logger.info(\"first\"); }");
    write(folder.path(), "obj.yaml", &OBJECT.replace("default", "elsewhere"));
    write(folder.path(), "scenario.yaml", "apiVersion: kopfd.dev/v1\nkind: Scenario\nmetadata: {name: s}\nsteps: []\n");
    let mut dev = Trial::start(kopfd(folder.path()).args(["operator.yaml", "--apply", "."]));
    dev.wait_for("[elsewhere/one] Handler 'greet' succeeded.");
    // The manifest is not an applied object: its changes are those of the operator.
    write(folder.path(), "operator.yaml", &manifest("greet, id: greet2"));
    dev.wait_for("Operator 'tried' is reloaded");
    write(folder.path(), "obj.yaml", &OBJECT.replace("default", "nowhere"));
    dev.wait_for("The namespace nowhere does not exist. It is created.");
    dev.wait_for("[nowhere/one] Handler 'greet2' succeeded.");
    assert_eq!(dev.interrupt(), Some(0));
}

#[test]
fn an_object_that_triggers_itself_is_named_and_its_corrected_script_is_called_at_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write(folder.path(), "operator.yaml", &manifest("count"));
    write(folder.path(), "code.rhai", "fn count() { throw temporary(\"again\", 0); }");
    write(folder.path(), "obj.yaml", OBJECT);
    let mut dev = Trial::start(kopfd(folder.path()).args(["operator.yaml", "--apply", "obj.yaml"]));
    dev.wait_for("[default/one] The object keeps triggering itself: 301 cycles within");
    write(folder.path(), "code.rhai", "fn count() {}");
    dev.wait_for("[default/one] The object is not slowed down any more: the operator was reloaded.");
    dev.wait_for("[default/one] Handler 'count' succeeded.");
    assert_eq!(dev.interrupt(), Some(0));
}

#[test]
fn writes_of_scripts_are_reported_with_their_changes() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = tried_once(folder.path(), "database");
    let account = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{account}");
    for line in [
        "[production/orders-db] │ + StatefulSet production/orders-db-db created",
        "[production/orders-db] │ ~ Database production/orders-db changed",
        "[production/orders-db] │   + status.state: \"Provisioning\"",
    ] {
        assert!(account.contains(line), "{line} is missing in:\n{account}");
    }
    assert!(
        !account.contains("has changed, at version"),
        "what the operator has written itself is no news:\n{account}"
    );
    let line_of = |part: &str| {
        account
            .lines()
            .position(|line| line.contains(part))
            .unwrap_or_else(|| panic!("{part} is missing in:\n{account}"))
    };
    let (invoked, created) =
        (line_of("Handler 'on_create' is invoked."), line_of("StatefulSet production/orders-db-db created"));
    assert!(invoked < created, "a handler is named before what it writes:\n{account}");
    assert!(!account.contains("= annotations:"), "progress is for debugging:\n{account}");
    assert!(!account.contains('…'), "nothing is cut in a pipe:\n{account}");
    assert!(account.lines().any(|line| line.contains("status.conditions: [") && line.ends_with(']')), "{account}");

    let mut command = kopfd(folder.path());
    command
        .arg("--config")
        .arg(example("database", "operator.yaml"))
        .arg("--apply")
        .arg(example("database", "obj.yaml"));
    let run = child::output(command.args(["--once", "--verbose"]));
    let account = String::from_utf8_lossy(&run.stderr);
    assert!(account.contains("│ = annotations: kept last-handled-configuration"), "{account}");
}

#[test]
fn reviews_are_reported_with_their_changes_warnings_and_denials() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let webhooks = "      webhooks: [{on: validate, fn: check}, {on: mutate, fn: complete, operations: [create]}]\n";
    write(folder.path(), "operator.yaml", &(manifest("greet") + webhooks));
    write(
        folder.path(),
        "code.rhai",
        "fn greet() {}\nfn check(body, warnings) {\n    if body.data?.odd == \"yes\" { warnings.push(\"this is odd\"); }\n    \
         if body.data?.wrong == \"yes\" { throw reject(\"this is wrong\", 422); }\n}\nfn complete(patch) { patch.data.completed = \"yes\"; }\n",
    );
    write(folder.path(), "obj.yaml", OBJECT);
    let mut dev = Trial::start(kopfd(folder.path()).args(["--config", "operator.yaml", "--apply", "obj.yaml"]));
    // The objects are applied before the API server calls the webhooks.
    dev.wait_for_all(&[
        "MutatingWebhookConfiguration 'tried.kopfd.dev' is",
        "ValidatingWebhookConfiguration 'tried.kopfd.dev' is",
    ]);
    let object = OBJECT.replace("one", "two");
    write(folder.path(), "obj.yaml", &object);
    dev.wait_for("[default/two] ┌ CREATE of the ConfigMap is allowed, with changes of /data");
    dev.wait_for("[default/two] ┌ CREATE of the ConfigMap is allowed");
    write(folder.path(), "obj.yaml", &format!("{object}data: {{odd: \"yes\"}}\n"));
    dev.wait_for("[default/two] ┌ UPDATE of the ConfigMap is allowed, with the warnings: this is odd");
    write(folder.path(), "obj.yaml", &format!("{object}data: {{wrong: \"yes\"}}\n"));
    dev.wait_for("[default/two] ┌ UPDATE of the ConfigMap is denied with 422: this is wrong");
    assert_eq!(dev.interrupt(), Some(0));
}

/// A running `kopfd dev`.
struct Trial {
    process: child::Process,
    lines: Lines<BufReader<ChildStderr>>,
}

impl Trial {
    fn start(command: &mut Command) -> Self {
        let mut process = child::Process::start(command.stdout(Stdio::null()).stderr(Stdio::piped()));
        let lines = BufReader::new(process.stderr.take().expect("its error stream is piped")).lines();
        Self { process, lines }
    }

    /// Returns the next line with a text in it.
    fn wait_for(&mut self, part: &str) -> String {
        let mut before = String::new();
        for line in self.lines.by_ref().map_while(Result::ok) {
            if line.contains(part) {
                return line;
            }
            before = format!("{before}{line}\n");
        }
        panic!("{part:?} is missing in:\n{before}");
    }

    /// Waits for lines with these texts in any order: the command and its operator print independently.
    fn wait_for_all(&mut self, parts: &[&str]) {
        let mut missing: Vec<&str> = parts.to_vec();
        let mut before = String::new();
        while !missing.is_empty() {
            let Some(Ok(line)) = self.lines.next() else { panic!("{missing:?} are missing in:\n{before}") };
            missing.retain(|part| !line.contains(part));
            before = format!("{before}{line}\n");
        }
    }

    fn interrupt(self) -> Option<i32> {
        self.process.signal("INT");
        self.process.wait(LIMIT).code()
    }
}

#[test]
fn definitions_and_objects_of_changed_files_are_applied() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let objects = tempfile::tempdir().expect("a temporary folder");
    let manifest = manifest("greet").replace("v1/configmaps", "things.ex.dev");
    write(folder.path(), "operator.yaml", &manifest.replace("spec:\n", "spec:\n  crds: [crd.yaml]\n"));
    write(folder.path(), "code.rhai", "fn greet(logger) { logger.info(\"greeted\"); }");
    write(folder.path(), "crd.yaml", &definition("size: {type: integer}"));
    write(objects.path(), "one.yaml", &thing("one", "size: 1"));
    let mut dev = Trial::start(kopfd(folder.path()).args(["--config", "operator.yaml", "--apply"]).arg(objects.path()));
    dev.wait_for("[default/one] Handler 'greet' succeeded.");

    write(folder.path(), "crd.yaml", &definition("size: {type: integer}, from: {type: string}"));
    dev.wait_for("The CustomResourceDefinition things.ex.dev has changed in the files. It is applied.");
    write(objects.path(), "one.yaml", &thing("one", "size: 2, from: me"));
    dev.wait_for("[default/one] ┌ The Thing has changed, at version");
    assert!(dev.wait_for("│ ").ends_with("│ + spec.from: \"me\""), "the new field is known");
    assert!(dev.wait_for("│ ").ends_with("│ ~ spec.size: 1 -> 2"));

    write(objects.path(), "broken.yaml", "apiVersion: [");
    write(objects.path(), "refused.yaml", &thing("refused", "size: many"));
    write(objects.path(), "two.yaml", &thing("two", "size: 3"));
    dev.wait_for_all(&[
        "The Thing two is new in the files. It is applied.",
        "[default/two] Handler 'greet' succeeded.",
    ]);
    // Both errors are reported whenever files change, until they are fixed.
    write(objects.path(), "three.yaml", &thing("three", "size: 3"));
    assert!(dev.wait_for("broken.yaml").contains("line 1"));
    dev.wait_for_all(&["Thing \"refused\": ", "[default/three] Handler 'greet' succeeded."]);
    assert_eq!(dev.interrupt(), Some(0));
}

#[test]
fn a_kubeconfig_belongs_to_one_server_and_is_removed_at_its_end() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let kubeconfig = folder.path().join("kubeconfig");
    write(folder.path(), "operator.yaml", &manifest("greet"));
    write(folder.path(), "code.rhai", "fn greet() {}");
    let mut dev = Trial::start(kopfd(folder.path()).args(["--config", "operator.yaml"]));
    dev.wait_for("watches");
    let written = std::fs::read(&kubeconfig).expect("the kubeconfig is there");
    let second = child::output(kopfd(folder.path()).args(["--config", "operator.yaml", "--once"]));
    let printed = String::from_utf8_lossy(&second.stderr);
    let hint = "  hint: take another file with `--kubeconfig-out`";
    assert_eq!(
        printed,
        format!("error: {} belongs to another kopfd that is still running\n{hint}\n", kubeconfig.display())
    );
    assert_eq!(second.status.code(), Some(1));
    assert_eq!(std::fs::read(&kubeconfig).expect("the kubeconfig is there"), written);
    assert_eq!(dev.interrupt(), Some(0));
    assert!(!kubeconfig.exists());
    // The kubeconfig of a killed server.
    std::fs::write(&kubeconfig, written).expect("the file can be written");
    let third = child::output(kopfd(folder.path()).args(["--config", "operator.yaml", "--once"]));
    assert!(third.status.success(), "{}", String::from_utf8_lossy(&third.stderr));
    write(folder.path(), "kubeconfig", "a file of another program");
    let fourth = child::output(kopfd(folder.path()).args(["--config", "operator.yaml", "--once"]));
    assert_eq!(fourth.status.code(), Some(1), "{}", String::from_utf8_lossy(&fourth.stderr));
    let forced = child::output(kopfd(folder.path()).args(["--config", "operator.yaml", "--once", "--force"]));
    assert!(forced.status.success(), "{}", String::from_utf8_lossy(&forced.stderr));
}

#[test]
fn a_trial_that_is_interrupted_before_its_end_has_not_succeeded() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write(folder.path(), "operator.yaml", &manifest("wait"));
    write(folder.path(), "code.rhai", "fn wait() { throw temporary(\"not yet\", 3600); }");
    write(folder.path(), "obj.yaml", OBJECT);
    let mut dev =
        Trial::start(kopfd(folder.path()).args(["--config", "operator.yaml", "--apply", "obj.yaml", "--once"]));
    dev.wait_for("Will retry in 3600 seconds.");
    assert_eq!(dev.interrupt(), Some(130));
}

#[test]
fn daemons_and_timers_run_until_the_operator_is_interrupted() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write(
        folder.path(),
        "operator.yaml",
        "apiVersion: kopfd.dev/v1\nkind: Operator\nmetadata: {name: demo}\nspec:\n  resources:\n    - resource: configmaps\n      script: code.rhai\n      \
         labels: {watched: \"yes\"}\n      daemons: [{fn: watch}]\n      timers: [{fn: tick, interval: 100ms}]\n",
    );
    let code = "fn watch(stopped, logger) { stopped.wait(); logger.info(`Watched until ${stopped.reason}.`); }\n\
                fn tick(memo, logger) { memo.n = (memo.n ?? 0) + 1; if memo.n == 3 { logger.info(\"The third tick.\"); } }\n";
    write(folder.path(), "code.rhai", code);
    write(
        folder.path(),
        "obj.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one, namespace: default, labels: {watched: \"yes\"}}\n",
    );
    let mut dev = Trial::start(kopfd(folder.path()).args(["--config", "operator.yaml", "--apply", "obj.yaml"]));
    dev.wait_for("Daemon 'watch' starts.");
    dev.wait_for("The third tick.");
    dev.process.signal("INT");
    dev.wait_for("Watched until [\"OPERATOR_EXITING\"].");
    dev.wait_for("Operator 'demo' has stopped.");
}

#[test]
fn a_server_that_cannot_start_reports_the_reason() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = taken.local_addr().expect("it has an address").port().to_string();
    write(folder.path(), "operator.yaml", &manifest("greet"));
    write(folder.path(), "code.rhai", "fn greet() {}");
    let run = child::output(kopfd(folder.path()).args(["--config", "operator.yaml", "--once", "--port", &port]));
    let printed = String::from_utf8_lossy(&run.stderr);
    assert_eq!(printed, format!("error: cannot listen on 127.0.0.1:{port}: Address already in use (os error 98)\n"));
}

#[test]
fn an_object_whose_last_cycle_has_failed_is_not_settled_well() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write(folder.path(), "operator.yaml", &manifest("greet, when: 'body.data.size > 3'"));
    write(folder.path(), "code.rhai", "fn greet(logger) { logger.info(\"first\"); }");
    write(folder.path(), "obj.yaml", OBJECT);
    let run = child::output(kopfd(folder.path()).args(["--config", "operator.yaml", "--apply", "obj.yaml", "--once"]));
    let account = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(1), "{account}");
    assert!(account.contains("the last cycle of ConfigMap default/one has failed: a filter failed: "), "{account}");
}

#[test]
fn changed_files_are_loaded_and_broken_ones_are_not() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write(folder.path(), "operator.yaml", &manifest("greet"));
    write(folder.path(), "code.rhai", "fn greet(logger) { logger.info(\"first\"); }");
    write(folder.path(), "obj.yaml", OBJECT);
    let mut dev = Trial::start(kopfd(folder.path()).args(["--config", "operator.yaml", "--apply", "obj.yaml"]));
    dev.wait_for("first");
    write(folder.path(), "code.rhai", "fn greet(logger) { logger.inof(\"second\"); }");
    dev.wait_for("no method `inof`");
    dev.wait_for("The running revisions stay in service.");
    write(folder.path(), "code.rhai", "fn greet(logger) { logger.info(\"third\"); }");
    dev.wait_for("The files have no errors any more.");
    write(folder.path(), "obj.yaml", &OBJECT.replace("one", "two"));
    dev.wait_for("[default/two] third");
    assert_eq!(dev.interrupt(), Some(0));
}

#[test]
fn a_startup_that_never_succeeds_is_mended_by_a_change_of_the_files() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let startup = "  activities:\n    startup: [{id: start, run: 'throw temporary(\"not yet\", 1);'}]\n";
    write(folder.path(), "operator.yaml", &(manifest("greet") + startup));
    write(folder.path(), "code.rhai", "fn greet(logger) { logger.info(\"first\"); }");
    write(folder.path(), "obj.yaml", OBJECT);
    let mut dev = Trial::start(kopfd(folder.path()).args(["--config", "operator.yaml", "--apply", "obj.yaml"]));
    dev.wait_for("not yet");
    write(folder.path(), "code.rhai", "fn greet( {");
    dev.wait_for("The running revisions stay in service.");
    write(folder.path(), "obj.yaml", &OBJECT.replace("default", "elsewhere"));
    dev.wait_for("The namespace elsewhere does not exist. It is created.");
    write(folder.path(), "code.rhai", "fn greet(logger) { logger.info(\"second\"); }");
    dev.wait_for("Operator 'tried' has not started yet. It starts anew with the changed files.");
    dev.wait_for("not yet");
    write(folder.path(), "operator.yaml", &manifest("greet"));
    dev.wait_for("Operator 'tried' has not started yet. It starts anew with the changed files.");
    dev.wait_for("[elsewhere/one] second");
    assert_eq!(dev.interrupt(), Some(0));
}

#[test]
fn a_signal_has_the_files_read_again() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write(folder.path(), "operator.yaml", &manifest("greet"));
    write(folder.path(), "code.rhai", "fn greet(logger) { logger.info(\"first\"); }");
    write(folder.path(), "obj.yaml", OBJECT);
    let mut dev = Trial::start(kopfd(folder.path()).args(["--config", "operator.yaml", "--apply", "obj.yaml"]));
    dev.wait_for("first");
    dev.process.signal("HUP");
    dev.wait_for("The files have not changed. Nothing is reloaded.");
    write(folder.path(), "code.rhai", "fn greet( {");
    dev.wait_for("The running revisions stay in service.");
    dev.process.signal("HUP");
    dev.wait_for("The running revisions stay in service.");
    assert_eq!(dev.interrupt(), Some(0));
}

const OBJECT: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one, namespace: default}\n";

fn manifest(function: &str) -> String {
    format!(
        "apiVersion: kopfd.dev/v1\nkind: Operator\nmetadata: {{name: tried}}\nspec:\n  resources:\n    - resource: v1/configmaps\n      \
         script: code.rhai\n      handlers:\n        - {{on: create, fn: {function}}}\n"
    )
}

fn definition(fields: &str) -> String {
    format!(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: things.ex.dev}}\nspec:\n  group: ex.dev\n  \
         scope: Namespaced\n  names: {{plural: things, singular: thing, kind: Thing}}\n  versions:\n    - name: v1\n      served: true\n      \
         storage: true\n      schema:\n        openAPIV3Schema:\n          type: object\n          properties:\n            \
         spec: {{type: object, properties: {{{fields}}}}}\n"
    )
}

fn thing(name: &str, fields: &str) -> String {
    format!("apiVersion: ex.dev/v1\nkind: Thing\nmetadata: {{name: {name}}}\nspec: {{{fields}}}\n")
}

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).expect("the file can be written");
}
