//! The checks of ingresses, network policies, endpoints and their slices.

use std::collections::BTreeSet;
use std::net::IpAddr;

use serde_json::Value;

use super::field::{Field, FieldErrors};
use super::labels;
use super::pod_spec::address;
use super::services::{external_address, network};
use crate::schema::metadata::{NameRule, name_mistake};

/// Checks the rules and backends of an ingress.
pub(super) fn ingress(spec: &Field<'_, '_>, causes: &mut FieldErrors) {
    let (rules, backend_of_all) = (spec.at("rules"), spec.at("defaultBackend"));
    if rules.is_empty() && !backend_of_all.is_set() {
        causes.push(spec.invalid("either `defaultBackend` or `rules` must be specified"));
    }
    if backend_of_all.is_set() {
        backend(&backend_of_all, causes);
    }
    for rule in rules.items() {
        host(&rule.at("host"), causes);
        let http = rule.at("http");
        if http.is_set() && http.at("paths").must_be_filled(causes) {
            for path in http.at("paths").items() {
                ingress_path(&path, causes);
            }
        }
    }
    for tls in spec.at("tls").items() {
        for name in tls.at("hosts").items() {
            wildcard_name(&name, causes);
        }
        if !tls.at("secretName").is_empty() {
            tls.at("secretName").must_be_a_subdomain(causes);
        }
    }
    if spec.at("ingressClassName").is_set() {
        spec.at("ingressClassName").must_be_a_subdomain(causes);
    }
}

fn host(host: &Field<'_, '_>, causes: &mut FieldErrors) {
    if host.is_empty() {
        return;
    }
    if host.text().parse::<IpAddr>().is_ok() {
        causes.push(host.invalid("must be a DNS name, not an IP address"));
        return;
    }
    wildcard_name(host, causes);
}

fn wildcard_name(name: &Field<'_, '_>, causes: &mut FieldErrors) {
    if name.text().contains('*') {
        let rest = name.text().strip_prefix("*.").unwrap_or("*");
        causes.extend(name_mistake(NameRule::Subdomain, rest, false).map(|why| name.invalid(why)));
    } else {
        name.must_be_a_subdomain(causes);
    }
}

fn ingress_path(path: &Field<'_, '_>, causes: &mut FieldErrors) {
    const REFUSED: [&str; 5] = ["//", "/./", "/../", "%2f", "%2F"];
    let (text, kind) = (path.at("path"), path.at("pathType"));
    match kind.text() {
        "" => causes.push(kind.required("pathType must be specified")),
        "Exact" | "Prefix" => {
            if !text.text().starts_with('/') {
                causes.push(text.invalid("must be an absolute path"));
            } else if REFUSED.iter().any(|part| text.text().contains(part))
                || text.text().ends_with("/..")
                || text.text().ends_with("/.")
            {
                causes.push(text.invalid("must not contain '//', '/./', '/../', '%2f' or '%2F'"));
            }
        }
        "ImplementationSpecific" if !text.is_empty() && !text.text().starts_with('/') => {
            causes.push(text.invalid("must be an absolute path"));
        }
        "ImplementationSpecific" => {}
        _ => causes.push(kind.not_supported(&["Exact", "ImplementationSpecific", "Prefix"])),
    }
    backend(&path.at("backend"), causes);
}

fn backend(backend: &Field<'_, '_>, causes: &mut FieldErrors) {
    let (resource, service) = (backend.at("resource"), backend.at("service"));
    if resource.is_set() && service.is_set() {
        causes.push(backend.invalid("cannot set both resource and service backends"));
    } else if resource.is_set() {
        for name in ["kind", "name"] {
            resource.at(name).must_be_filled(causes);
        }
    } else if service.is_set() {
        if service.at("name").must_be_filled(causes) {
            service.at("name").must_be_a_label(causes);
        }
        let port = service.at("port");
        let (number, name) = (port.at("number"), port.at("name"));
        match (number.number() != 0, !name.is_empty()) {
            (true, true) => causes.push(backend.invalid("cannot set both port name & port number")),
            (false, false) => causes.push(backend.required("port name or number is required")),
            (true, false) => number.must_be_a_port(causes),
            (false, true) => name.must_be_a_port_or_name(causes),
        }
    } else {
        causes.push(backend.invalid("resource or service backend is required"));
    }
}

