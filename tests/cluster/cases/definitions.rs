//! `run --apply-crds`: definitions are created and widened, and only `--force` takes something away.

use std::rc::Rc;

use serde_json::{Value, json};

use super::cases;
use super::uninstall::{extend, kopfd, texts};
use crate::harness::{Case, Engine, Handler, Kind, Launch, Operator, TestContext};

pub(crate) const CASES: &[Case] = cases![
    a_definition_that_takes_something_away_is_not_applied,
    definitions_are_created_and_widened_and_only_force_narrows_them,
];

/// Returns a definition with versions of one schema; the first one is stored.
fn definition(kind: &Kind, versions: &[&str], fields: &Value) -> Value {
    let (_, mut definition) = kind.definition();
    let mut version = definition["spec"]["versions"][0].clone();
    version["schema"]["openAPIV3Schema"]["properties"]["spec"] = json!({"type": "object", "properties": fields});
    let version = |(number, name): (usize, &&str)| {
        let mut version = version.clone();
        version["name"] = json!(name);
        version["storage"] = json!(number == 0);
        version
    };
    definition["spec"]["versions"] = versions.iter().enumerate().map(version).collect();
    definition
}

/// An operator whose definition changes between its runs.
struct Changing<'a> {
    context: &'a TestContext<'a>,
    kind: Kind,
    launch: Launch,
}

impl<'a> Changing<'a> {
    fn new(context: &'a TestContext<'a>, kind: Kind, first: &Value) -> Self {
        let launch = context.launch(Engine::Kopfd, std::slice::from_ref(&kind), &[Handler::on("create", "hello")]);
        extend(&launch, first, "");
        Self { context, kind, launch }
    }

    fn declare(&self, definition: &Value) {
        std::fs::write(self.launch.source.join("crd.json"), definition.to_string())
            .expect("the directory of an operator can be written");
    }

    fn start(&self, options: &[&str], variables: &[(&str, &str)]) -> Rc<Operator> {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        self.context.start(&Launch { options, variables, ..self.launch.clone() })
    }

    /// Runs the operator, which must end with an error, and returns its messages.
    fn refused(&self, options: &[&str]) -> String {
        let source = self.launch.source.to_str().expect("our own paths are UTF-8");
        let arguments =
            [&["run", source, "--standalone", "-n", &self.context.namespace, "--apply-crds"], options].concat();
        let done = kopfd(self.context, &arguments);
        assert_eq!(done.status.code(), Some(1), "{}", texts(&done));
        texts(&done)
    }

    fn stored(&self) -> Value {
        self.context.client().get(&self.kind.definition_path()).expect("the definition exists")
    }

    /// Creates an object by a version, and waits until the operator has handled it.
    fn handle(&self, version: &str, name: &str, spec: &Value) -> Value {
        let kind = Kind { version: version.to_owned(), ..self.kind.clone() };
        let collection = kind.collection(&self.context.namespace);
        // A definition is served some moments after it was applied.
        self.context.eventually(&format!("{version} is served"), || {
            self.context.client().request("GET", &collection, "application/json", None).ok()
        });
        self.context.create(&kind, name, spec.clone());
        let handled = self.context.handled(&kind, name);
        self.context.expect_calls(name, &["hello#0"]);
        assert_eq!(handled["spec"], *spec);
        handled
    }
}

