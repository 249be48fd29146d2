/* Describes the value proof of a run. Run records of earlier releases have none. */
import * as format from "./format.js";

export function describeValueProof(proof) {
  if (!proof) return "";
  const total = proof.groups + proof.spark_groups;
  if (!total) return "";
  const compared = proof.groups_compared + (proof.commits_compared ? proof.spark_groups : 0);
  return `${format.plural(total, "group")}, rows counted in all, values compared in ${format.count(compared)}`;
}

export function describeFailures(proof) {
  const count = proof?.failures?.length ?? 0;
  return count ? `The native rewrite of ${format.plural(count, "file group")} failed; Spark's procedure rewrote ${count === 1 ? "it" : "them"}.` : "";
}

/* One row for each value that differed. */
export function differenceRows(mismatch) {
  return (mismatch?.differences ?? []).map((difference, index) => ({
    key: index,
    column: difference.column || "rows",
    measure: difference.measure.replaceAll("_", " "),
    before: difference.before,
    after: difference.after,
    file: difference.file,
  }));
}

/* Quotes text so that a shell reads it as one word. */
export const quoteForShell = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`);
