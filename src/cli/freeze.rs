//! `kopfd freeze` and `kopfd resume`: pause the operators of a peering, and let them go on.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tracing::{info, warn};

use crate::cluster::object_client::ObjectClient;
use crate::cluster::selection::Selection;
use crate::cluster::{Client, discovery};
use crate::engines::peering::object::{OwnPeer, PeeringObject};
use crate::engines::peering::{self, GROUPS};
use crate::kit::{Clock, duration};
use crate::manifest::settings;
use crate::object::Resource;
use crate::object::namespace::{self, Pattern};
use crate::telemetry;

use super::cluster_options::ClusterOptions;
use super::exit_code::{FAILURE, SUCCESS, USAGE_ERROR};
use super::output::{print_error, print_error_with_hint};
use super::peering::{DEVELOPMENT_PRIORITY, own_personal_identity};
use super::run::parse_pattern;
use super::runtime::EngineRuntime;

/// Time limit for the last tasks.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// Options of `kopfd freeze`.
#[derive(Debug, Args)]
pub(super) struct FreezeOptions {
    /// The namespaces of the peerings, by a pattern such as `prod-*,!prod-test`. May be repeated.
    #[arg(
        long = "namespace",
        short = 'n',
        value_name = "PATTERN",
        env = "KOPFD_FREEZE_NAMESPACES",
        value_delimiter = ' '
    )]
    namespaces: Vec<String>,
    /// Use the cluster-wide peering. This is the default.
    #[arg(long, short = 'A', env = "KOPFD_FREEZE_ALL_NAMESPACES", conflicts_with = "namespaces")]
    all_namespaces: bool,
    /// The key of the record. By default it is your name and that of your machine, or POD_ID.
    #[arg(long, short, env = "KOPFD_FREEZE_ID", value_name = "ID")]
    id: Option<String>,
    /// The same as `--priority=666`.
    #[arg(long, env = "KOPFD_FREEZE_DEV")]
    dev: bool,
    /// The name of the peering object.
    #[arg(long, short = 'P', env = "KOPFD_FREEZE_PEERING", value_name = "NAME")]
    peering: String,
    /// Operators with this priority or a lower one pause.
    #[arg(
        long,
        short,
        env = "KOPFD_FREEZE_PRIORITY",
        value_name = "NUMBER",
        default_value_t = 100,
        allow_negative_numbers = true
    )]
    priority: i64,
    /// For how long: seconds, or a duration such as 15m. Zero or less ends it.
    #[arg(
        long,
        short = 't',
        env = "KOPFD_FREEZE_LIFETIME",
        value_name = "SECONDS|DURATION",
        value_parser = lifetime,
        allow_negative_numbers = true
    )]
    lifetime: i64,
    /// Accepted as by kopf; no peer reads it.
    #[arg(long, short, env = "KOPFD_FREEZE_MESSAGE", value_name = "TEXT")]
    message: Option<String>,
    #[command(flatten)]
    cluster: ClusterOptions,
}

/// Options of `kopfd resume`.
#[derive(Debug, Args)]
pub(super) struct ResumeOptions {
    /// The namespaces of the peerings, by a pattern such as `prod-*,!prod-test`. May be repeated.
    #[arg(
        long = "namespace",
        short = 'n',
        value_name = "PATTERN",
        env = "KOPFD_RESUME_NAMESPACES",
        value_delimiter = ' '
    )]
    namespaces: Vec<String>,
    /// Use the cluster-wide peering. This is the default.
    #[arg(long, short = 'A', env = "KOPFD_RESUME_ALL_NAMESPACES", conflicts_with = "namespaces")]
    all_namespaces: bool,
    /// The key of the record. By default it is your name and that of your machine, or POD_ID.
    #[arg(long, short, env = "KOPFD_RESUME_ID", value_name = "ID")]
    id: Option<String>,
    /// The name of the peering object.
    #[arg(long, short = 'P', env = "KOPFD_RESUME_PEERING", value_name = "NAME")]
    peering: String,
    #[command(flatten)]
    cluster: ClusterOptions,
}

fn lifetime(text: &str) -> Result<i64, String> {
    let seconds = text.parse().ok();
    let seconds =
        seconds.or_else(|| duration::parse(text).ok().and_then(|duration| i64::try_from(duration.as_secs()).ok()));
    seconds.ok_or_else(|| "expected whole seconds, or a duration such as 15m".to_owned())
}

/// A record to write or remove.
struct Order<'a> {
    peering: &'a str,
    peer: OwnPeer,
    /// Empty for the cluster-wide peering.
    namespaces: Vec<Pattern>,
}

/// Runs `kopfd freeze`.
pub(super) fn freeze(options: &FreezeOptions) -> u8 {
    let priority = if options.dev { DEVELOPMENT_PRIORITY } else { options.priority };
    let peer =
        OwnPeer { identity: identity(options.id.as_deref()), priority, lifetime: options.lifetime, election: None };
    run(&options.peering, peer, &options.namespaces, &options.cluster)
}

/// Runs `kopfd resume`.
pub(super) fn resume(options: &ResumeOptions) -> u8 {
    let peer = OwnPeer { identity: identity(options.id.as_deref()), priority: 0, lifetime: 0, election: None };
    run(&options.peering, peer, &options.namespaces, &options.cluster)
}

fn identity(named: Option<&str>) -> Arc<str> {
    // As in kopf, an empty id counts as missing.
    named.filter(|id| !id.is_empty()).map_or_else(|| own_personal_identity().into(), Arc::from)
}

