/* What runs when: the week ahead, windows, budgets, and schedules with what a change would do. */
import * as api from "../lib/api.js";
import { cron } from "../lib/cron.js";
import * as format from "../lib/format.js";
import { join } from "../lib/join.js";
import { loading } from "../lib/loading.js";
import * as policy from "../lib/policy.js";
import { setQuery, tableLink } from "../lib/router.js";
import { ruleParts } from "../lib/rules.js";
import { isOpenAt, parseWindow, windowWords } from "../lib/windows.js";

const HOUR = 3600e3;
const DAYS = 7;
const MOST = 500;
const SHOWN = 20;
const dayName = new Intl.DateTimeFormat(undefined, { weekday: "short", day: "numeric", month: "short" });
const shortDay = new Intl.DateTimeFormat(undefined, { weekday: "short" });
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });

const main = () => ({
  ...loading(),
  found: null,
  ahead: null,
  settings: null,
  all: false,

  init() {
    this.refresh();
    this.$watch("table", () => this.refresh());
  },

  refresh() {
    return this.load(async () => {
      const wanted = { hours: DAYS * 24, limit: MOST, table: this.table };
      const [found, ahead, settings] = await Promise.all([api.get("schedules"), api.get("schedule/upcoming", wanted), api.get("settings")]);
      Object.assign(this, { found, ahead, settings });
    });
  },

  get table() {
    return this.$store.route.query.table ?? "";
  },

  get picked() {
    return this.$store.route.query.hour ?? "";
  },

  set(name, value) {
    setQuery({ [name]: value });
  },

  get lead() {
    const { enabled, total, runs } = this.ahead;
    if (!enabled) return "The scheduler is switched off: nothing runs by the clock.";
    if (!total) return this.table ? "Nothing that fits runs within the next seven days." : "Nothing runs within the next seven days.";
    return `${format.plural(total, "run")} within the next seven days. The next is ${runs[0].table}, ${format.ago(runs[0].due_at)}.`;
  },

  get zoneNote() {
    const mine = Intl.DateTimeFormat().resolvedOptions().timeZone;
    return `Times are yours (${mine}); schedules and windows are read by the clock of ${this.ahead.timezone}.`;
  },

  get windows() {
    return this.settings.windows.map(parseWindow).filter(Boolean);
  },

  get windowLines() {
    return this.settings.windows.map((text) => ({ text, words: windowWords(text) }));
  },

  get byHour() {
    return new Map(this.ahead.by_hour.map((one) => [hourOf(one.hour), one.runs]));
  },

  get weekChart() {
    const start = new Date().setHours(0, 0, 0, 0);
    const days = Array.from({ length: DAYS + 1 }, (_, day) => this.dayOf(new Date(start).setDate(new Date(start).getDate() + day)));
    return { label: `Runs by hour, the next seven days. ${this.lead}`, days, picked: this.picked, pick: (key) => this.set("hour", key === this.picked ? "" : key) };
  },

  dayOf(midnight) {
    const hours = Array.from({ length: 24 }, (_, hour) => this.hourOf(new Date(midnight).setHours(hour)));
    return { name: dayName.format(midnight), short: shortDay.format(midnight), hours };
  },

  hourOf(moment) {
    const key = hourOf(moment);
    const value = this.byHour.get(key) ?? 0;
    const isOpen = isOpenAt(this.windows, moment, this.ahead.timezone);
    const isPast = moment + HOUR <= new Date(this.ahead.from).getTime() || moment >= new Date(this.ahead.until).getTime();
    const when = `${dayName.format(moment)}, ${clock.format(moment)} to ${clock.format(moment + HOUR)}`;
    return { key, value, isPast, isShut: !isOpen, tip: [when, value ? format.plural(value, "run") : isOpen ? "Nothing runs" : "Outside the windows"] };
  },

  get runs() {
    const found = this.picked ? this.ahead.runs.filter((run) => hourOf(run.due_at) === this.picked) : this.ahead.runs;
    return (this.all || this.picked ? found : found.slice(0, SHOWN)).map((run, at) => ({
      key: `${run.table} ${run.due_at} ${at}`,
      table: run.table,
      href: tableLink(run.table),
      due_at: run.due_at,
      day: dayName.format(new Date(run.due_at)),
      clock: clock.format(new Date(run.due_at)),
      title: `${format.moment(run.due_at)} · ${format.utc(run.due_at)}`,
      line: run.schedule,
      words: cron(run.schedule),
      what: run.compaction ? "A compaction with its own settings" : "Whatever is recommended then",
      note: run.tick !== run.due_at && new Date(run.opens_at) > new Date(run.tick) ? "waits for the window" : "",
    }));
  },

  get runsTitle() {
    if (!this.picked) return "Next";
    const moment = new Date(this.picked).getTime();
    return `${dayName.format(moment)}, ${clock.format(moment)} to ${clock.format(moment + HOUR)}`;
  },

  get runsNote() {
    const expected = this.picked ? this.byHour.get(this.picked) ?? 0 : this.ahead.total;
    if (expected > this.runs.length) return `${format.count(this.runs.length)} of ${format.plural(expected, "run")}${this.picked ? "; narrow by table to see the others" : ""}`;
    return format.plural(this.runs.length, "run");
  },

  get hasMore() {
    return !this.picked && !this.all && this.ahead.runs.length > this.runs.length;
  },

  get budgets() {
    return this.settings.budgets.map((one) => {
      const isMoney = one.resource === "daily_budget";
      const written = isMoney ? format.money : format.duration;
      const share = one.limit ? one.spent / one.limit : 1;
      return {
        key: `${one.layer} ${one.resource}`,
        name: one.layer === "policy" ? "All tables without one of their own" : one.layer,
        what: isMoney ? "a day" : "core time a day",
        text: `${written(one.spent)} of ${written(one.limit)}`,
        width: `${Math.min(Math.max(share * 100, 1), 100)}%`,
        band: share >= 1 ? "bad" : share > 0.8 ? "poor" : "good",
        note: share >= 1 ? "Spent: what comes due waits until midnight." : "",
      };
    });
  },

  get configured() {
    return this.found.configured.map(lineOf);
  },

  get overrides() {
    return this.found.overrides.map(lineOf);
  },

  get previewWords() {
    const { tables, total } = this.preview;
    if (!tables) return "Nothing: no table would have another schedule.";
    return `${format.plural(tables, "table")} would have another schedule, with ${format.plural(total, "run")} within seven days.`;
  },

  get previewRows() {
    return this.preview.changes.map((one) => ({
      name: one.table_name,
      href: tableLink(one.table_name),
      before: cron(one.schedule_before),
      after: cron(one.schedule_after),
      runsBefore: format.plural(one.runs_before, "run"),
      runsAfter: format.plural(one.runs_after, "run"),
      next: one.next_after,
    }));
  },

  get previewRuns() {
    return this.preview.runs.slice(0, 12).map((run, at) => ({ key: at, table: run.table, due_at: run.due_at }));
  },
});

const hourOf = (moment) => new Date(new Date(moment).setMinutes(0, 0, 0)).toISOString();

function lineOf(one, at) {
  return { key: at, match: one.match, line: one.schedule, words: cron(one.schedule), lines: policy.lines(one.options) };
}

export default () => join(main(), ruleParts({ place: "schedules", field: "options", isTimed: true, again: (self) => self.refresh() }));
