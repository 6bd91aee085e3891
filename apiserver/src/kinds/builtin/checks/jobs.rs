//! The checks of jobs and cron jobs.

use std::collections::BTreeSet;
use std::iter;

use jiff::tz::TimeZone;
use serde_json::Value;

use super::field::{Field, FieldErrors};
use super::{labels, pod_spec};
use crate::schema::metadata::{NameRule, name_mistake};

/// Maximum parallelism of an indexed job.
const MAX_PARALLEL: i64 = 100_000;

/// Checks a job.
pub(super) fn check(job: &Field<'_, '_>, causes: &mut FieldErrors) {
    let spec = job.at("spec");
    generated_selector(job, causes);
    selected(&spec, causes);
    let (name, completions) =
        (job.value["metadata"]["name"].as_str().unwrap_or_default(), spec.at("completions").number());
    let last = format!("{name}-{}", completions - 1);
    if is_indexed(&spec) && completions > 0 && name_mistake(NameRule::Label, &last, false).is_some() {
        causes.push(job.at("metadata").at("name").invalid("will not able to create pod with invalid DNS label"));
    }
}

/// Checks the specification of a job with its selector.
fn selected(spec: &Field<'_, '_>, causes: &mut FieldErrors) {
    specification(spec, causes);
    let (selector, template) = (spec.at("selector"), spec.at("template"));
    let metadata = template.at("metadata");
    let is_matched = if selector.is_set() {
        labels::selector(&selector, causes);
        labels::meaning(&selector).is_none_or(|selector| selector.matches_labels(labels::of_template(&template)))
    } else {
        causes.push(selector.required(""));
        false
    };
    if !is_matched {
        causes.push(metadata.at("labels").invalid("`selector` does not match template `labels`"));
    }
}

fn is_indexed(spec: &Field<'_, '_>) -> bool {
    spec.at("completionMode").text() == "Indexed"
}

/// A generated selector must select the generated labels.
fn generated_selector(job: &Field<'_, '_>, causes: &mut FieldErrors) {
    let spec = job.at("spec");
    let selector = spec.at("selector");
    if spec.at("manualSelector").is_true() || !selector.is_set() {
        return;
    }
    let metadata = &job.value["metadata"];
    let expected = [
        ("controller-uid", &metadata["uid"]),
        ("job-name", &metadata["name"]),
        ("batch.kubernetes.io/controller-uid", &metadata["uid"]),
        ("batch.kubernetes.io/job-name", &metadata["name"]),
    ];
    let template = spec.at("template");
    let meta = template.at("metadata");
    let own = meta.at("labels");
    for (name, value) in expected {
        match own.value.get(name) {
            None => causes.push(own.required(&format!("must be '{value}'"))),
            Some(found) if found != value => causes.push(own.with(found).invalid(format!("must be '{value}'"))),
            Some(_) => {}
        }
    }
    let made = expected.into_iter().map(|(name, value)| (name.to_owned(), value.clone())).collect();
    if labels::meaning(&selector).is_some_and(|selector| !selector.matches_labels(Some(&made))) {
        causes.push(selector.invalid("`selector` not auto-generated"));
    }
}

fn specification(spec: &Field<'_, '_>, causes: &mut FieldErrors) {
    let numbers = [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ];
    for number in numbers {
        spec.at(number).must_not_be_negative(causes);
    }
    completion(spec, causes);
    let manager = spec.at("managedBy");
    if manager.is_set() {
        let is_prefixed = manager.text().split_once('/').is_some_and(|(domain, path)| {
            !path.is_empty() && name_mistake(NameRule::Subdomain, domain, false).is_none()
        });
        if !is_prefixed {
            causes.push(manager.invalid("must be a domain-prefixed path (such as \"acme.io/foo\")"));
        }
        if manager.text().len() > 63 {
            causes.push(manager.too_long(63));
        }
    }
    failure_policy(spec, causes);
    let success = spec.at("successPolicy");
    if success.is_set() && is_indexed(spec) {
        success_policy(&success, spec.at("completions").number(), causes);
    } else if success.is_set() {
        causes.push(success.invalid("requires indexed completion mode"));
    }
    let replacement = spec.at("podReplacementPolicy");
    let has_policy = spec.at("podFailurePolicy").is_set();
    replacement.may_be_one_of(if has_policy { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] }, causes);
    pod_spec::template(&spec.at("template"), iter::empty(), causes);
    let (template, policy) =
        (spec.at("template"), spec.value["template"]["spec"]["restartPolicy"].as_str().unwrap_or_default());
    let pod = template.at("spec");
    let place = pod.at("restartPolicy");
    match policy {
        "" | "Always" => causes.push(place.required("valid values: \"OnFailure\", \"Never\"")),
        "OnFailure" if has_policy => {
            causes.push(place.invalid("only \"Never\" is supported when podFailurePolicy is specified"));
        }
        "Never" | "OnFailure" => {}
        _ => causes.push(place.not_supported(&["OnFailure", "Never"])),
    }
}

