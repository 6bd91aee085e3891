//! The metadata of an object, borrowed from the text, so that most events are dropped without parsing the rest.

use std::fmt;

use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::text::Text;

/// The kind and metadata of an object.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartialMetadata<'a> {
    /// The API group and version, which items of lists may lack.
    #[serde(borrow, default)]
    pub api_version: Option<Text<'a>>,
    /// The kind, which items of lists may lack.
    #[serde(borrow, default)]
    pub kind: Option<Text<'a>>,
    /// The metadata.
    #[serde(borrow, default)]
    pub metadata: Metadata<'a>,
}

/// The metadata of an object.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata<'a> {
    /// The name.
    #[serde(borrow, default)]
    pub name: Option<Text<'a>>,
    /// The namespace.
    #[serde(borrow, default)]
    pub namespace: Option<Text<'a>>,
    /// The unique id.
    #[serde(borrow, default)]
    pub uid: Option<Text<'a>>,
    /// The version of the object.
    #[serde(borrow, default)]
    pub resource_version: Option<Text<'a>>,
    /// When the object was created.
    #[serde(borrow, default)]
    pub creation_timestamp: Option<Text<'a>>,
    /// When the deletion was requested.
    #[serde(borrow, default)]
    pub deletion_timestamp: Option<Text<'a>>,
    /// How often the specification has changed.
    #[serde(default)]
    pub generation: Option<i64>,
    /// The finalizers.
    #[serde(borrow, default)]
    pub finalizers: Option<Vec<Text<'a>>>,
    #[serde(borrow, default)]
    labels: Option<&'a RawValue>,
    #[serde(borrow, default)]
    annotations: Option<&'a RawValue>,
}

impl<'a> PartialMetadata<'a> {
    /// Reads the kind and metadata of an object.
    ///
    /// # Errors
    /// If the text is not an object, or the metadata have wrong types.
    pub fn of(object: &'a str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(object)
    }

    /// Returns an object with only these metadata, for objects that cannot be parsed beyond them.
    pub fn to_object(&self, api_version: &str, kind: &str) -> Value {
        let texts = |pairs: Vec<(Text<'_>, Text<'_>)>| -> Value {
            pairs
                .into_iter()
                .map(|(key, value)| ((*key).to_owned(), Value::from(&*value)))
                .collect::<Map<_, _>>()
                .into()
        };
        let metadata = &self.metadata;
        let finalizers: Vec<&str> = metadata.finalizers.iter().flatten().map(|finalizer| &**finalizer).collect();
        let parts = [
            ("name", metadata.name.as_deref().map(Value::from)),
            ("namespace", metadata.namespace.as_deref().map(Value::from)),
            ("uid", metadata.uid.as_deref().map(Value::from)),
            ("resourceVersion", metadata.resource_version.as_deref().map(Value::from)),
            ("creationTimestamp", metadata.creation_timestamp.as_deref().map(Value::from)),
            ("deletionTimestamp", metadata.deletion_timestamp.as_deref().map(Value::from)),
            ("generation", metadata.generation.map(Value::from)),
            ("finalizers", (!finalizers.is_empty()).then(|| json!(finalizers))),
            ("labels", metadata.labels.map(|labels| texts(pairs(labels)))),
            ("annotations", metadata.annotations.map(|annotations| texts(pairs(annotations)))),
        ];
        let metadata: Map<String, Value> =
            parts.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect();
        json!({"apiVersion": api_version, "kind": kind, "metadata": metadata})
    }

    /// Returns the name, or an empty text.
    pub fn name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }

    /// Returns the namespace; cluster-scoped objects have none.
    pub fn namespace(&self) -> Option<&str> {
        self.metadata.namespace.as_deref()
    }

    /// Returns the unique id.
    pub fn uid(&self) -> Option<&str> {
        self.metadata.uid.as_deref()
    }

    /// Returns the version of the object.
    pub fn resource_version(&self) -> Option<&str> {
        self.metadata.resource_version.as_deref()
    }

    /// Tells whether a deletion was requested.
    pub fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Tells whether one of the finalizers is this one.
    pub fn has_finalizer(&self, finalizer: &str) -> bool {
        self.metadata.finalizers.iter().flatten().any(|found| **found == *finalizer)
    }

    /// Returns one label.
    pub fn label(&self, key: &str) -> Option<Text<'a>> {
        self.metadata.labels.and_then(|labels| find(labels, key))
    }

    /// Returns one annotation.
    pub fn annotation(&self, key: &str) -> Option<Text<'a>> {
        self.metadata.annotations.and_then(|annotations| find(annotations, key))
    }

    /// Returns all the labels.
    pub fn labels(&self) -> Vec<(Text<'a>, Text<'a>)> {
        self.metadata.labels.map(pairs).unwrap_or_default()
    }

    /// Returns all the annotations.
    pub fn annotations(&self) -> Vec<(Text<'a>, Text<'a>)> {
        self.metadata.annotations.map(pairs).unwrap_or_default()
    }
}

