import assert from "node:assert/strict";
import { test } from "node:test";
import { applicable, applyProposal, removeGate, scalableOwner, type PodObject } from "../src/actions";
import { Refusal, type Server } from "../src/requests";

/** A server with these objects that refuses so many writes before it takes one. */
function serverWith(objects: Record<string, unknown>, refused: { status: number; times: number } = { status: 409, times: 0 }) {
  const writes: unknown[] = [];
  let left = refused.times;
  const server = {
    ask: async (path: string) => {
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

const POD = "/api/v1/namespaces/shop/pods/web";
const gated = {
  metadata: { name: "web", namespace: "shop", resourceVersion: "7" },
  spec: { schedulingGates: [{ name: "a" }, { name: "b" }] },
};

test("a list is written for the version that was read, and anew when another came first", async () => {
  const { server, writes } = serverWith({ [POD]: gated }, { status: 409, times: 2 });
  await removeGate(server, "shop", "web", "a");
  assert.deepEqual(writes, [[POD, { metadata: { resourceVersion: "7" }, spec: { schedulingGates: [{ name: "b" }] } }]]);
});

test("but not for ever, and no other refusal is tried again", async () => {
  for (const refused of [{ status: 409, times: 99 }, { status: 403, times: 1 }]) {
    const { server, writes } = serverWith({ [POD]: gated }, refused);
    await assert.rejects(removeGate(server, "shop", "web", "a"), Refusal);
    assert.deepEqual(writes, []);
  }
});

test("a proposal is applied change by change, if a click can do all of it", async () => {
  const node = { metadata: { resourceVersion: "3" }, spec: { taints: [{ key: "k", value: "v", effect: "NoSchedule" }] } };
  const { server, writes } = serverWith({ "/api/v1/nodes/n": node });
  const proposal = {
    text: "",
    changes: [
      { kind: "Uncordon" as const, node: "n" },
      { kind: "RemoveTaint" as const, node: "n", key: "k", value: "v", effect: "NoSchedule" },
      { kind: "SetLabel" as const, node: "n", key: "zone", value: null },
    ],
  };
  assert.ok(applicable(proposal));
  assert.ok(!applicable({ text: "", changes: [...proposal.changes, { kind: "AddNodes" as const }] }));
  await applyProposal(server, proposal, { namespace: "shop", name: "web" });
  assert.deepEqual(
    writes.map((write) => (write as [string, unknown])[1]),
    [
      { spec: { unschedulable: null } },
      { metadata: { resourceVersion: "3" }, spec: { taints: null } },
      { metadata: { labels: { zone: null } } },
    ],
  );
});

test("the owner to scale is the topmost that can be scaled", async () => {
  const owned = (kind: string, name: string, apiVersion = "apps/v1") => ({
    ...gated,
    metadata: { ...gated.metadata, ownerReferences: [{ apiVersion, kind, name, controller: true }] },
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
  assert.equal(await found(gated), null);
});
