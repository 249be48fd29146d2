/* The application shell around the screens: navigation, theme and help. */
import { screens } from "../screens.js";
import { openHelp } from "./dialogs.js";
import { shortcutList } from "./shortcuts.js";

const STORAGE_KEY = "icepack.theme";
const system = matchMedia("(prefers-color-scheme: dark)");

export const shell = () => ({
  theme: document.documentElement.dataset.theme ?? "",
  isSystemDark: system.matches,
  shortcuts: shortcutList(),

  /* Some systems switch to dark mode in the evening. */
  init() {
    system.addEventListener("change", () => {
      this.isSystemDark = system.matches;
    });
  },

  get screens() {
    return screens.filter((screen) => screen.key && (!screen.role || this.$store.session.hasRole(screen.role)));
  },

  get otherTheme() {
    return this.isDark() ? "Light theme" : "Dark theme";
  },

  isDark() {
    return this.theme ? this.theme === "dark" : this.isSystemDark;
  },

  ariaCurrent(screen) {
    const current = screens.find((other) => other.name === this.$store.route.name);
    return current && (current.name === screen.name || current.within === screen.name) ? "page" : null;
  },

  toggleTheme() {
    this.theme = this.isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = this.theme;
    localStorage.setItem(STORAGE_KEY, this.theme);
  },

  help() {
    openHelp();
  },

  skipToContent() {
    document.getElementById("main").focus();
  },
});
