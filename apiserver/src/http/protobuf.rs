//! Requests in protobuf: the envelope of Kubernetes and the messages of the built-in kinds. Answers are never in
//! protobuf.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::http::api_error::ApiError;
use crate::kinds::messages::{self, Field, Form, Message, Zero};

/// The prefix of protobuf bodies.
pub const MAGIC: &[u8] = b"k8s\0";

/// Decodes a body into the equivalent JSON object, with its `apiVersion` and `kind`.
///
/// # Errors
///
/// 400 for invalid messages, 415 for kinds with unknown messages.
pub fn decode(body: &[u8]) -> Result<Value, ApiError> {
    let mut unknown = Reader(
        body.strip_prefix(MAGIC).ok_or_else(|| broken("it does not start with the magic number of Kubernetes"))?,
    );
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    while let Some((number, wire)) = unknown.field()? {
        match (number, wire) {
            (1, Wire::Bytes(bytes)) => {
                let mut meta = Reader(bytes);
                while let Some((number, wire)) = meta.field()? {
                    match (number, wire) {
                        (1, Wire::Bytes(text)) => api_version = string(text)?,
                        (2, Wire::Bytes(text)) => kind = string(text)?,
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let message = messages::of_kind(group, version, &kind).ok_or_else(|| unsupported(&api_version, &kind))?;
    let mut object = message.decode(raw)?;
    if let Value::Object(members) = &mut object {
        members.insert("apiVersion".to_owned(), json!(api_version));
        members.insert("kind".to_owned(), json!(kind));
    }
    Ok(object)
}

fn broken(what: &str) -> ApiError {
    ApiError::bad_request(format!("the body cannot be decoded as protobuf: {what}"))
}

fn unsupported(api_version: &str, kind: &str) -> ApiError {
    let text = format!(
        "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml \
         (objects of {api_version} {kind} are not known in protobuf)"
    );
    ApiError::new(415, "UnsupportedMediaType", text)
}

impl Message {
    fn decode(&self, bytes: &[u8]) -> Result<Value, ApiError> {
        match self.name {
            "meta.Time" | "meta.MicroTime" => return self.time(bytes),
            "meta.FieldsV1" | "runtime.RawExtension" => return raw_json(bytes),
            "resource.Quantity" => return quantity(bytes),
            "util.intstr.IntOrString" => return int_or_string(bytes),
            _ => {}
        }
        let mut object = Map::new();
        let mut reader = Reader(bytes);
        while let Some((number, wire)) = reader.field()? {
            if let Some(field) = self.fields.iter().find(|field| field.number == number) {
                field.decode(wire, &mut object)?;
            }
        }
        // A named list of strings is a list in JSON.
        if self.name.ends_with(".ExtraValue") {
            return Ok(object.remove("items").unwrap_or_else(|| json!([])));
        }
        Ok(Value::Object(object))
    }

    /// The zero time is an absent field.
    fn time(&self, bytes: &[u8]) -> Result<Value, ApiError> {
        let (mut seconds, mut nanos) = (0, 0);
        let mut reader = Reader(bytes);
        while let Some((number, wire)) = reader.field()? {
            match (number, wire) {
                (1, Wire::Number(number)) => seconds = number as i64,
                (2, Wire::Number(number)) => nanos = number as i32,
                _ => {}
            }
        }
        if seconds == 0 && nanos == 0 {
            return Ok(Value::Null);
        }
        let time = Timestamp::new(seconds, nanos).map_err(|_| broken("a time is out of range"))?;
        let format = if self.name == "meta.Time" { "%Y-%m-%dT%H:%M:%SZ" } else { "%Y-%m-%dT%H:%M:%S.%6fZ" };
        Ok(json!(time.strftime(format).to_string()))
    }
}

fn raw_json(bytes: &[u8]) -> Result<Value, ApiError> {
    let mut value = Value::Null;
    let mut reader = Reader(bytes);
    while let Some((number, wire)) = reader.field()? {
        if let (1, Wire::Bytes(raw)) = (number, wire) {
            value = serde_json::from_slice(raw).map_err(|error| broken(&error.to_string()))?;
        }
    }
    Ok(value)
}

fn quantity(bytes: &[u8]) -> Result<Value, ApiError> {
    let mut text = String::new();
    let mut reader = Reader(bytes);
    while let Some((number, wire)) = reader.field()? {
        if let (1, Wire::Bytes(bytes)) = (number, wire) {
            text = string(bytes)?;
        }
    }
    Ok(json!(if text.is_empty() { "0" } else { &text }))
}

fn int_or_string(bytes: &[u8]) -> Result<Value, ApiError> {
    let (mut is_text, mut number, mut text) = (false, 0, String::new());
    let mut reader = Reader(bytes);
    while let Some((field, wire)) = reader.field()? {
        match (field, wire) {
            (1, Wire::Number(kind)) => is_text = kind == 1,
            (2, Wire::Number(value)) => number = value as i32,
            (3, Wire::Bytes(bytes)) => text = string(bytes)?,
            _ => {}
        }
    }
    Ok(if is_text { json!(text) } else { json!(number) })
}

impl Field {
    fn decode(&self, wire: Wire<'_>, object: &mut Map<String, Value>) -> Result<(), ApiError> {
        match self.form {
            Form::One if self.is_inline() => {
                if let Value::Object(members) = self.value(wire)? {
                    object.extend(members);
                }
            }
            Form::One => {
                let value = self.value(wire)?;
                let is_nothing = match &value {
                    Value::Null => true,
                    Value::String(text) => text.is_empty() && self.of == "string",
                    Value::Number(number) => self.when_zero == Zero::Dropped && number.as_i64() == Some(0),
                    Value::Bool(is) => self.when_zero == Zero::Dropped && !is,
                    _ => false,
                };
                if !is_nothing {
                    object.insert(self.name.to_owned(), value);
                }
            }
            Form::List => {
                let value = self.value(wire)?;
                let list = object.entry(self.name).or_insert_with(|| json!([]));
                list.as_array_mut().expect("the table gives it one form").push(value);
            }
            Form::Map => {
                let Wire::Bytes(bytes) = wire else { return Err(self.wrong()) };
                let (mut key, mut value) = (String::new(), None);
                let mut reader = Reader(bytes);
                while let Some((number, wire)) = reader.field()? {
                    match (number, wire) {
                        (1, Wire::Bytes(text)) => key = string(text)?,
                        (2, wire) => value = Some(self.value(wire)?),
                        _ => {}
                    }
                }
                let value = value.map_or_else(|| self.value(Wire::Bytes(&[])), Ok)?;
                let map = object.entry(self.name).or_insert_with(|| json!({}));
                map.as_object_mut().expect("the table gives it one form").insert(key, value);
            }
        }
        Ok(())
    }

    fn value(&self, wire: Wire<'_>) -> Result<Value, ApiError> {
        match (self.of, wire) {
            ("string", Wire::Bytes(text)) => string(text).map(Value::String),
            ("bytes", Wire::Bytes(bytes)) => Ok(json!(STANDARD.encode(bytes))),
            ("bool", Wire::Number(number)) => Ok(json!(number != 0)),
            ("int32", Wire::Number(number)) => Ok(json!(number as i32)),
            ("int64", Wire::Number(number)) => Ok(json!(number as i64)),
            (of, Wire::Bytes(bytes)) => messages::find(of).ok_or_else(|| self.wrong())?.decode(bytes),
            _ => Err(self.wrong()),
        }
    }

    fn wrong(&self) -> ApiError {
        broken(&format!("the field {} is not of type {}", self.name, self.of))
    }
}

fn string(bytes: &[u8]) -> Result<String, ApiError> {
    String::from_utf8(bytes.to_vec()).map_err(|_| broken("a string is not UTF-8"))
}

/// The unread part of a message.
struct Reader<'a>(&'a [u8]);

/// The wire form of a field's value. Fixed-size numbers are not used by the known messages.
enum Wire<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Fixed,
}

impl<'a> Reader<'a> {
    fn field(&mut self) -> Result<Option<(u64, Wire<'a>)>, ApiError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let wire = match tag & 7 {
            0 => Wire::Number(self.varint()?),
            1 => self.bytes(8).map(|_| Wire::Fixed)?,
            2 => {
                let length = self.varint()?;
                Wire::Bytes(self.bytes(usize::try_from(length).unwrap_or(usize::MAX))?)
            }
            5 => self.bytes(4).map(|_| Wire::Fixed)?,
            _ => return Err(broken("an unknown wire type")),
        };
        Ok(Some((tag >> 3, wire)))
    }

    fn varint(&mut self) -> Result<u64, ApiError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first().ok_or_else(|| broken("it ends in the middle"))?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(broken("a number is too long"))
    }

    fn bytes(&mut self, length: usize) -> Result<&'a [u8], ApiError> {
        let (bytes, rest) = self.0.split_at_checked(length).ok_or_else(|| broken("it ends in the middle"))?;
        self.0 = rest;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(number: u8, content: &[u8]) -> Vec<u8> {
        let mut field = vec![number << 3 | 2];
        let mut length = content.len();
        while length > 0x7f {
            field.push(length as u8 | 0x80);
            length >>= 7;
        }
        field.push(length as u8);
        field.extend(content);
        field
    }

    fn number(field: u8, value: u8) -> Vec<u8> {
        vec![field << 3, value]
    }

    fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
        let meta = [bytes(1, api_version.as_bytes()), bytes(2, kind.as_bytes())].concat();
        [MAGIC.to_vec(), bytes(1, &meta), bytes(2, raw), bytes(3, b""), bytes(4, b"")].concat()
    }

    #[test]
    fn a_config_map_is_read_with_its_maps() {
        let meta = bytes(1, &[bytes(1, b"c1"), bytes(2, b""), bytes(8, b""), number(7, 0)].concat());
        let entry = bytes(2, &[bytes(1, b"a"), bytes(2, b"1")].concat());
        let empty = bytes(2, &bytes(1, b"e"));
        let binary = bytes(3, &[bytes(1, b"b"), bytes(2, b"\x00\xff")].concat());
        let decoded = decode(&envelope("v1", "ConfigMap", &[meta, entry, empty, binary, number(4, 0)].concat()));
        let wanted = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c1"}, "data": {"a": "1", "e": ""},
            "binaryData": {"b": "AP8="}, "immutable": false});
        assert_eq!(decoded, Ok(wanted));
    }

    #[test]
    fn a_lease_has_times_with_six_digits() {
        let time = [vec![1 << 3, 0x80, 0xa8, 0xd6, 0xb9, 0x06], vec![2 << 3, 0xe8, 0x07]].concat();
        let spec = [bytes(1, b"me"), number(2, 15), bytes(4, &time), number(5, 0)].concat();
        let decoded = decode(&envelope("coordination.k8s.io/v1", "Lease", &bytes(2, &spec))).unwrap();
        let renewed = decoded["spec"]["renewTime"].as_str().unwrap();
        assert!(renewed.starts_with("20") && renewed.ends_with(".000001Z"), "{renewed}");
        assert_eq!(
            (&decoded["spec"]["leaseDurationSeconds"], &decoded["spec"]["leaseTransitions"]),
            (&json!(15), &json!(0))
        );
    }

    #[test]
    fn ports_are_numbers_or_names() {
        let target = |content: Vec<u8>| bytes(2, &bytes(1, &bytes(4, &content)));
        let port = |content| decode(&envelope("v1", "Service", &target(content))).unwrap()["spec"]["ports"][0].clone();
        assert_eq!(port([number(1, 0), number(2, 80), bytes(3, b"")].concat()), json!({"targetPort": 80}));
        assert_eq!(port([number(1, 1), bytes(3, b"http")].concat()), json!({"targetPort": "http"}));
    }

    #[test]
    fn a_deployment_is_decoded_with_its_pod_template() {
        let container = [
            bytes(1, b"c"),
            bytes(2, b"nginx"),
            bytes(8, &bytes(1, &[bytes(1, b"cpu"), bytes(2, &bytes(1, b"100m"))].concat())),
        ]
        .concat();
        let request = bytes(2, &[bytes(1, b"/x"), bytes(2, &[number(1, 1), bytes(3, b"http")].concat())].concat());
        let volume = bytes(1, &[bytes(1, b"v"), bytes(2, &bytes(6, &bytes(1, b"s")))].concat());
        let container = [container, bytes(10, &bytes(1, &request))].concat();
        let template = bytes(3, &bytes(2, &[volume, bytes(2, &container)].concat()));
        let rolling = bytes(4, &bytes(2, &bytes(1, &[number(1, 0), number(2, 0)].concat())));
        let body = bytes(2, &[number(1, 0), template, rolling, number(5, 0), number(7, 0)].concat());
        let decoded = decode(&envelope("apps/v1", "Deployment", &body)).unwrap();
        let pod = &decoded["spec"]["template"]["spec"];
        assert_eq!(pod["containers"][0]["resources"], json!({"limits": {"cpu": "100m"}}));
        assert_eq!(pod["containers"][0]["livenessProbe"], json!({"httpGet": {"path": "/x", "port": "http"}}));
        assert_eq!(pod["volumes"], json!([{"name": "v", "secret": {"secretName": "s"}}]));
        // A pointer to zero is present; a plain zero may be omitted.
        assert_eq!((&decoded["spec"]["replicas"], decoded["spec"].get("paused")), (&json!(0), None));
        assert_eq!(decoded["spec"]["strategy"]["rollingUpdate"], json!({"maxUnavailable": 0}));
        assert_eq!(decoded["spec"].get("minReadySeconds"), None);
    }

    #[test]
    fn two_versions_of_a_kind_are_two_messages() {
        let target = number(3, 80);
        let old = decode(&envelope(
            "autoscaling/v1",
            "HorizontalPodAutoscaler",
            &bytes(2, &[number(3, 5), number(4, 80)].concat()),
        ))
        .unwrap();
        let new = decode(&envelope("autoscaling/v2", "HorizontalPodAutoscaler", &bytes(2, &target))).unwrap();
        assert_eq!(
            (&old["spec"]["targetCPUUtilizationPercentage"], &new["spec"]["maxReplicas"]),
            (&json!(80), &json!(80))
        );
    }

    #[test]
    fn the_extra_of_a_user_is_a_map_of_lists() {
        let extra = bytes(5, &[bytes(1, b"k"), bytes(2, &[bytes(1, b"a"), bytes(1, b"")].concat())].concat());
        let decoded = decode(&envelope("authorization.k8s.io/v1", "SubjectAccessReview", &bytes(2, &extra))).unwrap();
        assert_eq!(decoded["spec"], json!({"extra": {"k": ["a", ""]}}));
    }

    #[test]
    fn options_of_a_deletion_keep_a_grace_of_zero() {
        let decoded = decode(&envelope("v1", "DeleteOptions", &[number(1, 0), bytes(4, b"Orphan")].concat())).unwrap();
        assert_eq!((&decoded["gracePeriodSeconds"], &decoded["propagationPolicy"]), (&json!(0), &json!("Orphan")));
    }

    #[test]
    fn malformed_messages_are_refused() {
        let code = |body: &[u8]| decode(body).unwrap_err().code;
        assert_eq!(code(b"{}"), 400);
        assert_eq!(code(&envelope("v1", "ConfigMap", &[0xff])), 400);
        assert_eq!(code(&envelope("v1", "ConfigMap", &number(1, 1))), 400);
        assert_eq!(code(&envelope("v1", "ConfigMap", &[10, 200])), 400);
        assert_eq!(code(&envelope("ex.dev/v1", "Widget", &[])), 415);
        assert_eq!(code(&envelope("v1", "NamespaceSpec", &[])), 415);
        assert_eq!(code(&[MAGIC, &[0x80; 20]].concat()), 400);
    }
}
