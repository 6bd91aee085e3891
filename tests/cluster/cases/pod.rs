//! An operator in the environment of a pod: the files of its service account, whose token is replaced, and nothing that it can write to.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use super::cases;
use crate::harness::child::output;
use crate::harness::{Case, Process, TestContext};

pub(crate) const CASES: &[Case] = cases![an_operator_works_in_the_environment_of_a_pod];

/// Mounts the folder in `$1` as the files of the service account, makes everything else read-only, and runs the rest of the arguments.
const AS_IN_A_POD: &str = "set -e
mount -t tmpfs run /run
mkdir -p /run/secrets/kubernetes.io/serviceaccount
mount --bind \"$1\" /run/secrets/kubernetes.io/serviceaccount
[ -e /var/run/secrets ] || mount --bind /run /var/run
mount -o remount,ro,bind /run
mount -o remount,ro,bind /
shift
cd /
exec \"$@\"";

/// The peak of the operator's memory, in MiB, in a build without optimisation.
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

fn an_operator_works_in_the_environment_of_a_pod(context: &TestContext<'_>) {
    let mounted = context.directory().join("account");
    fs::create_dir_all(&mounted).expect("the directory of the case can be written");
    let in_a_pod = || {
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", AS_IN_A_POD, "sh"]).arg(&mounted);
        command
    };
    let tried = output(in_a_pod().arg("true"));
    if !tried.status.success() {
        println!("skipped: this machine permits no mounts of one's own: {}", String::from_utf8_lossy(&tried.stderr).trim());
        return;
    }
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
    let cluster = context.cluster();
    // Two accounts with the derived rights stand for two tokens of one account, of which the first one expires.
    let [first, second] = ["first", "second"].map(|name| {
        let account = format!("{name}-{}", context.namespace);
        let mut command = Command::new(&cluster.tools().kopfd);
        let printed = output(command.arg("rbac").arg(&file).args(["--standalone", "--service-account", &account]));
        assert!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
        let roles = context.directory().join(format!("{name}.yaml"));
        fs::write(&roles, &printed.stdout).expect("the directory of the case can be written");
        cluster.kubectl_ok(&["apply", "-f", &roles.display().to_string()]);
        let token = cluster.kubectl_ok(&["create", "token", &account, "--namespace=default"]).trim().to_owned();
        (account, token)
    });
    let authority = cluster.api_server().certificate();
    let namespace = context.namespace.clone();
    let put = |name: &str, token: &str| {
        replace_files(&mounted, name, &[("token", token), ("ca.crt", &authority), ("namespace", &namespace)]);
    };
    put("..first", &first.1);

    let url = cluster.api_server().url();
    let (host, port) = url.trim_start_matches("https://").split_once(':').expect("the address has a port");
    let mut command = in_a_pod();
    command.arg(&cluster.tools().kopfd).arg("run").arg(&file).args(["-n", &namespace, "--standalone"]);
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    command.envs([("KUBERNETES_SERVICE_HOST", host), ("KUBERNETES_SERVICE_PORT", port), ("KOPFD_POD", "pod-0")]);
    let log = context.directory().join("pod.log");
    let operator = Process::start("kopfd in a pod", &mut command, &log);
    let wait_for = |name: &str| {
        context.create(&kind, name, json!({}));
        context.eventually(&format!("{name} is handled"), || {
            operator.expect_running();
            let object = context.get(&kind, name)?;
            (object["status"]["made"] == name).then_some(())
        });
    };
    wait_for("before");
    put("..second", &second.1);
    cluster.kubectl_ok(&["delete", "serviceaccount", &first.0, "--namespace=default"]);
    for number in 0..5 {
        wait_for(&format!("after-{number}"));
    }
    let peak = operator.peak_memory();
    assert!(peak < MAX_MEMORY, "the operator took {peak} MiB");
    let status = operator.stop(std::time::Duration::from_secs(30));
    assert!(status.success(), "{}", operator.output_tail());
}
