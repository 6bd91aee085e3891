//! Impersonation: requests as another user, by headers, for users with the right to impersonate.

use std::collections::BTreeMap;

use http::HeaderMap;

use crate::auth::access::{Attributes, User, is_allowed};
use crate::http::request::decode;
use crate::storage::store::Store;

/// Prefix of headers with extra user attributes.
const EXTRA: &str = "impersonate-extra-";

/// The reason why an impersonation is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The headers name no user.
    NoUser,
    /// The user lacks the right to impersonate.
    Right(Box<User>, Box<Attributes>),
}

/// Returns the effective user of a request: the authenticated one, or the one in the impersonation headers.
///
/// # Errors
/// If the headers name no user, or the right to impersonate is missing.
pub fn impersonated(store: &Store, user: User, headers: &HeaderMap) -> Result<User, Refusal> {
    let wanted = Wanted::read(headers);
    let Some(name) = wanted.name else {
        return if wanted.groups.is_empty() && wanted.uid.is_empty() && wanted.extra.is_empty() {
            Ok(user)
        } else {
            Err(Refusal::NoUser)
        };
    };
    let account = name.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
    let mut rights = vec![match account {
        Some((namespace, account)) => right("", "serviceaccounts", namespace, account),
        None => right("", "users", "", &name),
    }];
    rights.extend(wanted.groups.iter().map(|group| right("", "groups", "", group)));
    if !wanted.uid.is_empty() {
        rights.push(right(AUTHENTICATION, "uids", "", &wanted.uid));
    }
    let extra = wanted.extra.iter().flat_map(|(key, values)| values.iter().map(move |value| (key, value)));
    rights.extend(extra.map(|(key, value)| right(AUTHENTICATION, &format!("userextras/{key}"), "", value)));
    if let Some(missing) = rights.into_iter().find(|right| !is_allowed(store, &user, right)) {
        return Err(Refusal::Right(Box::new(user), Box::new(missing)));
    }
    let mut groups = wanted.groups;
    if let (true, Some((namespace, account))) = (groups.is_empty(), account) {
        groups = User::service_account(namespace, account).groups;
    }
    let kind = if name == "system:anonymous" { "system:unauthenticated" } else { "system:authenticated" };
    if !groups.iter().any(|group| group == kind) {
        groups.push(kind.to_owned());
    }
    Ok(User { name, uid: wanted.uid, groups, extra: wanted.extra })
}

const AUTHENTICATION: &str = "authentication.k8s.io";

fn right(group: &str, resource: &str, namespace: &str, name: &str) -> Attributes {
    Attributes {
        verb: "impersonate".to_owned(),
        group: group.to_owned(),
        resource: resource.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        path: None,
    }
}

/// The user in the headers.
struct Wanted {
    name: Option<String>,
    groups: Vec<String>,
    uid: String,
    extra: BTreeMap<String, Vec<String>>,
}

impl Wanted {
    fn read(headers: &HeaderMap) -> Self {
        let text = |name: &str| {
            headers.get(name).and_then(|value| value.to_str().ok()).filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let groups = headers
            .get_all("impersonate-group")
            .iter()
            .filter_map(|value| value.to_str().ok())
            .map(str::to_owned)
            .collect();
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, value) in headers {
            if let (Some(key), Ok(value)) = (name.as_str().strip_prefix(EXTRA), value.to_str()) {
                let key = decode(key).unwrap_or_else(|| key.to_owned());
                extra.entry(key).or_default().push(value.to_owned());
            }
        }
        Self { name: text("impersonate-user"), groups, uid: text("impersonate-uid").unwrap_or_default(), extra }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::store::Limits;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn impersonation_needs_the_permission() {
        let store = Store::new(Limits::default());
        let bob = headers(&[("impersonate-user", "bob"), ("impersonate-group", "crew")]);
        let played = impersonated(&store, User::administrator(), &bob).unwrap();
        assert_eq!(
            (played.name.as_str(), played.groups.as_slice()),
            ("bob", &["crew".to_owned(), "system:authenticated".to_owned()][..])
        );
        let robot = headers(&[("impersonate-user", "system:serviceaccount:one:robot")]);
        let played = impersonated(&store, User::administrator(), &robot).unwrap();
        assert!(played.groups.contains(&"system:serviceaccounts:one".to_owned()), "{played:?}");
        assert_eq!(impersonated(&store, User::new("eve", &[]), &HeaderMap::new()).unwrap().name, "eve");
        let Err(Refusal::Right(eve, missing)) = impersonated(&store, User::new("eve", &[]), &bob) else {
            panic!("eve has no rights")
        };
        assert_eq!(
            (eve.name.as_str(), missing.verb.as_str(), missing.resource.as_str()),
            ("eve", "impersonate", "users")
        );
    }

    #[test]
    fn attributes_of_the_impersonated_user_need_a_user_name() {
        let store = Store::new(Limits::default());
        let bob = headers(&[
            ("impersonate-user", "bob"),
            ("impersonate-extra-acme.test%2fproject", "x"),
            ("impersonate-uid", "17"),
        ]);
        let played = impersonated(&store, User::administrator(), &bob).unwrap();
        assert_eq!((played.uid.as_str(), &played.extra["acme.test/project"]), ("17", &vec!["x".to_owned()]));
        for nobody in [("impersonate-group", "crew"), ("impersonate-uid", "17"), ("impersonate-extra-x", "y")] {
            assert_eq!(
                impersonated(&store, User::administrator(), &headers(&[nobody])),
                Err(Refusal::NoUser),
                "{nobody:?}"
            );
        }
    }
}
