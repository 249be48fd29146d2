/* The tooltip of chart marks. It is hidden from screen readers, which read the mark's aria-label instead. */
import { h } from "../lib/dom.js";

let tooltip = null;

export function showTooltip(event, lines) {
  tooltip ??= document.body.appendChild(h("div", { class: "tooltip", "aria-hidden": "true" }));
  tooltip.replaceChildren(...lines.filter(Boolean).map((text, index) => h("div", { class: index ? "dim" : "" }, String(text))));
  tooltip.hidden = false;
  const { offsetWidth: width, offsetHeight: height } = tooltip;
  tooltip.style.left = `${Math.max(4, Math.min(event.clientX + 12, innerWidth - width - 8))}px`;
  tooltip.style.top = `${event.clientY + height + 24 > innerHeight ? event.clientY - height - 12 : event.clientY + 14}px`;
}

export function hideTooltip() {
  if (tooltip) tooltip.hidden = true;
}

/* Attributes that show these lines while the pointer is over an element. */
export const tooltipHandlers = (lines) => ({ onpointermove: (event) => showTooltip(event, lines), onpointerleave: hideTooltip });
