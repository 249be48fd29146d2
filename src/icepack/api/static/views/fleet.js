/* Fleet overview: the health of all tables, and which ones need attention. */
import * as api from "../lib/api.js";
import * as format from "../lib/format.js";
import * as labels from "../lib/labels.js";
import { subscribe } from "../lib/live.js";
import { loading } from "../lib/loading.js";
import { link, tableLink } from "../lib/router.js";

const REFRESH_MS = 30_000;
/* The API caches its counts for two seconds. */
const AFTER_JOB_MS = 2200;
const MAX_UNHEALTHY = 6;

export default () => ({
  ...loading(),
  data: null,

  init() {
    this.refresh();
    this.timer = setInterval(() => document.hidden || this.refresh(), REFRESH_MS);
    this.unsubscribe = subscribe(({ kind }) => kind === "job" && this.refreshSoon());
  },

  destroy() {
    clearInterval(this.timer);
    clearTimeout(this.refreshTimer);
    this.unsubscribe();
  },

  refresh() {
    return this.load(async () => {
      this.data = await api.get("overview");
    });
  },

  refreshSoon() {
    clearTimeout(this.refreshTimer);
    this.refreshTimer = setTimeout(() => this.refresh(), AFTER_JOB_MS);
  },

  get tables() {
    return this.data.tables;
  },

  get isEmpty() {
    return this.data !== null && this.data.tables.count === 0;
  },

  get hasTables() {
    return this.data !== null && this.data.tables.count > 0;
  },

  get emptyText() {
    const failure = this.data?.cache.failure;
    return failure ? `The last health sync failed: ${failure}` : "Health sync has not run yet, or the catalogs contain no tables.";
  },

  get syncedAt() {
    return this.data?.cache.refreshed_at;
  },

  get syncNote() {
    const cache = this.data?.cache;
    if (cache?.refreshing_since) return " (sync in progress)";
    return cache?.failure ? ` (last sync failed: ${cache.failure})` : "";
  },

  get averageScore() {
    return format.count(this.tables.average_score);
  },

  get lead() {
    return withKeys(leadParts(this.data));
  },

  get hasTrend() {
    return this.data.trend.length > 1;
  },

  get trendText() {
    return describeTrend(this.data.trend);
  },

  get trendChart() {
    const points = this.data.trend.map((point) => ({ at: `${point.day}T12:00:00Z`, value: point.average_score }));
    return { label: `Average score by day. ${this.trendText}`, height: 176, from: 0, to: 100, bands: true, points, format: format.count };
  },

  get scoreChart() {
    const bars = this.tables.by_score.map(({ min_score: from, max_score: to, tables }) => ({
      name: `Score ${from} to ${to}`,
      short: String(from),
      value: tables,
      text: format.count(tables),
      tip: [format.plural(tables, "table")],
      band: format.band(from),
      href: link("tables", { min_score: from, max_score: to }),
    }));
    return { label: "Tables by score", height: 176, bars };
  },

  get nativeText() {
    return `The native rewrite is disabled for ${format.plural(this.data.native_disabled, "table")}.`;
  },

  get unhealthy() {
    const tables = this.data.sickest.filter((table) => table.issues.length).slice(0, MAX_UNHEALTHY);
    return tables.map((table) => ({
      ...table,
      band: format.band(table.score),
      href: tableLink(table.table_name),
      issueNames: labels.joinNames(table.issues.slice(0, 3).map(labels.issue)),
      actionNames: table.actions.map(labels.action).slice(0, 2).join(", "),
    }));
  },

  get issues() {
    const issues = Object.entries(this.tables.issues).sort((first, second) => second[1] - first[1]);
    const most = issues[0]?.[1] ?? 1;
    return issues.map(([code, tables]) => ({
      code,
      tables,
      name: labels.issue(code),
      description: labels.issueDescription(code),
      width: `${(tables / most) * 100}%`,
      href: link("tables", { issue: code }),
    }));
  },

  get totals() {
    const { tables, trend } = this.data;
    const total = (name, key, text, sort) => ({
      name,
      text,
      href: link("tables", { sort }),
      sparkline: { label: `${name} over 30 days`, values: trend.map((point) => point[key]) },
    });
    return [
      total("Tables", "tables", format.count(tables.count), "name"),
      total("Data files", "data_files", format.shortCount(tables.data_files), "-files"),
      total("Data size", "bytes", format.bytes(tables.bytes), "-bytes"),
      total("Rows", "records", format.shortCount(tables.records), "-bytes"),
      total("Delete files", "delete_files", format.shortCount(tables.delete_files), "-deletes"),
    ];
  },

  get jobs() {
    const { jobs, jobs_last_day: ended } = this.data;
    const figure = (state, count) => ({ state, count, name: labels.state(state), isBad: state === "failed" && count > 0, href: link("jobs", { state }) });
    return [
      figure("running", jobs.running),
      figure("queued", jobs.queued),
      figure("failed", ended.failed),
      figure("succeeded", ended.succeeded),
    ];
  },

  get jobText() {
    const { jobs, jobs_last_day: ended } = this.data;
    if (ended.failed) return `${format.plural(ended.failed, "job")} failed in the last 24 hours. Open a job to see the error and to retry it.`;
    if (jobs.running) return "Jobs are running; none failed in the last 24 hours.";
    return jobs.queued ? "Jobs are waiting for a worker." : "No active jobs; none failed in the last 24 hours.";
  },

  get savings() {
    return savingsRows(this.data.maintenance);
  },
});

