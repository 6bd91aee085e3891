//! Reads single objects and lists with pages, in the requested forms.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::api::Api;
use crate::faults::{Action, Fault};
use crate::http::api_error::{ApiError, FieldError};
use crate::http::reply::Reply;
use crate::http::request::{Form, Query};
use crate::kinds::registry::ServedKind;
use crate::kinds::selector::{FieldSelector, LabelSelector};
use crate::kinds::table::{Include, Table};
use crate::kinds::versioning;
use crate::storage::resource::Key;
use crate::storage::store::{Compacted, Stored};
use crate::verbs::conversion;
use crate::verbs::request_context::RequestContext;
use crate::verbs::target;

/// How long a request waits for a future revision.
const REVISION_TIMEOUT: Duration = Duration::from_secs(3);

/// The selection of objects.
#[derive(Debug, Clone)]
pub(crate) struct ObjectFilter {
    namespace: Option<String>,
    name: Option<String>,
    labels: Option<LabelSelector>,
    fields: Option<FieldSelector>,
}

impl ObjectFilter {
    /// Reads the selectors of a request.
    ///
    /// # Errors
    /// If they are invalid, or use unsupported fields; or if numeric parameters are not numbers.
    pub(crate) fn read(served: &ServedKind, context: &RequestContext) -> Result<Self, ApiError> {
        for number in ["limit", "timeoutSeconds"] {
            context.query.number(number)?;
        }
        let labels =
            context.query.text("labelSelector").map(LabelSelector::parse).transpose().map_err(ApiError::bad_request)?;
        let fields =
            context.query.text("fieldSelector").map(|text| FieldSelector::parse(text, &served.kind)).transpose()?;
        Ok(Self {
            namespace: context.resource_path.namespace.clone(),
            name: context.resource_path.name.clone(),
            labels,
            fields,
        })
    }

    /// Tells whether there are selectors.
    pub(crate) fn is_selective(&self) -> bool {
        self.labels.is_some() || self.fields.is_some()
    }

    /// Tells from the key alone whether an object is selected; `None` if that depends on its content.
    pub(crate) fn matches_key(&self, (namespace, name): &Key) -> Option<bool> {
        let is_here = self.namespace.as_ref().is_none_or(|wanted| wanted == namespace);
        let is_it = self.name.as_ref().is_none_or(|wanted| wanted == name);
        (!self.is_selective()).then_some(is_here && is_it)
    }

    /// Tells whether an object is selected, in the version of the request.
    pub(crate) fn matches(&self, value: &Value) -> bool {
        self.namespace.as_ref().is_none_or(|namespace| value["metadata"]["namespace"] == namespace.as_str())
            && self.name.as_ref().is_none_or(|name| value["metadata"]["name"] == name.as_str())
            && self.labels.as_ref().is_none_or(|labels| labels.matches(value))
            && self.fields.as_ref().is_none_or(|fields| fields.matches(value))
    }
}

/// Answers a request for one object.
pub(crate) async fn get(api: &Api, served: &Arc<ServedKind>, context: &RequestContext) -> Result<Reply, ApiError> {
    // A real server reports this as an internal error.
    let asked = revision(&context.query).map_err(|failure| ApiError::new(500, "", failure.message))?;
    if let Some(revision) = asked {
        wait_for(api, revision).await?;
    }
    let stored = match stale_revision(api, served, context) {
        Some(revision) => existing_at(api, served, context, revision)?,
        None => visible(api, served, context)?,
    };
    shape(served, context, (*conversion::to_requested_version(api, served, &stored).await?).clone())
}

/// Returns the revision of a stale read: as old as the fault requests, or as the history reaches.
pub(crate) fn stale_revision(api: &Api, served: &ServedKind, context: &RequestContext) -> Option<u64> {
    let Some(Fault { action: Action::StaleRead { revisions, ms }, .. }) = &context.fault else { return None };
    Some(api.with(|state| {
        let store = &state.store;
        let revision = match (revisions, ms) {
            (None, Some(ms)) => {
                let age = SignedDuration::from_millis(i64::try_from(*ms).unwrap_or(i64::MAX));
                context.now.checked_sub(age).map_or(0, |moment| store.revision_at(moment))
            }
            (revisions, _) => store.visible_revision().saturating_sub(revisions.unwrap_or(1)),
        };
        revision.max(store.oldest(&served.resource))
    }))
}

fn visible(api: &Api, served: &ServedKind, context: &RequestContext) -> Result<Arc<Stored>, ApiError> {
    let key = target::key(context);
    let found = api.with(|state| state.store.visible(&served.resource, &key));
    found.ok_or_else(|| ApiError::not_found(&served.kind.group, &served.kind.plural, &key.1))
}

