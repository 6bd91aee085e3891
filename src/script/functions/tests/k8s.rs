//! Tests of waiting for objects, of subresources, of other paths, and of other clusters.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::{Cluster, on_cluster, refused, requests, run_on};
use crate::script::outside::api::{ApiError, Change, ExecError};
use crate::script::outside::programs::{Finished, ProgramError, ProgramFailure};

fn pod(name: &str, ready: &str) -> Value {
    json!({"kind": "Pod", "metadata": {"name": name, "namespace": "here"}, "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}})
}

/// Runs a script on a cluster in which a watch sees these changes, one every ten seconds. Returns its value, and how
/// long it took.
async fn watching(script: &str, changes: Vec<Result<Change, ApiError>>) -> (Result<Value, String>, u64, Vec<String>) {
    let changes =
        changes.into_iter().map(|change| (if matches!(change, Ok(Change::Listed)) { 0 } else { 10 }, change)).collect();
    let cluster = Arc::new(Cluster { changes: Mutex::new(changes), ..Cluster::default() });
    let began = tokio::time::Instant::now();
    let value = run_on(&cluster, script).await;
    let requests = cluster.requests.lock().unwrap().clone();
    (value, began.elapsed().as_secs(), requests)
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_with_the_change_that_fulfils_the_condition() {
    let changes = || {
        vec![
            Ok(Change::Listed),
            Ok(Change::Present(pod("a", "False"))),
            Ok(Change::Present(pod("a", "True"))),
            Ok(Change::Gone(pod("a", "True"))),
        ]
    };
    let (found, took, requests) = watching("k8s::wait(\"pods\", \"a\", \"Ready\").metadata.name", changes()).await;
    assert_eq!((found, took), (Ok(json!("a")), 20));
    assert_eq!(requests, ["pods.v1 here Watch None Some(\"metadata.name=a\")"]);
    let (found, took, requests) =
        watching("k8s::wait(\"pods\", \"there\", \"a\", \"create\", 60).status.phase", changes()).await;
    assert_eq!((found, took), (Ok(json!("Running")), 10));
    assert_eq!(requests, ["pods.v1 there Watch None Some(\"metadata.name=a\")"]);
    let script =
        "k8s::wait(\"pods\", \"a\", \"create\"); k8s::wait(\"pods\", \"a\", \"$.status.phase=Running\", \"1m\")";
    assert!(
        watching(script, changes())
            .await
            .0
            .unwrap_err()
            .contains("pods.v1 here/a: after 60s still waiting for an answer of the server")
    );
    let (found, took, _) =
        watching("k8s::wait(\"pods\", \"a\", \"$.status.phase=Running\", \"1m\").kind", changes()).await;
    assert_eq!((found, took), (Ok(json!("Pod")), 10));
    // The list has no such object yet, so that it is deleted at once.
    let (found, took, _) = watching("k8s::wait(\"pods\", \"a\", \"delete\")", changes()).await;
    assert_eq!((found, took), (Ok(json!(null)), 0));
    let gone = vec![Ok(Change::Present(pod("a", "True"))), Ok(Change::Listed), Ok(Change::Gone(pod("a", "True")))];
    let (found, took, _) = watching("k8s::wait(\"pods\", \"a\", \"delete\")", gone).await;
    assert_eq!((found, took), (Ok(json!(null)), 20));
}

#[tokio::test(start_paused = true)]
async fn waiting_too_long_can_be_caught_and_names_what_was_awaited() {
    let never = || vec![Ok(Change::Listed), Ok(Change::Present(pod("a", "False")))];
    let (found, took, _) = watching("k8s::wait(\"pods\", \"a\", \"Ready\", 25)", never()).await;
    let error = found.unwrap_err();
    assert!(
        error.contains("k8s::wait pods.v1 here/a: after 25s still waiting for `Ready=True`") && took == 25,
        "{error}"
    );
    let caught = "let c; try { k8s::wait(\"pods\", \"a\", \"Ready\", 1) } catch (e) { c = [e.kind, e.status, e.details.name]; } c";
    assert_eq!(watching(caught, never()).await.0, Ok(json!(["timeout", null, "a"])));
    let (found, _, _) = watching("k8s::wait(\"pods\", \"a\", \"Ready\")", vec![Ok(Change::Listed)]).await;
    assert!(found.unwrap_err().contains("after 30s still waiting for `Ready=True`; it does not exist"));
    let refused =
        Err(ApiError { message: "no".into(), status: Some(403), reason: Some("Forbidden".into()), details: None });
    let caught =
        "let c; try { k8s::wait(\"pods\", \"a\", \"Ready\") } catch (e) { c = [e.kind, e.status, e.reason]; } c";
    assert_eq!(watching(caught, vec![refused]).await.0, Ok(json!(["api", 403, "Forbidden"])));
    for (script, expected) in [
        ("k8s::wait(\"pods\", \"a\", \"1s\")", "\"1s\" is no condition: write such as `Ready`"),
        ("k8s::wait(\"pods\", \"a\", 5)", "the condition must be a text, not 5"),
        ("k8s::wait(\"pods\", \"\", \"Ready\")", "the name is empty"),
        ("k8s::watch_until(\"pods\", \"a\", 5)", "it takes a function"),
        ("k8s::watch_until(\"pods\", #{name: 1}, |o| true)", "has no option `name`"),
    ] {
        let error = watching(script, never()).await.0.expect_err(script);
        assert!(error.contains(expected), "{script}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_function_sees_each_state_until_it_is_satisfied() {
    let changes = || {
        vec![
            Ok(Change::Present(pod("b", "True"))),
            Ok(Change::Listed),
            Ok(Change::Present(pod("a", "False"))),
            Ok(Change::Present(pod("a", "True"))),
        ]
    };
    let script = "let seen = []; k8s::watch_until(\"pods\", #{labels: #{app: \"x\"}}, |pods| { \
        seen.push(pods.len()); pods.len() == 2 && pods.all(|pod| pod.status.conditions[0].status == \"True\") }, 60); seen";
    let (found, took, requests) = watching(script, changes()).await;
    assert_eq!((found, took), (Ok(json!([1, 2, 2])), 30));
    assert_eq!(requests, ["pods.v1 - Watch Some(\"app=x\") None"]);
    let gone = vec![Ok(Change::Listed), Ok(Change::Present(pod("a", "True"))), Ok(Change::Gone(pod("a", "True")))];
    let script = "let seen = []; let end = k8s::watch_until(\"pods\", \"there\", \"a\", |pod| { seen.push(pod == ()); seen.len() == 3 }); [seen, end]";
    assert_eq!(watching(script, gone).await.0, Ok(json!([[true, false, true], null])));
    let thrown = watching("k8s::watch_until(\"pods\", \"a\", |pod| throw \"enough\")", vec![Ok(Change::Listed)])
        .await
        .0
        .unwrap_err();
    assert!(thrown.contains("enough"), "{thrown}");
    let (found, took, _) =
        watching("k8s::watch_until(\"pods\", \"a\", |pod| pod != (), 5)", vec![Ok(Change::Listed)]).await;
    assert!(found.unwrap_err().contains("after 5s still waiting for the function") && took == 5);
}

#[tokio::test]
async fn logs_evictions_and_tokens_are_subresources() {
    let script = "k8s::logs(\"a\"); k8s::logs(\"there\", \"a\", #{container: \"c\", tail: 5, since: \"1m\", previous: true, limit: 9})";
    let sent = requests(script).await;
    assert!(
        sent[0].starts_with("pods.v1 here Log { name: \"a\", part: LogPart { container: None, tail: None, since: None"),
        "{}",
        sent[0]
    );
    assert!(sent[0].contains("limit: 1048576"));
    assert!(sent[1].starts_with(
        "pods.v1 there Log { name: \"a\", part: LogPart { container: Some(\"c\"), tail: Some(5), since: Some(60s)"
    ));
    assert!(sent[1].ends_with("is_previous: true, has_timestamps: false, limit: 9 } }"));
    let sent = requests("k8s::evict(\"there\", \"a\", #{grace: 5})").await;
    assert!(
        sent[0].starts_with("pods.v1 there CreateSubresource { name: \"a\", subresource: \"eviction\""),
        "{}",
        sent[0]
    );
    assert!(sent[0].contains("\"gracePeriodSeconds\": Number(5)"));
    assert_eq!(on_cluster("k8s::evict(\"a\")", vec![Ok(Value::Null)]).await.0, Ok(json!(false)));
    assert_eq!(on_cluster("k8s::evict(\"a\")", vec![Ok(json!({}))]).await.0, Ok(json!(true)));
    let caught = "let c; try { k8s::evict(\"a\") } catch (e) { c = e.status; } c";
    assert_eq!(on_cluster(caught, vec![refused(429, "TooManyRequests")]).await.0, Ok(json!(429)));
    let answer = json!({"status": {"token": "t", "expirationTimestamp": "2030-01-01T00:00:00Z"}});
    let (found, sent) =
        on_cluster("k8s::token(\"default\", #{audiences: [\"vault\"], expiration: \"1h\"})", vec![Ok(answer)]).await;
    assert_eq!(found, Ok(json!({"token": "t", "expires": "2030-01-01T00:00:00Z"})));
    assert!(
        sent[0].contains("subresource: \"token\"") && sent[0].contains("\"expirationSeconds\": Number(3600)"),
        "{}",
        sent[0]
    );
    for (script, expected) in [
        ("k8s::logs(\"a\", #{tail: -1})", "the option `tail` of `k8s::logs` must be an integer that is not negative"),
        ("k8s::logs(\"a\", #{follow: true})", "has no option `follow`"),
        ("k8s::token(\"a\", #{audiences: 1})", "must be a text, or a list of texts"),
        ("k8s::token(\"a\")", "the answer has no token"),
        ("k8s::evict(\"\")", "the name is empty"),
    ] {
        let error = on_cluster(script, Vec::new()).await.0.expect_err(script);
        assert!(error.contains(expected), "{script}: {error}");
    }
}

#[tokio::test]
async fn commands_have_arguments_an_input_and_limits() {
    let script = "k8s::exec(\"a\", [\"ls\", 1]); \
        k8s::exec(\"there\", \"a\", [\"cat\"], #{container: \"c\", stdin: \"x\", timeout: \"5s\", limit: 9}); \
        k8s::exec(\"a\", [\"cat\"], #{stdin: base64::decode_bytes(\"eQ==\")})";
    assert_eq!(
        requests(script).await,
        [
            "exec here/a None [\"ls\", \"1\"] None 60s 1048576",
            "exec there/a Some(\"c\") [\"cat\"] Some([120]) 5s 9",
            "exec here/a None [\"cat\"] Some([121]) 60s 1048576",
        ]
    );
    for (script, expected) in [
        ("k8s::exec(\"a\", \"ls\")", "`k8s::exec`: the arguments must be a list"),
        ("k8s::exec(\"a\", [])", "must begin with a program"),
        ("k8s::exec(\"a\", [\"a\\x00\"])", "an argument has a zero character"),
        ("k8s::exec(\"a\", [\"ls\"], #{env: 1})", "`k8s::exec` has no option `env`"),
        ("k8s::exec(\"a\", [\"ls\"], #{timeout: 0})", "the option `timeout` must be more than zero"),
        ("k8s::exec(\"a\", [\"ls\"], #{stdin: 1})", "the option `stdin` must be"),
    ] {
        let error = on_cluster(script, Vec::new()).await.0.expect_err(script);
        assert!(error.contains(expected), "{script}: {error}");
    }
}

#[tokio::test]
async fn ends_of_commands_are_those_of_programs() {
    let on = async |ended: Result<Finished, ExecError>, script: &str| {
        let cluster = Arc::new(Cluster { ended: Mutex::new(Some(ended)), ..Cluster::default() });
        run_on(&cluster, script).await
    };
    let ended = || Ok(Finished { code: 3, stdout: b"out".to_vec(), stderr: b"err".to_vec(), ..Finished::default() });
    let found = on(ended(), "let e = k8s::exec(\"a\", [\"ls\"]); [e.code, e.stdout, e.stderr, e.keys().len()]").await;
    assert_eq!(found, Ok(json!([3, "out", "err", 3])));
    let found = on(ended(), "type_of(k8s::exec(\"a\", [\"ls\"], #{binary: true}).stdout)").await;
    assert_eq!(found, Ok(json!("Bytes")));
    let caught = |options: &str| {
        format!(
            "let c; try {{ k8s::exec(\"a\", [\"ls\"], {options}) }} catch (e) {{ c = [e.kind, e.reason, e.message, e.status, e.code, e.stdout]; }} c"
        )
    };
    let found = on(ended(), &caught("#{check: true}")).await;
    assert_eq!(
        found,
        Ok(json!(["exec", "ExitCode", "ls in pods.v1 here/a has ended with the code 3: err", null, 3, "out"]))
    );
    let late = ProgramError { stdout: b"so far".to_vec(), ..ProgramError::new(ProgramFailure::Timeout, "too late") };
    let found = on(Err(ExecError::Command(late)), &caught("#{}")).await;
    assert_eq!(found, Ok(json!(["exec", "Timeout", "k8s::exec pods.v1 here/a: too late", null, null, "so far"])));
    let found = on(Err(ExecError::Api(refused(403, "Forbidden").unwrap_err())), &caught("#{}")).await.unwrap();
    assert_eq!((&found[0], &found[1], &found[3]), (&json!("api"), &json!("Forbidden"), &json!(403)));
}

#[tokio::test]
async fn the_own_rights_are_asked_for() {
    let allowed = |is_allowed: bool| Ok(json!({"status": {"allowed": is_allowed}}));
    let script = "[k8s::can(\"delete\", \"pods\"), k8s::can(\"get\", \"nodes\", #{name: \"n\"}), k8s::can(\"list\", \"pods\", #{namespace: \"\"})]";
    let (found, sent) = on_cluster(script, vec![allowed(true), allowed(false), allowed(true)]).await;
    assert_eq!(found, Ok(json!([true, false, true])));
    assert!(
        sent[0].starts_with("selfsubjectaccessreviews.v1.authorization.k8s.io - Create")
            && sent[0].contains("\"namespace\": String(\"here\")")
    );
    assert!(sent[1].contains("\"name\": String(\"n\")") && sent[1].contains("\"namespace\": String(\"\")"));
    assert!(sent[2].contains("\"namespace\": String(\"\")"));
}

#[tokio::test]
async fn other_paths_are_requested_as_they_are() {
    let script = "k8s::raw(\"get\", \"/api/v1/nodes?limit=1\"); k8s::raw(\"PATCH\", \"/api/v1/nodes/a\", #{x: ()}); \
        k8s::raw(\"PATCH\", \"/api/v1/nodes/a\", [], #{}); k8s::raw(\"PATCH\", \"/api/v1/nodes/a\", #{}, #{patch: \"strategic\"}); k8s::raw(\"GET\", \"/version\")";
    assert_eq!(
        requests(script).await,
        [
            "GET /api/v1/nodes?limit=1 application/json null",
            "PATCH /api/v1/nodes/a application/merge-patch+json {\"x\":null}",
            "PATCH /api/v1/nodes/a application/json-patch+json []",
            "PATCH /api/v1/nodes/a application/strategic-merge-patch+json {}",
            "GET /version application/json null",
        ]
    );
    for (script, expected) in [
        ("k8s::raw(\"WATCH\", \"/api/v1/nodes\")", "the method must be one of GET"),
        ("k8s::raw(\"GET\", \"/metrics\")", "is neither a path of objects nor one of /api"),
        ("k8s::raw(\"PATCH\", \"/api/v1/nodes/a\", #{}, #{patch: \"x\"})", "must be apply, json, merge, or strategic"),
    ] {
        let error = on_cluster(script, Vec::new()).await.0.expect_err(script);
        assert!(error.contains(expected), "{script}: {error}");
    }
}

#[tokio::test]
async fn another_cluster_has_the_same_functions() {
    let secret = || Ok(json!({"data": {"value": "Y29uZmln"}}));
    let script = "let other = k8s::cluster(\"there\", \"access\"); [other.get(\"pods\", \"a\").kind, other.list(\"pods\").len()]";
    let (found, sent) = on_cluster(script, vec![secret()]).await;
    assert_eq!(found, Ok(json!(["Other", 1])));
    assert_eq!(sent, ["secrets.v1 there Get { name: \"access\" }", "cluster config Ordinary"]);
    for (answer, expected) in [
        (json!(null), "k8s::cluster secrets.v1 here/access: there is no such Secret"),
        (json!({"data": {"other": "eA=="}}), "the Secret has no key kubeconfig, value, config"),
        (json!({"data": {"value": "/w=="}}), "its kubeconfig is not a text"),
    ] {
        let error = on_cluster("k8s::cluster(\"access\")", vec![Ok(answer)]).await.0.unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}
