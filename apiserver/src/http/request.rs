//! Parses requests: paths, queries, media types.

use bytes::Bytes;
use http::{HeaderMap, Method, Request, header};

use crate::http::api_error::{ApiError, FieldError};

/// Bodies larger than this are refused.
pub const MAX_BODY: usize = 3 << 20;

/// A request with its parsed URL.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ParsedRequest {
    /// The HTTP method.
    pub method: Method,
    /// The parsed path.
    pub path: Path,
    /// The original path.
    pub text: String,
    /// The path with its query.
    pub uri: String,
    /// The parameters.
    pub query: Query,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl ParsedRequest {
    /// Parses the URL of a request.
    pub fn read(request: Request<Bytes>) -> Self {
        let (head, body) = request.into_parts();
        let text = head.uri.path().to_owned();
        let uri = head.uri.path_and_query().map_or_else(|| text.clone(), ToString::to_string);
        let query = Query::parse(head.uri.query().unwrap_or_default());
        Self { method: head.method, path: Path::parse(&text), text, uri, query, headers: head.headers, body }
    }
}

/// The meaning of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Path {
    /// The versions of the core group.
    CoreVersions,
    /// The groups.
    Groups,
    /// One group.
    Group(String),
    /// The resources of one version of a group.
    Resources(String, String),
    /// The objects of a resource, or one of them.
    Objects(ResourcePath),
    /// Any other path.
    Other(String),
}

impl Default for Path {
    fn default() -> Self {
        Self::Other(String::new())
    }
}

/// The path of a resource or an object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResourcePath {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The plural name of the resource.
    pub plural: String,
    /// The namespace.
    pub namespace: Option<String>,
    /// The object's name.
    pub name: Option<String>,
    /// The subresource.
    pub subresource: Option<String>,
    /// Whether the path requests a watch with the old prefix.
    pub is_watch: bool,
}

impl Path {
    /// Parses a path.
    pub fn parse(path: &str) -> Self {
        let other = || Self::Other(path.to_owned());
        let trimmed = path.strip_suffix('/').unwrap_or(path);
        let Some(trimmed) = decode(trimmed) else { return other() };
        let parts: Vec<&str> = trimmed.split('/').skip(1).collect();
        match parts.as_slice() {
            ["api"] => Self::CoreVersions,
            ["apis"] => Self::Groups,
            ["apis", group] => Self::Group((*group).to_owned()),
            ["api", "v1"] => Self::Resources(String::new(), "v1".to_owned()),
            ["apis", group, version] => Self::Resources((*group).to_owned(), (*version).to_owned()),
            ["api", "v1", rest @ ..] => ResourcePath::parse("", "v1", rest).map_or_else(other, Self::Objects),
            ["apis", group, version, rest @ ..] => {
                ResourcePath::parse(group, version, rest).map_or_else(other, Self::Objects)
            }
            _ => other(),
        }
    }
}

impl ResourcePath {
    fn parse(group: &str, version: &str, parts: &[&str]) -> Option<Self> {
        let (is_watch, parts) = match parts {
            ["watch", rest @ ..] if !rest.is_empty() => (true, rest),
            parts => (false, parts),
        };
        let resource_path = Self { group: group.to_owned(), version: version.to_owned(), is_watch, ..Self::default() };
        let text = |part: &str| Some(part.to_owned());
        // Namespaces are also objects: the segment after the name is their subresource, or a resource inside.
        let is_namespace = group.is_empty()
            && matches!(parts, ["namespaces"] | ["namespaces", _] | ["namespaces", _, "status" | "finalize"]);
        let (namespace, parts) = match parts {
            ["namespaces", namespace, rest @ ..] if !is_namespace && !rest.is_empty() => (text(namespace), rest),
            parts => (None, parts),
        };
        let resource_path = Self { namespace, ..resource_path };
        match parts {
            [plural] => Some(Self { plural: (*plural).to_owned(), ..resource_path }),
            [plural, name] => Some(Self { plural: (*plural).to_owned(), name: text(name), ..resource_path }),
            [plural, name, rest @ ..] => Some(Self {
                plural: (*plural).to_owned(),
                name: text(name),
                subresource: Some(rest.join("/")),
                ..resource_path
            }),
            [] => None,
        }
    }
}

/// Decodes percent encoding.
pub fn decode(text: &str) -> Option<String> {
    String::from_utf8(bytes(text)?).ok()
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    Some(bytes)
}

