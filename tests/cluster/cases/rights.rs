//! The check of rights at the start on the RBAC authorizer: each verb of the derived roles is left out in turn, and the log names exactly it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::{Value, json};

use super::examples::{apply_definition, copy_admission, example, launch_schedules};
use super::peering::Peers;
use super::{cases, database};
use crate::harness::{Case, Launch, Operator, TIMEOUT, TestContext, caught, eventually, rbac_options};

pub(crate) const CASES: &[Case] = cases![
    each_verb_that_the_database_operator_lacks_is_named,
    each_verb_that_an_operator_with_webhooks_and_replicas_lacks_is_named,
    each_verb_that_an_operator_with_schedules_lacks_is_named,
    each_verb_that_an_operator_with_hooks_lacks_is_named,
];

/// Operators that are started at the same time.
const CONCURRENCY: usize = 4;

/// What the check says when nothing is missing, at the level debug.
const COMPLETE: &str = "has the rights that it needs";

/// The beginning of the list of missing rights.
const INCOMPLETE: &str = "lacks rights. It goes on with what it may do.";

fn each_verb_that_the_database_operator_lacks_is_named(context: &TestContext<'_>) {
    let peering = format!("--peering={}", Peers::new(context, false).name());
    let launch = database::launch(context);
    each_missing_verb_is_named(context, &Launch { options: vec![peering], ..launch }, 24);
}

fn each_verb_that_an_operator_with_webhooks_and_replicas_lacks_is_named(context: &TestContext<'_>) {
    let manifest = copy_admission(context).join("operator.yaml");
    let text = std::fs::read_to_string(&manifest).expect("the example has a manifest");
    let secret = format!("addr: 127.0.0.1, secret: {{name: webhooks-of-{}}}", context.namespace);
    std::fs::write(&manifest, text.replace("addr: 127.0.0.1", &secret)).expect("our own copy can be written");
    let options = vec!["--leader-elect".to_owned(), format!("--lease=of-{}", context.namespace)];
    each_missing_verb_is_named(context, &Launch { options, ..context.launch_source(&manifest) }, 16);
}

fn each_verb_that_an_operator_with_schedules_lacks_is_named(context: &TestContext<'_>) {
    each_missing_verb_is_named(context, &launch_schedules(context), 11);
}

fn each_verb_that_an_operator_with_hooks_lacks_is_named(context: &TestContext<'_>) {
    apply_definition(context, "hooks");
    let launch = context.launch_source(&example("hooks").join("operator.yaml"));
    each_missing_verb_is_named(context, &launch, 9);
}

/// An account without one verb, or with all.
struct Account {
    name: String,
    kubeconfig: PathBuf,
    /// Where the verb is missing, in the words of the log, and the rule that has only this verb.
    missing: Option<(String, Value)>,
}

/// Starts an operator without each verb in turn, and with all of them. There are at least so many verbs.
fn each_missing_verb_is_named(context: &TestContext<'_>, launch: &Launch, least: usize) {
    let accounts = make_accounts(context, launch);
    assert!(accounts.len() > least, "only {} accounts", accounts.len());
    let (next, tools) = (AtomicUsize::new(0), context.cluster().tools());
    let work = || {
        let mut failures = Vec::new();
        while let Some(account) = accounts.get(next.fetch_add(1, Ordering::Relaxed)) {
            let launch = Launch {
                kubeconfig: account.kubeconfig.clone(),
                options: [&launch.options[..], &["--verbose", "--log-format=json"].map(str::to_owned)].concat(),
                log: account.kubeconfig.with_file_name("operator.log"),
                ..launch.clone()
            };
            failures.extend(caught(|| account.check(&Operator::start(tools, &launch))).err());
        }
        failures
    };
    let failures: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..CONCURRENCY).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("panics are caught")).collect()
    });
    assert!(failures.is_empty(), "{} of {} checks fail:\n{}", failures.len(), accounts.len(), failures.join("\n"));
}

/// Makes an account for each verb, which lacks only this one, and one with all verbs.
fn make_accounts(context: &TestContext<'_>, launch: &Launch) -> Vec<Account> {
    let options = rbac_options(launch);
    let options: Vec<&str> = options.iter().map(String::as_str).chain(["--output=json"]).collect();
    let list: Value = serde_json::from_str(&context.rbac(&launch.source, "derived", &options)).expect("the list is JSON");
    let objects = list["items"].as_array().expect("a list has items");
    let mut accounts = Vec::new();
    let mut make = |objects: &[Value], missing: Option<(String, Value)>| {
        let name = format!("{}-lacks-{}", context.namespace, accounts.len());
        let objects: Vec<Value> = objects.iter().map(|object| renamed(object, &name)).collect();
        context.create_account(&objects);
        let directory = context.directory().join(&name);
        std::fs::create_dir_all(&directory).expect("the directory of the case can be written");
        let kubeconfig = context.cluster().api_server().kubeconfig_of(&directory, &context.token(&name));
        accounts.push(Account { name, kubeconfig, missing });
        objects
    };
    for (number, role) in objects.iter().enumerate() {
        for (index, rule) in role["rules"].as_array().into_iter().flatten().enumerate() {
            for verb in rule["verbs"].as_array().expect("a rule has verbs") {
                let mut rest = objects.clone();
                let rules = rest[number]["rules"].as_array_mut().expect("a role has rules");
                rules[index]["verbs"].as_array_mut().expect("a rule has verbs").retain(|other| other != verb);
                rules.retain(|rule| rule["verbs"] != json!([]));
                let mut missing = rule.clone();
                missing["verbs"] = json!([verb]);
                make(&rest, Some((place(role), missing)));
            }
        }
    }
    let complete = make(objects, None);
    // The API server reads them in the order of their creation.
    context.await_rights(&accounts.last().expect("it was made").name, &complete);
    accounts
}

/// Returns the place of a role in the words of the log.
fn place(role: &Value) -> String {
    match role["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("in a Role of the namespace {namespace}:"),
        None => "in a ClusterRole:".to_owned(),
    }
}

fn renamed(object: &Value, name: &str) -> Value {
    let mut object = object.clone();
    for pointer in ["/metadata/name", "/roleRef/name", "/subjects/0/name"] {
        if let Some(named) = object.pointer_mut(pointer) {
            *named = json!(name);
        }
    }
    object
}

impl Account {
    fn check(&self, operator: &Operator) {
        let told = eventually(&format!("{} is told its rights: {:?}", self.name, self.missing), TIMEOUT, || {
            let has_ended = operator.ended().is_some();
            let told = told_rights(&operator.log());
            assert!(told.is_some() || !has_ended, "{:?} is not named, and the operator ends:\n{}", self.missing, operator.log());
            told
        });
        let Some((place, rule)) = &self.missing else {
            assert!(told.contains(COMPLETE), "nothing is missing: {told}");
            return;
        };
        let (_, list) = told.split_once('\n').unwrap_or_else(|| panic!("{rule} {place} is missing: {told}"));
        let (told_place, rules) = list.split_once('\n').expect("the list has rules");
        let rules = kopfd::object::yaml::parse(rules).unwrap_or_else(|error| panic!("{error:?}: {told}"));
        assert_eq!((told_place, rules), (place.as_str(), vec![json!({"rules": [rule]})]), "{told}");
    }
}

/// Returns what the check of the rights has logged, if it has ended.
fn told_rights(log: &str) -> Option<String> {
    // The last line may not be complete yet.
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut messages = lines.filter_map(|line| line["message"].as_str().map(str::to_owned));
    messages.find(|message| message.contains(COMPLETE) || message.contains(INCOMPLETE))
}
