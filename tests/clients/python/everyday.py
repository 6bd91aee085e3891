"""The official client for Python does its everyday work: objects of built-in kinds and custom ones, in all ways it has."""

import sys

import yaml
from kubernetes import client, config, dynamic, utils
from kubernetes.client.exceptions import ApiException

namespace = sys.argv[1]
config.load_kube_config()
core, apps, custom = client.CoreV1Api(), client.AppsV1Api(), client.CustomObjectsApi()
gauges = dict(group="clients.kopfd.dev", version="v1", namespace=namespace, plural="gauges")


def refused(status, reason, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except ApiException as error:
        assert error.status == status, error
        assert f'"reason":"{reason}"' in error.body, error.body
        return error
    raise AssertionError(f"{call.__name__} was not refused")


def config_map(name, **data):
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name, labels={"app": "everyday"}), data=data)


def everyday_objects():
    created = core.create_namespaced_config_map(namespace, config_map("first", a="1"))
    assert created.metadata.uid and created.metadata.creation_timestamp
    refused(409, "AlreadyExists", core.create_namespaced_config_map, namespace, config_map("first"))
    read = core.read_namespaced_config_map("first", namespace)
    assert read.data == {"a": "1"} and read.metadata.resource_version == created.metadata.resource_version
    read.data["b"] = "2"
    replaced = core.replace_namespaced_config_map("first", namespace, read)
    assert int(replaced.metadata.resource_version) > int(created.metadata.resource_version)
    refused(409, "Conflict", core.replace_namespaced_config_map, "first", namespace, read)
    dry = core.create_namespaced_config_map(namespace, config_map("dry"), dry_run="All")
    assert dry.metadata.uid
    refused(404, "NotFound", core.read_namespaced_config_map, "dry", namespace)
    secret = core.create_namespaced_secret(namespace, client.V1Secret(
        metadata=client.V1ObjectMeta(generate_name="made-"), string_data={"key": "value"}))
    assert secret.metadata.name.startswith("made-") and secret.data == {"key": "dmFsdWU="}
    deleted = core.delete_namespaced_config_map("first", namespace)
    deleted = deleted if isinstance(deleted, dict) else deleted.to_dict()
    assert deleted["status"] == "Success", deleted
    refused(404, "NotFound", core.delete_namespaced_config_map, "first", namespace)
    refused(422, "Invalid", core.create_namespaced_config_map, namespace, config_map("No_Good"))


def patches():
    core.create_namespaced_config_map(namespace, config_map("patched", a="1", b="2"))
    # The kind of a patch follows from its form: a list is a JSON patch, anything else a strategic one.
    strategic = core.patch_namespaced_config_map("patched", namespace, {"data": {"a": None, "c": "3"}})
    assert strategic.data == {"b": "2", "c": "3"}, strategic.data
    listed = core.patch_namespaced_config_map("patched", namespace, [{"op": "replace", "path": "/data/b", "value": "4"}])
    assert listed.data["b"] == "4"
    refused(422, "Invalid", core.patch_namespaced_config_map, "patched", namespace, [{"op": "test", "path": "/data/b", "value": "0"}])
    merged = core.patch_namespaced_config_map("patched", namespace, {"data": {"d": "5"}}, _content_type="application/merge-patch+json")
    assert merged.data["d"] == "5"
    applied = core.patch_namespaced_config_map(
        "applied", namespace, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"x": "1"}},
        field_manager="everyday", _content_type="application/apply-patch+yaml")
    assert [entry.operation for entry in applied.metadata.managed_fields] == ["Apply"]
    other = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"x": "2"}}
    refused(409, "Conflict", core.patch_namespaced_config_map, "applied", namespace, other,
            field_manager="other", _content_type="application/apply-patch+yaml")
    forced = core.patch_namespaced_config_map(
        "applied", namespace, other, field_manager="other", force=True, _content_type="application/apply-patch+yaml")
    assert forced.data == {"x": "2"}


def pages():
    for number in range(7):
        core.create_namespaced_config_map(namespace, config_map(f"page-{number}"))
    seen, token, sizes = [], None, []
    while True:
        page = core.list_namespaced_config_map(namespace, label_selector="app=everyday", limit=3, _continue=token)
        sizes.append(len(page.items))
        seen += [item.metadata.name for item in page.items]
        token = page.metadata._continue
        if not token:
            break
        assert page.metadata.remaining_item_count is None, "a selector leaves no number of the rest"
    assert sizes[0] == 3 and len(seen) == len(set(seen)), (sizes, seen)
    assert {f"page-{number}" for number in range(7)} <= set(seen)
    named = core.list_namespaced_config_map(namespace, field_selector="metadata.name=page-3")
    assert [item.metadata.name for item in named.items] == ["page-3"]
    core.delete_collection_namespaced_config_map(namespace, label_selector="app=everyday")
    assert not core.list_namespaced_config_map(namespace, label_selector="app=everyday").items


