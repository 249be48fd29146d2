/* All jobs, newest first, with live updates. The filters are in the URL. */
import * as api from "../lib/api.js";
import { filters } from "../lib/filters.js";
import * as format from "../lib/format.js";
import * as jobs from "../lib/jobs.js";
import * as labels from "../lib/labels.js";
import { subscribe } from "../lib/live.js";
import { loading } from "../lib/loading.js";
import { mergeMixins } from "../lib/mixins.js";
import { link } from "../lib/router.js";

const PAGE = 30;
const MAX_LOADED = 500;
const FILTERS = ["state", "table", "action", "within", "requester"];
const STATES = ["", "running", "queued", "failed", "succeeded", "cancelled"];
const PERIODS = [["", "Any time"], ["1h", "Last hour"], ["12h", "Last 12 hours"], ["24h", "Last 24 hours"], ["7d", "Last 7 days"], ["30d", "Last 30 days"]];
const UNITS_MS = { h: 3600e3, d: 86400e3 };
const REFRESH_DELAY_MS = 250;
const TICK_MS = 1000;

const main = () => ({
  ...loading(),
  loaded: [],
  next: null,
  counts: null,
  lastDay: null,
  busy: false,
  now: Date.now(),
  suggestions: [],
  kinds: labels.actionKinds,
  periods: PERIODS.map(([value, name]) => ({ value, name })),

  init() {
    this.refresh();
    this.$watch("filterKey", () => this.restart());
    this.unsubscribe = subscribe((event) => this.onJobEvent(event));
    this.timer = setInterval(() => this.tick(), TICK_MS);
  },

  destroy() {
    this.unsubscribe();
    clearInterval(this.timer);
    clearTimeout(this.refreshTimer);
  },

  get state() {
    return this.query.state ?? "";
  },

  get within() {
    return this.query.within ?? "";
  },

  get isEmpty() {
    return this.status === "ready" && this.loaded.length === 0;
  },

  get canAct() {
    return this.$store.session.hasRole("operator");
  },

  get rows() {
    const active = this.loaded.filter(jobs.isActive).sort((first, second) => (second.state === "running") - (first.state === "running"));
    const ended = this.loaded.filter((job) => !jobs.isActive(job));
    let previousDay = "";
    return [...active, ...ended].map((job) => {
      const day = jobs.isActive(job) ? "Active" : dayName(job.finished_at);
      const heading = day === previousDay ? "" : day;
      previousDay = day;
      return { ...jobs.jobRow(job, this.now), heading };
    });
  },

  get states() {
    return STATES.map((value) => ({ value, name: value ? labels.state(value) : "All", count: value && this.counts ? this.counts[value] : null }));
  },

  get summary() {
    if (this.status !== "ready") return "";
    return `${this.next === null ? "" : "Latest "}${format.plural(this.loaded.length, "job")}`;
  },

  get lead() {
    if (!this.counts) return [];
    const { running, queued } = this.counts;
    const { failed = 0, succeeded = 0 } = this.lastDay ?? {};
    const part = (text, query) => ({ key: text, text, href: query ? link("jobs", query) : "" });
    const lastDay = failed
      ? [part(`${format.plural(failed, "job")} failed`, { state: "failed", within: "24h" }), part(" in the last 24 hours"), part(succeeded ? `; ${format.count(succeeded)} succeeded.` : ".")]
      : [part(succeeded ? `No job failed in the last 24 hours; ${format.count(succeeded)} succeeded.` : "No job finished in the last 24 hours.")];
    if (!running && !queued) return [part("No active jobs. "), ...lastDay];
    return [part(`${format.count(running)} running`, { state: "running" }), part(", "), part(`${format.count(queued)} queued`, { state: "queued" }), part(". "), ...lastDay];
  },

  restart() {
    this.loaded = [];
    this.next = null;
    this.status = "loading";
    return this.refresh();
  },

  refresh() {
    const limit = Math.min(Math.max(this.loaded.length, PAGE), MAX_LOADED);
    const filterKey = this.filterKey;
    return this.load(async () => {
      const [page, overview] = await Promise.all([this.fetchPage({ limit }), api.get("overview")]);
      if (filterKey !== this.filterKey) throw new DOMException("The filters have changed.", "AbortError");
      this.loaded = page.jobs;
      this.next = page.next_before;
      this.counts = overview.jobs;
      this.lastDay = overview.jobs_last_day;
      this.now = Date.now();
    });
  },

  fetchPage(more) {
    const { state, table, action, requester } = this.query;
    return api.get("jobs", { state, table, action, requester, since: periodStart(this.within), ...more });
  },

  async loadOlder() {
    this.busy = true;
    await this.load(async () => {
      const page = await this.fetchPage({ limit: PAGE, before: this.next });
      this.loaded = [...this.loaded, ...page.jobs];
      this.next = page.next_before;
    });
    this.busy = false;
  },

  onJobEvent({ kind, document }) {
    if (kind === "progress") {
      this.loaded = this.loaded.map((job) => (job.id === document.job_id ? { ...job, progress: document.progress } : job));
      return;
    }
    clearTimeout(this.refreshTimer);
    this.refreshTimer = setTimeout(() => this.refresh(), REFRESH_DELAY_MS);
  },

  /* The time left of running jobs counts down even without updates. */
  tick() {
    if (!document.hidden && this.loaded.some((job) => job.state === "running")) this.now = Date.now();
  },

  async suggest(text) {
    if (text.length < 2) return;
    const { tables } = await api.get("tables", { search: text, limit: 12 });
    this.suggestions = tables.map((table) => table.table_name);
  },

  canCancel(job) {
    return jobs.canCancel(job, this.$store.session);
  },

  canRetry(job) {
    return jobs.canRetry(job, this.$store.session);
  },

  async cancel(job) {
    if (await jobs.cancel(job)) await this.refresh();
  },

  retry(job) {
    return jobs.retry(job);
  },

  onKey(event, job) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "c" && this.canCancel(job)) this.cancel(job);
    else if (event.key === "r" && this.canRetry(job)) this.retry(job);
  },
});

const weekday = new Intl.DateTimeFormat(undefined, { weekday: "long", day: "numeric", month: "long" });

function dayName(timestamp) {
  const midnight = (time) => new Date(time).setHours(0, 0, 0, 0);
  const days = Math.round((midnight(Date.now()) - midnight(timestamp)) / UNITS_MS.d);
  return days === 0 ? "Today" : days === 1 ? "Yesterday" : weekday.format(new Date(timestamp));
}

function periodStart(text) {
  const match = /^(\d+)([hd])$/.exec(text);
  return match ? new Date(Date.now() - Number(match[1]) * UNITS_MS[match[2]]).toISOString() : undefined;
}

export default () => mergeMixins(filters(FILTERS), main());
