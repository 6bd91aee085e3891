//! Level-triggered reconciliation.

use crate::handling::On;
use crate::object::Selector;
use crate::script::{BindingKind, Limits};

use super::binding::{BINDING, Concern, Ids, Request, misplaced};
use super::builder::{Block, OperatorBuilder, POLICY, Script};
use super::filters::{Asking, FILTERS};
use super::operator::Reconcile;
use super::reader::Item;
use super::selectors;

impl OperatorBuilder<'_> {
    /// Reads `reconcile` of a block.
    pub(super) fn reconcile(&mut self, item: &Item<'_>, block: &Block<'_>, ids: &mut Ids) {
        let reader = self.reader;
        let own = ["owns", "watches", "resync", "prune", "finalize"];
        let known = [&BINDING[..], &FILTERS, &POLICY, &own].concat();
        let Some(fields) =
            reader.fields_but(item, "a reconciliation", &known, |key| misplaced("a reconciliation", key))
        else {
            return;
        };
        let script = self.script(&fields, &block.script);
        let asking = Asking { kind: BindingKind::Reconcile, script: script.clone() };
        let field = self.field(&fields);
        let filters = self.filters(&fields, block, field.as_ref(), &asking);
        let policy = self.policy(&fields, &self.operator.defaults.clone());
        let owns = reader.list_of(&fields, "owns").iter().filter_map(|item| self.kind(item)).collect();
        let resync = fields
            .get("resync")
            .and_then(|item| reader.duration_above_zero(&item, "leave it out if changes alone matter"));
        let prune = reader.flag(&fields, "prune").unwrap_or(false);
        let request = Request { kind: BindingKind::Reconcile, script: &script, suffix: field.as_ref(), deadline: None };
        let bound = self.bind(&fields, &request);
        let id = bound.as_ref().map_or_else(|| "reconcile".to_owned(), |bound| bound.id.clone());
        let limits = self.limits(&fields, BindingKind::Reconcile, None);
        let watches = reader.list_of(&fields, "watches");
        let watches = watches.iter().filter_map(|item| self.watch(item, &id, &script, &limits)).collect();
        let finalize =
            fields.get("finalize").and_then(|item| self.bind_other(&item, &id, &script, BindingKind::Change, limits));
        let Some(bound) = bound else { return };
        self.register(ids, &bound, "a reconciliation");
        let concern = Concern { selectors: block.selectors.clone(), field, filters };
        self.operator.reconciles.push(Reconcile {
            handler: bound.handler(On::Reconcile, concern, policy),
            owns,
            watches,
            resync,
            prune,
            finalize,
        });
    }

    fn kind(&mut self, item: &Item<'_>) -> Option<Selector> {
        let selector = selectors::read_one(self.reader, item)?;
        self.name_kind(&selector, item);
        Some(selector)
    }

    fn watch(&mut self, item: &Item<'_>, id: &str, script: &Script, limits: &Limits) -> Option<(Selector, usize)> {
        let reader = self.reader;
        let fields = reader.fields(item, "a related kind", &["resource", "map"])?;
        let selector = reader.required(&fields, "resource", "name the kind, such as `v1/configmaps`");
        let selector = selector.and_then(|item| self.kind(&item));
        let map = reader.required(
            &fields,
            "map",
            "name the function that returns `[[namespace, name], …]` of the objects concerned",
        );
        let target = map.and_then(|item| self.bind_other(&item, id, script, BindingKind::Map, limits.clone()));
        Some((selector?, target?))
    }
}
