//! The step `hook`: a request to a hook, and its expected answer. The credentials are computed from the hook's Secret,
//! given, or not verified.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::engines::hooks::{Found, Pending, other_methods, query_of, starting, unknown};
use crate::handling::hook::auth::Check;
use crate::manifest::reader::{Item, Reader};
use crate::object::SecretKey;
use crate::script::HookAnswer;
use crate::script::interface::subject::HookRequest;

use super::environment::Environment;
use super::expectations::pattern_of_text;
use super::expressions::Answers;
use super::model::{ExpectedHookAnswer, HookCredentials, HookStep, Step, Target};
use super::pattern::{Mismatch, Pattern};
use super::problem::Problem;
use super::read_context::ReadContext;
use super::verify::{Difference, compared, describe, shown};

/// The keys of the step.
const KEYS: [&str; 8] = ["path", "method", "headers", "json", "body", "auth", "certificate", "expect"];

/// The namespace of the operators of scenarios.
const HOME: &str = "default";

/// Reads the step.
pub(super) fn read(context: &ReadContext<'_>, item: &Item<'_>) -> Option<HookStep> {
    let reader = context.reader;
    let fields = reader.fields(item, "a request to a hook", &KEYS)?;
    let path = reader.required(&fields, "path", "write such as `path: /github`").and_then(|item| reader.owned(&item));
    let mut headers = fields.get("headers").map(|item| headers(reader, &item)).unwrap_or_default();
    if let (Some(_), Some(item)) = (fields.get("json"), fields.get("body")) {
        reader.key_error(&item, "a request has one body", "leave out `json`, or `body`");
    }
    let body = match (fields.raw("json"), reader.string(&fields, "body")) {
        (Some(json), _) => {
            headers.entry("content-type".to_owned()).or_insert_with(|| "application/json".to_owned());
            json.node.to_value().to_string()
        }
        (None, body) => body.unwrap_or_default(),
    };
    let auth = fields.get("auth").map_or(Some("valid"), |item| reader.word(&item, &["valid", "none", "bypass"]));
    let certificate = fields.get("certificate").map(|_| reader.list_of(&fields, "certificate"));
    let expected = fields.get("expect").map(|item| expected(context, &item)).unwrap_or_default();
    Some(HookStep {
        path: path?,
        method: reader.string(&fields, "method").unwrap_or_else(|| "POST".to_owned()),
        headers,
        body,
        credentials: match auth? {
            "none" => HookCredentials::Given,
            "bypass" => HookCredentials::Bypassed,
            _ => HookCredentials::Valid,
        },
        certificate: certificate.map(|names| names.iter().filter_map(|name| reader.owned(name)).collect()),
        expected,
    })
}

fn headers(reader: &Reader, item: &Item<'_>) -> BTreeMap<String, String> {
    let entries = item.entries().unwrap_or_else(|| {
        reader.mistyped(item, "a mapping", "write such as `headers: {X-GitHub-Event: push}`");
        Vec::new()
    });
    entries.iter().filter_map(|(name, item)| Some((name.to_ascii_lowercase(), reader.owned(item)?))).collect()
}

fn expected(context: &ReadContext<'_>, item: &Item<'_>) -> ExpectedHookAnswer {
    let reader = context.reader;
    let Some(fields) = reader.fields(item, "the answer of a hook", &["status", "json", "body", "headers"]) else {
        return ExpectedHookAnswer::default();
    };
    let status = fields
        .get("status")
        .and_then(|item| Some((item.node.spot, reader.whole_in(&item, &(100..=599), "write a status of HTTP")?)));
    let of_headers = fields.get("headers").and_then(|item| item.entries()).unwrap_or_default();
    ExpectedHookAnswer {
        status,
        json: fields.get("json").and_then(|item| Pattern::read(reader, &context.expressions, &item)),
        body: fields.get("body").and_then(|item| pattern_of_text(context, &item)),
        headers: of_headers
            .iter()
            .filter_map(|(name, item)| Some((name.to_ascii_lowercase(), pattern_of_text(context, item)?)))
            .collect(),
    }
}

/// Returns the summary of the step.
pub(super) fn title(step: &HookStep) -> String {
    format!("request to the hook {} {}", step.method, step.path)
}

