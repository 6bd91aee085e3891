//! `kopfd uninstall`: takes operators out of a cluster, and frees the objects that they hold.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::time::Duration;

use clap::Args;

use crate::cluster::{Client, Error};
use crate::engines::peering;
use crate::engines::uninstall::{Held, OwnObject, Stopped, Uninstaller, is_pod_of};
use crate::handling::peering::{replicas_identity, replicas_name};
use crate::kit::{Clock, counted, duration};
use crate::manifest::{Operator, known_kinds, settings};
use crate::object::namespace::Pattern;
use crate::object::{Resource, Selector};
use crate::persistence::schedule::config_map;
use crate::reactor::Scope;
use crate::telemetry;

use super::cluster_options::ClusterOptions;
use super::diagnostics;
use super::exit_code::{FAILURE, SUCCESS, USAGE_ERROR};
use super::manifests::Manifests;
use super::output::{print_error, print_error_with_hint};
use super::run;
use super::runtime::EngineRuntime;

/// Time limit for the last tasks.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// Objects that are named in a report; the others are counted.
const NAMED: usize = 20;

/// Options of the command.
#[derive(Debug, Args)]
pub(super) struct Options {
    #[command(flatten)]
    manifests: Manifests,
    /// Look in all namespaces. This is the default.
    #[arg(long, short = 'A', env = "KOPFD_ALL_NAMESPACES", conflicts_with = "namespaces")]
    all_namespaces: bool,
    /// Look only in the namespaces of a pattern. May be repeated. [env: KOPFD_NAMESPACES, separated by spaces]
    #[arg(long = "namespace", short = 'n', value_name = "PATTERN")]
    namespaces: Vec<String>,
    /// The namespace in which the operators run. Defaults to that of the context, or of the pod.
    #[arg(long, alias = "namespace-of-operator", value_name = "NAMESPACE")]
    operator_namespace: Option<String>,
    /// The name of the Deployment, which is scaled to zero. Defaults to the name of the operator.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The name of the Lease, if it is not that of the operator.
    #[arg(long, value_name = "NAME")]
    lease: Option<String>,
    /// The peering object, if it is not that of the settings.
    #[arg(long, short = 'P', value_name = "NAME")]
    peering: Option<String>,
    /// First delete all objects of the kinds in `spec.crds`.
    #[arg(long)]
    delete_objects: bool,
    /// How long to wait for handlers of deletions, and for the end of the pods.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = time)]
    timeout: Duration,
    /// Only free objects: without a manifest, and without handlers. For operators that are gone.
    #[arg(long, requires_all = ["finalizer", "kind"], conflicts_with_all = ["delete_objects", "files", "config"])]
    janitor: bool,
    /// A finalizer to remove.
    #[arg(long, value_name = "NAME", requires = "janitor")]
    finalizer: Vec<String>,
    /// A kind whose objects are freed, such as `databases.example.com`. May be repeated.
    #[arg(long, value_name = "KIND", requires = "janitor", value_parser = kind)]
    kind: Vec<Selector>,
    #[command(flatten)]
    cluster: ClusterOptions,
}

fn time(text: &str) -> Result<Duration, String> {
    duration::parse(text).map_err(|error| error.to_string())
}

fn kind(text: &str) -> Result<Selector, String> {
    Selector::parse(text).map_err(|error| error.to_string())
}

/// Runs the command.
pub(super) fn run(options: &Options) -> u8 {
    let namespaces = match run::scope_of(options.all_namespaces, &options.namespaces) {
        Ok(Scope::Cluster) => Vec::new(),
        Ok(Scope::Namespaces(patterns)) => patterns,
        Err(problem) => {
            print_error(&problem);
            return USAGE_ERROR;
        }
    };
    let operators = if options.janitor {
        Vec::new()
    } else {
        let Some(paths) = options.manifests.required("uninstall") else { return USAGE_ERROR };
        let loaded = crate::manifest::load(&paths);
        if loaded.has_errors() {
            diagnostics::print(&loaded.diagnostics);
            return FAILURE;
        }
        loaded.operators
    };
    if options.lease.is_some() && operators.len() > 1 {
        print_error("--lease names one Lease, but several operators have one each");
        return USAGE_ERROR;
    }
    let clock = Clock::system();
    telemetry::start(options.cluster.logging.telemetry(), clock.clone());
    let Some(runtime) = EngineRuntime::start() else { return FAILURE };
    runtime.run(carry_out(options, operators, namespaces, clock), SHUTDOWN_TIMEOUT)
}

/// The completed steps, and the parts that are left.
#[derive(Debug, Default)]
struct Account {
    done: Vec<String>,
    left: Vec<String>,
}

impl Account {
    fn print(&self) -> u8 {
        let mut text = String::new();
        for line in &self.done {
            text.extend([line, "\n"]);
        }
        if !self.left.is_empty() {
            text.push_str("left:\n");
            for line in &self.left {
                text.extend(["  ", line, "\n"]);
            }
        }
        if text.is_empty() {
            text.push_str("there is nothing to take away\n");
        }
        let mut stdout = anstream::stdout().lock();
        // A closed standard output, as with `head`, is not an error.
        drop(stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()));
        if self.left.is_empty() { SUCCESS } else { FAILURE }
    }
}

