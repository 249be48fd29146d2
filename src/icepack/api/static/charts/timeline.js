/* Snapshots on a line of time, a lane for each branch; tags are flags, icepack's own commits are diamonds. */
import { s } from "../lib/dom.js";
import { scale, timeTicks } from "./scale.js";
import { tipped } from "./tip.js";

const LEFT = 96;
const LANE = 34;
const HEAD = 30;
const FOOT = 22;

/* data: {label, lanes: [{name, snapshots: [{id, at, operation, ours, tip, href}]}], tags: [{name, at, lane}], now} */
export function timeline(data, width) {
  const moments = data.lanes.flatMap((lane) => lane.snapshots.map((one) => new Date(one.at).getTime()));
  const first = Math.min(...moments);
  const last = Math.max(...moments, first + 60e3);
  const x = scale(first, last, LEFT + 8, width - 14);
  const height = HEAD + data.lanes.length * LANE + FOOT;
  return s(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, height, role: "group", "aria-label": data.label },
    timeTicks(first, last, Math.max(width / 110, 2)).map((tick) => [
      s("line", { class: "rule", x1: x(tick.at), x2: x(tick.at), y1: HEAD - 6, y2: height - FOOT }),
      s("text", { class: "tick", x: x(tick.at), y: height - 6 }, tick.name),
    ]),
    data.lanes.map((lane, at) => drawLane(lane, HEAD + at * LANE + LANE / 2, x, width)),
    drawTags(data.tags, x),
  );
}

function drawLane(lane, y, x, width) {
  const snapshots = lane.snapshots.map((one) => drawSnapshot(one, x(new Date(one.at).getTime()), y));
  return [
    s("text", { class: "lane", x: 0, y: y + 4 }, shortened(lane.name, 14), s("title", {}, lane.name)),
    s("line", { class: "axis", x1: LEFT, x2: width - 6, y1: y, y2: y }),
    ...snapshots,
  ];
}

function drawSnapshot(one, x, y) {
  const facts = { class: `snapshot${one.ours ? " ours" : ""}`, "data-operation": one.operation };
  const shape = one.ours
    ? s("path", { ...facts, d: `M${x} ${y - 7}L${x + 7} ${y}L${x} ${y + 7}L${x - 7} ${y}Z` })
    : s("rect", { ...facts, x: x - 1.5, y: y - 8, width: 3, height: 16, rx: 1.5 });
  const tip = tipped(one.tip);
  const says = { "aria-label": one.tip.join(", ") };
  return one.href ? s("a", { href: one.href, ...says, ...tip }, shape) : s("g", { role: "img", ...says, ...tip }, shape);
}

/* Flags that would lie over one another step aside. */
function drawTags(tags, x) {
  let free = 0;
  return tags
    .map((tag) => ({ ...tag, x: x(new Date(tag.at).getTime()) }))
    .sort((one, other) => one.x - other.x)
    .map((tag) => {
      const name = shortened(tag.name, 18);
      const wide = name.length * 6.6 + 12;
      const left = Math.max(tag.x, free);
      free = left + wide + 4;
      return s(
        "g",
        { class: "flag", ...tipped(tag.tip) },
        s("path", { d: `M${tag.x} ${HEAD + LANE / 2}V8H${left}` }),
        s("rect", { x: left, y: 1, width: wide, height: 16, rx: 4 }),
        s("text", { x: left + 6, y: 13 }, name),
      );
    });
}

const shortened = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
