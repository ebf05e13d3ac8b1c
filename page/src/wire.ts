// The wire format: the events of /ui/stream and the answers of the other paths.

export const QUEUES = ["gated", "unschedulable", "backoff", "active", "inflight", "permit", "placed"] as const;
export type Queue = (typeof QUEUES)[number];

export interface Hello {
  version: string;
  program: "up" | "run";
  writable: boolean;
  now: number;
  cluster: string;
  profiles: string[];
  resources: string[];
}

export type NodeTuple = [
  name: string,
  zone: string,
  pool: string,
  flags: number,
  allocatable: number[],
  requested: number[],
];
export interface NodesEvent {
  set?: NodeTuple[];
  gone?: string[];
  all?: boolean;
}

/** A plugin that holds a pod in Permit, since when, and when the pod is rejected at the latest. */
export type PermitWait = [plugin: string, since: number, until: number];

export type PodTuple = [
  uid: string,
  namespace: string,
  name: string,
  queue: Queue,
  priority: number,
  attempts: number,
  since: number,
  reason: string,
  profile: string,
  held?: PermitWait[],
];
export interface PodsEvent {
  set?: PodTuple[];
  gone?: [uid: string, where: string][];
  all?: boolean;
  cut?: Partial<Record<Queue, number>>;
}

export type ThroughputTuple = [
  t: number,
  scheduled: number,
  unschedulable: number,
  error: number,
  p50: number | null,
  p99: number | null,
  pending: number,
];
export interface ThroughputEvent {
  all?: boolean;
  rows: ThroughputTuple[];
}

export const NOT_READY = 1;
export const CORDONED = 2;
export const TAINTED = 4;

export interface NodeAnswer {
  name: string;
  zone: string;
  pool: string;
  flags: number;
  labels: Record<string, string>;
  taints: { key: string; value?: string; effect: string }[];
  allocatable: Record<string, number>;
  requested: Record<string, number>;
  pods: [namespace: string, name: string, phase: string, priority: number, requested: number[]][];
}

export interface Move {
  at: number;
  from: string;
  to: string;
  event: string;
  object: string;
  plugin: string;
  hint: string;
  note: string;
}

export interface Cycle {
  at: number;
  seconds: number;
  result: string;
  node: string;
  nominated: string;
  message: string;
  rejections: { plugin: string; reason: string; nodes: number }[];
  scores: {
    nodes: string[];
    plugins: Record<string, number[]>;
    totals: number[];
    weights?: Record<string, number>;
  } | null;
  evaluated: number;
  feasible: number;
}

export interface HistoryAnswer {
  pod: {
    namespace: string;
    name: string;
    uid: string;
    node: string;
    phase: string;
    queue: string;
    priority: number;
    profile: string;
    attempts: number;
  };
  moves: Move[];
  cycles: Cycle[];
}

export interface SearchAnswer {
  pods: [namespace: string, name: string, queue: string, node: string][];
  nodes: string[];
}

export type Change =
  | { kind: "RemoveTaint"; node: string; key: string; value: string; effect: string }
  | { kind: "Uncordon"; node: string }
  | { kind: "SetLabel"; node: string; key: string; value: string | null }
  | { kind: "RemoveGate"; gate: string }
  | { kind: "DeletePod"; pod: string; node: string; preempted: boolean }
  | { kind: "ScaleRequest" | "Tolerate" | "DropNodeSelector" | "DropNodeAffinity" | "DropAffinity" | "RelaxSpread" | "RepairNode" | "AddNodes" };

export interface Proposal {
  text: string;
  changes: Change[];
}

export interface Explanation {
  pod: { namespace: string; name: string };
  schedulerName: string;
  verdict: string;
  nodes?: number;
  node?: string;
  message?: string;
  waiting?: {
    queue: string;
    attempts?: number;
    since?: string;
    nextAttempt?: string;
    rejectedBy?: string[];
    node?: string;
    heldBy?: { plugin: string; since: string; until: string }[];
  };
  nominated?: { node: string; terminating: string[] };
  missing?: { kind: string; name: string; text: string }[];
  feasible?: string[];
  rejected?: { plugin: string; code: string; reasons: string[]; count: number; nodes: string[] }[];
  nearest?: { misses: string[]; count: number; nodes: string[] }[];
  preemption?: {
    message?: string;
    nominatedNode?: string;
    victims?: string[];
    nodesThatCouldHelp?: number;
    nodesBeyondHelp?: number;
  };
  events?: { plugin: string; events: string[] }[];
  proposals?: Proposal[];
  scores?: {
    feasible: number;
    winner: string;
    reason: string;
    best: { node: string; total: number; byPlugin: Record<string, number> }[];
  };
  notes?: string[];
}
