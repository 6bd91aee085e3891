"""The official client for Python watches, resumes, and gets an error for an expired revision; and it elects a leader."""

import os
import sys
import threading
import time

from kubernetes import client, config, watch
from kubernetes.client.exceptions import ApiException
from kubernetes.leaderelection import electionconfig, leaderelection
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock

namespace = sys.argv[1]
config.load_kube_config()
core = client.CoreV1Api()


def config_map(name, **data):
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels={"app": "watching"}), data=data)


def take(count, **options):
    """Returns the first events of a watch, and the revision of the last."""
    stream, events = watch.Watch(), []
    for event in stream.stream(core.list_namespaced_config_map, namespace, label_selector="app=watching", timeout_seconds=20, **options):
        events.append((event["type"], event["object"].metadata.name))
        if len(events) == count:
            stream.stop()
    return events, stream.resource_version


def watches_go_on():
    core.create_namespaced_config_map(namespace, config_map("a"))
    core.create_namespaced_config_map(namespace, config_map("b"))
    first, revision = take(2)
    assert sorted(first) == [("ADDED", "a"), ("ADDED", "b")], first
    revision = core.list_namespaced_config_map(namespace).metadata.resource_version
    core.patch_namespaced_config_map("a", namespace, {"data": {"x": "1"}})
    core.delete_namespaced_config_map("b", namespace)
    core.patch_namespaced_config_map("a", namespace, {"metadata": {"labels": {"app": "other"}}})
    next_ones, _ = take(3, resource_version=revision)
    # An object that no longer matches the selector is reported as deleted.
    assert next_ones == [("MODIFIED", "a"), ("DELETED", "b"), ("DELETED", "a")], next_ones


def events_come_while_they_happen():
    seen, revision = [], core.list_namespaced_config_map(namespace).metadata.resource_version
    thread = threading.Thread(target=lambda: seen.extend(take(3, resource_version=revision)[0]))
    thread.start()
    for number in range(3):
        time.sleep(0.2)
        core.create_namespaced_config_map(namespace, config_map(f"live-{number}"))
    thread.join(20)
    assert seen == [("ADDED", f"live-{number}") for number in range(3)], seen


def watches_end_in_time():
    began = time.monotonic()
    for _ in watch.Watch().stream(core.list_namespaced_secret, namespace, timeout_seconds=1):
        pass
    assert 0.5 < time.monotonic() - began < 5


def what_is_too_old_is_told():
    # The client lists again by itself if it started without a revision; with a revision it raises the error.
    is_embedded = "kopfd" in client.VersionApi().get_code().git_version
    try:
        for _ in watch.Watch().stream(core.list_namespaced_config_map, namespace, resource_version="1", timeout_seconds=5):
            # A real server started as recently as those of tests may read from etcd, which still has the first revision.
            assert not is_embedded, "there are events of a revision that nobody remembers"
            return
    except ApiException as error:
        assert error.status == 410, error
    else:
        raise AssertionError("nobody is told that the revision is too old")


def a_leader_is_elected():
    led = []

    def elect(name, then):
        lock = LeaseLock("leader", namespace, name)
        settings = electionconfig.Config(lock, lease_duration=3, renew_deadline=2, retry_period=1, onstarted_leading=then, onstopped_leading=None)
        threading.Thread(target=leaderelection.LeaderElection(settings).run, daemon=True).start()

    elect("one", lambda: led.append("one"))
    deadline = time.monotonic() + 20
    while not led and time.monotonic() < deadline:
        time.sleep(0.1)
    elect("two", lambda: led.append("two"))
    time.sleep(3)
    assert led == ["one"], led
    lease = client.CoordinationV1Api().read_namespaced_lease("leader", namespace)
    assert lease.spec.holder_identity == "one" and lease.spec.renew_time, lease


for part in [watches_go_on, events_come_while_they_happen, watches_end_in_time, what_is_too_old_is_told, a_leader_is_elected]:
    part()
    print("done:", part.__name__, flush=True)

# The candidates' threads never end, and a regular shutdown of the interpreter may fail on their output.
os._exit(0)
