/* What came of it: estimated beside realised, before and after, the proof. */
import { offBy } from "../../lib/compare.js";
import * as format from "../../lib/format.js";
import * as proof from "../../lib/proof.js";

export const resultParts = () => ({
  get record() {
    return this.job.details;
  },

  get hasResult() {
    return this.record !== null && this.record.state === "succeeded";
  },

  get comparison() {
    const { estimate, expected, effect, realised_seconds: realised } = this.record ?? {};
    if (!this.record) return [];
    const removed = effect.files_rewritten - effect.files_added;
    const rows = [["Time", estimate?.duration_seconds, realised, format.duration]];
    if (expected?.files_removed || removed > 0) rows.push(["Fewer files", expected?.files_removed, removed, format.count]);
    if (expected?.bytes_rewritten || effect.bytes_rewritten) rows.push(["Data rewritten", expected?.bytes_rewritten, effect.bytes_rewritten, format.bytes]);
    if (expected?.snapshots_removed || effect.snapshots_removed) rows.push(["Snapshots gone", expected?.snapshots_removed, effect.snapshots_removed, format.count]);
    return rows.map(([name, guess, real, written]) => ({ name, guess: written(guess), real: written(real), difference: offBy(guess, real) }));
  },

  get hasComparison() {
    return this.comparison.length > 0 && this.record.estimate !== null;
  },

  get costNote() {
    const dollars = this.record?.estimate?.dollars;
    return dollars === undefined ? "" : `Its cost was estimated at ${format.money(dollars)}.`;
  },

  get picture() {
    const { before, after } = this.record ?? {};
    if (!before || !after || before.data_files === after.data_files) return null;
    return { what: "files", isVolume: true, before: { files: before.data_files, bytes: before.bytes }, after: { files: after.data_files, bytes: after.bytes } };
  },

  get changes() {
    const { before, after, effect } = this.record ?? {};
    if (!before || !after) return [];
    const rows = [
      ["Score", before.score, after.score, format.count],
      ["Data files", before.data_files, after.data_files, format.count],
      ["Average file", before.bytes / Math.max(before.data_files, 1), after.bytes / Math.max(after.data_files, 1), format.bytes],
      ["Delete files", before.delete_files, after.delete_files, format.count],
      ["Snapshots", before.snapshots, after.snapshots, format.count],
      ["Manifests", effect.manifests_before || before.manifests, effect.manifests_after || after.manifests, format.count],
      ["Rows", before.records, after.records, format.count],
    ];
    return rows.map(([name, was, is, written]) => ({ name, was: written(was), is: written(is), isSame: written(was) === written(is) }));
  },

  get proofWords() {
    const proofs = this.record?.proofs ?? [];
    if (!proofs.length) return "";
    const rows = proofs.reduce((sum, one) => sum + one.rows_after, 0);
    return proofs.every((one) => one.rows_before === one.rows_after)
      ? `Proven: ${format.plural(rows, "row")} before and after in what was rewritten.`
      : "The rows before and after differ; look at the message.";
  },

  get valueWords() {
    const said = proof.valueWords(this.record?.value_proof);
    return said && `${said}.`;
  },

  get nativeFailureWords() {
    return proof.failureWords(this.record?.value_proof);
  },

  get hasMismatch() {
    return Boolean(this.record?.value_proof?.mismatch);
  },

  get namesFiles() {
    return this.differences.some((one) => one.file);
  },

  get differences() {
    return proof.differences(this.record?.value_proof?.mismatch);
  },
});
