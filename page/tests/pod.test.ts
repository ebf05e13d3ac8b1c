import assert from "node:assert/strict";
import { test } from "node:test";
import { outcome } from "../src/views/pod";
import type { HistoryAnswer } from "../src/wire";

test("an explanation is asked for again when it would be another one", () => {
  const after = (queue: string, node = "") => outcome({ pod: { queue, node } } as HistoryAnswer);
  assert.equal(after("unschedulable"), after("backoff"), "still waiting");
  assert.equal(after("inflight", "n1"), after("active"), "has a node, but is not there yet");
  assert.notEqual(after("placed", "n1"), after("inflight", "n1"));
  assert.notEqual(after("gated"), after("active"));
});
