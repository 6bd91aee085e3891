//! Standby replicas: a hand-over at a signal, a leader that is killed, and one that is stopped beyond its lease.

use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::cases;
use super::peering::Peers;
use crate::harness::{Case, Engine, Handler, Kind, Launch, Operator, TestContext, WriteProxy, eventually};

pub(crate) const CASES: &[Case] = cases![
    replicas_hand_over_at_a_signal_and_follow_a_killed_leader,
    a_leader_that_was_stopped_beyond_its_lease_writes_nothing_when_it_continues,
    replicas_are_one_peer_beside_kopf_which_stays_paused_at_each_change_over,
];

const LEASE_DURATION: Duration = Duration::from_secs(10);
const RETRY_PERIOD: Duration = Duration::from_secs(1);

/// A replica with a proxy that records its writes.
struct Replica {
    operator: Rc<Operator>,
    proxy: WriteProxy,
}

/// Replicas of one operator.
struct Replicas<'a> {
    context: &'a TestContext<'a>,
    kind: Kind,
    launch: Launch,
}

impl<'a> Replicas<'a> {
    fn new(context: &'a TestContext<'a>) -> Self {
        Self::of(context, context.thing(), &["first", "second", "third"].map(|id| Handler::on("create", id)), &[])
    }

    /// Returns replicas with handlers of a kind, and with further options.
    fn of(context: &'a TestContext<'a>, kind: Kind, handlers: &[Handler], more: &[String]) -> Self {
        let launch = context.launch(Engine::Kopfd, std::slice::from_ref(&kind), handlers);
        let options =
            ["--leader-elect", "--lease=elected", "--lease-duration=10s", "--renew-deadline=6s", "--retry-period=1s"];
        let options =
            options.map(str::to_owned).into_iter().chain([format!("--lease-namespace={}", context.namespace)]);
        let options = options.chain(more.iter().cloned()).collect();
        Self { context, kind, launch: Launch { options, ..launch } }
    }

    fn start(&self, name: &str) -> Replica {
        let directory = self.context.directory();
        let proxy = WriteProxy::open(self.context.client(), usize::MAX);
        let launch = Launch {
            kubeconfig: proxy.kubeconfig(directory),
            log: directory.join(format!("{name}.log")),
            ..self.launch.clone()
        };
        Replica { operator: self.context.start(&launch), proxy }
    }

    fn lease(&self) -> Option<Value> {
        self.context
            .client()
            .get(&format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases/elected", self.context.namespace))
    }

    /// Returns the identity of the leader.
    fn holder(&self) -> Option<String> {
        let lease = self.lease()?;
        lease["spec"]["holderIdentity"].as_str().filter(|holder| !holder.is_empty()).map(str::to_owned)
    }

    /// Waits for a leader other than this one, and returns it with the time since a moment.
    fn followed(&self, leader: &str, since: Instant) -> (String, Duration) {
        let next = eventually("another replica leads", Duration::from_mins(1), || {
            self.holder().filter(|holder| holder != leader)
        });
        (next, since.elapsed())
    }

    fn handle(&self, name: &str) {
        self.context.create(&self.kind, name, json!({}));
        self.context.handled(&self.kind, name);
        let calls = self.context.calls_of(name);
        assert_eq!(calls, ["first#0", "second#0", "third#0"], "each handler of {name} is called once");
    }
}

impl Replica {
    fn leads_as(&self, identity: &str) -> bool {
        self.operator.log().contains(&format!("this replica, {identity}, has got the lease"))
    }

