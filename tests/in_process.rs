//! The engine's own client over the server in the same process, in virtual time.

use std::time::Duration;

use kopfd::apiserver::server::socket::Service;
use kopfd::apiserver::{ApiServer, Settings, bootstrap};
use kopfd::cluster::in_process::InProcess;
use kopfd::cluster::{Client, Networking, Request, Watching};
use kopfd::kit::{Clock, Stop, Tasks};
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn a_client_in_the_same_process_needs_no_socket_and_no_real_time() {
    let clock = Clock::starting_at("2020-01-01T00:00:00Z".parse().unwrap());
    let api = ApiServer::new(Settings { seed: Some(1), ..Settings::default() }, clock.clone());
    let stop = Stop::new();
    let mut tasks = Tasks::default();
    tasks.spawn("controllers", {
        let (api, stop) = (api.clone(), stop.clone());
        async move { api.run_controllers(stop).await }
    });
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "owner"}});
    bootstrap::apply(&api, vec![owner]).await.unwrap();
    let configmaps = kopfd::apiserver::storage::resource::Resource { group: String::new(), plural: "configmaps".into() };
    let key = |name: &str| ("default".to_owned(), name.to_owned());
    let uid = api.read(&configmaps, &key("owner")).unwrap().value["metadata"]["uid"].clone();
    let reference = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid}]);
    let child = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "child", "ownerReferences": reference}});
    bootstrap::apply(&api, vec![child]).await.unwrap();

    let login = Box::new(InProcess::new(Service::new(api.clone())));
    let client = Client::with_login(login, Networking::default(), Watching::default(), clock).await.unwrap();
    client.request(&Request::new(http::Method::DELETE, "/api/v1/namespaces/default/configmaps/owner")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(api.read(&configmaps, &key("owner")).is_none() && api.read(&configmaps, &key("child")).is_none());
    stop.request("the end");
    assert!(tasks.finish(Duration::from_secs(1)).await.is_empty());
}
