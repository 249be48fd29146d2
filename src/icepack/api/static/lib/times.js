/* x-time="moment": the reader's own zone, or how long ago; UTC on hover, and for machines. */
import { ago, moment, utc } from "./format.js";

export function timeDirective(element, { modifiers, expression }, { evaluateLater, effect }) {
  const read = evaluateLater(expression);
  effect(() => read((text) => show(element, text, modifiers.includes("ago"))));
}

export function show(element, text, isAgo) {
  element.textContent = isAgo ? ago(text) : moment(text);
  if (!text) {
    element.removeAttribute("title");
    return;
  }
  element.setAttribute("title", isAgo ? `${moment(text)} · ${utc(text)}` : utc(text));
  if (element instanceof HTMLTimeElement) element.setAttribute("datetime", text);
}
