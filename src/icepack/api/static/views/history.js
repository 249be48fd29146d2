/* History and cost of maintenance runs: estimated and actual, by day, by action and by table. */
import * as api from "../lib/api.js";
import { compareToEstimate } from "../lib/estimates.js";
import * as format from "../lib/format.js";
import * as labels from "../lib/labels.js";
import { loading } from "../lib/loading.js";
import { link, setQuery, tableLink } from "../lib/router.js";

const PERIODS = [["7", "7 days"], ["30", "30 days"], ["90", "90 days"], ["366", "1 year"]];
const DEFAULT_DAYS = "30";
const MEASURES = {
  dollars: { name: "Cost", estimate: "estimated_dollars", actual: "realised_dollars", format: format.money },
  seconds: { name: "Time", estimate: "estimated_seconds", actual: "realised_seconds", format: format.duration },
  files: { name: "Files removed", estimate: "estimated_files_removed", actual: "files_removed", format: format.shortCount },
  rewritten: { name: "Data rewritten", estimate: "estimated_bytes_rewritten", actual: "bytes_rewritten", format: format.bytes },
  freed: { name: "Storage freed", estimate: null, actual: "bytes_deleted", format: format.bytes },
};
const DAY_MS = 86400e3;
const shortDay = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", timeZone: "UTC" });
const longDay = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeZone: "UTC" });

export default () => ({
  ...loading(),
  data: null,
  periods: PERIODS.map(([value, name]) => ({ value, name })),
  measures: Object.entries(MEASURES).map(([value, measure]) => ({ value, name: measure.name })),

  init() {
    this.refresh();
    this.$watch("days", () => this.refresh());
  },

  refresh() {
    return this.load(async () => {
      this.data = await api.get("cost", { days: this.days });
    });
  },

  get query() {
    return this.$store.route.query;
  },

  get days() {
    return this.query.days ?? DEFAULT_DAYS;
  },

  get measure() {
    return this.query.show in MEASURES ? this.query.show : "dollars";
  },

  set(name, value, defaultValue) {
    setQuery({ [name]: value === defaultValue ? "" : value });
  },

  get isEmpty() {
    return this.data !== null && this.data.total.runs === 0;
  },

  get lead() {
    const { runs, files_removed: files, bytes_deleted: freed, realised_dollars: dollars } = this.data.total;
    const results = [files > 0 && `${format.plural(files, "file")} removed from scans`, freed > 0 && `${format.bytes(freed)} of storage freed`, `total cost about ${format.money(dollars)}`];
    return `${format.plural(runs, "run")} in ${this.periodName}: ${results.filter(Boolean).join(", ")}.`;
  },

  get periodName() {
    return this.days === "366" ? "1 year" : `${this.days} days`;
  },

  get figures() {
    const { total } = this.data;
    const figure = (name, text, note) => ({ name, text, note });
    const estimated = (value, formatValue) => `estimated ${formatValue(value)}`;
    return [
      figure("Cost", format.money(total.realised_dollars), estimated(total.estimated_dollars, format.money)),
      figure("Time", format.duration(total.realised_seconds), estimated(total.estimated_seconds, format.duration)),
      figure("Files removed", format.count(total.files_removed), estimated(total.estimated_files_removed, format.count)),
      figure("Data rewritten", format.bytes(total.bytes_rewritten), estimated(total.estimated_bytes_rewritten, format.bytes)),
      figure("Size reduction", format.bytes(total.bytes_removed), ""),
      figure("Storage freed", format.bytes(total.bytes_deleted), format.plural(total.files_deleted, "file")),
    ];
  },

  get chart() {
    const { estimate, actual, format: formatValue, name } = MEASURES[this.measure];
    const groups = this.allDays.map((day) => {
      const sums = this.data.by_day[day];
      const noon = new Date(`${day}T12:00:00Z`);
      const tip = sums ? [`${name}: ${formatValue(sums[actual])}`, estimate ? `Estimated: ${formatValue(sums[estimate])}` : "", format.plural(sums.runs, "run")] : ["No runs"];
      return { name: longDay.format(noon), short: shortDay.format(noon), estimate: estimate ? (sums?.[estimate] ?? 0) : null, actual: sums?.[actual] ?? 0, tip: tip.filter(Boolean) };
    });
    return { label: `${name} by day, ${estimate ? "estimated and actual" : "actual"}`, height: 210, format: formatValue, groups };
  },

  get hasEstimate() {
    return MEASURES[this.measure].estimate !== null;
  },

  /* Includes days without runs, except for a year, which shows only days with runs. */
  get allDays() {
    const withRuns = Object.keys(this.data.by_day).sort();
    if (Number(this.days) > 100) return withRuns;
    const last = new Date(this.data.until).getTime();
    const first = Math.max(new Date(this.data.since).getTime(), withRuns.length ? new Date(`${withRuns[0]}T00:00:00Z`).getTime() : last);
    const days = [];
    for (let time = first; time <= last; time += DAY_MS) days.push(new Date(time).toISOString().slice(0, 10));
    return [...new Set([...days, ...withRuns])].sort();
  },

  get byAction() {
    return Object.entries(this.data.by_action)
      .map(([kind, sums]) => costRow(kind, labels.action(kind), link("jobs", { action: kind }), sums))
      .sort((first, second) => second.seconds - first.seconds);
  },

  get byTable() {
    return Object.entries(this.data.by_table)
      .map(([name, sums]) => costRow(name, name, tableLink(name), sums))
      .sort((first, second) => second.seconds - first.seconds);
  },
});

function costRow(key, name, href, sums) {
  return {
    key,
    name,
    href,
    seconds: sums.realised_seconds,
    runs: format.count(sums.runs),
    time: format.duration(sums.realised_seconds),
    estimate: format.duration(sums.estimated_seconds),
    difference: compareToEstimate(sums.estimated_seconds, sums.realised_seconds) || "–",
    cost: format.money(sums.realised_dollars),
    files: sums.files_removed > 0 ? format.count(sums.files_removed) : "–",
    freed: sums.bytes_deleted ? format.bytes(sums.bytes_deleted) : "–",
  };
}