    /// Returns the number of writes, except for those of the Lease. The reviews of the own rights write nothing.
    fn writes(&self) -> usize {
        let is_other = |path: &str| !path.contains("/leases") && !path.starts_with("/apis/authorization.k8s.io/");
        self.proxy.writes().iter().filter(|write| is_other(&write.path)).count()
    }
}

fn replicas_hand_over_at_a_signal_and_follow_a_killed_leader(context: &TestContext<'_>) {
    let replicas = Replicas::new(context);
    let one = replicas.start("one");
    let (leader, _) = replicas.followed("", Instant::now());
    context.eventually("the first one leads", || one.leads_as(&leader).then_some(()));
    let two = replicas.start("two");
    context.eventually("the second one stands by", || {
        two.operator.log().contains(&format!("{leader} holds the lease")).then_some(())
    });
    replicas.handle("before");
    assert_eq!(two.writes(), 0, "a replica that stands by writes nothing");
    let shown = context.cluster().kubectl_ok(&["get", "lease", "elected", "-n", &context.namespace, "--no-headers"]);
    assert!(shown.split_whitespace().nth(1) == Some(leader.as_str()), "{shown}");

    let began = Instant::now();
    one.operator.signal("TERM");
    let (second, took) = replicas.followed(&leader, began);
    println!("SIGTERM: another replica leads after {took:?}");
    assert!(took <= Duration::from_secs(1), "{took:?}: {}", one.operator.log());
    eventually("the first one ends", Duration::from_secs(30), || one.operator.ended());
    context.kill(&one.operator);
    replicas.handle("after-term");

    let three = replicas.start("three");
    context.eventually("the third one stands by", || {
        three.operator.log().contains(&format!("{second} holds the lease")).then_some(())
    });
    let began = Instant::now();
    two.operator.signal("KILL");
    context.kill(&two.operator);
    let (third, took) = replicas.followed(&second, began);
    println!("SIGKILL: another replica leads after {took:?}");
    assert!(took <= LEASE_DURATION + RETRY_PERIOD + Duration::from_secs(1), "{took:?}");
    context.eventually("the third one leads", || three.leads_as(&third).then_some(()));
    replicas.handle("after-kill");
    let spec = replicas.lease().expect("there is a Lease")["spec"].clone();
    assert_eq!((&spec["leaseTransitions"], &spec["leaseDurationSeconds"]), (&json!(2), &json!(10)), "{spec}");
}

fn a_leader_that_was_stopped_beyond_its_lease_writes_nothing_when_it_continues(context: &TestContext<'_>) {
    let replicas = Replicas::new(context);
    let one = replicas.start("one");
    let (leader, _) = replicas.followed("", Instant::now());
    let two = replicas.start("two");
    context.eventually("the second one stands by", || {
        two.operator.log().contains(&format!("{leader} holds the lease")).then_some(())
    });
    replicas.handle("before");
    for number in 0..20 {
        context.create(&replicas.kind, &format!("late{number}"), json!({}));
    }
    std::thread::sleep(Duration::from_millis(200));
    one.operator.signal("STOP");
    replicas.followed(&leader, Instant::now());
    let before = one.writes();
    one.operator.signal("CONT");
    context.eventually("it stands by", || {
        one.operator.log().contains("does not lead any more and stands by").then_some(())
    });
    for number in 0..20 {
        context.handled(&replicas.kind, &format!("late{number}"));
    }
    // It may have been stopped between the last look at the clock and the system call that writes: that is one request.
    let after = one.writes();
    assert!(after <= before + 1, "{}", one.operator.log());
    replicas.handle("after");
    assert_eq!(one.writes(), after, "{}", one.operator.log());
}

fn replicas_are_one_peer_beside_kopf_which_stays_paused_at_each_change_over(context: &TestContext<'_>) {
    let peers = Peers::new(context, false);
    let kopf = peers.start(Engine::Kopf, 5, 60);
    peers.expect_handled_by("before", Engine::Kopf);
    let options = [format!("--peering={}", peers.name()), "--priority=10".to_owned(), "--verbose".to_owned()];
    let replicas = Replicas::of(context, peers.kind.clone(), &[Handler::on("create", "on_create")], &options);
    let records = || {
        let object = context.client().get(&peers.paths().1).expect("the peering is there");
        object["status"].as_object().cloned().unwrap_or_default()
    };
    let own = format!("elected@{}", context.namespace);

    let one = replicas.start("one");
    let (leader, _) = replicas.followed("", Instant::now());
    peers.log_says(&kopf, &format!("Pausing operations in favour of [<Peer {own}: priority=10, lifetime=60, "));
    let two = replicas.start("two");
    context.eventually("the second one stands by", || {
        two.operator.log().contains(&format!("{leader} holds the lease")).then_some(())
    });
    peers.expect_handled_by("by-the-first", Engine::Kopfd);
    assert_eq!(two.writes(), 0, "a replica that stands by writes nothing");
    assert_eq!(records().len(), 2, "the replicas have one record: {:?}", records());

    one.operator.signal("TERM");
    let (second, _) = replicas.followed(&leader, Instant::now());
    eventually("the first one ends", Duration::from_secs(30), || one.operator.ended());
    context.kill(&one.operator);
    peers.expect_handled_by("by-the-second", Engine::Kopfd);
    context.eventually("the record has its whole lifetime again", || (records()[&own]["lifetime"] == 60).then_some(()));

    let three = replicas.start("three");
    context.eventually("the third one stands by", || {
        three.operator.log().contains(&format!("{second} holds the lease")).then_some(())
    });
    context.kill(&two.operator);
    replicas.followed(&second, Instant::now());
    peers.expect_handled_by("by-the-third", Engine::Kopfd);
    // It has begun once, at its start.
    let begins = || kopf.log().matches("Resuming operations after the pause.").count();
    assert_eq!(begins(), 1, "{}", kopf.log());

    // The last one leaves its record behind, which expires after the lease duration and one retry period.
    context.stop(&three.operator);
    assert_eq!(records()[&own]["lifetime"], 11);
    context.eventually("kopf begins again", || (begins() == 2).then_some(()));
    peers.expect_handled_by("after", Engine::Kopf);
}
