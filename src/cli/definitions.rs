//! `--apply-crds`: the definitions of the manifests are applied before the operators start.

use std::time::Duration;

use clap::Args;
use tracing::warn;

use crate::cluster::{Client, config};
use crate::engines::definitions::{self, DefinitionsError};
use crate::kit::{Clock, errors};
use crate::manifest::Operator;
use crate::reactor::rights;

use super::output::{print_error, print_error_with_hint};

/// The hint for a version that the API server does not allow to be removed.
const STORED_VERSIONS_HINT: &str = "objects may be stored in a version that is removed: keep it with `served: false`, write each object once, \
     and take the version out of `status.storedVersions` of the definition; after that it can be removed";

/// The time limit of the check of the rights to apply definitions: a server that does not answer is reported when they
/// are applied.
const CHECK_TIMEOUT: Duration = Duration::from_secs(3);

/// Options of definitions.
#[derive(Debug, Args)]
pub(super) struct DefinitionOptions {
    /// At the start, apply the definitions of kinds in `spec.crds`, unless they take versions, fields or allowed values
    /// away.
    #[arg(long, env = "KOPFD_APPLY_CRDS")]
    pub apply_crds: bool,
    /// Apply also definitions that take something away.
    #[arg(long, requires = "apply_crds")]
    pub force: bool,
}

/// Applies the definitions, if that is wanted. Reports a problem.
pub(super) async fn apply(
    options: &DefinitionOptions,
    operators: &[Operator],
    access: config::Options,
    clock: Clock,
) -> Result<(), ()> {
    if !options.apply_crds {
        return Ok(());
    }
    let texts = operators.iter().flat_map(|operator| operator.definitions.iter().map(AsRef::as_ref));
    let definitions = definitions::of_texts(texts);
    let client = Client::connect(access, clock).await.map_err(|error| print_error(&error.chain()))?;
    check_rights(operators, &client).await;
    let Err(error) = definitions::apply(&client, &definitions, options.force).await else { return Ok(()) };
    let problem = errors::chain(&error);
    match &error {
        DefinitionsError::Narrower { .. } => {
            print_error_with_hint(&problem, "mend the definition, or apply it all the same by `--force`");
        }
        DefinitionsError::Request { source, .. } if source.is_about_stored_versions() => {
            print_error_with_hint(&problem, STORED_VERSIONS_HINT);
        }
        DefinitionsError::Request { source, .. } if source.status() == Some(403) => {
            print_error_with_hint(&problem, "`kopfd rbac --apply-crds` prints the rights that this needs");
        }
        _ => print_error(&problem),
    }
    Err(())
}

/// Warns if rights are missing, as far as the API server reports them. Without them, a request fails only after it was
/// repeated for a while.
async fn check_rights(operators: &[Operator], client: &Client) {
    let asked = tokio::time::timeout(CHECK_TIMEOUT, rights::missing_for_definitions(operators, client)).await;
    let missing = asked.ok().and_then(Result::ok).unwrap_or_default();
    if !missing.is_empty() {
        let roles = rights::roles(&missing);
        warn!(
            target: "kopfd::rights",
            "Rights to apply the definitions are missing. Add these rules, or apply what `kopfd rbac --apply-crds` prints:{roles}"
        );
    }
}
