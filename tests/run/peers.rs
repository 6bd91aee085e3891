//! Peers of the built binary: the options of `run` about peering, and `freeze` and `resume`, with their environment
//! variables and exit codes.

use std::process::Command;
use std::time::{Duration, Instant};

use http::Method;
use kopfd::cluster::Request;
use serde_json::{Value, json};

use super::{Cluster, LIFETIME, LIMIT, Process, WARNING, Way, ask, object, operator, output};

/// The definitions that kopfd ships.
const DEFINITIONS: &str = include_str!("../../manifests/peering/kopf.dev.yaml");

const GROUP: &str = "/apis/kopf.dev/v1";

/// The id of the operators, and of the person who freezes them.
const POD: &str = "operator-0";
const PERSON: &str = "person@desk";

/// A peering object with a peer whose record is valid for long.
fn peering(namespace: Option<&str>, name: &str, priority: i64) -> String {
    let kind = if namespace.is_some() { "KopfPeering" } else { "ClusterKopfPeering" };
    let status = json!({"peer": {"priority": priority, "lifetime": 100_000}});
    json!({"apiVersion": "kopf.dev/v1", "kind": kind, "metadata": {"name": name, "namespace": namespace}, "status": status}).to_string()
}

fn namespace(name: &str) -> String {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}).to_string()
}

/// Starts a server with the definitions of peerings, an object to handle, and these objects.
fn cluster(objects: &[String]) -> Cluster {
    let all = [&[DEFINITIONS.to_owned(), object("default", "one").to_string()], objects].concat();
    let cluster = Cluster::start_with_options(&all.join("\n---\n"), LIFETIME, &["--control"]);
    cluster.write("operator.yaml", &operator("event", WARNING));
    cluster
}

/// Returns the records of a peering object; none if it does not exist.
fn records(cluster: &Cluster, namespace: Option<&str>, name: &str) -> Value {
    let path = match namespace {
        Some(namespace) => format!("{GROUP}/namespaces/{namespace}/kopfpeerings/{name}"),
        None => format!("{GROUP}/clusterkopfpeerings/{name}"),
    };
    cluster.client().send(&Request::get(path)).map(|mut found| found["status"].take()).unwrap_or_default()
}

/// Returns a priority and a lifetime of a record.
fn record(records: &Value, identity: &str) -> Option<(i64, i64)> {
    let record = records.get(identity).filter(|record| record.is_object())?;
    Some((record["priority"].as_i64()?, record["lifetime"].as_i64()?))
}

