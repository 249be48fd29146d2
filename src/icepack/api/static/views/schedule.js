/* Schedule: upcoming runs, maintenance windows, budgets, and schedule rules with a preview of changes. */
import * as api from "../lib/api.js";
import { describeCron } from "../lib/cron.js";
import * as format from "../lib/format.js";
import { loading } from "../lib/loading.js";
import { mergeMixins } from "../lib/mixins.js";
import * as policy from "../lib/policy.js";
import { setQuery, tableLink } from "../lib/router.js";
import { ruleEditorMixin } from "../lib/rule-editor.js";
import { describeWindow, isOpenAt, parseWindow } from "../lib/windows.js";

const HOUR_MS = 3600e3;
const DAYS = 7;
const MAX_RUNS = 500;
const FIRST_RUNS = 20;
const MAX_PREVIEW_RUNS = 12;
const dayName = new Intl.DateTimeFormat(undefined, { weekday: "short", day: "numeric", month: "short" });
const shortDay = new Intl.DateTimeFormat(undefined, { weekday: "short" });
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });

const main = () => ({
  ...loading(),
  data: null,
  upcoming: null,
  settings: null,
  showAll: false,

  init() {
    this.refresh();
    this.$watch("table", () => this.refresh());
  },

  refresh() {
    return this.load(async () => {
      const query = { hours: DAYS * 24, limit: MAX_RUNS, table: this.table };
      const [data, upcoming, settings] = await Promise.all([api.get("schedules"), api.get("schedule/upcoming", query), api.get("settings")]);
      Object.assign(this, { data, upcoming, settings });
    });
  },

  get table() {
    return this.$store.route.query.table ?? "";
  },

  get selectedHour() {
    return this.$store.route.query.hour ?? "";
  },

  set(name, value) {
    setQuery({ [name]: value });
  },

  get lead() {
    const { enabled, total, runs } = this.upcoming;
    if (!enabled) return "The scheduler is disabled: no runs are scheduled.";
    if (!total) return this.table ? "No runs for matching tables in the next seven days." : "No runs in the next seven days.";
    return `${format.plural(total, "run")} in the next seven days. Next: ${runs[0].table}, ${format.ago(runs[0].due_at)}.`;
  },

  get zoneNote() {
    const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    return `Times are shown in your time zone (${zone}). Schedules and windows use ${this.upcoming.timezone}.`;
  },

  get windows() {
    return this.settings.windows.map(parseWindow).filter(Boolean);
  },

  get windowRows() {
    return this.settings.windows.map((text) => ({ text, description: describeWindow(text) }));
  },

  get runsByHour() {
    return new Map(this.upcoming.by_hour.map((item) => [hourKey(item.hour), item.runs]));
  },

  get calendarData() {
    const start = new Date().setHours(0, 0, 0, 0);
    const days = Array.from({ length: DAYS + 1 }, (_, day) => this.calendarDay(new Date(start).setDate(new Date(start).getDate() + day)));
    return { label: `Runs by hour, next seven days. ${this.lead}`, days, selected: this.selectedHour, select: (key) => this.set("hour", key === this.selectedHour ? "" : key) };
  },

  calendarDay(midnight) {
    const hours = Array.from({ length: 24 }, (_, hour) => this.calendarHour(new Date(midnight).setHours(hour)));
    return { name: dayName.format(midnight), short: shortDay.format(midnight), hours };
  },

  calendarHour(time) {
    const key = hourKey(time);
    const value = this.runsByHour.get(key) ?? 0;
    const isOpen = isOpenAt(this.windows, time, this.upcoming.timezone);
    const isPast = time + HOUR_MS <= new Date(this.upcoming.from).getTime() || time >= new Date(this.upcoming.until).getTime();
    return { key, value, isPast, isClosed: !isOpen, tip: [hourRange(time), value ? format.plural(value, "run") : isOpen ? "No runs" : "Outside the maintenance windows"] };
  },

  get runs() {
    const runs = this.selectedHour ? this.upcoming.runs.filter((run) => hourKey(run.due_at) === this.selectedHour) : this.upcoming.runs;
    return (this.showAll || this.selectedHour ? runs : runs.slice(0, FIRST_RUNS)).map((run, index) => ({
      key: `${run.table} ${run.due_at} ${index}`,
      table: run.table,
      href: tableLink(run.table),
      due_at: run.due_at,
      day: dayName.format(new Date(run.due_at)),
      clock: clock.format(new Date(run.due_at)),
      title: `${format.dateTime(run.due_at)} · ${format.utc(run.due_at)}`,
      cron: run.schedule,
      schedule: describeCron(run.schedule),
      action: run.compaction ? "Compaction with its own settings" : "Recommended actions",
      note: run.tick !== run.due_at && new Date(run.opens_at) > new Date(run.tick) ? "waits for the maintenance window" : "",
    }));
  },

  get runsTitle() {
    return this.selectedHour ? hourRange(new Date(this.selectedHour).getTime()) : "Upcoming runs";
  },

  get runsNote() {
    const total = this.selectedHour ? this.runsByHour.get(this.selectedHour) ?? 0 : this.upcoming.total;
    if (total > this.runs.length) return `${format.count(this.runs.length)} of ${format.plural(total, "run")}${this.selectedHour ? "; filter by table to see the others" : ""}`;
    return format.plural(this.runs.length, "run");
  },

  get hasMore() {
    return !this.selectedHour && !this.showAll && this.upcoming.runs.length > this.runs.length;
  },

  get budgets() {
    return this.settings.budgets.map((budget) => {
      const isMoney = budget.resource === "daily_budget";
      const formatValue = isMoney ? format.money : format.duration;
      const share = budget.limit ? budget.spent / budget.limit : 1;
      return {
        key: `${budget.layer} ${budget.resource}`,
        name: budget.layer === "policy" ? "All tables without their own budget" : budget.layer,
        unit: isMoney ? "cost per day" : "core time per day",
        text: `${formatValue(budget.spent)} of ${formatValue(budget.limit)}`,
        width: `${Math.min(Math.max(share * 100, 1), 100)}%`,
        band: share >= 1 ? "bad" : share > 0.8 ? "poor" : "good",
        note: share >= 1 ? "Used up: due runs wait until midnight." : "",
      };
    });
  },

  get configured() {
    return this.data.configured.map(ruleRow);
  },

  get overrides() {
    return this.data.overrides.map(ruleRow);
  },

  get previewText() {
    const { tables, total } = this.preview;
    if (!tables) return "No table's schedule would change.";
    return `The schedule of ${format.plural(tables, "table")} would change, to ${format.plural(total, "run")} in seven days.`;
  },

  get previewRows() {
    return this.preview.changes.map((change) => ({
      name: change.table_name,
      href: tableLink(change.table_name),
      before: describeCron(change.schedule_before),
      after: describeCron(change.schedule_after),
      runsBefore: format.plural(change.runs_before, "run"),
      runsAfter: format.plural(change.runs_after, "run"),
      next: change.next_after,
    }));
  },

  get previewRuns() {
    return this.preview.runs.slice(0, MAX_PREVIEW_RUNS).map((run, index) => ({ key: index, table: run.table, due_at: run.due_at }));
  },
});

const hourKey = (time) => new Date(new Date(time).setMinutes(0, 0, 0)).toISOString();

const hourRange = (time) => `${dayName.format(time)}, ${clock.format(time)} to ${clock.format(time + HOUR_MS)}`;

function ruleRow(rule, index) {
  return { key: index, match: rule.match, cron: rule.schedule, schedule: describeCron(rule.schedule), settings: policy.settingRows(rule.options) };
}

export default () => mergeMixins(main(), ruleEditorMixin({ resource: "schedules", field: "options", hasSchedule: true, onSaved: (self) => self.refresh() }));
