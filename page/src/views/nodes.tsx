// The nodes: a heat map, or the same as a table, and beside it the node that was opened.
import { useMemo, useState } from "preact/hooks";
import type { NodeRow } from "../cluster";
import { useParts, usePage } from "../context";
import { amount, count, counted, percent } from "../format";
import { fullness, marks, totals } from "../heat/drawing";
import { HeatMap, Legend, type Group } from "../heat/map";
import { formatRoute, nodeLink } from "../route";
import { CORDONED, NOT_READY, TAINTED } from "../wire";
import { NodePanel } from "./node_panel";

type Grouping = "zone" | "pool";
const PAGE = 100;

export function Nodes() {
  const { cluster, route } = usePage();
  const version = useParts(cluster, "nodes", "hello");
  const resources = cluster.hello?.resources ?? ["cpu", "memory", "pods"];
  const resource = resources.includes(route.query["resource"] ?? "") ? (route.query["resource"] ?? "") : (resources[0] ?? "cpu");
  const column = resources.indexOf(resource);
  const grouping: Grouping = route.query["group"] === "pool" ? "pool" : "zone";
  const table = route.query["as"] === "table";
  const opened = route.path[0];
  const query = route.query;

  // Sorting 5,000 names costs more than drawing them; the order changes only when nodes come or go.
  const order = useMemo(() => ordered(cluster.nodes.values(), grouping), [cluster.versions.members, grouping]);
  const groups = useMemo(
    () =>
      order.map(({ label, names }) => ({
        label,
        nodes: names.map((name) => cluster.nodes.get(name)).filter((node) => node !== undefined),
      })),
    [order, version],
  );
  const go = (changes: Record<string, string>) =>
    location.replace(formatRoute("nodes", route.path, { ...query, ...changes }));

  return (
    <section class="view nodes" aria-labelledby="view-title">
      <div class="bar">
        <h1 id="view-title">Nodes</h1>
        <label>
          Resource
          <select value={resource} onChange={(event) => go({ resource: event.currentTarget.value })}>
            {resources.map((name) => (
              <option key={name} value={name}>
                {name}
              </option>
            ))}
          </select>
        </label>
        <label>
          Grouped by
          <select value={grouping} onChange={(event) => go({ group: event.currentTarget.value })}>
            <option value="zone">zone</option>
            <option value="pool">pool</option>
          </select>
        </label>
        <div class="switch" role="group" aria-label="Show as">
          <button aria-pressed={!table} onClick={() => go({ as: "" })}>
            Map
          </button>
          <button aria-pressed={table} onClick={() => go({ as: "table" })}>
            Table
          </button>
        </div>
        <Summary nodes={cluster.nodes} column={column} resource={resource} />
      </div>
      {cluster.nodes.size === 0 ? (
        <p class="empty">{cluster.hello ? "There are no nodes." : "Waiting for the first events."}</p>
      ) : table ? (
        <NodeTable groups={groups} grouping={grouping} column={column} resource={resource} query={query} />
      ) : (
        <>
          <Legend resource={resource} />
          <HeatMap
            groups={groups}
            column={column}
            resource={resource}
            open={(name) => location.assign(nodeLink(name, query))}
          />
        </>
      )}
      {opened !== undefined && <NodePanel key={opened} name={opened} close={formatRoute("nodes", [], query)} />}
    </section>
  );
}

function ordered(nodes: Iterable<NodeRow>, grouping: Grouping): { label: string; names: string[] }[] {
  const groups = new Map<string, string[]>();
  for (const node of nodes) {
    const names = groups.get(node[grouping]);
    if (names) names.push(node.name);
    else groups.set(node[grouping], [node.name]);
  }
  return [...groups]
    .sort(([a], [b]) => natural.compare(a, b))
    .map(([key, names]) => ({ label: key || `no ${grouping}`, names: names.sort(natural.compare) }));
}

const natural = new Intl.Collator("en", { numeric: true });

function Summary({ nodes, column, resource }: { nodes: Map<string, NodeRow>; column: number; resource: string }) {
  const { has, taken } = totals(nodes.values(), column);
  const flagged = (flag: number) => [...nodes.values()].filter(({ flags }) => flags & flag).length;
  const troubles = [
    [flagged(NOT_READY), "not ready"],
    [flagged(CORDONED), "cordoned"],
    [flagged(TAINTED), "tainted"],
  ] as const;
  return (
    <p class="summary">
      {counted(nodes.size, "node")} ·{" "}
      {has > 0 ? `${percent(taken / has)} of ${amount(resource, has)} ${resource} requested` : `no ${resource}`}
      {troubles.filter(([number]) => number > 0).map(([number, text]) => ` · ${count(number)} ${text}`)}
    </p>
  );
}

type Order = "group" | "name" | "requested" | "share";

function NodeTable({
  groups,
  grouping,
  column,
  resource,
  query,
}: {
  groups: Group[];
  grouping: Grouping;
  column: number;
  resource: string;
  query: Record<string, string>;
}) {
  const [page, setPage] = useState(0);
  const [order, setOrder] = useState<Order>("group");
  const rows = useMemo(() => {
    const all = groups.flatMap((group) => group.nodes);
    if (order === "name") all.sort((a, b) => natural.compare(a.name, b.name));
    if (order === "requested") all.sort((a, b) => (b.requested[column] ?? 0) - (a.requested[column] ?? 0));
    if (order === "share") all.sort((a, b) => (fullness(b, column) ?? -1) - (fullness(a, column) ?? -1));
    return all;
  }, [groups, order, column]);
  const pages = Math.max(1, Math.ceil(rows.length / PAGE));
  const shown = Math.min(page, pages - 1);
  const heading = (key: Order, text: string) => (
    <th scope="col" aria-sort={order === key ? (key === "name" || key === "group" ? "ascending" : "descending") : "none"}>
      <button class="plain" onClick={() => setOrder(key)}>
        {text}
      </button>
    </th>
  );
  return (
    <div class="scroll">
      <table>
        <caption class="unseen">
          Nodes by {resource}, page {shown + 1} of {pages}
        </caption>
        <thead>
          <tr>
            {heading("name", "Node")}
            {heading("group", grouping === "zone" ? "Zone" : "Pool")}
            {heading("requested", `${resource} requested`)}
            <th scope="col">of</th>
            {heading("share", "Share")}
            <th scope="col">Marks</th>
          </tr>
        </thead>
        <tbody>
          {rows.slice(shown * PAGE, (shown + 1) * PAGE).map((node) => {
            const full = fullness(node, column);
            return (
              <tr key={node.name}>
                <th scope="row">
                  <a href={nodeLink(node.name, query)}>{node.name}</a>
                </th>
                <td>{node[grouping]}</td>
                <td class="number">{full === null ? "–" : amount(resource, node.requested[column] ?? 0)}</td>
                <td class="number">{full === null ? "–" : amount(resource, node.allocatable[column] ?? 0)}</td>
                <td class="number">{full === null ? "–" : percent(full)}</td>
                <td>{marks(node.flags).join(", ")}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
      {pages > 1 && (
        <div class="pages">
          <button disabled={shown === 0} onClick={() => setPage(shown - 1)}>
            Earlier
          </button>
          <span>
            page {shown + 1} of {pages}
          </span>
          <button disabled={shown >= pages - 1} onClick={() => setPage(shown + 1)}>
            Later
          </button>
        </div>
      )}
    </div>
  );
}
