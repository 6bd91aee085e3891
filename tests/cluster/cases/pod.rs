//! An operator in the environment of a pod: the files of its service account, whose token is replaced, little memory,
//! and nothing that it can write to.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use super::cases;
use super::database::{self, DATABASE};
use crate::harness::child::output;
use crate::harness::{Case, Process, TestContext};

pub(crate) const CASES: &[Case] = cases![
    a_rotated_token_is_read_in_the_environment_of_a_pod,
    the_database_operator_works_in_the_environment_of_a_pod,
];

/// Mounts the folder in `$1` as the files of the service account, joins the control group whose processes are in the
/// file `$2`, makes everything else read-only, and runs the rest of the arguments.
const AS_IN_A_POD: &str = "set -e
[ -z \"$2\" ] || echo $$ > \"$2\"
mount -t tmpfs run /run
mkdir -p /run/secrets/kubernetes.io/serviceaccount
mount --bind \"$1\" /run/secrets/kubernetes.io/serviceaccount
[ -e /var/run/secrets ] || mount --bind /run /var/run
mount -o remount,ro,bind /run
mount -o remount,ro,bind /
shift 2
cd /
exec \"$@\"";

/// The limit of the pod's memory, in MiB.
const MEMORY: u64 = 64;

/// The peak of the operator's memory, in MiB, in a build without optimisation. Other than the limit, it counts all
/// pages of the large binary.
const MAX_MEMORY: u64 = 128;

/// Replaces the files as the kubelet does: a link to a new folder takes the place of the one before.
fn replace_files(mounted: &Path, name: &str, files: &[(&str, &str)]) {
    let folder = mounted.join(name);
    fs::create_dir_all(&folder).expect("the directory of the case can be written");
    for (file, text) in files {
        fs::write(folder.join(file), text).expect("the directory of the case can be written");
        let link = mounted.join(file);
        if link.symlink_metadata().is_err() {
            symlink(Path::new("..data").join(file), link).expect("a link can be made");
        }
    }
    let fresh = mounted.join("..data_tmp");
    symlink(name, &fresh).expect("a link can be made");
    fs::rename(fresh, mounted.join("..data")).expect("a link can be replaced");
}

/// A limit of the kernel for the memory of a process. It is there where the machine lets tests make control groups.
struct MemoryLimit {
    folder: PathBuf,
}

impl MemoryLimit {
    fn new(name: &str, mebibytes: u64) -> Option<Self> {
        let groups = [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
        groups.into_iter().find_map(|(root, file)| {
            let folder = Path::new(root).join(format!("kopfd-{name}"));
            fs::create_dir(&folder).ok()?;
            let limit = Self { folder };
            // Without the controller, the group has no such file.
            let path = limit.folder.join(file);
            (path.exists() && fs::write(path, (mebibytes << 20).to_string()).is_ok()).then_some(limit)
        })
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        // The processes of the group have ended. An empty group does no harm.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// The environment of a pod in a case.
struct Pod<'a> {
    context: &'a TestContext<'a>,
    mounted: PathBuf,
    limit: Option<MemoryLimit>,
}

impl<'a> Pod<'a> {
    /// Returns nothing on a machine that permits no mounts of one's own.
    fn new(context: &'a TestContext<'a>) -> Option<Self> {
        let mounted = context.directory().join("account");
        fs::create_dir_all(&mounted).expect("the directory of the case can be written");
        let pod = Self { context, mounted, limit: MemoryLimit::new(&context.namespace, MEMORY) };
        let tried = output(pod.command().arg("true"));
        if !tried.status.success() {
            println!(
                "skipped: this machine permits no mounts of one's own: {}",
                String::from_utf8_lossy(&tried.stderr).trim()
            );
            return None;
        }
        if pod.limit.is_none() {
            println!("this machine permits no control groups: the peak of the memory is measured only");
        }
        Some(pod)
    }

    fn command(&self) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", AS_IN_A_POD, "sh"]).arg(&self.mounted);
        command.arg(self.limit.as_ref().map(|limit| limit.folder.join("cgroup.procs")).unwrap_or_default());
        command
    }

    /// Mounts a token, in place of the one before.
    fn mount(&self, name: &str, token: &str) {
        let authority = self.context.cluster().api_server().certificate();
        replace_files(
            &self.mounted,
            name,
            &[("token", token), ("ca.crt", &authority), ("namespace", &self.context.namespace)],
        );
    }

    fn start(&self, manifest: &Path) -> Process {
        let url = self.context.cluster().api_server().url();
        let (host, port) = url.trim_start_matches("https://").split_once(':').expect("the address has a port");
        let mut command = self.command();
        command.arg(&self.context.cluster().tools().kopfd).arg("run").arg(manifest);
        command.args(["-n", &self.context.namespace, "--standalone"]);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.envs([("KUBERNETES_SERVICE_HOST", host), ("KUBERNETES_SERVICE_PORT", port), ("KOPFD_POD", "pod-0")]);
        Process::start("kopfd in a pod", &mut command, &self.context.directory().join("pod.log"))
    }
}

fn stop(operator: &Process) {
    let peak = operator.peak_memory();
    assert!(peak < MAX_MEMORY, "the operator took {peak} MiB");
    let status = operator.stop(std::time::Duration::from_secs(30));
    assert!(status.success(), "{}", operator.output_tail());
}

fn a_rotated_token_is_read_in_the_environment_of_a_pod(context: &TestContext<'_>) {
    let Some(pod) = Pod::new(context) else { return };
    let kind = context.thing();
    let folder = context.directory().join("operator");
    fs::create_dir_all(&folder).expect("the directory of the case can be written");
    let manifest = json!({
        "apiVersion": "kopfd.dev/v1", "kind": "Operator", "metadata": {"name": "pod"},
        "spec": {"resources": [{"resource": kind.selector(), "handlers": [
            {"on": "create", "id": "made", "run": "patch.status.made = name;"},
        ]}]},
    });
    let file = folder.join("operator.yaml");
    // JSON is YAML.
    fs::write(&file, manifest.to_string()).expect("the directory of the case can be written");
    // Two accounts with the derived rights stand for two tokens of one account, of which the first one expires.
    let [first, second] = [(); 2].map(|()| context.derived_account(&file, &["--standalone"]));
    pod.mount("..first", &first.1);
    let operator = pod.start(&file);
    let wait_for = |name: &str| {
        context.create(&kind, name, json!({}));
        context.eventually(&format!("{name} is handled"), || {
            operator.expect_running();
            let object = context.get(&kind, name)?;
            (object["status"]["made"] == name).then_some(())
        });
    };
    wait_for("before");
    pod.mount("..second", &second.1);
    context.cluster().kubectl_ok(&["delete", "serviceaccount", &first.0, "--namespace=default"]);
    for number in 0..5 {
        wait_for(&format!("after-{number}"));
    }
    stop(&operator);
}

fn the_database_operator_works_in_the_environment_of_a_pod(context: &TestContext<'_>) {
    let Some(pod) = Pod::new(context) else { return };
    let manifest = database::launch(context).source;
    let (_, token) = context.derived_account(&manifest, &["--standalone"]);
    pod.mount("..token", &token);
    let operator = pod.start(&manifest);
    let kind = DATABASE.kind();
    context.create(
        &kind,
        "orders",
        json!({"engine": "postgresql", "version": "16", "storage": "1Gi", "replicas": 2, "backupEnabled": true}),
    );
    let ready = context.eventually("the database is ready", || {
        operator.expect_running();
        database::run_pods(context, &context.namespace, "orders");
        context
            .get(&kind, "orders")
            .filter(|object| object["status"]["state"] == "Ready" && object["status"]["readyReplicas"] == 2)
    });
    assert_eq!(database::children(context, &ready).len(), 4);
    context.merge(&kind, "orders", json!({"spec": {"replicas": 3}}));
    context.eventually("the database is scaled", || {
        operator.expect_running();
        let set = context.client().get(&database::stateful_set(&context.namespace, "orders"))?;
        (set["spec"]["replicas"] == 3).then_some(())
    });
    context.delete(&kind, "orders");
    context.gone(&kind, "orders");
    stop(&operator);
}
