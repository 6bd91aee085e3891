//! The checks of services.

use std::collections::BTreeSet;
use std::net::IpAddr;

use super::field::{Field, FieldErrors};
use super::labels;
use super::pod_spec::address;

/// The maximum timeout of session affinity in seconds.
const MAX_AFFINE_SECONDS: i64 = 86_400;

/// Checks the type, ports and addresses of a service.
pub(super) fn check(service: &Field<'_, '_>, causes: &mut FieldErrors) {
    let spec = service.at("spec");
    let kind = spec.at("type");
    kind.must_be_one_of(&["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"], causes);
    if spec.at("ports").is_empty() && !is_headless(&spec) && kind.text() != "ExternalName" {
        causes.push(spec.at("ports").required(""));
    }
    if is_headless(&spec) && matches!(kind.text(), "LoadBalancer" | "NodePort") {
        let text = format!("may not be set to 'None' for {} services", kind.text());
        causes.push(spec.at("clusterIPs").item(0).invalid(text));
    }
    if kind.text() == "ExternalName" {
        external_name(&spec, causes);
    } else {
        cluster_addresses(&spec, causes);
    }
    ports(&spec, causes);
    labels::labels(&spec.at("selector"), causes);
    affinity(&spec, causes);
    for ip in spec.at("externalIPs").items() {
        external_address(&ip, causes);
    }
    load_balancer(&spec, causes);
    traffic(&spec, causes);
}

fn is_headless(spec: &Field<'_, '_>) -> bool {
    matches!(spec.at("clusterIPs").list(), [one] if one == "None")
}

fn external_name(spec: &Field<'_, '_>, causes: &mut FieldErrors) {
    for name in ["clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if !spec.at(name).is_empty() {
            causes.push(spec.at(name).forbidden("may not be set for ExternalName services"));
        }
    }
    let name = spec.at("externalName");
    if name.must_be_filled(causes) {
        let plain = serde_json::Value::from(name.text().strip_suffix('.').unwrap_or(name.text()));
        name.with(&plain).must_be_a_subdomain(causes);
    }
}

/// This server has only IPv4 addresses.
fn cluster_addresses(spec: &Field<'_, '_>, causes: &mut FieldErrors) {
    let (one, all) = (spec.at("clusterIP"), spec.at("clusterIPs"));
    let (families, policy) = (spec.at("ipFamilies"), spec.at("ipFamilyPolicy"));
    if one.is_empty() && !all.is_empty() {
        causes.push(all.invalid("must be empty when `clusterIP` is not specified"));
    }
    if !one.is_empty() && all.value[0] != *one.value {
        causes.push(all.invalid("first value must match `clusterIP`"));
    }
    let mut seen = BTreeSet::new();
    let mut are_families_right = true;
    for family in families.items() {
        if !["IPv4", "IPv6"].contains(&family.text()) {
            causes.push(family.not_supported(&["IPv4", "IPv6"]));
            are_families_right = false;
        }
        if !seen.insert(family.text()) {
            causes.push(family.duplicate());
        }
    }
    policy.may_be_one_of(&["PreferDualStack", "RequireDualStack", "SingleStack"], causes);
    if all.list().len() > 1 && all.value[0] == "None" {
        causes.push(all.invalid("'None' must be the first and only value"));
    }
    if all.list().len() > 2 {
        causes.push(all.invalid("may only hold up to 2 values"));
    }
    for ip in all.items().filter(|ip| ip.text() != "None") {
        address(&ip, causes);
    }
    let has_no_selector = is_headless(spec) && spec.at("selector").is_empty();
    if !has_no_selector && causes.is_empty() && are_families_right {
        if families.item(0).text() == "IPv6" {
            causes.push(families.item(0).invalid("not configured on this cluster"));
        } else if policy.text() == "RequireDualStack" {
            causes.push(policy.invalid("this cluster is not configured for dual-stack services"));
        }
        if all.item(0).text().parse::<IpAddr>().is_ok_and(|ip| !is_in_range(ip)) {
            causes.push(all.invalid("failed to allocate IP: the provided IP is not in the valid range 10.0.0.0/24"));
        }
    }
}

