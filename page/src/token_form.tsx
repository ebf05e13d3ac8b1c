// The form for a token, shown when there is none or the server refuses it.
import { useState } from "preact/hooks";

export function TokenForm({ why, use }: { why: string; use: (token: string) => void }) {
  const [text, setText] = useState("");
  return (
    <main class="login">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (text.trim()) use(text.trim());
        }}
      >
        <h1>Kuberth</h1>
        {why && (
          <p class="problem" role="alert">
            {why}
          </p>
        )}
        <label for="token">Token</label>
        <input
          id="token"
          type="password"
          autocomplete="off"
          spellcheck={false}
          required
          autofocus
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
        <button class="primary">Open</button>
        <p class="dim">
          <code>kuberth up</code> prints a link that has it, and keeps it in <code>pki/token</code> of its data folder. For{" "}
          <code>kuberth run --page</code> use that of a service account which may <code>get</code> the paths <code>/ui/*</code> and{" "}
          <code>/explain</code>:{" "}
          <code>kubectl create token NAME</code>. It stays in this tab and goes with it.
        </p>
      </form>
    </main>
  );
}
