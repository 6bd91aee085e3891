//! The cases, by topic. Long ones come first, so that no thread is left with one at the end.

mod admission;
mod basics;
mod beside;
mod change_over;
mod conversion;
mod crashes;
mod database;
#[expect(clippy::unwrap_used, reason = "a case that fails may panic")]
mod databases;
mod definitions;
mod examples;
mod fields;
mod kinds;
mod limits;
mod loops;
mod metrics;
mod outside;
mod packaging;
mod peering;
mod peering_definitions;
mod pod;
mod pods;
mod reload;
mod replicas;
mod rights;
mod sameness;
mod scenarios;
mod secrets;
mod steps;
mod takeover;
mod trouble;
mod types;
mod uninstall;

use crate::harness::Case;

/// Creates a table of cases from functions, whose names are the sentences.
macro_rules! cases {
    ($($run:ident),* $(,)?) => {
        &[$(crate::harness::Case { module: module_path!(), name: stringify!($run), run: $run }),*]
    };
}
pub(crate) use cases;

/// Returns all cases in the order in which they start.
pub(crate) fn all() -> Vec<Case> {
    [
        sameness::CASES,
        beside::CASES,
        crashes::CASES,
        databases::CASES,
        loops::CASES,
        rights::CASES,
        reload::CASES,
        limits::CASES,
        steps::CASES,
        trouble::CASES,
        takeover::CASES,
        admission::CASES,
        conversion::CASES,
        change_over::CASES,
        peering::CASES,
        peering_definitions::CASES,
        outside::CASES,
        packaging::CASES,
        uninstall::CASES,
        definitions::CASES,
        replicas::CASES,
        pod::CASES,
        pods::CASES,
        scenarios::CASES,
        database::CASES,
        examples::CASES,
        kinds::CASES,
        types::CASES,
        basics::CASES,
        metrics::CASES,
        secrets::CASES,
        fields::CASES,
    ]
    .concat()
}
