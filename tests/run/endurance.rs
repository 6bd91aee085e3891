//! An operator under everything at once: reloads, objects that come, change and go, timers and daemons that start and
//! stop, and objects that bring hostile scripts to their limits. No change is lost or handled twice, no watch is opened
//! anew, and memory does not grow.
//!
//! `KOPFD_ENDURANCE_SECONDS` is the length of the run. Up to a thousand reloads are spread over it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{BufRead as _, BufReader};
use std::process::ChildStderr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use http::Method;
use kopfd::cluster::Request;
use serde_json::{Value, json};

use super::{Api, Cluster};
use crate::child::{LIMIT, Process, ask};

const SECONDS: u64 = 60;

const RELOADS: u32 = 1_000;

/// The shortest time between two reloads: a change takes effect 100 ms after the last write.
const RELOAD_EVERY: Duration = Duration::from_millis(300);

/// Well-behaved objects that exist at the same time.
const OBJECTS: usize = 200;

/// Pause between two changes of them.
const PAUSE: Duration = Duration::from_millis(20);

/// Changes between two new hostile objects, and how many of these exist at the same time.
const CHANGES_PER_ATTACK: usize = 50;
const ATTACKERS: usize = 10;

/// The growth of the resident memory that counts as none: the median of the last quarter over that of the second. In a
/// short run, the allocator still gathers pages for the largest of the hostile calls.
const MAX_GROWTH: f64 = 1.10;
const MAX_GROWTH_OF_A_MINUTE: f64 = 1.25;

const DEFINITION: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.soak.dev}
spec:
  group: soak.dev
  names: {plural: things, singular: thing, kind: Thing}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}}
      schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
";

const MANIFEST: &str = "apiVersion: kopfd.dev/v1
kind: Operator
metadata: {name: soak}
spec:
  limits: {time: 1s, memory: 32Mi, output: 64Ki}
  resources:
    - resource: soak.dev/v1/things
      script: main.rhai
      handlers:
        - {on: create, fn: made, labels: {app: good}}
        - {on: update, field: spec.n, fn: changed, labels: {app: good}}
        - {on: create, fn: attack, labels: {app: hostile}, retries: 2, backoff: 0.5}
      timers:
        - {fn: tick, interval: 1s, labels: {timed: 'yes'}}
      daemons:
        - {fn: stay, labels: {timed: 'yes'}}
      indexes:
        - {fn: numbers, labels: {app: good}}
";

/// The scripts of hostile objects. All of them end by a limit, or by an error.
const ATTACKS: [&str; 8] = [
    "loop { }",
    "let text = \"x\"; loop { text += text; }",
    "fn_down(0);",
    "memo.a = \"xxxxxxxxxxxxxxxx\"; for i in 0..40 { memo[`k${i}`] = memo; }",
    "loop { logger.info(\"noise\"); }",
    "loop { try { loop { } } catch { } }",
    "throw temporary(\"again\", 0);",
    "let list = []; loop { list.push(spec.text.replace(\"x\", spec.text)); }",
];

