/* The address says what is shown: #/tables?issue=small_files. A changed query alone changes no screen. */
import { screens } from "../screens.js";
import { h, ownMarkup } from "./dom.js";
import { remedy } from "./words.js";

const ARRIVAL_MS = 5000;
let alpine = null;
let route = null;
let shown = "";
const markup = new Map();

export const router = {
  route: { name: "", params: {}, query: {}, text: "" },

  attach(library, store) {
    alpine = library;
    route = store;
  },

  /* Fetches the screen that the address names, while it is still being found out who is looking. */
  warm() {
    follow();
    void open(route.name);
  },

  start() {
    addEventListener("hashchange", follow);
    addEventListener("resize", showWhere);
    follow();
    alpine.effect(() => void render(alpine.store("session").state, route.text));
  },
};

export function link(path, query = {}) {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "") given.append(name, value);
  }
  const text = given.toString();
  return `#/${path}${text ? `?${text}` : ""}`;
}

export const tableLink = (name, query) => link(`tables/${encodeURIComponent(name)}`, query);

export const go = (path, query) => {
  location.hash = link(path, query);
};

/* Changes the query in place; each step of typing into a search field is no step back. */
export function setQuery(changes) {
  const path = location.hash.replace(/^#\/?/, "").split("?")[0];
  history.replaceState(null, "", link(path, { ...route.query, ...changes }));
  follow();
}

function parse(hash) {
  const [path, query] = hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decoded);
  for (const screen of screens) {
    const params = fit(screen.path.split("/").filter(Boolean), parts);
    if (params) return { name: screen.name, params, query: Object.fromEntries(new URLSearchParams(query ?? "")) };
  }
  return { name: "missing", params: {}, query: {} };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function fit(pattern, parts) {
  if (pattern.length !== parts.length) return null;
  const params = {};
  for (const [at, piece] of pattern.entries()) {
    if (piece.startsWith(":")) params[piece.slice(1)] = parts[at];
    else if (piece !== parts[at]) return null;
  }
  return params;
}

function follow() {
  const found = parse(location.hash);
  Object.assign(route, found);
  route.text = JSON.stringify([found.name, found.params]);
}

async function render(state, text) {
  if (state === "unknown") return;
  const name = state === "out" ? "signin" : route.name;
  const wanted = `${name} ${text}`;
  if (wanted === shown) return;
  const isFirst = shown === "";
  shown = wanted;
  const content = await open(name);
  if (wanted !== shown) return;
  document.getElementById("outlet").replaceChildren(content);
  document.title = `${titleOf(name)} · icepack`;
  showWhere();
  if (!isFirst) arrive();
}

async function open(name) {
  try {
    const [module, content] = await Promise.all([import(`../views/${name}.js`), fetchMarkup(name)]);
    alpine.data(name, module.default);
    return content.cloneNode(true);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    return unreachable();
  }
}

async function fetchMarkup(name) {
  if (!markup.has(name)) {
    markup.set(name, ownMarkup(await fetchWhole(name)));
  }
  return markup.get(name);
}

/* With the parts that several screens share in place of their names: <!-- part: editor --> */
async function fetchWhole(name) {
  const answer = await fetch(`page/views/${name}.html`);
  let text = await answer.text();
  for (const [mark, wanted] of text.matchAll(/<!-- part: ([a-z]+) -->/g)) {
    const part = await fetchWhole(`parts/${wanted}`);
    text = text.replace(mark, () => part);
  }
  return text;
}

/* A browser does not ask again for a module that it could not get, so the whole page has to. */
function unreachable() {
  const again = h("button", { type: "button", onclick: () => location.reload() }, "Try again");
  return h("section", { class: "state is-error", role: "alert" }, h("h1", {}, "The service does not answer."), h("p", {}, remedy("unreachable")), again);
}

function titleOf(name) {
  if (name === "signin") return "Sign in";
  if (route.params.table) return route.params.table;
  return screens.find((screen) => screen.name === name)?.title ?? "Nothing here";
}

/* On a phone the navigation is a strip, of which the current screen's name may be out of sight. */
function showWhere() {
  requestAnimationFrame(() => document.querySelector(".side [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" }));
}

/* Who listens to the page hears the new screen's name, as soon as it is there; unless they have moved on by then. */
function arrive() {
  scrollTo(0, 0);
  const main = document.getElementById("main");
  main.focus({ preventScroll: true });
  const until = Date.now() + ARRIVAL_MS;
  const look = () => {
    if (document.activeElement !== main && document.activeElement !== document.body) return;
    const heading = [...document.querySelectorAll("#outlet h1")].find((one) => one.checkVisibility() && one.textContent);
    heading?.setAttribute("tabindex", "-1");
    if (heading) heading.focus({ preventScroll: true });
    else if (Date.now() < until) setTimeout(look, 50);
  };
  setTimeout(look);
}
