/* Grid of small squares, one per partition, coloured by kind. */
import { s } from "../lib/dom.js";
import { tooltipHandlers } from "./tooltip.js";

const GAP = 3;

/* data: {label, tiles: [{kind, name, tip}]} */
export function tiles(data, width) {
  const size = data.tiles.length > 400 ? 10 : data.tiles.length > 100 ? 14 : 20;
  const columns = Math.max(Math.floor((width + GAP) / (size + GAP)), 1);
  const height = Math.ceil(data.tiles.length / columns) * (size + GAP);
  return s(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, height, role: "img", "aria-label": data.label },
    data.tiles.map((tile, index) =>
      s("rect", {
        class: "tile",
        "data-kind": tile.kind,
        x: (index % columns) * (size + GAP),
        y: Math.floor(index / columns) * (size + GAP),
        width: size,
        height: size,
        rx: 3,
        ...tooltipHandlers([tile.name, tile.tip]),
      }),
    ),
  );
}
