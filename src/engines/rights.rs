//! Compares the rights that an operator needs with those that the cluster grants, with a limited number of questions.

use std::collections::{BTreeMap, BTreeSet};

use futures::stream::{self, StreamExt as _};

use crate::cluster::reviews::{self, Attributes, Rules};
use crate::cluster::{Client, Error};
use crate::handling::rights::{EVERY, GrantScope, Granted, Right, Rights};

/// Limit of namespaces whose rules are asked for.
const MAX_NAMESPACES: usize = 20;

/// Limit of rights that are asked for one by one.
const MAX_QUESTIONS: usize = 200;

/// Questions that are asked at once.
const CONCURRENCY: usize = 8;

/// The result of a comparison.
#[derive(Debug, Default)]
pub struct Comparison {
    /// The rights that are needed and not granted.
    pub missing: Rights,
    /// The number of rights that were not asked for, because there are too many.
    pub unchecked: usize,
}

/// Returns which of the rights are missing.
///
/// # Errors
/// If a question fails.
pub(crate) async fn compare(client: &Client, rights: &Rights) -> Result<Comparison, Error> {
    let everything = Attributes { verb: EVERY, group: EVERY, resource: EVERY, ..Attributes::default() };
    if rights.is_empty() || reviews::is_allowed(client, &everything).await? {
        return Ok(Comparison::default());
    }
    let namespaces: BTreeSet<String> = rights.keys().filter_map(namespace).map(str::to_owned).collect();
    let reviewed = rules_of(client, namespaces.into_iter().take(MAX_NAMESPACES)).await?;
    let mut comparison = Comparison::default();
    let mut doubtful = Rights::new();
    for (right, purpose) in rights {
        let list = match namespace(right).and_then(|namespace| reviewed.get(namespace)) {
            Some(rules) if is_granted(rules, right) => continue,
            Some(rules) if !rules.are_incomplete => &mut comparison.missing,
            _ => &mut doubtful,
        };
        list.insert(right.clone(), *purpose);
    }
    comparison.unchecked = doubtful.len().saturating_sub(MAX_QUESTIONS);
    doubtful = doubtful.into_iter().take(MAX_QUESTIONS).collect();
    for refused in refused(client, doubtful.keys().cloned()).await? {
        comparison.missing.extend(doubtful.remove_entry(&refused));
    }
    Ok(comparison)
}

/// Returns the rules that apply in each of some namespaces.
async fn rules_of(client: &Client, namespaces: impl Iterator<Item = String>) -> Result<BTreeMap<String, Rules>, Error> {
    let asked = namespaces.map(|namespace| {
        let client = client.clone();
        async move { reviews::rules_in(&client, &namespace).await.map(|rules| (namespace, rules)) }
    });
    let answers: Vec<Result<(String, Rules), Error>> =
        stream::iter(asked.collect::<Vec<_>>()).buffered(CONCURRENCY).collect().await;
    answers.into_iter().collect()
}

/// Returns those of some rights that are not granted.
async fn refused(client: &Client, rights: impl Iterator<Item = Right>) -> Result<Vec<Right>, Error> {
    let asked = rights.map(|right| {
        let client = client.clone();
        async move {
            reviews::is_allowed(&client, &attributes(&right)).await.map(|is_allowed| (!is_allowed).then_some(right))
        }
    });
    let answers: Vec<Result<Option<Right>, Error>> =
        stream::iter(asked.collect::<Vec<_>>()).buffered(CONCURRENCY).collect().await;
    Ok(answers.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

fn namespace(right: &Right) -> Option<&str> {
    match &right.scope {
        GrantScope::Cluster => None,
        GrantScope::Namespace(name) => Some(name),
    }
}

fn is_granted(rules: &Rules, right: &Right) -> bool {
    rules.rules.iter().any(|rule| {
        let (groups, resources) = (rule.groups.clone(), rule.resources.clone());
        Granted { groups, resources, names: rule.names.clone(), verbs: rule.verbs.clone() }.grants(right)
    })
}

fn attributes(right: &Right) -> Attributes<'_> {
    let Right { group, resource, verb, name, .. } = right;
    Attributes { verb, group, resource, namespace: namespace(right), name: name.as_deref() }
}