const withKeys = (parts) => parts.map((part, index) => (typeof part === "string" ? { key: index, text: part } : { key: index, ...part }));

/* Summarises the screen in two sentences. */
function leadParts({ tables }) {
  const unhealthy = tables.count - tables.by_severity.healthy;
  if (!unhealthy) return [{ text: format.plural(tables.count, "table"), href: link("tables") }, ", no issues."];
  const [code, count] = Object.entries(tables.issues).sort((first, second) => second[1] - first[1])[0];
  const parts = [
    { text: `${format.count(unhealthy)} of ${format.plural(tables.count, "table")}`, href: link("tables", { sort: "score" }) },
    unhealthy === 1 ? " has issues. Most common: " : " have issues. Most common: ",
    { text: labels.issue(code).toLowerCase(), href: link("tables", { issue: code }) },
    ` (${format.plural(count, "table")}).`,
  ];
  const recommended = Object.values(tables.recommended).reduce((sum, number) => sum + number, 0);
  if (recommended) parts.push(` Estimated cost of all recommended actions: ${format.money(tables.estimated_dollars)}.`);
  return parts;
}

function describeTrend(trend) {
  if (trend.length < 2) return "";
  const change = Math.round(trend.at(-1).average_score - trend[0].average_score);
  const since = `since ${format.date(`${trend[0].day}T12:00:00Z`)}`;
  return change ? `${change > 0 ? "Up" : "Down"} ${format.plural(Math.abs(change), "point")} ${since}` : `Unchanged ${since}`;
}

function savingsRows(sums) {
  if (!sums.runs) return [];
  const row = (name, estimate, actual, note, isShown) => isShown && { name, estimate, actual, note };
  return [
    row("Files removed from scans", format.count(sums.estimated_files_removed), format.count(sums.files_removed), "Fewer requests and faster planning for every query.", sums.files_removed),
    row("Data rewritten", format.bytes(sums.estimated_bytes_rewritten), format.bytes(sums.bytes_rewritten), sums.bytes_removed > 0 ? `Data size reduced by ${format.bytes(sums.bytes_removed)}.` : "Each file is read once and written once.", sums.bytes_rewritten),
    row("Storage freed", "–", format.bytes(sums.bytes_deleted), `${format.plural(sums.files_deleted, "unreferenced file")} deleted.`, sums.bytes_deleted),
    row("Worker time", format.duration(sums.estimated_seconds), format.duration(sums.realised_seconds), `${format.plural(sums.runs, "run")}, measured.`, true),
    row("Cost", format.money(sums.estimated_dollars), format.money(sums.realised_dollars), "At the configured prices.", true),
  ].filter(Boolean);
}
