/* x-time="timestamp" shows a time in the reader's time zone, x-time.ago how long ago it was; UTC is in the tooltip. */
import { ago, dateTime, utc } from "./format.js";

export function timeDirective(element, { modifiers, expression }, { evaluateLater, effect }) {
  const evaluate = evaluateLater(expression);
  effect(() => evaluate((timestamp) => showTime(element, timestamp, modifiers.includes("ago"))));
}

export function showTime(element, timestamp, isRelative) {
  element.textContent = isRelative ? ago(timestamp) : dateTime(timestamp);
  if (!timestamp) {
    element.removeAttribute("title");
    return;
  }
  element.setAttribute("title", isRelative ? `${dateTime(timestamp)} · ${utc(timestamp)}` : utc(timestamp));
  if (element instanceof HTMLTimeElement) element.setAttribute("datetime", timestamp);
}
