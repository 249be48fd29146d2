/* What was expected beside what it was, in words. */
import * as format from "./format.js";

const CLOSE = 0.05;

/* "as expected", "12 % more", "3.4 times as much"; nothing where nothing was expected. */
export function offBy(guess, real) {
  if (!guess || real === undefined || real === null) return "";
  const off = real / guess - 1;
  if (Math.abs(off) < CLOSE) return "as expected";
  if (off > 1) return `${Math.round((off + 1) * 10) / 10} times as much`;
  return `${format.percent(Math.abs(off))} ${off > 0 ? "more" : "less"}`;
}