fn existing_at(
    api: &Api,
    served: &ServedKind,
    context: &RequestContext,
    revision: u64,
) -> Result<Arc<Stored>, ApiError> {
    let key = target::key(context);
    let objects = api.with(|state| state.store.list_at(&served.resource, Some(&key.0), revision)).unwrap_or_default();
    let found = objects.into_iter().find(|(other, _)| *other == key).map(|(_, stored)| stored);
    found.ok_or_else(|| ApiError::not_found(&served.kind.group, &served.kind.plural, &key.1))
}

/// Answers a request for a list.
pub(crate) async fn list(api: &Api, served: &Arc<ServedKind>, context: &RequestContext) -> Result<Reply, ApiError> {
    match select(api, served, context).await? {
        Ok(selection) => shape(served, context, selection.into_list(served)),
        Err(expired) => Ok(expired),
    }
}

/// A stored object, and its form in the version of the request.
type Converted = (Arc<Stored>, Arc<Value>);

/// The selected objects of a request.
pub(crate) struct Selection {
    /// The objects.
    pub items: Vec<Converted>,
    metadata: Value,
}

impl Selection {
    /// Returns the list for the client.
    pub(crate) fn into_list(self, served: &ServedKind) -> Value {
        list_of(served, self.items.into_iter().map(|(_, seen)| (*seen).clone()).collect(), self.metadata)
    }
}

/// Returns the selected objects, or the answer for a continued list whose revision has expired.
///
/// # Errors
/// If the request has invalid parameters, or waits for a future revision that does not come in time.
pub(crate) async fn select(
    api: &Api,
    served: &Arc<ServedKind>,
    context: &RequestContext,
) -> Result<Result<Selection, Reply>, ApiError> {
    let limit = context.query.number("limit")?.and_then(|limit| usize::try_from(limit).ok()).filter(|limit| *limit > 0);
    let page = Page::read(&context.query, limit)?;
    let filter = ObjectFilter::read(served, context)?;
    if let Some(revision) = page.least {
        wait_for(api, revision).await?;
    }
    let namespace = context.resource_path.namespace.as_deref();
    let stale = stale_revision(api, served, context);
    let found = api.with(|state| {
        let store = &state.store;
        match page.exactly.or(stale) {
            Some(revision) => store.list_at(&served.resource, namespace, revision).map(|objects| (revision, objects)),
            None => Ok(store.visible_list(&served.resource, namespace)),
        }
    });
    let (revision, objects) = match found {
        Ok(found) => found,
        Err(Compacted) => return Ok(Err(page.expired())),
    };
    let limit = if page.is_whole { None } else { limit };
    let start = page.start.clone();
    let after = objects.into_iter().skip_while(|(key, _)| start.as_ref().is_some_and(|start| path_of(key) < *start));
    let after: Vec<(Key, Arc<Stored>)> = after.collect();
    let stored: Vec<Arc<Stored>> = after.iter().map(|(_, stored)| Arc::clone(stored)).collect();
    let seen = conversion::all_to_requested_version(api, served, &stored).await?;
    let objects = after.into_iter().zip(seen).map(|((key, stored), seen)| (key, (stored, seen))).collect();
    Ok(Ok(cut(&filter, objects, limit, revision)))
}

/// Takes the selected objects, up to a limit, with the continue token.
fn cut(filter: &ObjectFilter, objects: Vec<(Key, Converted)>, limit: Option<usize>, revision: u64) -> Selection {
    let mut items = Vec::new();
    let mut metadata = json!({"resourceVersion": revision.to_string()});
    let total = objects.len();
    let mut last = String::new();
    for (index, (key, object)) in objects.into_iter().enumerate() {
        if !filter.matches(&object.1) {
            continue;
        }
        if limit.is_some_and(|limit| items.len() == limit) {
            metadata["continue"] = json!(token(revision as i64, &last));
            if !filter.is_selective() {
                metadata["remainingItemCount"] = json!(total - index);
            }
            break;
        }
        last = format!("{}\u{0}", path_of(&key));
        items.push(object);
    }
    Selection { items, metadata }
}

fn path_of(key: &Key) -> String {
    if key.0.is_empty() { format!("/{}", key.1) } else { format!("/{}/{}", key.0, key.1) }
}

fn token(revision: i64, start: &str) -> String {
    URL_SAFE_NO_PAD.encode(json!({"v": "meta.k8s.io/v1", "rv": revision, "start": start}).to_string())
}

/// The requested revision and start of a list.
#[derive(Debug, Default)]
struct Page {
    /// The minimum revision.
    least: Option<u64>,
    /// The exact revision.
    exactly: Option<u64>,
    start: Option<String>,
    /// The limit is ignored.
    is_whole: bool,
}

