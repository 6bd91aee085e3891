//! The faults of a scenario: which of them have never fired, and which cannot.

use std::collections::BTreeSet;

use crate::apiserver::faults::Rule;
use crate::apiserver::faults::pattern::matches;
use crate::manifest::suggest::nearest;
use crate::manifest::tree::Spot;

use super::Stage;

/// A resource that is not known, and the one that was probably meant.
pub struct Unknown {
    /// What is written.
    pub resource: String,
    /// What is known.
    pub meant: Option<String>,
}

impl Stage {
    /// Lets requests go wrong from now on.
    pub fn add_fault(&self, spot: Spot, rule: Rule) {
        let number = self.api.add_fault(rule.clone());
        self.faults.lock().push((spot, number, rule));
    }

    /// Returns where the faults stand that have never fired, except those by chance, and the resources of those that cannot fire.
    pub fn idle_faults(&self) -> Vec<(Spot, Option<Unknown>)> {
        let fired: BTreeSet<u64> = self.api.injection().faults().firings().map(|firing| firing.rule).collect();
        let faults = self.faults.lock();
        let idle = faults.iter().filter(|(_, number, rule)| !fired.contains(number) && rule.probability >= 1.0);
        idle.map(|(spot, _, rule)| (*spot, rule.matching.resource.as_deref().and_then(|resource| self.unknown(resource)))).collect()
    }

    /// Returns a name of a resource, in which `*` stands for any text, if it is the name of none.
    pub(super) fn unknown(&self, resource: &str) -> Option<Unknown> {
        let registry = self.api.registry();
        let names: Vec<String> = registry.all().flat_map(|served| [served.kind.plural.clone(), served.full_name()]).collect();
        if names.iter().any(|name| matches(resource, name)) {
            return None;
        }
        let meant = nearest(resource, names.iter().map(String::as_str)).map(str::to_owned);
        Some(Unknown { resource: resource.to_owned(), meant })
    }
}
