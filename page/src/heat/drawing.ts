// Draws the heat map on a canvas: a colour for utilization, and a pattern for nodes with problems.
import type { NodeRow } from "../cluster";
import { amount, count, percent } from "../format";
import { CORDONED, NOT_READY, TAINTED } from "../wire";
import { LABEL, type Layout } from "./layout";

/** From navy to pale yellow in even steps of lightness: the same order to every kind of eye, and in print. */
const RAMP: readonly (readonly [number, number, number])[] = [
  [34, 48, 92],
  [36, 66, 122],
  [33, 97, 148],
  [38, 132, 167],
  [66, 165, 178],
  [122, 195, 183],
  [180, 219, 185],
  [234, 239, 192],
];
export const STEPS = 48;

/** More is further from the background, on dark and on light. */
export function ramp(dark: boolean): string[] {
  return Array.from({ length: STEPS }, (_, step) => {
    const share = step / (STEPS - 1);
    const at = (dark ? share : 1 - share) * (RAMP.length - 1);
    const low = RAMP[Math.floor(at)] ?? [0, 0, 0];
    const high = RAMP[Math.ceil(at)] ?? [0, 0, 0];
    const mixed = [0, 1, 2].map((index) => {
      const [a, b] = [low[index] ?? 0, high[index] ?? 0];
      return Math.round(a + (b - a) * (at % 1));
    });
    return `rgb(${mixed.join(",")})`;
  });
}

export interface Palette {
  ramp: string[];
  text: string;
  faint: string;
  mark: string;
  halo: string;
  font: string;
}

export function palette(element: Element): Palette {
  const style = getComputedStyle(element);
  const variable = (name: string) => style.getPropertyValue(name).trim();
  return {
    ramp: ramp(variable("--scheme") === "dark"),
    text: variable("--text"),
    faint: variable("--line"),
    mark: variable("--mark"),
    halo: variable("--ground"),
    font: `12px ${style.fontFamily}`,
  };
}

/** How much of a resource is taken; null on a node that has none of it. */
export function fullness(node: NodeRow, column: number): number | null {
  const has = node.allocatable[column] ?? 0;
  return has > 0 ? (node.requested[column] ?? 0) / has : null;
}

export function marks(flags: number): string[] {
  return [
    ...(flags & NOT_READY ? ["not ready"] : []),
    ...(flags & CORDONED ? ["cordoned"] : []),
    ...(flags & TAINTED ? ["tainted"] : []),
  ];
}

export function describe(node: NodeRow, column: number, resource: string): string {
  const full = fullness(node, column);
  const used =
    full === null
      ? `no ${resource}`
      : `${resource} ${percent(full)}, ${amount(resource, node.requested[column] ?? 0)} of ${amount(resource, node.allocatable[column] ?? 0)}`;
  return [node.name, used, ...marks(node.flags)].join(", ");
}

export function totals(nodes: Iterable<NodeRow>, column: number): { has: number; taken: number } {
  let has = 0;
  let taken = 0;
  for (const node of nodes) {
    has += node.allocatable[column] ?? 0;
    taken += node.requested[column] ?? 0;
  }
  return { has, taken };
}

export function draw(
  context: CanvasRenderingContext2D,
  layout: Layout,
  nodes: readonly NodeRow[],
  column: number,
  colours: Palette,
): void {
  const { cell, xs, ys } = layout;
  const inner = cell - (cell > 9 ? 2 : 1);
  context.clearRect(0, 0, context.canvas.width, context.canvas.height);

  // A colour is set once for all cells that have it.
  const steps: number[][] = Array.from({ length: STEPS }, () => []);
  const empty: number[] = [];
  const marked: number[] = [];
  for (const [index, node] of nodes.entries()) {
    const full = fullness(node, column);
    if (full === null) empty.push(index);
    else steps[Math.min(STEPS - 1, Math.max(0, Math.round(full * (STEPS - 1))))]?.push(index);
    if (node.flags) marked.push(index);
  }
  for (const [step, cells] of steps.entries()) {
    if (cells.length === 0) continue;
    context.fillStyle = colours.ramp[step] ?? "";
    for (const index of cells) context.fillRect(xs[index] ?? 0, ys[index] ?? 0, inner, inner);
  }
  context.strokeStyle = colours.faint;
  context.lineWidth = 1;
  for (const index of empty) context.strokeRect((xs[index] ?? 0) + 0.5, (ys[index] ?? 0) + 0.5, inner - 1, inner - 1);
  for (const index of marked)
    drawMark(context, xs[index] ?? 0, ys[index] ?? 0, inner, nodes[index]?.flags ?? 0, colours);

  context.font = colours.font;
  context.textBaseline = "middle";
  context.fillStyle = colours.text;
  for (const block of layout.blocks) {
    const { has, taken } = totals(nodes.slice(block.first, block.first + block.size), column);
    const figures = `${count(block.size)}${has > 0 ? ` · ${percent(taken / has)}` : ""}`;
    const middle = block.y + LABEL / 2 - 1;
    const width = context.measureText(figures).width;
    const label = shortened(context, block.label, block.width - width - 10);
    context.fillText(label, block.x, middle);
    context.fillText(figures, block.x + context.measureText(label).width + 10, middle);
  }
}

/** Not ready: a cross. Cordoned: a bar across. Tainted: a corner cut off. On a halo, so that any colour shows it. */
export function drawMark(
  context: CanvasRenderingContext2D,
  x: number,
  y: number,
  size: number,
  flags: number,
  colours: Palette,
): void {
  if (flags & TAINTED) {
    const cut = Math.max(3, size * 0.42);
    context.fillStyle = colours.halo;
    context.beginPath();
    context.moveTo(x + size - cut, y);
    context.lineTo(x + size, y);
    context.lineTo(x + size, y + cut);
    context.fill();
  }
  const lines: [number, number, number, number][] = [];
  const inset = size > 9 ? 3 : 1;
  const [left, top, right, low] = [x + inset, y + inset, x + size - inset, y + size - inset];
  if (flags & NOT_READY) lines.push([left, top, right, low], [left, low, right, top]);
  if (flags & CORDONED) lines.push([left, (top + low) / 2, right, (top + low) / 2]);
  for (const [style, width] of [
    [colours.halo, size > 9 ? 4 : 2.5],
    [colours.mark, size > 9 ? 2 : 1.25],
  ] as const) {
    context.strokeStyle = style;
    context.lineWidth = width;
    context.lineCap = "round";
    context.beginPath();
    for (const [x1, y1, x2, y2] of lines) {
      context.moveTo(x1, y1);
      context.lineTo(x2, y2);
    }
    context.stroke();
  }
}

function shortened(context: CanvasRenderingContext2D, text: string, width: number): string {
  if (context.measureText(text).width <= width) return text;
  let kept = text;
  while (kept.length > 1 && context.measureText(`${kept}…`).width > width) kept = kept.slice(0, -1);
  return `${kept}…`;
}