async fn carry_out(options: &Options, operators: Vec<Operator>, namespaces: Vec<Pattern>, clock: Clock) -> u8 {
    let access = options.cluster.access();
    let connected = async { Uninstaller::new(Client::connect(access, clock.clone()).await?, clock).await };
    let uninstaller = match connected.await {
        Ok(uninstaller) => uninstaller,
        Err(error) => {
            print_error(&format!("cannot look at the cluster: {}", error.chain()));
            return FAILURE;
        }
    };
    let mut account = Account::default();
    let work = Work { options, uninstaller, namespaces };
    let done =
        if options.janitor { work.clean(&mut account).await } else { work.uninstall(&operators, &mut account).await };
    if let Err(error) = &done {
        print_error(&error.chain());
    }
    let code = account.print();
    if matches!(done, Ok(true)) { code } else { FAILURE }
}

struct Work<'a> {
    options: &'a Options,
    uninstaller: Uninstaller,
    namespaces: Vec<Pattern>,
}

impl Work<'_> {
    /// Frees objects of an operator that is gone.
    async fn clean(&self, account: &mut Account) -> Result<bool, Error> {
        let kinds = self.uninstaller.select(&self.options.kind);
        let pairs: Vec<(Resource, String)> = self
            .options
            .finalizer
            .iter()
            .flat_map(|finalizer| kinds.iter().map(|kind| (kind.clone(), finalizer.clone())))
            .collect();
        self.free(&pairs, account).await;
        Ok(true)
    }

    async fn free(&self, kinds: &[(Resource, String)], account: &mut Account) {
        let (freed, left) = self.uninstaller.free_all(kinds, &self.namespaces).await;
        account.done.extend(named(&freed).into_iter().map(|title| format!("freed {title}")));
        account.left.extend(left);
    }

    /// Tells whether the operators are out of the cluster.
    async fn uninstall(&self, operators: &[Operator], account: &mut Account) -> Result<bool, Error> {
        let finalizer = |operator: &Operator| operator.settings.persistence.storages.finalizer.clone();
        let kinds: BTreeSet<(Resource, String)> = operators
            .iter()
            .flat_map(|operator| {
                self.uninstaller
                    .select(operator.persisting_selectors())
                    .into_iter()
                    .map(|resource| (resource, finalizer(operator)))
            })
            .collect();
        let kinds: Vec<(Resource, String)> = kinds.into_iter().collect();
        let defined = defined(operators);
        if self.options.delete_objects {
            for resource in self.uninstaller.select(&defined) {
                let number = self.uninstaller.delete_all(&resource, &self.namespaces).await?;
                if number > 0 {
                    account.done.push(format!("requested the deletion of {}", counted(number, &resource.singular)));
                }
            }
        }
        let waiting = self.uninstaller.drain(&kinds, &self.namespaces, self.options.timeout).await?;
        if !waiting.is_empty() {
            account.left.extend(
                named(&waiting).into_iter().map(|title| format!("{title}: its deletion was not handled in time")),
            );
            print_error_with_hint(
                &format!("handlers of deletions have not ended after {}", seconds(self.options.timeout)),
                "look at the log of the operator, and try again; if it is gone for good, free the objects by `kopfd uninstall --janitor`",
            );
            return Ok(false);
        }
        if !self.stop(operators, account).await? {
            return Ok(false);
        }
        self.remove(operators, account).await;
        // No operator adds finalizers after that.
        self.free(&kinds, account).await;
        for title in named(&self.uninstaller.held_again(&kinds, &self.namespaces).await?) {
            account.left.push(format!("{title}: the finalizer is there again, so an operator still runs"));
        }
        for name in self.uninstaller.converting(&conversions(operators)).await? {
            account.done.push(format!(
                "kept the conversion of definition {name}: requests in versions that are not stored fail without an operator. Without \
                 a conversion, objects of all versions would pass unchanged: kubectl patch crd {name} --type=merge -p \
                 '{{\"spec\":{{\"conversion\":{{\"strategy\":\"None\",\"webhook\":null}}}}}}'"
            ));
        }
        for resource in self.uninstaller.select(&defined) {
            account
                .done
                .push(format!("kept the definition of {}.{} with its objects", resource.plural, resource.group));
        }
        Ok(true)
    }

    fn home(&self) -> String {
        self.options.operator_namespace.clone().unwrap_or_else(|| self.uninstaller.default_namespace())
    }

    /// Stops the pods. Tells whether no replica handles any more.
    async fn stop(&self, operators: &[Operator], account: &mut Account) -> Result<bool, Error> {
        let home = self.home();
        let names: Vec<&str> = match &self.options.name {
            Some(name) => vec![name],
            None => operators.iter().map(|operator| operator.name.as_str()).collect(),
        };
        for name in names {
            match self.uninstaller.stop(&home, name, self.options.timeout).await? {
                Stopped::Absent => {}
                Stopped::Ended => account.done.push(format!("scaled Deployment {home}/{name} to zero")),
                Stopped::Running => {
                    account.left.push(format!("pods of Deployment {home}/{name}"));
                    print_error(&format!("the pods have not ended after {}", seconds(self.options.timeout)));
                    return Ok(false);
                }
            }
        }
        for operator in operators {
            let lease = self.options.lease.as_ref().unwrap_or(&operator.name);
            if let Some(leader) = self.uninstaller.leader(&home, lease).await? {
                account.left.push(format!("Lease {home}/{lease}, held by {leader}"));
                print_error_with_hint(
                    &format!("a replica of operator '{}' still leads: {leader}", operator.name),
                    "stop it; its Deployment is named by `--name` and `--operator-namespace`",
                );
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Removes the objects that the operators have made for themselves. What cannot be removed is left.
    async fn remove(&self, operators: &[Operator], account: &mut Account) {
        let home = self.home();
        let own: BTreeSet<OwnObject> =
            operators.iter().flat_map(|operator| own_objects(operator, &home, self.options.lease.as_deref())).collect();
        for object in &own {
            match self.uninstaller.remove(object).await {
                Ok(true) => account.done.push(format!("deleted {}", object.title())),
                Ok(false) => {}
                Err(error) => account.left.push(format!("{}: {}", object.title(), error.chain())),
            }
        }
        let names = operators.iter().map(|operator| &*operator.name);
        let replicas = replicas_identity(&replicas_name(self.options.lease.as_deref(), names), &home);
        for operator in operators {
            let peering = &operator.settings.peering;
            let Some(name) = self.options.peering.as_ref().or(peering.mandatory.then_some(&peering.name)) else {
                continue;
            };
            let clusterwide = Some(peering.clusterwide.unwrap_or(self.namespaces.is_empty()));
            let selectors =
                peering::selectors(&settings::Peering { clusterwide, standalone: false, ..peering.clone() });
            // Pods that were stopped have left. The record of replicas is left to the next leader.
            let workload = self.options.name.as_ref().unwrap_or(&operator.name);
            let is_own = |identity: &str| identity == replicas || is_pod_of(identity, workload);
            match self.uninstaller.leave_peering(&selectors, &self.namespaces, name, is_own).await {
                Ok(identities) => {
                    account.done.extend(identities.iter().map(|identity| format!("removed the peer {identity}")));
                }
                Err(error) => {
                    account.left.push(format!("peers of {workload} in the peering '{name}': {}", error.chain()));
                }
            }
        }
    }
}

/// Returns the objects that an operator has made for itself.
fn own_objects(operator: &Operator, home: &str, lease: Option<&str>) -> Vec<OwnObject> {
    let in_home = |group, plural, kind, name: &str| OwnObject {
        group,
        plural,
        kind,
        namespace: Some(home.to_owned()),
        name: name.to_owned(),
    };
    let mut objects = Vec::new();
    let admission = &operator.settings.admission;
    if let Some(managed) = &admission.managed {
        let group = "admissionregistration.k8s.io";
        let kinds = [
            ("validatingwebhookconfigurations", "ValidatingWebhookConfiguration"),
            ("mutatingwebhookconfigurations", "MutatingWebhookConfiguration"),
        ];
        objects.extend(kinds.map(|(plural, kind)| OwnObject {
            group,
            plural,
            kind,
            namespace: None,
            name: managed.clone(),
        }));
    }
    if let Some(secret) = admission.server.as_ref().and_then(|server| server.secret.as_ref()) {
        let namespace = secret.namespace.as_deref().unwrap_or(home).to_owned();
        objects.push(OwnObject {
            group: "",
            plural: "secrets",
            kind: "Secret",
            namespace: Some(namespace),
            name: secret.name.clone(),
        });
    }
    objects.push(in_home("coordination.k8s.io", "leases", "Lease", lease.unwrap_or(&operator.name)));
    if operator.schedules.iter().any(|schedule| schedule.schedule.catches_up) {
        objects.push(in_home("", "configmaps", "ConfigMap", &config_map(&operator.name)));
    }
    objects
}

/// Returns the kinds that the operators define.
fn defined(operators: &[Operator]) -> Vec<Selector> {
    let own: Vec<Resource> = known_kinds::defined_by(operators);
    let selectors = own.iter().map(|resource| format!("{}.{}", resource.plural, resource.group));
    selectors.collect::<BTreeSet<String>>().iter().filter_map(|text| Selector::parse(text).ok()).collect()
}

/// Returns the kinds whose definitions name the operators for their conversions.
fn conversions(operators: &[Operator]) -> Vec<Selector> {
    let managing = operators.iter().filter(|operator| operator.settings.admission.managed.is_some());
    managing.flat_map(|operator| &operator.conversions).flat_map(|handler| handler.selectors.clone()).collect()
}

/// Returns the titles of objects; of many, only some.
fn named(objects: &[Held]) -> Vec<String> {
    let mut titles: Vec<String> = objects.iter().take(NAMED).map(Held::title).collect();
    if objects.len() > NAMED {
        titles.push(format!("{} more", objects.len() - NAMED));
    }
    titles
}

fn seconds(duration: Duration) -> String {
    format!("{} seconds", duration.as_secs())
}
