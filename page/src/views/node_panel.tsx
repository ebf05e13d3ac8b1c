// One node: its resources and pods, and in a local cluster a button that cordons it.
import { useEffect, useRef, useState } from "preact/hooks";
import { cordon } from "../actions";
import { useAnswer } from "../answer";
import { attempt, useParts, usePage } from "../context";
import { amount, count, counted, percent } from "../format";
import { marks } from "../heat/drawing";
import { query } from "../requests";
import { podLink } from "../route";
import { CORDONED, type NodeAnswer } from "../wire";

const PODS = 200;
const PAUSE = 400;

export function NodePanel({ name, close }: { name: string; close: string }) {
  const page = usePage();
  const { cluster, server } = page;
  useParts(cluster, "nodes", "hello");
  const row = cluster.nodes.get(name);
  const request = useAnswer<NodeAnswer>(server, query("/ui/node", { name }));
  const [busy, setBusy] = useState(false);
  const heading = useRef<HTMLHeadingElement>(null);

  useEffect(() => {
    const before = document.activeElement;
    heading.current?.focus();
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  // The row of a node changes with its pods: its details are requested again, but not at every change.
  const figures = row && JSON.stringify([row.flags, row.allocatable, row.requested]);
  const first = useRef(true);
  const timer = useRef(0);
  useEffect(() => {
    const changed = !first.current;
    first.current = false;
    if (!changed || timer.current !== 0) return;
    timer.current = window.setTimeout(() => {
      timer.current = 0;
      request.again();
    }, PAUSE);
  }, [figures]);
  useEffect(() => () => clearTimeout(timer.current), []);

  const node = request.answer;
  const flags = row?.flags ?? node?.flags ?? 0;
  const closed = (flags & CORDONED) !== 0;

  async function toggle() {
    setBusy(true);
    await attempt(page, `${name} is ${closed ? "open to" : "closed to"} new pods`, () => cordon(server, name, !closed));
    setBusy(false);
  }

  return (
    <aside class="panel" aria-labelledby="node-title">
      <div class="panel-head">
        <h2 id="node-title" tabIndex={-1} ref={heading}>
          {name}
        </h2>
        <a class="close" href={close} aria-label="Close the node">
          ✕
        </a>
      </div>
      {request.error && <p class="problem">{request.error}</p>}
      {cluster.hello && !row && <p class="problem">This node is not in the cluster.</p>}
      <p class="facts">
        {[row?.zone || node?.zone, row?.pool || node?.pool, ...marks(flags)].filter(Boolean).join(" · ") || "ready"}
      </p>
      {cluster.hello?.writable && row && (
        <p>
          <button disabled={busy} onClick={toggle}>
            {closed ? "Uncordon" : "Cordon"}
          </button>
        </p>
      )}
      {row && (
        <table class="narrow">
          <caption>Requested</caption>
          <tbody>
            {cluster.hello?.resources.map((resource, column) => {
              const has = row.allocatable[column] ?? 0;
              const taken = row.requested[column] ?? 0;
              if (has === 0 && taken === 0) return null;
              return (
                <tr key={resource}>
                  <th scope="row">{resource}</th>
                  <td class="number">{amount(resource, taken)}</td>
                  <td class="number">of {amount(resource, has)}</td>
                  <td class="meter-cell">
                    <meter min={0} max={1} value={has > 0 ? taken / has : 0} aria-label={`${resource} requested`} />
                  </td>
                  <td class="number">{has > 0 ? percent(taken / has) : ""}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      )}
      {node && (
        <>
          {node.taints.length > 0 && (
            <>
              <h3>Taints</h3>
              <ul class="tags">
                {node.taints.map(({ key, value, effect }) => (
                  <li key={`${key} ${effect}`}>{`${key}${value ? `=${value}` : ""}:${effect}`}</li>
                ))}
              </ul>
            </>
          )}
          <h3>{counted(node.pods.length, "pod")}</h3>
          <table class="narrow">
            <caption class="unseen">Pods on {name}</caption>
            <thead>
              <tr>
                <th scope="col">Pod</th>
                <th scope="col">Phase</th>
                <th scope="col">cpu</th>
                <th scope="col">memory</th>
              </tr>
            </thead>
            <tbody>
              {node.pods.slice(0, PODS).map(([namespace, pod, phase, , requested]) => (
                <tr key={`${namespace}/${pod}`}>
                  <th scope="row">
                    <a href={podLink(namespace, pod)}>
                      <span class="dim">{namespace}/</span>
                      {pod}
                    </a>
                  </th>
                  <td>{phase}</td>
                  <td class="number">{amount("cpu", requested[0] ?? 0)}</td>
                  <td class="number">{amount("memory", requested[1] ?? 0)}</td>
                </tr>
              ))}
            </tbody>
          </table>
          {node.pods.length > PODS && <p class="dim">and {count(node.pods.length - PODS)} more</p>}
          <h3>Labels</h3>
          <ul class="tags">
            {Object.entries(node.labels).map(([key, value]) => (
              <li key={key}>{`${key}=${value}`}</li>
            ))}
          </ul>
        </>
      )}
    </aside>
  );
}
