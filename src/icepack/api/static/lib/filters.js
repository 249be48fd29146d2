/* Keeps list filters in the URL, so that a filtered list can be bookmarked, shared and returned to. */
import { setQuery } from "./router.js";

export const filters = (names) => ({
  get query() {
    return this.$store.route.query;
  },

  /* Changes whenever one of the filters changes. */
  get filterKey() {
    return JSON.stringify(names.map((name) => this.query[name] ?? ""));
  },

  get hasFilters() {
    return names.some((name) => this.query[name]);
  },

  set(name, value) {
    setQuery({ [name]: value });
  },

  clear() {
    setQuery(Object.fromEntries(names.map((name) => [name, ""])));
  },
});
