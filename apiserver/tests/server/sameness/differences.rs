//! The allowed differences of the embedded server, with reasons and directions.

/// The direction of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// The embedded server refuses a request that the real one accepts. No difference of this kind is allowed.
    RefusesValid,
    /// The embedded server accepts a request that the real one refuses.
    AcceptsRefused,
    /// Both accept the request or both refuse it, but the answers differ.
    AnswersOtherwise,
}

/// An allowed difference.
pub(crate) struct Difference {
    /// The direction. An entry does not allow differences in another one.
    pub(crate) direction: Direction,
    /// The reason, also listed in `docs/apiserver-differences.md`.
    pub(crate) reason: &'static str,
    /// The cases, by topic and name, and the places in their answers: the number of the step and a path. `*` matches
    /// any text.
    pub(crate) places: &'static [(&'static str, &'static str)],
}

/// The bodies that may differ as a whole, with the reason why no part of them can be named. No other place may include
/// a whole body.
pub(crate) const WHOLE_BODIES: &[(&str, &str, &str)] = &[
    ("paths: health, version and other paths", "5/body", "It is a text that lists the checks of the program."),
    (
        "watches: a watch from an expired revision ends with an error",
        "2/body",
        "It has one event here and none on the real server.",
    ),
];

/// All allowed differences. An unused one fails the test.
pub(crate) const DIFFERENCES: &[Difference] = &[
    Difference {
        direction: Direction::AcceptsRefused,
        reason: "Schema keywords in definitions are not decoded by type: a `minimum` that is a string is ignored.",
        places: &[("crd-mistakes: misplaced schema keywords", "21/status")],
    },
    Difference {
        direction: Direction::AcceptsRefused,
        reason: "Managers keep the ownership of fields of one version of a kind when a version without these fields is written.",
        places: &[("versions: an object is applied through two versions", "4/status")],
    },
    Difference {
        direction: Direction::AcceptsRefused,
        reason: "YAML is parsed as version 1.2, where `yes` is a string, and not as version 1.1.",
        places: &[("applies: YAML is applied like JSON", "1/status")],
    },
    Difference {
        direction: Direction::AcceptsRefused,
        reason: "A `test` in a JSON patch compares numbers by value, not by their notation.",
        places: &[("json-patches: tests compare the notation of numbers and treat null as absent", "5/status")],
    },
    Difference {
        direction: Direction::AnswersOtherwise,
        reason: "Built-in kinds get only the defaults that operators depend on, and empty fields are returned as they were sent.",
        places: &[
            ("built-in: pods get their defaults", "18/body/status/podIPs"),
            ("built-in: empty fields are omitted except required ones", "9/body/metadata/managedFields"),
            ("reading: metadata can be requested alone", "9/body/items"),
            ("writes: fields that the server sets are ignored in requests", "4/body/metadata/generation"),
        ],
    },
    Difference {
        direction: Direction::AnswersOtherwise,
        reason: "Pods get a default service account; the real server of the tests runs without the admission plug-in that sets it.",
        places: &[
            ("built-in: pods get their defaults", "1/body/spec/serviceAccount*"),
            ("built-in: pods get their defaults", "17/body/spec/serviceAccount*"),
            ("built-in: pods get their defaults", "18/body/spec/serviceAccount*"),
            ("deletions: pods without a node are removed immediately", "1/body/spec/serviceAccount*"),
            ("deletions: pods without a node are removed immediately", "2/body/spec/serviceAccount*"),
            ("deletions: pods without a node are removed immediately", "4/body/spec/serviceAccount*"),
            ("deletions: pods without a node are removed immediately", "5/body/spec/serviceAccount*"),
            ("deletions: pods are marked as terminating before they are removed", "1/body/spec/serviceAccount*"),
            (
                "deletions: pods are marked as terminating before they are removed",
                "4/lines/0/object/spec/serviceAccount*",
            ),
            (
                "deletions: pods are marked as terminating before they are removed",
                "4/lines/1/object/spec/serviceAccount*",
            ),
            ("deletions: pods are marked as terminating before they are removed", "5/body/spec/serviceAccount*"),
            (
                "deletions: pods are marked as terminating before they are removed",
                "7/lines/0/object/spec/serviceAccount*",
            ),
            (
                "deletions: pods are marked as terminating before they are removed",
                "7/lines/1/object/spec/serviceAccount*",
            ),
            (
                "deletions: pods are marked as terminating before they are removed",
                "7/lines/2/object/spec/serviceAccount*",
            ),
            (
                "deletions: pods are marked as terminating before they are removed",
                "11/lines/0/object/spec/serviceAccount*",
            ),
            (
                "deletions: pods are marked as terminating before they are removed",
                "11/lines/1/object/spec/serviceAccount*",
            ),
            (
                "deletions: pods are marked as terminating before they are removed",
                "11/lines/2/object/spec/serviceAccount*",
            ),
            ("first: built-in kinds", "14/body/spec/serviceAccount*"),
            ("first: built-in kinds", "15/body/spec/serviceAccount*"),
            ("first: built-in kinds", "16/body/spec/serviceAccount*"),
            (
                "strategic-patches: ports of services are merged by port and conditions by type",
                "6/body/spec/serviceAccount*",
            ),
            (
                "strategic-patches: ports of services are merged by port and conditions by type",
                "7/body/spec/serviceAccount*",
            ),
            (
                "strategic-patches: ports of services are merged by port and conditions by type",
                "8/body/spec/serviceAccount*",
            ),
            (
                "strategic-patches: ports of services are merged by port and conditions by type",
                "9/body/spec/serviceAccount*",
            ),
            (
                "strategic-patches: ports of services are merged by port and conditions by type",
                "11/body/spec/serviceAccount*",
            ),
            (
                "strategic-patches: ports of services are merged by port and conditions by type",
                "12/body/spec/serviceAccount*",
            ),
            ("writes: unknown fields of built-in kinds too", "3/body/spec/serviceAccount*"),
            ("writes: unknown fields of built-in kinds too", "9/body/spec/serviceAccount*"),
        ],
    },
    Difference {
        direction: Direction::AnswersOtherwise,
        reason: "There are no nodes: a deleted pod is removed without waiting for its containers to end.",
        places: &[
            ("deletions: pods without a node are removed immediately", "5/body/metadata/deletionGracePeriodSeconds"),
            ("deletions: pods without a node are removed immediately", "6/status"),
            ("deletions: pods without a node are removed immediately", "7/status"),
            ("deletions: pods without a node are removed immediately", "8/status"),
        ],
    },
    Difference {
        direction: Direction::AnswersOtherwise,
        reason: "The controllers run immediately, those of a real server a moment later.",
        places: &[
            ("deletions: propagation policies add their finalizers", "3/body/metadata/resourceVersion"),
            ("deletions: propagation policies add their finalizers", "4/body/metadata/resourceVersion"),
            ("deletions: propagation policies add their finalizers", "5/body/metadata/resourceVersion"),
            ("deletions: propagation policies add their finalizers", "6/body/metadata/resourceVersion"),
            ("deletions: propagation policies add their finalizers", "7/body/metadata/resourceVersion"),
            ("deletions: propagation policies add their finalizers", "8/body/metadata/resourceVersion"),
            ("deletions: propagation policies add their finalizers", "9/body/metadata/resourceVersion"),
            ("strategic-patches: maps are merged, replaced and deleted", "15/status"),
            ("strategic-patches: maps are merged, replaced and deleted", "16/status"),
        ],
    },
    Difference {
        direction: Direction::AnswersOtherwise,
        reason: "Some mistakes in definitions are reported at another field, or a different number of times.",
        places: &[
            ("definitions: names are checked", "3/body/details.causes"),
            ("definitions: names are checked", "4/body/details.causes"),
            ("definitions: versions are checked", "2/body/details.causes"),
            ("definitions: versions are checked", "3/body/details.causes"),
            ("definitions: versions are checked", "5/body/details.causes"),
            ("definitions: definitions with conflicting names are not served", "3/body/status.conditions/0/reason"),
            ("schemas: embedded objects are objects", "1/warnings/1"),
            ("schemas: embedded objects are objects", "1/warnings/2"),
        ],
    },
    Difference {
        direction: Direction::AnswersOtherwise,
        reason: "Unknown schema keywords in definitions are dropped without a warning.",
        places: &[("crd-mistakes: misplaced schema keywords", "25/warnings")],
    },
    Difference {
        direction: Direction::AnswersOtherwise,
        reason: "Managers keep the ownership of fields of one version of a kind when a version without these fields is written.",
        places: &[
            ("versions: an object is applied through two versions", "5/body/metadata/managedFields"),
            ("versions: an object is applied through two versions", "5/body/metadata/resourceVersion"),
            ("versions: an object is applied through two versions", "6/body/metadata/managedFields"),
            ("versions: an object is applied through two versions", "6/body/metadata/resourceVersion"),
            ("versions: an object is applied through two versions", "7/body/metadata/managedFields"),
            ("versions: an object is applied through two versions", "7/body/metadata/resourceVersion"),
            ("versions: managed fields name the version of each write", "2/body/metadata/managedFields"),
            ("versions: managed fields name the version of each write", "3/body/metadata/managedFields"),
            ("versions: managed fields name the version of each write", "4/body/metadata/managedFields"),
            ("versions: managed fields name the version of each write", "6/body/metadata/managedFields"),
        ],
    },
    Difference {
        direction: Direction::AnswersOtherwise,
        reason: "A patch that removes `apiVersion` is refused like one with a wrong `apiVersion`.",
        places: &[("versions: the version in the body must match the path", "8/status")],
    },
    Difference {
        direction: Direction::AnswersOtherwise,
        reason: "Requests for objects in an unknown version of a built-in group get 404 as plain text.",
        places: &[("methods: paths with extra slashes", "9/type/0")],
    },
    Difference {
        direction: Direction::AnswersOtherwise,
        reason: "Tokens have the default audience of a cluster; the real server of the tests is configured with another one.",
        places: &[("reviews: reviews of tokens and tokens of accounts", "2/body/spec.audiences/0")],
    },
    Difference {
        direction: Direction::AnswersOtherwise,
        reason: "A body of another version is refused before its fields are checked, so the answer has no warnings about unknown fields.",
        places: &[
            ("first: valid and invalid creations", "10/warnings"),
            ("json-patches: a patch applies as a whole or not at all", "11/warnings"),
        ],
    },
    Difference {
        direction: Direction::AnswersOtherwise,
        reason: "YAML is parsed as version 1.2: `yes` is a string.",
        places: &[("applies: YAML is applied like JSON", "2/status")],
    },
    Difference {
        direction: Direction::AnswersOtherwise,
        reason: "Numbers are stored by value, not by their notation: rewriting 1 as 1.0 is no change.",
        places: &[
            ("merge-patches: numbers keep their form", "3/body/metadata/generation"),
            ("merge-patches: numbers keep their form", "4/body/metadata/generation"),
            ("merge-patches: numbers keep their form", "5/body/metadata/generation"),
            ("merge-patches: numbers keep their form", "3/body/metadata/resourceVersion"),
            ("merge-patches: numbers keep their form", "4/body/metadata/resourceVersion"),
            ("merge-patches: numbers keep their form", "5/body/metadata/resourceVersion"),
        ],
    },
    Difference {
        direction: Direction::AnswersOtherwise,
        reason: "A write that does not change the object keeps its resource version, also where a real server increments it.",
        places: &[
            ("namespaces: a namespace has a name label and a finalizer", "5/body/metadata/resourceVersion"),
            ("namespaces: a namespace has a name label and a finalizer", "7/body/metadata/resourceVersion"),
            ("namespaces: a namespace has a name label and a finalizer", "8/body/metadata/resourceVersion"),
            ("namespaces: a namespace has a name label and a finalizer", "9/body/metadata/resourceVersion"),
            ("namespaces: a namespace has a name label and a finalizer", "11/body/metadata/resourceVersion"),
        ],
    },
    Difference {
        direction: Direction::AnswersOtherwise,
        reason: "Clearing managed fields increments the resource version each time.",
        places: &[
            ("applies: managed fields can be cleared but not set", "6/body/metadata/resourceVersion"),
            ("applies: managed fields can be cleared but not set", "7/body/metadata/resourceVersion"),
        ],
    },
    Difference {
        direction: Direction::AnswersOtherwise,
        reason: "Descriptions and other texts for humans differ.",
        places: &[
            ("first: lists and watches with all parameters", "23/body/columnDefinitions/0/description"),
            ("watches: watches of tables and of metadata", "6/lines/0/object/columnDefinitions/0/description"),
            ("watches: watches of tables and of metadata", "6/lines/0/object/columnDefinitions/1/description"),
            ("first: access, reviews and rejected definitions", "9/body/status/error"),
            ("paths: health, version and other paths", "5/body"),
        ],
    },
    Difference {
        direction: Direction::AnswersOtherwise,
        reason: "Discovery has no hash of the storage version: only storage migrations use it.",
        places: &[
            ("first: objects are validated against the schema", "1/body/resources/0/storageVersionHash"),
            ("paths: groups and versions are listed", "2/body/resources/0/storageVersionHash"),
            ("paths: groups and versions are listed", "3/body/resources/0/storageVersionHash"),
        ],
    },
    Difference {
        direction: Direction::AnswersOtherwise,
        reason: "Answers are never protobuf.",
        places: &[
            ("reading: only some media types are served", "5/body/kind"),
            ("reading: only some media types are served", "5/type/0"),
        ],
    },
    Difference {
        direction: Direction::AnswersOtherwise,
        reason: "The list of OpenAPI documents has the content type JSON.",
        places: &[("paths: unknown tokens and anonymous requests", "11/type/0")],
    },
    Difference {
        direction: Direction::AnswersOtherwise,
        reason: "The first revision is above 1000, so that revision 1 has always expired.",
        places: &[("watches: a watch from an expired revision ends with an error", "2/body")],
    },
];
