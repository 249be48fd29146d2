/* What is being done to this table just now. */
import * as api from "../../lib/api.js";
import * as format from "../../lib/format.js";
import { tell } from "../../lib/toasts.js";
import { link } from "../../lib/router.js";
import * as words from "../../lib/words.js";

const RECENT = 200;
const SOON_MS = 500;
const AGAIN_MS = 2500;
const LONGEST_MS = 15 * 60_000;

export const jobParts = () => ({
  jobs: [],
  jobIds: [],
  changedAt: null,

  async readJobs() {
    const { jobs } = await api.get("jobs", { table: this.name, limit: RECENT });
    this.jobs = jobs.filter((job) => job.state === "queued" || job.state === "running");
    this.jobIds = jobs.map((job) => job.id);
  },

  heard({ kind, document }) {
    if (!this.found || document.table_name !== this.name) return;
    if (kind === "progress") {
      this.jobs = this.jobs.map((job) => (job.id === document.job_id ? { ...job, progress: document.progress } : job));
      return;
    }
    clearTimeout(this.later);
    this.later = setTimeout(() => this.settle(), SOON_MS);
  },

  /* A job that is gone from the list has ended: the table is another one now. */
  async settle() {
    const before = this.jobs;
    await this.readJobs();
    const ended = before.filter((job) => !this.jobs.some((one) => one.id === job.id));
    if (!ended.length) return;
    for (const job of ended) await this.report(job.id);
    await this.refresh();
    this.endedAt = Date.now();
    this.catchUp();
  },

  /* What is known of the table is older than what was done to it, until health sync has looked again. */
  get isBehind() {
    return this.changedAt !== null && new Date(this.found.status.observed_at) < new Date(this.changedAt);
  },

  catchUp() {
    clearTimeout(this.catching);
    if (!this.isBehind || Date.now() - this.endedAt > LONGEST_MS) return;
    this.catching = setTimeout(async () => {
      await this.refresh();
      this.catchUp();
    }, AGAIN_MS);
  },

  async report(id) {
    const job = await api.get(`jobs/${id}`);
    const name = words.action(job.action.kind);
    const href = link(`jobs/${id}`);
    if (job.state === "succeeded") this.changedAt = job.finished_at;
    if (job.state === "failed") tell(`${name} failed: ${job.message}`, { kind: "bad", href, link: "See why" });
    else tell(`${name}: ${words.state(job.state).toLowerCase()}.`, { href, link: "Its job" });
  },

  get running() {
    const [job] = [...this.jobs].sort((one, other) => (other.state === "running") - (one.state === "running") || one.number - other.number);
    if (!job) return null;
    const { partitions_completed: done, partitions_total: all, files_processed: files } = job.progress;
    const isOn = job.state === "running";
    const waiting = this.jobs.length > 1 ? ` ${format.plural(this.jobs.length - 1, "more job")} after it.` : "";
    return {
      words: `${words.action(job.action.kind)} is ${isOn ? "running" : "waiting for a worker"}.`,
      href: link(`jobs/${job.id}`),
      width: all ? `${(done / all) * 100}%` : isOn ? "8%" : "0%",
      note: (isOn ? `${all ? `${format.count(done)} of ${format.plural(all, "partition")}, ` : ""}${format.plural(files, "file")} so far${job.estimated_completion ? `, done ${format.ago(job.estimated_completion)}` : ""}.` : "The page follows it by itself.") + waiting,
    };
  },
});
