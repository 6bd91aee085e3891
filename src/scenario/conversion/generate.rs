//! Generates objects of an OpenAPI schema. The same numbers give the same objects.
//!
//! Lists, texts and the presence of optional fields grow with the number of the object, so that the first ones are
//! small. Rules of the schema beyond single values (CEL, `anyOf`, …) are not considered: the caller checks the objects.

use regex::Regex;
use serde_json::{Map, Number, Value, json};

use super::super::rng::Rng;

/// The deepest level with optional fields: schemas may be deep.
const MAX_DEPTH: usize = 12;

/// Texts that patterns are tried with.
const TEXTS: [&str; 24] = [
    "a",
    "b",
    "web",
    "a-1",
    "A",
    "Ab",
    "0",
    "1",
    "42",
    "1.5",
    "v1",
    "1.2.3",
    "10m",
    "30s",
    "1h",
    "5Gi",
    "500Mi",
    "100m",
    "a.example.com",
    "https://example.com",
    "10.0.0.0/8",
    "*/5 * * * *",
    "50%",
    "a_b",
];

/// The reason why no object can be generated: a required text has a pattern that nothing known matches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Impossible {
    /// The path of the field.
    pub(super) path: String,
    /// Its pattern.
    pub(super) pattern: String,
}

/// Generates one object.
pub(super) struct Generator {
    rng: Rng,
    /// How many of 100 optional fields are there.
    density: u64,
    /// The most further items of a list.
    items: u64,
}

impl Generator {
    /// Returns the generator of an object by its number, which also sets its size.
    pub(super) fn new(seed: u64, number: usize) -> Self {
        let number = number as u64;
        let mut rng = Rng(seed ^ number.wrapping_mul(0x2545_f491_4f6c_dd1d));
        let density = [0, 30, 60, 90, 100][(number.min(4)) as usize].min(rng.below(150));
        Self { density: if number < 2 { number * 100 } else { density }, items: number.min(3), rng }
    }

    /// Generates an object of a kind.
    ///
    /// # Errors
    /// If a required text cannot be generated.
    pub(super) fn object(
        &mut self,
        schema: &Value,
        api_version: &str,
        kind: &str,
        namespace: Option<&str>,
    ) -> Result<Value, Impossible> {
        let mut object = match self.value(schema, "", 0)? {
            Value::Object(map) => map,
            _ => Map::new(),
        };
        let mut metadata = json!({"name": "generated", "uid": "00000000-0000-4000-8000-000000000000"});
        if let Some(namespace) = namespace {
            metadata["namespace"] = json!(namespace);
        }
        for key in ["labels", "annotations"] {
            if self.rng.percent(self.density / 2) {
                metadata[key] = json!({"example.com/kept": self.pick(&["a", "b"])});
            }
        }
        object.insert("apiVersion".to_owned(), json!(api_version));
        object.insert("kind".to_owned(), json!(kind));
        object.insert("metadata".to_owned(), metadata);
        Ok(Value::Object(object))
    }

    fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.rng.below(choices.len() as u64) as usize]
    }

    fn value(&mut self, schema: &Value, path: &str, depth: usize) -> Result<Value, Impossible> {
        if let Some(choices) = schema["enum"].as_array().filter(|choices| !choices.is_empty()) {
            return Ok(choices[self.rng.below(choices.len() as u64) as usize].clone());
        }
        if schema["nullable"] == true && depth > 0 && self.rng.percent(self.density / 5) {
            return Ok(Value::Null);
        }
        if schema["x-kubernetes-int-or-string"] == true {
            return Ok(if self.rng.percent(50) { json!(self.rng.below(100)) } else { json!("50%") });
        }
        Ok(match schema["type"].as_str() {
            Some("object") => Value::Object(self.map(schema, path, depth)?),
            Some("array") => self.list(schema, path, depth)?,
            Some("string") => json!(self.text(schema, path)?),
            Some("integer") => self.integer(schema),
            Some("number") => self.number(schema),
            Some("boolean") => json!(self.rng.percent(50)),
            _ => json!({"free": self.rng.below(10)}),
        })
    }

    fn map(&mut self, schema: &Value, path: &str, depth: usize) -> Result<Map<String, Value>, Impossible> {
        let mut map = Map::new();
        if schema["x-kubernetes-embedded-resource"] == true {
            let embedded = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "embedded"}});
            map.extend(embedded.as_object().cloned().unwrap_or_default());
        }
        let is_required =
            |name: &str| schema["required"].as_array().is_some_and(|required| required.iter().any(|one| one == name));
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            // Those of the outermost object are not the schema's own.
            if depth == 0 && ["apiVersion", "kind", "metadata"].contains(&name.as_str()) {
                continue;
            }
            let is_needed = is_required(name);
            let is_wanted = depth == 0 || (depth < MAX_DEPTH && self.rng.percent(self.density));
            if !is_needed && !is_wanted {
                continue;
            }
            match self.value(property, &below(path, name), depth + 1) {
                Ok(value) => drop(map.insert(name.clone(), value)),
                // Without its outermost fields, an object would test nothing.
                Err(impossible) if is_needed || depth == 0 => return Err(impossible),
                Err(_) => {}
            }
        }
        let wanted = schema["minProperties"].as_u64().unwrap_or_default().max(self.rng.below(self.items + 1));
        let wanted = schema["maxProperties"].as_u64().map_or(wanted, |most| wanted.min(most));
        match &schema["additionalProperties"] {
            Value::Object(_) => {
                for number in 0..wanted {
                    let value = self.value(&schema["additionalProperties"], &below(path, "*"), depth + 1)?;
                    map.insert(format!("key-{number}"), value);
                }
            }
            Value::Bool(true) if wanted > 0 => drop(map.insert("free".to_owned(), json!(self.rng.below(10)))),
            _ if schema["x-kubernetes-preserve-unknown-fields"] == true
                && depth > 0
                && self.rng.percent(self.density) =>
            {
                map.insert("free".to_owned(), json!({"number": self.rng.below(10), "texts": ["a"]}));
            }
            _ => {}
        }
        Ok(map)
    }

    /// Items of sets and of lists with keys are made different.
    fn list(&mut self, schema: &Value, path: &str, depth: usize) -> Result<Value, Impossible> {
        let least = schema["minItems"].as_u64().unwrap_or_default();
        let length = least + if depth < MAX_DEPTH { self.rng.below(self.items + 1) } else { 0 };
        let length = schema["maxItems"].as_u64().map_or(length, |most| length.min(most));
        let keys: Vec<&str> =
            schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let is_set = schema["x-kubernetes-list-type"] == "set" || schema["uniqueItems"] == true;
        let mut items: Vec<Value> = Vec::new();
        for _ in 0..length {
            let item = self.value(&schema["items"], &format!("{path}[]"), depth + 1)?;
            let is_same =
                |other: &Value| if is_set { *other == item } else { keys.iter().all(|key| other[*key] == item[*key]) };
            if (is_set || !keys.is_empty()) && items.iter().any(is_same) {
                continue;
            }
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn text(&mut self, schema: &Value, path: &str) -> Result<String, Impossible> {
        let by_format = match schema["format"].as_str() {
            Some("date-time") => Some(["2020-01-01T00:00:00Z", "2031-12-31T23:59:59Z"]),
            Some("date") => Some(["2020-01-01", "2031-12-31"]),
            Some("duration") => Some(["30s", "1h30m0s"]),
            Some("byte") => Some(["YQ==", "AAEC"]),
            Some("ipv4" | "ip") => Some(["10.0.0.1", "192.168.1.254"]),
            Some("ipv6") => Some(["::1", "fd00::1"]),
            Some("cidr") => Some(["10.0.0.0/8", "192.168.1.0/24"]),
            Some("uuid" | "uuid4") => {
                Some(["00000000-0000-4000-8000-000000000001", "00000000-0000-4000-9000-000000000002"])
            }
            Some("email") => Some(["a@example.com", "b.c@example.com"]),
            Some("hostname") => Some(["a.example.com", "b"]),
            Some("uri") => Some(["https://example.com", "https://example.com/a"]),
            _ => None,
        };
        if let Some(choices) = by_format {
            return Ok(self.pick(&choices).to_owned());
        }
        let (least, most) =
            (schema["minLength"].as_u64().unwrap_or_default(), schema["maxLength"].as_u64().unwrap_or(u64::MAX));
        let fits = |text: &str| (least..=most).contains(&(text.chars().count() as u64));
        if let Some(pattern) = schema["pattern"].as_str() {
            let regex = Regex::new(pattern).ok();
            let own: Vec<&str> = ["default", "example"].iter().filter_map(|key| schema[*key].as_str()).collect();
            let known = TEXTS.into_iter().chain(own);
            let matching: Vec<&str> =
                known.filter(|text| fits(text) && regex.as_ref().is_some_and(|regex| regex.is_match(text))).collect();
            if matching.is_empty() {
                return Err(Impossible { path: path.to_owned(), pattern: pattern.to_owned() });
            }
            return Ok(self.pick(&matching).to_owned());
        }
        let words = ["", "a", "Some words", "ä ö ü", "1", "true", "null", "a: b", "\u{1f600}", "-"];
        let fitting: Vec<&str> = words.into_iter().filter(|text| fits(text)).collect();
        Ok(if fitting.is_empty() { "x".repeat(least.min(1_000) as usize) } else { self.pick(&fitting).to_owned() })
    }

    fn integer(&mut self, schema: &Value) -> Value {
        let step = schema["multipleOf"].as_i64().unwrap_or(1).max(1);
        let (least, most) = bounds(schema);
        let least = least.unwrap_or_else(|| most.map_or(-3.0, |most| most - 100.0)).ceil() as i64;
        let most = most.map_or(least.saturating_add(1_000), |most| most.floor() as i64).max(least);
        let width = most.abs_diff(least).saturating_add(1);
        let drawn = match self.rng.below(4) {
            0 => least,
            1 => most,
            2 if (least..=most).contains(&0) => 0,
            _ => least.saturating_add_unsigned(self.rng.below(width)),
        };
        let whole = drawn.div_euclid(step) * step;
        json!(if whole < least { whole + step } else { whole })
    }

    fn number(&mut self, schema: &Value) -> Value {
        let (least, most) = bounds(schema);
        let least = least.unwrap_or_else(|| most.map_or(-3.0, |most| most - 100.0));
        let most = most.unwrap_or(least + 1_000.0);
        let drawn = match self.rng.below(3) {
            0 => least,
            1 => most,
            _ => least + (most - least) * (self.rng.below(8) as f64) / 8.0,
        };
        Number::from_f64(drawn).map_or(Value::from(0), Value::Number)
    }
}

/// Returns the least and the greatest number of a schema.
fn bounds(schema: &Value) -> (Option<f64>, Option<f64>) {
    let bound = |key: &str, exclusive: &str, inward: f64| {
        schema[key].as_f64().map(|bound| if schema[exclusive] == true { bound + inward } else { bound })
    };
    (bound("minimum", "exclusiveMinimum", 1.0), bound("maximum", "exclusiveMaximum", -1.0))
}

fn below(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::apiserver::Schema;

    fn of(schema: &Value, number: usize) -> Result<Value, Impossible> {
        Generator::new(7, number).object(schema, "a.io/v1", "Thing", Some("default"))
    }

    fn rich() -> Value {
        json!({"type": "object", "properties": {"spec": {
            "type": "object", "required": ["name", "size"], "properties": {
                "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 3},
                "size": {"type": "integer", "minimum": 3, "maximum": 9, "multipleOf": 3},
                "ratio": {"type": "number", "minimum": 0.0, "maximum": 1.0},
                "mode": {"type": "string", "enum": ["slow", "fast"]},
                "at": {"type": "string", "format": "date-time", "nullable": true},
                "port": {"x-kubernetes-int-or-string": true},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 2},
                "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string", "enum": ["a", "b"]}},
                "ports": {
                    "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port"], "minItems": 1,
                    "items": {"type": "object", "required": ["port"], "properties": {"port": {"type": "integer", "minimum": 1}}},
                },
                "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "quite": {"type": "string", "pattern": "^nothing like this is known$"},
            },
        }}})
    }

    #[test]
    fn objects_are_valid_different_and_the_same_for_the_same_number() {
        let (text, parsed) = (rich(), Schema::parse(&rich()).unwrap());
        let objects: Vec<Value> = (0..200).map(|number| of(&text, number).unwrap()).collect();
        for (number, object) in objects.iter().enumerate() {
            assert!(
                parsed.validate(object, None).is_empty(),
                "{number}: {object}: {:?}",
                parsed.validate(object, None)
            );
            assert!(parsed.prune(&mut object.clone()).is_empty(), "{object}");
            assert_eq!(*object, of(&text, number).unwrap());
        }
        let kinds: std::collections::BTreeSet<String> = objects.iter().map(Value::to_string).collect();
        assert!(kinds.len() > 150, "{}", kinds.len());
        for field in ["ratio", "mode", "at", "port", "labels", "tags", "ports", "any"] {
            assert!(objects.iter().any(|object| object["spec"].get(field).is_some()), "{field}");
        }
        let has_null = |object: &Value| object["spec"].get("at").is_some_and(Value::is_null);
        assert!(objects.iter().any(has_null) && objects.iter().all(|object| object["spec"].get("quite").is_none()));
    }

    #[test]
    fn the_first_object_has_only_what_is_required() {
        let first = of(&rich(), 0).unwrap();
        let keys: Vec<&String> = first["spec"].as_object().unwrap().keys().collect();
        assert_eq!(keys, ["name", "size"]);
    }

    #[test]
    fn a_required_text_of_an_unknown_form_is_told() {
        let mut schema = rich();
        schema["properties"]["spec"]["required"] = json!(["quite"]);
        let impossible = of(&schema, 0).unwrap_err();
        assert_eq!(
            (impossible.path.as_str(), impossible.pattern.as_str()),
            ("spec.quite", "^nothing like this is known$")
        );
    }
}
