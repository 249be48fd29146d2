/* Before-and-after picture: one square per file, manifest or snapshot. */
import { s } from "../lib/dom.js";
import { count, bytes } from "../lib/format.js";

const SIDE = 76;
const MIN_SIDE = 26;
const MAX_SQUARES = 324;
const ARROW = 34;
const FOOTER = 20;

/* data: {unit, hasBytes, before: {files, bytes}, after: {files, bytes}} */
export function beforeAfter(data) {
  const width = 2 * SIDE + ARROW;
  const { before, after } = data;
  const maxBytes = Math.max(before.bytes, after.bytes, 1);
  const describe = (side) => `${count(side.files)} ${data.unit}${data.hasBytes ? `, ${bytes(side.bytes)}` : ""}`;
  const label = `Before: ${describe(before)}. After: ${describe(after)}.`;
  return s(
    "svg",
    { class: "before-after", viewBox: `0 0 ${width} ${SIDE + FOOTER}`, width, height: SIDE + FOOTER, role: "img", "aria-label": label },
    squares(before, maxBytes, 0, before.files > after.files ? "poor" : "plain"),
    s("path", { class: "arrow", d: `M${SIDE + 9} ${SIDE / 2}h14m-5 -5l5 5l-5 5` }),
    squares(after, maxBytes, SIDE + ARROW, before.files > after.files ? "good" : "plain"),
    s("text", { class: "tick", x: SIDE / 2, y: SIDE + 14 }, `${count(before.files)} ${data.unit}`),
    s("text", { class: "tick", x: SIDE * 1.5 + ARROW, y: SIDE + 14 }, count(after.files)),
  );
}

function squares({ files, bytes: volume }, maxBytes, left, band) {
  const side = Math.max(SIDE * Math.sqrt(volume / maxBytes), files ? MIN_SIDE : 0);
  const shown = Math.min(files, MAX_SQUARES);
  const columns = Math.ceil(Math.sqrt(shown)) || 1;
  const slot = side / columns;
  const gap = Math.min(slot * 0.22, 3);
  const top = (SIDE - side) / 2;
  return Array.from({ length: shown }, (_, index) =>
    s("rect", {
      class: "file-square",
      "data-band": band,
      x: left + (SIDE - side) / 2 + (index % columns) * slot + gap / 2,
      y: top + Math.floor(index / columns) * slot + gap / 2,
      width: slot - gap,
      height: slot - gap,
      rx: Math.min(slot * 0.12, 3),
    }),
  );
}
