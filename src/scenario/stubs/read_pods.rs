//! Reads the stubs of pods.

use super::declared::{PodAnswer, PodStub};
use super::read_machine::contents;
use crate::manifest::reader::{Fields, Item, Reader};
use crate::script::outside::api::ApiError;
use crate::script::outside::programs::Finished;

const POD: &str = "write such as `{name: web-0, log: started}` or `{name: web-0, exec: [ls, \"*\"], stdout: done}`";

/// The reasons of Kubernetes for statuses that requests about containers may have.
const REASONS: [(u16, &str); 6] = [
    (400, "BadRequest"),
    (403, "Forbidden"),
    (404, "NotFound"),
    (409, "Conflict"),
    (429, "TooManyRequests"),
    (500, "InternalError"),
];

/// Reads the key `pods` of `given`.
pub(super) fn read(reader: &Reader, fields: &Fields<'_>) -> Vec<PodStub> {
    reader.list_of(fields, "pods").iter().filter_map(|item| pod(reader, item)).collect()
}

fn pod(reader: &Reader, item: &Item<'_>) -> Option<PodStub> {
    let known = [
        "name",
        "namespace",
        "container",
        "log",
        "exec",
        "times",
        "takes",
        "code",
        "stdout",
        "stderr",
        "fails",
        "status",
    ];
    let fields = reader.fields(item, "a stub of a pod", &known)?;
    let name = reader.required(&fields, "name", POD).and_then(|item| reader.owned(&item));
    let answer = match (fields.get("log"), fields.get("exec")) {
        (Some(log), None) => {
            for key in ["code", "stdout", "stderr"] {
                if let Some(item) = fields.get(key) {
                    reader.key_error(&item, format!("a log has no `{key}`"), POD);
                }
            }
            let log = if log.node.text() == Some("") { String::new() } else { reader.owned(&log)? };
            PodAnswer::Log(log)
        }
        (None, Some(exec)) => command(reader, &fields, &exec),
        _ => {
            reader.error_with(item, "a stub of a pod has either `log` or `exec`", POD);
            return None;
        }
    };
    Some(PodStub {
        name: name?,
        namespace: reader.string(&fields, "namespace"),
        container: reader.string(&fields, "container"),
        times: fields.get("times").and_then(|item| reader.whole(&item, 1)).map(|times| times as usize),
        takes: fields.get("takes").and_then(|item| reader.duration(&item)).unwrap_or_default(),
        fails: failure(reader, &fields),
        answer,
    })
}

fn command(reader: &Reader, fields: &Fields<'_>, exec: &Item<'_>) -> PodAnswer {
    let patterns: Vec<String> = reader.list(exec).iter().filter_map(|item| reader.owned(item)).collect();
    if exec.items().is_some_and(|items| items.is_empty()) {
        reader.error_with(exec, "`exec` is empty", POD);
    }
    let bytes = |key: &str| fields.get(key).and_then(|item| contents(reader, &item)).unwrap_or_default();
    let code = fields.get("code").and_then(|item| reader.whole(&item, 0));
    let code = code.and_then(|code| i32::try_from(code).ok()).unwrap_or_default();
    PodAnswer::Command {
        patterns,
        finished: Finished { code, stdout: bytes("stdout"), stderr: bytes("stderr"), ..Finished::default() },
    }
}

/// Returns the error of the API server: by its status, its message, or both.
fn failure(reader: &Reader, fields: &Fields<'_>) -> Option<ApiError> {
    let status = fields
        .get("status")
        .and_then(|item| u16::try_from(reader.whole_in(&item, &(400..=599), "write the status of a failure")?).ok());
    let message = reader.string(fields, "fails");
    if status.is_none() && message.is_none() {
        return None;
    }
    let reason = status.and_then(|status| REASONS.into_iter().find(|(known, _)| *known == status));
    let reason = reason.map(|(_, reason)| reason.to_owned());
    let message = message.unwrap_or_else(|| "the stub of the scenario fails".to_owned());
    Some(ApiError { message, status, reason, details: None })
}
