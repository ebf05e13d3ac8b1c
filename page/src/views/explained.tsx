// Why a pod waits, or why it is where it is, and what would free it; each proposal was tried by the server.
import type { VNode } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { applicable, applyProposal } from "../actions";
import { useAnswer } from "../asking";
import { attempt, useParts, usePlace } from "../context";
import { count, counted, listed, timeOfDay } from "../format";
import { query } from "../requests";
import type { Explanation, Proposal } from "../wire";
import { ScoreTable } from "./score_table";

const VERDICTS: Record<string, (told: Explanation) => string> = {
  placed: ({ node }) => `It is on node ${node ?? ""}.`,
  fits: ({ feasible, nodes }) => `It fits on ${count(feasible?.length ?? 0)} of ${counted(nodes ?? 0, "node")}.`,
  rejected: ({ nodes }) => `It fits on none of ${counted(nodes ?? 0, "node")}.`,
  gated: () => "It is held back before any node is looked at.",
};

export function Explained({
  namespace,
  name,
  state,
  after,
}: {
  namespace: string;
  name: string;
  /** What becomes of it; the question, which costs, is asked again when that changes. */
  state: string;
  after: () => void;
}) {
  const { server } = usePlace();
  const asked = useAnswer<Explanation>(server, query("/explain", { namespace, pod: name }));
  const known = useRef(state);
  useEffect(() => {
    if (known.current !== state) asked.again();
    known.current = state;
  }, [state]);
  const told = asked.answer;

  return (
    <section class="card explained" aria-labelledby="explained-title" aria-busy={asked.pending}>
      <div class="card-head">
        <h2 id="explained-title">Why</h2>
        <button disabled={asked.pending} onClick={asked.again}>
          {asked.pending ? "Asking…" : "Ask again"}
        </button>
      </div>
      {asked.error && <p class="problem">{asked.error}</p>}
      {told && (
        <>
          <p class="verdict">{VERDICTS[told.verdict]?.(told) ?? told.verdict}</p>
          {told.waiting && <Waits waiting={told.waiting} />}
          {told.verdict === "gated" && told.message && <p>{told.message}</p>}
          {told.proposals && (
            <Proposals
              proposals={told.proposals}
              pod={{ namespace, name }}
              after={() => {
                after();
                asked.again();
              }}
            />
          )}
          {told.rejected && (
            <>
              <h3>Rejected by</h3>
              <Some>
                {told.rejected.map(({ plugin, reasons, count: number, nodes }) => (
                  <li key={`${plugin} ${reasons.join()}`}>
                    <b>{plugin}</b>: {reasons.join(", ")} <Names number={number} nodes={nodes} />
                  </li>
                ))}
              </Some>
            </>
          )}
          {told.nearest && (
            <>
              <h3>Nearest nodes miss</h3>
              <Some>
                {told.nearest.map(({ misses, count: number, nodes }) => (
                  <li key={misses.join()}>
                    {misses.join("; ")} <Names number={number} nodes={nodes} />
                  </li>
                ))}
              </Some>
            </>
          )}
          {told.preemption && (
            <>
              <h3>Preemption</h3>
              <p>
                {told.preemption.nominatedNode
                  ? `would evict ${(told.preemption.victims ?? []).join(", ")} from ${told.preemption.nominatedNode}`
                  : (told.preemption.message ?? "")}
              </p>
            </>
          )}
          {told.events && (
            <>
              <h3>Comes back when</h3>
              <ul>
                {told.events.map(({ plugin, events }) => (
                  <li key={plugin}>
                    <b>{plugin}</b> hears of {events.join("; ")}
                  </li>
                ))}
              </ul>
            </>
          )}
          {told.scores && (
            <>
              <h3>Scores</h3>
              <p>{told.scores.reason}</p>
              <ScoreTable
                nodes={told.scores.best.map(({ node }) => node)}
                totals={told.scores.best.map(({ total }) => total)}
                rows={Object.keys(told.scores.best[0]?.byPlugin ?? {}).map((plugin) => [
                  plugin,
                  told.scores?.best.map(({ byPlugin }) => byPlugin[plugin] ?? 0) ?? [],
                ])}
                winner={told.scores.winner}
              />
            </>
          )}
          {told.notes && (
            <ul class="dim">
              {told.notes.map((note) => (
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

function Waits({ waiting }: { waiting: NonNullable<Explanation["waiting"]> }) {
  const time = (text: string) => timeOfDay(Date.parse(text) / 1000);
  return (
    <p>
      It waits in {waiting.queue}
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
  const place = usePlace();
  useParts(place.cluster, "hello");
  const writable = place.cluster.hello?.writable ?? false;
  const [busy, setBusy] = useState(false);

  async function apply(proposal: Proposal) {
    const sure = await place.confirm({ title: "Change the cluster?", text: proposal.text, action: "Do it" });
    if (!sure) return;
    setBusy(true);
    const done = await attempt(place, `Done: ${proposal.text}`, () => applyProposal(place.server, proposal, pod));
    setBusy(false);
    if (done) after();
  }

  return (
    <>
      <h3>Would free it (each was tried)</h3>
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
