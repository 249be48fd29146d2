/* What a run has proven by value, in words; records of earlier releases say nothing of it. */
import * as format from "./format.js";

export function valueWords(proof) {
  if (!proof) return "";
  const total = proof.groups + proof.spark_groups;
  if (!total) return "";
  const compared = proof.groups_compared + (proof.commits_compared ? proof.spark_groups : 0);
  return `${format.plural(total, "group")}, rows counted in all, values compared in ${format.count(compared)}`;
}

export function failureWords(proof) {
  const count = proof?.failures?.length ?? 0;
  return count ? `The native rewrite of ${format.plural(count, "group")} failed; Spark's procedure rewrote ${count === 1 ? "it" : "them"}.` : "";
}

/* What differed, line by line. */
export function differences(mismatch) {
  return (mismatch?.differences ?? []).map((one, number) => ({
    key: number,
    column: one.column || "rows",
    measure: one.measure.replaceAll("_", " "),
    before: one.before,
    after: one.after,
    file: one.file,
  }));
}

/* A name as a shell takes it for one word. */
export const shellQuoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`);
