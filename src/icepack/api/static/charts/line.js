/* Line chart over time with a cursor that shows the nearest value, and a sparkline without axes. */
import { s } from "../lib/dom.js";
import { scale, ticks, timeTicks } from "./scale.js";
import { hideTooltip, showTooltip } from "./tooltip.js";

const LEFT = 40;
const FOOTER = 20;
const TOP = 8;
const dateName = new Intl.DateTimeFormat(undefined, { dateStyle: "medium" });
const BANDS = [[90, 100, "good"], [70, 90, "fair"], [50, 70, "poor"], [0, 50, "bad"]];

/* data: {label, height, points: [{at, value}], from, to, bands, format, unit} */
export function line(data, width) {
  const height = data.height ?? 180;
  const points = data.points.map((point) => ({ at: new Date(point.at).getTime(), value: point.value }));
  const format = data.format ?? String;
  const first = points[0]?.at ?? 0;
  const last = Math.max(points.at(-1)?.at ?? 1, first + 1);
  const low = data.from ?? Math.min(...points.map((point) => point.value));
  const high = Math.max(data.to ?? Math.max(...points.map((point) => point.value)), low + 1e-9);
  const x = scale(first, last, LEFT, width - 6);
  const y = scale(low, high, height - FOOTER, TOP);
  const cursor = s("g", { class: "cursor", visibility: "hidden" }, s("line", { y1: TOP, y2: height - FOOTER }), s("circle", { r: 4 }));
  const svg = s(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": data.label },
    data.bands && BANDS.map(([from, to, band]) => drawBand(from, to, band, { low, high, y, width })),
    ticks(low, high, 4).map((value) => drawTick(value, y(value), width, format)),
    timeTicks(first, last, Math.max(width / 90, 2)).map((tick) => s("text", { class: "tick", x: x(tick.at), y: height - 5 }, tick.name)),
    s("path", { class: "area", d: `${path(points, x, y)}L${x(last)} ${height - FOOTER}L${x(first)} ${height - FOOTER}Z` }),
    s("path", { class: "line", d: path(points, x, y) }),
    points.length > 0 && s("circle", { class: "end", cx: x(points.at(-1).at), cy: y(points.at(-1).value), r: 3.5 }),
    cursor,
  );
  trackPointer(svg, { points, x, y, cursor, width, format, unit: data.unit });
  return svg;
}

function drawBand(from, to, band, { low, high, y, width }) {
  const [bottom, top] = [Math.max(from, low), Math.min(to, high)];
  if (bottom >= top) return null;
  return s("rect", { class: "band", "data-band": band, x: LEFT, width: width - LEFT - 6, y: y(top), height: y(bottom) - y(top) });
}

const drawTick = (value, at, width, format) => [
  s("line", { class: "rule", x1: LEFT, x2: width - 6, y1: at, y2: at }),
  s("text", { class: "tick", x: LEFT - 8, y: at + 4, "text-anchor": "end" }, format(value)),
];

const path = (points, x, y) => points.map((point, at) => `${at ? "L" : "M"}${x(point.at).toFixed(1)} ${y(point.value).toFixed(1)}`).join("");

function trackPointer(svg, { points, x, y, cursor, width, format, unit }) {
  svg.addEventListener("pointermove", (event) => {
    if (!points.length) return;
    const box = svg.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * width;
    const nearest = points.reduce((best, point) => (Math.abs(x(point.at) - at) < Math.abs(x(best.at) - at) ? point : best));
    cursor.setAttribute("visibility", "visible");
    cursor.setAttribute("transform", `translate(${x(nearest.at)} 0)`);
    cursor.lastChild.setAttribute("cy", y(nearest.value));
    showTooltip(event, [`${format(nearest.value)}${unit ? ` ${unit}` : ""}`, dateName.format(nearest.at)]);
  });
  svg.addEventListener("pointerleave", () => {
    cursor.setAttribute("visibility", "hidden");
    hideTooltip();
  });
}

/* data: {label, values} */
export function sparkline(data, width) {
  const height = 24;
  const [low, high] = [Math.min(...data.values), Math.max(...data.values)];
  const x = scale(0, Math.max(data.values.length - 1, 1), 1, width - 3);
  const y = high === low ? () => height / 2 : scale(low, high, height - 3, 3);
  const points = data.values.map((value, at) => ({ at, value }));
  return s(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": data.label },
    points.length > 1 && s("path", { class: "line thin", d: path(points, x, y) }),
    points.length > 0 && s("circle", { class: "end", cx: x(points.length - 1), cy: y(points.at(-1).value), r: 2.5 }),
  );
}
