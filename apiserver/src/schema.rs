//! Structural schemas of custom resources: pruning, defaults, and validation.
//!
//! They resemble JSON Schema, but differ: nodes have one type, unknown fields are dropped, and rules compare with the
//! old object.

mod defaults;
pub(crate) mod field_error;
pub(crate) mod formats;
pub(crate) mod metadata;
mod node;
mod parse;
mod prune;
mod rule_fields;
#[cfg(feature = "cel")]
mod rules;
mod structure;
mod types;
mod values;

use serde_json::Value;

use self::field_error::FieldPath;
use crate::http::api_error::FieldError;
use crate::kinds::kind::Scale;
use prune::Pruning;

pub(crate) use node::{Node, Type};

/// A schema of a custom resource in one version.
#[derive(Debug, Clone)]
pub struct Schema {
    root: Node,
    has_rules: bool,
    unenforced: Vec<String>,
}

/// The errors of an object.
#[derive(Debug, Default)]
pub struct Verdict {
    /// The errors.
    pub causes: Vec<FieldError>,
    /// Errors in unchanged values, as warnings for the client.
    pub warnings: Vec<String>,
}

/// Reasons of errors that cause rules and other late checks to be skipped.
const BLOCKING: [&str; 5] =
    ["FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueNotSupported", "FieldValueTypeInvalid"];

impl Schema {
    /// Returns the schema of an `openAPIV3Schema`.
    ///
    /// # Errors
    /// All errors of the schema; their fields begin with `openAPIV3Schema`.
    pub fn parse(schema: &Value) -> Result<Self, Vec<FieldError>> {
        let (schema, mistakes) = Self::read(schema)?;
        if mistakes.is_empty() { Ok(schema) } else { Err(mistakes) }
    }

    /// Returns an `openAPIV3Schema` that was accepted earlier, possibly by a less strict version of the server.
    ///
    /// # Errors
    /// All errors of the schema, except those of rules, which are then not enforced.
    pub fn parse_stored(schema: &Value) -> Result<Self, Vec<FieldError>> {
        let (mut schema, mistakes) = Self::read(schema)?;
        schema.unenforced.extend(mistakes.iter().map(unenforced));
        Ok(schema)
    }

    /// Returns a schema, and the errors of its rules.
    fn read(schema: &Value) -> Result<(Self, Vec<FieldError>), Vec<FieldError>> {
        parse::Parser::default().read(schema).map(Self::compiled)
    }

    #[cfg(feature = "cel")]
    fn compiled(mut root: Node) -> (Self, Vec<FieldError>) {
        let found = rules::compile(&mut root, "openAPIV3Schema");
        (Self { has_rules: root.has_rules(), root, unenforced: found.unenforced }, found.causes)
    }

    #[cfg(not(feature = "cel"))]
    fn compiled(root: Node) -> (Self, Vec<FieldError>) {
        let has_rules = root.has_rules();
        let text =
            "openAPIV3Schema: x-kubernetes-validations are not enforced: this server was built without the feature cel";
        (Self { has_rules, root, unenforced: has_rules.then(|| text.to_owned()).into_iter().collect() }, Vec::new())
    }

    /// Returns the schema's outermost node.
    pub fn root(&self) -> &Node {
        &self.root
    }

    /// Returns messages about rules that are not enforced, with the reasons.
    pub fn unenforced(&self) -> &[String] {
        &self.unenforced
    }

    /// Drops unknown fields, and returns their paths in order. The object's metadata is unchanged.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        Pruning::default().root(&self.root, object)
    }

    /// Returns the fields that cannot be owned, because the schema does not have them. An object without declared
    /// fields may have any.
    pub fn undeclared(&self, object: &Value) -> Vec<String> {
        Pruning::sparing_bare_objects().root(&self.root, &mut object.clone())
    }

    /// Drops unknown fields, and fills in the defaults. Returns the paths of dropped fields.
    pub fn conform(&self, object: &mut Value) -> Vec<String> {
        let dropped = self.prune(object);
        self.fill_defaults(object);
        dropped
    }

    /// Returns the error of Go's decoder for embedded objects with wrong types.
    pub fn undecodable(&self, object: &Value) -> Option<String> {
        structure::undecodable(&self.root, object, &FieldPath::Root)
    }

    /// Fills in the defaults, and drops nulls that are neither allowed nor replaced.
    pub fn fill_defaults(&self, object: &mut Value) {
        self.replace_with_defaults(object);
        defaults::drop_nulls(&self.root, object);
    }

    /// Fills in the defaults, also for nulls that are not allowed. Other nulls stay.
    pub fn replace_with_defaults(&self, object: &mut Value) {
        defaults::fill(&self.root, object);
    }

    /// Returns the errors of an object. Errors in values unchanged from the old object are ignored.
    pub fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        self.validate_after(Vec::new(), None, new, old).causes
    }

    /// Returns the errors of an object, in the server's order: first the given errors of the metadata, then values,
    /// scale, lists and rules.
    pub fn validate_after(
        &self,
        found: Vec<FieldError>,
        scale: Option<&Scale>,
        new: &Value,
        old: Option<&Value>,
    ) -> Verdict {
        let mut causes = found;
        values::check(&self.root, new, old, &FieldPath::Root, &mut causes);
        if let Some(scale) = scale {
            values::check_scale(scale, new, &mut causes);
        }
        structure::check_embedded(&self.root, new, old, &FieldPath::Root, &mut causes);
        structure::check_lists(&self.root, new, old, &FieldPath::Root, &mut causes);
        let mut verdict = Verdict { causes, warnings: self.unenforced.clone() };
        if self.has_rules {
            self.check_rules(new, old, &mut verdict);
        }
        verdict
    }

    /// Tells whether a path such as `.spec.color` is that of a text, an integer, or a boolean, so that objects can be
    /// selected by it.
    pub fn is_selectable(&self, path: &str) -> bool {
        let node = path
            .split('.')
            .filter(|name| !name.is_empty())
            .try_fold(&self.root, |node, name| node.properties.get(name));
        node.is_some_and(|node| matches!(node.kind, Some(Type::String | Type::Integer | Type::Boolean)))
    }

    #[cfg_attr(
        not(feature = "cel"),
        expect(clippy::unused_self, reason = "rules are evaluated by the feature `cel` only")
    )]
    fn check_rules(&self, new: &Value, old: Option<&Value>, verdict: &mut Verdict) {
        if verdict.causes.iter().any(|cause| BLOCKING.contains(&cause.reason.as_str())) {
            let text = "some validation rules were not checked because the object was invalid; \
                        correct the existing errors to complete validation";
            verdict.causes.push(field_error::invalid("<nil>", &Value::Null, text));
            return;
        }
        #[cfg(feature = "cel")]
        {
            let found = rules::validate(&self.root, new, old);
            verdict.causes.extend(found.causes);
            verdict
                .warnings
                .extend(found.forgiven.into_iter().map(|cause| format!("{}: {}", cause.field, cause.message)));
        }
        #[cfg(not(feature = "cel"))]
        let _ = (new, old);
    }
}

/// Returns the message about a stored rule with an error, in one line, since it becomes a header: without the excerpts
/// of the expression.
fn unenforced(cause: &FieldError) -> String {
    let lines: Vec<&str> = cause.message.lines().filter(|line| !line.starts_with(" | ")).collect();
    format!("{}: the rule is not enforced: {}", cause.field, lines.join("; "))
}

#[cfg(test)]
mod tests;
