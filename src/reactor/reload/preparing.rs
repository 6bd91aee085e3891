//! Prepares a new revision until it can take effect.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::engines::effects::Environment as _;
use crate::handling::Handler;
use crate::manifest::{Operator, Settings};
use crate::object::Selector;
use crate::script::{Installed, Program};

use super::super::live_effects::{Filling, HostScripts, LiveEffects};
use super::super::observer::Filled;
use super::super::precedence::Precedence;
use super::super::revision::Revision;
use super::super::worker::WorkerSettings;
use super::error::ReloadError;
use super::ground::Preparation;
use super::loaded::{IndexPrints, Loaded, indexes_of};

/// A revision that is ready to take effect.
pub(crate) struct Prepared {
    pub operator: Operator,
    pub revision: Revision<LiveEffects>,
    pub program: Arc<Program>,
    pub settings: Settings,
    pub filled: Vec<Filled>,
    /// The operators of the process that come before this one.
    pub earlier: Precedence,
    indexes: IndexPrints,
}

impl Prepared {
    /// Records that the revision has taken effect. Returns the digest of the one before.
    pub(crate) fn take_place_in(&self, loaded: &mut Loaded) -> String {
        loaded.replace(&self.revision.digest, &self.indexes)
    }
}

impl Preparation<'_> {
    /// Compiles the scripts of a revision, and fills its added and changed indexes. Nothing takes effect.
    ///
    /// # Errors
    /// If it has errors, or the operator ends meanwhile.
    pub(crate) async fn prepare(
        &self,
        operator: Operator,
        earlier: Precedence,
        program: Program,
        loaded: &mut Loaded,
    ) -> Result<Prepared, ReloadError> {
        let settings = loaded.settings_of(&operator)?;
        let number = loaded.next_number();
        let newest = self.reviser.newest();
        let storages = settings.persistence.storages.clone().with_keys(&newest.storages.secrets.keys)?;
        let indexes = indexes_of(&operator, &program);
        let is_changed = |name: &str| indexes.get(name) != loaded.indexes.get(name);
        let program = Arc::new(program);
        let installed = self.install(&newest.effects, &program, is_changed).await?;
        let scripts = Arc::new(HostScripts::new(Arc::clone(&newest.effects.scripts().host), installed, self.metrics));
        let index_handlers: Vec<Arc<Handler>> = operator.indexes.iter().cloned().map(Arc::new).collect();
        let changed: BTreeSet<&str> =
            operator.indexes.iter().map(|handler| &*handler.id).filter(|id| is_changed(id)).collect();
        let filling = Filling::new(index_handlers.clone(), settings.execution.default_backoff);
        let effects = Arc::new(newest.effects.next(number, scripts, filling, is_changed));
        let filled = Box::pin(self.fill(&operator.name, &effects, &index_handlers, &changed)).await?;
        let handlers = operator.indexes.iter().chain(operator.object_handlers()).cloned().map(Arc::new).collect();
        let revision = Revision {
            number,
            digest: operator.revision(&program).into(),
            effects,
            handlers,
            webhooks: webhook_kinds(&operator),
            storages: Arc::new(storages),
            lifecycle: settings.execution.lifecycle,
            default_backoff: settings.execution.default_backoff,
            sub_defaults: operator.defaults.clone(),
            settings: Arc::new(WorkerSettings::of(&settings)),
            since: newest.effects.clock().now(),
        };
        Ok(Prepared { operator, revision, program, settings, filled, earlier, indexes })
    }

    async fn install(
        &self,
        effects: &LiveEffects,
        program: &Arc<Program>,
        is_changed: impl Fn(&str) -> bool,
    ) -> Result<Installed, ReloadError> {
        let before = effects.scripts();
        let indexes = before.installed.indexes().next(&program.declaration.indexes, |name| !is_changed(name));
        before.host.install_with(Arc::clone(program), indexes).await.map_err(ReloadError::Scripts)
    }
}

/// Returns the kinds of an operator's webhooks and conversions.
pub(crate) fn webhook_kinds(operator: &Operator) -> Vec<Selector> {
    let reviewed = operator.webhooks.iter().map(|webhook| &webhook.handler);
    reviewed.chain(&operator.conversions).flat_map(|handler| handler.selectors.iter().cloned()).collect()
}
