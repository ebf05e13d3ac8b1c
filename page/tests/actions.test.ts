import assert from "node:assert/strict";
import { test } from "node:test";
import { applicable, applyProposal, scalableOwner, type PodObject } from "../src/actions";
import { Refusal, type Server } from "../src/requests";

/** A server with these objects that refuses so many writes before it takes one. */
function serverWith(objects: Record<string, unknown>, refused: { status: number; times: number } = { status: 409, times: 0 }) {
  const writes: unknown[] = [];
  let left = refused.times;
  const server = {
    request: async (path: string) => {
      if (!(path in objects)) throw new Refusal(404, `nothing at ${path}`);
      return objects[path];
    },
    merge: async (path: string, patch: unknown) => {
      if (left-- > 0) throw new Refusal(refused.status, "not this version");
      writes.push([path, patch]);
    },
  };
  return { server: server as unknown as Server, writes };
}

const NODE = "/api/v1/nodes/n";
const [dedicated, lasting] = [
  { key: "dedicated", value: "ml", effect: "NoSchedule" },
  { key: "lasting", effect: "NoSchedule" },
];
const node = { metadata: { resourceVersion: "7" }, spec: { taints: [dedicated, lasting] } };
const untaint = (key: string) => ({
  text: "",
  changes: [{ kind: "RemoveTaint" as const, node: "n", key, value: "ml", effect: "NoSchedule" }],
});
const pod = { namespace: "shop", name: "web" };

test("taints are written for the version that was read, and anew when another came first", async () => {
  const { server, writes } = serverWith({ [NODE]: node }, { status: 409, times: 2 });
  await applyProposal(server, untaint("dedicated"), pod);
  assert.deepEqual(writes, [[NODE, { metadata: { resourceVersion: "7" }, spec: { taints: [lasting] } }]]);
});

test("but not for ever, and no other refusal is tried again", async () => {
  for (const refused of [{ status: 409, times: 99 }, { status: 403, times: 1 }]) {
    const { server, writes } = serverWith({ [NODE]: node }, refused);
    await assert.rejects(applyProposal(server, untaint("dedicated"), pod), Refusal);
    assert.deepEqual(writes, []);
  }
});

test("a taint that is gone already needs no write", async () => {
  const { server, writes } = serverWith({ [NODE]: node });
  await applyProposal(server, untaint("other"), pod);
  assert.deepEqual(writes, []);
});

test("a proposal is applied change by change, if a click can do all of it", async () => {
  const { server, writes } = serverWith({ [NODE]: { ...node, spec: { taints: [dedicated] } } });
  const proposal = {
    text: "",
    changes: [
      { kind: "Uncordon" as const, node: "n" },
      ...untaint("dedicated").changes,
      { kind: "SetLabel" as const, node: "n", key: "zone", value: null },
    ],
  };
  assert.ok(applicable(proposal));
  assert.ok(!applicable({ text: "", changes: [...proposal.changes, { kind: "AddNodes" as const }] }));
  await applyProposal(server, proposal, pod);
  assert.deepEqual(
    writes.map((write) => (write as [string, unknown])[1]),
    [
      { spec: { unschedulable: null } },
      { metadata: { resourceVersion: "7" }, spec: { taints: null } },
      { metadata: { labels: { zone: null } } },
    ],
  );
});

test("the owner to scale is the topmost that can be scaled", async () => {
  const lonely: PodObject = { metadata: { ...pod }, spec: {} };
  const owned = (kind: string, name: string, apiVersion = "apps/v1") => ({
    spec: {},
    metadata: { ...pod, ownerReferences: [{ apiVersion, kind, name, controller: true }] },
  });
  const sets = "/apis/apps/v1/namespaces/shop";
  const { server } = serverWith({
    [`${sets}/replicasets/web-1`]: { ...owned("Deployment", "web"), spec: { replicas: 2 } },
    [`${sets}/deployments/web`]: { metadata: {}, spec: { replicas: 3 } },
    [`${sets}/statefulsets/db`]: { metadata: {}, spec: {} },
  });
  const found = async (pod: PodObject) => {
    const owner = await scalableOwner(server, pod);
    return owner && [owner.kind, owner.name, owner.replicas];
  };
  assert.deepEqual(await found(owned("ReplicaSet", "web-1")), ["Deployment", "web", 3]);
  assert.deepEqual(await found(owned("StatefulSet", "db")), ["StatefulSet", "db", 1]);
  assert.equal(await found(owned("Job", "once", "batch/v1")), null);
  assert.equal(await found(lonely), null);
});
