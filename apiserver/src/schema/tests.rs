use serde_json::json;

use super::*;

/// The schema of the widgets of the differential cases.
fn widgets() -> Schema {
    Schema::parse(&json!({"type":"object","required":["spec"],"properties":{"spec":{"type":"object","required":["size"],"properties":{
        "size":{"type":"integer","minimum":1,"maximum":10},
        "color":{"type":"string","enum":["red","green","blue"],"default":"red"},
        "name":{"type":"string","pattern":"^[a-z]+$","maxLength":5,"minLength":2},
        "replicas":{"type":"integer","format":"int32"},
        "port":{"x-kubernetes-int-or-string":true},
        "tags":{"type":"array","items":{"type":"string"},"x-kubernetes-list-type":"set","maxItems":3,"minItems":1},
        "items":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],
            "items":{"type":"object","required":["k"],"properties":{"k":{"type":"string"},"v":{"type":"string","default":"dv"}}}},
        "any":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
        "m":{"type":"object","additionalProperties":{"type":"integer"},"maxProperties":2},
        "emb":{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true},
        "nul":{"type":"string","nullable":true},
        "when":{"type":"string","format":"date-time"},
        "mul":{"type":"integer","multipleOf":5},
        "f":{"type":"number","exclusiveMinimum":true,"minimum":0},
        "one":{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"oneOf":[{"required":["a"]},{"required":["b"]}]},
        "lo":{"type":"integer"},"hi":{"type":"integer"},
        "imm":{"type":"string","maxLength":20,"x-kubernetes-validations":[{"rule":"self == oldSelf","message":"imm is immutable"}]}},
      "x-kubernetes-validations":[{"rule":"!has(self.lo) || !has(self.hi) || self.lo <= self.hi","message":"lo must be <= hi"}]},
      "status":{"type":"object","properties":{"replicas":{"type":"integer"},"selector":{"type":"string"},"phase":{"type":"string"}}}}}))
    .unwrap()
}

fn told(causes: &[FieldError]) -> Vec<String> {
    causes.iter().map(FieldError::shown).collect()
}

/// Creates a widget with a spec, and returns the errors.
fn refused(spec: Value) -> Vec<String> {
    let schema = widgets();
    let mut object = json!({"apiVersion": "ex.dev/v1", "kind": "Widget", "metadata": {"name": "v"}, "spec": spec});
    schema.prune(&mut object);
    schema.fill_defaults(&mut object);
    told(&schema.validate(&object, None))
}

#[test]
fn values_are_refused_with_the_causes_of_a_real_server() {
    assert_eq!(refused(json!({"size": 3})), [""; 0]);
    assert_eq!(refused(json!({})), ["Required@spec.size", "Invalid@<nil>"]);
    assert_eq!(refused(json!({"size": 0})), ["Invalid@spec.size"]);
    assert_eq!(refused(json!({"size": "3"})), ["TypeInvalid@spec.size", "Invalid@<nil>"]);
    assert_eq!(refused(json!({"size": 3.5})), ["TypeInvalid@spec.size", "Invalid@<nil>", "Invalid@<nil>"]);
    assert_eq!(refused(json!({"size": 3, "color": "pink"})), ["NotSupported@spec.color", "Invalid@<nil>"]);
    assert_eq!(refused(json!({"size": 3, "name": "A"})).first().unwrap(), "Invalid@spec.name");
    assert_eq!(refused(json!({"size": 3, "name": "aaaaaaaa"})), ["TooLong@spec.name", "Invalid@<nil>"]);
    assert_eq!(refused(json!({"size": 3, "name": "AB"})), ["Invalid@spec.name"]);
    assert_eq!(refused(json!({"size": 3, "port": 1.5})), ["TypeInvalid@spec.port", "Invalid@<nil>"]);
    assert_eq!(refused(json!({"size": 3, "m": {"a": "x"}})), ["TypeInvalid@spec.m.a", "Invalid@<nil>"]);
    assert_eq!(refused(json!({"size": 3, "m": {"a": 1, "b": 1, "c": 1}})), ["TooMany@spec.m", "Invalid@<nil>"]);
    assert_eq!(
        refused(json!({"size": 3, "emb": {}})),
        ["Required@spec.emb.apiVersion", "Required@spec.emb.kind", "Invalid@<nil>"]
    );
    assert_eq!(refused(json!({"size": 3, "when": "nope"})), ["TypeInvalid@spec.when", "Invalid@<nil>"]);
    assert_eq!(refused(json!({"size": 3, "mul": 7})), ["Invalid@spec.mul"]);
    assert_eq!(refused(json!({"size": 3, "f": 0})), ["Invalid@spec.f"]);
    assert_eq!(refused(json!({"size": 3, "one": {}})), ["Invalid@<nil>", "Required@spec.one.a", "Invalid@<nil>"]);
    assert_eq!(refused(json!("str")), ["TypeInvalid@spec", "Invalid@<nil>"]);
    assert_eq!(refused(Value::Null), ["Required@spec", "Invalid@<nil>"]);
}

