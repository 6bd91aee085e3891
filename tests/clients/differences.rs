//! What may differ between the embedded API server and a real one, and why. Whoever takes away a difference takes it off this list:
//! one that is listed and not met fails the suite.

/// One command whose output may differ, or one object.
pub struct Difference {
    /// The title of the case.
    pub case: &'static str,
    /// What the command or the place of the object begins with.
    pub command: &'static str,
    /// How much of it.
    pub extent: Extent,
    /// Why.
    #[expect(dead_code, reason = "it is for the reader")]
    pub reason: &'static str,
}

/// How much may differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Anything; the case checks what matters.
    Output,
    /// Lines may be missing, but there are none that the real server does not print.
    MissingLines,
    /// Of an object, who manages which fields.
    ManagedFields,
}

const fn differs(case: &'static str, command: &'static str, extent: Extent, reason: &'static str) -> Difference {
    Difference { case, command, extent, reason }
}

/// The list.
pub const DIFFERENCES: &[Difference] = &[
    differs(
        "creating::objects_are_created_from_arguments",
        "create token",
        Extent::Output,
        "tokens are opaque: nobody else has to check them",
    ),
    differs("creating::workloads_are_created_from_arguments", "pods/worker", Extent::Output, ACCOUNTS),
    differs(
        "reading::workloads_are_shown_in_their_tables",
        "persistentvolumeclaims/disk",
        Extent::Output,
        "no finalizer is put on claims: there is no controller that would take it off",
    ),
    differs("reading::workloads_are_shown_in_their_tables", "pods/homeless", Extent::Output, ACCOUNTS),
    differs("describing::objects_are_described_with_their_events", "describe pod worker", Extent::Output, ACCOUNTS),
    differs("describing::objects_are_described_with_their_events", "describe pods,cm", Extent::Output, ACCOUNTS),
    differs("reading::the_paths_of_the_server_are_read_raw", "version", Extent::Output, "it is another program, of another version"),
    differs(
        "reading::the_paths_of_the_server_are_read_raw",
        "get --raw /apis/clients.kopfd.dev/v1",
        Extent::Output,
        "hashes of storage versions, which only migrations need, are left out, and subresources are in the order of their names",
    ),
    differs("reading::the_paths_of_the_server_are_read_raw", "config", Extent::Output, "each server has a kubeconfig of its own"),
    differs(
        "deleting::dependents_follow_their_owners",
        "configmaps/orphaning-x",
        Extent::ManagedFields,
        "the collector's own writes are not tracked",
    ),
    differs("explaining::built_in_kinds_are_explained", "explain", Extent::Output, TEXTS),
    differs("explaining::custom_resources_are_explained", "explain gauge", Extent::Output, TEXTS),
    differs("explaining::custom_resources_are_explained", "explain gg", Extent::Output, TEXTS),
    differs(
        "explaining::resources_and_versions_are_listed",
        "api-",
        Extent::MissingLines,
        "kinds that concern nodes, networks and storage are left out",
    ),
    differs(
        "access::rights_are_asked_for_and_given",
        "auth can-i --list",
        Extent::MissingLines,
        "an administrator is told the one rule that has all others in it",
    ),
    differs("access::rights_are_asked_for_and_given", "auth whoami", Extent::Output, "each server has an administrator of its own"),
];

const ACCOUNTS: &str = "the real server of the suite runs without the admission of service accounts";
const TEXTS: &str = "the descriptions of built-in kinds and of metadata are short ones of our own";
