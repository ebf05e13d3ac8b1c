// Why a pod waits, or why it is where it is, and what would free it; each proposal was tried by the server.
import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { applicable, applyProposal } from "../actions";
import { useAnswer } from "../answer";
import { attempt, useParts, usePage } from "../context";
import { count, counted, listed, timeOfDay } from "../format";
import { query } from "../requests";
import type { Explanation, Proposal } from "../wire";
import { ScoreTable } from "./score_table";

const VERDICTS: Record<string, (explanation: Explanation) => string> = {
  placed: ({ node }) => `It is on node ${node ?? ""}.`,
  fits: ({ feasible, nodes }) => `It fits on ${count(feasible?.length ?? 0)} of ${counted(nodes ?? 0, "node")}.`,
  rejected: ({ nodes }) => `It fits on none of ${counted(nodes ?? 0, "node")}.`,
  gated: () => "A PreEnqueue plugin gates the pod; no node is evaluated.",
};

export function Explained({
  namespace,
  name,
  state,
  after,
}: {
  namespace: string;
  name: string;
  /** Queue and node of the pod; the explanation is requested again when they change. */
  state: string;
  after: () => void;
}) {
  const { server } = usePage();
  const request = useAnswer<Explanation>(server, query("/explain", { namespace, pod: name }));
  const known = useRef(state);
  useEffect(() => {
    if (known.current !== state) request.again();
    known.current = state;
  }, [state]);
  const explanation = request.answer;

  return (
    <section class="card explained" aria-labelledby="explained-title" aria-busy={request.pending}>
      <div class="card-head">
        <h2 id="explained-title">Why</h2>
        <button disabled={request.pending} onClick={request.again}>
          {request.pending ? "Loading…" : "Explain again"}
        </button>
      </div>
      {request.error && <p class="problem">{request.error}</p>}
      {explanation && (
        <>
          <p class="verdict">{VERDICTS[explanation.verdict]?.(explanation) ?? explanation.verdict}</p>
          {explanation.waiting && <Waits waiting={explanation.waiting} />}
          {explanation.nominated && <Nominated {...explanation.nominated} />}
          {explanation.missing && (
            <ul>
              {explanation.missing.map(({ kind, name: missing, text }) => (
                <li key={`${kind} ${missing}`}>{text}</li>
              ))}
            </ul>
          )}
          {explanation.waiting?.heldBy && explanation.feasible && (
            <p title={listed(explanation.feasible, 60)}>Nodes that fit: {listed(explanation.feasible, FEW)}</p>
          )}
          {explanation.verdict === "gated" && explanation.message && <p>{explanation.message}</p>}
          {!explanation.proposals && ["rejected", "gated"].includes(explanation.verdict) && (
            <p class="dim">No tested change helps.</p>
          )}
          {explanation.proposals && (
            <Proposals
              proposals={explanation.proposals}
              pod={{ namespace, name }}
              after={() => {
                after();
                request.again();
              }}
            />
          )}
          {explanation.rejected && (
            <>
              <h3>Rejected by</h3>
              <Some>
                {explanation.rejected.map(({ plugin, reasons, count: number, nodes }) => (
                  <li key={`${plugin} ${reasons.join()}`}>
                    <b>{plugin}</b>: {reasons.join(", ")} <Names number={number} nodes={nodes} />
                  </li>
                ))}
              </Some>
            </>
          )}
          {explanation.nearest && (
            <>
              <h3>Nearest nodes miss</h3>
              <Some>
                {explanation.nearest.map(({ misses, count: number, nodes }) => (
                  <li key={misses.join()}>
                    {misses.join("; ")} <Names number={number} nodes={nodes} />
                  </li>
                ))}
              </Some>
            </>
          )}
          {explanation.preemption && (
            <>
              <h3>Preemption</h3>
              <p>{preemptionInWords(explanation.preemption)}</p>
            </>
          )}
          {explanation.events && (
            <>
              <h3>Retried on</h3>
              <ul>
                {explanation.events.map(({ plugin, events }) => (
                  <li key={plugin}>
                    <b>{plugin}</b> hears of {events.join("; ")}
                  </li>
                ))}
              </ul>
            </>
          )}
          {explanation.scores && (
            <>
              <h3>Scores</h3>
              <p>{explanation.scores.reason}</p>
              <ScoreTable
                nodes={explanation.scores.best.map(({ node }) => node)}
                totals={explanation.scores.best.map(({ total }) => total)}
                rows={Object.keys(explanation.scores.best[0]?.byPlugin ?? {}).map((plugin) => [
                  plugin,
                  explanation.scores?.best.map(({ byPlugin }) => byPlugin[plugin] ?? 0) ?? [],
                ])}
                winner={explanation.scores.winner}
              />
            </>
          )}
          {explanation.notes && (
            <ul class="dim">
              {explanation.notes.map((note) => (
                <li key={note}>{note}</li>
              ))}
            </ul>
          )}
        </>
      )}
    </section>
  );
}

