import assert from "node:assert/strict";
import { test } from "node:test";
import { preemptionInWords } from "../src/views/explained";
import { outcome } from "../src/views/pod";
import type { HistoryAnswer } from "../src/wire";

test("an explanation is asked for again when it would be another one", () => {
  const after = (queue: string, node = "") => outcome({ pod: { queue, node } } as HistoryAnswer);
  assert.equal(after("unschedulable"), after("backoff"), "still pending");
  assert.equal(after("inflight", "n1"), after("active"), "has a node, but is not there yet");
  assert.notEqual(after("placed", "n1"), after("inflight", "n1"));
  assert.notEqual(after("gated"), after("active"));
});

test("preemption in words", () => {
  assert.equal(preemptionInWords({ nominatedNode: "n1", victims: ["a/b"] }), "would evict a/b from n1");
  assert.equal(
    preemptionInWords({ nominatedNode: "n1", victims: [] }),
    "would clear n1 without evicting more pods: some terminate already",
  );
  assert.equal(
    preemptionInWords({ nodesThatCouldHelp: 2, nodesBeyondHelp: 1 }),
    "does not help: on 2 nodes evicting pods of lower priority does not suffice, on 1 node no eviction helps",
  );
  assert.equal(preemptionInWords({ message: "not eligible due to preemptionPolicy=Never." }), "not eligible due to preemptionPolicy=Never.");
});
