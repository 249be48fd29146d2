/* Jobs in words, and what can be done to them. */
import * as api from "./api.js";
import { confirm } from "./dialogs.js";
import * as format from "./format.js";
import { go, link, tableLink } from "./router.js";
import { complain, tell } from "./toasts.js";
import * as words from "./words.js";

export const isOpen = (job) => job.state === "queued" || job.state === "running";
const seconds = (from, to) => (new Date(to).getTime() - new Date(from).getTime()) / 1000;

/* How far it is, from 0 to 1; null while nobody knows. */
export function share(job) {
  const { partitions_completed: done, partitions_total: all } = job.progress;
  if (job.state === "succeeded") return 1;
  return all ? done / all : null;
}

/* Seconds, an estimate: by what is done where something is, else by what was expected. */
export function timeLeft(job, now = Date.now()) {
  if (job.state !== "running" || !job.started_at) return null;
  const elapsed = seconds(job.started_at, now);
  const done = share(job);
  if (done) return Math.max((elapsed * (1 - done)) / done, 0);
  if (!job.estimated_seconds) return null;
  return job.estimated_seconds > elapsed ? job.estimated_seconds - elapsed : null;
}

export const took = (job, now = Date.now()) => (job.started_at ? seconds(job.started_at, job.finished_at ?? now) : null);

export function about(left) {
  if (left === null) return "";
  if (left < 20) return "done in a few seconds";
  if (left < 90) return `about ${Math.ceil(left / 10) * 10} s left`;
  if (left < 5400) return `about ${Math.round(left / 60)} min left`;
  return `about ${Math.round(left / 3600)} h left`;
}

export function progressWords({ progress }) {
  const { partitions_completed: done, partitions_total: all, files_processed: files, bytes_read: read } = progress;
  const parts = [];
  if (all) parts.push(`${format.count(done)} of ${format.plural(all, "group")}`);
  if (files) parts.push(format.plural(files, "file"));
  if (read) parts.push(`${format.bytes(read)} read`);
  return parts.join(" · ");
}

const STORY = {
  queued: (job) => (job.waits_until ? `Waits until ${format.moment(job.waits_until)}.` : "Waits for a worker."),
  running: (job) => (job.cancel_requested_at ? "Stops before its next commit." : progressWords(job) || "Has begun; nothing is done yet."),
  succeeded: (job) => progressWords({ progress: { ...job.progress, partitions_total: 0 } }) || "Done.",
  failed: (job) => job.message || "It says nothing about why.",
  cancelled: (job) => job.message || (job.attempts ? "Stopped before it was done." : "Taken back before it began."),
};

export const story = (job) => STORY[job.state](job);

/* All that a line of a list shows of a job. */
export function line(job, now) {
  const done = share(job);
  return {
    ...job,
    name: words.action(job.action.kind),
    stateName: words.state(job.state),
    href: link(`jobs/${job.id}`),
    tableHref: tableLink(job.table_name),
    story: story(job),
    hasBar: job.state === "running",
    isVague: job.state === "running" && !done,
    percent: done === null ? null : Math.round(done * 100),
    width: done === null ? "100%" : `${Math.max(done * 100, 2)}%`,
    left: about(timeLeft(job, now)),
    span: took(job, now),
    when: job.finished_at ?? job.started_at ?? job.submitted_at,
    by: job.requester || "nobody",
  };
}

export const mayCancel = (job, session) => isOpen(job) && !job.cancel_requested_at && session.may("operator", job.table);
export const mayRetry = (job, session) => !isOpen(job) && session.may("operator", job.table);

/* True if it was asked for. */
export async function cancel(job) {
  const isOn = job.state === "running";
  const sure = await confirm({
    title: `Cancel ${words.action(job.action.kind).toLowerCase()} of ${job.table_name}?`,
    text: isOn
      ? "It stops within seconds, before its next commit. What it has committed already stays; nothing is left half done."
      : "It has not begun, so nothing is lost.",
    action: "Cancel the job",
    danger: true,
  });
  if (!sure) return false;
  return attempt(async () => {
    const now = await api.post(`jobs/${job.id}/cancel`);
    tell(now.state === "cancelled" ? "The job is cancelled." : "The job has been told to stop.");
  });
}

/* Goes to the new job. */
export const retry = (job) =>
  attempt(async () => {
    const made = await api.post(`jobs/${job.id}/retry`);
    tell(made.outcome === "collapsed" ? "The same was queued already; this is its job." : "Asked for once more.");
    go(`jobs/${made.job_id}`);
  });

async function attempt(work) {
  try {
    await work();
    return true;
  } catch (problem) {
    complain(problem);
    return false;
  }
}
