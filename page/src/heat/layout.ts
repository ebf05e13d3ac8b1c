// The layout of the heat map. In: groups of nodes and the available space. Out: the largest square cells with
// which all groups fit, and the number of columns of groups; a space that is too small grows downwards.

export interface Block {
  label: string;
  x: number;
  y: number;
  width: number;
  /** Cells in a row. */
  columns: number;
  first: number;
  size: number;
}

export interface Layout {
  cell: number;
  height: number;
  blocks: Block[];
  /** Of every node, in the order of the groups: the left upper corner of its cell. */
  xs: Float32Array;
  ys: Float32Array;
}

export const LABEL = 20;
const GAP = 14;
const LARGEST = 30;
const SMALLEST = 5;
const MOST_COLUMNS = 8;
const NARROWEST = 150;

export function layOut(groups: readonly { label: string; size: number }[], width: number, height: number): Layout {
  const room = Math.max(width, 40);
  for (let cell = LARGEST; cell >= SMALLEST; cell--) {
    for (let across = 1; across <= Math.min(MOST_COLUMNS, groups.length || 1); across++) {
      const share = Math.floor((room - GAP * (across - 1)) / across);
      if (across > 1 && share < NARROWEST) break;
      const layout = finished(placed(groups, cell, across, share), cell);
      if (layout.height <= height) return layout;
    }
  }
  return finished(placed(groups, SMALLEST, 1, room), SMALLEST);
}

function placed(
  groups: readonly { label: string; size: number }[],
  cell: number,
  across: number,
  share: number,
): Block[] {
  const blocks: Block[] = [];
  const columns = Math.max(1, Math.floor(share / cell));
  let y = 0;
  let first = 0;
  for (let start = 0; start < groups.length; start += across) {
    const shelf = groups.slice(start, start + across);
    let tallest = 0;
    for (const [index, { label, size }] of shelf.entries()) {
      blocks.push({ label, x: index * (share + GAP), y, width: share, columns, first, size });
      tallest = Math.max(tallest, Math.ceil(size / columns));
      first += size;
    }
    y += LABEL + tallest * cell + GAP;
  }
  return blocks;
}

function finished(blocks: Block[], cell: number): Layout {
  const total = blocks.reduce((sum, { size }) => sum + size, 0);
  const xs = new Float32Array(total);
  const ys = new Float32Array(total);
  for (const { x, y, columns, first, size } of blocks)
    for (let index = 0; index < size; index++) {
      xs[first + index] = x + (index % columns) * cell;
      ys[first + index] = y + LABEL + Math.floor(index / columns) * cell;
    }
  const bottoms = blocks.map(({ y, size, columns }) => y + LABEL + Math.ceil(size / columns) * cell);
  return { cell, height: Math.max(0, ...bottoms), blocks, xs, ys };
}

/** The index of the node whose cell is there; -1 if there is none. */
export function cellAt(layout: Layout, x: number, y: number): number {
  for (const block of layout.blocks) {
    const column = Math.floor((x - block.x) / layout.cell);
    const row = Math.floor((y - block.y - LABEL) / layout.cell);
    if (column < 0 || column >= block.columns || row < 0) continue;
    const index = row * block.columns + column;
    if (index < block.size) return block.first + index;
  }
  return -1;
}

/** The cell that an arrow key leads to: the next in the order, or the nearest above or below. */
export function neighbour(layout: Layout, from: number, key: string): number {
  const last = layout.xs.length - 1;
  switch (key) {
    case "ArrowLeft":
      return Math.max(0, from - 1);
    case "ArrowRight":
      return Math.min(last, from + 1);
    case "Home":
      return 0;
    case "End":
      return last;
  }
  const sign = key === "ArrowDown" ? 1 : key === "ArrowUp" ? -1 : 0;
  if (sign === 0 || from < 0) return Math.max(0, from);
  const x = layout.xs[from] ?? 0;
  const y = layout.ys[from] ?? 0;
  let best = from;
  let least = Infinity;
  for (let index = 0; index <= last; index++) {
    const down = ((layout.ys[index] ?? 0) - y) * sign;
    if (down <= 0) continue;
    const cost = down + 3 * Math.abs((layout.xs[index] ?? 0) - x);
    if (cost < least) {
      least = cost;
      best = index;
    }
  }
  return best;
}
