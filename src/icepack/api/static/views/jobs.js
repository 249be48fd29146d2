/* All jobs, the newest first, as they change. What is chosen is in the address. */
import * as api from "../lib/api.js";
import { filters } from "../lib/filters.js";
import * as format from "../lib/format.js";
import * as jobs from "../lib/jobs.js";
import { join } from "../lib/join.js";
import { listen } from "../lib/live.js";
import { loading } from "../lib/loading.js";
import { link } from "../lib/router.js";
import * as words from "../lib/words.js";

const PAGE = 30;
const MOST = 500;
const FILTERS = ["state", "table", "action", "within", "requester"];
const STATES = ["", "running", "queued", "failed", "succeeded", "cancelled"];
const SPANS = [["", "Any time"], ["1h", "Last hour"], ["12h", "Last 12 hours"], ["24h", "Last 24 hours"], ["7d", "Last 7 days"], ["30d", "Last 30 days"]];
const UNITS = { h: 3600e3, d: 86400e3 };
const SOON_MS = 250;
const TICK_MS = 1000;

const main = () => ({
  ...loading(),
  found: [],
  next: null,
  counts: null,
  lastDay: null,
  busy: false,
  now: Date.now(),
  suggestions: [],
  kinds: words.actionKinds,
  spans: SPANS.map(([value, name]) => ({ value, name })),

  init() {
    this.refresh();
    this.$watch("asked", () => this.restart());
    this.stop = listen((news) => this.heard(news));
    this.timer = setInterval(() => this.tick(), TICK_MS);
  },

  destroy() {
    this.stop();
    clearInterval(this.timer);
    clearTimeout(this.later);
  },

  get state() {
    return this.query.state ?? "";
  },

  get within() {
    return this.query.within ?? "";
  },

  get isEmpty() {
    return this.status === "ready" && this.found.length === 0;
  },

  get mayAct() {
    return this.$store.session.may("operator");
  },

  get lines() {
    const open = this.found.filter(jobs.isOpen).sort((one, other) => (other.state === "running") - (one.state === "running"));
    const ended = this.found.filter((job) => !jobs.isOpen(job));
    let last = "";
    return [...open, ...ended].map((job) => {
      const day = jobs.isOpen(job) ? "Now" : dayOf(job.finished_at);
      const heading = day === last ? "" : day;
      last = day;
      return { ...jobs.line(job, this.now), heading };
    });
  },

  get states() {
    return STATES.map((value) => ({ value, name: value ? words.state(value) : "All", count: value && this.counts ? this.counts[value] : null }));
  },

  get summary() {
    if (this.status !== "ready") return "";
    const shown = format.plural(this.found.length, "job");
    return this.next === null ? shown : `${shown}, and older ones`;
  },

  get lead() {
    if (!this.counts) return [];
    const { running, queued } = this.counts;
    const { failed = 0, succeeded = 0 } = this.lastDay ?? {};
    const part = (text, query) => ({ key: text, text, href: query ? link("jobs", query) : "" });
    const day = failed
      ? [part(`${format.plural(failed, "job")} failed`, { state: "failed", within: "24h" }), part(" in the last 24 hours"), part(succeeded ? `; ${format.count(succeeded)} went well.` : ".")]
      : [part(succeeded ? `Nothing failed in the last 24 hours; ${format.plural(succeeded, "job")} went well.` : "Nothing has ended in the last 24 hours.")];
    if (!running && !queued) return [part("Nothing runs just now. "), ...day];
    return [part(`${format.count(running)} running`, { state: "running" }), part(", "), part(`${format.count(queued)} waiting`, { state: "queued" }), part(". "), ...day];
  },

  restart() {
    this.found = [];
    this.next = null;
    this.status = "loading";
    return this.refresh();
  },

  refresh() {
    const limit = Math.min(Math.max(this.found.length, PAGE), MOST);
    const asked = this.asked;
    return this.load(async () => {
      const [page, overview] = await Promise.all([this.page({ limit }), api.get("overview")]);
      if (asked !== this.asked) throw new DOMException("Something else is asked by now.", "AbortError");
      this.found = page.jobs;
      this.next = page.next_before;
      this.counts = overview.jobs;
      this.lastDay = overview.jobs_last_day;
      this.now = Date.now();
    });
  },

  page(more) {
    const { state, table, action, requester } = this.query;
    return api.get("jobs", { state, table, action, requester, since: sinceOf(this.within), ...more });
  },

  async older() {
    this.busy = true;
    await this.load(async () => {
      const page = await this.page({ limit: PAGE, before: this.next });
      this.found = [...this.found, ...page.jobs];
      this.next = page.next_before;
    });
    this.busy = false;
  },

  heard({ kind, document }) {
    if (kind === "progress") {
      this.found = this.found.map((job) => (job.id === document.job_id ? { ...job, progress: document.progress } : job));
      return;
    }
    clearTimeout(this.later);
    this.later = setTimeout(() => this.refresh(), SOON_MS);
  },

  /* What is left of a running job grows less also while nothing is heard. */
  tick() {
    if (!document.hidden && this.found.some((job) => job.state === "running")) this.now = Date.now();
  },

  async suggest(text) {
    if (text.length < 2) return;
    const { tables } = await api.get("tables", { search: text, limit: 12 });
    this.suggestions = tables.map((one) => one.table_name);
  },

  mayCancel(job) {
    return jobs.mayCancel(job, this.$store.session);
  },

  mayRetry(job) {
    return jobs.mayRetry(job, this.$store.session);
  },

  async cancel(job) {
    if (await jobs.cancel(job)) await this.refresh();
  },

  retry(job) {
    return jobs.retry(job);
  },

  onKey(event, job) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "c" && this.mayCancel(job)) this.cancel(job);
    else if (event.key === "r" && this.mayRetry(job)) this.retry(job);
  },
});

const weekday = new Intl.DateTimeFormat(undefined, { weekday: "long", day: "numeric", month: "long" });

function dayOf(text) {
  const midnight = (moment) => new Date(moment).setHours(0, 0, 0, 0);
  const days = Math.round((midnight(Date.now()) - midnight(text)) / UNITS.d);
  return days === 0 ? "Today" : days === 1 ? "Yesterday" : weekday.format(new Date(text));
}

function sinceOf(text) {
  const found = /^(\d+)([hd])$/.exec(text);
  return found ? new Date(Date.now() - Number(found[1]) * UNITS[found[2]]).toISOString() : undefined;
}

export default () => join(filters(FILTERS), main());
