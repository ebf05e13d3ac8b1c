// The heat map as a component: pointer, arrow keys, and a text for screen readers.
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { NodeRow } from "../cluster";
import { amount, percent } from "../format";
import { describe, draw, drawMark, fullness, marks, palette, type Palette } from "./drawing";
import { cellAt, layOut, neighbour } from "./layout";
import { CORDONED, NOT_READY, TAINTED } from "../wire";
import { useDarkness } from "../theme";

export interface Group {
  label: string;
  nodes: NodeRow[];
}

export function HeatMap({
  groups,
  column,
  resource,
  open,
}: {
  groups: Group[];
  column: number;
  resource: string;
  open: (name: string) => void;
}) {
  const frame = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const [space, setSpace] = useState({ width: 0, height: 0 });
  const [at, setAt] = useState(-1);
  const [pointed, setPointed] = useState(false);
  const walked = useRef(0);
  const dark = useDarkness();

  useLayoutEffect(() => {
    const element = frame.current;
    if (!element) return;
    const measure = () => setSpace({ width: element.clientWidth, height: element.clientHeight });
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, []);

  const shape = groups.map(({ label, nodes }) => `${label}\u0000${nodes.length}`).join("\u0001");
  const layout = useMemo(
    () => layOut(groups.map(({ label, nodes }) => ({ label, size: nodes.length })), space.width, space.height),
    [shape, space.width, space.height],
  );
  const nodes = useMemo(() => groups.flatMap((group) => group.nodes), [groups]);

  useEffect(() => {
    const element = canvas.current;
    const context = element?.getContext("2d");
    if (!element || !context || space.width === 0) return;
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [Math.round(space.width * ratio), Math.round(Math.max(layout.height, 1) * ratio)];
    if (element.width !== width || element.height !== height) {
      element.width = width;
      element.height = height;
    }
    element.style.width = `${space.width}px`;
    element.style.height = `${layout.height}px`;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    draw(context, layout, nodes, column, palette(element));
  }, [layout, nodes, column, space.width, dark]);

  const chosen = nodes[at];
  const corner = { x: layout.xs[at] ?? 0, y: layout.ys[at] ?? 0 };

  function keyed(event: KeyboardEvent) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "Enter" || event.key === " ") {
      if (chosen) open(chosen.name);
    } else if (/^(Arrow|Home|End)/.test(event.key)) {
      const next = at < 0 ? 0 : neighbour(layout, at, event.key);
      setPointed(false);
      setAt(next);
      walked.current = next;
      const y = layout.ys[next] ?? 0;
      const box = frame.current;
      if (box && (y < box.scrollTop || y + layout.cell > box.scrollTop + box.clientHeight))
        box.scrollTop = y - box.clientHeight / 2;
    } else return;
    event.preventDefault();
  }

  function where(event: MouseEvent): number {
    const box = canvas.current?.getBoundingClientRect();
    return box ? cellAt(layout, event.clientX - box.left, event.clientY - box.top) : -1;
  }

  return (
    <div
      class="heat"
      ref={frame}
      tabIndex={0}
      role="application"
      aria-roledescription="heat map"
      aria-label={`Heat map of ${nodes.length} nodes by ${resource}. Arrow keys go from node to node, Enter opens one.`}
      aria-describedby="heat-current"
      onKeyDown={keyed}
      onFocus={() => at < 0 && !pointed && setAt(Math.min(walked.current, nodes.length - 1))}
      onBlur={() => setAt(-1)}
      onMouseMove={(event) => {
        setPointed(true);
        setAt(where(event));
      }}
      onMouseLeave={() => setAt(-1)}
      onClick={(event) => {
        const node = nodes[where(event)];
        if (node) open(node.name);
      }}
    >
      <canvas ref={canvas} aria-hidden="true" />
      {chosen && (
        <>
          <div
            class="heat-cursor"
            style={{
              transform: `translate(${corner.x - 2}px, ${corner.y - 2}px)`,
              width: `${layout.cell + 3}px`,
              height: `${layout.cell + 3}px`,
            }}
          />
          <Tip node={chosen} column={column} resource={resource} {...corner} cell={layout.cell} space={space} />
        </>
      )}
      <div id="heat-current" class="unseen" aria-live="polite">
        {chosen && !pointed ? describe(chosen, column, resource) : ""}
      </div>
    </div>
  );
}

const TIP_WIDTH = 250;

function Tip({
  node,
  column,
  resource,
  x,
  y,
  cell,
  space,
}: {
  node: NodeRow;
  column: number;
  resource: string;
  x: number;
  y: number;
  cell: number;
  space: { width: number };
}) {
  const full = fullness(node, column);
  const left = Math.max(0, Math.min(x, space.width - TIP_WIDTH));
  const troubles = marks(node.flags);
  return (
    <div class="tip" style={{ transform: `translate(${left}px, ${y + cell + 6}px)` }} aria-hidden="true">
      <b>{node.name}</b>
      <span>
        {full === null
          ? `no ${resource}`
          : `${percent(full)} · ${amount(resource, node.requested[column] ?? 0)} of ${amount(resource, node.allocatable[column] ?? 0)}`}
      </span>
      {(node.zone || node.pool) && <span>{[node.zone, node.pool].filter(Boolean).join(" · ")}</span>}
      {troubles.length > 0 && <span class="trouble">{troubles.join(", ")}</span>}
    </div>
  );
}

const LEGEND_MARKS: readonly (readonly [number, string])[] = [
  [NOT_READY, "not ready"],
  [CORDONED, "cordoned"],
  [TAINTED, "tainted"],
];

export function Legend({ resource }: { resource: string }) {
  const dark = useDarkness();
  return (
    <div class="legend" aria-hidden="true">
      <span>{resource} 0 %</span>
      <Swatch key={`ramp ${dark}`} width={120} paint={paintRamp} />
      <span>100 %</span>
      {LEGEND_MARKS.map(([flag, text]) => (
        <span class="legend-mark" key={`${text} ${dark}`}>
          <Swatch width={14} paint={(context, colours) => paintMark(context, colours, flag)} />
          {text}
        </span>
      ))}
      <span class="legend-mark">
        <span class="hollow" />
        has none
      </span>
    </div>
  );
}

function paintRamp(context: CanvasRenderingContext2D, colours: Palette): void {
  for (const [step, colour] of colours.ramp.entries()) {
    context.fillStyle = colour;
    context.fillRect((step * 120) / colours.ramp.length, 0, 120 / colours.ramp.length + 1, 14);
  }
}

function paintMark(context: CanvasRenderingContext2D, colours: Palette, flag: number): void {
  context.fillStyle = colours.ramp[Math.floor(colours.ramp.length / 2)] ?? "";
  context.fillRect(0, 0, 14, 14);
  drawMark(context, 0, 0, 14, flag, colours);
}

function Swatch({
  width,
  paint,
}: {
  width: number;
  paint: (context: CanvasRenderingContext2D, colours: Palette) => void;
}) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const element = canvas.current;
    const context = element?.getContext("2d");
    if (!element || !context) return;
    const ratio = window.devicePixelRatio || 1;
    element.width = width * ratio;
    element.height = 14 * ratio;
    element.style.width = `${width}px`;
    element.style.height = "14px";
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    paint(context, palette(element));
  }, []);
  return <canvas ref={canvas} />;
}
