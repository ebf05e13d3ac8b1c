// Throughput: attempts per second, their durations, and the number of pending pods, over the last ten minutes.
import { useEffect, useRef, useState } from "preact/hooks";
import { useParts, usePage } from "../context";
import { count, milliseconds, timeOfDay } from "../format";
import { SPAN, unrecorded } from "../recorded";
import { useDarkness } from "../theme";
import type { ThroughputTuple } from "../wire";

interface Line {
  name: string;
  /** The variable of the style sheet that has its colour. */
  colour: string;
  dash: number[];
  value: (row: ThroughputTuple) => number | null;
}

const LINES = {
  scheduled: { name: "scheduled", colour: "--line-1", dash: [], value: (row: ThroughputTuple) => row[1] },
  unschedulable: { name: "unschedulable", colour: "--line-2", dash: [5, 3], value: (row: ThroughputTuple) => row[2] },
  error: { name: "error", colour: "--line-3", dash: [1, 3], value: (row: ThroughputTuple) => row[3] },
  p50: { name: "p50", colour: "--line-1", dash: [], value: (row: ThroughputTuple) => row[4] },
  p99: { name: "p99", colour: "--line-2", dash: [5, 3], value: (row: ThroughputTuple) => row[5] },
  pending: { name: "pending", colour: "--line-1", dash: [], value: (row: ThroughputTuple) => row[6] },
} satisfies Record<string, Line>;

const PLOTS: readonly { title: string; unit: string; lines: Line[]; show: (value: number | null) => string }[] = [
  {
    title: "Attempts per second",
    unit: "",
    lines: [LINES.scheduled, LINES.unschedulable, LINES.error],
    show: (value) => (value === null ? "–" : count(value)),
  },
  { title: "Duration of an attempt", unit: " ms", lines: [LINES.p50, LINES.p99], show: milliseconds },
  {
    title: "Pending pods",
    unit: "",
    lines: [LINES.pending],
    show: (value) => (value === null ? "–" : count(value)),
  },
];