fn names(definition: &Value) -> Vec<&str> {
    definition["spec"]["versions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|version| version["name"].as_str())
        .collect()
}

fn definitions_are_created_and_widened_and_only_force_narrows_them(context: &TestContext<'_>) {
    let (client, kind) = (context.client(), context.own_kind());
    let number = json!({"type": "integer"});
    let (one, two) = (json!({"size": number}), json!({"size": number, "note": {"type": "string"}}));
    let changing = Changing::new(context, kind.clone(), &definition(&kind, &["v1"], &one));

    let operator = changing.start(&["--apply-crds"], &[]);
    context.eventually("the definition is created", || client.get(&kind.definition_path()));
    changing.handle("v1", "first", &json!({"size": 1}));
    context.stop(&operator);
    let created = changing.stored();
    let managers = created["metadata"]["managedFields"].as_array().expect("the server keeps the managers");
    assert!(
        managers.iter().any(|manager| manager["manager"] == "kopfd" && manager["operation"] == "Apply"),
        "{managers:?}"
    );
    // The fields of others stay.
    client.merge(&kind.definition_path(), &json!({"metadata": {"labels": {"owner": "others"}}}));

    changing.declare(&definition(&kind, &["v1", "v2"], &two));
    let operator = changing.start(&[], &[("KOPFD_APPLY_CRDS", "true")]);
    context.eventually("the wider definition is applied", || (names(&changing.stored()) == ["v1", "v2"]).then_some(()));
    changing.handle("v2", "second", &json!({"size": 2, "note": "new"}));
    context.stop(&operator);
    let wider = changing.stored();
    assert_eq!(wider["metadata"]["labels"]["owner"], "others");
    assert_eq!(context.get(&kind, "second").expect("both versions are served")["spec"]["note"], "new");

    // An unchanged definition is not written again.
    let operator = changing.start(&["--apply-crds"], &[]);
    context.eventually("the operator compares the definition", || {
        operator.log().contains(" is as declared.").then_some(())
    });
    changing.handle("v2", "third", &json!({"size": 3}));
    context.stop(&operator);
    assert_eq!(changing.stored()["metadata"]["resourceVersion"], wider["metadata"]["resourceVersion"]);

    changing.declare(&definition(&kind, &["v1"], &one));
    let message = changing.refused(&[]);
    assert!(
        message.contains("version v2 is removed") && message.contains("v1.spec.note: the field is removed"),
        "{message}"
    );
    assert!(message.contains("mend the definition, or apply it all the same by `--force`"), "{message}");
    assert_eq!(
        changing.stored()["metadata"]["resourceVersion"],
        wider["metadata"]["resourceVersion"],
        "nothing is applied"
    );

    let operator = changing.start(&["--apply-crds", "--force"], &[]);
    context.eventually("the narrower definition is applied", || (names(&changing.stored()) == ["v1"]).then_some(()));
    changing.handle("v1", "fourth", &json!({"size": 4}));
    context.stop(&operator);
    assert_eq!(
        context.get(&kind, "second").expect("objects stay")["spec"],
        json!({"size": 2}),
        "the server drops the removed field"
    );

    // The server does not let a version go that objects are stored in.
    changing.declare(&definition(&kind, &["v2"], &one));
    let before = changing.stored();
    let message = changing.refused(&["--force"]);
    assert!(message.contains(&format!("cannot apply the definition of {}", kind.selector())), "{message}");
    assert!(
        message.contains("status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions"),
        "{message}"
    );
    assert!(message.contains("hint: objects may be stored in a version that is removed"), "{message}");
    assert_eq!(changing.stored()["metadata"]["resourceVersion"], before["metadata"]["resourceVersion"]);
}

fn a_definition_that_takes_something_away_is_not_applied(context: &TestContext<'_>) {
    // Others have created one of two definitions.
    let kind = context.thing();
    let new = context.own_kind().named("Other", "others");
    let narrower = definition(&kind, &["v1"], &json!({}));
    let changing = Changing::new(context, kind.clone(), &narrower);
    let file = changing.launch.source.join("crd.json");
    let declare = |definitions: [&Value; 2]| {
        let text = definitions.map(ToString::to_string).join("\n---\n");
        std::fs::write(&file, text).expect("the directory of an operator can be written");
    };
    declare([&new.definition().1, &narrower]);
    let message = changing.refused(&[]);
    assert!(message.contains("v1.spec: unknown fields are dropped"), "{message}");
    assert_eq!(
        changing
            .stored()
            .pointer("/spec/versions/0/schema/openAPIV3Schema/properties/spec/x-kubernetes-preserve-unknown-fields"),
        Some(&json!(true))
    );
    assert!(context.client().get(&new.definition_path()).is_none(), "nothing is applied");

    let mut wider = kind.definition().1;
    let mut version = wider["spec"]["versions"][0].clone();
    version["name"] = json!("v2");
    version["storage"] = json!(false);
    wider["spec"]["versions"].as_array_mut().expect("a definition has versions").push(version);
    declare([&new.definition().1, &wider]);
    let operator = changing.start(&["--apply-crds"], &[]);
    context.eventually("the new definition is created", || context.client().get(&new.definition_path()));
    changing.handle("v2", "first", &json!({"anything": 1}));
    context.stop(&operator);
    assert_eq!(names(&changing.stored()), ["v1", "v2"]);
}
