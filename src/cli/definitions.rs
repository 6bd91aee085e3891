//! `--apply-crds`: the definitions of the manifests are applied before the operators start.

use clap::Args;

use crate::cluster::{Client, config};
use crate::engines::definitions::{self, DefinitionsError};
use crate::kit::{Clock, errors};
use crate::manifest::Operator;

use super::output::{print_error, print_error_with_hint};

/// What helps if the API server does not let a version go.
const STORED_VERSIONS_HINT: &str = "objects may be stored in a version that is removed: keep it with `served: false`, write each object once, \
     and take the version out of `status.storedVersions` of the definition; after that it can be removed";

/// Options of definitions.
#[derive(Debug, Args)]
pub(super) struct DefinitionOptions {
    /// At the start, apply the definitions of kinds in `spec.crds`, unless they take versions, fields or allowed values away.
    #[arg(long, env = "KOPFD_APPLY_CRDS")]
    pub apply_crds: bool,
    /// Apply also definitions that take something away.
    #[arg(long, requires = "apply_crds")]
    pub force: bool,
}

/// Applies the definitions, if that is wanted. Reports a problem.
pub(super) async fn apply(options: &DefinitionOptions, operators: &[Operator], access: config::Options, clock: Clock) -> Result<(), ()> {
    if !options.apply_crds {
        return Ok(());
    }
    let texts = operators.iter().flat_map(|operator| operator.definitions.iter().map(AsRef::as_ref));
    let definitions = definitions::of_texts(texts);
    let client = Client::connect(access, clock).await.map_err(|error| print_error(&error.chain()))?;
    definitions::apply(&client, &definitions, options.force).await.map_err(|error| match &error {
        DefinitionsError::Narrower { .. } => {
            print_error_with_hint(&errors::chain(&error), "mend the definition, or apply it all the same by `--force`");
        }
        DefinitionsError::Request { source, .. } if source.is_about_stored_versions() => {
            print_error_with_hint(&errors::chain(&error), STORED_VERSIONS_HINT);
        }
        _ => print_error(&errors::chain(&error)),
    })
}
