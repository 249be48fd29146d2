/* Heatmap with one cell per partition, coloured by urgency. Arrow keys move between cells. */
import { s } from "../lib/dom.js";
import { tooltipHandlers } from "./tooltip.js";

const GAP = 3;
const LEVELS = [[0.6, "bad"], [0.35, "poor"], [0.12, "fair"], [0, "good"]];
const levelOf = (value) => LEVELS.find(([from]) => value >= from)[1];

/* data: {label, cells: [{key, name, value, tip}], selected, select(key)} */
export function heatmap(data, width) {
  const cells = data.cells;
  const size = cells.length > 600 ? 12 : cells.length > 120 ? 16 : 24;
  const columns = Math.max(Math.floor((width + GAP) / (size + GAP)), 1);
  const rows = Math.ceil(cells.length / columns);
  const focused = Math.max(cells.findIndex((cell) => cell.key === data.selected), 0);
  const svg = s(
    "svg",
    { viewBox: `0 0 ${width} ${rows * (size + GAP)}`, height: rows * (size + GAP), role: "listbox", "aria-label": data.label },
    cells.map((cell, index) => drawCell(cell, index, { size, columns, data, isFocusable: index === focused })),
  );
  svg.addEventListener("keydown", (event) => moveFocus(event, svg, columns));
  return svg;
}

function drawCell(cell, index, { size, columns, data, isFocusable }) {
  const select = () => data.select?.(cell.key);
  return s("rect", {
    class: "cell",
    "data-band": levelOf(cell.value),
    x: (index % columns) * (size + GAP),
    y: Math.floor(index / columns) * (size + GAP),
    width: size,
    height: size,
    rx: 3,
    role: "option",
    tabindex: isFocusable ? 0 : -1,
    "aria-selected": String(cell.key === data.selected),
    "aria-label": [cell.name, ...cell.tip].join(", "),
    onclick: select,
    onkeydown: (event) => (event.key === "Enter" || event.key === " ") && (event.preventDefault(), select()),
    ...tooltipHandlers([cell.name, ...cell.tip]),
  });
}

function moveFocus(event, svg, columns) {
  const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[event.key];
  if (!step) return;
  event.preventDefault();
  event.stopPropagation();
  const cells = [...svg.children];
  cells[cells.indexOf(document.activeElement) + step]?.focus();
}
