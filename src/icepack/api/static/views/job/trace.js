/* When a job waited, planned, worked and committed: from its events, and while it runs from its phases. */
import { spanWords } from "../../charts/phases.js";
import * as format from "../../lib/format.js";

const PHASES = {
  waiting: ["Waiting", "It was in the queue."],
  planning: ["Planning", "Reads the table's metadata and chooses the files."],
  execution: ["Execution", "Rewrites the files; readers see nothing of it yet."],
  commit: ["Commit", "Makes the new files visible in one step, after proving that no row is lost."],
};
const phaseName = (kind) => PHASES[kind]?.[0] ?? kind;
const at = (text) => new Date(text).getTime();
const STARTS = ["claimed"];
const BACK = ["retried", "handed_back", "expired"];
const ENDS = ["succeeded", "failed", "cancelled"];

export const traceParts = () => ({
  /* Waiting first, then a lane for each attempt. */
  get lanes() {
    const waits = waitsOf(this.job, this.events, this.now);
    const attempts = new Map();
    for (const span of spansOf(this.events)) {
      if (!attempts.has(span.attempt)) attempts.set(span.attempt, []);
      attempts.get(span.attempt).push(block(span.kind, span.from, span.to, { isFailed: span.failure !== "", failure: span.failure }));
    }
    if (!attempts.has(this.job.attempts) && this.job.phases.length) attempts.set(this.job.attempts, this.livePhases);
    const many = attempts.size > 1;
    const lanes = [...attempts].sort(([one], [other]) => one - other).map(([number, blocks]) => ({ name: many ? `Attempt ${number}` : "Run", blocks }));
    return [...(waits.length ? [{ name: "Queue", blocks: waits }] : []), ...lanes];
  },

  get livePhases() {
    return this.job.phases.map((phase) => block(phase.phase, at(phase.started_at), phase.ended_at ? at(phase.ended_at) : this.now, { isOpen: !phase.ended_at }));
  },

  get traceChart() {
    const blocks = this.lanes.flatMap((lane) => lane.blocks);
    if (!blocks.length) return null;
    return {
      label: `What it did when. ${this.traceWords}`,
      from: Math.min(...blocks.map((one) => one.from)),
      to: Math.max(...blocks.map((one) => one.to)),
      lanes: this.lanes,
    };
  },

  /* The same in words, for the last attempt. */
  get phaseList() {
    const last = this.lanes.at(-1);
    if (!last || last.name === "Queue") return [];
    return last.blocks.map((one) => ({ ...one, text: spanWords(one.from, one.to), means: PHASES[one.kind]?.[1] ?? "" }));
  },

  get traceWords() {
    if (!this.phaseList.length) return this.job.state === "queued" ? "It has not begun." : "";
    return `${this.phaseList.map((one) => `${one.name} ${one.isOpen ? "so far " : ""}${one.text}`).join(", ")}.`;
  },

  get phaseNow() {
    const open = this.job.state === "running" ? this.phaseList.at(-1) : null;
    return open ? open.name.toLowerCase() : "";
  },

  get failedIn() {
    return this.phaseList.find((one) => one.isFailed)?.name.toLowerCase() ?? "";
  },
});

function block(kind, from, to, { isFailed = false, isOpen = false, failure = "" } = {}) {
  const name = phaseName(kind);
  const tip = [`${spanWords(from, to)}${isOpen ? " so far" : ""}`, format.moment(from), isFailed ? failure.slice(0, 200) : ""].filter(Boolean);
  return { kind, name, from, to, isFailed, isOpen, tip };
}

function spansOf(events) {
  return events
    .filter((event) => event.kind === "span" && event.details && event.details.name in PHASES)
    .map(({ attempt, details }) => ({ attempt, kind: details.name, from: at(details.started_at), to: at(details.ended_at), failure: details.failure ?? "" }));
}

function waitsOf(job, events, now) {
  const found = [];
  let since = at(job.submitted_at);
  for (const event of events) {
    const moment = at(event.at);
    if (since !== null && (STARTS.includes(event.kind) || ENDS.includes(event.kind))) {
      found.push(block("waiting", since, moment));
      since = null;
    } else if (BACK.includes(event.kind)) since = moment;
  }
  if (since !== null && job.state === "queued") found.push(block("waiting", since, now, { isOpen: true }));
  return found.filter((one) => one.to - one.from > 200 || found.length === 1);
}
