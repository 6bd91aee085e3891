//! The certificates of webhook servers in virtual time: made ones are replaced before they expire and shared through a
//! Secret, given ones follow their files.
#![expect(clippy::unwrap_used, reason = "these are tests")]

use std::path::Path;
use std::time::Duration;

use http::Method;
use jiff::SignedDuration;
use kopfd::apiserver::faults::{Action, Match, Rule};
use kopfd::apiserver::storage::resource::Resource;
use kopfd::apiserver::{ApiServer, admin_client};
use kopfd::cluster::{Client, Networking};
use kopfd::engines::admission::certificates::{Keeper, ServerCertificate};
use kopfd::http::{Authority, Validity};
use kopfd::kit::{Clock, Stop, Tasks, errors};
use kopfd::manifest::admission::AdmissionServer;
use kopfd::manifest::settings_tree;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::world::api_server::{api_server, client};
use super::world::in_virtual_time;
use super::world::log::collect_messages;

const SECRET: &str = "/api/v1/namespaces/default/secrets/hooks";

const DAY: Duration = Duration::from_hours(24);

fn settings(mut server: Value) -> AdmissionServer {
    server["kind"] = json!("server");
    settings_tree::from_value(&json!({"admission": {"server": server}})).unwrap().admission.server.unwrap()
}

/// A replica of an operator: its certificate is kept.
struct Replica {
    certificates: watch::Receiver<ServerCertificate>,
    stop: Stop,
    tasks: Tasks<()>,
}

impl Replica {
    async fn start(settings: &AdmissionServer, name: &str, (client, clock): (&Client, &Clock)) -> Self {
        let names = vec![name.to_owned(), "localhost".to_owned()];
        let keeper = Keeper::open(settings, names, (client, "demo"), clock.clone()).await.unwrap();
        let (certificates, stop, mut tasks) = (keeper.certificates(), Stop::new(), Tasks::default());
        tasks.spawn("keeper", keeper.run(stop.clone()));
        Self { certificates, stop, tasks }
    }

    fn served(&self) -> ServerCertificate {
        self.certificates.borrow().clone()
    }

    fn is_valid(&self, name: &str, clock: &Clock) -> bool {
        let ServerCertificate { certificate, authorities } = self.served();
        certificate.is_trusted(&authorities.unwrap(), name, clock.now())
    }

    async fn end(mut self) {
        self.stop.request("the end");
        assert!(self.tasks.finish(Duration::from_secs(1)).await.is_empty());
    }
}

async fn cluster() -> (ApiServer, Client, Clock) {
    let clock = Clock::starting_at("2027-01-01T00:00:00Z".parse().unwrap());
    let api = api_server(&clock);
    let networking = Networking { error_backoffs: Vec::new(), ..Networking::default() };
    let client = client(&api, networking, &clock).await;
    (api, client, clock)
}

fn secret(api: &ApiServer) -> Option<Value> {
    let resource = Resource { group: String::new(), plural: "secrets".into() };
    api.read(&resource, &("default".into(), "hooks".into())).map(|stored| (*stored.value).clone())
}

#[test]
fn a_made_certificate_is_replaced_before_it_expires_under_the_same_authority() {
    in_virtual_time(async {
        let (_, client, clock) = cluster().await;
        let replica = Replica::start(&settings(json!({})), "a.svc", (&client, &clock)).await;
        let first = replica.served();
        tokio::time::sleep(242 * DAY).await;
        assert_eq!(replica.served(), first);
        tokio::time::sleep(2 * DAY).await;
        let second = replica.served();
        assert_ne!(second.certificate, first.certificate);
        assert_eq!(second.authorities, first.authorities, "the API server need not be told anything");
        for _ in 0..2 {
            tokio::time::sleep(200 * DAY).await;
            assert!(replica.is_valid("a.svc", &clock), "{}", clock.now());
        }
        replica.end().await;
    });
}

#[test]
fn replicas_share_the_certificate_in_a_secret_with_all_their_names() {
    in_virtual_time(async {
        let (api, client, clock) = cluster().await;
        let settings =
            settings(json!({"secret": {"name": "hooks", "namespace": "default"}, "fileCheckInterval": "6h"}));
        let one = Replica::start(&settings, "one.svc", (&client, &clock)).await;
        let stored = secret(&api).unwrap();
        assert_eq!(
            [&stored["type"], &stored["metadata"]["labels"]["app.kubernetes.io/managed-by"]],
            ["kubernetes.io/tls", "kopfd"]
        );
        let two = Replica::start(&settings, "two.svc", (&client, &clock)).await;
        tokio::time::sleep(Duration::from_hours(7)).await;
        assert_eq!(one.served(), two.served());
        assert!(["one.svc", "two.svc", "localhost"].iter().all(|name| one.is_valid(name, &clock)));
        // A restart finds it there.
        let before = two.served();
        two.end().await;
        let two = Replica::start(&settings, "two.svc", (&client, &clock)).await;
        assert_eq!(two.served(), before);
        // The first to notice replaces it for both.
        tokio::time::sleep(250 * DAY).await;
        assert_eq!(one.served(), two.served());
        assert_ne!(one.served(), before);
        assert!(one.is_valid("one.svc", &clock) && two.is_valid("two.svc", &clock));
        one.end().await;
        two.end().await;
    });
}

