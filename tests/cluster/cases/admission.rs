//! Admission webhooks with managed configurations: what users see, what happens while the operator is away,
//! certificates under load, and kopf and kopfd in turns.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::SignedDuration;
use kopfd::http::{Authority, Certificate, Validity};
use serde_json::{Value, json};

use super::cases;
use crate::harness::{Case, Client, Engine, Kind, Launch, TestContext, heavy_turn, running_cases};

pub(crate) const CASES: &[Case] = cases![
    certificates_are_replaced_under_load_without_a_failed_request,
    kopf_and_kopfd_replace_each_other_on_one_configuration,
    users_see_denials_warnings_and_mutations,
    requests_are_refused_or_allowed_while_the_operator_is_away,
    a_configuration_that_others_change_or_delete_is_restored,
    derived_conditions_have_the_meaning_of_their_filters,
    an_operator_without_permissions_says_which,
];

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";

const SCRIPT: &str = r#"
fn check(spec, operation, warnings, dryrun) {
    if spec?.size == 0 { warnings.push("a size of 0 does nothing"); }
    if (spec?.size ?? 1) > 10 { throw reject(`${spec.size} is more than 10`, 422); }
    if spec?.size == 7 && !dryrun { throw reject("7 is only for dry runs"); }
}
fn complete(spec, patch) { patch.spec.owner = spec?.owner ?? "nobody"; }
"#;

const WEBHOOKS: &str = "[{on: validate, fn: check}, {on: mutate, fn: complete, operations: [create, update]}]";

fn managed(context: &TestContext<'_>) -> String {
    format!("{}.example.com", context.namespace)
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).expect("the directory of the case can be written");
}

/// Writes an operator of the webhooks of a kind, and returns its start options.
fn launch(context: &TestContext<'_>, kind: &Kind, server: &str, webhooks: &str) -> Launch {
    let directory = context.directory().join("webhooks");
    std::fs::create_dir_all(&directory).expect("the directory of an operator can be made");
    let manifest = format!(
        "apiVersion: kopfd.dev/v1\nkind: Operator\nmetadata: {{name: {}}}\nspec:\n  settings:\n    admission:\n      managed: {}\n      \
         server: {{kind: server, addr: 127.0.0.1{server}}}\n  resources:\n    - resource: {}\n      script: webhooks.rhai\n      webhooks: {webhooks}\n",
        context.namespace,
        managed(context),
        kind.selector(),
    );
    write(&directory.join("operator.yaml"), &manifest);
    write(&directory.join("webhooks.rhai"), SCRIPT);
    context.launch_source(&directory)
}

fn configuration_path(context: &TestContext<'_>, kind: &str) -> String {
    format!("{GROUP}/{kind}webhookconfigurations/{}", managed(context))
}

/// Returns the webhooks of a configuration; none if it does not exist.
fn webhooks(context: &TestContext<'_>, kind: &str) -> Vec<Value> {
    let found = context.client().get(&configuration_path(context, kind));
    found.and_then(|found| found["webhooks"].as_array().cloned()).unwrap_or_default()
}

/// Waits until both configurations have this many webhooks, and the API server calls them.
fn wait_for_webhooks(context: &TestContext<'_>, counts: [usize; 2]) {
    context.eventually("the configurations are written", || {
        let found = ["validating", "mutating"].map(|kind| webhooks(context, kind).len());
        (found == counts).then_some(())
    });
}

fn thing(kind: &Kind, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": kind.api_version(), "kind": kind.name, "metadata": {"name": name}, "spec": spec})
}

/// Creates an object, and returns it or the status and the message.
fn create(context: &TestContext<'_>, kind: &Kind, object: &Value, query: &str) -> Result<Value, (u16, String)> {
    let path = format!("{}{query}", kind.collection(&context.namespace));
    let created = context.client().request("POST", &path, "application/json", Some(object));
    created.map_err(|failure| (failure.status, failure.message))
}

