//! The examples that work with something outside of the cluster, with the real counterparts: PowerDNS, helm and
//! openssl. Where there is no package of the real one, a small server in `tests/cluster/outside/` plays it.
//!
//! In each case objects are made, changed and deleted, the operator is killed in the middle, and the state of the
//! counterpart is compared. The operators have exactly the rights that `kopfd rbac` derives.

use std::rc::Rc;

use serde_json::Value;

use super::cases;
use super::examples::{ExampleKind, SMALL, apply_definition, launch_copy, log_says};
use crate::harness::{Case, Kind, LIVENESS, Launch, Operator, TIMEOUT, TestContext};

mod checks;
mod counterpart;
mod dns;
mod programs;
mod records;
mod synced;

pub(crate) use counterpart::ask as send;
use counterpart::{Counterpart, ask};

pub(crate) const CASES: &[Case] = cases![
    records_are_those_of_a_real_dns_server,
    a_crash_in_the_middle_of_a_request_leaves_no_record,
    copies_of_secrets_follow_their_source_and_a_vault,
    checks_are_those_of_a_monitoring_service,
    records_are_those_of_an_api,
    releases_are_those_of_helm,
    certificates_are_made_by_openssl,
];

fn records_are_those_of_a_real_dns_server(context: &TestContext<'_>) {
    dns::records_are_those_of_the_server(context);
}

fn a_crash_in_the_middle_of_a_request_leaves_no_record(context: &TestContext<'_>) {
    dns::a_crash_leaves_no_record(context);
}

fn copies_of_secrets_follow_their_source_and_a_vault(context: &TestContext<'_>) {
    synced::copies_follow_a_secret_and_a_vault(context);
}

fn checks_are_those_of_a_monitoring_service(context: &TestContext<'_>) {
    checks::checks_are_those_of_the_service(context);
}

fn records_are_those_of_an_api(context: &TestContext<'_>) {
    records::records_are_those_of_the_api(context);
}

fn releases_are_those_of_helm(context: &TestContext<'_>) {
    programs::releases_are_those_of_helm(context);
}

fn certificates_are_made_by_openssl(context: &TestContext<'_>) {
    programs::certificates_are_made_by_openssl(context);
}

/// Kills an operator as a crash would, and starts it again.
fn crash(
    context: &TestContext<'_>,
    operator: &Rc<Operator>,
    launch: &Launch,
    meanwhile: impl FnOnce(),
) -> Rc<Operator> {
    context.kill(operator);
    meanwhile();
    context.start(launch)
}

/// Returns the reason of a condition of an object, or nothing.
fn reason<'o>(object: &'o Value, condition: &str) -> Option<&'o str> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|found| found["type"] == condition)?["reason"].as_str()
}

/// Waits until a condition of an object has a reason.
fn has_reason(context: &TestContext<'_>, kind: &Kind, name: &str, condition: &str, wanted: &str) -> Value {
    context.object(kind, name, &format!("is {wanted}"), |object| reason(object, condition) == Some(wanted))
}
