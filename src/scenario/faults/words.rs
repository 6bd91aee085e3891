//! What faults do, in words for the timeline.

use crate::apiserver::faults::{Action, Drop, Expiry, Firing, Phase, WebhookFailure};

/// Returns what has happened to a request.
pub fn firing(action: Option<&Action>, firing: &Firing) -> String {
    let Firing { verb, resource, namespace, name, .. } = firing;
    let place = if namespace.is_empty() { String::new() } else { format!(" in {namespace}") };
    let object = if name.is_empty() { resource.clone() } else { format!("{resource}/{name}") };
    format!("{verb} {object}{place}: {}", action.map_or_else(|| "a fault".to_owned(), words))
}

fn words(action: &Action) -> String {
    match action {
        Action::Status { code, reason, message, .. } => {
            let told = format!("it is not done, and answered by {code} {reason} {message}");
            told.split_whitespace().collect::<Vec<_>>().join(" ")
        }
        Action::StatusAfter { code } => format!("it is done, and answered by {code}"),
        Action::Delay { ms, jitter, phase } => {
            let jitter = if *jitter > 0 { format!(" and up to {jitter} ms more") } else { String::new() };
            match phase {
                Phase::Before => format!("it is held back for {ms} ms{jitter}"),
                Phase::After | Phase::MidBody => format!("it is done, and its answer is held back for {ms} ms{jitter}"),
            }
        }
        Action::Reset { phase } => match phase {
            Phase::Before => "the connection breaks before it is done".to_owned(),
            Phase::After => "the connection breaks after it is done".to_owned(),
            Phase::MidBody => "the connection breaks in the middle of the answer".to_owned(),
        },
        Action::WatchDrop { after_events, after_ms, how } => {
            let how = match how {
                Drop::Clean => "ends as at its time-out",
                Drop::Rst => "is reset",
                Drop::MidLine => "breaks in the middle of a line",
            };
            let events = after_events.map(|count| format!(" after {count} events")).unwrap_or_default();
            let time = after_ms.map(|ms| format!(" after {ms} ms")).unwrap_or_default();
            format!("the watch {how}{events}{time}")
        }
        Action::WatchExpire { how: Expiry::Event } => "its history is gone, as an event tells".to_owned(),
        Action::WatchExpire { how: Expiry::Http } => "its history is gone, as the answer tells".to_owned(),
        Action::WatchError { code, .. } => format!("an event tells of the error {code}"),
        Action::WatchStall { ms: Some(ms) } => format!("the watch is silent for {ms} ms"),
        Action::WatchStall { ms: None } => "the watch stays silent".to_owned(),
        Action::WatchDuplicate {} => "the event before its start comes again".to_owned(),
        Action::WatchDelay { ms } => format!("its events come {ms} ms late"),
        Action::WatchNoBookmarks {} => "there are no bookmarks".to_owned(),
        Action::SlowBody { bytes_per_sec } => format!("the answer trickles by {bytes_per_sec} bytes a second"),
        Action::StaleRead { revisions: Some(revisions), .. } => format!("the answer is {revisions} revisions old"),
        Action::StaleRead { ms, .. } => format!("the answer is {} ms old", ms.unwrap_or_default()),
        Action::Conflict { .. } => "somebody else writes the object just before".to_owned(),
        Action::Throttle { qps, .. } => format!("there are more than {qps} requests a second"),
        Action::Unauthorized { .. } => "nobody is known any more".to_owned(),
        Action::WebhookFail { name, kind } => {
            let how = match kind {
                WebhookFailure::Timeout => "does not answer in time",
                WebhookFailure::Refused => "cannot be reached",
                WebhookFailure::Internal => "answers by 500",
            };
            format!("the admission webhook {}{how}", name.as_ref().map(|name| format!("{name} ")).unwrap_or_default())
        }
        Action::NotReady { .. } => "the storage is not ready yet".to_owned(),
        Action::DiscoveryFail { group, code } => format!("the group {group} is answered by {code}"),
    }
}
