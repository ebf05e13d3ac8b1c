// Numbers, times and reasons for people.
import type { PodRow } from "./cluster";

const BINARY = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const fine = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

export const count = (number: number): string => whole.format(number);

/** "1 node", "3 nodes". */
export const counted = (number: number, noun: string): string =>
  `${count(number)} ${noun}${number === 1 ? "" : "s"}`;

export const percent = (part: number): string => `${whole.format(part * 100)} %`;

export function inBytes(resource: string): boolean {
  return resource === "memory" || resource.endsWith("storage") || resource.startsWith("hugepages-");
}

export function amount(resource: string, value: number): string {
  if (!inBytes(resource)) return value < 1000 ? fine.format(value) : whole.format(value);
  let unit = 0;
  while (Math.abs(value) >= 1024 && unit < BINARY.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${value < 1000 ? fine.format(value) : whole.format(value)} ${BINARY[unit]}`;
}

/** How long something lasts: "12 s", "4 min", "3 h", "2 d". */
export function age(seconds: number): string {
  const past = Math.max(0, seconds);
  if (past < 100) return `${Math.floor(past)} s`;
  if (past < 6000) return `${Math.floor(past / 60)} min`;
  if (past < 172_800) return `${Math.floor(past / 3600)} h`;
  return `${Math.floor(past / 86_400)} d`;
}

export function milliseconds(value: number | null): string {
  return value === null ? "–" : `${fine.format(value)} ms`;
}

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

export const timeOfDay = (seconds: number): string => clock.format(new Date(seconds * 1000));

/** The most and how many there are besides: "a, b, c and 4 more". */
export function listed(names: readonly string[], most: number): string {
  const shown = names.slice(0, most).join(", ");
  return names.length > most ? `${shown} and ${count(names.length - most)} more` : shown;
}

/** What the rejection of an in-tree plugin means. */
const REJECTIONS: Record<string, string> = {
  DefaultPreemption: "preemption under way",
  DynamicResources: "devices missing",
  GangScheduling: "its gang is not complete",
  InterPodAffinity: "pod affinity or anti-affinity",
  NodeAffinity: "no node matches its node affinity",
  NodeName: "the node it names is missing",
  NodePorts: "host ports in use",
  NodeResourcesFit: "not enough free resources",
  NodeUnschedulable: "nodes are cordoned",
  NodeVolumeLimits: "too many volumes on nodes",
  PodTopologySpread: "topology spread constraints",
  SchedulingGates: "scheduling gates",
  TaintToleration: "taints it does not tolerate",
  VolumeBinding: "volumes that cannot be bound",
  VolumeRestrictions: "volumes that cannot be used",
  VolumeZone: "volumes in other zones",
};

/** Why a pod waits, in words: plugins by what their rejection means, gates as gates, other plugins by name. */
export function inWords({ queue, reason, held }: Pick<PodRow, "queue" | "reason" | "held">, now: number): string {
  if (held.length > 0)
    return held.map(([plugin, since, until]) => `${plugin} holds it: ${age(now - since)} of ${age(until - since)}`).join(", ");
  return reason
    .split(", ")
    .filter(Boolean)
    .map((part) => REJECTIONS[part] ?? (queue === "gated" && part.includes("/") ? `gate ${part}` : part))
    .join(", ");
}

const RESULTS: Record<string, string> = { unschedulable: "no node fits", error: "failed with an error" };

/** The result of an attempt. */
export const resultInWords = (result: string): string => RESULTS[result] ?? result;

export const QUEUE_NAMES: Record<string, string> = {
  gated: "Gated",
  unschedulable: "Unschedulable",
  backoff: "Backoff",
  active: "Active",
  inflight: "In flight",
  permit: "Permit",
  placed: "Placed",
  deleted: "Deleted",
};

export const queueName = (queue: string): string => QUEUE_NAMES[queue] ?? (queue || "new");