/// Waits until a creation is answered as expected: API servers read changed configurations a moment later.
fn eventually_created(
    context: &TestContext<'_>,
    kind: &Kind,
    spec: &Value,
    is_expected: impl Fn(&Result<Value, (u16, String)>) -> bool,
) {
    context.eventually("a creation is answered as expected", || {
        let object = json!({"apiVersion": kind.api_version(), "kind": kind.name, "metadata": {"generateName": "probe-"}, "spec": spec});
        is_expected(&create(context, kind, &object, "?dryRun=All")).then_some(())
    });
}

fn is_denied(answer: &Result<Value, (u16, String)>) -> bool {
    answer.as_ref().is_err_and(|(status, _)| *status == 422)
}

fn users_see_denials_warnings_and_mutations(context: &TestContext<'_>) {
    let kind = context.thing();
    let operator = context.start(&launch(context, &kind, "", WEBHOOKS));
    wait_for_webhooks(context, [1, 1]);
    eventually_created(context, &kind, &json!({"size": 11}), is_denied);
    let name = managed(context);
    let denied = create(context, &kind, &thing(&kind, "large", &json!({"size": 11})), "");
    assert_eq!(
        denied,
        Err((422, format!("admission webhook \"check.{name}\" denied the request: 11 is more than 10")))
    );
    let created = create(context, &kind, &thing(&kind, "one", &json!({"size": 1})), "").expect("it is allowed");
    assert_eq!(created["spec"], json!({"size": 1, "owner": "nobody"}));
    // kubectl shows warnings and denials.
    let file = context.directory().join("zero.json");
    write(&file, &thing(&kind, "zero", &json!({"size": 0, "owner": "me"})).to_string());
    let apply = |path: &Path| {
        context.cluster().kubectl(&["apply", "-n", &context.namespace, "-f", &path.display().to_string()])
    };
    let applied = apply(&file);
    let errors = String::from_utf8_lossy(&applied.stderr).into_owned();
    assert!(applied.status.success() && errors.contains("Warning: a size of 0 does nothing"), "{errors}");
    assert_eq!(context.get(&kind, "zero").expect("it was created")["spec"]["owner"], "me");
    write(&file, &thing(&kind, "zero", &json!({"size": 12})).to_string());
    let refused = apply(&file);
    let errors = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && errors.contains("denied the request: 12 is more than 10"), "{errors}");
    // A dry run is reviewed, and nothing is stored.
    create(context, &kind, &thing(&kind, "dry", &json!({"size": 7})), "?dryRun=All").expect("dry runs are allowed");
    assert!(context.get(&kind, "dry").is_none());
    let wet =
        create(context, &kind, &thing(&kind, "dry", &json!({"size": 7})), "").expect_err("only dry runs are allowed");
    assert!(wet.0 == 500 && wet.1.ends_with("7 is only for dry runs"), "{wet:?}");
    // A deletion is not mutated, and is validated by the old object.
    context.delete(&kind, "one");
    context.gone(&kind, "one");
    assert!(!operator.log().contains("ERROR"), "{}", operator.log());
    context.stop(&operator);
    assert_eq!([webhooks(context, "validating"), webhooks(context, "mutating")], [Vec::<Value>::new(), Vec::new()]);
    assert!(context.client().get(&configuration_path(context, "validating")).is_some(), "the configuration stays");
}