#[test]
fn sets_and_map_lists_have_no_item_twice() {
    assert_eq!(refused(json!({"size": 3, "tags": ["a", "a"]})), ["Duplicate@spec.tags[1]"]);
    assert_eq!(refused(json!({"size": 3, "tags": []})), ["Invalid@spec.tags"]);
    assert_eq!(refused(json!({"size": 3, "tags": ["a", "b", "c", "d"]})), ["TooMany@spec.tags", "Invalid@<nil>"]);
    assert_eq!(refused(json!({"size": 3, "items": [{"k": "1"}, {"k": "1"}]})), ["Duplicate@spec.items[1]"]);
}

#[test]
fn a_number_of_replicas_that_cannot_be_shown_is_refused() {
    let scale = Scale {
        spec_replicas: ".spec.replicas".into(),
        status_replicas: ".status.replicas".into(),
        label_selector: None,
    };
    let causes = widgets().validate_after(Vec::new(), Some(&scale), &json!({"spec": "str"}), None).causes;
    assert_eq!(told(&causes), ["TypeInvalid@spec", "Invalid@.spec.replicas", "Invalid@<nil>"]);
}

#[test]
fn messages_contain_the_value_and_the_field() {
    let causes = widgets().validate(&json!({"spec": {"size": 0}}), None);
    assert_eq!(causes[0].message, "Invalid value: 0: spec.size in body should be greater than or equal to 1");
    let causes = widgets().validate(&json!({"spec": {"size": "3"}}), None);
    assert_eq!(causes[0].message, "Invalid value: \"string\": spec.size in body must be of type integer: \"string\"");
}

#[cfg(feature = "cel")]
#[test]
fn rules_compare_values_with_each_other_and_with_the_old_ones() {
    assert_eq!(refused(json!({"size": 3, "lo": 5, "hi": 1})), ["Invalid@spec"]);
    let object = |imm: &str| json!({"spec": {"size": 3, "imm": imm}});
    assert_eq!(widgets().validate(&object("a"), None), []);
    assert_eq!(told(&widgets().validate(&object("b"), Some(&object("a")))), ["Invalid@spec.imm"]);
    assert_eq!(widgets().validate(&object("a"), Some(&object("a"))), []);
}

#[cfg(feature = "cel")]
fn ruled(rules: Value, value: Value, old: Option<Value>) -> Vec<FieldError> {
    let schema = Schema::parse(&json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "n": {"type": "integer"}, "s": {"type": "string", "maxLength": 20}, "x-y": {"type": "string", "maxLength": 20},
        "list": {"type": "array", "maxItems": 20, "items": {"type": "integer"}}, "q": {"x-kubernetes-int-or-string": true}, "m": {"type": "string", "maxLength": 5}},
        "x-kubernetes-validations": rules}}}))
    .unwrap();
    assert_eq!(schema.unenforced(), [""; 0]);
    schema.validate(&json!({"spec": value}), old.map(|old| json!({"spec": old})).as_ref())
}

