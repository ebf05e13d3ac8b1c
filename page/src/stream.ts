// Follows /ui/stream until it is stopped: connects, reads, and connects again after a pause that doubles, because
// servers restart and laptops sleep. It uses fetch because EventSource cannot send a bearer token.
import { EventReader, type ServerEvent } from "./sse";
import { failureInWords, messageOf, withToken } from "./requests";

export type Link =
  | { state: "connecting" }
  | { state: "open" }
  | { state: "waiting"; seconds: number; why: string }
  | { state: "refused"; why: string };

const FIRST_PAUSE = 0.5;
const LONGEST_PAUSE = 10;
/** The server says something every 15 seconds; after this long it is gone without having said so. */
const SILENCE = 45;

export function follow(
  token: string,
  take: (events: ServerEvent[]) => void,
  report: (link: Link) => void,
): () => void {
  const ended = new AbortController();
  void (async () => {
    let pause = FIRST_PAUSE;
    while (!ended.signal.aborted) {
      report({ state: "connecting" });
      const why = await once(token, ended.signal, take, () => {
        pause = FIRST_PAUSE;
        report({ state: "open" });
      });
      if (ended.signal.aborted) return;
      if (why.refused) {
        report({ state: "refused", why: why.text });
        return;
      }
      // A random pause, so that not all pages connect at once to a server that is back.
      const seconds = pause * (0.75 + Math.random() / 2);
      report({ state: "waiting", seconds, why: why.text });
      await sleep(seconds, ended.signal);
      pause = Math.min(pause * 2, LONGEST_PAUSE);
    }
  })();
  return () => ended.abort();
}

async function once(
  token: string,
  ended: AbortSignal,
  take: (events: ServerEvent[]) => void,
  opened: () => void,
): Promise<{ refused: boolean; text: string }> {
  const attempt = new AbortController();
  const giveUp = () => attempt.abort();
  ended.addEventListener("abort", giveUp);
  let silence = setTimeout(giveUp, SILENCE * 1000);
  try {
    const response = await fetch("/ui/stream", {
      ...withToken(token),
      signal: attempt.signal,
      cache: "no-store",
    });
    if (response.status === 401 || response.status === 403)
      return { refused: true, text: await messageOf(response) };
    if (!response.ok || response.body === null) return { refused: false, text: await messageOf(response) };
    opened();
    const events = new EventReader();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return { refused: false, text: "the server closed the stream" };
      clearTimeout(silence);
      silence = setTimeout(giveUp, SILENCE * 1000);
      take(events.read(value));
    }
  } catch (error) {
    return { refused: false, text: attempt.signal.aborted ? "the server fell silent" : failureInWords(error) };
  } finally {
    clearTimeout(silence);
    ended.removeEventListener("abort", giveUp);
    attempt.abort();
  }
}

function sleep(seconds: number, ended: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      window.removeEventListener("online", done);
      ended.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, seconds * 1000);
    // Back from sleep or from the tunnel: at once.
    window.addEventListener("online", done);
    ended.addEventListener("abort", done);
  });
}
