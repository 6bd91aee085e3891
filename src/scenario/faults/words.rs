//! Descriptions of faults for the timeline.

use crate::apiserver::faults::{Action, Drop, Expiry, Firing, Phase, WebhookFailure};

/// Describes a fault that has fired.
pub(crate) fn firing(action: Option<&Action>, firing: &Firing) -> String {
    let Firing { verb, resource, namespace, name, .. } = firing;
    let place = if namespace.is_empty() { String::new() } else { format!(" in {namespace}") };
    let object = if name.is_empty() { resource.clone() } else { format!("{resource}/{name}") };
    format!("{verb} {object}{place}: {}", action.map_or_else(|| "a fault".to_owned(), describe))
}

fn describe(action: &Action) -> String {
    match action {
        Action::Status { code, reason, message, .. } => {
            let answer = format!("not executed, answered with {code} {reason} {message}");
            answer.split_whitespace().collect::<Vec<_>>().join(" ")
        }
        Action::StatusAfter { code } => format!("executed, but answered with {code}"),
        Action::Delay { ms, jitter, phase } => {
            let jitter = if *jitter > 0 { format!(" plus up to {jitter} ms") } else { String::new() };
            match phase {
                Phase::Before => format!("delayed by {ms} ms{jitter}"),
                Phase::After | Phase::MidBody => format!("executed, but the answer is delayed by {ms} ms{jitter}"),
            }
        }
        Action::Reset { phase } => match phase {
            Phase::Before => "the connection breaks before the execution".to_owned(),
            Phase::After => "the connection breaks after the execution".to_owned(),
            Phase::MidBody => "the connection breaks in the middle of the answer".to_owned(),
        },
        Action::WatchDrop { after_events, after_ms, how } => {
            let how = match how {
                Drop::Clean => "ends as at its timeout",
                Drop::Rst => "is reset",
                Drop::MidLine => "breaks in the middle of a line",
            };
            let events = after_events.map(|count| format!(" after {count} events")).unwrap_or_default();
            let time = after_ms.map(|ms| format!(" after {ms} ms")).unwrap_or_default();
            format!("the watch {how}{events}{time}")
        }
        Action::WatchExpire { how: Expiry::Event } => "the watch expires with an event".to_owned(),
        Action::WatchExpire { how: Expiry::Http } => "the watch expires with HTTP 410".to_owned(),
        Action::WatchError { code, .. } => format!("an event reports the error {code}"),
        Action::WatchStall { ms: Some(ms) } => format!("the watch is silent for {ms} ms"),
        Action::WatchStall { ms: None } => "the watch stays silent".to_owned(),
        Action::WatchDuplicate {} => "the event before its start is repeated".to_owned(),
        Action::WatchDelay { ms } => format!("its events are delayed by {ms} ms"),
        Action::WatchNoBookmarks {} => "no bookmarks are sent".to_owned(),
        Action::SlowBody { bytes_per_sec } => format!("the answer is limited to {bytes_per_sec} bytes per second"),
        Action::StaleRead { revisions: Some(revisions), .. } => format!("the answer is {revisions} revisions old"),
        Action::StaleRead { ms, .. } => format!("the answer is {} ms old", ms.unwrap_or_default()),
        Action::Conflict { .. } => "another client writes the object just before".to_owned(),
        Action::Throttle { qps, .. } => format!("more than {qps} requests per second"),
        Action::Unauthorized { .. } => "the credentials have expired".to_owned(),
        Action::WebhookFail { name, kind } => {
            let how = match kind {
                WebhookFailure::Timeout => "does not answer in time",
                WebhookFailure::Refused => "cannot be reached",
                WebhookFailure::Internal => "answers with 500",
            };
            format!("the admission webhook {}{how}", name.as_ref().map(|name| format!("{name} ")).unwrap_or_default())
        }
        Action::NotReady { .. } => "the storage is not ready yet".to_owned(),
        Action::DiscoveryFail { group, code } => format!("discovery of the group {group} is answered with {code}"),
    }
}