/// The script of a revision. Every tenth one changes the index, the timer and the daemon, too.
fn script(revision: usize) -> String {
    let tenth = revision / 10;
    let attacks: Vec<String> =
        ATTACKS.iter().enumerate().map(|(number, text)| format!("{number} => {{ {text} }}")).collect();
    let attacks = attacks.join("\n");
    format!(
        "// Revision {revision}
         fn made(name, spec, logger) {{ logger.info(`handled ${{name}} ${{spec.n}}`); }}
         fn changed(name, spec, logger, numbers) {{
             if name !in numbers {{ throw permanent(\"the index has a gap\"); }}
             logger.info(`handled ${{name}} ${{spec.n}}`);
             if spec.n % 5 == 0 {{ sleep(0.2); }}
         }}
         fn fn_down(n) {{ fn_down(n + 1) }}
         fn attack(spec, memo, logger) {{ switch spec.attack {{ {attacks} }} }}
         fn tick(name) {{ return {tenth}; }}
         fn stay(stopped) {{ stopped.wait(); {tenth} }}
         fn numbers(name, spec) {{ return entry(name, [spec.n, {tenth}]); }}"
    )
}

const THINGS: &str = "/apis/soak.dev/v1/namespaces/default/things";

/// A well-behaved object.
#[derive(Clone)]
struct Good {
    name: String,
    n: u64,
    is_timed: bool,
}

/// What the operator has logged.
#[derive(Default)]
struct Told {
    /// Times at which an object was handled with a number.
    handled: BTreeMap<(String, u64), Vec<Instant>>,
    overruns: usize,
    /// Errors about well-behaved objects, and lost lines.
    wrong: Vec<String>,
}

/// Reads the log to its end, and counts the reloads.
fn read(log: BufReader<ChildStderr>, reloads: &AtomicUsize) -> Told {
    let mut told = Told::default();
    for line in log.lines().map(Result::unwrap) {
        let fields: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"));
        let message = fields["message"].as_str().unwrap();
        let name = fields["object"]["name"].as_str().unwrap_or_default();
        let words: Vec<&str> = message.split(' ').collect();
        if let ["handled", name, n] = words[..] {
            told.handled.entry((name.to_owned(), n.parse().unwrap())).or_default().push(Instant::now());
        } else if message.contains(" is reloaded") {
            reloads.fetch_add(1, Ordering::Relaxed);
        } else if message.contains("has used up its budget") {
            told.overruns += 1;
        } else if message.contains("lines were dropped") || (name.starts_with("good") && fields["severity"] == "error")
        {
            told.wrong.push(line);
        }
    }
    told
}

/// The running operator with its load.
struct Soak {
    cluster: Cluster,
    run: Process,
    log: JoinHandle<Told>,
    reloads: Arc<AtomicUsize>,
    endpoint: String,
    api: Api,
    good: Vec<Good>,
    hostile: VecDeque<String>,
    /// Names that were used, of any kind of object.
    names: usize,
    /// When an object got a number.
    changed_at: BTreeMap<(String, u64), Instant>,
}

impl Soak {
    fn start(lifetime: Duration) -> Self {
        let cluster = Cluster::start_with(DEFINITION, lifetime);
        cluster.write("operator.yaml", MANIFEST);
        cluster.write("main.rhai", &script(0));
        let mut command = cluster.kopfd();
        command.args([
            "run",
            "operator.yaml",
            "--kubeconfig",
            "kubeconfig",
            "--log-format",
            "json",
            "-L",
            "http://127.0.0.1:0/healthz",
        ]);
        let mut run = Process::start_for(&mut command, lifetime);
        let mut log = BufReader::new(run.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("Probes are answered at") {
            line.clear();
            log.read_line(&mut line).unwrap();
        }
        let endpoint = line.rsplit_once('(').unwrap().1.split_once(')').unwrap().0.to_owned();
        let reloads: Arc<AtomicUsize> = Arc::default();
        let log = std::thread::spawn({
            let reloads = Arc::clone(&reloads);
            move || read(log, &reloads)
        });
        let api = cluster.client();
        Self {
            cluster,
            run,
            log,
            reloads,
            endpoint,
            api,
            good: Vec::new(),
            hostile: VecDeque::new(),
            names: 0,
            changed_at: BTreeMap::new(),
        }
    }

    fn create(&mut self, app: &str, spec: Value) -> String {
        self.names += 1;
        let name = format!("{app}-{}", self.names);
        let metadata = json!({"name": name, "namespace": "default", "labels": {"app": app}});
        let thing = json!({"apiVersion": "soak.dev/v1", "kind": "Thing", "metadata": metadata, "spec": spec});
        self.api.send(&Request::new(Method::POST, THINGS).with_json("application/json", &thing)).unwrap();
        name
    }

    fn create_good(&mut self) -> Good {
        let name = self.create("good", json!({"n": 1}));
        self.changed_at.insert((name.clone(), 1), Instant::now());
        Good { name, n: 1, is_timed: false }
    }

    fn delete(&self, name: &str) {
        self.api.send(&Request::new(Method::DELETE, format!("{THINGS}/{name}"))).unwrap();
    }

    fn patch(&self, name: &str, patch: &Value) {
        let request =
            Request::new(Method::PATCH, format!("{THINGS}/{name}")).with_json("application/merge-patch+json", patch);
        self.api.send(&request).unwrap();
    }

    /// Makes the next change of a well-behaved object, and sometimes replaces a hostile one.
    fn change(&mut self, number: usize) {
        let slot = number * 7 % OBJECTS;
        let mut good = self.good[slot].clone();
        match number % 10 {
            0 => {
                self.delete(&good.name);
                good = self.create_good();
            }
            1 | 2 => {
                good.is_timed = !good.is_timed;
                let label = if good.is_timed { json!("yes") } else { Value::Null };
                self.patch(&good.name, &json!({"metadata": {"labels": {"timed": label}}}));
            }
            _ => {
                good.n += 1;
                self.changed_at.insert((good.name.clone(), good.n), Instant::now());
                self.patch(&good.name, &json!({"spec": {"n": good.n}}));
            }
        }
        self.good[slot] = good;
        if number.is_multiple_of(CHANGES_PER_ATTACK) {
            let attack = number / CHANGES_PER_ATTACK % ATTACKS.len();
            let name = self.create("hostile", json!({"attack": attack, "text": "x".repeat(10_000)}));
            self.hostile.push_back(name);
            if self.hostile.len() > ATTACKERS {
                let oldest = self.hostile.pop_front().unwrap();
                self.delete(&oldest);
            }
        }
    }

    /// Returns the number of requests that open a watch.
    fn watches(&self) -> u64 {
        let text = ask(&self.endpoint, "GET", "/metrics").1;
        let lines =
            text.lines().filter(|line| line.starts_with("kopfd_api_requests_total{") && line.contains("\"watch\""));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }

    /// Returns the number of revisions whose scripts are in memory.
    fn revisions_in_memory(&self) -> usize {
        let text = ask(&self.endpoint, "GET", "/metrics").1;
        let value = text.lines().find_map(|line| line.strip_prefix("kopfd_revisions_in_memory{operator=\"soak\"} "));
        value.unwrap().parse().unwrap()
    }

    /// Returns the resident memory of the operator in megabytes.
    fn resident(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.run.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1_000.0
    }

    /// Waits until all changes of the script are followed.
    fn wait_for_reload(&self, revision: usize) {
        let began = Instant::now();
        while self.reloads.load(Ordering::Relaxed) < revision {
            assert!(began.elapsed() < LIMIT, "revision {revision} is not followed");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn is_handled(&self, good: &Good) -> bool {
        let found = self.api.send(&Request::get(format!("{THINGS}/{}", good.name))).unwrap();
        let essence =
            found["metadata"]["annotations"]["kopf.zalando.org/last-handled-configuration"].as_str().unwrap_or("{}");
        serde_json::from_str::<Value>(essence).unwrap()["spec"]["n"] == good.n
    }

    /// Waits until all well-behaved objects are handled with their last numbers.
    fn settle(&self) {
        let began = Instant::now();
        let mut left: Vec<&Good> = self.good.iter().collect();
        while !left.is_empty() {
            assert!(began.elapsed() < LIMIT, "{} objects are not handled, such as {}", left.len(), left[0].name);
            std::thread::sleep(Duration::from_millis(50));
            left.retain(|good| !self.is_handled(good));
        }
    }
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}

fn median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

#[test]
fn reloads_churn_and_hostile_neighbours_at_once_lose_nothing_and_leak_nothing() {
    let seconds =
        std::env::var("KOPFD_ENDURANCE_SECONDS").map_or(SECONDS, |text| text.parse().expect("a number of seconds"));
    let length = Duration::from_secs(seconds);
    let mut soak = Soak::start(length + 4 * LIMIT);
    soak.good = (0..OBJECTS).map(|_| soak.create_good()).collect();
    soak.settle();
    let (watches, reload_every) = (soak.watches(), (length / RELOADS).max(RELOAD_EVERY));
    let (began, mut saved_at, mut sampled_at) = (Instant::now(), Instant::now(), Instant::now());
    let (mut changes, mut revision, mut residents, mut reload_times) = (0, 0, Vec::new(), Vec::new());
    while began.elapsed() < length {
        soak.change(changes);
        changes += 1;
        let is_followed = soak.reloads.load(Ordering::Relaxed) == revision;
        if is_followed && reload_times.len() < revision {
            reload_times.push(milliseconds(saved_at.elapsed()));
        }
        if is_followed && saved_at.elapsed() >= reload_every {
            saved_at = Instant::now();
            revision += 1;
            soak.cluster.write("main.rhai", &script(revision));
        }
        if sampled_at.elapsed() >= length / 60 {
            sampled_at = Instant::now();
            residents.push(soak.resident());
        }
        std::thread::sleep(PAUSE);
    }
    soak.settle();
    soak.wait_for_reload(revision);
    assert_eq!(soak.watches(), watches, "watches are not opened anew");
    // Daemons run with the code that they began with, until every tenth revision changes it.
    assert!(soak.revisions_in_memory() <= 2 * 10, "{} revisions are in memory", soak.revisions_in_memory());
    soak.run.signal("TERM");
    assert_eq!(soak.run.wait(LIMIT).code(), Some(0));
    let told = soak.log.join().unwrap();

    let mut times: Vec<f64> = Vec::new();
    for (key, at) in &told.handled {
        assert_eq!(at.len(), 1, "{key:?} is handled once");
        times.push(milliseconds(at[0].saturating_duration_since(soak.changed_at[key])));
    }
    times.sort_by(f64::total_cmp);
    let unhandled: BTreeSet<&str> = soak
        .good
        .iter()
        .filter(|good| !told.handled.contains_key(&(good.name.clone(), good.n)))
        .map(|good| &*good.name)
        .collect();
    assert!(unhandled.is_empty(), "{unhandled:?}");
    assert!(told.wrong.is_empty(), "{:#?}", told.wrong);
    assert!(revision > 0, "no change of the script was followed");
    assert!(told.overruns > 0, "hostile scripts meet their limits");
    let quarter = residents.len() / 4;
    let (early, late) = (median(&residents[quarter..2 * quarter]), median(&residents[3 * quarter..]));
    println!(
        "{seconds} s: {changes} changes, {} calls for them, {revision} reloads, {} overruns of limits; save to reload: {:.0} ms; change to \
         call: p50 {:.0} ms, p99 {:.0} ms, longest {:.0} ms; resident in the second quarter {early:.1} MB, in the last {late:.1} MB",
        told.handled.len(),
        told.overruns,
        median(&reload_times),
        times[times.len() / 2],
        times[times.len() * 99 / 100],
        times[times.len() - 1],
    );
    let max_growth = if length > 10 * LIMIT { MAX_GROWTH } else { MAX_GROWTH_OF_A_MINUTE };
    assert!(late <= early * max_growth, "the memory has grown from {early:.1} MB to {late:.1} MB: {residents:.1?}");
}
