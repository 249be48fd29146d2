/* Before and after as they are: each square is a file, or whatever else there were too many of. */
import { s } from "../lib/dom.js";
import { count, bytes } from "../lib/format.js";

const SIDE = 76;
const LEAST = 26;
const MOST = 324;
const ARROW = 34;
const FOOT = 20;

/* data: {what, isVolume, before: {files, bytes}, after: {files, bytes}} */
export function pieces(data) {
  const width = 2 * SIDE + ARROW;
  const { before, after } = data;
  const mostBytes = Math.max(before.bytes, after.bytes, 1);
  const said = (side) => `${count(side.files)} ${data.what}${data.isVolume ? `, ${bytes(side.bytes)}` : ""}`;
  const label = `Before: ${said(before)}. After: ${said(after)}.`;
  return s(
    "svg",
    { class: "pieces", viewBox: `0 0 ${width} ${SIDE + FOOT}`, width, height: SIDE + FOOT, role: "img", "aria-label": label },
    field(before, mostBytes, 0, before.files > after.files ? "poor" : "plain"),
    s("path", { class: "arrow", d: `M${SIDE + 9} ${SIDE / 2}h14m-5 -5l5 5l-5 5` }),
    field(after, mostBytes, SIDE + ARROW, before.files > after.files ? "good" : "plain"),
    s("text", { class: "tick", x: SIDE / 2, y: SIDE + 14 }, `${count(before.files)} ${data.what}`),
    s("text", { class: "tick", x: SIDE * 1.5 + ARROW, y: SIDE + 14 }, count(after.files)),
  );
}

function field({ files, bytes: volume }, mostBytes, left, band) {
  const side = Math.max(SIDE * Math.sqrt(volume / mostBytes), files ? LEAST : 0);
  const shown = Math.min(files, MOST);
  const columns = Math.ceil(Math.sqrt(shown)) || 1;
  const slot = side / columns;
  const gap = Math.min(slot * 0.22, 3);
  const top = (SIDE - side) / 2;
  return Array.from({ length: shown }, (_, at) =>
    s("rect", {
      class: "piece",
      "data-band": band,
      x: left + (SIDE - side) / 2 + (at % columns) * slot + gap / 2,
      y: top + Math.floor(at / columns) * slot + gap / 2,
      width: slot - gap,
      height: slot - gap,
      rx: Math.min(slot * 0.12, 3),
    }),
  );
}
