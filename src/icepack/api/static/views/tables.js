/* All tables, with search, filters and sorting. The filters are in the URL. */
import * as api from "../lib/api.js";
import { h } from "../lib/dom.js";
import { filters } from "../lib/filters.js";
import * as format from "../lib/format.js";
import * as labels from "../lib/labels.js";
import { mergeMixins } from "../lib/mixins.js";
import { PagedList } from "../lib/pagination.js";
import { setQuery, tableLink } from "../lib/router.js";
import { showTime } from "../lib/time.js";
import { VirtualList } from "../lib/virtual-list.js";

const PAGE = 200;
const FILTERS = ["search", "catalog", "namespace", "issue", "severity", "action", "native_disabled", "min_score", "max_score"];
const SORTS = [
  ["score", "Lowest score first"],
  ["-score", "Highest score first"],
  ["name", "Name"],
  ["-files", "Most files"],
  ["-bytes", "Largest size"],
  ["-deletes", "Most delete files"],
  ["-changed", "Last changed"],
];
const SCORES = [["", "Any"], ["0-49", "Bad, below 50"], ["50-69", "Poor, 50 to 69"], ["70-89", "Fair, 70 to 89"], ["90-100", "Healthy, 90 or more"]];

const main = () => ({
  total: 0,
  isLoaded: false,
  problem: null,
  catalogs: [],
  namespaces: [],
  issueCodes: labels.issueCodes,
  sorts: SORTS.map(([value, name]) => ({ value, name })),
  columns: [
    { name: "Score", sort: "score", style: "c-score" },
    { name: "Table", sort: "name", style: "c-name" },
    { name: "Issues", style: "c-issues" },
    { name: "Files", sort: "-files", style: "c-num" },
    { name: "Size", sort: "-bytes", style: "c-num" },
    { name: "Delete files", sort: "-deletes", style: "c-num c-wide" },
    { name: "Last compaction", style: "c-when c-wide" },
  ],

  init() {
    const { grid } = this.$refs;
    this.list = new VirtualList(grid, {
      height: () => (innerWidth < 820 ? 64 : 44),
      total: () => this.total,
      at: (index) => this.pages?.items[index],
      need: (index) => this.pages?.need(index),
      draw: drawRow,
      open: (table) => {
        location.hash = tableLink(table.table_name);
      },
    });
    this.$watch("filterKey", () => this.restart());
    this.$watch("sort", () => this.restart());
    this.restart();
    this.loadFilterOptions();
  },

  destroy() {
    this.pages?.abort();
    this.list.destroy();
  },

  get sort() {
    return this.query.sort || "score";
  },

  get isEmpty() {
    return this.isLoaded && this.total === 0;
  },

  get scoreValue() {
    const { min_score: from = "", max_score: to = "" } = this.query;
    return from || to ? `${from || 0}-${to || 100}` : "";
  },

  get scores() {
    const known = SCORES.map(([value, name]) => ({ value, name }));
    const current = this.scoreValue;
    return known.some((score) => score.value === current) ? known : [...known, { value: current, name: current.replace("-", " to ") }];
  },

  get summary() {
    if (!this.isLoaded) return "Loading …";
    const conditions = [];
    if (this.query.issue) conditions.push(`with ${labels.issue(this.query.issue).toLowerCase()}`);
    if (this.query.action) conditions.push(`with a recommendation to ${labels.action(this.query.action).toLowerCase()}`);
    if (this.query.native_disabled === "true") conditions.push("with the native rewrite disabled");
    if (this.scoreValue) conditions.push(`with a score of ${this.scoreValue.replace("-", " to ")}`);
    return `${format.plural(this.total, "table")} ${conditions.join(", ")}`;
  },

  restart() {
    this.pages?.abort();
    this.problem = null;
    this.isLoaded = false;
    const query = Object.fromEntries(FILTERS.map((name) => [name, this.query[name]]));
    const fetchPage = async (cursor, signal) => {
      const page = await api.get("tables", { ...query, sort: this.sort, limit: PAGE, cursor }, { signal });
      return { items: page.tables, next: page.next_cursor, total: page.total };
    };
    this.isNewList = true;
    this.pages = new PagedList(fetchPage, (pages) => this.onPage(pages));
    this.pages.need(0);
  },

  onPage(pages) {
    if (pages.problem) {
      this.problem = { text: pages.problem.message, remedy: pages.problem.remedy };
      return;
    }
    this.total = pages.total;
    this.isLoaded = true;
    if (this.isNewList) this.list.reset();
    this.isNewList = false;
    this.list.scheduleRender();
  },

  /* Loads the catalogs and namespaces to choose from. */
  async loadFilterOptions() {
    try {
      const { tables } = await api.get("overview");
      const catalogs = [...new Set(tables.namespaces.map((item) => item.catalog))];
      this.catalogs = catalogs.length > 1 ? catalogs : [];
      this.namespaces = [...new Set(tables.namespaces.map((item) => item.namespace))].map((value) => ({
        value,
        name: `${value} (${sumTables(tables.namespaces.filter((item) => item.namespace === value))})`,
      }));
    } catch {
      this.namespaces = [];
    }
  },

  setScore(value) {
    const [from = "", to = ""] = value.split("-");
    setQuery({ min_score: from, max_score: to });
  },

  sortBy(order) {
    const reversed = order.startsWith("-") ? order.slice(1) : `-${order}`;
    this.set("sort", this.sort === order ? reversed : order);
  },

  ariaSort(column) {
    if (!column.sort || this.sort.replace("-", "") !== column.sort.replace("-", "")) return null;
    return this.sort.startsWith("-") ? "descending" : "ascending";
  },

  sortArrow(column) {
    const order = this.ariaSort(column);
    return order === "ascending" ? " ↑" : order === "descending" ? " ↓" : "";
  },

  focusList() {
    this.$refs.grid.focus();
    this.list.activate(Math.max(this.list.active, 0));
  },
});

const sumTables = (namespaces) => namespaces.reduce((total, item) => total + item.tables, 0);

function drawRow(table) {
  const { totals } = table;
  const cell = (style, ...content) => h("span", { role: "gridcell", class: style }, ...content);
  const when = h("time");
  showTime(when, table.last_compaction_at, true);
  const issues = table.running ? `${labels.action(table.running.action)} is running` : table.issues.map(labels.issue).join(", ") || "None";
  const prefix = table.table_name.slice(0, table.table_name.length - lastPart(table).length);
  return h(
    "div",
    { class: "row", role: "row" },
    cell("c-score", h("span", { class: "score", "data-band": format.band(table.score) }, String(table.score))),
    cell("c-name", h("a", { href: tableLink(table.table_name), tabindex: "-1", title: table.table_name }, h("span", { class: "dim" }, prefix), lastPart(table)), ...nativeTag(table)),
    cell(`c-issues${table.issues.length ? "" : " dim"}${table.running ? " is-running" : ""}`, issues),
    cell("c-num", format.shortCount(totals.data_files)),
    cell("c-num", format.bytes(totals.bytes)),
    cell("c-num c-wide", totals.delete_files ? format.shortCount(totals.delete_files) : "–"),
    cell("c-when c-wide dim", when),
  );
}

function nativeTag(table) {
  return table.native_disabled ? [" ", h("span", { class: "tag", "data-kind": "warning", title: "The native rewrite is disabled for this table" }, "Native disabled")] : [];
}

/* The table's own name as it appears in its full name, where odd names are quoted. */
function lastPart(item) {
  const { name } = item.table;
  return item.table_name.endsWith(name) ? name : `"${name}"`;
}

export default () => mergeMixins(filters(FILTERS), main());
