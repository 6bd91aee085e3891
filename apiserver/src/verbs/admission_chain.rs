//! The admission chain of a write: calls the admission webhooks.

use std::sync::{Arc, LazyLock};

use serde_json::{Value, json};

use crate::admission::{self, Admitted, Attributes, Authorizer, FaultyCaller, Operation};
use crate::api::Api;
use crate::auth::access::{self, User};
use crate::faults::Fault;
use crate::http::api_error::ApiError;
use crate::http::request::Options;
use crate::kinds::kind::Kind;
use crate::kinds::registry::ServedKind;
use crate::storage::resource::Resource;
use crate::storage::store::Stored;

/// The group of the configurations.
const GROUP: &str = "admissionregistration.k8s.io";

static MUTATING: LazyLock<Resource> =
    LazyLock::new(|| Resource { group: GROUP.to_owned(), plural: "mutatingwebhookconfigurations".to_owned() });
static VALIDATING: LazyLock<Resource> =
    LazyLock::new(|| Resource { group: GROUP.to_owned(), plural: "validatingwebhookconfigurations".to_owned() });

/// The user, options and fault of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Requester<'a> {
    /// The user.
    pub user: &'a User,
    /// The options of the request.
    pub options: &'a Options,
    /// The fault of the request.
    pub fault: Option<&'a Fault>,
}

/// The admission chain for the writes of one request.
pub(crate) struct AdmissionChain<'a> {
    api: &'a Api,
    served: &'a ServedKind,
    subresource: &'a str,
    /// The kind of the written object, if it is not that of the resource.
    subresource_kind: Option<Kind>,
    requester: Requester<'a>,
    versions: Vec<String>,
    mutating: Vec<Arc<Stored>>,
    validating: Vec<Arc<Stored>>,
}

/// One write, in the terms of an `AdmissionReview`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AdmissionRequest<'a> {
    /// The operation.
    pub operation: Operation,
    /// The object's name; empty if it will be generated.
    pub name: &'a str,
    /// The namespace, or empty.
    pub namespace: &'a str,
    /// The object after the write; `None` for a deletion.
    pub object: Option<&'a Value>,
    /// The object before the write; `None` for a creation.
    pub old: Option<&'a Value>,
}

/// Tells whether there are any webhooks.
pub(crate) fn has_webhooks(api: &Api) -> bool {
    api.with(|state| [&*MUTATING, &*VALIDATING].iter().any(|resource| !state.store.is_empty(resource)))
}

impl<'a> AdmissionChain<'a> {
    /// Returns the admission chain for the writes of a request.
    pub(crate) fn new(api: &'a Api, served: &'a ServedKind, subresource: &'a str, requester: Requester<'a>) -> Self {
        let (mutating, validating) = api.with(|state| {
            let all =
                |resource: &Resource| state.store.list(resource, None).into_iter().map(|(_, stored)| stored).collect();
            (all(&MUTATING), all(&VALIDATING))
        });
        let mut chain = Self {
            api,
            served,
            subresource,
            subresource_kind: subresource_kind(subresource),
            requester,
            versions: Vec::new(),
            mutating,
            validating,
        };
        if !chain.mutating.is_empty() || !chain.validating.is_empty() {
            let registry = api.registry();
            let others = registry
                .all()
                .filter(|other| other.kind.group == served.kind.group && other.kind.plural == served.kind.plural);
            chain.versions = others
                .map(|other| other.kind.version.clone())
                .filter(|version| *version != served.kind.version)
                .collect();
        }
        chain
    }

    /// Checks the permission to create, for all verbs that can create.
    ///
    /// # Errors
    /// If it is missing.
    pub(crate) fn check_creation(&self, namespace: &str, name: &str) -> Result<(), ApiError> {
        let kind = &self.served.kind;
        let is_namespace = kind.group.is_empty() && kind.plural == "namespaces";
        let wanted = access::Attributes {
            verb: "create".to_owned(),
            group: kind.group.clone(),
            resource: kind.plural.clone(),
            namespace: if is_namespace { name } else { namespace }.to_owned(),
            name: name.to_owned(),
            path: None,
        };
        let user = self.requester.user;
        let is_allowed = self.api.with(|state| access::is_allowed(&state.store, user, &wanted));
        if is_allowed { Ok(()) } else { Err(access::refusal(user, &wanted)) }
    }

    /// Tells whether there are any webhooks.
    pub(crate) fn has_webhooks(&self) -> bool {
        !self.mutating.is_empty() || !self.validating.is_empty()
    }

