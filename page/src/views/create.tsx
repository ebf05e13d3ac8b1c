// Applies pasted manifests one by one and lists the result of each.
import { useState } from "preact/hooks";
import { applyAll, type Applied } from "../applying";
import { useParts, usePage } from "../context";
import { readManifests } from "../manifests";
import { podLink } from "../route";

const EXAMPLE = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: main
        image: nginx
        resources: {requests: {cpu: 500m, memory: 256Mi}}
`;

export function Create() {
  const { cluster, server } = usePage();
  useParts(cluster, "hello");
  const [text, setText] = useState("");
  const [results, setResults] = useState<Applied[]>([]);
  const [busy, setBusy] = useState(false);

  if (cluster.hello && !cluster.hello.writable)
    return (
      <section class="view" aria-labelledby="view-title">
        <div class="bar">
          <h1 id="view-title">Create</h1>
        </div>
        <p class="empty">This page is read-only: the scheduler that serves it does not create objects.</p>
      </section>
    );

  async function apply(dryRun: boolean) {
    const documents = readManifests(text);
    if (busy) return;
    if (documents.length === 0) {
      setResults([{ what: "Nothing to apply", ok: false, text: "paste a manifest first" }]);
      return;
    }
    setBusy(true);
    setResults([]);
    await applyAll(server, documents, { dryRun, report: (one) => setResults((before) => [...before, one]) });
    setBusy(false);
  }

  return (
    <section class="view create" aria-labelledby="view-title">
      <div class="bar">
        <h1 id="view-title">Create</h1>
        <p class="summary">
          YAML or JSON, several documents divided by <code>---</code>; what is there already is changed.
        </p>
      </div>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void apply(false);
        }}
      >
        <label class="unseen" for="manifests">
          Manifests
        </label>
        <textarea
          id="manifests"
          spellcheck={false}
          autocomplete="off"
          value={text}
          placeholder={EXAMPLE}
          onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void apply(false);
          }}
        />
        <div class="actions">
          <button class="primary" disabled={busy}>
            {busy ? "Applying…" : "Apply"}
          </button>
          <button type="button" disabled={busy} onClick={() => apply(true)}>
            Try without keeping
          </button>
          <button type="button" onClick={() => setText(EXAMPLE)}>
            Example
          </button>
        </div>
      </form>
      <ol class="results" aria-live="polite" aria-label="Results">
        {results.map(({ what, ok, text: result, namespace, pod }, index) => (
          <li key={index} class={ok ? "ok" : "failed"}>
            <span aria-hidden="true">{ok ? "✓" : "✗"}</span>{" "}
            <b>{pod && namespace ? <a href={podLink(namespace, pod)}>{what}</a> : what}</b>{" "}
            {ok ? result : <span class="problem">{result}</span>}
          </li>
        ))}
      </ol>
    </section>
  );
}
