/* What maintenance did and cost: estimated beside realised, by day, by action, by table. */
import * as api from "../lib/api.js";
import { offBy } from "../lib/compare.js";
import * as format from "../lib/format.js";
import { loading } from "../lib/loading.js";
import { link, setQuery, tableLink } from "../lib/router.js";
import * as words from "../lib/words.js";

const SPANS = [["7", "7 days"], ["30", "30 days"], ["90", "90 days"], ["366", "A year"]];
const USUAL = "30";
const MEASURES = {
  dollars: { name: "Cost", expected: "estimated_dollars", real: "realised_dollars", format: format.money },
  seconds: { name: "Time", expected: "estimated_seconds", real: "realised_seconds", format: format.duration },
  files: { name: "Fewer files", expected: "estimated_files_removed", real: "files_removed", format: format.brief },
  rewritten: { name: "Data rewritten", expected: "estimated_bytes_rewritten", real: "bytes_rewritten", format: format.bytes },
  freed: { name: "Storage freed", expected: null, real: "bytes_deleted", format: format.bytes },
};
const DAY = 86400e3;
const short = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", timeZone: "UTC" });
const long = new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeZone: "UTC" });

export default () => ({
  ...loading(),
  found: null,
  spans: SPANS.map(([value, name]) => ({ value, name })),
  measures: Object.entries(MEASURES).map(([value, one]) => ({ value, name: one.name })),

  init() {
    this.refresh();
    this.$watch("days", () => this.refresh());
  },

  refresh() {
    return this.load(async () => {
      this.found = await api.get("cost", { days: this.days });
    });
  },

  get query() {
    return this.$store.route.query;
  },

  get days() {
    return this.query.days ?? USUAL;
  },

  get measure() {
    return this.query.show in MEASURES ? this.query.show : "dollars";
  },

  set(name, value, usual) {
    setQuery({ [name]: value === usual ? "" : value });
  },

  get isEmpty() {
    return this.found !== null && this.found.total.runs === 0;
  },

  get lead() {
    const { runs, files_removed: files, bytes_deleted: freed, realised_dollars: dollars } = this.found.total;
    const gains = [files > 0 && `left ${format.plural(files, "file")} fewer to open`, freed > 0 && `freed ${format.bytes(freed)}`].filter(Boolean);
    return `${format.plural(runs, "run")} in ${this.spanName} ${gains.length ? `${gains.join(" and ")}, and ` : ""}cost about ${format.money(dollars)}.`;
  },

  get spanName() {
    return this.days === "366" ? "a year" : `${this.days} days`;
  },

  get figures() {
    const { total } = this.found;
    const figure = (name, text, note) => ({ name, text, note });
    const of = (guess, written) => `estimated ${written(guess)}`;
    return [
      figure("Cost", format.money(total.realised_dollars), of(total.estimated_dollars, format.money)),
      figure("Time", format.duration(total.realised_seconds), of(total.estimated_seconds, format.duration)),
      figure("Fewer files", format.count(total.files_removed), of(total.estimated_files_removed, format.count)),
      figure("Data rewritten", format.bytes(total.bytes_rewritten), of(total.estimated_bytes_rewritten, format.bytes)),
      figure("Saved by rewriting", format.bytes(total.bytes_removed), ""),
      figure("Freed from storage", format.bytes(total.bytes_deleted), format.plural(total.files_deleted, "file")),
    ];
  },

  get chart() {
    const { expected, real, format: written, name } = MEASURES[this.measure];
    const pairs = this.allDays.map((day) => {
      const sums = this.found.by_day[day];
      const at = new Date(`${day}T12:00:00Z`);
      const tip = sums ? [`${name}: ${written(sums[real])}`, expected ? `Estimated: ${written(sums[expected])}` : "", format.plural(sums.runs, "run")] : ["Nothing ran"];
      return { name: long.format(at), short: short.format(at), expected: expected ? (sums?.[expected] ?? 0) : null, real: sums?.[real] ?? 0, tip: tip.filter(Boolean) };
    });
    return { label: `${name} by day, ${expected ? "estimated beside realised" : "realised"}`, height: 210, format: written, pairs };
  },

  get hasEstimate() {
    return MEASURES[this.measure].expected !== null;
  },

  /* Days without a run are days too; a year is shown by those that have any. */
  get allDays() {
    const known = Object.keys(this.found.by_day).sort();
    if (Number(this.days) > 100) return known;
    const last = new Date(this.found.until).getTime();
    const first = Math.max(new Date(this.found.since).getTime(), known.length ? new Date(`${known[0]}T00:00:00Z`).getTime() : last);
    const found = [];
    for (let at = first; at <= last; at += DAY) found.push(new Date(at).toISOString().slice(0, 10));
    return [...new Set([...found, ...known])].sort();
  },

  get byAction() {
    return Object.entries(this.found.by_action)
      .map(([kind, sums]) => row(kind, words.action(kind), link("jobs", { action: kind }), sums))
      .sort((one, other) => other.seconds - one.seconds);
  },

  get byTable() {
    return Object.entries(this.found.by_table)
      .map(([name, sums]) => row(name, name, tableLink(name), sums))
      .sort((one, other) => other.seconds - one.seconds);
  },
});

function row(key, name, href, sums) {
  return {
    key,
    name,
    href,
    seconds: sums.realised_seconds,
    runs: format.count(sums.runs),
    time: format.duration(sums.realised_seconds),
    guess: format.duration(sums.estimated_seconds),
    off: offBy(sums.estimated_seconds, sums.realised_seconds) || "–",
    cost: format.money(sums.realised_dollars),
    files: sums.files_removed > 0 ? format.count(sums.files_removed) : "–",
    freed: sums.bytes_deleted ? format.bytes(sums.bytes_deleted) : "–",
  };
}