    /// Tells whether there are mutating webhooks.
    pub(crate) fn may_mutate(&self) -> bool {
        !self.mutating.is_empty()
    }

    /// Calls the mutating webhooks. Returns the object, if they have changed it, and their warnings.
    ///
    /// # Errors
    /// If one of them denies the write, or cannot be called.
    pub(crate) async fn mutate(&self, request: AdmissionRequest<'_>) -> Result<(Option<Value>, Vec<String>), ApiError> {
        if self.mutating.is_empty() {
            return Ok((None, Vec::new()));
        }
        let context = Context::of(self, &request);
        let configurations: Vec<&Value> = self.mutating.iter().map(|stored| &*stored.value).collect();
        let attributes = context.attributes(self, &request);
        let Admitted { object, warnings } =
            admission::mutate(&self.webhook_client(), &configurations, &attributes, || {
                self.api.with(|state| state.ids.uid())
            })
            .await?;
        Ok((object.filter(|object| Some(object) != request.object), warnings))
    }

    /// Calls the validating webhooks, and returns their warnings.
    ///
    /// # Errors
    /// If one of them denies the write, or cannot be called.
    pub(crate) async fn validate(&self, request: AdmissionRequest<'_>) -> Result<Vec<String>, ApiError> {
        if self.validating.is_empty() {
            return Ok(Vec::new());
        }
        let context = Context::of(self, &request);
        let configurations: Vec<&Value> = self.validating.iter().map(|stored| &*stored.value).collect();
        let attributes = context.attributes(self, &request);
        admission::validate(&self.webhook_client(), &configurations, &attributes, || {
            self.api.with(|state| state.ids.uid())
        })
        .await
    }

    fn webhook_client(&self) -> FaultyCaller<'_> {
        FaultyCaller { caller: self.api.caller(), fault: self.requester.fault.map(|fault| &fault.action) }
    }
}

/// Returns the kind of a subresource that has its own.
fn subresource_kind(subresource: &str) -> Option<Kind> {
    let (group, version, kind) = match subresource {
        "scale" => ("autoscaling", "v1", "Scale"),
        "eviction" => ("policy", "v1", "Eviction"),
        "binding" => ("", "v1", "Binding"),
        _ => return None,
    };
    Some(Kind { group: group.to_owned(), version: version.to_owned(), kind: kind.to_owned(), ..Kind::default() })
}

/// The attributes of a write besides the objects.
struct Context {
    namespace: Option<Arc<Stored>>,
    user: Value,
    options: Value,
    authorizer: Authorizer,
}

impl Context {
    fn of(chain: &AdmissionChain<'_>, request: &AdmissionRequest<'_>) -> Self {
        let namespaces = Resource { group: String::new(), plural: "namespaces".to_owned() };
        let namespace = Some(request.namespace).filter(|name| !name.is_empty());
        let namespace = namespace.and_then(|name| chain.api.read(&namespaces, &(String::new(), name.to_owned())));
        let kind = match request.operation {
            Operation::Create => "CreateOptions",
            Operation::Update => "UpdateOptions",
            Operation::Delete => "DeleteOptions",
            Operation::Connect => "PodExecOptions",
        };
        let mut options = json!({"kind": kind, "apiVersion": "meta.k8s.io/v1"});
        if chain.requester.options.is_dry_run {
            options["dryRun"] = json!(["All"]);
        }
        if let Some(manager) = &chain.requester.options.field_manager {
            options["fieldManager"] = json!(manager);
        }
        if request.operation == Operation::Delete {
            for (name, value) in &chain.requester.options.deletion {
                options[name] = value.clone();
            }
        }
        let api = chain.api.clone();
        let authorizer =
            Authorizer(Arc::new(move |user, wanted| api.with(|state| access::is_allowed(&state.store, user, wanted))));
        Self { namespace, user: chain.requester.user.to_json(), options, authorizer }
    }

    fn attributes<'b>(&'b self, chain: &'b AdmissionChain<'_>, request: &AdmissionRequest<'b>) -> Attributes<'b> {
        Attributes {
            kind: &chain.served.kind,
            subresource_kind: chain.subresource_kind.as_ref(),
            versions: &chain.versions,
            subresource: chain.subresource,
            name: request.name,
            namespace: request.namespace,
            namespace_labels: self.namespace.as_ref().and_then(|stored| stored.value["metadata"]["labels"].as_object()),
            operation: request.operation,
            user: &self.user,
            object: request.object,
            old: request.old,
            dry_run: chain.requester.options.is_dry_run,
            options: &self.options,
            authorizer: &self.authorizer,
        }
    }
}
