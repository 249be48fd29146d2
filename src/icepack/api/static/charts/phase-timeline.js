/* Timeline of a job: a lane per attempt, a block per phase. The last block of a running job grows until now. */
import { s } from "../lib/dom.js";
import { duration } from "../lib/format.js";
import { scale, timeTicks } from "./scale.js";
import { tooltipHandlers } from "./tooltip.js";

const LANE = 38;
const BLOCK = 22;
const FOOTER = 22;
const MIN_WIDTH = 3;

/* data: {label, from, to, lanes: [{name, blocks: [{kind, name, from, to, isFailed, isOpen, tip}]}]} with times in ms. */
export function phaseTimeline(data, width) {
  const left = width < 520 ? 72 : 96;
  const height = data.lanes.length * LANE + FOOTER;
  const x = scale(data.from, Math.max(data.to, data.from + 1000), left, width - 8);
  return s(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, height, role: "group", "aria-label": data.label },
    timeTicks(data.from, data.to, Math.max((width - left) / 90, 2)).map((tick) => drawTick(tick, x, height)),
    data.lanes.map((lane, at) => drawLane(lane, at * LANE, x, left, width)),
  );
}

const drawTick = (tick, x, height) => [
  s("line", { class: "rule", x1: x(tick.at), x2: x(tick.at), y1: 0, y2: height - FOOTER }),
  s("text", { class: "tick", "aria-hidden": true, x: x(tick.at), y: height - 6 }, tick.name),
];

function drawLane(lane, top, x, left, width) {
  const middle = top + LANE / 2;
  return [
    s("text", { class: "lane", x: 0, y: middle + 4 }, lane.name),
    s("line", { class: "axis", x1: left, x2: width - 8, y1: middle, y2: middle }),
    lane.blocks.map((block) => drawBlock(block, middle, x)),
  ];
}

function drawBlock(block, middle, x) {
  const from = x(block.from);
  const size = Math.max(x(block.to) - from, MIN_WIDTH);
  const name = block.name.length * 6.4 + 14 < size ? block.name : "";
  return s(
    "g",
    { role: "img", "aria-label": `${block.name}, ${block.tip.join(", ")}`, ...tooltipHandlers([block.name, ...block.tip]) },
    s("rect", {
      class: `phase${block.isFailed ? " is-failed" : ""}${block.isOpen ? " is-open" : ""}`,
      "data-phase": block.kind,
      x: from,
      y: middle - BLOCK / 2,
      width: size,
      height: BLOCK,
      rx: Math.min(4, size / 2),
    }),
    name && s("text", { class: "phase-name", "data-phase": block.kind, "aria-hidden": true, x: from + 8, y: middle + 4 }, name),
  );
}

export const formatSpan = (from, to) => duration((to - from) / 1000);
