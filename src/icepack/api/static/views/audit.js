/* Audit log: who changed what and when, including denied requests. */
import * as api from "../lib/api.js";
import { filters } from "../lib/filters.js";
import * as format from "../lib/format.js";
import * as labels from "../lib/labels.js";
import { loading } from "../lib/loading.js";
import { mergeMixins } from "../lib/mixins.js";
import { link, tableLink } from "../lib/router.js";

const PAGE = 50;
const FILTERS = ["actor", "action", "subject", "within"];
const PERIODS = [["", "Any time"], ["1", "Last 24 hours"], ["7", "Last 7 days"], ["30", "Last 30 days"]];
/* For each action its past tense and its infinitive. */
const ACTIONS = {
  "jobs.submit": ["submitted a job", "submit a job"],
  "jobs.cancel": ["cancelled a job", "cancel a job"],
  "jobs.retry": ["retried a job", "retry a job"],
  "maintain.submit": ["submitted the recommended actions", "submit the recommended actions"],
  "policies.put": ["changed policies", "change policies"],
  "schedules.put": ["changed schedules", "change schedules"],
  "keys.create": ["created a key", "create a key"],
  "keys.revoke": ["revoked a key", "revoke a key"],
  "session.open": ["signed in", "sign in"],
  "session.end": ["signed out", "sign out"],
  "settings.check": ["started the checks", "start the checks"],
  denied: ["was denied access", "was denied access"],
};
const DAY_MS = 86400e3;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-/;
const withoutPrefix = (action) => action.replace(/^api\./, "");

const main = () => ({
  ...loading(),
  loaded: [],
  next: null,
  busy: false,
  periods: PERIODS.map(([value, name]) => ({ value, name })),
  actions: Object.keys(ACTIONS).map((action) => `api.${action}`),

  init() {
    this.refresh();
    this.$watch("filterKey", () => this.refresh());
  },

  get isEmpty() {
    return this.status === "ready" && this.loaded.length === 0;
  },

  refresh() {
    return this.load(async () => {
      const page = await this.fetchPage();
      this.loaded = page.entries;
      this.next = page.next_before;
    });
  },

  fetchPage(before) {
    const { actor, action, subject, within } = this.query;
    const since = within ? new Date(Date.now() - Number(within) * DAY_MS).toISOString() : undefined;
    return api.get("audit", { actor, action, subject, since, limit: PAGE, before });
  },

  async loadOlder() {
    this.busy = true;
    await this.load(async () => {
      const page = await this.fetchPage(this.next);
      this.loaded = [...this.loaded, ...page.entries];
      this.next = page.next_before;
    });
    this.busy = false;
  },

  get entries() {
    return this.loaded.map((entry) => ({
      ...entry,
      what: describeAction(entry),
      href: hrefOf(entry),
      isDenied: isDenied(entry),
      who: entry.actor || "anonymous",
      result: UUID.test(entry.outcome) ? "job created" : entry.outcome,
      details: Object.keys(entry.details).length ? JSON.stringify(entry.details, null, 2) : "",
    }));
  },

  get summary() {
    return this.status === "ready" ? `${this.next === null ? "" : "Latest "}${format.plural(this.loaded.length, "entry", "entries")}` : "";
  },

  actionName(action) {
    return labels.setting(ACTIONS[withoutPrefix(action)][0]);
  },
});

const isDenied = ({ action, outcome }) => withoutPrefix(action) === "denied" || outcome.startsWith("denied");

function describeAction(entry) {
  const action = withoutPrefix(entry.action);
  const [past, infinitive] = ACTIONS[action] ?? Array(2).fill(action.replaceAll(/[._]/g, " "));
  if (action === "denied") return past;
  return isDenied(entry) ? `was not allowed to ${infinitive}` : past;
}

/* The link to the job or table that the entry is about, if there is one. */
function hrefOf({ action, subject, details }) {
  if (withoutPrefix(action).startsWith("jobs.") && UUID.test(subject)) return link(`jobs/${subject}`);
  if (details.table && details.table === subject) return tableLink(subject);
  if (action.includes("policies")) return "#/policies";
  return action.includes("schedules") ? "#/schedule" : "";
}

export default () => mergeMixins(filters(FILTERS), main());