fn completion(spec: &Field<'_, '_>, causes: &mut FieldErrors) {
    let (completions, parallelism) = (spec.at("completions"), spec.at("parallelism"));
    let (per_index, failed) = (spec.at("backoffLimitPerIndex"), spec.at("maxFailedIndexes"));
    if failed.is_set() && !per_index.is_set() {
        causes.push(per_index.required("when maxFailedIndexes is specified"));
    }
    spec.at("completionMode").may_be_one_of(&["NonIndexed", "Indexed"], causes);
    match spec.at("completionMode").text() {
        "Indexed" => {
            if !completions.is_set() {
                causes.push(completions.required("when completion mode is Indexed"));
            }
            if parallelism.number() > MAX_PARALLEL {
                causes
                    .push(parallelism.invalid("must be less than or equal to 100000 when completion mode is Indexed"));
            }
            if completions.is_set() && failed.number() > completions.number() {
                causes.push(failed.invalid("must be less than or equal to completions"));
            }
            if failed.number() > MAX_PARALLEL {
                causes.push(failed.invalid("must be less than or equal to 100000"));
            }
        }
        "" | "NonIndexed" => {
            for field in [per_index, failed] {
                if field.is_set() {
                    causes.push(field.invalid("requires indexed completion mode"));
                }
            }
        }
        _ => {}
    }
}

fn failure_policy(spec: &Field<'_, '_>, causes: &mut FieldErrors) {
    let policy = spec.at("podFailurePolicy");
    let rules = policy.at("rules");
    if rules.list().len() > 20 {
        causes.push(rules.too_many(20));
    }
    let pod = &spec.value["template"]["spec"];
    let containers = ["containers", "initContainers"].into_iter().filter_map(|list| pod[list].as_array()).flatten();
    let containers: BTreeSet<&str> = containers.filter_map(|container| container["name"].as_str()).collect();
    for rule in rules.items() {
        let (action, codes, conditions) = (rule.at("action"), rule.at("onExitCodes"), rule.at("onPodConditions"));
        match action.text() {
            "FailIndex" if !spec.at("backoffLimitPerIndex").is_set() => {
                causes.push(action.invalid("requires the backoffLimitPerIndex to be set"));
            }
            _ => action.must_be_one_of(&["Count", "FailIndex", "FailJob", "Ignore"], causes),
        }
        if codes.is_set() {
            exit_codes(&codes, &containers, causes);
        }
        for condition in conditions.items() {
            condition.at("type").must_be_qualified(causes);
            condition.at("status").must_be_one_of(&["False", "True", "Unknown"], causes);
        }
        if codes.is_set() != conditions.is_empty() {
            causes.push(rule.invalid("specifying one of OnExitCodes and OnPodConditions is required"));
        }
    }
}

fn exit_codes(codes: &Field<'_, '_>, containers: &BTreeSet<&str>, causes: &mut FieldErrors) {
    let (operator, container, values) = (codes.at("operator"), codes.at("containerName"), codes.at("values"));
    operator.must_be_one_of(&["In", "NotIn"], causes);
    if container.is_set() && !containers.contains(container.text()) {
        causes.push(container.invalid("must be one of the container or initContainer names in the pod template"));
    }
    if values.is_empty() {
        causes.push(values.invalid("at least one value is required"));
    }
    if values.list().len() > 255 {
        causes.push(values.too_many(255));
    }
    let mut seen = BTreeSet::new();
    for value in values.items() {
        if operator.text() == "In" && value.number() == 0 {
            causes.push(value.invalid("must not be 0 for the In operator"));
        }
        if !seen.insert(value.number()) {
            causes.push(value.duplicate());
        }
    }
    if !values.list().is_sorted_by_key(Value::as_i64) {
        causes.push(values.invalid("must be ordered"));
    }
}

fn success_policy(policy: &Field<'_, '_>, completions: i64, causes: &mut FieldErrors) {
    let rules = policy.at("rules");
    if rules.is_empty() {
        causes.push(rules.required("at least one rules must be specified when the successPolicy is specified"));
    }
    if rules.list().len() > 20 {
        causes.push(rules.too_many(20));
    }
    for rule in rules.items() {
        let (count, indexes) = (rule.at("succeededCount"), rule.at("succeededIndexes"));
        if !count.is_set() && !indexes.is_set() {
            causes.push(rule.required("at least one of succeededCount or succeededIndexes must be specified"));
        }
        let chosen = index_count(indexes.text(), completions);
        if indexes.is_set() && chosen.is_none() {
            causes.push(indexes.invalid("error parsing succeededIndexes"));
        }
        count.must_not_be_negative(causes);
        if count.number() > completions {
            causes.push(
                count.invalid(format!(
                    "must be less than or equal to {completions} (the number of specified completions)"
                )),
            );
        }
        if indexes.is_set() && count.number() > chosen.unwrap_or_default() {
            causes.push(count.invalid(
                "must be less than or equal to the number of indexes in the specified succeededIndexes field",
            ));
        }
    }
}

