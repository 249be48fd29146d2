/* What stays while screens change: navigation, theme, help. */
import { screens } from "../screens.js";
import { openHelp } from "./dialogs.js";
import { keyLines } from "./keys.js";

const KEPT = "icepack.theme";
const system = matchMedia("(prefers-color-scheme: dark)");

export const shell = () => ({
  theme: document.documentElement.dataset.theme ?? "",
  isSystemDark: system.matches,
  keyLines: keyLines(),

  /* Some systems turn dark in the evening. */
  init() {
    system.addEventListener("change", () => {
      this.isSystemDark = system.matches;
    });
  },

  get screens() {
    return screens.filter((screen) => screen.key && (!screen.role || this.$store.session.may(screen.role)));
  },

  get themeName() {
    return this.isDark() ? "Light" : "Dark";
  },

  isDark() {
    return this.theme ? this.theme === "dark" : this.isSystemDark;
  },

  isHere(screen) {
    const here = screens.find((one) => one.name === this.$store.route.name);
    return here && (here.name === screen.name || here.within === screen.name) ? "page" : null;
  },

  toggleTheme() {
    this.theme = this.isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = this.theme;
    localStorage.setItem(KEPT, this.theme);
  },

  help() {
    openHelp();
  },

  skip() {
    document.getElementById("main").focus();
  },
});