/// Sends a request, and returns the answer.
///
/// # Errors
/// If there is no Secret for valid credentials.
pub(super) async fn send(environment: &Environment, step: &HookStep) -> Result<HookAnswer, Problem> {
    let (path, query) = step.path.split_once('?').unwrap_or((&step.path, ""));
    let mut request = HookRequest {
        method: step.method.clone(),
        path: path.to_owned(),
        query: query_of(query),
        headers: step.headers.clone(),
        body: step.body.clone().into(),
        json: None,
        certificate: step.certificate.clone(),
    };
    let pending = match environment.hooks().find(&request.method, path) {
        Found::Unknown => return Ok(unknown()),
        Found::Starting => return Ok(starting()),
        Found::OtherMethods(methods) => return Ok(other_methods(&methods)),
        Found::Hook(pending) => pending,
    };
    let pending = match step.credentials {
        HookCredentials::Given => pending,
        HookCredentials::Bypassed => Box::new(pending.trusted()),
        HookCredentials::Valid => {
            sign(environment, &pending, &mut request)?;
            pending
        }
    };
    if let Err(answer) = pending.admit(&request).await {
        return Ok(answer);
    }
    if request.body.len() > pending.hook().max_body {
        return Ok(pending.too_large());
    }
    Ok(pending.answer(request).await)
}

/// Adds the credentials that the hook asks for, unless the step has given its own.
fn sign(environment: &Environment, pending: &Pending, request: &mut HookRequest) -> Result<(), Problem> {
    for check in &pending.hook().checks {
        let signed = match check {
            Check::Certificate { .. } => None,
            Check::Token { secret, .. } | Check::Hmac { secret, .. } => {
                check.signed(&value(environment, secret)?, &request.body)
            }
        };
        if let Some((name, value)) = signed {
            request.headers.entry(name).or_insert(value);
        }
    }
    Ok(())
}

fn value(environment: &Environment, secret: &SecretKey) -> Result<Vec<u8>, Problem> {
    let namespace = Some(secret.namespace.clone().unwrap_or_else(|| HOME.to_owned()));
    let target = Target { resource: "secrets".to_owned(), name: secret.name.clone(), namespace };
    let hint = "add the Secret to `given`, or write `auth: none` or `auth: bypass`";
    let lacks =
        |text: String| Problem::from(format!("the credentials of the hook cannot be computed: {text}")).with_hint(hint);
    let found = environment.find(&target).map_err(lacks)?.value().unwrap_or_default();
    let encoded = found.get("data").and_then(|data| data.get(&secret.key)).and_then(Value::as_str);
    let decoded = encoded.and_then(|text| STANDARD.decode(text).ok());
    let decoded = decoded.ok_or_else(|| lacks(format!("the Secret {} has no `{}`", secret.name, secret.key)))?;
    Ok(decoded.strip_suffix(b"\n").map(<[u8]>::to_vec).unwrap_or(decoded))
}

/// Returns the differences of an answer from the expected one.
pub(super) async fn verify(
    environment: &Environment,
    step: &Step,
    expected: &ExpectedHookAnswer,
    answer: &HookAnswer,
) -> Vec<Difference> {
    compared(environment, step.spot, |answers| compare(step, expected, answer, answers)).await
}

fn compare(step: &Step, expected: &ExpectedHookAnswer, answer: &HookAnswer, answers: &mut Answers) -> Vec<Difference> {
    let text = String::from_utf8_lossy(&answer.body);
    let mut differences = Vec::new();
    match expected.status {
        Some((spot, wanted)) if wanted != i64::from(answer.status) => {
            differences.push(Difference::new(
                spot,
                format!("hook: expected status {wanted}, found {}: {}", answer.status, text.trim()),
            ));
        }
        None if answer.status >= 300 => {
            differences.push(Difference::new(
                step.spot,
                format!("hook: expected a success, found status {}: {}", answer.status, text.trim()),
            ));
        }
        _ => {}
    }
    let texts = expected.body.iter().map(|like| (like, "body".to_owned(), text.to_string()));
    let of_headers = expected
        .headers
        .iter()
        .map(|(name, like)| (like, format!("header {name}"), answer.headers.get(name).cloned().unwrap_or_default()));
    for (like, what, found) in texts.chain(of_headers) {
        if !like.passes(&Value::from(found.as_str()), &mut |predicate, value| answers.ask(predicate, value)) {
            differences.push(Difference::new(
                like.spot,
                format!("hook: {what}: expected {}, found {found:?}", describe(like)),
            ));
        }
    }
    if let Some(pattern) = &expected.json {
        let json: Option<Value> = serde_json::from_slice(&answer.body).ok();
        let mut mismatches = Vec::new();
        pattern.compare(json.as_ref(), "", &mut mismatches, &mut |predicate, value| answers.ask(predicate, value));
        differences.extend(mismatches.into_iter().map(|Mismatch { path, spot, wanted, found, .. }| {
            let found = found.as_ref().map_or_else(|| "nothing".to_owned(), shown);
            Difference::new(spot, format!("hook: {path}: expected {wanted}, found {found}"))
        }));
    }
    differences
}