fn requests_are_refused_or_allowed_while_the_operator_is_away(context: &TestContext<'_>) {
    let [strict, lenient] =
        [("Strict", "stricts"), ("Lenient", "lenients")].map(|(name, plural)| context.own_kind().named(name, plural));
    context.install(&strict);
    context.install(&lenient);
    let launch = launch(context, &strict, "", "[{on: validate, fn: check, persistent: true}]");
    let manifest = launch.source.join("operator.yaml");
    let text = std::fs::read_to_string(&manifest).expect("it was written");
    let more = format!(
        "    - resource: {}\n      script: webhooks.rhai\n      webhooks: [{{on: validate, fn: check, id: lenient, ignoreFailures: true}}]\n",
        lenient.selector()
    );
    write(&manifest, &(text + &more));
    let operator = context.start(&launch);
    wait_for_webhooks(context, [2, 0]);
    eventually_created(context, &strict, &json!({"size": 11}), is_denied);
    eventually_created(context, &lenient, &json!({"size": 11}), is_denied);
    context.kill(&operator);
    let refused = create(context, &strict, &thing(&strict, "a", &json!({})), "").expect_err("nobody answers");
    assert!(refused.0 == 500 && refused.1.contains("failed calling webhook"), "{refused:?}");
    create(context, &lenient, &thing(&lenient, "a", &json!({"size": 11})), "").expect("failures are ignored");
    // The next run has another port, which the API server is told.
    let operator = context.start(&launch);
    eventually_created(context, &strict, &json!({"size": 1}), Result::is_ok);
    eventually_created(context, &lenient, &json!({"size": 11}), is_denied);
    context.stop(&operator);
    wait_for_webhooks(context, [1, 0]);
    let name = webhooks(context, "validating")[0]["name"].clone();
    assert_eq!(name, format!("check.{}", managed(context)), "only the persistent one stays");
    context.client().merge(&configuration_path(context, "validating"), &json!({"webhooks": []}));
}

fn a_configuration_that_others_change_or_delete_is_restored(context: &TestContext<'_>) {
    let kind = context.thing();
    let operator = context.start(&launch(context, &kind, "", WEBHOOKS));
    wait_for_webhooks(context, [1, 1]);
    let written = webhooks(context, "validating");
    let path = configuration_path(context, "validating");
    context.client().merge(&path, &json!({"webhooks": [], "metadata": {"labels": {"mine": "yes"}}}));
    context.eventually("the edited configuration is restored", || {
        (webhooks(context, "validating") == written).then_some(())
    });
    let restored = context.client().get(&path).expect("it is there");
    assert_eq!(restored["metadata"]["labels"]["mine"], "yes", "the metadata stay as others have written them");
    context.client().delete(&path);
    context.eventually("the deleted configuration is restored", || {
        (webhooks(context, "validating") == written).then_some(())
    });
    std::thread::sleep(Duration::from_secs(3));
    let log = operator.log();
    assert_eq!(log.matches("by another client").count(), 2, "its own writes are not taken for those of others: {log}");
    context.stop(&operator);
}

/// Values of `spec.x`, by the names of the objects.
fn values() -> Vec<(&'static str, Value)> {
    vec![
        ("text", json!({"x": "a"})),
        ("digits", json!({"x": "1"})),
        ("one", json!({"x": 1})),
        ("half", json!({"x": 1.5})),
        ("zero", json!({"x": 0})),
        ("true", json!({"x": true})),
        ("false", json!({"x": false})),
        ("list", json!({"x": ["a"]})),
        ("map", json!({"x": {"a": 1}})),
        ("null", json!({"x": null})),
        ("absent", json!({})),
    ]
}