/// Tells whether an address is in the range of services.
fn is_in_range(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V4(ip) if ip.octets()[..3] == [10, 0, 0])
}

fn ports(spec: &Field<'_, '_>, causes: &mut FieldErrors) {
    let list = spec.at("ports");
    let (mut names, mut node_ports, mut numbers) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    for port in list.items() {
        let (name, number, protocol) = (port.at("name"), port.at("port"), port.at("protocol"));
        if !name.is_empty() {
            name.must_be_a_label(causes);
            if !names.insert(name.text()) {
                causes.push(name.duplicate());
            }
        } else if list.list().len() > 1 {
            causes.push(name.required(""));
        }
        number.must_be_a_port(causes);
        protocol.must_be_one_of(&["SCTP", "TCP", "UDP"], causes);
        port.at("targetPort").must_be_a_port_or_name(causes);
        if port.at("appProtocol").is_set() {
            port.at("appProtocol").must_be_qualified(causes);
        }
        let outside = port.at("nodePort");
        if outside.number() != 0 {
            if spec.at("type").text() == "ClusterIP" {
                causes.push(outside.forbidden("may not be used when `type` is 'ClusterIP'"));
            }
            if !node_ports.insert((protocol.text(), outside.number())) {
                causes.push(outside.duplicate());
            }
        }
        if !numbers.insert((protocol.text(), number.number())) {
            causes.push(port.duplicate());
        }
    }
}

fn affinity(spec: &Field<'_, '_>, causes: &mut FieldErrors) {
    let (kind, config) = (spec.at("sessionAffinity"), spec.at("sessionAffinityConfig"));
    kind.must_be_one_of(&["ClientIP", "None"], causes);
    let client = config.at("clientIP");
    let seconds = client.at("timeoutSeconds");
    if kind.text() == "ClientIP" && !(1..=MAX_AFFINE_SECONDS).contains(&seconds.number()) {
        causes.push(seconds.invalid(format!("must be greater than 0 and less than {MAX_AFFINE_SECONDS}")));
    }
}

