/* Run now: what, how, what to expect; and one request, however often the button is pressed. */
import * as api from "../../lib/api.js";
import * as format from "../../lib/format.js";
import { tell } from "../../lib/toasts.js";
import { link } from "../../lib/router.js";
import * as words from "../../lib/words.js";

const EMPTY = {
  kind: "recommended",
  strategy: "",
  target_file_size: "",
  max_cost: "",
  partition_filter: "",
  rewrite_all: false,
  older_than: "",
  retain_last: "",
  dry_run: false,
  wrong: "",
};
const OPTIONS = {
  compact: ["strategy", "target_file_size", "max_cost", "partition_filter", "rewrite_all"],
  expire_snapshots: ["older_than", "retain_last"],
  remove_orphan_files: ["older_than", "dry_run"],
};
const NUMBERS = ["max_cost", "retain_last"];

export const runParts = () => ({
  run: { ...EMPTY },
  busy: false,
  kinds: words.actionKinds,

  openRun(kind, more = {}) {
    this.run = { ...EMPTY, kind: kind ?? (this.actions.length ? "recommended" : "compact"), ...more };
    this.onceKey = api.onceKey();
    this.$refs.run.showModal();
  },

  openPartition() {
    this.openRun("compact", { partition_filter: this.picked.filter });
  },

  runClosed() {
    this.run.wrong = "";
  },

  get runDoes() {
    if (this.run.kind !== "recommended") return words.actionDoes(this.run.kind);
    return `${words.joined(this.actions.map((one) => one.name))}, in this order.`;
  },

  get expectation() {
    const advised = this.actions.filter((one) => this.run.kind === "recommended" || one.kind === this.run.kind);
    if (!advised.length) return "It is not recommended just now, so there is no estimate; it may find nothing to do.";
    const sum = (name) => advised.reduce((total, one) => total + one.cost[name], 0);
    const own = (OPTIONS[this.run.kind] ?? []).some((name) => this.run[name]) ? " That is without the options set here." : "";
    return `Should take about ${format.duration(sum("duration_seconds"))} and cost about ${format.money(sum("dollars"))}.${own} No row is changed: each commit is proven against its parent.`;
  },

  async submit() {
    this.busy = true;
    this.run.wrong = "";
    try {
      const jobs = await this.ask();
      this.$refs.run.close();
      const href = jobs.length === 1 ? link(`jobs/${jobs[0].job_id}`) : link("jobs", { table: this.name });
      tell(jobs.length ? `${format.plural(jobs.length, "job")} queued for ${this.name}.` : "There is nothing to do just now.", jobs.length ? { href, link: "Watch" } : {});
      await this.readJobs();
    } catch (problem) {
      this.run.wrong = [problem.message, problem.remedy].filter(Boolean).join(" ");
    }
    this.busy = false;
  },

  async ask() {
    const { kind } = this.run;
    if (kind === "recommended") return (await api.post("maintain", { tables: [this.name] }, { key: this.onceKey })).jobs;
    const given = (OPTIONS[kind] ?? []).filter((name) => this.run[name]);
    const options = Object.fromEntries(given.map((name) => [name, NUMBERS.includes(name) ? Number(this.run[name]) : this.run[name]]));
    return [await api.post(`${this.path}/actions/${kind}`, { options }, { key: this.onceKey })];
  },
});