/// The conditions have no effect that the operator's own filters would not have, except when it is away: then exactly
/// the requests fail for which the webhook would be called.
fn derived_conditions_have_the_meaning_of_their_filters(context: &TestContext<'_>) {
    let kind = context.thing();
    let filters: [(&str, &[&str]); 8] = [
        ("field: spec.x", &["text", "digits", "one", "half", "zero", "true", "false", "list", "map", "null"]),
        ("field: spec.x, value: {present: false}", &["absent"]),
        ("field: spec.x, value: a", &["text"]),
        ("field: spec.x, value: 1", &["one", "true"]),
        ("field: spec.x, value: false", &["zero", "false"]),
        ("field: spec.x, value: {in: [a, 0]}", &["text", "zero", "false"]),
        ("field: spec.x, value: {notIn: [a, 1, 0]}", &["digits", "half", "list", "map", "null", "absent"]),
        ("annotations: {'a.io/note': {in: [x, \"q\\\"\"]}}", &["text", "map"]),
    ];
    let declared: Vec<String> = filters
        .iter()
        .enumerate()
        .map(|(number, (filter, _))| {
            format!("{{on: validate, fn: check, id: w{number}, labels: {{case: c{number}}}, {filter}}}")
        })
        .collect();
    let operator = context.start(&launch(context, &kind, "", &format!("[{}]", declared.join(", "))));
    wait_for_webhooks(context, [filters.len(), 0]);
    assert!(
        webhooks(context, "validating")
            .iter()
            .all(|webhook| webhook["matchConditions"].as_array().is_some_and(|all| all.len() == 1))
    );
    // Nothing is rejected: the requests are answered.
    let object = |number: usize, name: &str, spec: &Value| {
        let annotations = match name {
            "text" => json!({"a.io/note": "x"}),
            "map" => json!({"a.io/note": "q\""}),
            "list" => json!({"a.io/note": "other"}),
            _ => json!({}),
        };
        let mut object = thing(&kind, name, spec);
        object["metadata"]["labels"] = json!({"case": format!("c{number}")});
        object["metadata"]["annotations"] = annotations;
        object
    };
    context.eventually("the API server calls the webhooks", || {
        create(context, &kind, &object(0, "text", &json!({"x": 1})), "?dryRun=All").ok()
    });
    context.kill(&operator);
    for (number, (filter, expected)) in filters.iter().enumerate() {
        let refused: Vec<&str> = values()
            .iter()
            .filter(|(name, spec)| match create(context, &kind, &object(number, name, spec), "?dryRun=All") {
                Ok(_) => false,
                Err((500, message)) if message.contains("connection refused") => true,
                Err(other) => panic!("{filter}, {name}: {other:?}"),
            })
            .map(|(name, _)| *name)
            .collect();
        assert_eq!(refused, *expected, "{filter}");
    }
    context.client().merge(&configuration_path(context, "validating"), &json!({"webhooks": []}));
}

fn an_operator_without_permissions_says_which(context: &TestContext<'_>) {
    let kind = context.thing();
    let launch = launch(context, &kind, "", WEBHOOKS);
    let kubeconfig = context.directory().join("guest.kubeconfig");
    let text = std::fs::read_to_string(&launch.kubeconfig).expect("the kubeconfig of the suite");
    write(&kubeconfig, &text.replace(crate::harness::admin_token(), crate::harness::GUEST_TOKEN));
    let operator = context.start(&Launch { kubeconfig, ..launch });
    let status = crate::harness::eventually("it ends", crate::harness::TIMEOUT, || operator.ended());
    let log = operator.log();
    assert!(!status.success() && log.contains("no permission to create"), "{log}");
    assert!(
        log.contains(
            "webhookconfigurations.admissionregistration.k8s.io: the verbs create, patch, list and watch are needed"
        ),
        "{log}"
    );
    context.kill(&operator);
}

/// A certificate of an own authority, in the files of a server.
struct Files {
    certificate: String,
    key: String,
    authority: String,
}

impl Files {
    fn new(directory: &Path) -> Self {
        let path = |name: &str| directory.join(name).display().to_string();
        Self { certificate: path("tls.crt"), key: path("tls.key"), authority: path("ca.crt") }
    }

    /// Writes another certificate, and returns the text of its authority.
    fn renew(&self) -> String {
        let validity = Validity::starting(kopfd::kit::Clock::system().now(), SignedDuration::from_hours(24));
        let authority = Authority::make("an authority of the suite", validity).expect("an authority");
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let Certificate { chain, key } = authority.issue(&names, validity).expect("a certificate");
        write(Path::new(&self.authority), &authority.pem());
        write(Path::new(&self.key), &key);
        write(Path::new(&self.certificate), &chain);
        authority.pem()
    }
}

