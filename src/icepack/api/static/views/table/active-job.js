/* The job that is running or queued on this table. */
import * as api from "../../lib/api.js";
import * as format from "../../lib/format.js";
import * as labels from "../../lib/labels.js";
import { link } from "../../lib/router.js";
import { notify } from "../../lib/toasts.js";

const MAX_JOBS = 200;
const REFRESH_DELAY_MS = 500;
const SYNC_POLL_MS = 2500;
const MAX_SYNC_WAIT_MS = 15 * 60_000;

export const activeJobMixin = () => ({
  jobs: [],
  jobIds: [],
  changedAt: null,

  async loadJobs() {
    const { jobs } = await api.get("jobs", { table: this.name, limit: MAX_JOBS });
    this.jobs = jobs.filter((job) => job.state === "queued" || job.state === "running");
    this.jobIds = jobs.map((job) => job.id);
  },

  onJobEvent({ kind, document }) {
    if (!this.data || document.table_name !== this.name) return;
    if (kind === "progress") {
      this.jobs = this.jobs.map((job) => (job.id === document.job_id ? { ...job, progress: document.progress } : job));
      return;
    }
    clearTimeout(this.refreshTimer);
    this.refreshTimer = setTimeout(() => this.refreshJobs(), REFRESH_DELAY_MS);
  },

  /* A job that is no longer active has ended and may have changed the table. */
  async refreshJobs() {
    const before = this.jobs;
    await this.loadJobs();
    const ended = before.filter((job) => !this.jobs.some((other) => other.id === job.id));
    if (!ended.length) return;
    for (const job of ended) await this.notifyEnded(job.id);
    await this.refresh();
    this.endedAt = Date.now();
    this.waitForSync();
  },

  /* Whether the shown status is older than the last job, because health sync has not inspected the table since. */
  get isStale() {
    return this.changedAt !== null && new Date(this.data.status.observed_at) < new Date(this.changedAt);
  },

  waitForSync() {
    clearTimeout(this.syncTimer);
    if (!this.isStale || Date.now() - this.endedAt > MAX_SYNC_WAIT_MS) return;
    this.syncTimer = setTimeout(async () => {
      await this.refresh();
      this.waitForSync();
    }, SYNC_POLL_MS);
  },

  async notifyEnded(id) {
    const job = await api.get(`jobs/${id}`);
    const name = labels.action(job.action.kind);
    const target = { href: link(`jobs/${id}`), link: "View job" };
    if (job.state === "succeeded") this.changedAt = job.finished_at;
    if (job.state === "failed") notify(`${name} failed: ${job.message}`, { kind: "bad", ...target });
    else notify(`${name}: ${labels.state(job.state).toLowerCase()}.`, target);
  },

  get activeJob() {
    const [job] = [...this.jobs].sort((first, second) => (second.state === "running") - (first.state === "running") || first.number - second.number);
    if (!job) return null;
    const { partitions_completed: done, partitions_total: all, files_processed: files } = job.progress;
    const isRunning = job.state === "running";
    const queued = this.jobs.length > 1 ? ` ${format.plural(this.jobs.length - 1, "more job")} queued.` : "";
    return {
      title: `${labels.action(job.action.kind)} is ${isRunning ? "running" : "waiting for a worker"}.`,
      href: link(`jobs/${job.id}`),
      width: all ? `${(done / all) * 100}%` : isRunning ? "8%" : "0%",
      note: (isRunning ? `${all ? `${format.count(done)} of ${format.plural(all, "file group")}, ` : ""}${format.plural(files, "file")} so far${job.estimated_completion ? `, estimated to finish ${format.ago(job.estimated_completion)}` : ""}.` : "This page updates automatically.") + queued,
    };
  },
});
