import assert from "node:assert/strict";
import { test } from "node:test";
import { age, amount, inWords, listed, milliseconds, resultInWords } from "../src/format";

test("amounts in the units of their resource", () => {
  assert.equal(amount("cpu", 0.25), "0.25");
  assert.equal(amount("cpu", 3.999), "4");
  assert.equal(amount("memory", 1.5 * 2 ** 30), "1.5 GiB");
  assert.equal(amount("memory", 1023), "1,023 B");
  assert.equal(amount("ephemeral-storage", 2 ** 40), "1 TiB");
  assert.equal(amount("nvidia.com/gpu", 40000), "40,000");
});

test("times and lists", () => {
  assert.deepEqual([-1, 59.9, 100, 7200, 400_000].map(age), ["0 s", "59 s", "1 min", "2 h", "4 d"]);
  assert.equal(milliseconds(null), "–");
  assert.equal(listed(["a", "b", "c"], 2), "a, b and 1 more");
});

test("reasons in words", () => {
  const words = (reason: string, queue: "gated" | "unschedulable" = "unschedulable") =>
    inWords({ queue, reason, held: [] }, 0);
  assert.equal(words("NodeResourcesFit, TaintToleration"), "not enough free resources, taints it does not tolerate");
  assert.equal(words("MyPlugin"), "MyPlugin");
  assert.equal(words("example.com/wait", "gated"), "gate example.com/wait");
  assert.equal(words(""), "");
  assert.equal(inWords({ queue: "permit", reason: "Hold", held: [["Hold", 100, 160]] }, 105), "Hold holds it: 5 s of 60 s");
  assert.deepEqual(["scheduled", "unschedulable", "error"].map(resultInWords), ["scheduled", "no node fits", "failed with an error"]);
});
