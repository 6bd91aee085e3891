//! Hooks: functions that are called by HTTP requests from outside. Without `auth` a hook is a mistake, and not open.

use std::collections::HashMap;
use std::time::Duration;

use crate::handling::hook::Hook;
use crate::handling::hook::auth::{AUTHORIZATION, Algorithm, Check, Encoding, Signature};
use crate::handling::{On, Policy};
use crate::script::BindingKind;

use super::binding::{BINDING, Concern, Request, misplaced};
use super::builder::{OperatorBuilder, Script};
use super::reader::{Fields, Item, Reader};
use super::secret_keys::secret_key;

/// The default and the maximum of the time limit of an answer: senders of events give up after some seconds.
const TIMEOUT: Duration = Duration::from_secs(10);
const MAX_TIMEOUT: Duration = Duration::from_mins(10);

/// The default and the maximum of the size of a body. Senders such as GitHub send up to 25 MiB.
const BODY: usize = 1 << 20;
const MAX_BODY: u64 = 32 << 20;

/// The default and the maximum of requests that are answered at the same time.
const CONCURRENCY: usize = 10;
const MAX_CONCURRENCY: i64 = 1_000;

const METHODS: [&str; 5] = ["POST", "PUT", "PATCH", "GET", "DELETE"];

const OWN: [&str; 6] = ["path", "methods", "auth", "maxBody", "concurrency", "timeout"];

/// The paths of the endpoints, with which hooks may share a listener.
const RESERVED: [&str; 5] = ["/healthz", "/readyz", "/livez", "/metrics", "/status"];

const AUTH_HINT: &str = "write such as `auth: {hmac: {secret: github, header: X-Hub-Signature-256}}`, `auth: {token: {secret: ci}}`, \
     `auth: {clientCertificate: {names: [ci.example.com]}}`, or `auth: none` for a hook that everybody may call";

/// The declared hooks by id, and by method and path, with their lines.
#[derive(Default)]
struct Known {
    ids: HashMap<String, usize>,
    routes: HashMap<(String, String), usize>,
}

impl OperatorBuilder<'_> {
    /// Reads `spec.hooks`.
    pub(super) fn hooks(&mut self, item: &Item<'_>) {
        let mut known = Known::default();
        for item in &self.reader.list(item) {
            self.hook(item, &mut known);
        }
    }

    fn hook(&mut self, item: &Item<'_>, ids: &mut Known) {
        let reader = self.reader;
        let known = [&BINDING[..], &OWN].concat();
        let special = |key: &str| match key {
            "retries" | "backoff" | "errors" => Some((
                format!("`{key}` is not for hooks"),
                "a request is answered at once and never retried: leave it out".to_owned(),
            )),
            "method" => {
                Some(("unknown field `method` in a hook".to_owned(), "write a list: `methods: [POST]`".to_owned()))
            }
            _ => misplaced("a hook", key),
        };
        let Some(fields) = reader.fields_but(item, "a hook", &known, special) else { return };
        let script = self.script(&fields, &Script::None);
        let path =
            reader.required(&fields, "path", "write such as `path: /github`").and_then(|item| path(reader, &item));
        let methods = methods(reader, &fields);
        let checks = reader.required(&fields, "auth", AUTH_HINT).and_then(|item| checks(reader, &item));
        let timeout = fields.get("timeout").map_or(Some(TIMEOUT), |item| timeout(reader, &item));
        let max_body = fields.get("maxBody").map_or(Some(BODY), |item| max_body(reader, &item));
        let concurrency = fields.get("concurrency").map_or(Some(CONCURRENCY), |item| concurrency(reader, &item));
        let request = Request {
            kind: BindingKind::Hook,
            script: &script,
            suffix: None,
            deadline: Some(timeout.unwrap_or(TIMEOUT)),
        };
        let Some(bound) = self.bind(&fields, &request) else { return };
        if let Some(line) = ids.ids.insert(bound.id.clone(), bound.spot.line) {
            let message = format!("the id `{}` is taken by another hook in line {line}", bound.id);
            let hint = "give one of them an `id` of its own".to_owned();
            reader.report(super::Severity::Error, bound.spot, &bound.path, message, Some(hint));
        }
        if let (Some(path), Some(item)) = (&path, fields.get("path")) {
            for method in &methods {
                if let Some(line) = ids.routes.insert((method.clone(), path.clone()), item.spot().line) {
                    let message = format!("`{method} {path}` is answered by another hook in line {line}");
                    reader.error_with(&item, message, "give one of them a path of its own, or other `methods`");
                }
            }
        }
        let (Some(path), Some(checks), Some(timeout)) = (path, checks, timeout) else { return };
        let (Some(max_body), Some(concurrency)) = (max_body, concurrency) else { return };
        let handler = bound.handler(On::Hook, Concern::default(), Policy::default());
        self.operator.hooks.push(Hook { handler, path, methods, checks, max_body, concurrency, timeout });
    }
}

fn path(reader: &Reader, item: &Item<'_>) -> Option<String> {
    let text = reader.owned(item)?;
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/-._~".contains(c);
    if !text.starts_with('/') || text.len() < 2 || !text.chars().all(is_plain) {
        let hint = "begin it with `/`; letters, digits and `- . _ ~ /` may follow";
        reader.error_with(item, format!("`{text}` cannot be the path of a hook"), hint);
        return None;
    }
    if RESERVED.contains(&text.as_str()) {
        reader.error_with(
            item,
            format!("`{text}` is a path of the probes and metrics"),
            "choose another path, such as `/github`",
        );
        return None;
    }
    Some(text)
}

