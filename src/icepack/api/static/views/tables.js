/* All tables: narrowed, ordered, walked through. What is chosen is in the address. */
import * as api from "../lib/api.js";
import { h } from "../lib/dom.js";
import { filters } from "../lib/filters.js";
import * as format from "../lib/format.js";
import { join } from "../lib/join.js";
import { Pages } from "../lib/pages.js";
import { Rows } from "../lib/rows.js";
import { setQuery, tableLink } from "../lib/router.js";
import { show as showTime } from "../lib/times.js";
import * as words from "../lib/words.js";

const PAGE = 200;
const FILTERS = ["search", "catalog", "namespace", "issue", "severity", "action", "native_disabled", "min_score", "max_score"];
const SORTS = [
  ["score", "Sickest first"],
  ["-score", "Healthiest first"],
  ["name", "Name"],
  ["-files", "Most files"],
  ["-bytes", "Most data"],
  ["-deletes", "Most deletes"],
  ["-changed", "Changed last"],
];
const SCORES = [["", "Any"], ["0-49", "Bad, below 50"], ["50-69", "Poor, 50 to 69"], ["70-89", "Fair, 70 to 89"], ["90-100", "Healthy, 90 or more"]];

const main = () => ({
  total: 0,
  loaded: 0,
  isDone: false,
  problem: null,
  catalogs: [],
  namespaces: [],
  issueCodes: words.issueCodes,
  sorts: SORTS.map(([value, name]) => ({ value, name })),
  columns: [
    { name: "Score", sort: "score", style: "c-score" },
    { name: "Table", sort: "name", style: "c-name" },
    { name: "What is wrong", style: "c-why" },
    { name: "Files", sort: "-files", style: "c-num" },
    { name: "Data", sort: "-bytes", style: "c-num" },
    { name: "Deletes", sort: "-deletes", style: "c-num c-wide" },
    { name: "Compacted", style: "c-when c-wide" },
  ],

  init() {
    const { grid } = this.$refs;
    this.list = new Rows(grid, {
      height: () => (innerWidth < 820 ? 64 : 44),
      total: () => this.total,
      at: (number) => this.pages?.items[number],
      need: (number) => this.pages?.need(number),
      draw,
      open: (item) => {
        location.hash = tableLink(item.table_name);
      },
    });
    this.$watch("asked", () => this.restart());
    this.$watch("sort", () => this.restart());
    this.restart();
    this.names();
  },

  destroy() {
    this.pages?.end();
    this.list.end();
  },

  get sort() {
    return this.query.sort || "score";
  },

  get isNone() {
    return this.isDone && this.total === 0;
  },

  get scoreValue() {
    const { min_score: from = "", max_score: to = "" } = this.query;
    return from || to ? `${from || 0}-${to || 100}` : "";
  },

  get scores() {
    const known = SCORES.map(([value, name]) => ({ value, name }));
    const here = this.scoreValue;
    return known.some((one) => one.value === here) ? known : [...known, { value: here, name: here.replace("-", " to ") }];
  },

  get summary() {
    if (!this.isDone) return "Looking …";
    const narrowed = [];
    if (this.query.issue) narrowed.push(`with ${words.issue(this.query.issue).toLowerCase()}`);
    if (this.query.action) narrowed.push(`that want ${words.action(this.query.action).toLowerCase()}`);
    if (this.query.native_disabled === "true") narrowed.push("with the native rewrite off");
    if (this.scoreValue) narrowed.push(`scored ${this.scoreValue.replace("-", " to ")}`);
    return `${format.plural(this.total, "table")} ${narrowed.join(", ")}`;
  },

  restart() {
    this.pages?.end();
    this.problem = null;
    this.isDone = false;
    const asked = Object.fromEntries(FILTERS.map((name) => [name, this.query[name]]));
    const fetch = async (cursor, signal) => {
      const found = await api.get("tables", { ...asked, sort: this.sort, limit: PAGE, cursor }, { signal });
      return { items: found.tables, next: found.next_cursor, total: found.total };
    };
    this.isFresh = true;
    this.pages = new Pages(fetch, (pages) => this.arrived(pages));
    this.pages.need(0);
  },

  arrived(pages) {
    if (pages.problem) {
      this.problem = { text: pages.problem.message, remedy: pages.problem.remedy };
      return;
    }
    this.total = pages.total;
    this.isDone = true;
    if (this.isFresh) this.list.reset();
    this.isFresh = false;
    this.list.plan();
  },

  /* What there is to choose from. */
  async names() {
    try {
      const { tables } = await api.get("overview");
      const many = new Set(tables.namespaces.map((one) => one.catalog)).size > 1;
      this.catalogs = [...new Set(tables.namespaces.map((one) => one.catalog))];
      this.namespaces = [...new Set(tables.namespaces.map((one) => one.namespace))].map((value) => ({
        value,
        name: `${value} (${sum(tables.namespaces.filter((one) => one.namespace === value))})`,
      }));
      if (!many) this.catalogs = [];
    } catch {
      this.namespaces = [];
    }
  },

  setScore(value) {
    const [from = "", to = ""] = value.split("-");
    setQuery({ min_score: from, max_score: to });
  },

  sortBy(wanted) {
    const reversed = wanted.startsWith("-") ? wanted.slice(1) : `-${wanted}`;
    this.set("sort", this.sort === wanted ? reversed : wanted);
  },

  ariaSort(column) {
    if (!column.sort || this.sort.replace("-", "") !== column.sort.replace("-", "")) return null;
    return this.sort.startsWith("-") ? "descending" : "ascending";
  },

  mark(column) {
    const order = this.ariaSort(column);
    return order === "ascending" ? " ↑" : order === "descending" ? " ↓" : "";
  },

  focusList() {
    this.$refs.grid.focus();
    this.list.mark(Math.max(this.list.marked, 0));
  },
});

const sum = (lines) => lines.reduce((total, one) => total + one.tables, 0);

function draw(item) {
  const { totals } = item;
  const cell = (style, ...content) => h("span", { role: "gridcell", class: style }, ...content);
  const when = h("time");
  showTime(when, item.last_compaction_at, true);
  const why = item.running ? `${words.action(item.running.action)} is running` : item.issues.map(words.issue).join(", ") || "Nothing";
  const prefix = item.table_name.slice(0, item.table_name.length - lastPart(item).length);
  return h(
    "div",
    { class: "row", role: "row" },
    cell("c-score", h("span", { class: "score", "data-band": format.band(item.score) }, String(item.score))),
    cell("c-name", h("a", { href: tableLink(item.table_name), tabindex: "-1", title: item.table_name }, h("span", { class: "dim" }, prefix), lastPart(item)), ...nativeMark(item)),
    cell(`c-why${item.issues.length ? "" : " dim"}${item.running ? " is-running" : ""}`, why),
    cell("c-num", format.brief(totals.data_files)),
    cell("c-num", format.bytes(totals.bytes)),
    cell("c-num c-wide", totals.delete_files ? format.brief(totals.delete_files) : "–"),
    cell("c-when c-wide dim", when),
  );
}

function nativeMark(item) {
  return item.native_disabled ? [" ", h("span", { class: "tag", "data-kind": "warning", title: "The native rewrite is switched off for this table" }, "Native off")] : [];
}

function lastPart(item) {
  const { name } = item.table;
  return item.table_name.endsWith(name) ? name : `"${name}"`;
}

export default () => join(filters(FILTERS), main());
