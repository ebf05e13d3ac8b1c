import assert from "node:assert/strict";
import { test } from "node:test";
import { cellAt, layOut, neighbour } from "../src/heat/layout";

const groups = (...sizes: number[]) => sizes.map((size, index) => ({ label: `g${index}`, size }));

test("5,000 nodes fit a screen, and a phone", () => {
  for (const [width, height, least] of [
    [1240, 620, 9],
    [360, 560, 5],
  ] as const) {
    const layout = layOut(groups(1700, 1650, 1650), width, height);
    assert.ok(layout.cell >= least, `cells of ${layout.cell}`);
    assert.ok(layout.height <= height, `${layout.height} high`);
    assert.ok(Math.max(...layout.xs) + layout.cell <= width + 0.5);
  }
});

test("every cell is found where it stands, and no two stand there", () => {
  for (const sizes of [[1], [5, 0, 7], [300, 1, 1, 1, 90], Array.from({ length: 60 }, () => 3)]) {
    const layout = layOut(groups(...sizes), 700, 400);
    const total = sizes.reduce((sum, size) => sum + size, 0);
    assert.equal(layout.xs.length, total);
    for (let index = 0; index < total; index++)
      assert.equal(cellAt(layout, (layout.xs[index] ?? 0) + 1, (layout.ys[index] ?? 0) + 1), index);
    assert.equal(cellAt(layout, -5, -5), -1);
  }
});

test("arrow keys reach every cell and stop at the ends", () => {
  const layout = layOut(groups(50, 7, 33), 400, 300);
  assert.equal(neighbour(layout, 0, "ArrowLeft"), 0);
  assert.equal(neighbour(layout, 89, "ArrowRight"), 89);
  assert.equal(neighbour(layout, 5, "Home"), 0);
  assert.equal(neighbour(layout, 5, "End"), 89);
  let at = 0;
  for (let step = 0; step < 100; step++) at = neighbour(layout, at, "ArrowDown");
  assert.equal(layout.ys[at], Math.max(...layout.ys), "down leads to the last row");
  for (let step = 0; step < 100; step++) at = neighbour(layout, at, "ArrowUp");
  assert.equal(layout.ys[at], Math.min(...layout.ys), "and up to the first");
});

test("no room and nobody are no trouble", () => {
  assert.equal(layOut([], 0, 0).xs.length, 0);
  assert.equal(layOut(groups(10), 0, 0).xs.length, 10);
});
