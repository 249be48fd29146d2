/* The result of a job: estimated and actual values, before and after, and the proof. */
import { compareToEstimate } from "../../lib/estimates.js";
import * as format from "../../lib/format.js";
import * as proof from "../../lib/proof.js";

export const resultMixin = () => ({
  get record() {
    return this.job.details;
  },

  get hasResult() {
    return this.record !== null && this.record.state === "succeeded";
  },

  get comparison() {
    const { estimate, expected, effect, realised_seconds: seconds } = this.record ?? {};
    if (!this.record) return [];
    const removed = effect.files_rewritten - effect.files_added;
    const rows = [["Time", estimate?.duration_seconds, seconds, format.duration]];
    if (expected?.files_removed || removed > 0) rows.push(["Files removed", expected?.files_removed, removed, format.count]);
    if (expected?.bytes_rewritten || effect.bytes_rewritten) rows.push(["Data rewritten", expected?.bytes_rewritten, effect.bytes_rewritten, format.bytes]);
    if (expected?.snapshots_removed || effect.snapshots_removed) rows.push(["Snapshots removed", expected?.snapshots_removed, effect.snapshots_removed, format.count]);
    return rows.map(([name, estimated, actual, formatValue]) => ({ name, estimated: formatValue(estimated), actual: formatValue(actual), difference: compareToEstimate(estimated, actual) }));
  },

  get hasComparison() {
    return this.comparison.length > 0 && this.record.estimate !== null;
  },

  get costNote() {
    const dollars = this.record?.estimate?.dollars;
    return dollars === undefined ? "" : `Estimated cost: ${format.money(dollars)}.`;
  },

  get fileChart() {
    const { before, after } = this.record ?? {};
    if (!before || !after || before.data_files === after.data_files) return null;
    return { unit: "files", hasBytes: true, before: { files: before.data_files, bytes: before.bytes }, after: { files: after.data_files, bytes: after.bytes } };
  },

  get changes() {
    const { before, after, effect } = this.record ?? {};
    if (!before || !after) return [];
    const rows = [
      ["Score", before.score, after.score, format.count],
      ["Data files", before.data_files, after.data_files, format.count],
      ["Average file size", before.bytes / Math.max(before.data_files, 1), after.bytes / Math.max(after.data_files, 1), format.bytes],
      ["Delete files", before.delete_files, after.delete_files, format.count],
      ["Snapshots", before.snapshots, after.snapshots, format.count],
      ["Manifests", effect.manifests_before || before.manifests, effect.manifests_after || after.manifests, format.count],
      ["Rows", before.records, after.records, format.count],
    ];
    return rows.map(([name, old, current, formatValue]) => ({ name, before: formatValue(old), after: formatValue(current), isSame: formatValue(old) === formatValue(current) }));
  },

  get proofText() {
    const proofs = this.record?.proofs ?? [];
    if (!proofs.length) return "";
    const rows = proofs.reduce((sum, item) => sum + item.rows_after, 0);
    return proofs.every((item) => item.rows_before === item.rows_after)
      ? `Proof: ${format.plural(rows, "row")} before and after in the rewritten files.`
      : "Row counts before and after differ; see the message.";
  },

  get valueProofText() {
    const text = proof.describeValueProof(this.record?.value_proof);
    return text && `${text}.`;
  },

  get nativeFailureText() {
    return proof.describeFailures(this.record?.value_proof);
  },

  get hasMismatch() {
    return Boolean(this.record?.value_proof?.mismatch);
  },

  get hasFileColumn() {
    return this.differences.some((row) => row.file);
  },

  get differences() {
    return proof.differenceRows(this.record?.value_proof?.mismatch);
  },
});