#[cfg(feature = "cel")]
#[test]
fn rules_have_reasons_paths_and_messages() {
    let rules = json!([{"rule": "self.n > 5", "reason": "FieldValueForbidden", "fieldPath": ".n", "messageExpression": "'n is %d'.format([self.n])"}]);
    let causes = ruled(rules, json!({"n": 1}), None);
    assert_eq!(causes, [FieldError::new("FieldValueForbidden", "spec.n", "Forbidden: n is 1")]);
    let causes = ruled(json!([{"rule": "self.n > 5", "message": "no bad"}]), json!({}), None);
    assert_eq!(
        causes,
        [FieldError::new(
            "FieldValueInvalid",
            "spec",
            "Invalid value: \"object\": no such key: n evaluating rule: no bad"
        )]
    );
    let causes = ruled(json!([{"rule": "self.n > 5"}]), json!({"n": 1}), None);
    assert_eq!(causes[0].message, "Invalid value: failed rule: self.n > 5");
}

#[cfg(feature = "cel")]
#[test]
fn rules_know_the_functions_of_kubernetes() {
    let spec = json!({"n": 3, "s": "Abc-1", "x-y": "10Mi", "list": [1, 2, 3], "q": "50%"});
    for rule in [
        "self.list.isSorted() && self.list.sum() == 6 && self.list.all(i, i < self.n + 1)",
        "self.s.matches('^[A-Z]') && self.s.lowerAscii() == 'abc-1' && self.s.split('-').size() == 2",
        "self.s.find('[0-9]+') == '1' && self.s.findAll('[a-z]') == ['b', 'c']",
        "isQuantity(self.x__dash__y) && quantity(self.x__dash__y).isLessThan(quantity('1Gi'))",
        "type(self.n) == int && type(self.q) == string && self.?m.orValue('d') == 'd'",
        "self.s in ['x', 'Abc-1'] && isIP('10.0.0.1') && !isCIDR('10.0.0.1') && isURL('https://example.com/x')",
        "self.list.exists_one(i, i == 2) && self.list.filter(i, i > 1).map(i, i * 2) == [4, 6]",
    ] {
        assert_eq!(ruled(json!([{"rule": rule}]), spec.clone(), None), [], "{rule}");
    }
}

#[cfg(feature = "cel")]
#[test]
fn an_old_value_can_be_optional() {
    let rules = json!([{"rule": "!oldSelf.hasValue() || oldSelf.value().n <= self.n", "optionalOldSelf": true}]);
    assert_eq!(ruled(rules.clone(), json!({"n": 1}), None), []);
    assert_eq!(ruled(rules.clone(), json!({"n": 1}), Some(json!({"n": 0}))), []);
    assert_eq!(ruled(rules, json!({"n": 1}), Some(json!({"n": 2}))).len(), 1);
}

#[cfg(feature = "cel")]
#[test]
fn invalid_rules_are_refused_and_unsupported_rules_are_reported() {
    let schema = |rule: &str| Schema::parse(&json!({"type": "object", "x-kubernetes-validations": [{"rule": rule}]}));
    let causes = schema("self.(").unwrap_err();
    assert_eq!(told(&causes), ["Invalid@openAPIV3Schema.x-kubernetes-validations[0].rule"]);
    let causes = schema("self.nope == 1").unwrap_err();
    let text = "compilation failed: ERROR: <input>:1:5: undefined field 'nope'\n | self.nope == 1\n | ....^";
    assert!(causes[0].message.ends_with(text), "{}", causes[0].message);
    let unknown = schema("google.protobuf.Int32Value{value: 1} == 1").unwrap();
    let text = "openAPIV3Schema.x-kubernetes-validations[0].rule: \"google.protobuf.Int32Value{value: 1} == 1\" is not enforced: \
                messages of protocol buffers are not supported";
    assert_eq!(unknown.unenforced(), [text]);
    assert_eq!(unknown.validate_after(Vec::new(), None, &json!({}), None).warnings, [text]);
    let stored = json!({"type": "object", "x-kubernetes-validations": [{"rule": "self.nope == 1"}]});
    assert!(Schema::parse_stored(&stored).unwrap().unenforced()[0].contains("the rule is not enforced"));
}

#[test]
fn unknown_fields_are_dropped_and_reported() {
    let mut object = json!({"apiVersion": "ex.dev/v1", "kind": "Widget", "metadata": {"name": "a"}, "top": 1,
        "spec": {"size": 3, "unknown": 1, "items": [{"k": "1", "x": 2}], "any": {"deep": {"er": 1}}, "m": {"a": 1},
                 "emb": {"apiVersion": "v1", "kind": "X", "metadata": {"name": "x", "bogus": 1}, "spec": {"kept": 1}}}});
    let dropped = widgets().prune(&mut object);
    assert_eq!(dropped, ["spec.emb.metadata.bogus", "spec.items[0].x", "spec.unknown", "top"]);
    assert_eq!(object["spec"]["any"], json!({"deep": {"er": 1}}));
    assert_eq!(
        object["spec"]["emb"],
        json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}, "spec": {"kept": 1}})
    );
    assert_eq!(object["metadata"], json!({"name": "a"}));
}

