/* When a job waited, planned, executed and committed: from its events, and while it runs from its phases. */
import { formatSpan } from "../../charts/phase-timeline.js";
import * as format from "../../lib/format.js";

const PHASES = {
  waiting: ["Waiting", "In the queue."],
  planning: ["Planning", "Reads the table metadata and selects files."],
  execution: ["Execution", "Rewrites files; readers do not see the result yet."],
  commit: ["Commit", "Makes the new files visible in one atomic step, after proving that no row is lost."],
};
const phaseName = (kind) => PHASES[kind]?.[0] ?? kind;
const toMs = (timestamp) => new Date(timestamp).getTime();
const STARTED = ["claimed"];
const REQUEUED = ["retried", "handed_back", "expired"];
const ENDED = ["succeeded", "failed", "cancelled"];

export const timelineMixin = () => ({
  /* The queue first, then a lane for each attempt. */
  get lanes() {
    const waits = queueBlocks(this.job, this.events, this.now);
    const attempts = new Map();
    for (const span of phaseSpans(this.events)) {
      if (!attempts.has(span.attempt)) attempts.set(span.attempt, []);
      attempts.get(span.attempt).push(phaseBlock(span.kind, span.from, span.to, { isFailed: span.failure !== "", failure: span.failure }));
    }
    if (!attempts.has(this.job.attempts) && this.job.phases.length) attempts.set(this.job.attempts, this.livePhases);
    const hasSeveral = attempts.size > 1;
    const lanes = [...attempts].sort(([first], [second]) => first - second).map(([number, blocks]) => ({ name: hasSeveral ? `Attempt ${number}` : "Run", blocks }));
    return [...(waits.length ? [{ name: "Queue", blocks: waits }] : []), ...lanes];
  },

  get livePhases() {
    return this.job.phases.map((phase) => phaseBlock(phase.phase, toMs(phase.started_at), phase.ended_at ? toMs(phase.ended_at) : this.now, { isOpen: !phase.ended_at }));
  },

  get timelineChart() {
    const blocks = this.lanes.flatMap((lane) => lane.blocks);
    if (!blocks.length) return null;
    return {
      label: `Timeline. ${this.timelineText}`,
      from: Math.min(...blocks.map((block) => block.from)),
      to: Math.max(...blocks.map((block) => block.to)),
      lanes: this.lanes,
    };
  },

  /* The phases of the last attempt. */
  get phaseList() {
    const last = this.lanes.at(-1);
    if (!last || last.name === "Queue") return [];
    return last.blocks.map((block) => ({ ...block, text: formatSpan(block.from, block.to), description: PHASES[block.kind]?.[1] ?? "" }));
  },

  get timelineText() {
    if (!this.phaseList.length) return this.job.state === "queued" ? "Not started." : "";
    return `${this.phaseList.map((phase) => `${phase.name} ${phase.isOpen ? "so far " : ""}${phase.text}`).join(", ")}.`;
  },

  get currentPhase() {
    const phase = this.job.state === "running" ? this.phaseList.at(-1) : null;
    return phase ? phase.name.toLowerCase() : "";
  },

  get failedPhase() {
    return this.phaseList.find((phase) => phase.isFailed)?.name.toLowerCase() ?? "";
  },
});

function phaseBlock(kind, from, to, { isFailed = false, isOpen = false, failure = "" } = {}) {
  const name = phaseName(kind);
  const tip = [`${formatSpan(from, to)}${isOpen ? " so far" : ""}`, format.dateTime(from), isFailed ? failure.slice(0, 200) : ""].filter(Boolean);
  return { kind, name, from, to, isFailed, isOpen, tip };
}

function phaseSpans(events) {
  return events
    .filter((event) => event.kind === "span" && event.details && event.details.name in PHASES)
    .map(({ attempt, details }) => ({ attempt, kind: details.name, from: toMs(details.started_at), to: toMs(details.ended_at), failure: details.failure ?? "" }));
}

function queueBlocks(job, events, now) {
  const blocks = [];
  let since = toMs(job.submitted_at);
  for (const event of events) {
    const time = toMs(event.at);
    if (since !== null && (STARTED.includes(event.kind) || ENDED.includes(event.kind))) {
      blocks.push(phaseBlock("waiting", since, time));
      since = null;
    } else if (REQUEUED.includes(event.kind)) since = time;
  }
  if (since !== null && job.state === "queued") blocks.push(phaseBlock("waiting", since, now, { isOpen: true }));
  return blocks.filter((block) => block.to - block.from > 200 || blocks.length === 1);
}
