/* Elements from data: whatever comes from elsewhere becomes a text node or an attribute, never markup. */
const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(element.style, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);

export const s = (tag, attributes, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);

/* Own files only: the policy is the one way by which text becomes markup here, and the CSP names no other. */
const policy = globalThis.trustedTypes?.createPolicy("icepack-views", { createHTML: (text) => text }) ?? {
  createHTML: (text) => text,
};

export function ownMarkup(text) {
  const template = document.createElement("template");
  template.innerHTML = policy.createHTML(text);
  return template.content;
}
