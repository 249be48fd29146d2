/* The keyboard: `g` and a letter go to a screen, `/` searches, `?` helps, j and k walk through lists. */
import { screens } from "../screens.js";
import { openHelp } from "./dialogs.js";
import { go } from "./router.js";

const WAIT_MS = 1200;
let gAt = 0;

export const keyLines = () => [
  ...screens.filter((screen) => screen.key).map((screen) => ({ keys: `g ${screen.key}`, does: `Go to ${screen.title}` })),
  { keys: "/", does: "Search" },
  { keys: "j k", does: "Next and previous in a list; the arrow keys do the same" },
  { keys: "Enter", does: "Open what is marked" },
  { keys: "Esc", does: "Leave a search field or a dialog" },
  { keys: "?", does: "This help" },
];

export const keys = {
  start() {
    addEventListener("keydown", onKey);
  },
};

const isTyping = (target) => target.closest("input, textarea, select, [contenteditable]") !== null;

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (isTyping(event.target)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.key === "g") gAt = Date.now();
  else if (Date.now() - gAt < WAIT_MS && goTo(event.key)) event.preventDefault();
  else if (act(event.key)) event.preventDefault();
}

function goTo(key) {
  gAt = 0;
  const screen = screens.find((one) => one.key === key);
  if (screen) go(screen.path);
  return screen !== undefined;
}

function act(key) {
  if (key === "?") openHelp();
  else if (key === "/") document.querySelector("[data-search]")?.focus();
  else if (key === "j" || key === "ArrowDown") return walk(1);
  else if (key === "k" || key === "ArrowUp") return walk(-1);
  else return false;
  return true;
}

/* Any container with data-walk: its links and buttons marked data-row are walked through. */
function walk(step) {
  const list = document.querySelector("[data-walk]");
  if (!list) return false;
  const rows = [...list.querySelectorAll("[data-row]")];
  const at = rows.indexOf(document.activeElement);
  if (at < 0 && document.activeElement !== document.body && !document.activeElement.matches("h1, main")) return false;
  rows[Math.min(Math.max(at + step, 0), rows.length - 1)]?.focus();
  return rows.length > 0;
}
