/* Bar chart with an optional target line. */
import { s } from "../lib/dom.js";
import { scale } from "./scale.js";
import { tooltipHandlers } from "./tooltip.js";

const FOOTER = 20;
const HEADER = 18;

/* data: {label, height, bars: [{name, short, value, text, tip, href, band}], target: {at, name}} with `at` counted in bars. */
export function bars(data, width) {
  const height = data.height ?? 150;
  const floor = height - FOOTER;
  const slot = width / Math.max(data.bars.length, 1);
  const y = scale(0, Math.max(...data.bars.map((bar) => bar.value), 1), floor, HEADER);
  const skip = Math.ceil(46 / slot);
  return s(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, height, role: "group", "aria-label": data.label },
    s("line", { class: "axis", x1: 0, x2: width, y1: floor + 0.5, y2: floor + 0.5 }),
    data.bars.map((bar, index) => drawBar(bar, index, { slot, floor, y, hasLabel: index % skip === 0 })),
    data.target && drawTarget(data.target, slot, width, floor),
  );
}

function drawBar(bar, index, { slot, floor, y, hasLabel }) {
  const gap = Math.min(slot * 0.18, 8);
  const x = index * slot + gap / 2;
  const top = bar.value ? Math.min(y(bar.value), floor - 2) : floor;
  const shape = [
    s("rect", { class: "hit-area", x: index * slot, y: 0, width: slot, height: floor }),
    s("rect", { class: "mark", "data-band": bar.band, x, y: top, width: slot - gap, height: floor - top, rx: 2 }),
  ];
  const label = { "aria-label": [bar.name, ...(bar.tip ?? [bar.text])].join(", "), ...tooltipHandlers([bar.name, ...(bar.tip ?? [bar.text])]) };
  const middle = x + (slot - gap) / 2;
  return [
    bar.href && bar.value ? s("a", { href: bar.href, ...label }, shape) : s("g", { role: "img", ...label }, shape),
    bar.value > 0 && s("text", { class: "value", "aria-hidden": true, x: middle, y: top - 5 }, bar.text ?? String(bar.value)),
    hasLabel && s("text", { class: "tick", "aria-hidden": true, x: middle, y: floor + 14 }, bar.short ?? bar.name),
  ];
}

function drawTarget(target, slot, width, floor) {
  const x = Math.min(target.at * slot, width - 1);
  const isRight = x > width * 0.7;
  return s(
    "g",
    { class: "target" },
    s("line", { x1: x, x2: x, y1: 2, y2: floor }),
    s("text", { x: x + (isRight ? -5 : 5), y: 11, "text-anchor": isRight ? "end" : "start" }, target.name),
  );
}
