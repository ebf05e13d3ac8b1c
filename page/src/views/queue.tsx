// The scheduling queues, side by side towards the nodes, with the pods that are in them and those that move.
import { useEffect, useRef } from "preact/hooks";
import { memo } from "../memo";
import type { PodRow, Transfer } from "../cluster";
import { useNow, useParts, usePage } from "../context";
import { age, count, inWords, queueName } from "../format";
import { formatRoute, podLink } from "../route";
import { QUEUES, type Queue } from "../wire";

const SHOWN = 40;
const TAIL = 6;
const HINTS: Record<Queue, string> = {
  gated: "held by a gate or a PreEnqueue plugin",
  unschedulable: "wait for an event that may help",
  backoff: "wait out a pause before the next try",
  active: "next to be tried",
  inflight: "being decided or bound",
  permit: "placed, held by a Permit plugin",
  placed: "on nodes; the latest here",
};

export function Queue() {
  const { cluster, route } = usePage();
  useParts(cluster, "pods", "queues");
  const now = useNow(cluster);
  const wanted = (route.query["filter"] ?? "").toLowerCase();
  const heads = useRef<Partial<Record<Queue, HTMLElement | null>>>({});

  return (
    <section class="view queue" aria-labelledby="view-title">
      <div class="bar">
        <h1 id="view-title">Queue</h1>
        <label>
          Filter
          <input
            type="search"
            value={route.query["filter"] ?? ""}
            placeholder="name, namespace or reason"
            onInput={(event) => location.replace(formatRoute("queue", [], { filter: event.currentTarget.value }))}
          />
        </label>
        <p class="summary">{count(QUEUES.reduce((sum, queue) => sum + (queue === "placed" ? 0 : cluster.queues[queue]), 0))} pending</p>
      </div>
      <div class="queues">
        {QUEUES.map((queue) => (
          <section class={`pod-queue pod-queue-${queue}`} key={queue} aria-label={`${queueName(queue)}: ${cluster.queues[queue]}`}>
            <header
              title={HINTS[queue]}
              ref={(element: HTMLElement | null) => {
                heads.current[queue] = element;
              }}
            >
              <h2>{queueName(queue)}</h2>
              <span class="count" data-queue={queue}>
                {count(cluster.queues[queue])}
              </span>
            </header>
            {queue === "placed" ? <Placed wanted={wanted} /> : <Pending queue={queue} wanted={wanted} now={now} />}
          </section>
        ))}
        <Movement heads={heads.current} />
      </div>
    </section>
  );
}

const matches = (text: string, wanted: string): boolean => text.toLowerCase().includes(wanted);

function Pending({ queue, wanted, now }: { queue: Queue; wanted: string; now: number }) {
  const { cluster } = usePage();
  const shown: PodRow[] = [];
  let fitting = 0;
  for (const pod of cluster.pods[queue].values()) {
    if (wanted && !matches(`${pod.namespace}/${pod.name} ${pod.reason} ${inWords(pod, now)}`, wanted)) continue;
    fitting++;
    if (shown.length < SHOWN) shown.push(pod);
    else if (!wanted) break;
  }
  const more = wanted ? fitting - shown.length : cluster.queues[queue] - shown.length;
  const unlisted = wanted ? (cluster.cut[queue] ?? 0) : 0;
  return (
    <>
      <ul>
        {shown.map((pod) => (
          <Row
            key={pod.uid}
            namespace={pod.namespace}
            name={pod.name}
            detail={[pod.held.length > 0 ? "" : age(now - pod.since), pod.attempts > 0 ? `${pod.attempts}×` : "", inWords(pod, now)].filter(Boolean).join(" · ")}
          />
        ))}
      </ul>
      {more > 0 && <p class="more">and {count(more)} more</p>}
      {unlisted > 0 && <p class="more">{count(unlisted)} more are not listed</p>}
    </>
  );
}

function Placed({ wanted }: { wanted: string }) {
  const { cluster } = usePage();
  const fitting = cluster.placements.filter(
    ({ namespace, name, node }) => !wanted || matches(`${namespace}/${name} ${node}`, wanted),
  );
  const shown = fitting.slice(0, SHOWN);
  const more = wanted ? fitting.length - shown.length : cluster.queues.placed - shown.length;
  return (
    <>
      <ul>
        {shown.map(({ uid, namespace, name, node }) => (
          <Row key={uid} namespace={namespace} name={name} detail={`→ ${node}`} />
        ))}
      </ul>
      {more > 0 && <p class="more">and {count(more)} more</p>}
    </>
  );
}

