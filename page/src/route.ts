// The current view, in the fragment of the address: `#/pod/default/web`, `#/nodes?resource=memory`.

export const VIEWS = ["nodes", "queue", "throughput", "pod", "create"] as const;
export type View = (typeof VIEWS)[number];

export interface Route {
  view: View;
  path: string[];
  query: Record<string, string>;
}

export function parseRoute(hash: string): Route {
  const [place = "", search = ""] = split(hash.replace(/^#\/?/, ""), "?");
  const [view = "", ...path] = place.split("/").filter(Boolean).map(decoded);
  return {
    view: (VIEWS as readonly string[]).includes(view) ? (view as View) : "nodes",
    path,
    query: Object.fromEntries(new URLSearchParams(search)),
  };
}

export function formatRoute(view: View, path: string[] = [], query: Record<string, string> = {}): string {
  const given = Object.entries(query).filter(([, value]) => value !== "");
  const search = new URLSearchParams(given).toString();
  return `#/${[view, ...path.map(encodeURIComponent)].join("/")}${search ? `?${search}` : ""}`;
}

/** The token of a link that logs in, if this is one. */
export function tokenOf(hash: string): string | null {
  return new URLSearchParams(hash.replace(/^#/, "")).get("token");
}

export const podLink = (namespace: string, name: string): string => formatRoute("pod", [namespace, name]);
export const nodeLink = (name: string, query: Record<string, string> = {}): string =>
  formatRoute("nodes", [name], query);

function split(text: string, mark: string): [string, string] {
  const at = text.indexOf(mark);
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part; // a stray % is itself
  }
}
