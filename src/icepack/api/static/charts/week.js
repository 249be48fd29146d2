/* The days ahead, hour by hour: the darker, the more runs; hatched where nothing may run. Arrow keys walk. */
import { s } from "../lib/dom.js";
import { tipped } from "./tip.js";

const GAP = 2;
const HEAD = 18;

/* data: {label, days: [{name, hours: [{key, value, isShut, isPast, tip}]}], picked, pick(key)} with 24 hours each. */
export function week(data, width) {
  const left = width < 520 ? 48 : 92;
  const slot = (width - left) / 24;
  const row = Math.min(Math.max(slot, 20), 30);
  const height = HEAD + data.days.length * row;
  const most = Math.max(...data.days.flatMap((day) => day.hours.map((hour) => hour.value)), 1);
  const svg = s(
    "svg",
    { class: "week", viewBox: `0 0 ${width} ${height}`, height, role: "listbox", "aria-label": data.label },
    hatch(),
    hourNames(left, slot),
    data.days.map((day, at) => drawDay(day, { top: HEAD + at * row, row, left, slot, most, data })),
  );
  const cells = [...svg.querySelectorAll("[role=option]")];
  (cells.find((cell) => cell.dataset.key === data.picked) ?? cells[0])?.setAttribute("tabindex", "0");
  svg.addEventListener("keydown", (event) => walk(event, cells));
  return svg;
}

const hatch = () =>
  s("defs", {}, s("pattern", { id: "shut", width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, s("line", { class: "shut-line", y2: 5 })));

const hourNames = (left, slot) =>
  Array.from({ length: 24 }, (_, hour) => hour)
    .filter((hour) => hour % (slot < 22 ? 6 : 3) === 0)
    .map((hour) => s("text", { class: "tick", "aria-hidden": true, x: left + (hour + 0.5) * slot, y: 11 }, String(hour).padStart(2, "0")));

function drawDay(day, { top, row, left, slot, most, data }) {
  return [
    s("text", { class: "lane", x: 0, y: top + row / 2 + 4 }, left < 60 ? day.short : day.name),
    day.hours.map((hour, at) => drawHour(hour, { x: left + at * slot, y: top, width: slot - GAP, height: row - GAP, most, data })),
  ];
}

function drawHour(hour, { x, y, width, height, most, data }) {
  const place = { x, y, width, height, rx: 3 };
  const base = s("rect", { class: "hour-base", ...place });
  if (hour.isPast) return s("rect", { class: "hour-past", ...place });
  if (hour.isShut && !hour.value) return [base, s("rect", { class: "hour-shut", fill: "url(#shut)", ...place, ...tipped(hour.tip) })];
  const pick = () => data.pick?.(hour.key);
  return [
    base,
    s("rect", {
      class: "hour",
      "data-key": hour.key,
      "fill-opacity": hour.value ? 0.25 + 0.75 * Math.sqrt(hour.value / most) : 0,
      role: "option",
      tabindex: "-1",
      "aria-selected": String(hour.key === data.picked),
      "aria-label": hour.tip.join(", "),
      onclick: pick,
      onkeydown: (event) => (event.key === "Enter" || event.key === " ") && (event.preventDefault(), pick()),
      ...place,
      ...tipped(hour.tip),
    }),
  ];
}

function walk(event, cells) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  const at = cells.indexOf(document.activeElement);
  if (at < 0) return;
  if (step) cells[at + step]?.focus();
  else if (event.key === "ArrowDown" || event.key === "ArrowUp") leap(cells, at, event.key === "ArrowDown" ? 1 : -1);
  else return;
  event.preventDefault();
  event.stopPropagation();
}

/* The nearest cell of the next line in this direction. */
function leap(cells, at, sign) {
  const [x, y] = [cells[at].x.baseVal.value, cells[at].y.baseVal.value];
  const beyond = cells.filter((cell) => Math.sign(cell.y.baseVal.value - y) === sign);
  const row = Math.min(...beyond.map((cell) => Math.abs(cell.y.baseVal.value - y)));
  const near = beyond.filter((cell) => Math.abs(cell.y.baseVal.value - y) === row);
  near.sort((one, other) => Math.abs(one.x.baseVal.value - x) - Math.abs(other.x.baseVal.value - x))[0]?.focus();
}
