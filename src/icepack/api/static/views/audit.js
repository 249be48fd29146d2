/* Who changed what, and when; also what was denied. */
import * as api from "../lib/api.js";
import { filters } from "../lib/filters.js";
import * as format from "../lib/format.js";
import { join } from "../lib/join.js";
import { loading } from "../lib/loading.js";
import { link, tableLink } from "../lib/router.js";
import * as words from "../lib/words.js";

const PAGE = 50;
const FILTERS = ["actor", "action", "subject", "within"];
const SPANS = [["", "Any time"], ["1", "Last 24 hours"], ["7", "Last 7 days"], ["30", "Last 30 days"]];
const ACTIONS = {
  "jobs.submit": ["asked for a job", "ask for a job"],
  "jobs.cancel": ["cancelled a job", "cancel a job"],
  "jobs.retry": ["asked for a job once more", "ask for a job once more"],
  "maintain.submit": ["asked for all that is recommended", "ask for all that is recommended"],
  "policies.put": ["set policies", "set policies"],
  "schedules.put": ["set schedules", "set schedules"],
  "keys.create": ["made a key", "make a key"],
  "keys.revoke": ["revoked a key", "revoke a key"],
  "session.open": ["signed in", "sign in"],
  "session.end": ["signed out", "sign out"],
  "settings.check": ["started the checks", "start the checks"],
  denied: ["was not let in", "was not let in"],
};
const DAY = 86400e3;
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-/;
const clean = (kind) => kind.replace(/^api\./, "");

const main = () => ({
  ...loading(),
  found: [],
  next: null,
  busy: false,
  spans: SPANS.map(([value, name]) => ({ value, name })),
  kinds: Object.keys(ACTIONS).map((kind) => `api.${kind}`),

  init() {
    this.refresh();
    this.$watch("asked", () => this.refresh());
  },

  get isEmpty() {
    return this.status === "ready" && this.found.length === 0;
  },

  refresh() {
    return this.load(async () => {
      const page = await this.page();
      this.found = page.entries;
      this.next = page.next_before;
    });
  },

  page(before) {
    const { actor, action, subject, within } = this.query;
    const since = within ? new Date(Date.now() - Number(within) * DAY).toISOString() : undefined;
    return api.get("audit", { actor, action, subject, since, limit: PAGE, before });
  },

  async older() {
    this.busy = true;
    await this.load(async () => {
      const page = await this.page(this.next);
      this.found = [...this.found, ...page.entries];
      this.next = page.next_before;
    });
    this.busy = false;
  },

  get entries() {
    return this.found.map((entry) => ({
      ...entry,
      what: doing(entry),
      href: hrefOf(entry),
      isDenied: isDenied(entry),
      who: entry.actor || "nobody",
      result: UUID.test(entry.outcome) ? "a new job" : entry.outcome,
      details: Object.keys(entry.details).length ? JSON.stringify(entry.details, null, 2) : "",
    }));
  },

  get summary() {
    return this.status === "ready" ? `${format.plural(this.found.length, "entry", "entries")}${this.next === null ? "" : ", and older ones"}` : "";
  },

  kindName(kind) {
    return words.setting(ACTIONS[clean(kind)][0]);
  },
});

const isDenied = ({ action, outcome }) => clean(action) === "denied" || outcome.startsWith("denied");

function doing(entry) {
  const [past, infinitive] = ACTIONS[clean(entry.action)] ?? Array(2).fill(clean(entry.action).replaceAll(/[._]/g, " "));
  if (clean(entry.action) === "denied") return past;
  return isDenied(entry) ? `was not allowed to ${infinitive}` : past;
}

/* To the job or table that it is about, where there is one. */
function hrefOf({ action, subject, details }) {
  if (clean(action).startsWith("jobs.") && UUID.test(subject)) return link(`jobs/${subject}`);
  if (details.table && details.table === subject) return tableLink(subject);
  if (action.includes("policies")) return "#/policies";
  return action.includes("schedules") ? "#/schedule" : "";
}

export default () => join(filters(FILTERS), main());
