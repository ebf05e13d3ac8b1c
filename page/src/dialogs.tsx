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
  ["1 – 5", "nodes, queue, pace, pod, create"],
  ["/", "search pods and nodes; arrow keys and Enter choose"],
  ["Tab", "to the next control"],
  ["← ↑ → ↓", "in the heat map from node to node, in a plot from second to second"],
  ["Enter", "opens the node or pod"],
  ["Ctrl Enter", "applies what was pasted under Create"],
  ["t", "dark, light, or as the system has it"],
  ["?", "this help"],
  ["Esc", "closes what is open"],
];

export function Help({ close }: { close: () => void }) {
  return (
    <Dialog title="Keys" close={close}>
      <table class="narrow">
        <caption class="unseen">Keys and what they do</caption>
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