/// Checks a network policy.
pub(super) fn policy(spec: &Field<'_, '_>, causes: &mut FieldErrors) {
    labels::selector(&spec.at("podSelector"), causes);
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for rule in spec.at(direction).items() {
            for port in rule.at("ports").items() {
                policy_port(&port, causes);
            }
            for peer in rule.at(peers).items() {
                policy_peer(&peer, causes);
            }
        }
    }
    let types = spec.at("policyTypes");
    if types.list().len() > 2 {
        causes.push(types.invalid("may not specify more than two policyTypes"));
        return;
    }
    for kind in types.items() {
        kind.must_be_supported(&["Egress", "Ingress"], causes);
    }
}

fn policy_port(port: &Field<'_, '_>, causes: &mut FieldErrors) {
    port.at("protocol").may_be_one_of(&["SCTP", "TCP", "UDP"], causes);
    let (first, last) = (port.at("port"), port.at("endPort"));
    if first.is_set() {
        first.must_be_a_port_or_name(causes);
        if first.value.is_number() && last.is_set() {
            if last.number() < first.number() {
                causes.push(last.invalid("must be greater than or equal to `port`"));
            }
            last.must_be_a_port(causes);
        }
    }
    if last.is_set() && !first.value.is_number() {
        causes.push(last.invalid("may not be specified when `port` is not a number"));
    }
}

fn policy_peer(peer: &Field<'_, '_>, causes: &mut FieldErrors) {
    let block = peer.at("ipBlock");
    let selectors = ["podSelector", "namespaceSelector"].map(|name| peer.at(name).is_set());
    for name in ["podSelector", "namespaceSelector"] {
        labels::selector(&peer.at(name), causes);
    }
    if block.is_set() {
        ip_block(&block, causes);
    }
    match (block.is_set(), selectors.contains(&true)) {
        (false, false) => causes.push(peer.required("must specify a peer")),
        (true, true) => causes.push(peer.forbidden("may not specify both ipBlock and another peer")),
        _ => {}
    }
}

fn ip_block(block: &Field<'_, '_>, causes: &mut FieldErrors) {
    let whole = block.at("cidr");
    if !whole.must_be_filled(causes) {
        return;
    }
    network(&whole, causes);
    for part in block.at("except").items() {
        let mut own = FieldErrors::new();
        network(&part, &mut own);
        if own.is_empty() && causes.is_empty() && !is_inside(part.text(), whole.text()) {
            own.push(part.invalid(format!("must be a strict subset of `cidr` {}", whole.text())));
        }
        causes.append(&mut own);
    }
}

/// Tells whether one network is a proper subset of another.
fn is_inside(part: &str, whole: &str) -> bool {
    let parse = |text: &str| -> Option<(u128, u32, u32)> {
        let (ip, length) = text.split_once('/')?;
        let (bits, width) = match ip.parse().ok()? {
            IpAddr::V4(ip) => (u128::from(u32::from(ip)), 32),
            IpAddr::V6(ip) => (u128::from(ip), 128),
        };
        Some((bits, length.parse().ok()?, width))
    };
    let (Some((part, inner, width)), Some((whole, outer, other_width))) = (parse(part), parse(whole)) else {
        return false;
    };
    let prefix = |bits: u128| if outer == 0 { 0 } else { bits >> (width - outer) };
    width == other_width && inner > outer && prefix(part) == prefix(whole)
}