def subresources():
    labels = {"app": "web"}
    spec = client.V1DeploymentSpec(
        replicas=1, selector=client.V1LabelSelector(match_labels=labels),
        template=client.V1PodTemplateSpec(metadata=client.V1ObjectMeta(labels=labels), spec=client.V1PodSpec(
            containers=[client.V1Container(name="main", image="example.com/web:1")])))
    apps.create_namespaced_deployment(namespace, client.V1Deployment(metadata=client.V1ObjectMeta(name="web"), spec=spec))
    scale = apps.read_namespaced_deployment_scale("web", namespace)
    scale.spec.replicas = 4
    assert apps.replace_namespaced_deployment_scale("web", namespace, scale).spec.replicas == 4
    assert apps.patch_namespaced_deployment_scale("web", namespace, {"spec": {"replicas": 5}}).spec.replicas == 5
    status = apps.patch_namespaced_deployment_status("web", namespace, {"status": {"replicas": 5, "readyReplicas": 2}})
    assert (status.status.ready_replicas, status.spec.replicas) == (2, 5)
    pod = core.create_namespaced_pod(namespace, client.V1Pod(
        metadata=client.V1ObjectMeta(name="pod"), spec=client.V1PodSpec(containers=[client.V1Container(name="main", image="a")])))
    assert pod.status.phase == "Pending"
    pod.status.phase = "Running"
    assert core.replace_namespaced_pod_status("pod", namespace, pod).status.phase == "Running"
    core.create_namespaced_pod_eviction("pod", namespace, client.V1Eviction(metadata=client.V1ObjectMeta(name="pod", namespace=namespace)))
    refused(404, "NotFound", core.read_namespaced_pod, "pod", namespace)
    token = core.create_namespaced_service_account_token(
        "default", namespace, client.AuthenticationV1TokenRequest(spec=client.V1TokenRequestSpec(audiences=[], expiration_seconds=3600)))
    assert token.status.token.count(".") == 2
    review = client.AuthorizationV1Api().create_self_subject_access_review(client.V1SelfSubjectAccessReview(
        spec=client.V1SelfSubjectAccessReviewSpec(resource_attributes=client.V1ResourceAttributes(verb="get", resource="pods"))))
    assert review.status.allowed


def gauge(name, **spec):
    return {"apiVersion": "clients.kopfd.dev/v1", "kind": "Gauge", "metadata": {"name": name}, "spec": spec}


def custom_objects():
    made = custom.create_namespaced_custom_object(**gauges, body=gauge("dial", mode="plain"))
    assert made["spec"] == {"mode": "plain", "size": 1}, made
    refused(422, "Invalid", custom.create_namespaced_custom_object, **gauges, body=gauge("large", size=1000))
    patched = custom.patch_namespaced_custom_object(**gauges, name="dial", body={"spec": {"size": 7}})
    assert patched["spec"]["size"] == 7 and patched["metadata"]["generation"] == 2
    status = custom.patch_namespaced_custom_object_status(**gauges, name="dial", body={"status": {"phase": "Busy"}})
    assert status["status"] == {"phase": "Busy"}
    patched["spec"]["size"] = 8
    refused(409, "Conflict", custom.replace_namespaced_custom_object, **gauges, name="dial", body=patched)
    scale = custom.patch_namespaced_custom_object_scale(**gauges, name="dial", body={"spec": {"replicas": 2}})
    assert scale["kind"] == "Scale" and scale["spec"]["replicas"] == 2
    everywhere = custom.list_cluster_custom_object("clients.kopfd.dev", "v1", "gauges", field_selector=f"metadata.namespace={namespace}")
    assert [item["metadata"]["name"] for item in everywhere["items"]] == ["dial"]
    custom.delete_namespaced_custom_object(**gauges, name="dial")
    refused(404, "NotFound", custom.get_namespaced_custom_object, **gauges, name="dial")


def dynamic_client():
    clients = dynamic.DynamicClient(client.ApiClient())
    kind = clients.resources.get(api_version="clients.kopfd.dev/v1", kind="Gauge")
    assert kind.namespaced and "gg" in kind.short_names
    made = kind.create(body=gauge("dynamic", size=3), namespace=namespace)
    assert made.spec.size == 3
    merged = kind.patch(body={"spec": {"size": 4}}, name="dynamic", namespace=namespace, content_type="application/merge-patch+json")
    assert merged.spec.size == 4
    applied = kind.server_side_apply(body=gauge("dynamic", size=5), namespace=namespace, field_manager="dynamic", force_conflicts=True)
    assert applied.spec.size == 5
    assert kind.status.patch(
        body={"status": {"phase": "Set"}}, name="dynamic", namespace=namespace, content_type="application/merge-patch+json").status.phase == "Set"
    assert [item.metadata.name for item in kind.get(namespace=namespace).items] == ["dynamic"]
    events = kind.watch(namespace=namespace, timeout=2)
    assert next(iter(events))["object"].metadata.name == "dynamic"
    kind.delete(name="dynamic", namespace=namespace)
    maps = clients.resources.get(api_version="v1", kind="ConfigMap")
    maps.create(body={"metadata": {"name": "dynamic"}, "data": {"a": "b"}}, namespace=namespace)
    assert maps.get(name="dynamic", namespace=namespace).data.a == "b"


TEXT = """
apiVersion: v1
kind: Service
metadata: {name: from-yaml}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: batch/v1
kind: Job
metadata: {name: from-yaml}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: a}]}}}
"""


def objects_from_yaml():
    utils.create_from_yaml(client.ApiClient(), yaml_objects=list(yaml.safe_load_all(TEXT)), namespace=namespace)
    assert core.read_namespaced_service("from-yaml", namespace).spec.ports[0].port == 80
    assert client.BatchV1Api().read_namespaced_job("from-yaml", namespace).spec.backoff_limit == 6
    try:
        utils.create_from_yaml(client.ApiClient(), yaml_objects=list(yaml.safe_load_all(TEXT)), namespace=namespace)
    except utils.FailToCreateError as error:
        assert {one.status for one in error.api_exceptions} == {409}
    else:
        raise AssertionError("what is there cannot be created")


def what_there_is():
    assert client.VersionApi().get_code().major == "1"
    assert "apps" in [group.name for group in client.ApisApi().get_api_versions().groups]
    assert "configmaps/status" not in [one.name for one in core.get_api_resources().resources]


for part in [everyday_objects, patches, pages, subresources, custom_objects, dynamic_client, objects_from_yaml, what_there_is]:
    part()
    print("done:", part.__name__, flush=True)
