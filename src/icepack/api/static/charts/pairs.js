/* Two bars for each day: what was expected, and what it was. */
import { s } from "../lib/dom.js";
import { scale, ticks } from "./scale.js";
import { tipped } from "./tip.js";

const LEFT = 52;
const FOOT = 20;
const TOP = 8;

/* data: {label, height, format, pairs: [{name, short, expected, real, tip}], names: [expected, real]} */
export function pairs(data, width) {
  const height = data.height ?? 200;
  const floor = height - FOOT;
  const most = Math.max(...data.pairs.flatMap((pair) => [pair.expected ?? 0, pair.real]), 0) || 1;
  const y = scale(0, most, floor, TOP);
  const slot = (width - LEFT) / Math.max(data.pairs.length, 1);
  const skip = Math.ceil(48 / slot);
  return s(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, height, role: "group", "aria-label": data.label },
    ticks(0, most, 4).map((value) => [
      s("line", { class: value ? "rule" : "axis", x1: LEFT, x2: width, y1: y(value), y2: y(value) }),
      s("text", { class: "tick", "aria-hidden": true, x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, data.format(value)),
    ]),
    data.pairs.map((pair, at) => drawPair(pair, { left: LEFT + at * slot, slot, floor, y, named: (data.pairs.length - 1 - at) % skip === 0 })),
  );
}

function drawPair(pair, { left, slot, floor, y, named }) {
  const gap = Math.min(slot * 0.3, 16);
  const hasTwo = pair.expected !== null && pair.expected !== undefined;
  const size = Math.min((slot - gap) / (hasTwo ? 2 : 1), 26);
  const start = left + (slot - size * (hasTwo ? 2 : 1)) / 2;
  const bar = (value, x, kind) => value > 0 && s("rect", { class: `pair ${kind}`, x, y: Math.min(y(value), floor - 2), width: Math.max(size - 1, 1), height: Math.max(floor - y(value), 2), rx: 2 });
  return s(
    "g",
    { role: "img", "aria-label": [pair.name, ...pair.tip].join(", "), ...tipped([pair.name, ...pair.tip]) },
    s("rect", { class: "catch", x: left, y: 0, width: slot, height: floor }),
    hasTwo && bar(pair.expected, start, "is-expected"),
    bar(pair.real, start + (hasTwo ? size : 0), "is-real"),
    named && s("text", { class: "tick", "aria-hidden": true, x: left + slot / 2, y: floor + 14 }, pair.short),
  );
}
