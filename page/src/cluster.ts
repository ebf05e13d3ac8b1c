// The state of the cluster. In: the events of the stream. Out: nodes, queues, pending pods and throughput, each with a
// version that grows when it changes, so that a view is redrawn only for what it shows.
import {
  QUEUES,
  type Hello,
  type NodesEvent,
  type PermitWait,
  type ThroughputEvent,
  type ThroughputTuple,
  type PodsEvent,
  type PodTuple,
  type Queue,
} from "./wire";
import type { ServerEvent } from "./sse";

export interface NodeRow {
  name: string;
  zone: string;
  pool: string;
  flags: number;
  allocatable: number[];
  requested: number[];
}

export interface PodRow {
  uid: string;
  namespace: string;
  name: string;
  queue: Queue;
  priority: number;
  attempts: number;
  since: number;
  reason: string;
  profile: string;
  held: PermitWait[];
}

export interface Placement {
  uid: string;
  namespace: string;
  name: string;
  node: string;
}

export interface Transfer {
  from: Queue | "";
  to: Queue | "";
}

export type Part = "hello" | "nodes" | "members" | "queues" | "pods" | "throughput";

const THROUGHPUT_ROWS = 600;
const PLACEMENTS = 100;

function queuesOf<T>(make: () => T): Record<Queue, T> {
  return Object.fromEntries(QUEUES.map((queue) => [queue, make()])) as Record<Queue, T>;
}

export class Cluster {
  hello: Hello | null = null;
  nodes = new Map<string, NodeRow>();
  queues: Record<Queue, number> = queuesOf(() => 0);
  pods: Record<Queue, Map<string, PodRow>> = queuesOf(() => new Map());
  /** How many pods of a queue the server left out of its rows. */
  cut: Partial<Record<Queue, number>> = {};
  /** The latest first. */
  placements: Placement[] = [];
  throughput: ThroughputTuple[] = [];
  /** Seconds that the server's clock is ahead of this one. */
  ahead = 0;

  readonly versions: Record<Part, number> = { hello: 0, nodes: 0, members: 0, queues: 0, pods: 0, throughput: 0 };
  private readonly queueOf = new Map<string, Queue>();
  private readonly watchers = new Set<(transfers: readonly Transfer[]) => void>();

  watch(watcher: (transfers: readonly Transfer[]) => void): () => void {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  }

  /** Pods by what the server called them last; undefined if it is in no queue. */
  find(namespace: string, name: string): PodRow | undefined {
    for (const queue of QUEUES)
      for (const pod of this.pods[queue].values())
        if (pod.name === name && pod.namespace === namespace) return pod;
    return undefined;
  }

  now(): number {
    return Date.now() / 1000 + this.ahead;
  }

  /** Applies events that came together; watchers are notified once. */
  take(events: readonly ServerEvent[]): void {
    const transfers: Transfer[] = [];
    for (const event of events) {
      switch (event.name) {
        case "hello":
          this.greet(JSON.parse(event.data) as Hello);
          break;
        case "nodes":
          this.setNodes(JSON.parse(event.data) as NodesEvent);
          break;
        case "queues":
          this.queues = { ...queuesOf(() => 0), ...(JSON.parse(event.data) as Record<Queue, number>) };
          this.versions.queues++;
          break;
        case "pods":
          this.setPods(JSON.parse(event.data) as PodsEvent, transfers);
          break;
        case "throughput":
          this.addThroughput(JSON.parse(event.data) as ThroughputEvent);
          break;
      }
    }
    if (events.length > 0) for (const watcher of [...this.watchers]) watcher(transfers);
  }

  private greet(hello: Hello): void {
    this.hello = hello;
    this.ahead = hello.now - Date.now() / 1000;
    this.versions.hello++;
  }

  private setNodes(event: NodesEvent): void {
    let members = event.all === true;
    if (event.all) this.nodes.clear();
    for (const [name, zone, pool, flags, allocatable, requested] of event.set ?? []) {
      const before = this.nodes.get(name);
      if (before === undefined || before.zone !== zone || before.pool !== pool) members = true;
      this.nodes.set(name, { name, zone, pool, flags, allocatable, requested });
    }
    for (const name of event.gone ?? []) if (this.nodes.delete(name)) members = true;
    if (members) this.versions.members++;
    this.versions.nodes++;
  }

  private setPods(event: PodsEvent, transfers: Transfer[]): void {
    if (event.all) {
      this.pods = queuesOf(() => new Map());
      this.queueOf.clear();
    }
    const rows = (event.set ?? []).map(podRow);
    // The pods that have been in a queue longest come first.
    if (event.all) rows.sort((a, b) => a.since - b.since);
    for (const pod of rows) {
      if (!Object.hasOwn(this.pods, pod.queue)) continue; // a queue of a later version
      const from = this.queueOf.get(pod.uid);
      if (from !== pod.queue && !event.all) transfers.push({ from: from ?? "", to: pod.queue });
      if (from !== undefined && from !== pod.queue) this.pods[from].delete(pod.uid);
      this.pods[pod.queue].set(pod.uid, pod);
      this.queueOf.set(pod.uid, pod.queue);
    }
    for (const [uid, where] of event.gone ?? []) {
      const from = this.queueOf.get(uid);
      const pod = from === undefined ? undefined : this.pods[from].get(uid);
      const node = where.startsWith("placed:") ? where.slice("placed:".length) : "";
      transfers.push({ from: from ?? "", to: node ? "placed" : "" });
      if (from === undefined || pod === undefined) continue;
      this.pods[from].delete(uid);
      this.queueOf.delete(uid);
      if (!node) continue;
      // Placed once more: its binding had failed.
      this.placements = this.placements.filter((placement) => placement.uid !== uid);
      this.placements.unshift({ uid, namespace: pod.namespace, name: pod.name, node });
    }
    this.placements.length = Math.min(this.placements.length, PLACEMENTS);
    this.cut = event.cut ?? {};
    this.versions.pods++;
  }

  private addThroughput(event: ThroughputEvent): void {
    if (event.all) this.throughput = [];
    for (const row of event.rows) {
      // A later row of the same second replaces the earlier one.
      if (this.throughput.at(-1)?.[0] === row[0]) this.throughput.pop();
      this.throughput.push(row);
    }
    if (this.throughput.length > THROUGHPUT_ROWS) this.throughput.splice(0, this.throughput.length - THROUGHPUT_ROWS);
    this.versions.throughput++;
  }
}

function podRow(tuple: PodTuple): PodRow {
  const [uid, namespace, name, queue, priority, attempts, since, reason, profile, held = []] = tuple;
  return { uid, namespace, name, queue, priority, attempts, since, reason, profile, held };
}