/// Checks an external address of a service, or an address of an endpoint.
pub(super) fn external_address(ip: &Field<'_, '_>, causes: &mut FieldErrors) {
    let Ok(parsed) = ip.text().parse::<IpAddr>() else {
        address(ip, causes);
        return;
    };
    let is_link_local = match parsed {
        IpAddr::V4(ip) => ip.is_link_local() || (ip.is_multicast() && ip.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(ip) => ip.is_unicast_link_local() || ip.segments()[0] == 0xff02,
    };
    if parsed.is_unspecified() || parsed.is_loopback() || is_link_local {
        causes.push(ip.invalid("may not be unspecified, in the loopback range, or in the link-local range"));
    }
}

fn load_balancer(spec: &Field<'_, '_>, causes: &mut FieldErrors) {
    let is_balanced = spec.at("type").text() == "LoadBalancer";
    let only = "may only be used when `type` is 'LoadBalancer'";
    let ranges = spec.at("LoadBalancerSourceRanges");
    let given = spec.at("loadBalancerSourceRanges");
    let ranges = ranges.with(given.value);
    if !ranges.is_empty() && !is_balanced {
        causes.push(ranges.forbidden(only));
    }
    for range in ranges.items() {
        network(&range, causes);
    }
    if spec.at("allocateLoadBalancerNodePorts").is_set() && !is_balanced {
        causes.push(spec.at("allocateLoadBalancerNodePorts").forbidden(only));
    }
    let class = spec.at("loadBalancerClass");
    match (class.is_set(), is_balanced) {
        (true, true) => class.must_be_qualified(causes),
        (true, false) => causes.push(class.forbidden(only)),
        (false, _) => {}
    }
}

/// Requires an address with a prefix length.
pub(super) fn network(range: &Field<'_, '_>, causes: &mut FieldErrors) {
    let parsed = range
        .text()
        .trim()
        .split_once('/')
        .and_then(|(ip, length)| Some((ip.parse::<IpAddr>().ok()?, length.parse::<u8>().ok()?)));
    let is_right = parsed.is_some_and(|(ip, length)| length <= if ip.is_ipv4() { 32 } else { 128 });
    if !is_right {
        causes.push(range.invalid("must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"));
    }
}

fn traffic(spec: &Field<'_, '_>, causes: &mut FieldErrors) {
    let (kind, outer) = (spec.at("type").text(), spec.at("externalTrafficPolicy"));
    let is_open =
        matches!(kind, "LoadBalancer" | "NodePort") || (kind == "ClusterIP" && !spec.at("externalIPs").is_empty());
    if is_open {
        outer.must_be_one_of(&["Cluster", "Local"], causes);
    } else if !outer.is_empty() {
        causes.push(outer.invalid("may only be set for externally-accessible services"));
    }
    let health = spec.at("healthCheckNodePort");
    let needs_health = kind == "LoadBalancer" && outer.text() == "Local";
    if !needs_health && health.number() != 0 {
        causes.push(
            health.invalid("may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"),
        );
    }
    spec.at("internalTrafficPolicy").may_be_one_of(&["Cluster", "Local"], causes);
    spec.at("trafficDistribution").may_be_one_of(&["PreferClose", "PreferSameNode", "PreferSameZone"], causes);
}

/// Checks the changes of a service.
pub(super) fn check_change(now: &Field<'_, '_>, before: &Field<'_, '_>, causes: &mut FieldErrors) {
    let kind = |spec: &Field<'_, '_>| spec.at("type").text().to_owned();
    if kind(now) == "LoadBalancer"
        && kind(before) == "LoadBalancer"
        && now.value["loadBalancerClass"] != before.value["loadBalancerClass"]
    {
        causes.push(now.at("loadBalancerClass").invalid("may not change once set"));
    }
    let is_named = kind(now) == "ExternalName" || kind(before) == "ExternalName";
    if is_named || (is_headless(now) && is_headless(before)) {
        return;
    }
    let (all, old) = (now.at("clusterIPs"), before.at("clusterIPs"));
    if !old.is_empty() && all.value[0] != old.value[0] {
        causes.push(all.item(0).with(all.value).invalid("may not change once set"));
    }
}

/// Checks the status of a service.
pub(super) fn check_status(service: &Field<'_, '_>, causes: &mut FieldErrors) {
    let status = service.at("status");
    let balancer = status.at("loadBalancer");
    let ingress = balancer.at("ingress");
    if service.value["spec"]["type"] != "LoadBalancer" {
        if !ingress.is_empty() {
            causes.push(ingress.forbidden("may only be used when `spec.type` is 'LoadBalancer'"));
        }
        return;
    }
    balancer_ingress(&ingress, causes);
}

/// Checks the ingress of a load balancer.
pub(super) fn balancer_ingress(ingress: &Field<'_, '_>, causes: &mut FieldErrors) {
    for one in ingress.items() {
        let (ip, mode, name) = (one.at("ip"), one.at("ipMode"), one.at("hostname"));
        if !ip.is_empty() {
            address(&ip, causes);
        }
        if mode.is_set() && ip.is_empty() {
            causes.push(mode.forbidden("may not be specified when `ip` is not set"));
        } else {
            mode.may_be_one_of(&["Proxy", "VIP"], causes);
        }
        if !name.is_empty() {
            name.must_be_a_subdomain(causes);
            if name.text().parse::<IpAddr>().is_ok() {
                causes.push(name.invalid("must be a DNS name, not an IP address"));
            }
        }
    }
}

/// Returns the warnings about a valid service.
pub(super) fn warnings(service: &Field<'_, '_>) -> Vec<String> {
    let spec = service.at("spec");
    let mut warnings = Vec::new();
    if !spec.at("externalIPs").is_empty() {
        warnings.push("spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_owned());
    }
    if !spec.at("externalName").is_empty() && spec.at("type").text() != "ExternalName" {
        warnings.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".to_owned());
    }
    if spec.at("trafficDistribution").text() == "PreferClose" {
        warnings.push("spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"".to_owned());
    }
    if spec.at("sessionAffinity").text() == "ClientIP" && is_headless(&spec) {
        warnings.push("spec.SessionAffinity is ignored for headless services".to_owned());
    }
    warnings
}
