/* What a mark says when it is pointed at; listeners get the same from its title. */
import { h } from "../lib/dom.js";

let tip = null;

export function showTip(event, lines) {
  tip ??= document.body.appendChild(h("div", { class: "tip", "aria-hidden": "true" }));
  tip.replaceChildren(...lines.filter(Boolean).map((text, at) => h("div", { class: at ? "dim" : "" }, String(text))));
  tip.hidden = false;
  const { offsetWidth: width, offsetHeight: height } = tip;
  tip.style.left = `${Math.max(4, Math.min(event.clientX + 12, innerWidth - width - 8))}px`;
  tip.style.top = `${event.clientY + height + 24 > innerHeight ? event.clientY - height - 12 : event.clientY + 14}px`;
}

export function hideTip() {
  if (tip) tip.hidden = true;
}

export const tipped = (lines) => ({ onpointermove: (event) => showTip(event, lines), onpointerleave: hideTip });
