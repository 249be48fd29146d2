/* Creates DOM elements from data. Data becomes text nodes or attributes, never markup. */
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

/* Only for our own view files: this Trusted Types policy is the only way text becomes markup, and the CSP allows no other. */
const policy = globalThis.trustedTypes?.createPolicy("icepack-views", { createHTML: (text) => text }) ?? {
  createHTML: (text) => text,
};

export function parseMarkup(text) {
  const template = document.createElement("template");
  template.innerHTML = policy.createHTML(text);
  return template.content;
}
