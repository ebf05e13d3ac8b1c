"""A pod's story, why it waits, and what a click does about it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.waiting import wait_for
from tests.page.clusters import DEPLOYMENTS, NODES, PODS, Cluster, deployment
from tests.page.conftest import MakeCluster, OpenPage
from tests.page.looking import heading, queue, row

pytestmark = pytest.mark.browser

HOLDING = """
from kuberth.framework import PermitPlugin, PermitResult


class Hold(PermitPlugin):
    name = "Hold"

    def permit(self, state, pod, node_name):
        return PermitResult.wait(600)
"""
HOLDING_CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins: {multiPoint: {enabled: [{name: Hold}]}}
"""


def confirmed(page: Page) -> None:
    page.get_by_role("dialog").get_by_role("button").first.click()
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_the_story_of_a_pod_that_waits_and_then_fits(cluster: Cluster, open_page: OpenPage) -> None:
    look = open_page()
    cluster.api.create_pod("patient", cpu="5", spec={"nodeSelector": {"kubernetes.io/hostname": "late"}})
    page = look.go("#/pod/default/patient")
    expect(heading(page)).to_have_text("default/patient")
    moves = page.get_by_role("region", name="Moves")
    expect(moves).to_contain_text("Unschedulable")
    cycles = page.get_by_role("region", name="Last cycles")
    expect(cycles).to_contain_text("no node fits")
    expect(cycles).to_contain_text("NodeAffinity")

    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "late",
            "labels": {"kubernetes.io/hostname": "late"},
            "annotations": {"kuberth.dev/hollow": "true"},
        },
    }
    cluster.api.create(NODES, node)
    expect(page.locator("dl.facts")).to_contain_text("on late")
    expect(moves).to_contain_text("of late")
    expect(moves).to_contain_text("says Queue")
    expect(moves).to_contain_text("Placed")
    expect(cycles).to_contain_text("scheduled on late")
    expect(page.get_by_role("region", name="Why")).to_contain_text("It is on node late.")


def test_scores_of_a_placed_pod(cluster: Cluster, open_page: OpenPage) -> None:
    look = open_page()
    cluster.api.create_pod("scored")
    wait_for("a node", lambda: (cluster.api.pod("scored") or {})["spec"].get("nodeName"))
    page = look.go("#/pod/default/scored")
    why = page.get_by_role("region", name="Why")
    expect(why.get_by_role("rowheader", name="NodeResourcesFit")).to_be_visible()
    expect(why.get_by_role("rowheader", name="total")).to_be_visible()
    cycles = page.get_by_role("region", name="Last cycles")
    expect(cycles.get_by_role("rowheader", name="TaintToleration")).to_be_visible()


def test_a_proposal_is_applied_by_a_click(cluster: Cluster, open_page: OpenPage) -> None:
    look = open_page()
    look.expected.add(409)  # a controller writes the taint of a cordoned node at the same time
    cluster.api.merge("/api/v1/nodes/small-2", {"spec": {"unschedulable": True}})
    cluster.api.create_pod("picky", spec={"nodeSelector": {"kubernetes.io/hostname": "small-2"}})
    page = look.go("#/pod/default/picky")
    why = page.get_by_role("region", name="Why")
    expect(why).to_contain_text("It fits on none of 8 nodes.")
    expect(why).to_contain_text("NodeUnschedulable")
    expect(why).to_contain_text("What would help (each was tested)")
    why.get_by_role("button", name="Apply: uncordon node small-2").click()
    expect(page.get_by_role("dialog")).to_contain_text("uncordon node small-2")
    page.get_by_role("button", name="Leave it").click()
    assert cluster.api.get("/api/v1/nodes/small-2")["spec"]["unschedulable"] is True

    why.get_by_role("button", name="Apply: uncordon node small-2").click()
    confirmed(page)
    expect(page.get_by_role("status").filter(has_text="Done")).to_contain_text("uncordon node small-2")
    expect(why).to_contain_text("It is on node small-2.")


def test_a_taint_goes_by_a_proposal_and_other_taints_stay(cluster: Cluster, open_page: OpenPage) -> None:
    look = open_page()
    taints = [{"key": "a", "value": "1", "effect": "NoSchedule"}, {"key": "b", "effect": "PreferNoSchedule"}]
    cluster.api.merge("/api/v1/nodes/small-4", {"spec": {"taints": taints}})
    cluster.api.create_pod("shy", spec={"nodeSelector": {"kubernetes.io/hostname": "small-4"}})
    page = look.go("#/pod/default/shy")
    page.get_by_role("button", name="Apply: remove the taint a=1:NoSchedule from node small-4").click()
    confirmed(page)
    expect(page.get_by_role("region", name="Why")).to_contain_text("It is on node small-4.")
    assert cluster.api.get("/api/v1/nodes/small-4")["spec"]["taints"] == taints[1:]
    cluster.api.merge("/api/v1/nodes/small-4", {"spec": {"taints": None}})