export function Throughput() {
  const { cluster } = usePage();
  useParts(cluster, "throughput", "hello");
  // One crosshair through all plots: seconds before the end, null for none.
  const [back, setBack] = useState<number | null>(null);
  const rows = cluster.throughput;
  return (
    <section class="view throughput" aria-labelledby="view-title">
      <div class="bar">
        <h1 id="view-title">Throughput</h1>
        <p class="summary">the last ten minutes, a value a second</p>
      </div>
      {PLOTS.map((plot) => (
        <Plot key={plot.title} {...plot} rows={rows} back={back} point={setBack} />
      ))}
      <details>
        <summary>The last minute as a table</summary>
        <div class="scroll">
          <table>
            <caption class="unseen">One row per second, the latest first</caption>
            <thead>
              <tr>
                <th scope="col">Time</th>
                {Object.values(LINES).map(({ name }) => (
                  <th scope="col" key={name}>
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {rows
                .slice(-60)
                .reverse()
                .map((row) => (
                  <tr key={row[0]}>
                    <th scope="row">{timeOfDay(row[0])}</th>
                    {PLOTS.flatMap(({ lines, show }) =>
                      lines.map(({ name, value }) => (
                        <td class="number" key={name}>
                          {show(value(row))}
                        </td>
                      )),
                    )}
                  </tr>
                ))}
            </tbody>
          </table>
        </div>
      </details>
    </section>
  );
}

const tick = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const PAD = { left: 52, right: 8, top: 8, bottom: 18 };

function Plot({
  title,
  unit,
  lines,
  show,
  rows,
  back,
  point,
}: {
  title: string;
  unit: string;
  lines: Line[];
  show: (value: number | null) => string;
  rows: readonly ThroughputTuple[];
  back: number | null;
  point: (back: number | null) => void;
}) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  useDarkness(); // redrawn when the theme changes
  const last = rows.at(-1)?.[0] ?? 0;
  const at = back === null ? rows.at(-1) : rows.find(([t]) => t === last - back);
  const missing = rows.length > 0 ? unrecorded(rows, lines.map(({ value }) => value), last) : [];
  const moment = at ?? (back === null ? undefined : [last - back]);

  useEffect(() => {
    const element = canvas.current;
    if (!element) return;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    setWidth(element.clientWidth);
    return () => observer.disconnect();
  }, []);

  useEffect(() => {
    if (canvas.current && width > 0) drawPlot(canvas.current, width, rows, lines, unit, last, back, missing);
  });

  const pointAt = (event: MouseEvent) => {
    const box = canvas.current?.getBoundingClientRect();
    if (!box) return;
    const share = (event.clientX - box.left - PAD.left) / (box.width - PAD.left - PAD.right);
    point(share < 0 || share > 1 ? null : Math.round((1 - share) * (SPAN - 1)));
  };

  function keyed(event: KeyboardEvent) {
    const step = event.key === "ArrowLeft" ? 1 : event.key === "ArrowRight" ? -1 : 0;
    if (step === 0) return;
    event.preventDefault();
    point(Math.max(0, Math.min(SPAN - 1, (back ?? 0) + step * (event.shiftKey ? 30 : 1))));
  }

  return (
    <figure>
      <figcaption>
        <h2>{title}</h2>
        <dl>
          {lines.map((line) => (
            <div key={line.name}>
              <dt class={`key ${line.colour.slice(2)}`}>{line.name}</dt>
              <dd>{at ? show(line.value(at)) : "–"}</dd>
              <dd class="dim">most {show(most(rows, line))}</dd>
            </div>
          ))}
          <div class="moment">
            <dt class="unseen">at</dt>
            <dd class="dim">{moment ? `${timeOfDay(moment[0] ?? 0)}${at ? "" : ", not recorded"}` : ""}</dd>
          </div>
        </dl>
      </figcaption>
      <canvas
        ref={canvas}
        tabIndex={0}
        role="img"
        aria-label={`${title} over ten minutes. ${lines.map((line) => `${line.name} ${at ? show(line.value(at)) : "unknown"}`).join(", ")}. ${missing.length > 0 ? `Not recorded: ${missing.map(([from, to]) => `${timeOfDay(from)} to ${timeOfDay(to)}`).join(", ")}. ` : ""}Left and right read earlier seconds.`}
        onMouseMove={pointAt}
        onMouseLeave={() => point(null)}
        onBlur={() => point(null)}
        onKeyDown={keyed}
      />
    </figure>
  );
}

function most(rows: readonly ThroughputTuple[], line: Line): number | null {
  let found: number | null = null;
  for (const row of rows) {
    const value = line.value(row);
    if (value !== null && (found === null || value > found)) found = value;
  }
  return found;
}

/** A round number not below: half of it is round too. */
export function niceCeiling(value: number): number {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 3, 4, 5, 6, 8, 10].map((step) => step * power).find((step) => step >= value) ?? value;
}

function drawPlot(
  canvas: HTMLCanvasElement,
  width: number,
  rows: readonly ThroughputTuple[],
  lines: Line[],
  unit: string,
  last: number,
  back: number | null,
  missing: readonly [number, number][],
): void {
  const context = canvas.getContext("2d");
  if (!context) return;
  const height = canvas.clientHeight;
  const ratio = window.devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  const style = getComputedStyle(canvas);
  const variable = (name: string) => style.getPropertyValue(name).trim();
  const top = niceCeiling(Math.max(0, ...lines.map((line) => most(rows, line) ?? 0)));
  const x = (t: number) => PAD.left + (1 - (last - t) / (SPAN - 1)) * (width - PAD.left - PAD.right);
  const y = (value: number) => height - PAD.bottom - (value / top) * (height - PAD.top - PAD.bottom);

  context.font = `11px ${style.fontFamily}`;
  context.fillStyle = variable("--dim");
  context.strokeStyle = variable("--line");
  context.lineWidth = 1;
  context.textBaseline = "middle";
  context.textAlign = "right";
  for (const share of [0, 0.5, 1]) {
    const level = Math.round(y(top * share)) + 0.5;
    context.beginPath();
    context.moveTo(PAD.left, level);
    context.lineTo(width - PAD.right, level);
    context.stroke();
    context.fillText(`${tick.format(top * share)}${unit}`, PAD.left - 6, level);
  }
  context.textBaseline = "alphabetic";
  for (const minutes of width < 600 ? [10, 5, 0] : [10, 8, 6, 4, 2, 0]) {
    context.textAlign = minutes === 0 ? "right" : minutes === 10 ? "left" : "center";
    context.fillText(minutes === 0 ? "now" : `−${minutes} min`, x(last - Math.min(SPAN - 1, minutes * 60)), height - 4);
  }
  context.textBaseline = "middle";
  context.textAlign = "center";
  for (const [from, to] of missing) {
    const [left, right] = [x(from - 0.5), x(to + 0.5)];
    context.fillStyle = variable("--line");
    context.globalAlpha = 0.35;
    context.fillRect(Math.max(left, PAD.left), PAD.top, right - Math.max(left, PAD.left), height - PAD.top - PAD.bottom);
    context.globalAlpha = 1;
    context.fillStyle = variable("--dim");
    if (right - left > 90) context.fillText("not recorded", (left + right) / 2, PAD.top + (height - PAD.top - PAD.bottom) / 4);
  }
  context.textBaseline = "alphabetic";
  for (const line of lines) {
    context.strokeStyle = variable(line.colour);
    context.lineWidth = 1.5;
    context.setLineDash(line.dash);
    context.beginPath();
    let before = -Infinity;
    for (const row of rows) {
      const value = line.value(row);
      if (value === null) continue;
      // Seconds without a value leave a gap; a lonely one is a point.
      if (row[0] - before > 1) {
        context.moveTo(x(row[0]) - 0.75, y(value));
        context.lineTo(x(row[0]), y(value));
      } else context.lineTo(x(row[0]), y(value));
      before = row[0];
    }
    context.stroke();
  }
  context.setLineDash([]);
  if (back !== null) {
    context.strokeStyle = variable("--text");
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(x(last - back), PAD.top);
    context.lineTo(x(last - back), height - PAD.bottom);
    context.stroke();
  }
}
