"""Real kubectl against the embedded API server: every command checked for what it did and what it printed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.assets import find
from tests.e2e.embedded import Kubectl, embedded_server
from tests.e2e.waiting import wait_for

pytestmark = pytest.mark.e2e

POD = """
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  containers:
  - {name: main, image: nginx, resources: {requests: {cpu: 100m}}}
"""
GATED = """
apiVersion: v1
kind: Pod
metadata: {name: held}
spec:
  schedulingGates: [{name: example.com/hold}]
  containers: [{name: main, image: nginx}]
"""
NODE = """
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {zone: a}}
status:
  capacity: {cpu: "4", memory: 8Gi, pods: "110"}
  allocatable: {cpu: "4", memory: 8Gi, pods: "110"}
  conditions: [{type: Ready, status: "True"}]
"""
DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.org}
spec:
  group: example.org
  scope: Namespaced
  names: {plural: things, singular: thing, kind: Thing, shortNames: [th]}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties: {size: {type: integer, description: How large it is.}}
    additionalPrinterColumns:
    - {name: Size, type: integer, jsonPath: .spec.size}
"""


@pytest.fixture(scope="module")
def program() -> Path:
    found = find("kubectl")
    if found is None:
        pytest.skip("no kubectl: run `make envtest`")
    return found


@pytest.fixture
def kubectl(program: Path, tmp_path: Path) -> Iterator[Kubectl]:
    with embedded_server(tmp_path) as cluster:
        yield Kubectl(program, cluster, tmp_path / "cache")


def read(kubectl: Kubectl, *what: str) -> Any:
    return json.loads(kubectl("get", *what, "-o", "json"))


def lines(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_version_and_rights(kubectl: Kubectl) -> None:
    assert "Server Version: v1.36.4+kuberth" in kubectl("version")
    assert kubectl("auth", "can-i", "create", "pods") == "yes\n"
    assert "kuberth-admin" in kubectl("auth", "whoami")
    assert kubectl("get", "--raw", "/readyz") == "ok"


def test_top_shows_what_is_requested(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=NODE)
    kubectl("apply", "-f", "-", stdin=POD.replace("spec:", "spec:\n  nodeName: n1"))
    running = json.dumps({"status": {"phase": "Running"}})
    kubectl("patch", "pod", "web", "--subresource=status", "--type=merge", "-p", running)
    assert lines(kubectl("top", "nodes"))[1] == ["n1", "100m", "2%", "0Mi", "0%"]
    assert lines(kubectl("top", "pods"))[1] == ["web", "100m", "0Mi"]
    assert lines(kubectl("top", "pods", "--all-namespaces", "--containers"))[1][2] == "main"
    assert "not found" in kubectl.refused("top", "pod", "missing")
    assert "metrics.k8s.io/v1beta1" in kubectl("api-versions")


def test_apply_creates_changes_and_leaves_alone(kubectl: Kubectl) -> None:
    assert kubectl("apply", "-f", "-", stdin=POD) == "pod/web created\n"
    assert kubectl("apply", "-f", "-", stdin=POD) == "pod/web unchanged\n"
    changed = POD.replace("image: nginx", "image: nginx:2").replace("labels: {app: web}", "labels: {tier: a}")
    assert kubectl("apply", "-f", "-", stdin=changed) == "pod/web configured\n"
    pod = read(kubectl, "pod", "web")
    assert pod["spec"]["containers"][0]["image"] == "nginx:2"
    assert pod["metadata"]["labels"] == {"tier": "a"}
    kubectl("label", "pod", "web", "kept=yes")
    assert kubectl("apply", "-f", "-", stdin=changed) == "pod/web unchanged\n"
    assert read(kubectl, "pod", "web")["metadata"]["labels"] == {"tier": "a", "kept": "yes"}


def test_apply_of_lists_and_in_dry_runs(kubectl: Kubectl) -> None:
    item = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "b"}}
    items = [{**item, "metadata": {"name": name}} for name in ("c1", "c2")]
    listed = yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": items})
    for mode in ("server", "client"):
        output = kubectl("apply", f"--dry-run={mode}", "-f", "-", stdin=listed)
        assert (
            output
            == f"configmap/c1 created ({mode} dry run)\nconfigmap/c2 created ({mode} dry run)\n".replace(
                "client dry run", "dry run"
            )
        )
    assert read(kubectl, "configmaps")["items"] == []
    assert kubectl("apply", "-f", "-", stdin=listed) == "configmap/c1 created\nconfigmap/c2 created\n"
    assert len(read(kubectl, "configmaps")["items"]) == 2


