//! The checks of probes and lifecycle hooks.

use serde_json::Value;

use super::field::{Field, FieldErrors};

/// Checks the three probes of a container.
pub(super) fn all(container: &Field<'_, '_>, grace: Option<i64>, causes: &mut FieldErrors) {
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = container.at(name);
        if !probe.is_set() {
            continue;
        }
        action(&probe, &["exec", "httpGet", "tcpSocket", "grpc"], grace, causes);
        for number in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
        {
            probe.at(number).must_not_be_negative(causes);
        }
        let own_grace = probe.at("terminationGracePeriodSeconds");
        if own_grace.is_set() && own_grace.number() <= 0 {
            causes.push(own_grace.invalid("must be greater than 0"));
        }
        if name == "readinessProbe" {
            if own_grace.is_set() {
                causes.push(own_grace.invalid("must not be set for readinessProbes"));
            }
        } else if probe.at("successThreshold").number() != 1 {
            causes.push(probe.at("successThreshold").invalid("must be 1"));
        }
    }
}

/// Checks the lifecycle hooks of a container.
pub(super) fn lifecycle(lifecycle: &Field<'_, '_>, grace: Option<i64>, causes: &mut FieldErrors) {
    for name in ["postStart", "preStop"] {
        if lifecycle.at(name).is_set() {
            action(&lifecycle.at(name), &["exec", "httpGet", "tcpSocket", "sleep"], grace, causes);
        }
    }
}

/// Exactly one action is expected; only the first one is checked.
fn action(holder: &Field<'_, '_>, kinds: &[&str], grace: Option<i64>, causes: &mut FieldErrors) {
    let mut given = kinds.iter().filter(|kind| holder.at(kind).is_set());
    let Some(first) = given.next() else {
        causes.push(holder.required("must specify a handler type"));
        return;
    };
    let action = holder.at(first);
    match *first {
        "exec" => drop(action.at("command").must_be_filled(causes)),
        "httpGet" => http(&action, causes),
        "sleep" => {
            let seconds = action.at("seconds").number();
            if grace.is_some_and(|grace| seconds < 0 || seconds > grace) {
                causes.push(action.invalid("must be non-negative and less than terminationGracePeriodSeconds"));
            }
        }
        _ => action.at("port").must_be_a_port_or_name(causes),
    }
    causes.extend(given.map(|other| holder.at(other).forbidden("may not specify more than 1 handler type")));
}

fn http(action: &Field<'_, '_>, causes: &mut FieldErrors) {
    action.at("path").must_be_filled(causes);
    action.at("port").must_be_a_port_or_name(causes);
    action.at("scheme").must_be_supported(&["HTTP", "HTTPS"], causes);
    let headers = action.at("httpHeaders");
    let is_name = |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    for header in headers.list().iter().filter(|header| !header["name"].as_str().is_some_and(is_name)) {
        let name: &Value = &header["name"];
        causes.push(headers.with(name).invalid("a valid HTTP header must consist of alphanumeric characters or '-'"));
    }
}