/// Returns the number of indexes in a text such as `1,3-5`, if it is valid.
fn index_count(text: &str, completions: i64) -> Option<i64> {
    if text.is_empty() {
        return Some(0);
    }
    let (mut count, mut last) = (0, -1);
    for interval in text.split(',') {
        let (first, end) = interval.split_once('-').unwrap_or((interval, interval));
        let (first, end): (i64, i64) = (first.parse().ok()?, end.parse().ok()?);
        let is_right = first > last && end < completions && (first < end || !interval.contains('-'));
        if !is_right {
            return None;
        }
        count += end - first + 1;
        last = end;
    }
    Some(count)
}

/// Checks the changes of a job. The real server reports the errors of a changed specification twice.
pub(super) fn check_change(now: &Field<'_, '_>, before: &Field<'_, '_>, causes: &mut FieldErrors) {
    selected(now, causes);
    let completions = now.at("completions");
    if !is_indexed(now) {
        completions.must_stay(&before.at("completions"), causes);
    } else if completions.value != before.at("completions").value && completions.value != now.at("parallelism").value {
        causes.push(completions.invalid("can only be modified in tandem with spec.parallelism"));
    }
    for name in ["selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"]
    {
        now.at(name).must_stay(&before.at(name), causes);
    }
    let (template, old) = (now.at("template"), before.at("template"));
    if before.at("suspend").is_true() {
        let free = with_free_parts(old.value, template.value);
        template.at("spec").must_stay(&template.at("spec").with(&free["spec"]), causes);
    } else {
        template.must_stay(&old, causes);
    }
}

/// Returns the old template with the scheduling fields and resources of the new one, which may change while a job is
/// suspended.
fn with_free_parts(old: &Value, new: &Value) -> Value {
    let mut kept = old.clone();
    for name in ["nodeSelector", "tolerations", "schedulingGates"] {
        match new["spec"].get(name) {
            Some(value) => kept["spec"][name] = value.clone(),
            None => drop(kept["spec"].as_object_mut().map(|spec| spec.remove(name))),
        }
    }
    match new["spec"]["affinity"].get("nodeAffinity") {
        Some(affinity) => kept["spec"]["affinity"]["nodeAffinity"] = affinity.clone(),
        None => drop(kept["spec"]["affinity"].as_object_mut().map(|affinity| affinity.remove("nodeAffinity"))),
    }
    for list in ["containers", "initContainers"] {
        for (index, container) in kept["spec"][list].as_array_mut().into_iter().flatten().enumerate() {
            let other = &new["spec"][list][index];
            if other["name"] == container["name"] {
                container["resources"] = other["resources"].clone();
            }
        }
    }
    if old["spec"].get("affinity").is_none() && new["spec"].get("affinity").is_none() {
        kept["spec"].as_object_mut().map(|spec| spec.remove("affinity"));
    }
    for list in ["containers", "initContainers"] {
        if old["spec"].get(list).is_none() {
            kept["spec"].as_object_mut().map(|spec| spec.remove(list));
        }
    }
    kept
}

