// A pod: its queue or node, its moves between queues, its last scheduling cycles, and its explanation.
import { useEffect, useRef, useState } from "preact/hooks";
import { deletePod, podPath, removeGate, scalableOwner, scale, type PodObject, type Scalable } from "../actions";
import { useAnswer } from "../answer";
import { attempt, useNow, useParts, usePage } from "../context";
import { age, count, counted, inWords, milliseconds, queueName, resultInWords, timeOfDay } from "../format";
import { query } from "../requests";
import { formatRoute, nodeLink, podLink } from "../route";
import { QUEUES, type Cycle, type Move, type HistoryAnswer } from "../wire";
import { Explained } from "./explained";
import { ScoreTable } from "./score_table";

export function Pod() {
  const { route } = usePage();
  const [namespace, name] = route.path;
  return namespace !== undefined && name !== undefined ? (
    <OnePod key={`${namespace}/${name}`} namespace={namespace} name={name} />
  ) : (
    <WhichPod />
  );
}

const SUGGESTED = 25;

function WhichPod() {
  const { cluster } = usePage();
  useParts(cluster, "pods", "queues");
  const now = useNow(cluster);
  const pending = QUEUES.flatMap((queue) => [...cluster.pods[queue].values()])
    .sort((a, b) => a.since - b.since)
    .slice(0, SUGGESTED);
  const all = QUEUES.reduce((sum, queue) => sum + (queue === "placed" ? 0 : cluster.queues[queue]), 0);
  return (
    <section class="view" aria-labelledby="view-title">
      <div class="bar">
        <h1 id="view-title">Pod</h1>
        <p class="summary">
          Search for any pod with <kbd>/</kbd>.
        </p>
      </div>
      {pending.length > 0 ? (
        <>
          <h2>Pending longest</h2>
          {pending.length < all && (
            <p class="dim">
              {count(pending.length)} of {counted(all, "pending pod")}; <a href={formatRoute("queue", [], {})}>Queue</a>{" "}
              lists more.
            </p>
          )}
          <div class="scroll">
            <table>
              <caption class="unseen">Pods that wait longest</caption>
              <thead>
                <tr>
                  <th scope="col">Pod</th>
                  <th scope="col">Queue</th>
                  <th scope="col">Since</th>
                  <th scope="col">Tries</th>
                  <th scope="col">Reason</th>
                </tr>
              </thead>
              <tbody>
                {pending.map((pod) => (
                  <tr key={pod.uid}>
                    <th scope="row">
                      <a href={podLink(pod.namespace, pod.name)}>
                        <span class="dim">{pod.namespace}/</span>
                        {pod.name}
                      </a>
                    </th>
                    <td>{queueName(pod.queue)}</td>
                    <td class="number">{age(now - pod.since)}</td>
                    <td class="number">{count(pod.attempts)}</td>
                    <td title={pod.reason}>{inWords(pod, now)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </>
      ) : (
        <p class="empty">No pods are pending.</p>
      )}
    </section>
  );
}

const REFRESH = 3000;

function OnePod({ namespace, name }: { namespace: string; name: string }) {
  const { cluster, server } = usePage();
  useParts(cluster, "pods", "hello");
  const now = useNow(cluster);
  const writable = cluster.hello?.writable ?? false;
  const history = useAnswer<HistoryAnswer>(server, query("/ui/history", { namespace, pod: name }));
  const object = useAnswer<PodObject>(server, writable ? podPath(namespace, name) : null);
  const row = cluster.find(namespace, name);

  // A changed row or a new stream means that the pod may have moved; the rest (its phase) is polled.
  const moved = `${cluster.versions.hello} ${row?.queue} ${row?.attempts} ${row?.reason}`;
  const again = useRef(() => {});
  again.current = () => {
    history.again();
    object.again();
  };
  const first = useRef(true);
  useEffect(() => {
    if (!first.current) again.current();
    first.current = false;
  }, [moved]);
  // A pod that does not exist is not polled; a new pod of the same name has another UID.
  const look = useRef(() => {});
  look.current = () => {
    if (document.hidden) return;
    if (history.answer) history.again();
    if (object.answer) object.again();
  };
  useEffect(() => {
    const timer = setInterval(() => look.current(), REFRESH);
    return () => clearInterval(timer);
  }, []);
  const answer = history.answer;
  const identity = useRef(answer?.pod.uid);
  useEffect(() => {
    if (answer && identity.current !== undefined && identity.current !== answer.pod.uid) object.again();
    identity.current = answer?.pod.uid;
  }, [answer?.pod.uid]);

  const queue = row?.queue ?? answer?.pod.queue ?? "";
  return (
    <section class="view pod" aria-labelledby="view-title">
      <div class="bar">
        <h1 id="view-title">
          <span class="dim">{namespace}/</span>
          {name}
        </h1>
      </div>
      {history.error && <p class="problem">{history.error}</p>}
      {answer && (
        <>
          <dl class="facts">
            <Fact name="is" value={answer.pod.node ? `${answer.pod.phase} on` : queueName(queue)}>
              {answer.pod.node && <a href={nodeLink(answer.pod.node)}>{answer.pod.node}</a>}
            </Fact>
            <Fact name="priority" value={String(answer.pod.priority)} />
            <Fact name="attempts" value={count(row?.attempts ?? answer.pod.attempts)} />
            <Fact name="scheduler" value={answer.pod.profile} />
            {row && (
              <Fact name="reason" value={inWords(row, now) || "–"}>
                {row.reason && inWords(row, now) !== row.reason && <span class="dim">({row.reason})</span>}
              </Fact>
            )}
          </dl>
          {writable && object.answer && <Actions pod={object.answer} again={again.current} />}
        </>
      )}
      {answer && (
        <div class="columns">
          <Explained namespace={namespace} name={name} state={outcome(answer)} after={again.current} />
          <div>
            <Moves moves={answer.moves} />
            <Cycles cycles={answer.cycles} />
          </div>
        </div>
      )}
    </section>
  );
}

/** Identifies what an explanation answers: why the pod is on its node, or why it is pending (also while it is in flight). */
export function outcome({ pod }: HistoryAnswer): string {
  if (pod.queue === "placed") return `on ${pod.node}`;
  return pod.queue === "gated" || pod.queue === "deleted" ? pod.queue : "pending";
}

function Fact({ name, value, children }: { name: string; value: string; children?: preact.ComponentChildren }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        {value} {children}
      </dd>
    </div>
  );
}

function Actions({ pod, again }: { pod: PodObject; again: () => void }) {
  const page = usePage();
  const { server, confirm } = page;
  const { namespace, name } = pod.metadata;
  const [owner, setOwner] = useState<Scalable | null>(null);
  const [replicas, setReplicas] = useState("");
  const references = JSON.stringify(pod.metadata.ownerReferences ?? []);

  useEffect(() => {
    let current = true;
    scalableOwner(server, pod)
      .then((found) => current && setOwner(found))
      .catch(() => current && setOwner(null)); // gone meanwhile: nothing to scale
    return () => {
      current = false;
    };
  }, [references]);
  useEffect(() => {
    if (owner) setReplicas(String(owner.replicas));
  }, [owner]);

  async function remove() {
    const sure = await confirm({
      title: "Delete this pod?",
      text: `${namespace}/${name} is deleted; its controller may create a replacement.`,
      action: "Delete",
    });
    if (sure && (await attempt(page, `${name} is being deleted`, () => deletePod(server, namespace, name)))) again();
  }

  async function ungate(gate: string) {
    if (await attempt(page, `${gate} is removed`, () => removeGate(server, namespace, name, gate))) again();
  }

  async function rescale(event: Event) {
    event.preventDefault();
    const wanted = Number(replicas);
    if (!owner || !/^\d+$/.test(replicas)) return;
    const what = `${owner.kind} ${owner.name}`;
    if (await attempt(page, `${what} is scaled to ${wanted}`, () => scale(server, owner, wanted)))
      setOwner({ ...owner, replicas: wanted });
  }

  return (
    <div class="actions" role="group" aria-label="Actions">
      {(pod.spec.schedulingGates ?? []).map((gate) => (
        <button key={gate.name} onClick={() => ungate(gate.name)}>
          Remove gate {gate.name}
        </button>
      ))}
      {owner && (
        <form onSubmit={rescale}>
          <label>
            Replicas of {owner.kind} {owner.name}
            <input
              type="number"
              min="0"
              step="1"
              required
              value={replicas}
              onInput={(event) => setReplicas(event.currentTarget.value)}
            />
          </label>
          <button>Scale</button>
        </form>
      )}
      <button class="danger" onClick={remove}>
        Delete pod
      </button>
    </div>
  );
}

function Moves({ moves }: { moves: Move[] }) {
  return (
    <section class="card" aria-labelledby="moves-title">
      <h2 id="moves-title">Moves</h2>
      {moves.length === 0 ? (
        <p class="dim">None was recorded. Moves are recorded while the page or kuberth top is open.</p>
      ) : (
        <ol class="moves">
          {[...moves].reverse().map((move, index) => (
            <li key={`${move.at} ${moves.length - index}`}>
              <time>{timeOfDay(move.at)}</time>
              <span>
                <b>{move.from ? `${queueName(move.from)} → ${queueName(move.to)}` : queueName(move.to)}</b>
                {move.event && ` on ${move.event}`}
                {move.object && ` of ${move.object}`}
                {move.plugin && `, ${move.plugin}`}
                {move.hint && ` says ${move.hint}`}
                {move.note && <span class="dim"> {move.note}</span>}
              </span>
            </li>
          ))}
        </ol>
      )}
    </section>
  );
}

function Cycles({ cycles }: { cycles: Cycle[] }) {
  return (
    <section class="card" aria-labelledby="cycles-title">
      <h2 id="cycles-title">Last cycles</h2>
      {cycles.length === 0 && <p class="dim">None was recorded.</p>}
      {[...cycles].reverse().map((cycle, index) => (
        <details key={`${cycle.at} ${cycles.length - index}`} open={index === 0}>
          <summary>
            <time>{timeOfDay(cycle.at)}</time> <b>{resultInWords(cycle.result)}</b>
            {cycle.node && ` on ${cycle.node}`}
            {cycle.nominated && `, nominated ${cycle.nominated}`}
            <span class="dim"> in {milliseconds(cycle.seconds * 1000)}</span>
          </summary>
          <p class="dim">
            {counted(cycle.evaluated, "node")} looked at, {count(cycle.feasible)} feasible
          </p>
          {cycle.message && <p>{cycle.message}</p>}
          {cycle.rejections.length > 0 && (
            <ul class="rejections">
              {cycle.rejections.map(({ plugin, reason, nodes }) => (
                <li key={`${plugin} ${reason}`}>
                  <b>{plugin}</b>: {reason} <span class="dim">on {counted(nodes, "node")}</span>
                </li>
              ))}
            </ul>
          )}
          {cycle.scores && cycle.scores.nodes.length > 0 && (
            <ScoreTable
              nodes={cycle.scores.nodes}
              totals={cycle.scores.totals}
              rows={Object.entries(cycle.scores.plugins)}
              winner={cycle.node}
            />
          )}
        </details>
      ))}
    </section>
  );
}