const FEW = 8;

/** The first of a list, and the others on request: every node of 5,000 can miss something else. */
function Some({ children }: { children: VNode[] }) {
  const [all, setAll] = useState(false);
  const more = children.length - FEW;
  return (
    <>
      <ul>{all ? children : children.slice(0, FEW)}</ul>
      {more > 0 && !all && (
        <button class="plain more" onClick={() => setAll(true)}>
          and {count(more)} more
        </button>
      )}
    </>
  );
}

function Names({ number, nodes }: { number: number; nodes: string[] }) {
  return (
    <span class="dim" title={listed(nodes, 60)}>
      on {number === 1 ? `node ${nodes[0] ?? ""}` : `${count(number)} nodes (${listed(nodes, 3)})`}
    </span>
  );
}

/** What preemption would do, or on how many nodes it does not help. */
export function preemptionInWords(found: NonNullable<Explanation["preemption"]>): string {
  if (found.nominatedNode)
    return found.victims?.length
      ? `would evict ${found.victims.join(", ")} from ${found.nominatedNode}`
      : `would clear ${found.nominatedNode} without evicting more pods: some terminate already`;
  const parts = [
    [found.nodesThatCouldHelp, "evicting pods of lower priority does not suffice"],
    [found.nodesBeyondHelp, "no eviction helps"],
  ] as const;
  const why = parts.filter(([number]) => number).map(([number, text]) => `on ${counted(number ?? 0, "node")} ${text}`);
  const refused = found.message?.includes("not eligible") ? [] : [`does not help${why.length ? `: ${why.join(", ")}` : ""}`];
  return [...refused, found.message ?? ""].filter(Boolean).join(". ");
}

function Nominated({ node, terminating }: { node: string; terminating: string[] }) {
  return (
    <p>
      It is nominated to {node}
      {terminating.length > 0 ? `, and waits for these pods to terminate: ${terminating.join(", ")}` : ", where no pod terminates"}.
    </p>
  );
}

function Waits({ waiting }: { waiting: NonNullable<Explanation["waiting"]> }) {
  const time = (text: string) => timeOfDay(Date.parse(text) / 1000);
  if (waiting.heldBy)
    return (
      <>
        {waiting.heldBy.map(({ plugin, since, until }) => (
          <p key={plugin}>
            In Permit, assumed on node {waiting.node}: <b>{plugin}</b> holds it since {time(since)}, until {time(until)} at
            the latest.
          </p>
        ))}
      </>
    );
  return (
    <p>
      {waiting.queue === "in flight" ? "It is being scheduled now" : `It waits in the ${waiting.queue} queue`}
      {waiting.since && ` since ${time(waiting.since)}`}
      {waiting.attempts !== undefined && `, tried ${counted(waiting.attempts, "time")}`}
      {waiting.nextAttempt && `, next at ${time(waiting.nextAttempt)} at the latest`}.
    </p>
  );
}

function Proposals({
  proposals,
  pod,
  after,
}: {
  proposals: Proposal[];
  pod: { namespace: string; name: string };
  after: () => void;
}) {
  const page = usePage();
  useParts(page.cluster, "hello");
  const writable = page.cluster.hello?.writable ?? false;
  const [busy, setBusy] = useState(false);

  async function apply(proposal: Proposal) {
    const sure = await page.confirm({ title: "Change the cluster?", text: proposal.text, action: "Do it" });
    if (!sure) return;
    setBusy(true);
    const done = await attempt(page, `Done: ${proposal.text}`, () => applyProposal(page.server, proposal, pod));
    setBusy(false);
    if (done) after();
  }

  return (
    <>
      <h3>What would help (each was tested)</h3>
      <ul class="proposals">
        {proposals.map((proposal) => (
          <li key={proposal.text}>
            <span>{proposal.text}</span>
            {writable && applicable(proposal) && (
              <button disabled={busy} aria-label={`Apply: ${proposal.text}`} onClick={() => apply(proposal)}>
                Apply
              </button>
            )}
          </li>
        ))}
      </ul>
    </>
  );
}