/// A steady load of requests that are reviewed.
struct Load {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicUsize>,
    threads: Vec<std::thread::JoinHandle<Vec<String>>>,
}

/// Requests per second, and the threads that send them. Each request has two reviews.
const RATE: usize = 200;
const THREADS: usize = 16;

/// The least number of reviews per second, on average, if no other case runs.
const REVIEWS: f64 = 200.0;

/// The least number of reviews per second, on average, beside all other cases.
const LEAST_REVIEWS: f64 = 100.0;

impl Load {
    fn begin(client: &Client, path: &str, object: &Value) -> Self {
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let threads = (0..THREADS).map(|_| {
            let (stop, answered, client) = (Arc::clone(&stop), Arc::clone(&answered), client.clone());
            let (path, object) = (format!("{path}?dryRun=All"), object.clone());
            std::thread::spawn(move || {
                let (mut failures, pause) = (Vec::new(), Duration::from_secs(1) * THREADS as u32 / RATE as u32);
                let mut next = Instant::now();
                while !stop.load(Ordering::SeqCst) {
                    match client.request("POST", &path, "application/json", Some(&object)) {
                        Ok(created) if created["spec"]["owner"] == "nobody" => {
                            answered.fetch_add(1, Ordering::SeqCst);
                        }
                        Ok(other) => failures.push(format!("it was not reviewed: {other}")),
                        Err(failure) => failures.push(failure.to_string()),
                    }
                    next += pause;
                    std::thread::sleep(next.saturating_duration_since(Instant::now()));
                }
                failures
            })
        });
        let threads = threads.collect();
        Self { stop, answered, threads }
    }

    /// Ends the load, and returns the number of answered requests and the failures of the others.
    fn end(self) -> (usize, Vec<String>) {
        self.stop.store(true, Ordering::SeqCst);
        let failures =
            self.threads.into_iter().flat_map(|thread| thread.join().expect("a thread of the load")).collect();
        (self.answered.load(Ordering::SeqCst), failures)
    }
}

fn bundle(context: &TestContext<'_>) -> String {
    let all = webhooks(context, "mutating");
    let encoded = all.first().and_then(|webhook| webhook["clientConfig"]["caBundle"].as_str()).unwrap_or_default();
    String::from_utf8(STANDARD.decode(encoded).expect("a bundle is base64")).expect("a bundle is text")
}

fn certificates_are_replaced_under_load_without_a_failed_request(context: &TestContext<'_>) {
    let _turn = heavy_turn();
    let kind = context.thing();
    let files = Files::new(context.directory());
    let first = files.renew();
    let Files { certificate, key, authority } = &files;
    let server = format!(", certfile: {certificate}, pkeyfile: {key}, cafile: {authority}, fileCheckInterval: 500ms");
    let launch = launch(context, &kind, &server, WEBHOOKS);
    let operator = context.start(&launch);
    wait_for_webhooks(context, [1, 1]);
    eventually_created(context, &kind, &json!({"size": 11}), is_denied);
    assert_eq!(bundle(context), first);
    let object = json!({"apiVersion": kind.api_version(), "kind": kind.name, "metadata": {"generateName": "load-"}, "spec": {"size": 1}});
    let began = Instant::now();
    let load = Load::begin(context.client(), &kind.collection(&context.namespace), &object);
    std::thread::sleep(Duration::from_secs(2));
    let mut cases = running_cases();
    let second = files.renew();
    // Connections are closed after some idle time only: the reload makes the API server open new ones, since its client
    // depends on the bundle.
    context.eventually("only the new authority is told", || (bundle(context) == second).then_some(()));
    // A reload replaces the functions meanwhile.
    let script = launch.source.join("webhooks.rhai");
    write(&script, &SCRIPT.replace("is more than 10", "is too much"));
    context.eventually("the new revision answers", || {
        let denied = create(context, &kind, &thing(&kind, "large", &json!({"size": 11})), "?dryRun=All");
        denied.is_err_and(|(_, message)| message.ends_with("11 is too much")).then_some(())
    });
    std::thread::sleep(Duration::from_secs(2));
    cases = cases.max(running_cases());
    let (answered, failures) = load.end();
    let seconds = began.elapsed().as_secs_f64();
    let reviews = 2.0 * answered as f64 / seconds;
    println!("{answered} requests were reviewed twice in {seconds:.1} s: {reviews:.0} reviews a second");
    assert!(
        failures.is_empty(),
        "{} of {} failed: {:?}",
        failures.len(),
        answered + failures.len(),
        &failures[..failures.len().min(3)]
    );
    let least = (REVIEWS / cases as f64).max(LEAST_REVIEWS);
    assert!(reviews >= least, "the load was too small: {reviews:.0} reviews a second, with {cases} cases");
    context.stop(&operator);
}