def test_server_side_apply(kubectl: Kubectl) -> None:
    assert kubectl("apply", "--server-side", "-f", "-", stdin=POD) == "pod/web serverside-applied\n"
    managers = read(kubectl, "pod", "web", "--show-managed-fields")["metadata"]["managedFields"]
    assert [(entry["manager"], entry["operation"]) for entry in managers] == [("kubectl", "Apply")]


def test_diff_prints_what_apply_would_change(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=POD)
    assert kubectl("diff", "-f", "-", stdin=POD) == ""
    done = kubectl.run("diff", "-f", "-", stdin=POD.replace("image: nginx", "image: nginx:2"), check=False)
    assert done.returncode == 1
    assert "+  - image: nginx:2" in done.stdout


def test_mistakes_are_reported(kubectl: Kubectl) -> None:
    wrong = POD.replace("containers:", "container:")
    error = kubectl.refused("apply", "-f", "-", stdin=wrong)
    assert 'strict decoding error: unknown field "spec.container"' in error
    error = kubectl.refused("create", "-f", "-", stdin=POD.replace("name: web", "name: Web_1"))
    assert 'The Pod "Web_1" is invalid: metadata.name: Invalid value: "Web_1"' in error
    kubectl("create", "-f", "-", stdin=POD)
    error = kubectl.refused("create", "-f", "-", stdin=POD)
    assert (
        'Error from server (AlreadyExists): error when creating "STDIN": pods "web" already exists' in error
    )
    assert kubectl.refused("get", "pod", "gone") == 'Error from server (NotFound): pods "gone" not found\n'
    error = kubectl.refused("create", "-n", "nowhere", "-f", "-", stdin=POD)
    assert 'namespaces "nowhere" not found' in error
    assert "the server doesn't have a resource type" in kubectl.refused("get", "unicorns")


def test_create_with_generators(kubectl: Kubectl) -> None:
    """These come as protobuf."""
    created = {
        "deployment": ("web", "--image=nginx", "--replicas=3"),
        "configmap": ("settings", "--from-literal=a=b"),
        "namespace": ("team",),
        "serviceaccount": ("robot",),
        "priorityclass": ("high", "--value=1000"),
        "poddisruptionbudget": ("budget", "--selector=app=web", "--min-available=1"),
        "job": ("once", "--image=busybox", "--", "true"),
    }
    for kind, arguments in created.items():
        assert kubectl("create", kind, *arguments).endswith(f"/{arguments[0]} created\n")
    deployment = read(kubectl, "deployment", "web")
    assert deployment["spec"]["replicas"] == 3
    assert deployment["spec"]["template"]["spec"]["containers"][0]["image"] == "nginx"
    assert read(kubectl, "pdb", "budget")["spec"]["minAvailable"] == 1
    assert read(kubectl, "priorityclass", "high")["value"] == 1000
    assert kubectl("run", "single", "--image=nginx") == "pod/single created\n"


