// Which seconds of the last ten minutes the server has recorded.
import type { ThroughputTuple } from "./wire";

export const SPAN = 600;

type Value = (row: ThroughputTuple) => number | null;

/**
 * The stretches of seconds without a record: before the first row, between rows, and for the durations the seconds
 * with attempts that no client watched. A stretch is its first and its last second.
 */
export function unrecorded(rows: readonly ThroughputTuple[], values: readonly Value[], last: number): [number, number][] {
  const stretches: [number, number][] = [];
  const add = (from: number, to: number) => {
    const before = stretches.at(-1);
    if (before && from <= before[1] + 1) before[1] = to;
    else if (to >= from) stretches.push([from, to]);
  };
  let next = last - SPAN + 1;
  for (const row of rows) {
    if (row[0] > next) add(next, row[0] - 1);
    const attempts = row[1] + row[2] + row[3];
    if (attempts > 0 && values.every((value) => value(row) === null)) add(row[0], row[0]);
    next = row[0] + 1;
  }
  return stretches;
}
