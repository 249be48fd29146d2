/* What narrows a list is in the address, so that it can be kept, sent and gone back to. */
import { setQuery } from "./router.js";

export const filters = (names) => ({
  get query() {
    return this.$store.route.query;
  },

  get asked() {
    return JSON.stringify(names.map((name) => this.query[name] ?? ""));
  },

  get isNarrowed() {
    return names.some((name) => this.query[name]);
  },

  set(name, value) {
    setQuery({ [name]: value });
  },

  clear() {
    setQuery(Object.fromEntries(names.map((name) => [name, ""])));
  },
});