const Row = memo(function Row({ namespace, name, detail }: { namespace: string; name: string; detail: string }) {
  return (
    <li>
      <a
        href={podLink(namespace, name)}
        title={`${namespace}/${name}\n${detail}`}
        aria-label={`${name} ${detail} · ${namespace}`}
      >
        {/* Pods of one owner differ at the end: when there is no room, the middle is left out. */}
        <span class="name">
          <span>{name.slice(0, -TAIL)}</span>
          <span>{name.slice(-TAIL)}</span>
        </span>
        <span class="detail">
          {detail} · {namespace}
        </span>
      </a>
    </li>
  );
});

const FLIGHT = 700;
const MOST = 40;
const still = window.matchMedia("(prefers-reduced-motion: reduce)");

interface Flight {
  from: Queue;
  to: Queue;
  start: number;
  lift: number;
}

/** Dots that go from queue to queue, as pods do; only along the row of their names, for the sake of the processor. */
function Movement({ heads }: { heads: Partial<Record<Queue, HTMLElement | null>> }) {
  const { cluster } = usePage();
  const canvas = useRef<HTMLCanvasElement>(null);

  useEffect(() => {
    let flights: Flight[] = [];
    let frame = 0;
    let before = cluster.queues.placed;
    let connection = cluster.versions.hello;
    const centres = new Map<Queue, number>();

    function moved(transfers: readonly Transfer[]) {
      const grown = cluster.queues.placed - before;
      before = cluster.queues.placed;
      // The first events of a stream describe the state; nothing has moved.
      const begun = connection !== cluster.versions.hello;
      connection = cluster.versions.hello;
      if (begun || still.matches || document.hidden) return;
      const listed = transfers.filter(({ to }) => to !== "");
      // Pods that come and are placed between two events are only counted.
      const unlisted = Math.max(0, grown - listed.filter(({ to }) => to === "placed").length);
      const all = [...listed, ...Array.from({ length: Math.min(unlisted, MOST) }, () => ({ from: "", to: "placed" }) as Transfer)];
      const start = performance.now();
      for (const [index, { from, to }] of all.slice(0, Math.max(0, MOST - flights.length)).entries()) {
        const source: Queue = from || "active";
        if (to !== "" && source !== to)
          flights.push({ from: source, to, start: start + (index * 250) / all.length, lift: 0.5 + Math.random() });
      }
      if (flights.length === 0 || frame !== 0) return;
      const left = canvas.current?.getBoundingClientRect().left ?? 0;
      for (const queue of QUEUES) {
        const head = heads[queue]?.getBoundingClientRect();
        if (head) centres.set(queue, head.left + head.width / 2 - left);
      }
      frame = requestAnimationFrame(fly);
    }

    function fly(time: number) {
      frame = 0;
      const element = canvas.current;
      const context = element?.getContext("2d");
      if (!element || !context) return;
      const ratio = window.devicePixelRatio || 1;
      const [width, height] = [Math.round(element.clientWidth * ratio), Math.round(element.clientHeight * ratio)];
      if (element.width !== width || element.height !== height) {
        element.width = width;
        element.height = height;
      } else context.clearRect(0, 0, width, height);
      flights = flights.filter(({ start }) => time - start < FLIGHT);
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      context.fillStyle = getComputedStyle(element).color;
      for (const { from, to, start, lift } of flights) {
        const [a, b] = [centres.get(from), centres.get(to)];
        const along = (time - start) / FLIGHT;
        if (a === undefined || b === undefined || along < 0) continue;
        const eased = along * along * (3 - 2 * along);
        context.globalAlpha = Math.sin(Math.PI * along) * 0.9;
        context.beginPath();
        context.arc(
          a + (b - a) * eased,
          element.clientHeight / 2 + Math.sin(Math.PI * along) * 10 * lift,
          2.5,
          0,
          2 * Math.PI,
        );
        context.fill();
      }
      context.globalAlpha = 1;
      if (flights.length > 0) frame = requestAnimationFrame(fly);
      else context.clearRect(0, 0, width, height);
    }

    const unwatch = cluster.watch(moved);
    return () => {
      unwatch();
      cancelAnimationFrame(frame);
    };
  }, [cluster]);

  return <canvas class="movement" ref={canvas} aria-hidden="true" />;
}