fn is_condition(status: &Field<'_, '_>, kind: &str) -> bool {
    status.value["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|one| one["type"] == kind && one["status"] == "True")
}

/// Checks the status of a job.
pub(super) fn check_status(job: &Field<'_, '_>, before: &Field<'_, '_>, causes: &mut FieldErrors) {
    let (status, old) = (job.at("status"), before.at("status"));
    for number in ["active", "succeeded", "failed", "ready", "terminating"] {
        status.at(number).must_not_be_negative(causes);
    }
    let has = |kind: &str| is_condition(&status, kind);
    let had = |kind: &str| is_condition(&old, kind);
    let conditions = status.at("conditions");
    let (completed_at, started_at) = (status.at("completionTime"), status.at("startTime"));
    let together = [
        ("Complete", "Failed"),
        ("Complete", "FailureTarget"),
        ("SuccessCriteriaMet", "Failed"),
        ("SuccessCriteriaMet", "FailureTarget"),
    ];
    for (one, other) in together.into_iter().filter(|(one, other)| has(one) && has(other)) {
        causes.push(conditions.invalid(format!("cannot set {one}=True and {other}=true conditions")));
    }
    if completed_at.is_set() && !has("Complete") {
        causes.push(completed_at.invalid("cannot set completionTime when there is no Complete=True condition"));
    }
    if !completed_at.is_set() && has("Complete") {
        causes.push(completed_at.required("completionTime is required for Complete jobs"));
    }
    let moment = |field: &Field<'_, '_>| field.text().parse::<jiff::Timestamp>().ok();
    if moment(&completed_at).is_some_and(|end| moment(&started_at).is_some_and(|start| end < start)) {
        causes.push(completed_at.invalid("must be equal to or after `startTime`"));
    }
    if has("Failed") && !has("FailureTarget") {
        causes.push(conditions.invalid("cannot set Failed=True condition without the FailureTarget=true condition"));
    }
    if has("Complete") && !has("SuccessCriteriaMet") {
        causes.push(
            conditions.invalid("cannot set Complete=True condition without the SuccessCriteriaMet=true condition"),
        );
    }
    if has("Complete") || has("Failed") {
        for number in ["active", "terminating"] {
            if status.at(number).number() > 0 {
                causes.push(status.at(number).invalid("is invalid for finished job"));
            }
        }
        if !started_at.is_set() {
            causes.push(started_at.required("startTime is required for finished job"));
        }
    }
    if status.at("ready").is_set() && status.at("ready").number() > status.at("active").number() {
        causes.push(status.at("ready").invalid("cannot set more ready pods than active"));
    }
    for kind in
        ["Failed", "Complete", "FailureTarget", "SuccessCriteriaMet"].into_iter().filter(|kind| had(kind) && !has(kind))
    {
        causes.push(conditions.invalid(format!("cannot disable the terminal {kind}=True condition")));
    }
    for number in ["failed", "succeeded"] {
        if status.at(number).number() < old.at(number).number() {
            causes.push(status.at(number).invalid("cannot decrease the counter"));
        }
    }
    let was_completed = old.at("completionTime");
    if completed_at.is_set() && was_completed.is_set() {
        completed_at.must_stay(&was_completed, causes);
    }
    let is_suspended = job.at("spec").at("suspend").is_true();
    if old.at("startTime").is_set() && old.at("startTime").value != started_at.value && !is_suspended {
        causes.push(started_at.invalid("field is immutable for unsuspended job once set"));
    }
}

/// Checks a cron job.
pub(super) fn check_cron(job: &Field<'_, '_>, old: Option<&Field<'_, '_>>, causes: &mut FieldErrors) {
    let spec = job.at("spec");
    let schedule = spec.at("schedule");
    if schedule.must_be_filled(causes) {
        let has_zone = schedule.text().contains("TZ");
        let had_zone =
            old.is_some_and(|old| old.value["spec"]["schedule"].as_str().is_some_and(|text| text.contains("TZ")));
        if let Err(why) = super::schedule::check(schedule.text()) {
            causes.push(schedule.invalid(why));
        }
        if has_zone && (!had_zone || spec.at("timeZone").is_set()) {
            causes.push(schedule.invalid("cannot use TZ or CRON_TZ in schedule, use timeZone field instead"));
        }
    }
    for number in ["startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        spec.at(number).must_not_be_negative(causes);
    }
    let zone = spec.at("timeZone");
    if zone.is_set() && old.is_none_or(|old| old.value["spec"]["timeZone"] != *zone.value) {
        time_zone(&zone, causes);
    }
    spec.at("concurrencyPolicy").must_be_one_of(&["Allow", "Forbid", "Replace"], causes);
    let template = spec.at("jobTemplate");
    let inner = template.at("spec");
    specification(&inner, causes);
    if inner.at("selector").is_set() {
        causes.push(inner.at("selector").invalid("`selector` will be auto-generated"));
    }
    if inner.at("manualSelector").is_true() {
        causes.push(inner.at("manualSelector").not_supported(&["nil", "false"]));
    }
    let metadata = job.at("metadata");
    if old.is_none() && metadata.at("name").text().len() > 52 {
        causes.push(metadata.at("name").invalid("must be no more than 52 characters"));
    }
}

fn time_zone(zone: &Field<'_, '_>, causes: &mut FieldErrors) {
    let is_part = |part: &str| {
        let is_known = |c: char| c.is_ascii_alphanumeric() || ".-_+".contains(c);
        (1..=14).contains(&part.len())
            && part != "."
            && part != ".."
            && !part.starts_with('-')
            && part.chars().all(is_known)
    };
    if !zone.text().split('/').all(is_part) {
        causes.push(zone.invalid("unknown time zone"));
        return;
    }
    if zone.text().eq_ignore_ascii_case("local") {
        causes
            .push(zone.invalid("timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"));
    } else if TimeZone::get(zone.text()).is_err() {
        causes.push(zone.invalid(format!("unknown time zone {}", zone.text())));
    }
}
