/* Its story, line by line, and what was asked of it. */
import * as format from "../../lib/format.js";
import { link } from "../../lib/router.js";
import * as words from "../../lib/words.js";

const KINDS = {
  submitted: (event) => `Asked for${event.actor ? ` by ${event.actor}` : ""}`,
  collapsed: () => "Asked for once more while it waited; one run does for both",
  claimed: (event) => `Attempt ${event.attempt} begun`,
  handed_back: () => "Handed back to the queue",
  retried: (event) => `Attempt ${event.attempt} failed; it will be tried again`,
  expired: () => "Its worker was not heard of any more; back to the queue",
  cancel_requested: (event) => `Told to stop${event.actor ? ` by ${event.actor}` : ""}`,
  succeeded: () => "Done",
  failed: (event) => `Failed${event.attempt > 1 ? ` for good, after ${event.attempt} attempts` : ""}`,
  cancelled: (event) => `Cancelled${event.actor ? ` by ${event.actor}` : ""}`,
};
const MOODS = { retried: "failed", failed: "failed", expired: "failed", succeeded: "succeeded", claimed: "running", cancelled: "cancelled", cancel_requested: "cancelled" };
const PLAIN = { kind: null, strategy: "small_files", layout: "binpack", min_input_files: 5, engine: "native", proof: "sampled", retain_last: 1 };

export const logParts = () => ({
  get log() {
    return this.events
      .filter((event) => event.kind in KINDS)
      .map((event) => ({
        number: event.number,
        at: event.at,
        clock: clock.format(new Date(event.at)),
        title: `${format.moment(event.at)} · ${format.utc(event.at)}`,
        text: KINDS[event.kind](event),
        message: this.job.state === "failed" && event.message === this.job.message ? "" : event.message,
        mood: MOODS[event.kind] ?? "",
      }));
  },

  get asked() {
    const { action } = this.job;
    const given = Object.entries(action).filter(([name, value]) => isGiven(value) && PLAIN[name] !== value && name !== "kind");
    return given.map(([name, value]) => ({ name: words.setting(name.replace(/_bytes$/, "_size")), text: written(name, value) }));
  },

  get facts() {
    const { job } = this;
    const fact = (name, text) => ({ name, text });
    return [
      fact("Asked for by", job.requester || "nobody"),
      fact("Priority", format.count(job.priority)),
      fact("Attempts", `${format.count(job.attempts)} of ${format.count(job.max_attempts)}`),
      fact("Worker", job.worker ?? "none yet"),
      fact("Job", job.id),
      ...(job.trace_context ? [fact("Trace", job.trace_context.split("-")[1] ?? job.trace_context)] : []),
    ];
  },

  get retryOf() {
    return this.job.retry_of ? link(`jobs/${this.job.retry_of}`) : "";
  },
});

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const isGiven = (value) => value !== null && value !== false && value !== "" && !(typeof value === "object" && Object.keys(value).length === 0);

function written(name, value) {
  if (name.endsWith("_bytes")) return format.bytes(value);
  if (name === "partitions") return format.plural(value.length, "partition");
  if (typeof value === "string" && /^P(T|\d)/.test(value)) return format.duration(format.isoSeconds(value));
  if (value === true) return "yes";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