fn run(peering: &str, peer: OwnPeer, patterns: &[String], cluster: &ClusterOptions) -> u8 {
    let namespaces = patterns
        .iter()
        .filter(|pattern| !pattern.is_empty())
        .map(|pattern| parse_pattern(pattern))
        .collect::<Result<_, _>>();
    let namespaces = match namespaces {
        Ok(namespaces) => namespaces,
        Err(problem) => {
            print_error(&problem);
            return USAGE_ERROR;
        }
    };
    let clock = Clock::system();
    telemetry::start(cluster.logging.telemetry(), clock.clone());
    let Some(runtime) = EngineRuntime::start() else { return FAILURE };
    runtime.run(carry_out(Order { peering, peer, namespaces }, cluster, clock), SHUTDOWN_TIMEOUT)
}

async fn carry_out(order: Order<'_>, cluster: &ClusterOptions, clock: Clock) -> u8 {
    let options = cluster.access();
    let done = async {
        let client = Client::connect(options, clock.clone()).await.map_err(|error| (error.chain(), None))?;
        order.write(&client, &clock).await
    };
    match done.await {
        Ok(()) => SUCCESS,
        Err((problem, None)) => {
            print_error(&problem);
            FAILURE
        }
        Err((problem, Some(hint))) => {
            print_error_with_hint(&problem, hint);
            FAILURE
        }
    }
}

/// A message, with a hint if there is one.
type Problem = (String, Option<&'static str>);

impl Order<'_> {
    /// Writes or removes the record in each peering object.
    async fn write(&self, client: &Client, clock: &Clock) -> Result<(), Problem> {
        let resources = self.resources(client).await?;
        let namespaces = self.served_namespaces(client).await?;
        for resource in &resources {
            for namespace in &namespaces {
                let object = PeeringObject {
                    client: client.clone(),
                    resource: Arc::clone(resource),
                    namespace: namespace.clone(),
                    name: self.peering.to_owned(),
                    peer: self.peer.clone(),
                    is_stealthy: false,
                    clock: clock.clone(),
                };
                let is_found = object
                    .touch()
                    .await
                    .map_err(|error| (format!("cannot write to {}: {}", object.title(), error.chain()), None))?;
                self.report(&object, is_found);
            }
        }
        Ok(())
    }

    fn report(&self, object: &PeeringObject, is_found: bool) {
        let (title, OwnPeer { identity, priority, lifetime, .. }) = (object.title(), &self.peer);
        match (is_found, *lifetime > 0) {
            (false, _) => warn!(target: "kopfd::peering", "There is no such object: {title}. Nothing has changed."),
            (true, true) => info!(
                target: "kopfd::peering",
                "Operators with priority {priority} or a lower one pause for {lifetime} seconds in {title}, as '{identity}' demands."
            ),
            (true, false) => {
                info!(target: "kopfd::peering", "Nobody pauses because of '{identity}' any more in {title}.");
            }
        }
    }

    async fn resources(&self, client: &Client) -> Result<Vec<Arc<Resource>>, Problem> {
        let groups: BTreeSet<String> = GROUPS.map(str::to_owned).into();
        let scan = discovery::scan(client, Some(&groups)).await;
        let scan =
            scan.map_err(|error| (format!("cannot look at the kinds of the cluster: {}", error.chain()), None))?;
        let clusterwide = Some(self.namespaces.is_empty());
        let selectors = peering::selectors(&settings::Peering { clusterwide, ..settings::Peering::default() });
        let is_selected = |resource: &Resource| selectors.iter().any(|selector| selector.matches(resource));
        let found: Vec<Arc<Resource>> = scan.resources.into_iter().filter(is_selected).map(Arc::new).collect();
        if found.is_empty() {
            let names: Vec<String> = selectors.iter().map(ToString::to_string).collect();
            let hint = "create it with the files in `manifests/peering` of kopfd";
            return Err((format!("the cluster has no CRD of peerings: {}", names.join(" or ")), Some(hint)));
        }
        Ok(found)
    }

    /// Returns the namespaces; `None` stands for the cluster-wide peering.
    async fn served_namespaces(&self, client: &Client) -> Result<Vec<Option<String>>, Problem> {
        if self.namespaces.is_empty() {
            return Ok(vec![None]);
        }
        let resource = Resource {
            version: "v1".to_owned(),
            plural: "namespaces".to_owned(),
            kind: "Namespace".to_owned(),
            ..Resource::default()
        };
        let listed = ObjectClient::new(client.clone(), "kopfd").list(&resource, None, &Selection::default()).await;
        let names: Vec<String> = match listed {
            Ok(objects) => {
                let names =
                    objects.iter().filter_map(|object| object.pointer("/metadata/name")?.as_str().map(str::to_owned));
                names.filter(|name| namespace::any_matches(&self.namespaces, name)).collect()
            }
            // Without the right to list them, exact names are assumed to exist, as operators do.
            Err(error) if error.status() == Some(403) => namespace::exact(&self.namespaces).into_iter().collect(),
            Err(error) => return Err((format!("cannot list the namespaces: {}", error.chain()), None)),
        };
        if names.is_empty() {
            warn!(target: "kopfd::peering", "No namespace matches the patterns. Nothing has changed.");
        }
        Ok(names.into_iter().map(Some).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lifetime_is_whole_seconds_or_a_duration() {
        assert_eq!(["60", "-1", "0", "15m", "1h"].map(lifetime), [Ok(60), Ok(-1), Ok(0), Ok(900), Ok(3600)]);
        assert!(lifetime("soon").is_err() && lifetime("1.5").is_err());
    }
}
