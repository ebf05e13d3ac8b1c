import assert from "node:assert/strict";
import { test } from "node:test";
import { unrecorded } from "../src/recorded";
import type { ThroughputTuple } from "../src/wire";

const row = (t: number, attempts: number, p50: number | null): ThroughputTuple => [t, attempts, 0, 0, p50, p50, 0];

test("what is not recorded is known", () => {
  const rows = [row(1000, 0, null), row(1001, 2, 0.5), row(1005, 3, null), row(1006, 1, null)];
  const attempts = unrecorded(rows, [([, scheduled]) => scheduled], 1006);
  assert.deepEqual(attempts, [
    [407, 999],
    [1002, 1004],
  ]);
  const durations = unrecorded(rows, [(row) => row[4], (row) => row[5]], 1006);
  assert.deepEqual(durations, [
    [407, 999],
    [1002, 1006],
  ]);
  const whole = Array.from({ length: 600 }, (_, second) => row(second, 0, null));
  assert.deepEqual(unrecorded(whole, [(row) => row[4]], 599), [], "nothing to record is no gap");
});
