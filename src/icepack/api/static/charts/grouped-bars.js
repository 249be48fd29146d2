/* Grouped bar chart: an estimate and an actual value per day. */
import { s } from "../lib/dom.js";
import { scale, ticks } from "./scale.js";
import { tooltipHandlers } from "./tooltip.js";

const LEFT = 52;
const FOOTER = 20;
const TOP = 8;

/* data: {label, height, format, groups: [{name, short, estimate, actual, tip}]} */
export function groupedBars(data, width) {
  const height = data.height ?? 200;
  const floor = height - FOOTER;
  const most = Math.max(...data.groups.flatMap((group) => [group.estimate ?? 0, group.actual]), 0) || 1;
  const y = scale(0, most, floor, TOP);
  const slot = (width - LEFT) / Math.max(data.groups.length, 1);
  const skip = Math.ceil(48 / slot);
  return s(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, height, role: "group", "aria-label": data.label },
    ticks(0, most, 4).map((value) => [
      s("line", { class: value ? "rule" : "axis", x1: LEFT, x2: width, y1: y(value), y2: y(value) }),
      s("text", { class: "tick", "aria-hidden": true, x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, data.format(value)),
    ]),
    data.groups.map((group, index) => drawGroup(group, { left: LEFT + index * slot, slot, floor, y, hasLabel: (data.groups.length - 1 - index) % skip === 0 })),
  );
}

function drawGroup(group, { left, slot, floor, y, hasLabel }) {
  const gap = Math.min(slot * 0.3, 16);
  const hasEstimate = group.estimate !== null && group.estimate !== undefined;
  const size = Math.min((slot - gap) / (hasEstimate ? 2 : 1), 26);
  const start = left + (slot - size * (hasEstimate ? 2 : 1)) / 2;
  const bar = (value, x, kind) => value > 0 && s("rect", { class: `grouped-bar ${kind}`, x, y: Math.min(y(value), floor - 2), width: Math.max(size - 1, 1), height: Math.max(floor - y(value), 2), rx: 2 });
  return s(
    "g",
    { role: "img", "aria-label": [group.name, ...group.tip].join(", "), ...tooltipHandlers([group.name, ...group.tip]) },
    s("rect", { class: "hit-area", x: left, y: 0, width: slot, height: floor }),
    hasEstimate && bar(group.estimate, start, "is-estimate"),
    bar(group.actual, start + (hasEstimate ? size : 0), "is-actual"),
    hasLabel && s("text", { class: "tick", "aria-hidden": true, x: left + slot / 2, y: floor + 14 }, group.short),
  );
}