def test_get_in_all_forms(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=f"{POD}---{GATED}---{NODE}")
    header, held, web = lines(kubectl("get", "pods"))
    assert header == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert held[:4] == ["held", "0/1", "SchedulingGated", "0"]
    assert web[:4] == ["web", "0/1", "Pending", "0"]
    wide = lines(kubectl("get", "pods", "-o", "wide"))
    assert " ".join(wide[0]) == "NAME READY STATUS RESTARTS AGE IP NODE NOMINATED NODE READINESS GATES"
    assert wide[2][:4] == web[:4]
    assert wide[2][5:] == ["<none>"] * 4
    assert yaml.safe_load(kubectl("get", "pod", "web", "-o", "yaml")) == read(kubectl, "pod", "web")
    assert kubectl("get", "pods", "-o", "name") == "pod/held\npod/web\n"
    assert kubectl("get", "pods", "-l", "app=web", "--no-headers").split()[0] == "web"
    assert kubectl("get", "pods", "--field-selector=metadata.name=held", "-o", "name") == "pod/held\n"
    assert kubectl("get", "pods", "-o", "jsonpath={.items[*].metadata.name}") == "held web"
    assert lines(kubectl("get", "pods", "-A"))[1][:2] == ["default", "held"]
    assert lines(kubectl("get", "pods", "--show-labels"))[2][5] == "app=web"
    assert lines(kubectl("get", "pods", "-L", "app"))[2][5] == "web"
    sorted_names = kubectl("get", "pods", "--sort-by=.metadata.creationTimestamp", "-o", "name").split()
    assert set(sorted_names) == {"pod/held", "pod/web"}
    assert lines(kubectl("get", "nodes"))[1][:3] == ["n1", "Ready", "<none>"]
    assert lines(kubectl("get", "nodes"))[0] == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    assert kubectl("get", "pods,nodes", "-o", "name") == "pod/held\npod/web\nnode/n1\n"
    assert kubectl("get", "pods", "--chunk-size=1", "-o", "name") == "pod/held\npod/web\n"


def test_get_watches(kubectl: Kubectl, tmp_path: Path) -> None:
    output = tmp_path / "watched"
    with output.open("w") as file:
        watching = subprocess.Popen(
            kubectl.command("get", "pods", "-w", "--output-watch-events"), stdout=file, stderr=file
        )
        try:
            # Whether it watches already cannot be seen; whatever it missed, it lists first.
            kubectl("apply", "-f", "-", stdin=POD)
            wait_for("the new pod", lambda: "ADDED" in output.read_text() or None, explain=output.read_text)
            kubectl("label", "pod", "web", "x=y")
            wait_for("its change", lambda: "MODIFIED" in output.read_text() or None, explain=output.read_text)
            kubectl("delete", "pod", "web", "--now")
            wait_for("its end", lambda: "DELETED" in output.read_text() or None, explain=output.read_text)
        finally:
            watching.terminate()
            watching.wait(10.0)
    header, *rows = lines(output.read_text())
    assert header == ["EVENT", "NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert [row[:4] for row in rows if row[0] == "ADDED"] == [["ADDED", "web", "0/1", "Pending"]]


def test_describe(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=f"{POD}---{NODE}")
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "web.1", "namespace": "default"},
        "involvedObject": {
            "kind": "Pod",
            "name": "web",
            "namespace": "default",
            "uid": read(kubectl, "pod", "web")["metadata"]["uid"],
        },
        "reason": "Tried",
        "message": "a client tried",
        "type": "Normal",
        "source": {"component": "tester"},
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 1,
    }
    kubectl("create", "-f", "-", stdin=json.dumps(event))
    described = kubectl("describe", "pod", "web")
    assert "Image:" in described
    assert "a client tried" in described
    described = kubectl("describe", "node", "n1")
    assert "cpu:     4" in described
    assert "Non-terminated Pods:" in described
    assert lines(kubectl("get", "events"))[1][2:4] == ["Tried", "pod/web"]


