// Changes of the cluster that a button makes: each one is a request to the Kubernetes API of this origin.
import { Refusal, type Server } from "./requests";
import type { Change, Proposal } from "./wire";

interface Owner {
  apiVersion: string;
  kind: string;
  name: string;
  controller?: boolean;
}
export interface PodObject {
  metadata: { name: string; namespace: string; ownerReferences?: Owner[] };
  spec: { schedulingGates?: { name: string }[] };
}
export interface Scalable {
  kind: string;
  name: string;
  path: string;
  replicas: number;
}

const part = encodeURIComponent;
const nodePath = (name: string) => `/api/v1/nodes/${part(name)}`;
export const podPath = (namespace: string, name: string) =>
  `/api/v1/namespaces/${part(namespace)}/pods/${part(name)}`;

export const cordon = (server: Server, node: string, closed: boolean): Promise<unknown> =>
  server.merge(nodePath(node), { spec: { unschedulable: closed ? true : null } });

export const deletePod = (server: Server, namespace: string, name: string): Promise<unknown> =>
  server.request(podPath(namespace, name), { method: "DELETE" });

export const removeGate = (server: Server, namespace: string, name: string, gate: string): Promise<unknown> =>
  server.request(podPath(namespace, name), {
    method: "PATCH",
    body: JSON.stringify({ spec: { schedulingGates: [{ $patch: "delete", name: gate }] } }),
    contentType: "application/strategic-merge-patch+json",
  });

interface NodeObject {
  metadata: { resourceVersion: string };
  spec: { taints?: { key: string; value?: string; effect: string }[] };
}

const TRIES = 6;
const PAUSE = 50;

/**
 * Removes a taint. Taints are written as a whole, with the resource version that was read. After a conflict the
 * node is read again after a pause, because a controller writes taints when a node is cordoned or uncordoned.
 */
async function removeTaint(server: Server, change: Change & { kind: "RemoveTaint" }): Promise<unknown> {
  for (let tries = 1; ; tries++) {
    const { metadata, spec } = await server.request<NodeObject>(nodePath(change.node));
    const left = (spec.taints ?? []).filter(
      ({ key, value, effect }) => key !== change.key || (value ?? "") !== change.value || effect !== change.effect,
    );
    if (left.length === (spec.taints ?? []).length) return null;
    try {
      return await server.merge(nodePath(change.node), {
        metadata: { resourceVersion: metadata.resourceVersion },
        spec: { taints: left.length > 0 ? left : null },
      });
    } catch (error) {
      if (!(error instanceof Refusal && error.status === 409) || tries === TRIES) throw error;
      await new Promise((resolve) => setTimeout(resolve, PAUSE * 2 ** tries));
    }
  }
}

const SCALED: Record<string, string> = {
  Deployment: "deployments",
  ReplicaSet: "replicasets",
  StatefulSet: "statefulsets",
};

/** What decides how many of such pods there are: its controller, or the controller of that. */
export async function scalableOwner(server: Server, pod: PodObject): Promise<Scalable | null> {
  const { namespace } = pod.metadata;
  let owners = pod.metadata.ownerReferences;
  let found: Scalable | null = null;
  for (let steps = 0; steps < 2; steps++) {
    const owner = owners?.find(({ controller }) => controller);
    const plural = owner?.apiVersion === "apps/v1" ? SCALED[owner.kind] : undefined;
    if (!owner || !plural) break;
    const path = `/apis/apps/v1/namespaces/${part(namespace)}/${plural}/${part(owner.name)}`;
    const object = await server.request<{ metadata: { ownerReferences?: Owner[] }; spec: { replicas?: number } }>(path);
    found = { kind: owner.kind, name: owner.name, path, replicas: object.spec.replicas ?? 1 };
    owners = object.metadata.ownerReferences;
  }
  return found;
}

export const scale = (server: Server, owner: Scalable, replicas: number): Promise<unknown> =>
  server.merge(`${owner.path}/scale`, { spec: { replicas } });

type Applying = (server: Server, change: Change, pod: { namespace: string; name: string }) => Promise<unknown>;
type Kinds = { [K in Change["kind"]]?: (server: Server, change: Extract<Change, { kind: K }>, pod: { namespace: string; name: string }) => Promise<unknown> };

const APPLYING: Kinds = {
  Uncordon: (server, { node }) => cordon(server, node, false),
  RemoveTaint: removeTaint,
  SetLabel: (server, { node, key, value }) => server.merge(nodePath(node), { metadata: { labels: { [key]: value } } }),
  RemoveGate: (server, { gate }, { namespace, name }) => removeGate(server, namespace, name, gate),
  DeletePod: (server, { pod }) => {
    const slash = pod.indexOf("/");
    return deletePod(server, pod.slice(0, slash), pod.slice(slash + 1));
  },
};

/** Whether a click can do all of it: what needs another pod template or new machines cannot be clicked. */
export const applicable = ({ changes }: Proposal): boolean => changes.every(({ kind }) => kind in APPLYING);

export async function applyProposal(
  server: Server,
  { changes }: Proposal,
  pod: { namespace: string; name: string },
): Promise<void> {
  for (const change of changes) await (APPLYING[change.kind] as Applying)(server, change, pod);
}