/// The parameters of a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl Query {
    /// Parses a query. Undecodable parameters are ignored.
    pub fn parse(query: &str) -> Self {
        let plain =
            |text: &str| bytes(&text.replace('+', " ")).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let pairs =
            query.split('&').filter(|pair| !pair.is_empty()).map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        Self(pairs.filter_map(|(key, value)| Some((plain(key)?, plain(value)?))).collect())
    }

    /// Returns a parameter, if it is present.
    pub fn given(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// Returns a parameter, if it is present and not empty.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.given(key).filter(|value| !value.is_empty())
    }

    /// Tells whether a boolean parameter is true: present, and neither `false` nor `0`.
    pub fn is_on(&self, key: &str) -> bool {
        self.given(key).is_some_and(|value| !value.eq_ignore_ascii_case("false") && value != "0")
    }

    /// Returns a number.
    ///
    /// # Errors
    /// If the parameter is not a number.
    pub fn number(&self, key: &str) -> Result<Option<i64>, ApiError> {
        let parse = |text: &str| {
            text.parse()
                .map_err(|_| ApiError::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax")))
        };
        self.given(key).map(parse).transpose()
    }
}

/// The options of a write, from the query.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether it is a dry run.
    pub is_dry_run: bool,
    /// The field manager.
    pub field_manager: Option<String>,
    /// The treatment of unknown fields.
    pub validation: FieldValidation,
    /// Whether an apply takes fields from other managers.
    pub is_forced: bool,
    /// Further options of a deletion, for webhooks.
    pub deletion: serde_json::Map<String, serde_json::Value>,
}

/// The treatment of unknown and duplicate fields.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Ignore them.
    Ignore,
    /// Return warnings.
    #[default]
    Warn,
    /// Refuse the request.
    Strict,
}

impl Options {
    /// Reads the options of a write.
    ///
    /// # Errors
    /// If values are invalid. The failure names the kind of options.
    pub fn read(query: &Query, options: &str) -> Result<Self, ApiError> {
        let mut causes = Vec::new();
        let field_manager = query.text("fieldManager").map(str::to_owned);
        if field_manager.as_ref().is_some_and(|manager| manager.len() > 128) {
            causes.push(FieldError::new(
                "FieldValueTooLong",
                "fieldManager",
                "Too long: may not be more than 128 bytes",
            ));
        }
        if field_manager.as_ref().is_some_and(|manager| manager.chars().any(char::is_control)) {
            causes.push(FieldError::new(
                "FieldValueInvalid",
                "fieldManager",
                "Invalid value: should only contain printable characters",
            ));
        }
        let mut unsupported = |field: &str, value: &str, supported: &str| {
            let message = format!("Unsupported value: {value:?}: supported values: {supported}");
            causes.push(FieldError::new("FieldValueNotSupported", field, message));
        };
        let is_dry_run = match query.given("dryRun") {
            None => false,
            Some("All") => true,
            Some(other) => {
                unsupported("dryRun", other, "\"All\"");
                false
            }
        };
        let validation = match query.text("fieldValidation") {
            None | Some("Warn") => FieldValidation::Warn,
            Some("Ignore") => FieldValidation::Ignore,
            Some("Strict") => FieldValidation::Strict,
            Some(other) => {
                unsupported("fieldValidation", other, "\"Ignore\", \"Warn\", \"Strict\"");
                FieldValidation::Warn
            }
        };
        if causes.is_empty() {
            return Ok(Self {
                is_dry_run,
                field_manager,
                validation,
                is_forced: query.is_on("force"),
                deletion: serde_json::Map::new(),
            });
        }
        Err(ApiError::invalid("meta.k8s.io", options, "", causes))
    }
}

/// The requested form of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The object itself.
    Plain,
    /// A table for people, in a version of `meta.k8s.io`.
    Table,
    /// The metadata of one object.
    Metadata,
    /// The metadata of the objects of a list.
    MetadataList,
}

/// The requested encoding of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accept {
    /// The form.
    pub form: Form,
    /// Whether it is YAML.
    pub is_yaml: bool,
    /// Whether the form is of the version `v1beta1`.
    pub is_beta: bool,
}