def test_label_annotate_taint_cordon(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=f"{POD}---{NODE}")
    assert kubectl("label", "pod", "web", "tier=front") == "pod/web labeled\n"
    assert kubectl("label", "pod", "web", "app-") == "pod/web unlabeled\n"
    assert read(kubectl, "pod", "web")["metadata"]["labels"] == {"tier": "front"}
    assert "already has a value" in kubectl.refused("label", "pod", "web", "tier=back")
    kubectl("label", "pod", "web", "tier=back", "--overwrite")
    assert kubectl("annotate", "pod", "web", "note=hello") == "pod/web annotated\n"
    assert read(kubectl, "pod", "web")["metadata"]["annotations"]["note"] == "hello"
    assert kubectl("taint", "node", "n1", "only=these:NoSchedule") == "node/n1 tainted\n"
    taint = {"key": "only", "value": "these", "effect": "NoSchedule"}
    assert taint in read(kubectl, "node", "n1")["spec"]["taints"]
    assert kubectl("taint", "node", "n1", "only-") == "node/n1 untainted\n"
    assert taint not in read(kubectl, "node", "n1").get("spec", {}).get("taints", [])
    assert kubectl("cordon", "n1") == "node/n1 cordoned\n"
    assert read(kubectl, "node", "n1")["spec"]["unschedulable"] is True
    assert lines(kubectl("get", "nodes"))[1][1] == "Ready,SchedulingDisabled"
    assert kubectl("uncordon", "n1") == "node/n1 uncordoned\n"
    assert "unschedulable" not in read(kubectl, "node", "n1").get("spec", {})