/// Returns the value of a key in a mapping of texts. Other values count as absent.
fn find<'a>(mapping: &'a RawValue, key: &str) -> Option<Text<'a>> {
    struct Find<'k>(&'k str);
    impl<'de> Visitor<'de> for Find<'_> {
        type Value = Option<Text<'de>>;
        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a mapping")
        }
        fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
            let mut found = None;
            while let Some(key) = map.next_key::<Text<'de>>()? {
                if *key == *self.0 {
                    found = text_of(map.next_value()?);
                } else {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            Ok(found)
        }
    }
    serde_json::Deserializer::from_str(mapping.get()).deserialize_map(Find(key)).ok().flatten()
}

fn pairs(mapping: &RawValue) -> Vec<(Text<'_>, Text<'_>)> {
    struct Pairs;
    impl<'de> Visitor<'de> for Pairs {
        type Value = Vec<(Text<'de>, Text<'de>)>;
        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a mapping")
        }
        fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Self::Value, M::Error> {
            let mut found = Vec::new();
            while let Some((key, value)) = map.next_entry::<Text<'de>, &'de RawValue>()? {
                found.extend(text_of(value).map(|value| (key, value)));
            }
            Ok(found)
        }
    }
    serde_json::Deserializer::from_str(mapping.get()).deserialize_map(Pairs).unwrap_or_default()
}

fn text_of(value: &RawValue) -> Option<Text<'_>> {
    serde_json::from_str(value.get()).ok()
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    const OBJECT: &str = r#"{"spec":{"big":[1,2,{"a":"}"}]},"metadata":{"name":"a","namespace":"n\u0073","uid":"u","resourceVersion":"5",
        "labels":{"app":"x","odd":1},"annotations":{"a/b":"say \"hi\"","c":null},"finalizers":["f","g"],"deletionTimestamp":null,
        "generation":3,"managedFields":[{"manager":"x"}]},"kind":"K"}"#;

    #[test]
    fn a_head_borrows_from_the_text() {
        let head = PartialMetadata::of(OBJECT).unwrap();
        assert!(matches!(head.metadata.name, Some(Text(Cow::Borrowed("a")))));
        assert_eq!(
            (head.name(), head.namespace(), head.uid(), head.resource_version()),
            ("a", Some("ns"), Some("u"), Some("5"))
        );
        assert!(head.has_finalizer("g") && !head.has_finalizer("h") && !head.is_deleting());
        assert_eq!((head.kind.as_deref(), head.api_version, head.metadata.generation), (Some("K"), None, Some(3)));
    }

    #[test]
    fn an_object_can_consist_of_metadata_only() {
        let object = PartialMetadata::of(OBJECT).unwrap().to_object("v1", "K");
        let expected = json!({"apiVersion": "v1", "kind": "K", "metadata": {
            "name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "5", "generation": 3, "finalizers": ["f", "g"],
            "labels": {"app": "x"}, "annotations": {"a/b": "say \"hi\""},
        }});
        assert_eq!(object, expected);
    }

    #[test]
    fn labels_and_annotations_are_found_one_by_one() {
        let head = PartialMetadata::of(OBJECT).unwrap();
        assert_eq!(head.label("app").as_deref(), Some("x"));
        assert_eq!((head.label("odd"), head.label("none")), (None, None));
        assert_eq!(head.annotation("a/b").as_deref(), Some("say \"hi\""));
        assert_eq!((head.labels().len(), head.annotations().len()), (1, 1));
    }

    #[test]
    fn an_empty_object_has_an_empty_head() {
        let head = PartialMetadata::of("{}").unwrap();
        assert_eq!((head.name(), head.uid()), ("", None));
        assert!(PartialMetadata::of("1").is_err() && PartialMetadata::of("{\"metadata\":{\"name\":1}}").is_err());
    }
}
