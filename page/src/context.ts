// The context of every view: the cluster, the server, the route, and functions to notify and to ask the user.
import { createContext } from "preact";
import { useContext, useEffect, useState } from "preact/hooks";
import type { Cluster, Part } from "./cluster";
import { failureInWords, type Server } from "./requests";
import type { Route } from "./route";

export interface Question {
  title: string;
  text: string;
  action: string;
}

export interface Page {
  cluster: Cluster;
  server: Server;
  route: Route;
  /** Ask before something is done that cannot be undone by a click. */
  confirm: (question: Question) => Promise<boolean>;
  notify: (text: string, kind?: "done" | "failed") => void;
}

export const PageContext = createContext<Page | null>(null);

export function usePage(): Page {
  const page = useContext(PageContext);
  if (!page) throw new Error("outside of the page");
  return page;
}

/** Redraws the caller when one of these parts changed; the number grows with every change. */
export function useParts(cluster: Cluster, ...parts: Part[]): number {
  const sum = () => parts.reduce((total, part) => total + cluster.versions[part], 0);
  const [version, setVersion] = useState(sum());
  useEffect(() => {
    const look = () => setVersion(sum());
    look();
    return cluster.watch(look);
  }, [cluster]);
  return version;
}

/** The time on the server's clock, a new one every second. */
export function useNow(cluster: Cluster): number {
  const [now, setNow] = useState(cluster.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(cluster.now()), 1000);
    return () => clearInterval(timer);
  }, [cluster]);
  return now;
}

/** Runs an action and shows its result: the server's message if it failed. */
export async function attempt(page: Page, text: string, action: () => Promise<unknown>): Promise<boolean> {
  try {
    await action();
    page.notify(text);
    return true;
  } catch (error) {
    page.notify(failureInWords(error), "failed");
    return false;
  }
}
