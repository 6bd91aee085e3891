//! Guarantees of server-side apply that clients rely on.

use serde_json::{Value, json};

use crate::differ::embedded::Embedded;
use crate::requests::send;

const PATH: &str = "/api/v1/namespaces/default/configmaps";

async fn apply(server: &Embedded, path: &str, body: Value) -> (u16, Value) {
    send(server, "PATCH", path, "application/apply-patch+yaml", body).await
}

#[tokio::test(start_paused = true)]
async fn an_existing_object_can_be_applied_without_its_name() {
    let server = Embedded::new();
    let path = format!("{PATH}/there?fieldManager=m");
    let nameless = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "1"}});
    assert_eq!(apply(&server, &path, nameless.clone()).await.0, 400);
    send(&server, "POST", PATH, "application/json", json!({"metadata": {"name": "there"}})).await;
    let (status, applied) = apply(&server, &path, nameless).await;
    assert_eq!((status, &applied["data"]["a"]), (200, &json!("1")));
    assert_eq!(apply(&server, &path, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": []})).await.0, 400);
}

#[tokio::test(start_paused = true)]
async fn client_side_applied_fields_are_migrated_by_a_server_side_apply() {
    let server = Embedded::new();
    let note = "kubectl.kubernetes.io/last-applied-configuration";
    let body = |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "moved"}, "data": {"a": value}});
    let mut first = body("1");
    first["metadata"]["annotations"] = json!({note: "{}\n"});
    send(&server, "POST", PATH, "application/json", first).await;
    let by = |manager: &str| format!("{PATH}/moved?fieldManager={manager}&force=true");
    let (_, other) = apply(&server, &by("other"), body("2")).await;
    assert_eq!(other["metadata"]["annotations"][note], "{}\n");
    let (_, applied) = apply(&server, &by("kubectl"), body("3")).await;
    let text = applied["metadata"]["annotations"][note].as_str().unwrap();
    let noted: Value = serde_json::from_str(text).unwrap();
    assert_eq!((&noted["data"], text.ends_with('\n')), (&json!({"a": "3"}), true));
}
