/* One job: where it is, what it does to which partitions and why, what went wrong, what came of it. */
import * as api from "../lib/api.js";
import * as format from "../lib/format.js";
import { join } from "../lib/join.js";
import * as jobs from "../lib/jobs.js";
import { listen } from "../lib/live.js";
import { loading } from "../lib/loading.js";
import { tableLink } from "../lib/router.js";
import * as words from "../lib/words.js";
import { choiceParts } from "./job/choice.js";
import { logParts } from "./job/log.js";
import { resultParts } from "./job/result.js";
import { traceParts } from "./job/trace.js";

const SOON_MS = 200;
const TICK_MS = 1000;
const AGAIN_MS = 5000;

const main = () => ({
  ...loading(),
  job: null,
  events: [],
  now: Date.now(),

  init() {
    this.id = this.$store.route.params.job;
    this.stop = listen((news) => this.heard(news));
    this.timer = setInterval(() => this.tick(), TICK_MS);
    this.again = setInterval(() => this.job && jobs.isOpen(this.job) && !document.hidden && this.refresh(), AGAIN_MS);
    this.refresh();
  },

  destroy() {
    this.stop();
    clearInterval(this.timer);
    clearInterval(this.again);
    clearTimeout(this.later);
  },

  refresh() {
    return this.load(async () => {
      const path = `jobs/${encodeURIComponent(this.id)}`;
      const [job, story] = await Promise.all([api.get(path), api.get(`${path}/events`)]);
      if (job.action.kind === "compact" && job.state !== "succeeded" && !this.plan) this.plan = await planOf(path);
      this.events = story.events;
      this.now = Date.now();
      this.job = job;
      document.title = `${words.action(job.action.kind)} ${job.table_name} · icepack`;
    });
  },

  heard({ kind, document: told }) {
    if ((told.job_id ?? told.id) !== this.id || !this.job) return;
    if (kind === "progress") this.job = { ...this.job, progress: told.progress };
    clearTimeout(this.later);
    this.later = setTimeout(() => this.refresh(), SOON_MS);
  },

  tick() {
    if (this.job && jobs.isOpen(this.job) && !document.hidden) this.now = Date.now();
  },

  get line() {
    return jobs.line(this.job, this.now);
  },

  get tableHref() {
    return tableLink(this.job.table_name);
  },

  get mayCancel() {
    return jobs.mayCancel(this.job, this.$store.session);
  },

  get mayRetry() {
    return jobs.mayRetry(this.job, this.$store.session);
  },

  get lead() {
    return LEADS[this.job.state](this);
  },

  get figures() {
    const { progress } = this.job;
    const seconds = this.line.span;
    const figure = (name, text) => ({ name, text });
    return [
      figure("Groups", progress.partitions_total ? `${format.count(progress.partitions_completed)} of ${format.count(progress.partitions_total)}` : "–"),
      figure("Files", format.count(progress.files_processed)),
      figure("Read", format.bytes(progress.bytes_read)),
      figure("Written", format.bytes(progress.bytes_written)),
      figure("Running for", format.duration(seconds)),
      figure("Speed", progress.bytes_read && seconds ? `${format.bytes(progress.bytes_read / seconds)}/s` : "–"),
    ];
  },

  /* The first sentence says what, the others what to do. */
  get failure() {
    const [first, ...rest] = (this.job.message || "It says nothing about why.").split(/(?<=[.!?])\s+(?=[A-Z])/u);
    return { what: first, more: rest.join(" ") };
  },

  get failureWords() {
    const { failedIn, job } = this;
    const commits = job.details?.commits?.length ?? 0;
    const where = failedIn ? `It went wrong in its ${failedIn}${job.attempts > 1 ? `, in the last of ${format.count(job.attempts)} attempts` : ""}. ` : "";
    return `${where}${commits ? `${format.plural(commits, "commit")} of it stayed; each is complete.` : "Nothing was committed, so the table is as it was."}`;
  },

  get remedy() {
    const { details } = this.job;
    if (details?.state === "refused") return "A guard rail refused it. Change what the message names; the same again would be refused again.";
    const known = words.errorRemedy(details?.error);
    if (known) return known;
    if (details?.retryable) return "The cause may have passed or been repaired since: try it again. It is planned anew from the table as it is now.";
    return "The same again is likely to fail again. Repair what the message names first, then try it again.";
  },

  async cancel() {
    if (await jobs.cancel(this.job)) await this.refresh();
  },

  retry() {
    return jobs.retry(this.job);
  },
});

const LEADS = {
  queued: ({ job }) => (job.waits_until ? `It waits until ${format.moment(job.waits_until)}.` : `It waits for a worker since ${format.ago(job.submitted_at)}. Jobs of one table run one after the other.`),
  running: (self) => [self.phaseNow && `In its ${self.phaseNow}`, self.line.left].filter(Boolean).join(", ").concat("."),
  succeeded: ({ job, record, line }) => `Done in ${format.duration(line.span)}${record?.before && record.after && record.after.score !== record.before.score ? `; the score went from ${record.before.score} to ${record.after.score}` : ""}${job.attempts > 1 ? `, at attempt ${job.attempts}` : ""}.`,
  failed: ({ job }) => `Failed ${format.ago(job.finished_at)}${job.attempts > 1 ? `, after ${format.plural(job.attempts, "attempt")}` : ""}.`,
  cancelled: ({ job }) => `Cancelled ${format.ago(job.finished_at)}. ${job.attempts ? "What it had committed stays." : "It had not begun."}`,
};

/* Nothing is known of a table that is not in the cache: then there is no plan to show, and all else still is. */
async function planOf(path) {
  try {
    return await api.get(`${path}/plan`);
  } catch (problem) {
    if (problem.status === 404) return null;
    throw problem;
  }
}

export default () => join(main(), traceParts(), choiceParts(), resultParts(), logParts());
