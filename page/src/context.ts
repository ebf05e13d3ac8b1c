// What every view is given: the cluster, the server, where one is, and ways to tell and to ask the person.
import { createContext } from "preact";
import { useContext, useEffect, useState } from "preact/hooks";
import type { Cluster, Part } from "./cluster";
import type { Server } from "./requests";
import type { Route } from "./route";

export interface Question {
  title: string;
  text: string;
  action: string;
}

export interface Place {
  cluster: Cluster;
  server: Server;
  route: Route;
  /** Ask before something is done that cannot be undone by a click. */
  confirm: (question: Question) => Promise<boolean>;
  tell: (text: string, kind?: "done" | "failed") => void;
}

export const PlaceContext = createContext<Place | null>(null);

export function usePlace(): Place {
  const place = useContext(PlaceContext);
  if (!place) throw new Error("outside of the page");
  return place;
}

/** Draws the caller anew when one of these parts changed; the number grows with them. */
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

/** Runs an action and tells how it went, in the server's words if it failed. */
export async function attempt(place: Place, text: string, action: () => Promise<unknown>): Promise<boolean> {
  try {
    await action();
    place.tell(text);
    return true;
  } catch (error) {
    place.tell(error instanceof Error ? error.message : String(error), "failed");
    return false;
  }
}