#[test]
fn a_secret_that_is_deleted_or_broken_is_written_again() {
    in_virtual_time(async {
        let (api, client, clock) = cluster().await;
        let settings =
            settings(json!({"secret": {"name": "hooks", "namespace": "default"}, "fileCheckInterval": "10s"}));
        let replica = Replica::start(&settings, "a.svc", (&client, &clock)).await;
        let before = (replica.served(), secret(&api).unwrap()["data"].clone());
        admin_client::send(&api, Method::DELETE, SECRET, None, String::new()).await.unwrap();
        tokio::time::sleep(Duration::from_secs(11)).await;
        assert_eq!((replica.served(), secret(&api).unwrap()["data"].clone()), before, "with the same certificates");
        let broken = json!({"data": {"tls.key": "bm9uc2Vuc2U="}}).to_string();
        admin_client::send(&api, Method::PATCH, SECRET, Some("application/merge-patch+json"), broken).await.unwrap();
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert_ne!(replica.served().certificate, before.0.certificate);
        assert_eq!(replica.served().authorities, before.0.authorities);
        assert!(replica.is_valid("a.svc", &clock));
        replica.end().await;
    });
}

#[test]
fn a_secret_without_permission_is_an_error_at_the_start_and_a_warning_later() {
    in_virtual_time(async {
        let (api, client, clock) = cluster().await;
        let settings = settings(json!({"secret": {"name": "hooks"}}));
        let fail = |verb: &str| {
            let matching = Match { verb: verb.into(), resource: Some("secrets".to_owned()), ..Match::default() };
            api.add_fault(Rule::new(matching, Action::status(403)));
        };
        let replica = Replica::start(&settings, "a.svc", (&client, &clock)).await;
        let before = replica.served();
        fail("get");
        let (messages, _guard) = collect_messages(tracing::Level::WARN);
        tokio::time::sleep(Duration::from_mins(10)).await;
        assert_eq!(replica.served(), before);
        // The client tells each failed request besides.
        let told: Vec<String> = messages.lock().clone();
        let own =
            told.iter().filter(|line| line.starts_with("The certificate of the webhooks cannot be renewed")).count();
        assert_eq!(own, 1, "{told:?}");
        let opened = Keeper::open(&settings, vec!["a.svc".to_owned()], (&client, "demo"), clock.clone()).await;
        let error = errors::chain(&opened.map(|_| ()).unwrap_err());
        let expected =
            "no permission to get the Secret default/hooks: the verbs get, create and update are needed for it";
        assert!(error.starts_with(expected), "{error}");
        replica.end().await;
    });
}

/// Writes a certificate of an authority, or of a new one, which is returned.
fn renew(folder: &Path, authority: Option<&Authority>) -> Authority {
    let made = Authority::make("given", Validity::unlimited()).unwrap();
    let issued = authority.unwrap_or(&made).issue(&["a.svc".to_owned()], Validity::unlimited()).unwrap();
    std::fs::write(folder.join("tls.crt"), &issued.chain).unwrap();
    std::fs::write(folder.join("tls.key"), &issued.key).unwrap();
    made
}

#[test]
fn given_files_are_followed_and_a_new_authority_is_told_before_its_certificate_is_served() {
    in_virtual_time(async {
        let (_, client, clock) = cluster().await;
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).display().to_string();
        let first = renew(folder.path(), None);
        std::fs::write(folder.path().join("ca.crt"), first.pem()).unwrap();
        let files = json!({"certfile": path("tls.crt"), "pkeyfile": path("tls.key"), "cafile": path("ca.crt"), "fileCheckInterval": "5s"});
        let replica = Replica::start(&settings(files), "a.svc", (&client, &clock)).await;
        let before = replica.served();
        assert!(replica.is_valid("a.svc", &clock));
        renew(folder.path(), Some(&first));
        tokio::time::sleep(Duration::from_secs(6)).await;
        let renewed = replica.served();
        assert!(renewed.certificate != before.certificate && renewed.authorities == before.authorities);
        // Half of a renewal is told once, and changes nothing.
        let (messages, _guard) = collect_messages(tracing::Level::WARN);
        std::fs::write(folder.path().join("tls.key"), "nonsense").unwrap();
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert_eq!((replica.served(), messages.lock().len()), (renewed.clone(), 1), "{messages:?}");
        let second = renew(folder.path(), None);
        std::fs::write(folder.path().join("ca.crt"), second.pem()).unwrap();
        tokio::time::sleep(Duration::from_secs(6)).await;
        let announced = replica.served();
        assert_eq!(
            (announced.certificate, announced.authorities.as_deref()),
            (renewed.certificate, Some(&*(second.pem() + &first.pem())))
        );
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert!(replica.is_valid("a.svc", &clock));
        let replaced = replica.served();
        assert_eq!(replaced.authorities.as_deref(), Some(&*(second.pem() + &first.pem())));
        assert!(replaced.certificate.is_trusted(&second.pem(), "a.svc", clock.now()));
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(replica.served(), ServerCertificate { authorities: Some(second.pem()), ..replaced });
        replica.end().await;
    });
}

#[test]
fn a_made_certificate_is_valid_for_a_year() {
    in_virtual_time(async {
        let (_, client, clock) = cluster().await;
        let replica = Replica::start(&settings(json!({})), "a.svc", (&client, &clock)).await;
        let ends = replica.served().certificate.not_after().unwrap();
        let left = ends.duration_since(clock.now());
        assert!(
            left > SignedDuration::from_hours(365 * 24 - 1) && left <= SignedDuration::from_hours(365 * 24),
            "{left}"
        );
        replica.end().await;
    });
}
