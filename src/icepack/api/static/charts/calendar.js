/* Calendar of the coming days by hour: darker cells have more runs, hatched cells are outside the maintenance windows.
   Arrow keys move between cells. */
import { s } from "../lib/dom.js";
import { tooltipHandlers } from "./tooltip.js";

const GAP = 2;
const HEADER = 18;

/* data: {label, days: [{name, hours: [{key, value, isClosed, isPast, tip}]}], selected, select(key)} with 24 hours each. */
export function calendar(data, width) {
  const left = width < 520 ? 48 : 92;
  const slot = (width - left) / 24;
  const row = Math.min(Math.max(slot, 20), 30);
  const height = HEADER + data.days.length * row;
  const maxRuns = Math.max(...data.days.flatMap((day) => day.hours.map((hour) => hour.value)), 1);
  const cellBox = (hour, day) => ({ x: left + hour * slot, y: HEADER + day * row, width: slot - GAP, height: row - GAP, rx: 3 });
  const cells = data.days.flatMap((day, index) => day.hours.map((hour, number) => isSelectable(hour) && drawHour(hour, cellBox(number, index), maxRuns, data))).filter(Boolean);
  const svg = s(
    "svg",
    { class: "calendar", viewBox: `0 0 ${width} ${height}`, height, role: "group", "aria-label": data.label },
    hatchPattern(),
    hourLabels(left, slot),
    data.days.map((day, index) => s("text", { class: "lane", "aria-hidden": true, x: 0, y: HEADER + (index + 0.5) * row + 4 }, left < 60 ? day.short : day.name)),
    data.days.map((day, index) => day.hours.map((hour, number) => drawBackground(hour, cellBox(number, index)))),
    cells.length > 0 && s("g", { role: "listbox", "aria-label": "Hours" }, cells),
  );
  (cells.find((cell) => cell.dataset.key === data.selected) ?? cells[0])?.setAttribute("tabindex", "0");
  svg.addEventListener("keydown", (event) => moveFocus(event, cells));
  return svg;
}

const hatchPattern = () =>
  s("defs", {}, s("pattern", { id: "closed", width: 5, height: 5, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, s("line", { class: "closed-line", y2: 5 })));

const hourLabels = (left, slot) =>
  Array.from({ length: 24 }, (_, hour) => hour)
    .filter((hour) => hour % (slot < 22 ? 6 : 3) === 0)
    .map((hour) => s("text", { class: "tick", "aria-hidden": true, x: left + (hour + 0.5) * slot, y: 11 }, String(hour).padStart(2, "0")));

const isSelectable = (hour) => !hour.isPast && (!hour.isClosed || hour.value > 0);

function drawBackground(hour, box) {
  if (hour.isPast) return null;
  return [s("rect", { class: "hour-base", ...box }), hour.isClosed && s("rect", { class: "hour-closed", fill: "url(#closed)", ...box, ...tooltipHandlers(hour.tip) })];
}

function drawHour(hour, box, maxRuns, data) {
  const select = () => data.select?.(hour.key);
  return s("rect", {
    class: "hour",
    "data-key": hour.key,
    "fill-opacity": hour.value ? 0.18 + 0.82 * (hour.value / maxRuns) : 0,
    role: "option",
    tabindex: "-1",
    "aria-selected": String(hour.key === data.selected),
    "aria-label": hour.tip.join(", "),
    onclick: select,
    onkeydown: (event) => (event.key === "Enter" || event.key === " ") && (event.preventDefault(), select()),
    ...box,
    ...tooltipHandlers(hour.tip),
  });
}

function moveFocus(event, cells) {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  const current = cells.indexOf(document.activeElement);
  if (current < 0) return;
  if (step) cells[current + step]?.focus();
  else if (event.key === "ArrowDown" || event.key === "ArrowUp") moveToNextRow(cells, current, event.key === "ArrowDown" ? 1 : -1);
  else return;
  event.preventDefault();
  event.stopPropagation();
}

/* Focuses the nearest cell of the next row in this direction. */
function moveToNextRow(cells, current, direction) {
  const [x, y] = [cells[current].x.baseVal.value, cells[current].y.baseVal.value];
  const candidates = cells.filter((cell) => Math.sign(cell.y.baseVal.value - y) === direction);
  const distance = Math.min(...candidates.map((cell) => Math.abs(cell.y.baseVal.value - y)));
  const nextRow = candidates.filter((cell) => Math.abs(cell.y.baseVal.value - y) === distance);
  nextRow.sort((first, second) => Math.abs(first.x.baseVal.value - x) - Math.abs(second.x.baseVal.value - x))[0]?.focus();
}