/// Checks the subsets of endpoints.
pub(super) fn endpoints(object: &Field<'_, '_>, causes: &mut FieldErrors) {
    for subset in object.at("subsets").items() {
        let (ready, waiting, ports) = (subset.at("addresses"), subset.at("notReadyAddresses"), subset.at("ports"));
        if ready.is_empty() && waiting.is_empty() {
            causes.push(subset.required("must specify `addresses` or `notReadyAddresses`"));
        }
        for one in ready.items().chain(waiting.items()) {
            let ip = one.at("ip");
            if ip.text().parse::<IpAddr>().is_err() {
                // The real server reports this twice.
                address(&ip, causes);
            }
            external_address(&ip, causes);
            if !one.at("hostname").is_empty() {
                one.at("hostname").must_be_a_label(causes);
            }
            if one.at("nodeName").is_set() {
                one.at("nodeName").must_be_a_subdomain(causes);
            }
        }
        for port in ports.items() {
            if !port.at("name").is_empty() {
                port.at("name").must_be_a_label(causes);
            } else if ports.list().len() > 1 {
                causes.push(port.at("name").required(""));
            }
            port.at("port").must_be_a_port(causes);
            port.at("protocol").must_be_one_of(&["SCTP", "TCP", "UDP"], causes);
        }
    }
}

/// Checks a slice of endpoints.
pub(super) fn slice(object: &Field<'_, '_>, causes: &mut FieldErrors) {
    let family = object.at("addressType");
    family.must_be_one_of(&["FQDN", "IPv4", "IPv6"], causes);
    for endpoint in object.at("endpoints").items() {
        let addresses = endpoint.at("addresses");
        if addresses.is_empty() {
            causes.push(addresses.required("must contain at least 1 address"));
        }
        if addresses.list().len() > 100 {
            causes.push(addresses.too_many(100));
        }
        for one in addresses.items() {
            slice_address(&addresses, &one, family.text(), causes);
        }
        if endpoint.at("nodeName").is_set() {
            endpoint.at("nodeName").must_be_a_subdomain(causes);
        }
        if endpoint.at("hostname").is_set() {
            endpoint.at("hostname").must_be_a_label(causes);
        }
    }
    let mut names = BTreeSet::new();
    for port in object.at("ports").items() {
        let name = port.at("name");
        if !name.is_empty() {
            name.must_be_a_label(causes);
        }
        if !names.insert(name.text()) {
            causes.push(name.duplicate());
        }
        port.at("protocol").must_be_one_of(&["SCTP", "TCP", "UDP"], causes);
        if port.at("appProtocol").is_set() {
            port.at("appProtocol").must_be_qualified(causes);
        }
    }
}

fn slice_address(list: &Field<'_, '_>, one: &Field<'_, '_>, family: &str, causes: &mut FieldErrors) {
    match (family, one.text().parse::<IpAddr>()) {
        ("FQDN", _) => one.must_be_a_subdomain(causes),
        ("IPv4" | "IPv6", Err(_)) => address(one, causes),
        ("IPv4", Ok(IpAddr::V6(_))) | ("IPv6", Ok(IpAddr::V4(_))) => {
            causes.push(list.invalid(format!("must be {family} addresses")));
        }
        ("IPv4" | "IPv6", Ok(_)) => external_address(one, causes),
        _ => {}
    }
}

/// Returns the warnings about a valid ingress or slice.
pub(super) fn warnings(object: &Value, is_new: bool) -> Vec<String> {
    let mut warnings = Vec::new();
    let has_class = object["spec"]["ingressClassName"].is_string();
    if object["kind"] == "Ingress"
        && is_new
        && !has_class
        && object["metadata"]["annotations"]["kubernetes.io/ingress.class"].is_string()
    {
        let text =
            "annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead";
        warnings.push(text.to_owned());
    }
    if object["addressType"] == "FQDN" {
        warnings.push("spec.addressType: FQDN endpoints are deprecated".to_owned());
    }
    warnings
}
