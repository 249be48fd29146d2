/* Past maintenance runs of the table, with the state before and after each. */
import * as format from "../../lib/format.js";
import * as labels from "../../lib/labels.js";
import * as proof from "../../lib/proof.js";
import { link } from "../../lib/router.js";

export const runsMixin = () => ({
  get scoreTrend() {
    const points = (this.history?.points ?? []).map((point) => ({ at: point.observed_at, value: point.totals.score }));
    return { label: "Health score over time", height: 120, from: 0, to: 100, bands: true, points, format: format.count };
  },

  get runs() {
    const jobIds = new Set(this.jobIds);
    return (this.history?.runs ?? []).map((run) => runRow(run, jobIds));
  },
});

/* A run from the command line has no job to link to. */
function runRow(run, jobIds) {
  return {
    ...run,
    name: labels.action(run.action.kind),
    href: jobIds.has(run.job_id) ? link(`jobs/${run.job_id}`) : "",
    chart: beforeAfterData(run),
    changes: describeChanges(run),
    note: describeRun(run),
  };
}

/* What each action works on: the unit, its count in the totals, and its size if it has one. */
const SUBJECTS = {
  compact: ["files", "data_files", "bytes"],
  rewrite_position_deletes: ["delete files", "delete_files"],
  rewrite_manifests: ["manifests", "manifests"],
  expire_snapshots: ["snapshots", "snapshots"],
};

function beforeAfterData({ before, after, action }) {
  const [unit, name, volume] = SUBJECTS[action.kind] ?? [];
  if (!unit || !before || !after || before[name] === after[name]) return null;
  const side = (totals) => ({ files: totals[name], bytes: volume ? totals[volume] : action.kind === "expire_snapshots" ? totals[name] : 1 });
  return { unit, before: side(before), after: side(after), hasBytes: Boolean(volume) };
}

function describeChanges({ before, after, state, message }) {
  if (state === "failed" || state === "refused") return message;
  if (!before || !after) return message || "";
  const changed = [["data_files", "files"], ["delete_files", "delete files"], ["manifests", "manifests"], ["snapshots", "snapshots"], ["score", "score"]]
    .filter(([name]) => before[name] !== after[name])
    .map(([name, title]) => `${title} ${format.count(before[name])} → ${format.count(after[name])}`);
  return changed.length ? changed.join(", ") : "Nothing to change";
}

function describeRun(run) {
  const parts = [`Took ${format.duration(run.realised_seconds)}`];
  if (run.estimate) parts.push(`estimated ${format.duration(run.estimate.duration_seconds)}`);
  if (run.effect.bytes_deleted) parts.push(`freed ${format.bytes(run.effect.bytes_deleted)}`);
  const holds = run.proofs.every((item) => item.rows_before === item.rows_after);
  if (run.proofs.length) parts.push(holds ? `proof: no row changed (${format.count(run.proofs.at(-1).rows_after)} rows)` : "the proof failed");
  const values = proof.describeValueProof(run.value_proof);
  if (values) parts.push(values);
  if (run.value_proof?.mismatch) parts.push("the native rewrite changed values, so its result was not committed");
  return parts.join("; ");
}