impl Accept {
    /// Returns the first supported media type that the client accepts.
    ///
    /// # Errors
    /// If there is none.
    pub fn negotiate(headers: &HeaderMap) -> Result<Self, ApiError> {
        let plain = Self { form: Form::Plain, is_yaml: false, is_beta: false };
        let mut offers = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).peekable();
        if offers.peek().is_none() {
            return Ok(plain);
        }
        let mut offers =
            offers.flat_map(|value| value.split(',')).map(str::trim).filter(|offer| !offer.is_empty()).peekable();
        if offers.peek().is_none() {
            return Ok(plain);
        }
        offers.find_map(Self::offered).ok_or_else(|| {
            let served = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
            ApiError::new(406, "NotAcceptable", format!("only the following media types are accepted: {served}"))
        })
    }

    fn offered(offer: &str) -> Option<Self> {
        let mut parts = offer.split(';').map(str::trim);
        let is_yaml = match parts.next()? {
            "application/json" | "*/*" => false,
            "application/yaml" => true,
            _ => return None,
        };
        let parameter =
            |name: &str| offer.split(';').filter_map(|part| part.trim().split_once('=')).find(|(key, _)| *key == name);
        let is_meta = parameter("g").is_some_and(|(_, group)| group == "meta.k8s.io");
        let version = parameter("v").map_or("v1", |(_, version)| version);
        let form = match parameter("as").map(|(_, form)| form) {
            None => Form::Plain,
            Some(_) if version != "v1" && version != "v1beta1" => return None,
            Some("Table") if is_meta => Form::Table,
            Some("PartialObjectMetadata") if is_meta => Form::Metadata,
            Some("PartialObjectMetadataList") if is_meta => Form::MetadataList,
            // Such as aggregated discovery: the plain form follows in the list.
            Some(_) => return None,
        };
        Some(Self { form, is_yaml, is_beta: version == "v1beta1" && form != Form::Plain })
    }
}

/// Returns the media type of a body, without parameters and in lower case.
pub fn media_type(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::CONTENT_TYPE)?.to_str().ok().filter(|value| !value.is_empty())?;
    Some(value.split(';').next().unwrap_or(value).trim().to_ascii_lowercase())
}

/// Returns the verb of a request for authorization rules.
pub fn verb(method: &Method, resource_path: &ResourcePath, query: &Query) -> &'static str {
    match (method.as_str(), resource_path.name.is_some()) {
        ("POST", _) => "create",
        ("PUT", _) => "update",
        ("PATCH", _) => "patch",
        ("DELETE", true) => "delete",
        ("DELETE", false) => "deletecollection",
        (_, true) if !resource_path.is_watch => "get",
        _ if resource_path.is_watch || query.is_on("watch") => "watch",
        _ => "list",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource_path(path: &str) -> ResourcePath {
        match Path::parse(path) {
            Path::Objects(resource_path) => resource_path,
            other => panic!("{path} is {other:?}"),
        }
    }

    #[test]
    fn a_namespace_is_an_object_and_a_place_for_others() {
        assert_eq!(resource_path("/api/v1/namespaces/x").name.as_deref(), Some("x"));
        assert_eq!(resource_path("/api/v1/namespaces/x/status").subresource.as_deref(), Some("status"));
        assert_eq!(resource_path("/api/v1/namespaces/x/pods/").namespace.as_deref(), Some("x"));
        assert_eq!(resource_path("/apis/ex.dev/v1/namespaces/x/things/a/scale").subresource.as_deref(), Some("scale"));
        assert!(resource_path("/api/v1/watch/namespaces/x/pods").is_watch);
        // An encoded slash is also a slash.
        assert_eq!(resource_path("/apis/ex.dev/v1/namespaces/x/things/a%2Fb").subresource.as_deref(), Some("b"));
    }

    #[test]
    fn other_paths_are_not_resources() {
        assert_eq!(Path::parse("/apis/ex.dev"), Path::Group("ex.dev".into()));
        assert_eq!(Path::parse("/api/v2"), Path::Other("/api/v2".into()));
        assert_eq!(Path::parse("/"), Path::Other("/".into()));
    }

    #[test]
    fn a_switch_without_a_value_is_on() {
        assert!(Query::parse("watch").is_on("watch") && Query::parse("watch=1").is_on("watch"));
        assert!(!Query::parse("watch=false").is_on("watch") && !Query::parse("").is_on("watch"));
        assert_eq!(Query::parse("labelSelector=a%3Db%2Cc+in+%28x%29").text("labelSelector"), Some("a=b,c in (x)"));
    }

    #[test]
    fn the_first_acceptable_form_wins() {
        let form = |accept: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, accept.parse().unwrap());
            Accept::negotiate(&headers).map(|accept| accept.form)
        };
        assert_eq!(form("application/json;as=Table;v=v1;g=meta.k8s.io,application/json").unwrap(), Form::Table);
        assert_eq!(form("application/vnd.kubernetes.protobuf, application/json").unwrap(), Form::Plain);
        assert_eq!(
            form("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json").unwrap(),
            Form::Plain
        );
        assert_eq!(form("application/xml").unwrap_err().code, 406);
    }
}
