/* The events and the parameters of a job. */
import * as format from "../../lib/format.js";
import * as labels from "../../lib/labels.js";
import { link } from "../../lib/router.js";

const by = (actor) => (actor ? ` by ${actor}` : "");
const EVENTS = {
  submitted: (event) => `Submitted${by(event.actor)}`,
  collapsed: () => "Submitted again while queued; one run covers both",
  claimed: (event) => `Attempt ${event.attempt} started`,
  handed_back: () => "Returned to the queue",
  retried: (event) => `Attempt ${event.attempt} failed; the job will be retried`,
  expired: () => "The worker stopped responding; returned to the queue",
  cancel_requested: (event) => `Cancellation requested${by(event.actor)}`,
  succeeded: () => "Succeeded",
  failed: (event) => `Failed${event.attempt > 1 ? ` after ${event.attempt} attempts` : ""}`,
  cancelled: (event) => `Cancelled${by(event.actor)}`,
};
const COLORS = { retried: "failed", failed: "failed", expired: "failed", succeeded: "succeeded", claimed: "running", cancelled: "cancelled", cancel_requested: "cancelled" };
const DEFAULTS = { kind: null, strategy: "small_files", layout: "binpack", min_input_files: 5, engine: "native", proof: "sampled", retain_last: 1 };

export const eventsMixin = () => ({
  get eventRows() {
    return this.events
      .filter((event) => event.kind in EVENTS)
      .map((event) => ({
        number: event.number,
        at: event.at,
        clock: clock.format(new Date(event.at)),
        title: `${format.dateTime(event.at)} · ${format.utc(event.at)}`,
        text: EVENTS[event.kind](event),
        message: this.job.state === "failed" && event.message === this.job.message ? "" : event.message,
        color: COLORS[event.kind] ?? "",
      }));
  },

  /* Only the parameters that differ from their defaults. */
  get parameters() {
    const { action } = this.job;
    const given = Object.entries(action).filter(([name, value]) => isSet(value) && DEFAULTS[name] !== value && name !== "kind");
    return given.map(([name, value]) => ({ name: labels.setting(name.replace(/_bytes$/, "_size")), text: formatParameter(name, value) }));
  },

  get facts() {
    const { job } = this;
    const fact = (name, text) => ({ name, text });
    return [
      fact("Submitted by", job.requester || "unknown"),
      fact("Priority", format.count(job.priority)),
      fact("Attempts", `${format.count(job.attempts)} of ${format.count(job.max_attempts)}`),
      fact("Worker", job.worker ?? "none yet"),
      fact("Job ID", job.id),
      ...(job.trace_context ? [fact("Trace ID", job.trace_context.split("-")[1] ?? job.trace_context)] : []),
    ];
  },

  get originalHref() {
    return this.job.retry_of ? link(`jobs/${this.job.retry_of}`) : "";
  },
});

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const isSet = (value) => value !== null && value !== false && value !== "" && !(typeof value === "object" && Object.keys(value).length === 0);

function formatParameter(name, value) {
  if (name.endsWith("_bytes")) return format.bytes(value);
  if (name === "partitions") return format.plural(value.length, "partition");
  if (typeof value === "string" && /^P(T|\d)/.test(value)) return format.duration(format.parseIsoDuration(value));
  if (value === true) return "yes";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
