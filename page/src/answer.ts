// An answer of the server as the state of a component: requested when the path changes, and again on demand.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { Refusal, failureInWords, type Server } from "./requests";

export interface Answered<T> {
  answer: T | null;
  error: string;
  pending: boolean;
  again: () => void;
}

export function useAnswer<T>(server: Server, path: string | null): Answered<T> {
  const [state, setState] = useState<{ path: string | null; answer: T | null; error: string; pending: boolean }>({
    path: null,
    answer: null,
    error: "",
    pending: false,
  });
  const running = useRef<AbortController | null>(null);

  const load = useCallback(() => {
    if (path === null) return;
    running.current?.abort();
    const mine = new AbortController();
    running.current = mine;
    setState((before) => ({
      path,
      answer: before.path === path ? before.answer : null,
      error: before.path === path ? before.error : "",
      pending: true,
    }));
    server
      .request<T>(path, { signal: mine.signal })
      .then((answer) => setState({ path, answer, error: "", pending: false }))
      .catch((error: unknown) => {
        if (mine.signal.aborted) return;
        const text = failureInWords(error);
        // An object that is gone is no longer shown; after a failed request the last answer stays.
        const gone = error instanceof Refusal && error.status === 404;
        setState((before) => ({ ...before, answer: gone ? null : before.answer, error: text, pending: false }));
      });
  }, [server, path]);

  useEffect(() => {
    load();
    return () => running.current?.abort();
  }, [load]);

  const current = state.path === path;
  return {
    answer: current ? state.answer : null,
    error: current ? state.error : "",
    pending: state.pending || !current,
    again: load,
  };
}
