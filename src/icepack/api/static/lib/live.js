/* News of jobs: the event stream, and while there is none, a look every few seconds. */
import * as api from "./api.js";

const POLL_MS = 4000;
const REOPEN_MS = 60_000;
const FAILURES = 3;
const WORDS = {
  live: ["Live", "Changes of jobs arrive as they happen."],
  polling: ["Every few seconds", "The event stream is not to be had; jobs are asked for every few seconds."],
  off: ["", ""],
};
const listeners = new Set();
let self = null;
let source = null;
let timer = null;
let again = null;
let failures = 0;
let seen = null;

export const live = {
  state: "off",

  attach(store) {
    self = store;
  },

  get name() {
    return WORDS[this.state][0];
  },

  get words() {
    return WORDS[this.state][1];
  },
};

/* Calls back with {kind, document} for every change; the answer ends it. */
export function listen(callback) {
  listeners.add(callback);
  if (!source && !timer) open();
  return () => {
    listeners.delete(callback);
    if (!listeners.size) close();
  };
}

const spread = (kind, document) => listeners.forEach((callback) => callback({ kind, document }));

function open() {
  source = new EventSource(api.address("jobs/stream"));
  source.addEventListener("open", () => {
    failures = 0;
    self.state = "live";
  });
  for (const kind of ["job", "progress"]) source.addEventListener(kind, (event) => spread(kind, JSON.parse(event.data)));
  source.addEventListener("error", () => {
    failures += 1;
    if (failures >= FAILURES || source.readyState === EventSource.CLOSED) poll();
  });
}

function poll() {
  source?.close();
  source = null;
  self.state = "polling";
  seen = null;
  timer ??= setInterval(look, POLL_MS);
  void look();
  again ??= setTimeout(reopen, REOPEN_MS);
}

function reopen() {
  clearInterval(timer);
  timer = again = null;
  failures = 0;
  open();
}

async function look() {
  try {
    const { jobs } = await api.get("jobs", { limit: 25 });
    const now = new Map(jobs.map((job) => [job.id, JSON.stringify([job.state, job.progress])]));
    const before = seen;
    seen = now;
    // What changed before the first look is not known, so that one tells of all.
    jobs.filter((job) => !before || before.get(job.id) !== now.get(job.id)).forEach((job) => spread("job", job));
  } catch (problem) {
    if (problem.status === 401) close();
  }
}

function close() {
  source?.close();
  clearInterval(timer);
  clearTimeout(again);
  source = timer = again = null;
  failures = 0;
  self.state = "off";
}
