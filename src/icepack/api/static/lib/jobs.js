/* Describes jobs as text, and cancels and retries them. */
import * as api from "./api.js";
import { confirm } from "./dialogs.js";
import * as format from "./format.js";
import * as labels from "./labels.js";
import { go, link, tableLink } from "./router.js";
import { notify, notifyProblem } from "./toasts.js";

export const isActive = (job) => job.state === "queued" || job.state === "running";
const secondsBetween = (from, to) => (new Date(to).getTime() - new Date(from).getTime()) / 1000;

/* Fraction completed, from 0 to 1; null while it is unknown. */
export function fractionDone(job) {
  const { partitions_completed: done, partitions_total: all } = job.progress;
  if (job.state === "succeeded") return 1;
  return all ? done / all : null;
}

/* Estimated seconds left: extrapolated from progress if there is any, else from the estimate made at submission. */
export function secondsLeft(job, now = Date.now()) {
  if (job.state !== "running" || !job.started_at) return null;
  const elapsed = secondsBetween(job.started_at, now);
  const done = fractionDone(job);
  if (done) return Math.max((elapsed * (1 - done)) / done, 0);
  if (!job.estimated_seconds) return null;
  return job.estimated_seconds > elapsed ? job.estimated_seconds - elapsed : null;
}

export const elapsedSeconds = (job, now = Date.now()) => (job.started_at ? secondsBetween(job.started_at, job.finished_at ?? now) : null);

export function describeTimeLeft(seconds) {
  if (seconds === null) return "";
  if (seconds < 20) return "a few seconds left";
  if (seconds < 90) return `about ${Math.ceil(seconds / 10) * 10} s left`;
  if (seconds < 5400) return `about ${Math.round(seconds / 60)} min left`;
  return `about ${Math.round(seconds / 3600)} h left`;
}

export function describeProgress({ progress }) {
  const { partitions_completed: done, partitions_total: all, files_processed: files, bytes_read: read } = progress;
  const parts = [];
  if (all) parts.push(`${format.count(done)} of ${format.plural(all, "file group")}`);
  if (files) parts.push(format.plural(files, "file"));
  if (read) parts.push(`${format.bytes(read)} read`);
  return parts.join(" · ");
}

const SUMMARIES = {
  queued: (job) => (job.waits_until ? `Scheduled for ${format.dateTime(job.waits_until)}.` : "Waiting for a worker."),
  running: (job) => (job.cancel_requested_at ? "Stopping before the next commit." : describeProgress(job) || "Started; no progress yet."),
  succeeded: (job) => describeProgress({ progress: { ...job.progress, partitions_total: 0 } }) || "Succeeded.",
  failed: (job) => job.message || "No error message.",
  cancelled: (job) => job.message || (job.attempts ? "Cancelled while running." : "Cancelled before it started."),
};

export const summarize = (job) => SUMMARIES[job.state](job);

/* Everything that a list row shows about a job. */
export function jobRow(job, now) {
  const done = fractionDone(job);
  return {
    ...job,
    name: labels.action(job.action.kind),
    stateName: labels.state(job.state),
    href: link(`jobs/${job.id}`),
    tableHref: tableLink(job.table_name),
    summary: summarize(job),
    hasBar: job.state === "running",
    isIndeterminate: job.state === "running" && !done,
    percent: done === null ? null : Math.round(done * 100),
    width: done === null ? "100%" : `${Math.max(done * 100, 2)}%`,
    timeLeft: describeTimeLeft(secondsLeft(job, now)),
    elapsed: elapsedSeconds(job, now),
    when: job.finished_at ?? job.started_at ?? job.submitted_at,
    by: job.requester || "unknown",
  };
}

export const canCancel = (job, session) => isActive(job) && !job.cancel_requested_at && session.hasRole("operator", job.table);
export const canRetry = (job, session) => !isActive(job) && session.hasRole("operator", job.table);

/* Asks for confirmation; returns whether the cancellation was requested. */
export async function cancel(job) {
  const confirmed = await confirm({
    title: `Cancel the ${labels.action(job.action.kind).toLowerCase()} job on ${job.table_name}?`,
    text:
      job.state === "running"
        ? "The job stops within seconds, before its next commit. Commits that it has already made are kept; nothing is left half done."
        : "The job has not started, so nothing is lost.",
    action: "Cancel job",
    dismiss: "Keep job",
    danger: true,
  });
  if (!confirmed) return false;
  return notifyOnFailure(async () => {
    const current = await api.post(`jobs/${job.id}/cancel`);
    notify(current.state === "cancelled" ? "Job cancelled." : "Cancellation requested.");
  });
}

/* Submits the job again and opens the new job. */
export const retry = (job) =>
  notifyOnFailure(async () => {
    const submitted = await api.post(`jobs/${job.id}/retry`);
    notify(submitted.outcome === "collapsed" ? "The same job is already queued." : "Job queued again.");
    go(`jobs/${submitted.job_id}`);
  });

async function notifyOnFailure(work) {
  try {
    await work();
    return true;
  } catch (problem) {
    notifyProblem(problem);
    return false;
  }
}