fn methods(reader: &Reader, fields: &Fields<'_>) -> Vec<String> {
    let Some(list) = fields.get("methods") else { return vec!["POST".to_owned()] };
    let items = reader.list(&list);
    if list.items().is_some_and(|items| items.is_empty()) {
        reader.error_with(&list, "`methods` is empty", "leave it out for POST");
    }
    let mut methods: Vec<String> =
        items.iter().filter_map(|item| reader.word(item, &METHODS)).map(str::to_owned).collect();
    methods.dedup();
    methods
}

fn timeout(reader: &Reader, item: &Item<'_>) -> Option<Duration> {
    reader.duration_in(item, &(Duration::from_millis(100)..=MAX_TIMEOUT), "leave it out for 10s")
}

fn max_body(reader: &Reader, item: &Item<'_>) -> Option<usize> {
    usize::try_from(reader.size_up_to(item, MAX_BODY, "leave it out for 1Mi")?).ok()
}

fn concurrency(reader: &Reader, item: &Item<'_>) -> Option<usize> {
    usize::try_from(reader.whole_in(item, &(1..=MAX_CONCURRENCY), "leave it out for 10")?).ok()
}

/// Reads `auth`: the word `none`, or a mapping of which everything is checked.
fn checks(reader: &Reader, item: &Item<'_>) -> Option<Vec<Check>> {
    if let Some(word) = item.node.text() {
        if word == "none" {
            return Some(Vec::new());
        }
        reader.error_with(item, format!("unknown value `{word}` of `auth`"), AUTH_HINT);
        return None;
    }
    let fields = reader.fields(item, "the credentials of a hook", &["token", "hmac", "clientCertificate"])?;
    let checks = [
        fields.get("token").map(|item| token(reader, &item)),
        fields.get("hmac").map(|item| hmac(reader, &item)),
        fields.get("clientCertificate").map(|item| certificate(reader, &item)),
    ];
    let checks: Vec<Option<Check>> = checks.into_iter().flatten().collect();
    if checks.is_empty() && !["token", "hmac", "clientCertificate"].iter().any(|key| fields.mentions(key)) {
        reader.error_with(item, "`auth` names no credentials", AUTH_HINT);
        return None;
    }
    // Invalid values were reported.
    let checks: Option<Vec<Check>> = checks.into_iter().collect();
    checks.filter(|checks| !checks.is_empty())
}

fn token(reader: &Reader, item: &Item<'_>) -> Option<Check> {
    let fields = reader.fields(item, "the token of a hook", &["secret", "key", "namespace", "header"])?;
    let secret = secret_key(reader, &fields, Some("token"));
    let header = fields.get("header").map_or(Some(AUTHORIZATION.to_owned()), |item| header(reader, &item));
    Some(Check::Token { secret: secret?, header: header? })
}

fn hmac(reader: &Reader, item: &Item<'_>) -> Option<Check> {
    let known = ["secret", "key", "namespace", "header", "algorithm", "prefix", "encoding"];
    let fields = reader.fields(item, "the signature of a hook", &known)?;
    let secret = secret_key(reader, &fields, Some("secret"));
    let header = reader
        .required(&fields, "header", "write such as `header: X-Hub-Signature-256`")
        .and_then(|item| header(reader, &item));
    let algorithm = fields.get("algorithm").map_or(Some("sha256"), |item| reader.word(&item, &["sha256", "sha512"]));
    let algorithm = algorithm.map(|word| if word == "sha512" { Algorithm::Sha512 } else { Algorithm::Sha256 });
    let encoding = fields.get("encoding").map_or(Some("hex"), |item| reader.word(&item, &["hex", "base64"]));
    let encoding = encoding.map(|word| if word == "base64" { Encoding::Base64 } else { Encoding::Hex });
    let prefix = fields.get("prefix").map(|item| reader.owned(&item));
    let (header, algorithm, encoding) = (header?, algorithm?, encoding?);
    // As GitHub and most others write it; base64 is mostly written alone.
    let usual = || if encoding == Encoding::Hex { format!("{}=", algorithm.as_str()) } else { String::new() };
    let prefix = prefix.unwrap_or_else(|| Some(usual()))?;
    Some(Check::Hmac { secret: secret?, form: Signature { header, algorithm, prefix, encoding } })
}

fn certificate(reader: &Reader, item: &Item<'_>) -> Option<Check> {
    let fields = reader.fields(item, "the client certificate of a hook", &["names"])?;
    if let Some(list) = fields.get("names").filter(|list| list.items().is_some_and(|items| items.is_empty())) {
        reader.error_with(
            &list,
            "`names` is empty",
            "leave it out to accept all certificates of the listener's authorities",
        );
    }
    let names = reader.list_of(&fields, "names").iter().map(|item| reader.owned(item)).collect::<Option<Vec<_>>>()?;
    Some(Check::Certificate { names })
}

fn header(reader: &Reader, item: &Item<'_>) -> Option<String> {
    let text = reader.owned(item)?;
    if !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
        return Some(text.to_ascii_lowercase());
    }
    reader.error_with(item, format!("`{text}` cannot be the name of a header"), "write such as `X-Hub-Signature-256`");
    None
}
