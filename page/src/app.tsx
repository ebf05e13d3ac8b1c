// The frame around the views: navigation, the connection's state, keys, search, and notifications.
import { useCallback, useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { ComponentType } from "preact";
import { Cluster } from "./cluster";
import { PageContext, useParts, type Question } from "./context";
import { Confirmation, Help } from "./dialogs";
import { count } from "./format";
import { Server } from "./requests";
import { formatRoute, parseRoute, tokenOf, VIEWS, type Route, type View } from "./route";
import { Search } from "./search";
import { follow, type Link } from "./stream";
import { setTheme, theme, type Theme } from "./theme";
import { TokenForm } from "./token_form";
import { Create } from "./views/create";
import { Nodes } from "./views/nodes";
import { Throughput } from "./views/throughput";
import { Pod } from "./views/pod";
import { Queue } from "./views/queue";

const TOKEN = "kuberth-token";
const SHOWN: Record<View, { name: string; Component: ComponentType }> = {
  nodes: { name: "Nodes", Component: Nodes },
  queue: { name: "Queue", Component: Queue },
  throughput: { name: "Throughput", Component: Throughput },
  pod: { name: "Pod", Component: Pod },
  create: { name: "Create", Component: Create },
};

/** The token of the address is taken out of it at once: addresses are kept, sent and looked at. */
function takeToken(): string {
  const given = tokenOf(location.hash);
  if (given !== null) {
    sessionStorage.setItem(TOKEN, given);
    history.replaceState(null, "", `${location.pathname}${location.search}#/nodes`);
  }
  return sessionStorage.getItem(TOKEN) ?? "";
}

export function App() {
  const [token, setToken] = useState(takeToken);
  const [refusal, setRefusal] = useState("");

  useEffect(() => {
    // A link pasted into the same tab changes the fragment alone.
    const look = () => {
      if (tokenOf(location.hash) === null) return;
      setToken(takeToken());
      setRefusal("");
    };
    window.addEventListener("hashchange", look);
    return () => window.removeEventListener("hashchange", look);
  }, []);

  const refuse = useCallback((why: string) => {
    sessionStorage.removeItem(TOKEN);
    setToken("");
    setRefusal(why);
  }, []);

  return token === "" ? (
    <TokenForm
      why={refusal}
      use={(given) => {
        sessionStorage.setItem(TOKEN, given);
        setRefusal("");
        setToken(given);
      }}
    />
  ) : (
    <Connected key={token} token={token} refuse={refuse} />
  );
}

interface Notice {
  text: string;
  kind: "done" | "failed";
  number: number;
}

function Connected({ token, refuse }: { token: string; refuse: (why: string) => void }) {
  const cluster = useMemo(() => new Cluster(), []);
  const server = useMemo(() => new Server(token, refuse), [token]);
  const [link, setLink] = useState<Link>({ state: "connecting" });
  const [route, setRoute] = useState<Route>(() => parseRoute(location.hash));
  const [help, setHelp] = useState(false);
  const [question, setQuestion] = useState<{ asked: Question; answer: (sure: boolean) => void } | null>(null);
  const [notice, setNotice] = useState<Notice | null>(null);

  useEffect(
    () =>
      follow(
        token,
        (events) => cluster.take(events),
        (next) => {
          if (next.state === "refused") refuse(next.why);
          else setLink(next);
        },
      ),
    [token],
  );
  useEffect(() => {
    const look = () => {
      if (tokenOf(location.hash) === null) setRoute(parseRoute(location.hash));
    };
    window.addEventListener("hashchange", look);
    return () => window.removeEventListener("hashchange", look);
  }, []);
  useEffect(() => {
    document.title = `${route.path.at(-1) ?? SHOWN[route.view].name} · Kuberth`;
  }, [route]);
  useKeys(route, () => setHelp(true));

  const confirm = useCallback(
    (asked: Question) =>
      new Promise<boolean>((resolve) =>
        setQuestion({
          asked,
          answer: (sure) => {
            setQuestion(null);
            resolve(sure);
          },
        }),
      ),
    [],
  );
  const notify = useCallback(
    (text: string, kind: "done" | "failed" = "done") =>
      setNotice((before) => ({ text, kind, number: (before?.number ?? 0) + 1 })),
    [],
  );
  useEffect(() => {
    if (!notice || notice.kind === "failed") return;
    const timer = setTimeout(() => setNotice(null), 6000);
    return () => clearTimeout(timer);
  }, [notice]);

  const page = useMemo(() => ({ cluster, server, route, confirm, notify }), [cluster, server, route]);
  const { Component } = SHOWN[route.view];
  return (
    <PageContext.Provider value={page}>
      <a class="skip" href="#main" onClick={(event) => focusMain(event)}>
        To the content
      </a>
      <header class="top">
        <span class="brand" aria-hidden="true">
          Kuberth
        </span>
        <Navigation cluster={cluster} view={route.view} />
        <Search server={server} />
        <ThemeSwitch />
        <button class="icon" aria-label="Keys and help" onClick={() => setHelp(true)}>
          ?
        </button>
      </header>
      <main id="main" tabIndex={-1} data-link={link.state}>
        <Component />
      </main>
      <StatusLine cluster={cluster} link={link} />
      <div class="notices" role="status" aria-live="polite">
        {notice && (
          <div class={`notice ${notice.kind}`} key={notice.number}>
            <span>{notice.text}</span>
            <button class="plain" aria-label="Dismiss" onClick={() => setNotice(null)}>
              ✕
            </button>
          </div>
        )}
      </div>
      {help && <Help close={() => setHelp(false)} />}
      {question && <Confirmation question={question.asked} answer={question.answer} />}
    </PageContext.Provider>
  );
}

function focusMain(event: Event): void {
  event.preventDefault();
  document.getElementById("main")?.focus();
}

function Navigation({ cluster, view }: { cluster: Cluster; view: View }) {
  useParts(cluster, "hello");
  return (
    <nav aria-label="Views">
      {VIEWS.filter((name) => name !== "create" || cluster.hello?.writable !== false).map((name) => (
        <a key={name} href={formatRoute(name)} aria-current={name === view ? "page" : undefined}>
          {SHOWN[name].name}
          <kbd aria-hidden="true">{VIEWS.indexOf(name) + 1}</kbd>
        </a>
      ))}
    </nav>
  );
}

const THEMES: Record<Theme, { next: Theme; sign: string; name: string }> = {
  system: { next: "dark", sign: "◐", name: "as the system" },
  dark: { next: "light", sign: "●", name: "dark" },
  light: { next: "system", sign: "○", name: "light" },
};

function ThemeSwitch() {
  const [chosen, setChosen] = useState<Theme>(theme);
  const change = () => {
    const { next } = THEMES[theme()];
    setTheme(next);
    setChosen(next);
  };
  const latest = useRef(change);
  latest.current = change;
  useEffect(() => {
    const keyed = (event: KeyboardEvent) => {
      if (event.key === "t" && !typing(event)) latest.current();
    };
    window.addEventListener("keydown", keyed);
    return () => window.removeEventListener("keydown", keyed);
  }, []);
  const { sign, name } = THEMES[chosen];
  return (
    <button class="icon" aria-label={`Colours: ${name}; change`} title={`Colours: ${name}`} onClick={change}>
      {sign}
    </button>
  );
}

function StatusLine({ cluster, link }: { cluster: Cluster; link: Link }) {
  useParts(cluster, "hello", "members");
  const hello = cluster.hello;
  const words: Record<Link["state"], string> = {
    connecting: hello ? "reconnecting" : "connecting",
    open: "connected",
    waiting: "reconnecting",
    refused: "not authorised",
  };
  return (
    <footer class={`status ${link.state}`}>
      <span role="status">
        <span class="lamp" aria-hidden="true" />
        {words[link.state]}
      </span>
      {link.state === "waiting" && <span class="why">{link.why}</span>}
      {hello && (
        <>
          <span>{hello.cluster}</span>
          <span>{count(cluster.nodes.size)} nodes</span>
          <span class="wide">{hello.profiles.join(", ")}</span>
          <span class="wide">
            kuberth {hello.program} {hello.version}
          </span>
          {!hello.writable && <span>read-only</span>}
        </>
      )}
    </footer>
  );
}

function typing(event: KeyboardEvent): boolean {
  const target = event.target;
  return (
    event.altKey ||
    event.ctrlKey ||
    event.metaKey ||
    document.querySelector("dialog[open]") !== null ||
    (target instanceof HTMLElement && target.matches("input, textarea, select, [contenteditable]"))
  );
}

function useKeys(route: Route, help: () => void): void {
  const latest = useRef(route);
  latest.current = route;
  useEffect(() => {
    const keyed = (event: KeyboardEvent) => {
      if (event.key === "Escape" && document.querySelector("dialog[open]") === null) {
        const { view, path, query } = latest.current;
        if (view === "nodes" && path.length > 0) location.assign(formatRoute(view, [], query));
        return;
      }
      if (typing(event)) return;
      const view = VIEWS[Number(event.key) - 1];
      if (view) {
        const tab = document.querySelector<HTMLAnchorElement>(`nav a[href="${formatRoute(view)}"]`);
        if (tab) location.assign(tab.href);
      } else if (event.key === "/") document.getElementById("search")?.focus();
      else if (event.key === "?") help();
      else return;
      event.preventDefault();
    };
    window.addEventListener("keydown", keyed);
    return () => window.removeEventListener("keydown", keyed);
  }, []);
}