impl Page {
    fn read(query: &Query, limit: Option<usize>) -> Result<Self, ApiError> {
        let matching = query.text("resourceVersionMatch");
        let mut causes = Vec::new();
        let mut forbid = |field: &str, text: &str| {
            causes.push(FieldError::new("FieldValueForbidden", field, format!("Forbidden: {text}")));
        };
        let version = query.text("resourceVersion");
        if matching.is_some() && query.text("continue").is_some() {
            forbid("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided");
        }
        if matching.is_some() && version.is_none() {
            forbid("resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided");
        }
        if matching == Some("Exact") && version == Some("0") {
            forbid("resourceVersionMatch", "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"");
        }
        if query.text("sendInitialEvents").is_some() {
            forbid("sendInitialEvents", "sendInitialEvents is forbidden for list");
        }
        if let Some(other) = matching.filter(|word| !matches!(*word, "Exact" | "NotOlderThan")) {
            let text = format!("Unsupported value: {other:?}: supported values: \"Exact\", \"NotOlderThan\", \"\"");
            causes.push(FieldError::new("FieldValueNotSupported", "resourceVersionMatch", text));
        }
        if !causes.is_empty() {
            return Err(ApiError::invalid("meta.k8s.io", "ListOptions", "", causes));
        }
        if let Some(token) = query.text("continue") {
            if version.is_some_and(|version| version != "0") {
                return Err(ApiError::bad_request("specifying resource version is not allowed when using continue"));
            }
            return Self::go_on(token);
        }
        let Some(revision) = revision(query)? else { return Ok(Self::default()) };
        let is_exact = matching == Some("Exact") || (matching.is_none() && limit.is_some() && revision > 0);
        Ok(Self { least: Some(revision), exactly: is_exact.then_some(revision), start: None, is_whole: revision == 0 })
    }

    fn go_on(token: &str) -> Result<Self, ApiError> {
        let refuse =
            |why: &str| ApiError::bad_request(format!("invalid continue token: continue key is not valid: {why}"));
        let text = URL_SAFE_NO_PAD.decode(token.trim_end_matches('=')).map_err(|error| refuse(&error.to_string()))?;
        let token: Value = serde_json::from_slice(&text).map_err(|error| refuse(&error.to_string()))?;
        let start = token["start"].as_str().ok_or_else(|| refuse("it has no start"))?.to_owned();
        // A revision of -1 means the newest state.
        let exactly = token["rv"].as_i64().and_then(|revision| u64::try_from(revision).ok());
        Ok(Self { exactly, start: Some(start), ..Self::default() })
    }

    /// Returns the answer for an expired revision; a continued list may continue with the newest state.
    fn expired(self) -> Reply {
        let Some(start) = self.start else {
            return Reply::from(ApiError::new(410, "Expired", "The resourceVersion for the provided list is too old."));
        };
        let text = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the \
                    continue parameter, or use the continue token in this response to retrieve the remainder of the results.";
        let mut status = ApiError::new(410, "Expired", text).to_json();
        status["metadata"]["continue"] = json!(token(-1, &start));
        Reply::object(status).with_code(410)
    }
}

fn revision(query: &Query) -> Result<Option<u64>, ApiError> {
    let parse = |text: &str| {
        let mistake = || {
            ApiError::bad_request(format!(
                "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: invalid syntax"
            ))
        };
        text.parse().map_err(|_| mistake())
    };
    query.text("resourceVersion").map(parse).transpose()
}

/// Waits for a future revision, up to the limit.
async fn wait_for(api: &Api, revision: u64) -> Result<(), ApiError> {
    let present = || api.with(|state| state.store.visible_revision());
    if revision <= present() {
        return Ok(());
    }
    tokio::time::sleep(REVISION_TIMEOUT).await;
    let current = present();
    if revision <= current {
        return Ok(());
    }
    let text = format!("Timeout: Too large resource version: {revision}, current: {current}");
    let mut failure = ApiError::new(504, "Timeout", text).retry_after(1);
    failure.details.causes.push(FieldError::new("ResourceVersionTooLarge", "", "Too large resource version"));
    Err(failure)
}

/// Returns a list object.
pub(crate) fn list_of(served: &ServedKind, items: Vec<Value>, mut metadata: Value) -> Value {
    let kind = &served.kind;
    let items: Vec<Value> = if kind.is_custom() {
        if metadata.get("continue").is_none() {
            metadata["continue"] = json!("");
        }
        items
    } else {
        let bare = |mut item: Value| {
            if let Some(object) = item.as_object_mut() {
                object.remove("kind");
                object.remove("apiVersion");
            }
            item
        };
        items.into_iter().map(bare).collect()
    };
    json!({"kind": kind.list_kind, "apiVersion": kind.api_version(), "metadata": metadata, "items": items})
}

/// Returns an object or a list in the requested form.
pub(crate) fn shape(served: &ServedKind, context: &RequestContext, value: Value) -> Result<Reply, ApiError> {
    let is_list = value["items"].is_array() && value["kind"] == served.kind.list_kind.as_str();
    let not_acceptable = |what: &str| {
        let text = format!(
            "you requested {what}, but the requested object is {}",
            if is_list { "a list" } else { "not a list" }
        );
        Err(ApiError::new(406, "NotAcceptable", text))
    };
    let mut shaped = match context.accept.form {
        Form::Plain => value,
        // Statuses have no rows.
        Form::Table if value["kind"] == "Status" => value,
        Form::Table => without_end(rows(served, context, &value)?),
        Form::Metadata if is_list => return not_acceptable("PartialObjectMetadata"),
        Form::Metadata => versioning::metadata_of(&value),
        Form::MetadataList if !is_list && !served.kind.is_custom() => {
            return not_acceptable("PartialObjectMetadataList");
        }
        Form::MetadataList if !is_list => return Err(ApiError::new(500, "", "the object is not a list with metadata")),
        Form::MetadataList => {
            let items: Vec<Value> =
                value["items"].as_array().into_iter().flatten().map(versioning::metadata_of).collect();
            let list = json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": value["metadata"], "items": items});
            without_end(list)
        }
    };
    if context.accept.is_beta && shaped["apiVersion"] == "meta.k8s.io/v1" {
        shaped["apiVersion"] = json!("meta.k8s.io/v1beta1");
    }
    Ok(Reply::object(shaped))
}

/// In these forms, lists omit an empty `continue`.
fn without_end(mut list: Value) -> Value {
    if list["metadata"]["continue"] == "" {
        list["metadata"].as_object_mut().map(|metadata| metadata.remove("continue"));
    }
    list
}

/// Returns the table of an object or a list, with the requested part of the objects.
pub(crate) fn rows(served: &ServedKind, context: &RequestContext, value: &Value) -> Result<Value, ApiError> {
    rows_with(served, context, value, true)
}

/// Returns the `Scale` of an object in the requested form.
pub(crate) fn shape_scale(context: &RequestContext, scale: Value) -> Result<Reply, ApiError> {
    shape(&ServedKind::of(versioning::scales()), context, scale)
}

/// Returns the table of an object or a list, with or without its columns.
pub(crate) fn rows_with(
    served: &ServedKind,
    context: &RequestContext,
    value: &Value,
    has_columns: bool,
) -> Result<Value, ApiError> {
    let word = context.query.text("includeObject").unwrap_or_default();
    let include = Include::parse(word)
        .ok_or_else(|| ApiError::bad_request(format!("unrecognized includeObject value: {word:?}")))?;
    let table = Table::of(&served.kind);
    if let Some(items) = value["items"].as_array().filter(|_| value["kind"] == served.kind.list_kind.as_str()) {
        // An object in a row has its type, unlike one in a list.
        let named = |item: &Value| {
            let mut item = item.clone();
            item["kind"] = json!(served.kind.kind);
            item["apiVersion"] = json!(served.kind.api_version());
            item
        };
        let items: Vec<Value> = items.iter().map(named).collect();
        return Ok(table.render(value["metadata"].clone(), &items, include, context.now, has_columns));
    }
    let metadata = json!({"resourceVersion": value["metadata"]["resourceVersion"]});
    Ok(table.render(metadata, [value], include, context.now, has_columns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_a_continue_token() {
        let page = Page::read(&Query::parse(&format!("continue={}", token(7, "/a\u{0}"))), Some(2)).unwrap();
        assert_eq!((page.exactly, page.start.as_deref()), (Some(7), Some("/a\u{0}")));
        assert_eq!(Page::read(&Query::parse("continue=garbage"), None).unwrap_err().code, 400);
        assert_eq!(Page::read(&Query::parse(&format!("continue={}", token(-1, "/a"))), None).unwrap().exactly, None);
    }

    #[test]
    fn a_revision_with_a_limit_is_matched_exactly() {
        let page = |query: &str, limit| Page::read(&Query::parse(query), limit).unwrap();
        assert_eq!(page("resourceVersion=5", Some(1)).exactly, Some(5));
        assert_eq!(page("resourceVersion=5", None).exactly, None);
        assert_eq!(page("resourceVersion=5&resourceVersionMatch=NotOlderThan", Some(1)).exactly, None);
        assert!(page("resourceVersion=0", Some(1)).is_whole);
        assert_eq!(Page::read(&Query::parse("resourceVersionMatch=Exact"), None).unwrap_err().code, 422);
    }
}