def test_scale(kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=nginx")
    assert kubectl("scale", "deployment", "web", "--replicas=5") == "deployment.apps/web scaled\n"
    assert read(kubectl, "deployment", "web")["spec"]["replicas"] == 5
    refused = kubectl.refused("scale", "deployment", "web", "--replicas=1", "--current-replicas=4")
    assert "Expected replicas to be 4, was 5" in refused
    assert kubectl("scale", "deployment", "web", "--replicas=0") == "deployment.apps/web scaled\n"
    assert read(kubectl, "deployment", "web")["spec"]["replicas"] == 0


def test_patch(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=POD)
    for kind, patch, image in (
        ("strategic", {"spec": {"containers": [{"name": "main", "image": "a"}]}}, "a"),
        ("json", [{"op": "replace", "path": "/spec/containers/0/image", "value": "b"}], "b"),
        ("merge", {"metadata": {"labels": {"app": None}}}, "b"),
    ):
        assert (
            kubectl("patch", "pod", "web", f"--type={kind}", "-p", json.dumps(patch)) == "pod/web patched\n"
        )
        pod = read(kubectl, "pod", "web")
        assert pod["spec"]["containers"][0]["image"] == image
        assert pod["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "100m"}}
    assert "labels" not in pod["metadata"]
    status = json.dumps({"status": {"phase": "Running"}})
    kubectl("patch", "pod", "web", "--subresource=status", "-p", status)
    assert lines(kubectl("get", "pods"))[1][2] == "Running"


def test_wait_and_delete(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=f"{POD}---{NODE}")
    assert "condition met" in kubectl("wait", "node/n1", "--for=condition=Ready", "--timeout=10s")
    waiting = subprocess.Popen(
        kubectl.command("wait", "pod/web", "--for=condition=Ready", "--timeout=30s"),
        stdout=subprocess.PIPE,
        text=True,
    )
    ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    kubectl("patch", "pod", "web", "--subresource=status", "-p", json.dumps(ready))
    output, _ = waiting.communicate(timeout=40.0)
    assert output == "pod/web condition met\n"
    assert 'pod "web" deleted' in kubectl("delete", "pod", "web", "--now", "--timeout=10s")
    assert kubectl("get", "pods", "-o", "name") == ""
    assert 'node "n1" deleted' in kubectl("delete", "node", "n1")
    kubectl("create", "configmap", "a")
    kubectl("create", "configmap", "b")
    kubectl("delete", "configmaps", "--all")
    assert kubectl("get", "configmaps", "-o", "name") == ""


def test_what_is_there_and_what_it_means(kubectl: Kubectl) -> None:
    table = lines(kubectl("api-resources"))
    assert ["pods", "po", "v1", "true", "Pod"] in table
    assert ["pods", "metrics.k8s.io/v1beta1", "true", "PodMetrics"] in table
    assert ["deployments", "deploy", "apps/v1", "true", "Deployment"] in table
    assert "resource.k8s.io/v1" in kubectl("api-versions").split()
    explained = kubectl("explain", "pod.spec.containers")
    assert "FIELD: containers <[]Container>" in explained
    assert "imagePullPolicy" in explained
    assert "GROUP:      apps" in kubectl("explain", "deployments")
    assert "schedulingGates" in kubectl("explain", "pod.spec", "--recursive")
    assert 'field "nothing" does not exist' in kubectl.refused("explain", "pod.spec.nothing")


def test_custom_kinds(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=DEFINITION)
    kubectl("wait", "crd/things.example.org", "--for=condition=Established", "--timeout=10s")
    thing = {"apiVersion": "example.org/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"size": 3}}
    assert kubectl("apply", "-f", "-", stdin=json.dumps(thing)) == "thing.example.org/t created\n"
    thing["spec"] = {"size": 4}
    assert kubectl("apply", "-f", "-", stdin=json.dumps(thing)) == "thing.example.org/t configured\n"
    assert lines(kubectl("get", "th"))[0] == ["NAME", "SIZE"]
    assert lines(kubectl("get", "th"))[1][:2] == ["t", "4"]
    assert "How large it is." in kubectl("explain", "thing.spec")
    kubectl("delete", "crd", "things.example.org")
    # kubectl caches discovery for hours; it asks again when its cache is gone.
    forgetful = Kubectl(kubectl.program, kubectl.cluster, kubectl.cache.with_name("other"))
    assert "the server doesn't have a resource type" in forgetful.refused("get", "things")


def test_everything_is_there_after_a_restart(program: Path, tmp_path: Path) -> None:
    with embedded_server(tmp_path) as cluster:
        first = Kubectl(program, cluster, tmp_path / "cache")
        first("apply", "-f", "-", stdin=POD)
        before = read(first, "pod", "web")
    with embedded_server(tmp_path) as cluster:
        again = Kubectl(program, cluster, tmp_path / "cache")
        assert read(again, "pod", "web") == before
        assert again("apply", "-f", "-", stdin=POD) == "pod/web unchanged\n"


def test_strangers_are_not_let_in(kubectl: Kubectl) -> None:
    cluster = kubectl.cluster
    ca = cluster.kubeconfig.with_name("ca.crt")
    ca.write_bytes(cluster.credentials.ca_certificate)
    empty = cluster.kubeconfig.with_name("empty")
    empty.write_text("")
    common = ("--kubeconfig", str(empty), "--server", cluster.url, "--certificate-authority", str(ca))
    wrong = kubectl.refused(*common, "--token", "wrong", "get", "pods")
    assert "You must be logged in to the server" in wrong
    assert kubectl(*common, "--token", cluster.credentials.token, "get", "pods", "-o", "name") == ""


DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: main, image: "nginx:1"}
"""


def owners(kubectl: Kubectl, *what: str) -> set[tuple[str, str]]:
    managed = read(kubectl, *what, "--show-managed-fields")["metadata"]["managedFields"]
    return {(entry["manager"], entry["operation"]) for entry in managed}


def test_server_side_apply_conflicts_and_takes_over(kubectl: Kubectl) -> None:
    kubectl("apply", "--server-side", "-f", "-", stdin=DEPLOYMENT)
    kubectl("scale", "deployment", "web", "--replicas=5")
    error = kubectl.refused("apply", "--server-side", "-f", "-", stdin=DEPLOYMENT)
    assert 'conflict with "kubectl" with subresource "scale" using apps/v1: .spec.replicas' in error
    assert read(kubectl, "deployment", "web")["spec"]["replicas"] == 5
    kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=DEPLOYMENT)
    assert read(kubectl, "deployment", "web")["spec"]["replicas"] == 2
    assert owners(kubectl, "deployment", "web") == {("kubectl", "Apply")}
    # A manager that no longer applies a field gives it up; without another owner it is removed.
    kubectl("apply", "--server-side", "-f", "-", stdin=DEPLOYMENT.replace("  replicas: 2\n", ""))
    assert read(kubectl, "deployment", "web")["spec"]["replicas"] == 1
    error = kubectl.refused(
        "apply", "--server-side", "-f", "-", stdin=DEPLOYMENT.replace("replicas:", "replica:")
    )
    assert ".spec.replica: field not declared in schema" in error


def test_apply_on_both_sides_in_turns(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    assert owners(kubectl, "deployment", "web") == {("kubectl-client-side-apply", "Update")}
    # Kubectl may change on the server's side what it applied on its own.
    three = DEPLOYMENT.replace("replicas: 2", "replicas: 3")
    kubectl("apply", "--server-side", "-f", "-", stdin=three)
    assert ("kubectl", "Apply") in owners(kubectl, "deployment", "web")
    assert read(kubectl, "deployment", "web")["spec"]["replicas"] == 3
    fewer = three.replace("metadata: {name: web}", "metadata: {name: web, labels: {a: b}}")
    kubectl("apply", "--server-side", "-f", "-", stdin=fewer)
    kubectl("apply", "--server-side", "-f", "-", stdin=three)
    assert "labels" not in read(kubectl, "deployment", "web")["metadata"]
    assert kubectl("apply", "-f", "-", stdin=DEPLOYMENT) == "deployment.apps/web configured\n"
    assert read(kubectl, "deployment", "web")["spec"]["replicas"] == 2


def test_replace_edit_and_set(kubectl: Kubectl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kubectl("create", "-f", "-", stdin=DEPLOYMENT)
    changed = DEPLOYMENT.replace("nginx:1", "nginx:2")
    assert kubectl("replace", "-f", "-", stdin=changed) == "deployment.apps/web replaced\n"
    assert kubectl("set", "image", "deployment/web", "main=nginx:3") == "deployment.apps/web image updated\n"
    kubectl("set", "env", "deployment/web", "A=1")
    kubectl("set", "resources", "deployment/web", "--requests=cpu=100m")
    editor = tmp_path / "editor"
    editor.write_text("#!/bin/sh\nsed -i s/nginx:3/nginx:4/ $1\n")
    editor.chmod(0o755)
    monkeypatch.setenv("KUBE_EDITOR", str(editor))
    assert kubectl("edit", "deployment", "web") == "deployment.apps/web edited\n"
    (container,) = read(kubectl, "deployment", "web")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "nginx:4"
    assert container["env"] == [{"name": "A", "value": "1"}]
    assert container["resources"] == {"requests": {"cpu": "100m"}}
    assert kubectl("replace", "--force", "-f", "-", stdin=DEPLOYMENT).endswith("replaced\n")
    assert kubectl(
        "get", "deployments", "-o", "custom-columns=N:.metadata.name,R:.spec.replicas"
    ).split() == ["N", "R", "web", "2"]
    columns = kubectl("get", "deployment", "web", "-o", "wide").split("\n")[0].split()
    assert columns[-3:] == ["CONTAINERS", "IMAGES", "SELECTOR"]


def test_there_is_no_way_into_a_hollow_pod(kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl("apply", "-f", "-", stdin=POD)
    running = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    kubectl("patch", "pod", "web", "--subresource=status", "-p", json.dumps(running))
    hollow = "pod web is hollow: no container runs in it, so it "
    assert kubectl("logs", "web") == f"{hollow}has nothing to log\n"
    assert "container none is not valid for pod web" in kubectl.refused("logs", "web", "-c", "none")
    (tmp_path / "file").touch()
    for arguments, why in (
        (("exec", "web", "--", "ls"), "has no place for a command"),
        (("attach", "web"), "has nothing to attach to"),
        (("port-forward", "web", "0:80"), "listens on no port"),
        (("cp", str(tmp_path / "file"), "web:/file"), "has no place for a command"),
        (("debug", "web", "--image=busybox"), "has no place for a debug container"),
    ):
        error = kubectl.refused(*arguments)
        assert hollow + why in error, arguments
        assert "panic" not in error
    assert 'pods "gone" not found' in kubectl.refused("debug", "gone", "--image=busybox")
    assert 'pods "gone" not found' in kubectl.refused("logs", "gone")