/// The same webhooks in Python.
fn python(context: &TestContext<'_>, kind: &Kind, files: &Files) -> String {
    format!(
        r#"
import kopf

@kopf.on.startup()
def configure(settings, **_):
    settings.admission.managed = {managed:?}
    settings.admission.server = kopf.WebhookServer(
        addr="127.0.0.1", host="127.0.0.1", certfile={certificate:?}, pkeyfile={key:?}, cafile={authority:?})

@kopf.on.validate({selector:?})
def check(spec, warnings, **_):
    if spec.get("size") == 0:
        warnings.append("a size of 0 does nothing")
    if spec.get("size", 1) > 10:
        raise kopf.AdmissionError(f"{{spec['size']}} is more than 10", code=422)

@kopf.on.mutate({selector:?}, operations=["CREATE", "UPDATE"])
def complete(spec, patch, **_):
    patch.spec["owner"] = spec.get("owner", "nobody")

@kopf.on.create({selector:?})
def created(**_):
    pass
"#,
        managed = managed(context),
        certificate = files.certificate,
        key = files.key,
        authority = files.authority,
        selector = kind.selector(),
    )
}

fn kopf_and_kopfd_replace_each_other_on_one_configuration(context: &TestContext<'_>) {
    let kind = context.thing();
    let files = Files::new(context.directory());
    files.renew();
    let source = context.directory().join("webhooks.py");
    write(&source, &python(context, &kind, &files));
    let ours = launch(context, &kind, "", WEBHOOKS);
    let theirs = Launch { engine: Engine::Kopf, source, log: context.directory().join("kopf.log"), ..ours.clone() };
    let mut seen = Vec::new();
    for launch in [&theirs, &ours, &theirs] {
        let operator = context.start(launch);
        wait_for_webhooks(context, [1, 1]);
        eventually_created(context, &kind, &json!({"size": 11}), is_denied);
        let name = managed(context);
        let denied = create(context, &kind, &thing(&kind, "large", &json!({"size": 11})), "");
        assert_eq!(
            denied,
            Err((422, format!("admission webhook \"check.{name}\" denied the request: 11 is more than 10")))
        );
        let created = create(context, &kind, &thing(&kind, &format!("one-{}", seen.len()), &json!({"size": 1})), "")
            .expect("it is allowed");
        assert_eq!(created["spec"]["owner"], "nobody");
        let described = ["validating", "mutating"].map(|kind| {
            let mut webhook = webhooks(context, kind).remove(0);
            // Each engine listens at a port of its own, with its own certificate; the order of operations is
            // unspecified.
            webhook.as_object_mut().expect("a webhook is a mapping").remove("clientConfig");
            let operations = webhook["rules"][0]["operations"].as_array_mut().expect("a rule has operations");
            operations.sort_by_key(Value::to_string);
            webhook
        });
        seen.push(described);
        context.stop(&operator);
        assert_eq!([webhooks(context, "validating"), webhooks(context, "mutating")], [Vec::<Value>::new(), Vec::new()]);
    }
    assert_eq!(seen[0], seen[1], "both engines write the same");
    assert_eq!(seen[0], seen[2]);
}
