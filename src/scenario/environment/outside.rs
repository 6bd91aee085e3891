//! The world outside of the cluster, in which stubs answer through all runs of the operators.

use std::sync::Arc;

use crate::script::Outside;

use super::super::model::Scenario;
use super::super::stubs::{HttpStubs, MachineStubs, PodStubs, SqlStubs, UnexpectedCalls};
use super::super::timeline::Timeline;

/// The stubs of a scenario.
pub(crate) struct StubbedOutside {
    /// The calls that no stub answers.
    pub unexpected: Arc<UnexpectedCalls>,
    /// The stubs of HTTP servers.
    pub http: Arc<HttpStubs>,
    /// The stubs of the programs and files of the machine.
    machine: Arc<MachineStubs>,
    /// The stubs of databases.
    sql: Arc<SqlStubs>,
    /// The stubs of containers.
    pods: Arc<PodStubs>,
}

impl StubbedOutside {
    /// Returns the stubs of a scenario. Recordings are not written in disturbed runs.
    pub(super) fn of(scenario: &Scenario, timeline: &Arc<Timeline>, is_disturbed: bool) -> Self {
        let unexpected: Arc<UnexpectedCalls> = Arc::default();
        let (stubs, records) = (&scenario.stubs, scenario.records_http && !is_disturbed);
        let http = HttpStubs::new(stubs.http.clone(), records, Arc::clone(timeline), Arc::clone(&unexpected));
        let machine = MachineStubs::new(stubs.clone(), Arc::clone(timeline), Arc::clone(&unexpected));
        let sql = SqlStubs::new(stubs.sql.clone(), Arc::clone(timeline), Arc::clone(&unexpected));
        let pods = PodStubs::new(stubs.pods.clone(), Arc::clone(timeline), Arc::clone(&unexpected));
        Self { unexpected, http: Arc::new(http), machine: Arc::new(machine), sql: Arc::new(sql), pods: Arc::new(pods) }
    }

    /// Returns the world outside of the cluster, in which stubs answer.
    pub(super) fn as_operators_see_it(&self) -> Outside {
        Outside::new(
            Arc::<HttpStubs>::clone(&self.http),
            Arc::<MachineStubs>::clone(&self.machine),
            Arc::<MachineStubs>::clone(&self.machine),
        )
        .with_databases(Arc::<SqlStubs>::clone(&self.sql))
        .with_pods(Arc::<PodStubs>::clone(&self.pods))
    }
}
