/* A field of cells, one for each partition: the sick ones stand out. Arrow keys walk from cell to cell. */
import { s } from "../lib/dom.js";
import { tipped } from "./tip.js";

const GAP = 3;
const LEVELS = [[0.6, "bad"], [0.35, "poor"], [0.12, "fair"], [0, "good"]];
export const levelOf = (value) => LEVELS.find(([from]) => value >= from)[1];

/* data: {label, cells: [{key, name, value, tip}], picked, pick(key)} */
export function heat(data, width) {
  const cells = data.cells;
  const size = cells.length > 600 ? 12 : cells.length > 120 ? 16 : 24;
  const columns = Math.max(Math.floor((width + GAP) / (size + GAP)), 1);
  const rows = Math.ceil(cells.length / columns);
  const at = Math.max(cells.findIndex((cell) => cell.key === data.picked), 0);
  const svg = s(
    "svg",
    { viewBox: `0 0 ${width} ${rows * (size + GAP)}`, height: rows * (size + GAP), role: "listbox", "aria-label": data.label },
    cells.map((cell, number) => drawCell(cell, number, { size, columns, data, focusable: number === at })),
  );
  svg.addEventListener("keydown", (event) => walk(event, svg, columns));
  return svg;
}

function drawCell(cell, number, { size, columns, data, focusable }) {
  const pick = () => data.pick?.(cell.key);
  return s("rect", {
    class: "cell",
    "data-band": levelOf(cell.value),
    x: (number % columns) * (size + GAP),
    y: Math.floor(number / columns) * (size + GAP),
    width: size,
    height: size,
    rx: 3,
    role: "option",
    tabindex: focusable ? 0 : -1,
    "aria-selected": String(cell.key === data.picked),
    "aria-label": [cell.name, ...cell.tip].join(", "),
    onclick: pick,
    onkeydown: (event) => (event.key === "Enter" || event.key === " ") && (event.preventDefault(), pick()),
    ...tipped([cell.name, ...cell.tip]),
  });
}

function walk(event, svg, columns) {
  const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[event.key];
  if (!step) return;
  event.preventDefault();
  event.stopPropagation();
  const cells = [...svg.children];
  cells[cells.indexOf(document.activeElement) + step]?.focus();
}
