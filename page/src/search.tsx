// The search box: pods and nodes by a part of their name, a list to walk through with arrow keys.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Server } from "./requests";
import { query } from "./requests";
import { queueName } from "./format";
import { nodeLink, podLink } from "./route";
import type { SearchAnswer } from "./wire";

interface Hit {
  link: string;
  name: string;
  detail: string;
}

const PAUSE = 150;

export function Search({ server }: { server: Server }) {
  const [text, setText] = useState("");
  const [hits, setHits] = useState<Hit[] | null>(null);
  const [error, setError] = useState("");
  const [at, setAt] = useState(0);
  const input = useRef<HTMLInputElement>(null);
  const list = useRef<HTMLUListElement>(null);

  useEffect(() => {
    setHits(null);
    setError("");
    const wanted = text.trim();
    if (!wanted) return;
    const running = new AbortController();
    const timer = setTimeout(() => {
      server
        .request<SearchAnswer>(query("/ui/search", { q: wanted }), { signal: running.signal })
        .then(({ nodes, pods }) => {
          setAt(0);
          setHits([
            ...nodes.map((name) => ({ link: nodeLink(name), name, detail: "node" })),
            ...pods.map(([namespace, name, queue, node]) => ({
              link: podLink(namespace, name),
              name,
              detail: `${namespace} · ${node || queueName(queue).toLowerCase()}`,
            })),
          ]);
        })
        .catch((failure: unknown) => {
          if (!running.signal.aborted) setError(failure instanceof Error ? failure.message : String(failure));
        });
    }, PAUSE);
    return () => {
      clearTimeout(timer);
      running.abort();
    };
  }, [text, server]);

  useEffect(() => {
    list.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }, [at]);

  function close() {
    setText("");
    input.current?.blur();
  }

  function keyed(event: KeyboardEvent) {
    if (event.key === "Escape") {
      event.stopPropagation();
      close();
    } else if (event.key === "Enter") {
      const hit = hits?.[at];
      if (!hit) return;
      location.assign(hit.link);
      close();
    } else if (hits && hits.length > 0 && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      setAt((at + (event.key === "ArrowDown" ? 1 : hits.length - 1)) % hits.length);
    } else return;
    event.preventDefault();
  }

  const opened = text.trim() !== "" && (hits !== null || error !== "");
  return (
    <div class="search" role="search">
      <input
        id="search"
        ref={input}
        type="search"
        placeholder="Search pods and nodes  /"
        aria-label="Search pods and nodes"
        role="combobox"
        list={undefined}
        aria-expanded={opened}
        aria-controls="search-hits"
        aria-autocomplete="list"
        aria-activedescendant={opened && hits?.length ? `hit-${at}` : undefined}
        autocomplete="off"
        spellcheck={false}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={keyed}
      />
      {opened && (
        <ul id="search-hits" role="listbox" aria-label="Found" ref={list}>
          {error && <li class="problem">{error}</li>}
          {hits?.length === 0 && <li class="dim">No pod or node matches.</li>}
          {hits?.map((hit, index) => (
            <li
              key={hit.link}
              id={`hit-${index}`}
              role="option"
              aria-selected={index === at}
              onMouseDown={(event) => {
                event.preventDefault();
                location.assign(hit.link);
                close();
              }}
              onMouseMove={() => setAt(index)}
            >
              <span class="name">{hit.name}</span> <span class="dim">{hit.detail}</span>
            </li>
          ))}
        </ul>
      )}
    </div>
  );
}
