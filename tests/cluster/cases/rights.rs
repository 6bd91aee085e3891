//! The check of rights at the start on the RBAC authorizer: each verb of the derived roles is left out in turn, and the
//! log names exactly it.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::StreamExt as _;
use futures::stream;
use kopfd::cluster::{Client, Options};
use kopfd::kit::Clock;
use kopfd::manifest::{self, Operator as Declared};
use kopfd::object::namespace::Pattern;
use kopfd::reactor::Scope;
use kopfd::reactor::rights::{missing, report};
use serde_json::{Value, json};

use super::examples::{apply_definition, copy_admission, example, launch_schedules};
use super::peering::Peers;
use super::scenarios::EXAMPLES;
use super::uninstall::extend;
use super::{cases, database};
use crate::harness::{
    Case, Engine, Handler, Launch, Operator, TIMEOUT, TestContext, account_token, caught, create_account, eventually,
    rbac_options,
};

pub(crate) const CASES: &[Case] = cases![
    each_verb_that_an_example_lacks_is_found,
    each_verb_that_the_database_operator_lacks_is_named,
    each_verb_that_an_operator_with_webhooks_and_replicas_lacks_is_named,
    each_verb_that_an_operator_with_schedules_lacks_is_named,
    each_verb_that_an_operator_with_hooks_lacks_is_named,
    each_verb_that_the_application_of_definitions_lacks_is_named,
];

/// Operators that are started, and accounts that are made, at the same time.
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

/// Definitions are applied before the check. An operator that may not do that tells it at once, and ends when it has
/// tried for a while.
fn each_verb_that_the_application_of_definitions_lacks_is_named(context: &TestContext<'_>) {
    let kind = context.own_kind();
    let launch = context.launch(Engine::Kopfd, std::slice::from_ref(&kind), &[Handler::on("create", "hello")]);
    extend(&launch, &kind.definition().1, "");
    let launch = Launch { options: vec!["--apply-crds".to_owned()], ..launch };
    let mut named = Vec::new();
    for account in make_accounts(context, &launch, "defines") {
        // The discovery lists and watches the same resource.
        let is_of_application = |(_, rule): &&(String, Value)| {
            rule["resources"] == json!(["customresourcedefinitions"])
                && ["get", "create", "patch"].iter().any(|verb| rule["verbs"] == json!([verb]))
        };
        let Some((place, rule)) = account.missing.as_ref().filter(is_of_application) else { continue };
        let own = Launch {
            options: [&launch.options[..], &["--log-format=json".to_owned()]].concat(),
            ..account.launch(&launch)
        };
        let operator = Operator::start(context.cluster().tools(), &own);
        let told = eventually(&format!("{rule} is told"), TIMEOUT, || {
            assert!(operator.ended().is_none(), "the operator ends:\n{}", operator.log());
            logged(&operator.log(), |message| message.starts_with("Rights to apply the definitions are missing."))
        });
        expect_rules(&told, place, rule);
        named.extend(rule["verbs"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned));
    }
    named.sort_unstable();
    assert_eq!(named, ["create", "get", "patch"]);
}

/// All examples, by the check alone: so many operators would take long to start. Every other one serves the whole
/// cluster, for which the check asks other questions.
fn each_verb_that_an_example_lacks_is_found(context: &TestContext<'_>) {
    let (_, runtime) = context.client().parts();
    let mut checked = 0;
    for (number, name) in EXAMPLES.into_iter().enumerate() {
        let file = example(name).join("operator.yaml");
        let mut operators = manifest::load(std::slice::from_ref(&file)).operators;
        let mut operator = operators.pop().unwrap_or_else(|| panic!("{name} has an operator"));
        operator.settings.peering.standalone = true;
        let launch = context.launch_source(&file);
        let (launch, scope) = if number % 2 == 0 {
            (launch, Scope::Namespaces(vec![Pattern::of_globs(&context.namespace)]))
        } else {
            (Launch { namespaces: Vec::new(), ..launch }, Scope::Cluster)
        };
        let accounts = make_accounts(context, &launch, name);
        checked += accounts.len();
        let checks = accounts.iter().map(|account| told_by_check(&operator, account, &scope));
        let told: Vec<String> = runtime.block_on(stream::iter(checks).buffered(CONCURRENCY).collect());
        accounts.iter().zip(told).for_each(|(account, told)| account.expect(&told));
    }
    assert!(checked > 8 * EXAMPLES.len(), "only {checked} checks");
}

/// Returns what the check of an operator's rights logs, with the credentials of an account.
async fn told_by_check(operator: &Declared, account: &Account, scope: &Scope) -> String {
    let options = Options { kubeconfig: Some(account.kubeconfig.clone()), ..Options::default() };
    let client = Client::connect(options, Clock::system()).await.expect("the API server accepts the account");
    let found = missing(operator, &client, scope, None).await.expect("the API server answers the questions");
    assert_eq!(found.unchecked, 0, "{}: all rights are asked for", account.name);
    if found.missing.is_empty() { COMPLETE.to_owned() } else { report(&operator.name, &found.missing) }
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
    let accounts = make_accounts(context, launch, "lacks");
    assert!(accounts.len() > least, "only {} accounts", accounts.len());
    let tools = context.cluster().tools();
    let outcomes = side_by_side(&accounts, |_, account| {
        let options = [&launch.options[..], &["--verbose", "--log-format=json"].map(str::to_owned)].concat();
        let launch = Launch { options, ..account.launch(launch) };
        caught(|| account.check(&Operator::start(tools, &launch)))
    });
    let failures: Vec<String> = outcomes.into_iter().filter_map(Result::err).collect();
    assert!(failures.is_empty(), "{} of {} checks fail:\n{}", failures.len(), accounts.len(), failures.join("\n"));
}

