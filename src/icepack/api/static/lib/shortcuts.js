/* Keyboard shortcuts: `g` and a letter open a screen, `/` searches, `?` shows help, j and k move through lists. */
import { screens } from "../screens.js";
import { openHelp } from "./dialogs.js";
import { go } from "./router.js";

const SEQUENCE_MS = 1200;
let gPressedAt = 0;

export const shortcutList = () => [
  ...screens.filter((screen) => screen.key).map((screen) => ({ keys: `g ${screen.key}`, description: `Go to ${screen.title}` })),
  { keys: "/", description: "Search" },
  { keys: "j k", description: "Next and previous item in a list (also arrow keys)" },
  { keys: "Enter", description: "Open the selected item" },
  { keys: "Esc", description: "Leave a search field or close a dialog" },
  { keys: "?", description: "Show keyboard shortcuts" },
];

export const startShortcuts = () => addEventListener("keydown", onKey);

const isTyping = (target) => target.closest("input, textarea, select, [contenteditable]") !== null;

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (isTyping(event.target)) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  if (event.key === "g") gPressedAt = Date.now();
  else if (Date.now() - gPressedAt < SEQUENCE_MS && goToScreen(event.key)) event.preventDefault();
  else if (runShortcut(event.key)) event.preventDefault();
}

function goToScreen(key) {
  gPressedAt = 0;
  const screen = screens.find((candidate) => candidate.key === key);
  if (screen) go(screen.path);
  return screen !== undefined;
}

function runShortcut(key) {
  if (key === "?") openHelp();
  else if (key === "/") document.querySelector("[data-search]")?.focus();
  else if (key === "j" || key === "ArrowDown") return moveFocus(1);
  else if (key === "k" || key === "ArrowUp") return moveFocus(-1);
  else return false;
  return true;
}

/* Moves the focus between the elements marked data-row in a container marked data-keyboard-list. */
function moveFocus(step) {
  const list = document.querySelector("[data-keyboard-list]");
  if (!list) return false;
  const rows = [...list.querySelectorAll("[data-row]")];
  const current = rows.indexOf(document.activeElement);
  if (current < 0 && document.activeElement !== document.body && !document.activeElement.matches("h1, main")) return false;
  rows[Math.min(Math.max(current + step, 0), rows.length - 1)]?.focus();
  return rows.length > 0;
}
