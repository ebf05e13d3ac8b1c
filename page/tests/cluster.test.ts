import assert from "node:assert/strict";
import { test } from "node:test";
import { Cluster, type Transfer } from "../src/cluster";

const event = (name: string, data: unknown) => ({ name, data: JSON.stringify(data) });
const pod = (uid: string, queue: string) => [uid, "shop", `pod-${uid}`, queue, 0, 1, 100, "", "default-scheduler"];
const node = (name: string, zone = "a", used = 0) => [name, zone, "", 0, [4], [used]];

test("nodes: all, changed, gone", () => {
  const cluster = new Cluster();
  cluster.take([event("nodes", { all: true, set: [node("a"), node("b")] })]);
  const members = cluster.versions.members;
  cluster.take([event("nodes", { set: [node("a", "a", 3)] })]);
  assert.deepEqual(cluster.nodes.get("a")?.requested, [3]);
  assert.equal(cluster.versions.members, members, "nobody came, went or moved");
  cluster.take([event("nodes", { gone: ["b"] })]);
  assert.deepEqual([...cluster.nodes.keys()], ["a"]);
  assert.equal(cluster.versions.members, members + 1);
  cluster.take([event("nodes", { all: true, set: [node("c")] })]);
  assert.deepEqual([...cluster.nodes.keys()], ["c"], "a fresh list replaces what was known");
});

test("pods move from queue to queue and out", () => {
  const cluster = new Cluster();
  let seen: readonly Transfer[] = [];
  cluster.watch((transfers) => (seen = transfers));
  cluster.take([event("pods", { all: true, set: [pod("1", "active"), pod("2", "gated")] })]);
  assert.deepEqual(seen, [], "a list is no movement");
  cluster.take([event("pods", { set: [pod("1", "backoff"), pod("3", "active")] })]);
  assert.deepEqual(seen, [
    { from: "active", to: "backoff" },
    { from: "", to: "active" },
  ]);
  assert.equal(cluster.find("shop", "pod-1")?.queue, "backoff");
  cluster.take([event("pods", { gone: [["1", "placed:n1"], ["2", "deleted"], ["9", "placed:n2"]] })]);
  assert.deepEqual(cluster.placements, [{ uid: "1", namespace: "shop", name: "pod-1", node: "n1" }]);
  assert.equal(cluster.find("shop", "pod-1"), undefined);
  assert.equal(cluster.find("shop", "pod-2"), undefined);
  cluster.take([event("pods", { set: [pod("1", "active"), pod("7", "attic")] })]);
  cluster.take([event("pods", { gone: [["1", "placed:n3"], ["7", "deleted"]] })]);
  assert.deepEqual(cluster.placements.map(({ node }) => node), ["n3"], "placed twice, told once");
  cluster.take([event("pods", { all: true, set: [pod("5", "active")], cut: { active: 7 } })]);
  assert.equal(cluster.find("shop", "pod-3"), undefined, "rebuilt from the fresh list after a reconnect");
  assert.deepEqual(cluster.cut, { active: 7 });
  cluster.take([event("pods", { set: [] })]);
  assert.deepEqual(cluster.cut, {}, "nobody is left out any more");
});

test("throughput keeps ten minutes, and one row per second", () => {
  const cluster = new Cluster();
  const row = (t: number) => [t, 1, 0, 0, null, null, 0];
  cluster.take([event("throughput", { all: true, rows: Array.from({ length: 600 }, (_, t) => row(t)) })]);
  cluster.take([event("throughput", { rows: [row(599), row(600)] })]);
  assert.equal(cluster.throughput.length, 600);
  assert.equal(cluster.throughput[0]?.[0], 1);
  assert.equal(cluster.throughput.at(-1)?.[0], 600);
});

test("an unknown event is left alone, watchers hear of a batch once", () => {
  const cluster = new Cluster();
  let heard = 0;
  const stop = cluster.watch(() => heard++);
  cluster.take([event("new-thing", {}), event("queues", { active: 4 })]);
  assert.equal(heard, 1);
  assert.equal(cluster.queues.active, 4);
  assert.equal(cluster.queues.gated, 0);
  stop();
  cluster.take([event("queues", {})]);
  assert.equal(heard, 1);
});
