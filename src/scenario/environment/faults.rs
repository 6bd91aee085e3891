//! The faults of a scenario: which never fired, and which cannot.

use std::collections::BTreeSet;

use parking_lot::Mutex;

use crate::apiserver::ApiServer;
use crate::apiserver::faults::Rule;
use crate::apiserver::faults::pattern::matches;
use crate::manifest::suggest::nearest;
use crate::manifest::tree::SourceSpan;

/// A resource that the server does not have.
pub(crate) struct UnknownResource {
    /// The name as written.
    pub resource: String,
    /// The most similar name that the server has.
    pub suggestion: Option<String>,
}

/// The faults that a scenario has injected.
pub(crate) struct InjectedFaults {
    api: ApiServer,
    /// Position in the file, number on the server, and rule of each fault.
    faults: Mutex<Vec<(SourceSpan, u64, Rule)>>,
}

impl InjectedFaults {
    /// Returns no faults yet.
    pub(crate) fn new(api: ApiServer) -> Self {
        Self { api, faults: Mutex::default() }
    }

    /// Injects a fault from now on.
    pub(crate) fn add(&self, spot: SourceSpan, rule: Rule) {
        let number = self.api.add_fault(rule.clone());
        self.faults.lock().push((spot, number, rule));
    }

    /// Removes all faults from the server.
    pub(crate) fn clear(&self) {
        self.api.faults().clear();
    }

    /// Returns the positions of deterministic faults that never fired, with the resource if the server does not have
    /// it.
    pub(crate) fn unfired(&self) -> Vec<(SourceSpan, Option<UnknownResource>)> {
        let fired: BTreeSet<u64> = self.api.faults().firings().map(|firing| firing.rule).collect();
        let faults = self.faults.lock();
        let unfired = faults.iter().filter(|(_, number, rule)| !fired.contains(number) && rule.probability >= 1.0);
        let unknown =
            |rule: &Rule| rule.matching.resource.as_deref().and_then(|resource| unknown_resource(&self.api, resource));
        unfired.map(|(spot, _, rule)| (*spot, unknown(rule))).collect()
    }
}

/// Checks the name of a resource, a pattern with `*`. Returns it if no resource of the server matches.
pub(super) fn unknown_resource(api: &ApiServer, resource: &str) -> Option<UnknownResource> {
    let registry = api.registry();
    let names: Vec<String> =
        registry.all().flat_map(|served| [served.kind.plural.clone(), served.full_name()]).collect();
    if names.iter().any(|name| matches(resource, name)) {
        return None;
    }
    let suggestion = nearest(resource, names.iter().map(String::as_str)).map(str::to_owned);
    Some(UnknownResource { resource: resource.to_owned(), suggestion })
}
