/* Timeline of snapshots: a lane per branch. Tags are flags, commits by icepack are diamonds. */
import { s } from "../lib/dom.js";
import { scale, timeTicks } from "./scale.js";
import { tooltipHandlers } from "./tooltip.js";

const LEFT = 96;
const LANE = 34;
const HEADER = 30;
const FOOTER = 22;

/* data: {label, lanes: [{name, snapshots: [{id, at, operation, isIcepack, tip, href}]}], tags: [{name, at, lane}], now} */
export function snapshotTimeline(data, width) {
  const moments = data.lanes.flatMap((lane) => lane.snapshots.map((snapshot) => new Date(snapshot.at).getTime()));
  const first = Math.min(...moments);
  const last = Math.max(...moments, first + 60e3);
  const x = scale(first, last, LEFT + 8, width - 14);
  const height = HEADER + data.lanes.length * LANE + FOOTER;
  return s(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, height, role: "group", "aria-label": data.label },
    timeTicks(first, last, Math.max(width / 110, 2)).map((tick) => [
      s("line", { class: "rule", x1: x(tick.at), x2: x(tick.at), y1: HEADER - 6, y2: height - FOOTER }),
      s("text", { class: "tick", x: x(tick.at), y: height - 6 }, tick.name),
    ]),
    data.lanes.map((lane, at) => drawLane(lane, HEADER + at * LANE + LANE / 2, x, width)),
    drawTags(data.tags, x),
  );
}

function drawLane(lane, y, x, width) {
  const snapshots = lane.snapshots.map((snapshot) => drawSnapshot(snapshot, x(new Date(snapshot.at).getTime()), y));
  return [
    s("text", { class: "lane", x: 0, y: y + 4 }, truncate(lane.name, 14), s("title", {}, lane.name)),
    s("line", { class: "axis", x1: LEFT, x2: width - 6, y1: y, y2: y }),
    ...snapshots,
  ];
}

function drawSnapshot(snapshot, x, y) {
  const facts = { class: `snapshot${snapshot.isIcepack ? " by-icepack" : ""}`, "data-operation": snapshot.operation };
  const shape = snapshot.isIcepack
    ? s("path", { ...facts, d: `M${x} ${y - 7}L${x + 7} ${y}L${x} ${y + 7}L${x - 7} ${y}Z` })
    : s("rect", { ...facts, x: x - 1.5, y: y - 8, width: 3, height: 16, rx: 1.5 });
  const tip = tooltipHandlers(snapshot.tip);
  const label = { "aria-label": snapshot.tip.join(", ") };
  return snapshot.href ? s("a", { href: snapshot.href, ...label, ...tip }, shape) : s("g", { role: "img", ...label, ...tip }, shape);
}

/* Flags that would overlap are moved to the right. */
function drawTags(tags, x) {
  let nextLeft = 0;
  return tags
    .map((tag) => ({ ...tag, x: x(new Date(tag.at).getTime()) }))
    .sort((first, second) => first.x - second.x)
    .map((tag) => {
      const name = truncate(tag.name, 18);
      const flagWidth = name.length * 6.6 + 12;
      const left = Math.max(tag.x, nextLeft);
      nextLeft = left + flagWidth + 4;
      return s(
        "g",
        { class: "flag", ...tooltipHandlers(tag.tip) },
        s("path", { d: `M${tag.x} ${HEADER + LANE / 2}V8H${left}` }),
        s("rect", { x: left, y: 1, width: flagWidth, height: 16, rx: 4 }),
        s("text", { x: left + 6, y: 13 }, name),
      );
    });
}

const truncate = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);
