//! The files of each layer as a graph of imports, and the cycles in it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::sources::{Sources, Target};

/// A cycle of files.
#[derive(Debug)]
pub(crate) struct Ring {
    /// The layer.
    pub(crate) layer: String,
    /// A shortest cycle, from a file back to it.
    pub(crate) files: Vec<String>,
}

impl fmt::Display for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} has a ring of imports: {}", self.layer, self.files.join(" -> "))
    }
}

type Graph = BTreeMap<String, BTreeSet<String>>;

/// Returns one cycle for each strongly connected group of files of a layer.
pub(crate) fn rings(sources: &Sources) -> Vec<Ring> {
    rings_within(sources, |user, used| (user == used).then(|| user.to_owned()))
}

/// Returns one cycle for each strongly connected group of files, across layers.
pub(crate) fn rings_across_layers(sources: &Sources) -> Vec<Ring> {
    rings_within(sources, |_, _| Some("the package".to_owned()))
}

/// Finds the cycles of files. `graph_of` returns the graph to which a reference between two layers belongs, if any.
fn rings_within(sources: &Sources, graph_of: impl Fn(&str, &str) -> Option<String>) -> Vec<Ring> {
    let mut graphs: BTreeMap<String, Graph> = BTreeMap::new();
    for reference in sources.references().filter(|reference| !reference.is_test && !reference.is_facade) {
        let Target::Internal(path) = &reference.target else { continue };
        let Some(used) = sources.definition(path) else { continue };
        let Some(graph) = path.first().and_then(|first| graph_of(reference.layer(), first)) else { continue };
        if used != reference.position.file {
            graphs
                .entry(graph)
                .or_default()
                .entry(reference.position.file.clone())
                .or_default()
                .insert(used.to_owned());
        }
    }
    let mut rings = Vec::new();
    for (layer, graph) in graphs {
        let mut seen = BTreeSet::new();
        for start in graph.keys() {
            if seen.contains(start) {
                continue;
            }
            if let Some(files) = way_around(&graph, start) {
                seen.extend(files.iter().cloned());
                rings.push(Ring { layer: layer.clone(), files });
            }
        }
    }
    rings
}

/// Returns a shortest path from a file back to itself.
fn way_around(graph: &Graph, start: &str) -> Option<Vec<String>> {
    let mut ways = vec![vec![start.to_owned()]];
    let mut reached = BTreeSet::new();
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            for next in way.last().and_then(|last| graph.get(last)).into_iter().flatten() {
                let whole: Vec<String> = way.iter().cloned().chain([next.clone()]).collect();
                if next == start {
                    return Some(whole);
                }
                if reached.insert(next.clone()) {
                    longer.push(whole);
                }
            }
        }
        ways = longer;
    }
    None
}
