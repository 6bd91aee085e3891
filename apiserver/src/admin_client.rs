//! A client with administrator rights, for tools and tests: objects are addressed by kind and name.

use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::BodyExt as _;
use serde_json::{Value, json};

use std::sync::Arc;

use crate::auth::access::User;
use crate::kinds::registry::ServedKind;
use crate::kinds::versioning;
use crate::server::ApiServer;
use crate::storage::resource::Key;
use crate::storage::store::Stored;

/// A refused request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    /// The HTTP status.
    pub code: u16,
    /// The reason.
    pub message: String,
}

/// The reason why an object cannot be found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    /// There is no such resource.
    #[error("the server has no resource {0:?}")]
    Resource(String),
    /// Several namespaces have such an object.
    #[error("{object} is ambiguous: there is one in {}", .namespaces.join(" and "))]
    Namespace {
        /// The resource and the name.
        object: String,
        /// The namespaces.
        namespaces: Vec<String>,
    },
}

/// An object in the store, or the key at which it would be created.
#[derive(Debug, Clone)]
pub struct ObjectHandle {
    /// Its kind.
    pub served: Arc<ServedKind>,
    /// Its key in the store.
    pub key: Key,
    /// The object, if it exists.
    pub stored: Option<Arc<Stored>>,
}

impl ObjectHandle {
    /// Returns the object in the version of the kind, if it exists.
    pub fn value(&self) -> Option<Arc<Value>> {
        self.stored.as_ref().map(|stored| versioning::to_requested_version(&self.served, stored))
    }

    /// Returns the path of its requests.
    pub fn path(&self) -> String {
        path(&self.served, &self.key.0, &self.key.1)
    }
}

/// Finds an object by the name of its resource, as kubectl accepts it, and its own name. Without a namespace, all are
/// searched; if the object does not exist, its key is in the default namespace.
///
/// # Errors
/// If there is no such resource, or several objects match.
pub fn find(
    server: &ApiServer,
    resource: &str,
    name: &str,
    namespace: Option<&str>,
) -> Result<ObjectHandle, FindError> {
    let registry = server.registry();
    let served = registry.all().filter(|served| has_name(served, resource)).max_by_key(|served| {
        // Of several versions, the storage version.
        served.kind.version == served.kind.storage_version
    });
    let served = Arc::clone(served.ok_or_else(|| FindError::Resource(resource.to_owned()))?);
    let own = name.to_owned();
    if !served.kind.namespaced || namespace.is_some() {
        let key = (namespace.filter(|_| served.kind.namespaced).unwrap_or_default().to_owned(), own);
        let stored = server.read(&served.resource, &key);
        return Ok(ObjectHandle { served, key, stored });
    }
    let mut found = server.list(&served.resource, None);
    found.retain(|(key, _)| key.1 == name);
    match found.as_slice() {
        [] => Ok(ObjectHandle { served, key: ("default".to_owned(), own), stored: None }),
        [(key, stored)] => Ok(ObjectHandle { key: key.clone(), stored: Some(Arc::clone(stored)), served }),
        many => {
            let namespaces = many.iter().map(|(key, _)| key.0.clone()).collect();
            Err(FindError::Namespace { object: format!("{resource}/{name}"), namespaces })
        }
    }
}

fn has_name(served: &ServedKind, name: &str) -> bool {
    let kind = &served.kind;
    let name = name.to_lowercase();
    name == served.full_name()
        || [&kind.plural, &kind.singular].contains(&&name)
        || kind.kind.to_lowercase() == name
        || kind.short_names.contains(&name)
}

/// Patches an object.
///
/// # Errors
/// If the server does not accept it.
pub async fn patch(
    server: &ApiServer,
    object: &ObjectHandle,
    subresource: Option<&str>,
    media: &'static str,
    patch: &Value,
) -> Result<(), Refused> {
    let below = subresource.map(|name| format!("/{name}")).unwrap_or_default();
    let path = format!("{}{below}?fieldManager=kubectl", object.path());
    send(server, Method::PATCH, &path, Some(media), patch.to_string()).await
}

/// Deletes an object.
///
/// # Errors
/// If the server does not accept it.
pub async fn delete(server: &ApiServer, object: &ObjectHandle, propagation: Option<&str>) -> Result<(), Refused> {
    let options =
        json!({"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation.unwrap_or("Background")});
    send(server, Method::DELETE, &object.path(), Some("application/json"), options.to_string()).await
}

/// A request with a body.
#[derive(Debug, Clone)]
pub struct Asking {
    /// The method.
    pub method: Method,
    /// The path with its query.
    pub path: String,
    /// The content type.
    pub media: &'static str,
    /// The body.
    pub body: String,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Answered {
    /// The HTTP status.
    pub code: u16,
    /// The warnings for the user.
    pub warnings: Vec<String>,
    /// The object, or the status of a refusal.
    pub body: Value,
}

impl Answered {
    /// Tells whether the server has accepted the request.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.code)
    }
}

/// Sends a request of a user.
pub async fn ask(server: &ApiServer, user: User, asking: Asking) -> Answered {
    let Asking { method, path, media, body } = asking;
    let request =
        Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, media).body(Bytes::from(body));
    let request = match request {
        Ok(request) => request,
        Err(error) => return Answered { code: 0, warnings: Vec::new(), body: json!({"message": error.to_string()}) },
    };
    let response = server.answer_as(user, request).await;
    let code = response.status().as_u16();
    let warnings =
        response.headers().get_all(header::WARNING).iter().filter_map(|value| warning(value.to_str().ok()?)).collect();
    let body = response.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    Answered { code, warnings, body: serde_json::from_slice(&body).unwrap_or_default() }
}

/// Returns the text of a warning in its header: `299 - "text"`.
fn warning(header: &str) -> Option<String> {
    let quoted = header.split_once('"')?.1.rsplit_once('"')?.0;
    let mut text = String::with_capacity(quoted.len());
    let mut letters = quoted.chars();
    while let Some(letter) = letters.next() {
        text.extend(if letter == '\\' { letters.next() } else { Some(letter) });
    }
    Some(text)
}

/// Sends a request of the administrator.
///
/// # Errors
/// If the server does not accept it.
pub async fn send(
    server: &ApiServer,
    method: Method,
    path: &str,
    media: Option<&str>,
    body: String,
) -> Result<(), Refused> {
    let mut request = Request::builder().method(method).uri(path);
    if let Some(media) = media {
        request = request.header(header::CONTENT_TYPE, media);
    }
    let request = request.body(Bytes::from(body)).map_err(|error| Refused { code: 0, message: error.to_string() })?;
    let response = server.answer_as(User::administrator(), request).await;
    let code = response.status().as_u16();
    if response.status().is_success() {
        return Ok(());
    }
    let body = response.into_body().collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let status: Value = serde_json::from_slice(&body).unwrap_or_default();
    let message = status["message"].as_str().map_or_else(|| String::from_utf8_lossy(&body).into_owned(), str::to_owned);
    Err(Refused { code, message })
}

/// Returns the path of an object.
pub fn path(served: &ServedKind, namespace: &str, name: &str) -> String {
    let kind = &served.kind;
    let root = if kind.group.is_empty() {
        format!("/api/{}", kind.version)
    } else {
        format!("/apis/{}/{}", kind.group, kind.version)
    };
    if kind.namespaced {
        format!("{root}/namespaces/{namespace}/{}/{name}", kind.plural)
    } else {
        format!("{root}/{}/{name}", kind.plural)
    }
}
