/* Compares an actual value with its estimate, as text. */
import * as format from "./format.js";

const TOLERANCE = 0.05;

/* "as estimated", "12 % above estimate", "2× estimate"; an empty string if there was no estimate. */
export function compareToEstimate(estimate, actual) {
  if (!estimate || actual === undefined || actual === null) return "";
  const deviation = actual / estimate - 1;
  if (Math.abs(deviation) < TOLERANCE) return "as estimated";
  if (deviation > 1) return `${Math.round((deviation + 1) * 10) / 10}× estimate`;
  return `${format.percent(Math.abs(deviation))} ${deviation > 0 ? "above" : "below"} estimate`;
}
