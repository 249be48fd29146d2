/* Live job updates: from the event stream, or by polling while the stream is unavailable. */
import * as api from "./api.js";

const POLL_MS = 4000;
const REOPEN_MS = 60_000;
const MAX_FAILURES = 3;
const LABELS = {
  live: ["Live", "Job changes arrive as they happen."],
  polling: ["Polling", "The event stream is unavailable; jobs are polled every few seconds."],
  off: ["", ""],
};
const subscribers = new Set();
let self = null;
let source = null;
let pollTimer = null;
let reopenTimer = null;
let failures = 0;
let lastSeen = null;

export const live = {
  state: "off",

  attach(store) {
    self = store;
  },

  get name() {
    return LABELS[this.state][0];
  },

  get description() {
    return LABELS[this.state][1];
  },
};

/* Calls back with {kind, document} for every change; returns a function that unsubscribes. */
export function subscribe(callback) {
  subscribers.add(callback);
  if (!source && !pollTimer) open();
  return () => {
    subscribers.delete(callback);
    if (!subscribers.size) close();
  };
}

const publish = (kind, document) => subscribers.forEach((callback) => callback({ kind, document }));

function open() {
  source = new EventSource(api.buildUrl("jobs/stream"));
  source.addEventListener("open", () => {
    failures = 0;
    self.state = "live";
  });
  for (const kind of ["job", "progress"]) source.addEventListener(kind, (event) => publish(kind, JSON.parse(event.data)));
  source.addEventListener("error", () => {
    failures += 1;
    if (failures >= MAX_FAILURES || source.readyState === EventSource.CLOSED) startPolling();
  });
}

function startPolling() {
  source?.close();
  source = null;
  self.state = "polling";
  lastSeen = null;
  pollTimer ??= setInterval(poll, POLL_MS);
  void poll();
  reopenTimer ??= setTimeout(reopen, REOPEN_MS);
}

function reopen() {
  clearInterval(pollTimer);
  pollTimer = reopenTimer = null;
  failures = 0;
  open();
}

async function poll() {
  try {
    const { jobs } = await api.get("jobs", { limit: 25 });
    const current = new Map(jobs.map((job) => [job.id, JSON.stringify([job.state, job.progress])]));
    const previous = lastSeen;
    lastSeen = current;
    // The first poll has nothing to compare with, so it publishes every job.
    jobs.filter((job) => !previous || previous.get(job.id) !== current.get(job.id)).forEach((job) => publish("job", job));
  } catch (problem) {
    if (problem.status === 401) close();
  }
}

function close() {
  source?.close();
  clearInterval(pollTimer);
  clearTimeout(reopenTimer);
  source = pollTimer = reopenTimer = null;
  failures = 0;
  self.state = "off";
}
