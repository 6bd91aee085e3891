//! The embedded API server in this process, and the engine's client for it.

use kopfd::apiserver::server::socket::Service;
use kopfd::apiserver::{ApiServer, Settings};
use kopfd::cluster::in_process::InProcess;
use kopfd::cluster::{Client, Networking, Watching};
use kopfd::kit::{Clock, Stop, Tasks};

/// Returns a server without objects, whose unique ids are the same in each run.
pub(crate) fn api_server(clock: &Clock) -> ApiServer {
    ApiServer::new(Settings { seed: Some(1), ..Settings::default() }, clock.clone())
}

/// Returns the engine's client for a server.
pub(crate) async fn client(api: &ApiServer, networking: Networking, clock: &Clock) -> Client {
    let login = Box::new(InProcess::new(Service::new(api.clone())));
    Client::with_login(login, networking, Watching::default(), clock.clone()).await.expect("no credentials are needed")
}

/// Runs the controllers of a server in a task.
pub(crate) fn spawn_controllers(api: &ApiServer, tasks: &mut Tasks<()>, stop: &Stop) {
    let (api, stop) = (api.clone(), stop.clone());
    tasks.spawn("controllers", async move { api.run_controllers(stop).await });
}