/// What an operator does that finds a peer with the priority 100 in the peerings `default` and `named`.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Expected {
    /// It has this priority in this peering, and pauses.
    Paused(&'static str, i64),
    /// It has this priority in this peering, which is the highest one.
    Active(&'static str, i64),
    /// It handles objects, and is no peer.
    Alone,
    /// It waits for a peering object that does not exist.
    Waiting(&'static str),
}

/// An operator with a log and endpoints.
struct Run<'a> {
    cluster: &'a Cluster,
    process: Process,
    title: String,
}

impl<'a> Run<'a> {
    fn start(cluster: &'a Cluster, options: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut command = cluster.kopfd();
        command.args([
            "run",
            "operator.yaml",
            "--kubeconfig",
            "kubeconfig",
            "--verbose",
            "--liveness=http://127.0.0.1:0/healthz",
        ]);
        command.args(options).env("POD_ID", POD).envs(environment.iter().copied());
        command.stderr(std::fs::File::create(cluster.path("run.log")).unwrap());
        Self { cluster, process: Process::start(&mut command), title: format!("{options:?} {environment:?}") }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.cluster.path("run.log")).unwrap()
    }

    /// Waits until a condition for the log and the metrics is fulfilled.
    fn eventually<T>(&self, condition: impl Fn(&str, &str) -> Option<T>) -> T {
        let began = Instant::now();
        loop {
            let log = self.log();
            let told =
                log.lines().find_map(|line| Some(line.split_once("Probes are answered at ")?.1.rsplit_once('(')?.1));
            let metrics =
                told.map(|address| ask(address.trim_end_matches(")."), "GET", "/metrics").1).unwrap_or_default();
            if let Some(found) = condition(&log, &metrics) {
                return found;
            }
            assert!(self.process.is_running() && began.elapsed() < LIMIT, "{}:\n{log}\n{metrics}", self.title);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn stop(self) {
        self.process.signal("TERM");
        assert_eq!(self.process.wait(LIMIT).code(), Some(0), "{}:\n{}", self.title, self.log());
        for name in ["default", "named"] {
            assert_eq!(
                record(&records(self.cluster, None, name), POD),
                None,
                "an operator that ends removes its record"
            );
        }
    }
}

fn is_paused(metrics: &str) -> bool {
    metrics.contains("kopfd_operator_paused{operator=\"tested\"} 1\n")
}

fn has_peer(metrics: &str, relation: &str) -> bool {
    metrics.contains(&format!("kopfd_peers{{operator=\"tested\",relation=\"{relation}\"}} 1\n"))
}

/// Runs an operator until it has decided about its peers, and returns what it does.
fn observed(cluster: &Cluster, options: &[&str], environment: &[(&str, &str)]) -> Expected {
    let run = Run::start(cluster, options, environment);
    let observed = run.eventually(|log, metrics| {
        let own = ["default", "named"].map(|name| (name, record(&records(cluster, None, name), POD)));
        let own: Vec<(&'static str, i64)> =
            own.into_iter().filter_map(|(name, record)| Some((name, record?.0))).collect();
        match own[..] {
            [] if log.contains("warned of one") => Some(Expected::Alone),
            [] if is_paused(metrics) && log.contains("Keep-alive in 'absent' cluster-wide: not found.") => {
                Some(Expected::Waiting("absent"))
            }
            [(name, priority)] if has_peer(metrics, "higher") && is_paused(metrics) => {
                Some(Expected::Paused(name, priority))
            }
            [(name, priority)] if has_peer(metrics, "lower") => Some(Expected::Active(name, priority)),
            [] | [_] => None,
            [..] => panic!("{}: {own:?}", run.title),
        }
    });
    run.stop();
    observed
}

#[test]
fn peers_follow_the_options_or_the_environment() {
    use Expected::{Active, Alone, Paused, Waiting};
    let cluster = cluster(&[peering(None, "default", 100), peering(None, "named", 100)]);
    let ways: [(Way, Expected); 25] = [
        ((&[], &[]), Paused("default", 0)),
        ((&["--priority", "5"], &[]), Paused("default", 5)),
        ((&["--priority=-7"], &[]), Paused("default", -7)),
        ((&["-p", "101"], &[]), Active("default", 101)),
        ((&[], &[("KOPFD_PRIORITY", "102")]), Active("default", 102)),
        ((&["-p", "103"], &[("KOPFD_PRIORITY", "5")]), Active("default", 103)),
        ((&["--dev"], &[]), Active("default", 666)),
        ((&["--dev", "--priority", "5"], &[]), Active("default", 666)),
        ((&[], &[("KOPFD_DEV", "true")]), Active("default", 666)),
        ((&[], &[("KOPFD_DEV", "1"), ("KOPFD_PRIORITY", "5")]), Active("default", 666)),
        ((&[], &[("KOPFD_DEV", "no")]), Paused("default", 0)),
        ((&["--peering", "named"], &[]), Paused("named", 0)),
        ((&["-P", "named", "--dev"], &[]), Active("named", 666)),
        ((&["-p", "101"], &[("KOPFD_PEERING", "named")]), Active("named", 101)),
        ((&["-P", "default"], &[("KOPFD_PEERING", "named")]), Paused("default", 0)),
        ((&["-P", "absent"], &[]), Waiting("absent")),
        ((&[], &[("KOPFD_PEERING", "absent")]), Waiting("absent")),
        ((&["--standalone"], &[]), Alone),
        ((&["--standalone=true", "-P", "absent"], &[]), Alone),
        ((&[], &[("KOPFD_STANDALONE", "true")]), Alone),
        ((&[], &[("KOPFD_STANDALONE", "yes"), ("KOPFD_PRIORITY", "5")]), Alone),
        ((&["--standalone=false"], &[("KOPFD_STANDALONE", "true")]), Paused("default", 0)),
        // A variable without a value counts as not set.
        ((&[], &[("KOPFD_STANDALONE", ""), ("KOPFD_DEV", "")]), Paused("default", 0)),
        ((&[], &[("KOPFD_PEERING", ""), ("KOPFD_PRIORITY", "")]), Paused("default", 0)),
        ((&["-P", "named"], &[("KOPFD_STANDALONE", "false")]), Paused("named", 0)),
    ];
    for ((options, environment), expected) in ways {
        assert_eq!(observed(&cluster, options, environment), expected, "{options:?} {environment:?}");
    }

    // The command line is stronger than the settings.
    let settings = |peering: &str| {
        operator("event", WARNING).replace("settings: {", &format!("settings: {{peering: {{{peering}}}, "))
    };
    cluster.write("operator.yaml", &settings("standalone: true, priority: 7"));
    let ways: [(Way, Expected); 4] = [
        ((&[], &[]), Alone),
        ((&["--standalone=false"], &[]), Paused("default", 7)),
        ((&["-p", "101"], &[("KOPFD_STANDALONE", "false")]), Active("default", 101)),
        ((&["-p", "101"], &[("KOPFD_STANDALONE", "")]), Alone),
    ];
    for ((options, environment), expected) in ways {
        assert_eq!(observed(&cluster, options, environment), expected, "{options:?} {environment:?}");
    }
    cluster.write("operator.yaml", &settings("name: named, priority: 200"));
    let ways: [(Way, Expected); 3] = [
        ((&[], &[]), Active("named", 200)),
        ((&["-p", "5"], &[]), Paused("named", 5)),
        ((&["-P", "default"], &[]), Active("default", 200)),
    ];
    for ((options, environment), expected) in ways {
        assert_eq!(observed(&cluster, options, environment), expected, "{options:?} {environment:?}");
    }
}

#[test]
fn a_mandatory_peering_that_the_server_does_not_serve_yet_at_the_start_is_found_seconds_later() {
    let cluster = cluster(&[peering(None, "named", 1)]);
    let faults = "/_dev/faults";
    let fault = json!({"match": {"group": "kopf.dev"}, "action": {"status": {"code": 404}}});
    cluster.client().send(&Request::new(Method::POST, faults).with_json("application/json", &fault)).unwrap();
    let run = Run::start(&cluster, &["-P", "named", "-p", "2"], &[]);
    run.eventually(|log, _| {
        log.contains("the peering is mandatory, and the cluster has no CRD of peerings").then_some(())
    });
    assert!(!run.log().contains("warned of one"));
    cluster.client().send(&Request::new(Method::DELETE, faults)).unwrap();
    run.eventually(|log, _| {
        (log.contains("The cluster has the CRD of peerings.") && log.contains("warned of one")).then_some(())
    });
    run.stop();
}

#[test]
fn an_operator_in_development_handles_objects_and_another_one_does_not() {
    let cluster = cluster(&[peering(None, "default", 100)]);
    let paused = Run::start(&cluster, &["-p", "99"], &[]);
    paused.eventually(|log, metrics| {
        (is_paused(metrics) && log.contains("Pausing operations in favour of [<Peer peer: priority=100, "))
            .then_some(())
    });
    assert!(!paused.log().contains("warned of one"));
    paused.stop();
    let active = Run::start(&cluster, &[], &[("KOPFD_DEV", "yes")]);
    active.eventually(|log, metrics| (!is_paused(metrics) && log.contains("warned of one")).then_some(()));
    assert!(!active.log().contains("Pausing operations"));
    active.stop();
}

#[test]
fn options_of_peering_without_a_meaning_are_errors_of_the_command_line() {
    let cluster = Cluster::start();
    cluster.write("operator.yaml", &operator("event", WARNING));
    let ways: [(Way, &str); 6] = [
        ((&["--priority", "high"], &[]), "invalid value 'high' for '--priority <NUMBER>'"),
        ((&["-p"], &[]), "a value is required for '--priority <NUMBER>'"),
        ((&[], &[("KOPFD_PRIORITY", "1.5")]), "invalid value '1.5' for '--priority <NUMBER>'"),
        ((&["--standalone=perhaps"], &[]), "invalid value 'perhaps' for '--standalone[=<BOOL>]'"),
        ((&["--dev=true"], &[]), "unexpected value 'true' for '--dev'"),
        ((&[], &[("KOPFD_DEV", "perhaps")]), "invalid value 'perhaps' for '--dev'"),
    ];
    for ((options, environment), expected) in ways {
        let mut command = cluster.kopfd();
        command
            .args(["run", "operator.yaml", "--kubeconfig", "kubeconfig"])
            .args(options)
            .envs(environment.iter().copied());
        let ended = output(&mut command);
        let printed = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(2), "{printed}");
        assert!(printed.contains(expected), "{expected}: {printed}");
    }
}

/// Runs `freeze` or `resume`, and returns the exit code and the messages.
fn commanded(mut command: Command, arguments: &[&str], environment: &[(&str, &str)]) -> (Option<i32>, String) {
    command.args(arguments).env("POD_ID", PERSON).envs(environment.iter().copied());
    let ended = output(&mut command);
    assert!(ended.stdout.is_empty());
    (ended.status.code(), String::from_utf8(ended.stderr).unwrap())
}

/// The peering objects of a test: for the cluster, and in namespaces.
const PLACES: [(Option<&str>, &str); 4] =
    [(None, "default"), (Some("prod-a"), "default"), (Some("prod-b"), "default"), (Some("test"), "default")];

/// Starts a server with these peering objects, and a namespace without one.
fn with_places() -> Cluster {
    let mut objects: Vec<String> = ["prod-a", "prod-b", "test", "empty"].map(namespace).to_vec();
    objects.extend(PLACES.map(|(namespace, name)| peering(namespace, name, 1)));
    cluster(&objects)
}

/// Returns the places, as `*` or a namespace, with a record of an identity, which is removed; and its priority and
/// lifetime.
fn taken(cluster: &Cluster, identity: &str) -> (Vec<&'static str>, Option<(i64, i64)>) {
    let (mut places, mut found) = (Vec::new(), None);
    for (namespace, name) in PLACES {
        let Some(own) = record(&records(cluster, namespace, name), identity) else { continue };
        assert!(found.is_none_or(|found| found == own), "all records are equal");
        places.push(namespace.unwrap_or("*"));
        found = Some(own);
        let arguments = ["resume", "--kubeconfig", "kubeconfig", "-P", name, "--id", identity];
        let arguments = [&arguments[..], &namespace.map_or_else(Vec::new, |namespace| vec!["-n", namespace])].concat();
        assert_eq!(commanded(cluster.kopfd(), &arguments, &[]).0, Some(0));
        assert_eq!(record(&records(cluster, namespace, name), identity), None, "the record is removed");
        assert_eq!(record(&records(cluster, namespace, name), "peer"), Some((1, 100_000)), "the others stay");
    }
    (places, found)
}

/// What a freeze writes: the places, the priority and the lifetime, and the key of the records.
type Frozen = (&'static [&'static str], i64, i64, &'static str);

#[test]
fn a_freeze_follows_the_options_or_the_environment() {
    let cluster = with_places();
    let lifetime = &["-P", "default", "-t", "600"][..];
    let everywhere: &[&str] = &["*"];
    let production: &[&str] = &["prod-a", "prod-b"];
    let ways: [(Way, Frozen); 20] = [
        ((&["--peering=default", "--lifetime=15m"], &[]), (everywhere, 100, 900, PERSON)),
        ((&["-P", "default", "-t", "60"], &[]), (everywhere, 100, 60, PERSON)),
        ((&["--all-namespaces"], &[("L", "")]), (everywhere, 100, 600, PERSON)),
        ((&["-A"], &[("L", "")]), (everywhere, 100, 600, PERSON)),
        ((&[], &[("L", ""), ("KOPFD_FREEZE_ALL_NAMESPACES", "true")]), (everywhere, 100, 600, PERSON)),
        ((&["--namespace", "prod-*"], &[("L", "")]), (production, 100, 600, PERSON)),
        ((&["-n", "prod-a", "-n", "prod-b"], &[("L", "")]), (production, 100, 600, PERSON)),
        ((&["-n", "prod-*,!prod-a"], &[("L", "")]), (&["prod-b"], 100, 600, PERSON)),
        ((&[], &[("L", ""), ("KOPFD_FREEZE_NAMESPACES", "prod-a tes?")]), (&["prod-a", "test"], 100, 600, PERSON)),
        ((&["-n", "test"], &[("L", ""), ("KOPFD_FREEZE_NAMESPACES", "prod-a")]), (&["test"], 100, 600, PERSON)),
        ((&["-n", "test"], &[("L", ""), ("KOPFD_FREEZE_ALL_NAMESPACES", "false")]), (&["test"], 100, 600, PERSON)),
        ((&["-A"], &[("L", ""), ("KOPFD_FREEZE_NAMESPACES", "")]), (everywhere, 100, 600, PERSON)),
        ((&["--priority", "-3"], &[("L", "")]), (everywhere, -3, 600, PERSON)),
        ((&["-p", "7"], &[("L", ""), ("KOPFD_FREEZE_PRIORITY", "8")]), (everywhere, 7, 600, PERSON)),
        ((&["--dev", "-p", "7"], &[("L", "")]), (everywhere, 666, 600, PERSON)),
        ((&[], &[("L", ""), ("KOPFD_FREEZE_DEV", "1")]), (everywhere, 666, 600, PERSON)),
        ((&["--id", "me", "--message", "for a while"], &[("L", "")]), (everywhere, 100, 600, "me")),
        ((&["-i", "me", "-m", "for a while", "--quiet"], &[("L", "")]), (everywhere, 100, 600, "me")),
        (
            (
                &[],
                &[
                    ("KOPFD_FREEZE_PEERING", "default"),
                    ("KOPFD_FREEZE_LIFETIME", "2h"),
                    ("KOPFD_FREEZE_PRIORITY", "9"),
                    ("KOPFD_FREEZE_ID", "me"),
                    ("KOPFD_FREEZE_MESSAGE", "for a while"),
                ],
            ),
            (everywhere, 9, 7_200, "me"),
        ),
        (
            (&["-i", ""], &[("L", ""), ("KOPFD_FREEZE_PRIORITY", ""), ("KOPFD_FREEZE_DEV", "")]),
            (everywhere, 100, 600, PERSON),
        ),
    ];
    for ((options, environment), (places, priority, seconds, identity)) in ways {
        let is_short = environment.iter().any(|(name, _)| *name == "L");
        let environment: Vec<(&str, &str)> = environment.iter().copied().filter(|(name, _)| *name != "L").collect();
        let arguments =
            [&["freeze", "--kubeconfig", "kubeconfig"][..], if is_short { lifetime } else { &[] }, options].concat();
        let (code, printed) = commanded(cluster.kopfd(), &arguments, &environment);
        assert_eq!(code, Some(0), "{arguments:?} {environment:?}: {printed}");
        let is_told = printed.contains(&format!("pause for {seconds} seconds")) || options.contains(&"--quiet");
        assert!(is_told, "{arguments:?} {environment:?}: {printed}");
        assert_eq!(
            taken(&cluster, identity),
            (places.to_vec(), Some((priority, seconds))),
            "{arguments:?} {environment:?}: {printed}"
        );
    }
    // The record of a lifetime that is over is removed at once.
    for seconds in ["0", "-5"] {
        let frozen =
            commanded(cluster.kopfd(), &["freeze", "--kubeconfig=kubeconfig", "-P", "default", "-t", "60"], &[]);
        assert_eq!(frozen.0, Some(0), "{}", frozen.1);
        let ended =
            commanded(cluster.kopfd(), &["freeze", "--kubeconfig=kubeconfig", "-P", "default", "-t", seconds], &[]);
        assert_eq!(ended.0, Some(0), "{}", ended.1);
        assert_eq!(record(&records(&cluster, None, "default"), PERSON), None);
    }
}

#[test]
fn a_resume_follows_the_options_or_the_environment() {
    let cluster = with_places();
    let everywhere: &[&str] = &["*"];
    let ways: [(Way, &[&str], &str); 6] = [
        ((&["--peering", "default"], &[]), everywhere, PERSON),
        ((&["-A", "-i", "me"], &[("KOPFD_RESUME_PEERING", "default")]), everywhere, "me"),
        (
            (&["--id", "me"], &[("KOPFD_RESUME_PEERING", "default"), ("KOPFD_RESUME_ALL_NAMESPACES", "yes")]),
            everywhere,
            "me",
        ),
        ((&["-P", "default", "-n", "prod-*"], &[]), &["prod-a", "prod-b"], PERSON),
        ((&["-P", "default", "--namespace", "test"], &[("KOPFD_RESUME_NAMESPACES", "prod-a")]), &["test"], PERSON),
        (
            (
                &[],
                &[
                    ("KOPFD_RESUME_PEERING", "default"),
                    ("KOPFD_RESUME_NAMESPACES", "prod-a test"),
                    ("KOPFD_RESUME_ID", "me"),
                ],
            ),
            &["prod-a", "test"],
            "me",
        ),
    ];
    for ((options, environment), places, identity) in ways {
        for scope in [&["-A"][..], &["-n", "*"]] {
            let arguments =
                [&["freeze", "--kubeconfig=kubeconfig", "-P", "default", "-t", "60", "--id", identity][..], scope]
                    .concat();
            let frozen = commanded(cluster.kopfd(), &arguments, &[]);
            assert_eq!(frozen.0, Some(0), "{}", frozen.1);
        }
        let arguments = [&["resume", "--kubeconfig", "kubeconfig"][..], options].concat();
        let (code, printed) = commanded(cluster.kopfd(), &arguments, environment);
        assert_eq!(code, Some(0), "{arguments:?} {environment:?}: {printed}");
        let left: Vec<&str> = PLACES
            .map(|(namespace, _)| namespace.unwrap_or("*"))
            .into_iter()
            .filter(|place| !places.contains(place))
            .collect();
        assert_eq!(taken(&cluster, identity), (left, Some((100, 60))), "{arguments:?} {environment:?}: {printed}");
    }
}

#[test]
fn a_freeze_of_nothing_is_a_warning() {
    let cluster = with_places();
    let ways: [(&[&str], &str); 4] = [
        (&["-P", "absent"], "There is no such object: the peering 'absent'. Nothing has changed."),
        (
            &["-P", "absent", "-n", "test"],
            "There is no such object: the peering 'absent' in 'test'. Nothing has changed.",
        ),
        (
            &["-P", "default", "-n", "empty"],
            "There is no such object: the peering 'default' in 'empty'. Nothing has changed.",
        ),
        (&["-P", "default", "-n", "nowhere-*"], "No namespace matches the patterns. Nothing has changed."),
    ];
    for (options, expected) in ways {
        for command in [&["freeze", "-t", "60"][..], &["resume"]] {
            let arguments = [command, &["--kubeconfig", "kubeconfig"], options].concat();
            let (code, printed) = commanded(cluster.kopfd(), &arguments, &[]);
            assert_eq!(code, Some(0), "{arguments:?}: {printed}");
            assert!(printed.contains(expected), "{arguments:?}: {printed}");
        }
    }
    assert_eq!(taken(&cluster, PERSON), (Vec::new(), None));
    // A pattern that also matches a namespace with a peering freezes that.
    let (code, printed) = commanded(
        cluster.kopfd(),
        &["freeze", "-t", "60", "--kubeconfig=kubeconfig", "-P", "default", "-n", "*t*"],
        &[],
    );
    assert!(
        code == Some(0) && printed.contains("There is no such object: the peering 'default' in 'default'."),
        "{printed}"
    );
    assert_eq!(taken(&cluster, PERSON), (vec!["test"], Some((100, 60))));
}

#[test]
fn mistakes_of_a_freeze_are_told_by_the_exit_code() {
    let cluster = Cluster::start();
    let usage: [(Way, &str); 14] = [
        ((&["freeze", "-t", "60"], &[]), "--peering <NAME>"),
        ((&["freeze", "-t", "60"], &[("KOPFD_FREEZE_PEERING", "")]), "--peering <NAME>"),
        ((&["freeze", "-P", "default"], &[]), "--lifetime <SECONDS|DURATION>"),
        ((&["freeze", "-P", "default", "-t", "soon"], &[]), "expected whole seconds, or a duration such as 15m"),
        (
            (&["freeze", "-P", "default"], &[("KOPFD_FREEZE_LIFETIME", "1.5")]),
            "expected whole seconds, or a duration such as 15m",
        ),
        (
            (&["freeze", "-P", "default", "-t", "60", "-p", "high"], &[]),
            "invalid value 'high' for '--priority <NUMBER>'",
        ),
        (
            (&["freeze", "-P", "default", "-t", "60"], &[("KOPFD_FREEZE_DEV", "perhaps")]),
            "invalid value 'perhaps' for '--dev'",
        ),
        ((&["freeze", "-P", "default", "-t", "60", "-A", "-n", "a"], &[]), "cannot be used with"),
        ((&["freeze", "-P", "default", "-t", "60", "-A"], &[("KOPFD_FREEZE_NAMESPACES", "a")]), "cannot be used with"),
        ((&["freeze", "-P", "default", "-t", "60", "-n", "[a"], &[]), "is not a pattern of namespaces"),
        ((&["resume"], &[]), "--peering <NAME>"),
        ((&["resume", "-P", "default", "-t", "60"], &[]), "unexpected argument '-t'"),
        ((&["resume", "-P", "default", "--priority", "60"], &[]), "unexpected argument '--priority'"),
        ((&["resume", "-P", "default", "-A"], &[("KOPFD_RESUME_NAMESPACES", "a")]), "cannot be used with"),
    ];
    for ((arguments, environment), expected) in usage {
        let (code, printed) =
            commanded(cluster.kopfd(), arguments, &[&[("KUBECONFIG", "kubeconfig")], environment].concat());
        assert_eq!(code, Some(2), "{arguments:?} {environment:?}: {printed}");
        assert!(
            printed.starts_with("error: ") && printed.contains(expected),
            "{arguments:?} {environment:?}: {printed}"
        );
    }
    let text = std::fs::read_to_string(cluster.path("kubeconfig")).unwrap();
    let mut config = kopfd::object::yaml::parse(&text).unwrap().remove(0);
    config["users"][0]["user"]["token"] = json!("of-nobody");
    cluster.write("stranger.kubeconfig", &config.to_string());
    for command in [&["freeze", "-P", "default", "-t", "60"][..], &["resume", "-P", "default"]] {
        // There is no definition, no right, no kubeconfig, or no context.
        let failures: [(&[&str], &str); 6] = [
            (
                &["--kubeconfig", "kubeconfig"],
                "error: the cluster has no CRD of peerings: kopf.dev/v1/clusterkopfpeerings or zalando.org/v1/clusterkopfpeerings",
            ),
            (
                &["--kubeconfig", "kubeconfig", "-n", "default"],
                "error: the cluster has no CRD of peerings: kopf.dev/v1/kopfpeerings or zalando.org/v1/kopfpeerings",
            ),
            (&["--kubeconfig", "kubeconfig"], "hint: create it with the files in `manifests/peering` of kopfd"),
            (
                &["--kubeconfig", "stranger.kubeconfig"],
                "error: cannot look at the kinds of the cluster: the API server refuses the credentials",
            ),
            (
                &["--kubeconfig", "absent.kubeconfig"],
                "error: failed to use the kubeconfig: cannot read absent.kubeconfig: ",
            ),
            (&["--kubeconfig", "kubeconfig", "--context", "absent"], "error: failed to use the kubeconfig: "),
        ];
        for (options, expected) in failures {
            let (code, printed) = commanded(cluster.kopfd(), &[command, options].concat(), &[]);
            assert_eq!(code, Some(1), "{command:?} {options:?}: {printed}");
            assert!(printed.contains(expected), "{command:?} {options:?}: {printed}");
        }
    }
}
