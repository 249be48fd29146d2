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
  const place = (hour, day) => ({ x: left + hour * slot, y: HEAD + day * row, width: slot - GAP, height: row - GAP, rx: 3 });
  const cells = data.days.flatMap((day, at) => day.hours.map((hour, number) => isFree(hour) && drawHour(hour, place(number, at), most, data))).filter(Boolean);
  const svg = s(
    "svg",
    { class: "week", viewBox: `0 0 ${width} ${height}`, height, role: "group", "aria-label": data.label },
    hatch(),
    hourNames(left, slot),
    data.days.map((day, at) => s("text", { class: "lane", "aria-hidden": true, x: 0, y: HEAD + (at + 0.5) * row + 4 }, left < 60 ? day.short : day.name)),
    data.days.map((day, at) => day.hours.map((hour, number) => drawGround(hour, place(number, at)))),
    cells.length > 0 && s("g", { role: "listbox", "aria-label": "Hours" }, cells),
  );
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

const isFree = (hour) => !hour.isPast && (!hour.isShut || hour.value > 0);

function drawGround(hour, place) {
  if (hour.isPast) return null;
  return [s("rect", { class: "hour-base", ...place }), hour.isShut && s("rect", { class: "hour-shut", fill: "url(#shut)", ...place, ...tipped(hour.tip) })];
}

function drawHour(hour, place, most, data) {
  const pick = () => data.pick?.(hour.key);
  return s("rect", {
    class: "hour",
    "data-key": hour.key,
    "fill-opacity": hour.value ? 0.18 + 0.82 * (hour.value / most) : 0,
    role: "option",
    tabindex: "-1",
    "aria-selected": String(hour.key === data.picked),
    "aria-label": hour.tip.join(", "),
    onclick: pick,
    onkeydown: (event) => (event.key === "Enter" || event.key === " ") && (event.preventDefault(), pick()),
    ...place,
    ...tipped(hour.tip),
  });
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
