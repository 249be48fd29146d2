/* The Run now dialog: action, options and estimate. Pressing the button twice submits one job. */
import * as api from "../../lib/api.js";
import * as format from "../../lib/format.js";
import * as labels from "../../lib/labels.js";
import { link } from "../../lib/router.js";
import { notify } from "../../lib/toasts.js";

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
  error: "",
};
const OPTIONS = {
  compact: ["strategy", "target_file_size", "max_cost", "partition_filter", "rewrite_all"],
  expire_snapshots: ["older_than", "retain_last"],
  remove_orphan_files: ["older_than", "dry_run"],
};
const NUMBERS = ["max_cost", "retain_last"];

export const runMixin = () => ({
  run: { ...EMPTY },
  busy: false,
  kinds: labels.actionKinds,

  openRun(kind, options = {}) {
    this.run = { ...EMPTY, kind: kind ?? (this.actions.length ? "recommended" : "compact"), ...options };
    this.idempotencyKey = api.idempotencyKey();
    this.$refs.run.showModal();
  },

  compactPartition() {
    this.openRun("compact", { partition_filter: this.selectedPartition.filter });
  },

  clearRunError() {
    this.run.error = "";
  },

  get runDescription() {
    if (this.run.kind !== "recommended") return labels.actionDescription(this.run.kind);
    return `${labels.joinNames(this.actions.map((action) => action.name))}, in this order.`;
  },

  get runEstimate() {
    const actions = this.actions.filter((action) => this.run.kind === "recommended" || action.kind === this.run.kind);
    if (!actions.length) return "This action is not recommended at the moment, so there is no estimate. It may find nothing to do.";
    const sum = (name) => actions.reduce((total, action) => total + action.cost[name], 0);
    const hasOptions = (OPTIONS[this.run.kind] ?? []).some((name) => this.run[name]);
    const excluded = hasOptions ? " The estimate does not include the options set here." : "";
    return `Estimated duration: ${format.duration(sum("duration_seconds"))}. Estimated cost: ${format.money(sum("dollars"))}.${excluded} No row changes: every commit is proven against its parent snapshot.`;
  },

  async submit() {
    this.busy = true;
    this.run.error = "";
    try {
      const jobs = await this.submitJobs();
      this.$refs.run.close();
      const href = jobs.length === 1 ? link(`jobs/${jobs[0].job_id}`) : link("jobs", { table: this.name });
      const target = { href, link: jobs.length === 1 ? "View job" : "View jobs" };
      notify(jobs.length ? `${format.plural(jobs.length, "job")} queued for ${this.name}.` : "Nothing to do.", jobs.length ? target : {});
      await this.loadJobs();
    } catch (problem) {
      this.run.error = [problem.message, problem.remedy].filter(Boolean).join(" ");
    }
    this.busy = false;
  },

  async submitJobs() {
    const { kind } = this.run;
    if (kind === "recommended") return (await api.post("maintain", { tables: [this.name] }, { key: this.idempotencyKey })).jobs;
    const given = (OPTIONS[kind] ?? []).filter((name) => this.run[name]);
    const options = Object.fromEntries(given.map((name) => [name, NUMBERS.includes(name) ? Number(this.run[name]) : this.run[name]]));
    return [await api.post(`${this.path}/actions/${kind}`, { options }, { key: this.idempotencyKey })];
  },
});