#[test]
fn defaults_are_filled_in_from_the_outside() {
    let schema = Schema::parse(&json!({"type": "object", "properties": {
        "nd": {"type": "object", "default": {}, "properties": {"x": {"type": "string", "default": "X"}}},
        "plain": {"type": "object", "properties": {"x": {"type": "string", "default": "X"}}},
        "null": {"type": "string", "nullable": true, "default": "d"},
        "not": {"type": "string", "default": "d"},
        "gone": {"type": "string"},
        "list": {"type": "array", "items": {"type": "object", "properties": {"v": {"type": "integer", "default": 1}}}},
        "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"v": {"type": "integer", "default": 1}}}}}}))
    .unwrap();
    let mut object = json!({"null": null, "not": null, "gone": null, "list": [{}, {"v": 2}], "map": {"a": {}}});
    schema.fill_defaults(&mut object);
    assert_eq!(
        object,
        json!({"nd": {"x": "X"}, "null": null, "not": "d", "list": [{"v": 1}, {"v": 2}], "map": {"a": {"v": 1}}})
    );
}

#[test]
fn values_that_are_as_before_are_forgiven() {
    let old = json!({"spec": {"size": 99, "color": "pink", "items": [{"k": "a", "v": 5}], "lo": 1}});
    let schema = widgets();
    assert_eq!(schema.validate(&old, Some(&old)), []);
    let mut new = old.clone();
    new["spec"]["lo"] = json!(2);
    assert_eq!(schema.validate(&new, Some(&old)), []);
    new["spec"]["items"] = json!([{"k": "b", "v": "x"}, {"k": "a", "v": 5}]);
    assert_eq!(schema.validate(&new, Some(&old)), []);
    new["spec"]["size"] = json!(98);
    assert_eq!(told(&schema.validate(&new, Some(&old))), ["Invalid@spec.size"]);
}

#[test]
fn schemas_that_are_not_structural_are_refused() {
    let mistakes = |schema: Value| told(&Schema::parse(&schema).unwrap_err());
    assert_eq!(mistakes(json!({"properties": {"spec": {"type": "object"}}})), ["Required@openAPIV3Schema.type"]);
    assert_eq!(
        mistakes(json!({"type": "object", "properties": {"spec": {"properties": {"a": {"type": "strin"}}}}})),
        [
            "Required@openAPIV3Schema.properties[spec].type",
            "NotSupported@openAPIV3Schema.properties[spec].properties[a].type"
        ]
    );
    assert_eq!(
        mistakes(
            json!({"type": "object", "properties": {"a": {"type": "integer", "default": "x"}, "b": {"type": "array"}}})
        ),
        ["Required@openAPIV3Schema.properties[b].items"],
        "defaults are values of structural schemas"
    );
    assert_eq!(
        mistakes(json!({"type": "object", "properties": {"a": {"type": "integer", "default": "x"}}})),
        ["TypeInvalid@openAPIV3Schema.properties[a].default"]
    );
    assert_eq!(
        mistakes(json!({"type": "object", "anyOf": [{"properties": {"a": {"type": "string"}, "b": {"minimum": 1}}}],
            "properties": {"b": {"type": "integer"}}})),
        ["Forbidden@openAPIV3Schema.anyOf[0].properties[a].type", "Required@openAPIV3Schema.properties[a]"]
    );
    assert_eq!(
        mistakes(
            json!({"type": "object", "properties": {"a": {"type": "object", "properties": {"x": {"type": "string"}},
            "additionalProperties": {"type": "string"}}}})
        ),
        ["Forbidden@openAPIV3Schema.properties[a].additionalProperties"]
    );
    assert_eq!(
        mistakes(
            json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}})
        ),
        ["Forbidden@openAPIV3Schema.properties[metadata]"]
    );
}
