/* Client-side router: the URL hash selects the screen, as in #/tables?issue=small_files. Changing only the query keeps the screen. */
import { screens } from "../screens.js";
import { h, parseMarkup } from "./dom.js";
import { remedy } from "./labels.js";

const HEADING_TIMEOUT_MS = 5000;
let alpine = null;
let route = null;
let rendered = "";
const templates = new Map();

export const router = {
  route: { name: "", params: {}, query: {}, text: "" },

  attach(library, store) {
    alpine = library;
    route = store;
  },

  /* Fetches the current screen's files while the session is still loading. */
  prefetch() {
    readLocation();
    void loadScreen(route.name);
  },

  start() {
    addEventListener("hashchange", readLocation);
    addEventListener("resize", scrollToCurrentLink);
    readLocation();
    alpine.effect(() => void render(alpine.store("session").state, route.text));
  },
};

export function link(path, query = {}) {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "") params.append(name, value);
  }
  const text = params.toString();
  return `#/${path}${text ? `?${text}` : ""}`;
}

export const tableLink = (name, query) => link(`tables/${encodeURIComponent(name)}`, query);

export const go = (path, query) => {
  location.hash = link(path, query);
};

/* Replaces the query without a history entry: typing into a search field must not fill the back button's history. */
export function setQuery(changes) {
  const path = location.hash.replace(/^#\/?/, "").split("?")[0];
  history.replaceState(null, "", link(path, { ...route.query, ...changes }));
  readLocation();
}

function parseHash(hash) {
  const [path, query] = hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decode);
  for (const screen of screens) {
    const params = matchPath(screen.path.split("/").filter(Boolean), parts);
    if (params) return { name: screen.name, params, query: Object.fromEntries(new URLSearchParams(query ?? "")) };
  }
  return { name: "missing", params: {}, query: {} };
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function matchPath(pattern, parts) {
  if (pattern.length !== parts.length) return null;
  const params = {};
  for (const [index, segment] of pattern.entries()) {
    if (segment.startsWith(":")) params[segment.slice(1)] = parts[index];
    else if (segment !== parts[index]) return null;
  }
  return params;
}

function readLocation() {
  const parsed = parseHash(location.hash);
  Object.assign(route, parsed);
  route.text = JSON.stringify([parsed.name, parsed.params]);
}

async function render(state, text) {
  if (state === "unknown") return;
  const name = state === "out" ? "signin" : route.name;
  const wanted = `${name} ${text}`;
  if (wanted === rendered) return;
  const isFirst = rendered === "";
  rendered = wanted;
  const content = await loadScreen(name);
  if (wanted !== rendered) return;
  document.getElementById("outlet").replaceChildren(content);
  document.title = `${titleOf(name)} · icepack`;
  scrollToCurrentLink();
  if (!isFirst) focusHeading();
}

async function loadScreen(name) {
  try {
    const [module, content] = await Promise.all([import(`../views/${name}.js`), loadTemplate(name)]);
    alpine.data(name, module.default);
    return content.cloneNode(true);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    return offlineNotice();
  }
}

async function loadTemplate(name) {
  if (!templates.has(name)) {
    templates.set(name, parseMarkup(await fetchWithIncludes(name)));
  }
  return templates.get(name);
}

/* Replaces <!-- include: rule-editor --> with views/includes/rule-editor.html. */
async function fetchWithIncludes(name) {
  const response = await fetch(`page/views/${name}.html`);
  let text = await response.text();
  for (const [comment, included] of text.matchAll(/<!-- include: ([a-z-]+) -->/g)) {
    const content = await fetchWithIncludes(`includes/${included}`);
    text = text.replace(comment, () => content);
  }
  return text;
}

/* A browser never refetches a module whose import failed, so the whole page has to be reloaded. */
function offlineNotice() {
  const reload = h("button", { type: "button", onclick: () => location.reload() }, "Try again");
  return h("section", { class: "state is-error", role: "alert" }, h("h1", {}, "The service does not respond."), h("p", {}, remedy("unreachable")), reload);
}

function titleOf(name) {
  if (name === "signin") return "Sign in";
  if (route.params.table) return route.params.table;
  return screens.find((screen) => screen.name === name)?.title ?? "Page not found";
}

/* On a phone the navigation scrolls sideways, and the current link may be out of view. */
function scrollToCurrentLink() {
  requestAnimationFrame(() => document.querySelector(".sidebar [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" }));
}

/* Focuses the new screen's heading once it is there, so that screen readers announce it, unless the user has moved the focus. */
function focusHeading() {
  scrollTo(0, 0);
  const main = document.getElementById("main");
  main.focus({ preventScroll: true });
  const deadline = Date.now() + HEADING_TIMEOUT_MS;
  const tryFocus = () => {
    if (document.activeElement !== main && document.activeElement !== document.body) return;
    const heading = [...document.querySelectorAll("#outlet h1")].find((element) => element.checkVisibility() && element.textContent);
    heading?.setAttribute("tabindex", "-1");
    if (heading) heading.focus({ preventScroll: true });
    else if (Date.now() < deadline) setTimeout(tryFocus, 50);
  };
  setTimeout(tryFocus);
}
