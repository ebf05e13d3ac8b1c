// Dialogs: the browser's own, which keep the focus inside, close on Escape and give the focus back.
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { Question } from "./context";

function Dialog({ title, close, children }: { title: string; close: () => void; children: ComponentChildren }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const element = dialog.current;
    element?.showModal();
    return () => element?.close();
  }, []);
  return (
    <dialog ref={dialog} aria-labelledby="dialog-title" onClose={close} onClick={(event) => event.target === dialog.current && close()}>
      <h2 id="dialog-title">{title}</h2>
      {children}
    </dialog>
  );
}

export function Confirmation({ question, answer }: { question: Question; answer: (sure: boolean) => void }) {
  return (
    <Dialog title={question.title} close={() => answer(false)}>
      <p>{question.text}</p>
      <div class="actions">
        <button class="primary" onClick={() => answer(true)}>
          {question.action}
        </button>
        <button onClick={() => answer(false)}>Leave it</button>
      </div>
    </Dialog>
  );
}

const KEYS: readonly (readonly [string, string])[] = [
  ["1 – 5", "nodes, queue, throughput, pod, create"],
  ["/", "search pods and nodes; arrow keys and Enter choose"],
  ["Tab", "move to the next control"],
  ["← ↑ → ↓", "move between nodes in the heat map, or between seconds in a plot"],
  ["Enter", "open the node or pod"],
  ["Ctrl Enter", "apply the manifests under Create"],
  ["t", "switch between dark, light and the system's theme"],
  ["?", "show this help"],
  ["Esc", "close the panel or dialog"],
];

export function Help({ close }: { close: () => void }) {
  return (
    <Dialog title="Keys" close={close}>
      <table class="narrow">
        <caption class="unseen">Keyboard shortcuts</caption>
        <tbody>
          {KEYS.map(([key, text]) => (
            <tr key={key}>
              <th scope="row">
                <kbd>{key}</kbd>
              </th>
              <td>{text}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <div class="actions">
        <button onClick={close}>Close</button>
      </div>
    </Dialog>
  );
}
