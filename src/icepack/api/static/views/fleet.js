/* How healthy the lake is, and where to look first. */
import * as api from "../lib/api.js";
import * as format from "../lib/format.js";
import { listen } from "../lib/live.js";
import { loading } from "../lib/loading.js";
import { link, tableLink } from "../lib/router.js";
import * as words from "../lib/words.js";

const AGAIN_MS = 30_000;
const SHOWN = 6;

export default () => ({
  ...loading(),
  found: null,

  init() {
    this.refresh();
    this.timer = setInterval(() => document.hidden || this.refresh(), AGAIN_MS);
    this.stop = listen(({ kind }) => kind === "job" && this.soon());
  },

  destroy() {
    clearInterval(this.timer);
    clearTimeout(this.later);
    this.stop();
  },

  refresh() {
    return this.load(async () => {
      this.found = await api.get("overview");
    });
  },

  /* Counts are remembered for two seconds there. */
  soon() {
    clearTimeout(this.later);
    this.later = setTimeout(() => this.refresh(), 2200);
  },

  get tables() {
    return this.found.tables;
  },

  get isEmpty() {
    return this.found !== null && this.found.tables.count === 0;
  },

  get hasTables() {
    return this.found !== null && this.found.tables.count > 0;
  },

  get emptyWords() {
    const failure = this.found?.cache.failure;
    return failure ? `The last look failed: ${failure}` : "The catalogs have not been looked at, or they are empty.";
  },

  get seenAt() {
    return this.found?.cache.refreshed_at;
  },

  get seenNote() {
    const cache = this.found?.cache;
    return cache?.refreshing_since ? "; the next look is under way." : cache?.failure ? `; the last try failed: ${cache.failure}` : ".";
  },

  get averageScore() {
    return format.count(this.tables.average_score);
  },

  get lead() {
    return numbered(leadOf(this.found));
  },

  get hasTrend() {
    return this.found.trend.length > 1;
  },

  get trendWords() {
    return trendWords(this.found.trend);
  },

  get trendChart() {
    const points = this.found.trend.map((point) => ({ at: `${point.day}T12:00:00Z`, value: point.average_score }));
    return { label: `Average score by day. ${this.trendWords}`, height: 176, from: 0, to: 100, bands: true, points, format: format.count };
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

  get nativeWords() {
    const count = this.found.native_disabled;
    return `The native rewrite is off for ${format.plural(count, "table")}.`;
  },

  get sick() {
    const found = this.found.sickest.filter((item) => item.issues.length).slice(0, SHOWN);
    return found.map((item) => ({
      ...item,
      band: format.band(item.score),
      href: tableLink(item.table_name),
      why: words.joined(item.issues.slice(0, 3).map(words.issue)),
      cure: item.actions.map(words.action).slice(0, 2).join(", "),
    }));
  },

  get issues() {
    const found = Object.entries(this.tables.issues).sort((one, other) => other[1] - one[1]);
    const most = found[0]?.[1] ?? 1;
    return found.map(([code, tables]) => ({
      code,
      tables,
      name: words.issue(code),
      means: words.issueMeans(code),
      width: `${(tables / most) * 100}%`,
      href: link("tables", { issue: code }),
    }));
  },

  get amounts() {
    const { tables, trend } = this.found;
    const line = (name, key, text, sort) => ({
      name,
      text,
      href: link("tables", { sort }),
      spark: { label: `${name} over 30 days`, values: trend.map((point) => point[key]) },
    });
    return [
      line("Tables", "tables", format.count(tables.count), "name"),
      line("Data files", "data_files", format.brief(tables.data_files), "-files"),
      line("Data", "bytes", format.bytes(tables.bytes), "-bytes"),
      line("Rows", "records", format.brief(tables.records), "-bytes"),
      line("Delete files", "delete_files", format.brief(tables.delete_files), "-deletes"),
    ];
  },

  get jobs() {
    const { jobs, jobs_last_day: ended } = this.found;
    const line = (state, count) => ({ state, count, name: words.state(state), isBad: state === "failed" && count > 0, href: link("jobs", { state }) });
    return [
      line("running", jobs.running),
      line("queued", jobs.queued),
      line("failed", ended.failed),
      line("succeeded", ended.succeeded),
    ];
  },

  get jobWords() {
    const { jobs, jobs_last_day: ended } = this.found;
    if (ended.failed) return `${format.plural(ended.failed, "job")} failed in the last 24 hours. Each says why, and can be retried.`;
    if (jobs.running) return "Work is under way; nothing failed in the last 24 hours.";
    return jobs.queued ? "Jobs wait for a worker." : "Nothing waits, and nothing failed in the last 24 hours.";
  },

  get savings() {
    return savingsOf(this.found.maintenance);
  },
});

const numbered = (pieces) => pieces.map((piece, at) => (typeof piece === "string" ? { at, text: piece } : { at, ...piece }));

/* The whole screen in two sentences. */
function leadOf({ tables }) {
  const well = tables.by_severity.healthy;
  const sick = tables.count - well;
  if (!sick) return [{ text: format.plural(tables.count, "table"), href: link("tables") }, ", and nothing is wrong with any of them."];
  const [code, count] = Object.entries(tables.issues).sort((one, other) => other[1] - one[1])[0];
  const pieces = [
    { text: `${format.count(sick)} of ${format.plural(tables.count, "table")}`, href: link("tables", { sort: "score" }) },
    sick === 1 ? " has an issue; " : " have an issue; most often it is ",
  ];
  pieces.push(sick === 1 ? "it is " : "", { text: words.issue(code).toLowerCase(), href: link("tables", { issue: code }) }, sick === 1 ? "." : `, in ${format.count(count)} of them.`);
  const advised = Object.values(tables.recommended).reduce((sum, one) => sum + one, 0);
  if (advised) pieces.push(` All that is recommended should cost about ${format.money(tables.estimated_dollars)}.`);
  return pieces.filter(Boolean);
}

function trendWords(trend) {
  if (trend.length < 2) return "";
  const change = Math.round(trend.at(-1).average_score - trend[0].average_score);
  if (!change) return `As ${format.date(`${trend[0].day}T12:00:00Z`)}`;
  return `${change > 0 ? "Up" : "Down"} ${format.plural(Math.abs(change), "point")} since ${format.date(`${trend[0].day}T12:00:00Z`)}`;
}

function savingsOf(sums) {
  if (!sums.runs) return [];
  const row = (name, estimated, realised, means, worth) => worth && { name, estimated, realised, means };
  return [
    row("Files that readers open no more", format.count(sums.estimated_files_removed), format.count(sums.files_removed), "Fewer requests and shorter plans for every query.", sums.files_removed),
    row("Data rewritten", format.bytes(sums.estimated_bytes_rewritten), format.bytes(sums.bytes_rewritten), sums.bytes_removed > 0 ? `Now ${format.bytes(sums.bytes_removed)} smaller.` : "Read once, written once.", sums.bytes_rewritten),
    row("Freed in storage", "–", format.bytes(sums.bytes_deleted), `${format.plural(sums.files_deleted, "file")} that nothing referred to any more.`, sums.bytes_deleted),
    row("Time of workers", format.duration(sums.estimated_seconds), format.duration(sums.realised_seconds), `${format.plural(sums.runs, "run")}; the seconds were measured.`, true),
    row("Cost", format.money(sums.estimated_dollars), format.money(sums.realised_dollars), "By the prices in the configuration.", true),
  ].filter(Boolean);
}
