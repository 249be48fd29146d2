/* One job: its state, its timeline, which partitions it selects and why, its errors and its results. */
import * as api from "../lib/api.js";
import * as format from "../lib/format.js";
import * as jobs from "../lib/jobs.js";
import * as labels from "../lib/labels.js";
import { subscribe } from "../lib/live.js";
import { loading } from "../lib/loading.js";
import { mergeMixins } from "../lib/mixins.js";
import { tableLink } from "../lib/router.js";
import { eventsMixin } from "./job/events.js";
import { partitionsMixin } from "./job/partitions.js";
import { resultMixin } from "./job/result.js";
import { timelineMixin } from "./job/timeline.js";

const REFRESH_DELAY_MS = 200;
const TICK_MS = 1000;
const REFRESH_MS = 5000;

const main = () => ({
  ...loading(),
  job: null,
  events: [],
  now: Date.now(),

  init() {
    this.id = this.$store.route.params.job;
    this.unsubscribe = subscribe((event) => this.onJobEvent(event));
    this.ticker = setInterval(() => this.tick(), TICK_MS);
    this.refresher = setInterval(() => this.job && jobs.isActive(this.job) && !document.hidden && this.refresh(), REFRESH_MS);
    this.refresh();
  },

  destroy() {
    this.unsubscribe();
    clearInterval(this.ticker);
    clearInterval(this.refresher);
    clearTimeout(this.refreshTimer);
  },

  refresh() {
    return this.load(async () => {
      const path = `jobs/${encodeURIComponent(this.id)}`;
      const [job, { events }] = await Promise.all([api.get(path), api.get(`${path}/events`)]);
      if (job.action.kind === "compact" && job.state !== "succeeded" && !this.plan) this.plan = await fetchPlan(path);
      this.events = events;
      this.now = Date.now();
      this.job = job;
      document.title = `${labels.action(job.action.kind)} ${job.table_name} · icepack`;
    });
  },

  onJobEvent({ kind, document: update }) {
    if ((update.job_id ?? update.id) !== this.id || !this.job) return;
    if (kind === "progress") this.job = { ...this.job, progress: update.progress };
    clearTimeout(this.refreshTimer);
    this.refreshTimer = setTimeout(() => this.refresh(), REFRESH_DELAY_MS);
  },

  tick() {
    if (this.job && jobs.isActive(this.job) && !document.hidden) this.now = Date.now();
  },

  get row() {
    return jobs.jobRow(this.job, this.now);
  },

  get tableHref() {
    return tableLink(this.job.table_name);
  },

  get canCancel() {
    return jobs.canCancel(this.job, this.$store.session);
  },

  get canRetry() {
    return jobs.canRetry(this.job, this.$store.session);
  },

  get lead() {
    return LEADS[this.job.state](this);
  },

  get figures() {
    const { progress } = this.job;
    const seconds = this.row.elapsed;
    const figure = (name, text) => ({ name, text });
    return [
      figure("File groups", progress.partitions_total ? `${format.count(progress.partitions_completed)} of ${format.count(progress.partitions_total)}` : "–"),
      figure("Files", format.count(progress.files_processed)),
      figure("Data read", format.bytes(progress.bytes_read)),
      figure("Data written", format.bytes(progress.bytes_written)),
      figure("Elapsed time", format.duration(seconds)),
      figure("Read rate", progress.bytes_read && seconds ? `${format.bytes(progress.bytes_read / seconds)}/s` : "–"),
    ];
  },

  /* The first sentence of the message is the heading; the rest follows below. */
  get failure() {
    const [first, ...rest] = (this.job.message || "No error message.").split(/(?<=[.!?])\s+(?=[A-Z])/u);
    return { title: first, rest: rest.join(" ") };
  },

  get failureText() {
    const { failedPhase, job } = this;
    const commits = job.details?.commits?.length ?? 0;
    const where = failedPhase ? `Failed during ${failedPhase}${job.attempts > 1 ? `, on the last of ${format.count(job.attempts)} attempts` : ""}. ` : "";
    return `${where}${commits ? `${format.plural(commits, "commit")} made before the failure ${commits === 1 ? "was" : "were"} kept; each is complete.` : "Nothing was committed, so the table is unchanged."}`;
  },

  get remedy() {
    const { details } = this.job;
    if (details?.state === "refused") return "A guard rail refused this job. Fix the cause named in the message first; otherwise it is refused again.";
    const known = labels.errorRemedy(details?.error);
    if (known) return known;
    if (details?.retryable) return "The cause may have been temporary or fixed since. Retry: the job is planned again from the current state of the table.";
    return "The same job is likely to fail again. Fix the cause named in the message first, then retry.";
  },

  async cancel() {
    if (await jobs.cancel(this.job)) await this.refresh();
  },

  retry() {
    return jobs.retry(this.job);
  },
});

const LEADS = {
  queued: ({ job }) => (job.waits_until ? `Scheduled for ${format.dateTime(job.waits_until)}.` : `Waiting for a worker, submitted ${format.ago(job.submitted_at)}. Jobs on the same table run one at a time.`),
  running: (self) => [self.currentPhase && `Phase: ${self.currentPhase}`, self.row.timeLeft].filter(Boolean).join(", ").concat("."),
  succeeded: ({ job, record, row }) => `Finished in ${format.duration(row.elapsed)}${record?.before && record.after && record.after.score !== record.before.score ? `; the score went from ${record.before.score} to ${record.after.score}` : ""}${job.attempts > 1 ? `, on attempt ${job.attempts}` : ""}.`,
  failed: ({ job }) => `Failed ${format.ago(job.finished_at)}${job.attempts > 1 ? `, after ${format.plural(job.attempts, "attempt")}` : ""}.`,
  cancelled: ({ job }) => `Cancelled ${format.ago(job.finished_at)}. ${job.attempts ? "Commits made before are kept." : "The job had not started."}`,
};

/* A table that is not in the cache has no plan; the rest of the screen is still shown. */
async function fetchPlan(path) {
  try {
    return await api.get(`${path}/plan`);
  } catch (problem) {
    if (problem.status === 404) return null;
    throw problem;
  }
}

export default () => mergeMixins(main(), timelineMixin(), partitionsMixin(), resultMixin(), eventsMixin());