def test_a_gate_is_removed_by_a_click_and_the_others_stay(cluster: Cluster, open_page: OpenPage) -> None:
    gates = [{"name": "example.com/one"}, {"name": "example.com/two"}]
    cluster.api.create_pod("gated", spec={"schedulingGates": gates})
    page = open_page("#/pod/default/gated").page
    expect(page.get_by_role("region", name="Why")).to_contain_text("gates the pod")
    page.get_by_role("button", name="Remove gate example.com/one").click()
    expect(page.get_by_role("button", name="Remove gate example.com/one")).to_have_count(0)
    assert (cluster.api.pod("gated") or {})["spec"]["schedulingGates"] == gates[1:]
    page.get_by_role("button", name="Remove gate example.com/two").click()
    expect(page.locator("dl.facts")).to_contain_text(re.compile("on small-"))


def test_scaling_the_deployment_above_a_pod(cluster: Cluster, open_page: OpenPage) -> None:
    cluster.api.create(DEPLOYMENTS, deployment("web", replicas=1))

    def pods() -> list[str]:
        found = cluster.api.get(f"{PODS}?labelSelector=app%3Dweb")["items"]
        return [item["metadata"]["name"] for item in found]

    (name,) = wait_for("its pod", lambda: pods() or None)
    page = open_page(f"#/pod/default/{name}").page
    replicas = page.get_by_label("Replicas of Deployment web")
    expect(replicas).to_have_value("1")
    replicas.fill("4")
    page.get_by_role("button", name="Scale").click()
    expect(page.get_by_role("status").filter(has_text="scaled to 4")).to_be_visible()
    wait_for("four pods", lambda: len(pods()) == 4)
    assert cluster.api.get(f"{DEPLOYMENTS}/web")["spec"]["replicas"] == 4


def test_a_pod_is_deleted_after_a_question(cluster: Cluster, open_page: OpenPage) -> None:
    cluster.api.create_pod("doomed")
    look = open_page("#/pod/default/doomed")
    look.expected.add(404)
    page = look.page
    page.get_by_role("button", name="Delete pod").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert cluster.api.pod("doomed") is not None
    page.get_by_role("button", name="Delete pod").click()
    confirmed(page)
    wait_for("its end", lambda: cluster.api.pod("doomed") is None)
    expect(page.get_by_role("button", name="Delete pod")).to_have_count(0)


def test_cordoning_by_a_click(cluster: Cluster, open_page: OpenPage) -> None:
    page = open_page("#/nodes/small-5?as=table").page
    panel = page.get_by_role("complementary")
    panel.get_by_role("button", name="Cordon", exact=True).click()
    expect(panel.get_by_role("button", name="Uncordon")).to_be_visible()
    expect(row(page, "small-5")).to_contain_text("cordoned")
    assert cluster.api.get("/api/v1/nodes/small-5")["spec"]["unschedulable"] is True
    panel.get_by_role("button", name="Uncordon").click()
    expect(panel.get_by_role("button", name="Cordon", exact=True)).to_be_visible()
    expect(row(page, "small-5")).not_to_contain_text("cordoned")
    assert "unschedulable" not in cluster.api.get("/api/v1/nodes/small-5")["spec"]


def test_an_unknown_pod_suggests_similar_names(cluster: Cluster, open_page: OpenPage) -> None:
    cluster.api.create_pod("known-one")
    look = open_page()
    look.expected.add(404)
    page = look.go("#/pod/default/known-on")
    expect(page.locator(".problem").first).to_contain_text("known-one")


def test_the_pods_that_are_pending_longest_are_listed(cluster: Cluster, open_page: OpenPage) -> None:
    cluster.api.create_pod("waits-long", cpu="900")
    page = open_page("#/pod").page
    page.get_by_role("link", name="default/waits-long").click()
    expect(heading(page)).to_have_text("default/waits-long")
    page.get_by_role("navigation").get_by_role("link", name="Queue").click()
    queue(page, "Unschedulable").get_by_role("link", name="waits-long").click()
    expect(heading(page)).to_have_text("default/waits-long")


def test_a_pod_in_permit_shows_who_holds_it_and_until_when(
    make_cluster: MakeCluster, make_page: OpenPage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "holding.py").write_text(HOLDING)
    config = tmp_path / "config.yaml"
    config.write_text(HOLDING_CONFIG)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    own = make_cluster("--nodes", "2", "--config", str(config), "--plugin", "holding:Hold")
    look = make_page(own.origin)
    look.open(own.link)
    look.connected()
    look.go("#/queue")
    own.api.create_pod("patient")
    held = queue(look.page, "Permit").get_by_role("link", name="patient")
    expect(held).to_contain_text(re.compile(r"Hold holds it: \d+ s of 10 min"))
    held.click()
    why = look.page.get_by_role("region", name="Why")
    expect(why).to_contain_text(
        re.compile(r"assumed on node node-\d: Hold holds it since .*, until .* at the latest")
    )
    expect(why).to_contain_text("Nodes that fit: node-1, node-2")


def test_a_missing_claim_is_named(cluster: Cluster, open_page: OpenPage) -> None:
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "nowhere"}}
    cluster.api.create_pod("homeless", spec={"volumes": [volume]})
    page = open_page("#/pod/default/homeless").page
    why = page.get_by_role("region", name="Why")
    expect(why).to_contain_text("PersistentVolumeClaim default/nowhere does not exist")
    expect(why).to_contain_text("No tested change helps.")


def test_a_short_list_says_of_how_many(cluster: Cluster, open_page: OpenPage) -> None:
    for number in range(27):
        cluster.api.create_pod(f"waits-{number}", cpu="900")
    page = open_page("#/pod").page
    expect(page.get_by_role("main")).to_contain_text("25 of 27 pending pods")