/// Makes an account for each verb, which lacks only this one, and one with all verbs. Their names have the title.
fn make_accounts(context: &TestContext<'_>, launch: &Launch, title: &str) -> Vec<Account> {
    let options = rbac_options(launch);
    let options: Vec<&str> = options.iter().map(String::as_str).chain(["--output=json"]).collect();
    let list: Value =
        serde_json::from_str(&context.rbac(&launch.source, "derived", &options)).expect("the list is JSON");
    let objects = list["items"].as_array().expect("a list has items");
    for namespace in objects.iter().filter_map(|object| object["metadata"]["namespace"].as_str()) {
        context.make_namespace(namespace);
    }
    let mut lacking = Vec::new();
    for (number, role) in objects.iter().enumerate() {
        for (index, rule) in role["rules"].as_array().into_iter().flatten().enumerate() {
            for verb in rule["verbs"].as_array().expect("a rule has verbs") {
                let mut rest = objects.clone();
                let rules = rest[number]["rules"].as_array_mut().expect("a role has rules");
                rules[index]["verbs"].as_array_mut().expect("a rule has verbs").retain(|other| other != verb);
                rules.retain(|rule| rule["verbs"] != json!([]));
                let mut missing = rule.clone();
                missing["verbs"] = json!([verb]);
                lacking.push((rest, Some((place(role), missing))));
            }
        }
    }
    let (client, server, namespace) = (context.client(), context.cluster().api_server(), &context.namespace);
    let directory = context.directory().join(title);
    let make = |number: usize, objects: &[Value], missing: Option<(String, Value)>| {
        let name = format!("{namespace}-{title}-{number}");
        let objects: Vec<Value> = objects.iter().map(|object| renamed(object, &name)).collect();
        create_account(client, &objects);
        let directory = directory.join(&name);
        std::fs::create_dir_all(&directory).expect("the directory of the case can be written");
        let kubeconfig = server.kubeconfig_of(&directory, &account_token(client, &name));
        (Account { name, kubeconfig, missing }, objects)
    };
    let mut accounts = side_by_side(&lacking, |number, (objects, missing)| make(number, objects, missing.clone()).0);
    // The API server reads them in the order of their creation.
    let (complete, objects) = make(lacking.len(), objects, None);
    context.await_rights(&complete.name, &objects);
    accounts.push(complete);
    accounts
}

/// Calls a function with the number and the value of each item, a few at the same time. The results are in no order.
fn side_by_side<T: Sync, R: Send>(items: &[T], call: impl Fn(usize, &T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let take = || {
        let number = next.fetch_add(1, Ordering::Relaxed);
        items.get(number).map(|item| call(number, item))
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> =
            (0..CONCURRENCY).map(|_| scope.spawn(|| std::iter::from_fn(take).collect::<Vec<R>>())).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("no call panics")).collect()
    })
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
    /// Returns the start of an operator with this account.
    fn launch(&self, launch: &Launch) -> Launch {
        Launch {
            kubeconfig: self.kubeconfig.clone(),
            log: self.kubeconfig.with_file_name("operator.log"),
            ..launch.clone()
        }
    }

    fn check(&self, operator: &Operator) {
        let told = eventually(&format!("{} is told its rights: {:?}", self.name, self.missing), TIMEOUT, || {
            let has_ended = operator.ended().is_some();
            let told = told_rights(&operator.log());
            assert!(
                told.is_some() || !has_ended,
                "{:?} is not named, and the operator ends:\n{}",
                self.missing,
                operator.log()
            );
            told
        });
        self.expect(&told);
    }

    /// Fails if something else is told than what the account lacks.
    fn expect(&self, told: &str) {
        let Some((place, rule)) = &self.missing else {
            assert!(told.contains(COMPLETE), "{}: nothing is missing: {told}", self.name);
            return;
        };
        expect_rules(told, place, rule);
    }
}

/// Fails if a message lists something else than one rule of one role.
fn expect_rules(told: &str, place: &str, rule: &Value) {
    let (_, list) = told.split_once('\n').unwrap_or_else(|| panic!("{rule} {place} is missing: {told}"));
    let (told_place, rules) = list.split_once('\n').expect("the list has rules");
    let rules = kopfd::object::yaml::parse(rules).unwrap_or_else(|error| panic!("{error:?}: {told}"));
    assert_eq!((told_place, rules), (place, vec![json!({"rules": [rule]})]), "{told}");
}

/// Returns what the check of the rights has logged, if it has ended.
fn told_rights(log: &str) -> Option<String> {
    logged(log, |message| message.contains(COMPLETE) || message.contains(INCOMPLETE))
}

/// Returns the first message of a log that fulfils a condition.
fn logged(log: &str, condition: impl Fn(&str) -> bool) -> Option<String> {
    // The last line may not be complete yet.
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut messages = lines.filter_map(|line| line["message"].as_str().map(str::to_owned));
    messages.find(|message| condition(message))
}
