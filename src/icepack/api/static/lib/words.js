/* What codes mean, in plain words. */
const ISSUES = {
  small_files: ["Small files", "Many files far below the target: every read opens each of them."],
  delete_pressure: ["Deletes to merge", "Delete files that every read has to merge with the data."],
  dangling_deletes: ["Dangling deletes", "Delete files that apply to nothing any more, but are still planned."],
  too_many_snapshots: ["Too many snapshots", "So many versions are kept that commits slow down."],
  snapshots_past_retention: ["Snapshots past retention", "Old versions keep files alive that nobody reads."],
  fragmented_manifests: ["Fragmented manifests", "The list of files is in too many pieces; every plan opens all of them."],
  oversized_manifests: ["Oversized manifests", "One piece of the list of files is too large to be read in parallel."],
  metadata_bloat: ["Bloated metadata", "The table's own description is large, and every reader loads it first."],
  skewed_partitions: ["Skewed partitions", "One partition is far larger than the others; only another partition spec helps."],
  stale_compaction: ["Late compaction", "Small files pile up, and nobody has merged them for long."],
};
const ACTIONS = {
  compact: ["Compact", "Merges small files, and files with deletes on them, into files near the target size."],
  rewrite_position_deletes: ["Merge position deletes", "Merges delete files and drops what refers to no live row."],
  rewrite_manifests: ["Rewrite manifests", "Groups the list of files again, by partition. No data is read."],
  expire_snapshots: ["Expire snapshots", "Drops old versions, and the files that only they refer to."],
  remove_orphan_files: ["Remove orphan files", "Deletes files in the table's folder that no version refers to."],
  compute_stats: ["Compute statistics", "Counts distinct values, for the query planner."],
};
const STATES = { queued: "Queued", running: "Running", succeeded: "Succeeded", failed: "Failed", cancelled: "Cancelled", refused: "Refused" };
const SEVERITIES = { critical: "Critical", warning: "Warning", info: "Minor" };
const STRATEGIES = { small_files: "Small files", delete_files: "Files with deletes", time_series: "Closed time spans only" };
const BANDS = { good: "Healthy", fair: "Fair", poor: "Poor", bad: "Bad" };

const spoken = (code) => String(code ?? "").replaceAll("_", " ");
export const issue = (code) => ISSUES[code]?.[0] ?? spoken(code);
export const issueMeans = (code) => ISSUES[code]?.[1] ?? "";
export const action = (kind) => ACTIONS[kind]?.[0] ?? spoken(kind);
export const actionDoes = (kind) => ACTIONS[kind]?.[1] ?? "";
export const state = (name) => STATES[name] ?? spoken(name);
export const severity = (name) => SEVERITIES[name] ?? "Healthy";
export const strategy = (name) => STRATEGIES[name] ?? spoken(name);
export const bandName = (name) => BANDS[name] ?? spoken(name);
export const setting = (name) => {
  const text = spoken(name);
  return text.charAt(0).toUpperCase() + text.slice(1);
};
export const issueCodes = Object.keys(ISSUES);
export const actionKinds = Object.keys(ACTIONS);

/* Names of issues or actions as a sentence has them: a, b and c. */
export function joined(names) {
  const parts = names.map((name, at) => (at ? name.toLowerCase() : name));
  if (parts.length < 2) return parts[0] ?? "";
  return `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}`;
}

const ERRORS = {
  CommitConflict: "Somebody else changed the table, or a file of it went away, while it ran. Try it again: it is planned anew. If a file stays missing, bring it back, or roll the table back to a snapshot without it.",
  CommitStateUnknown: "The catalog's answer was lost. Try it again: what was committed already is found and not done twice.",
  RowsChanged: "The rows before and after did not agree, so the run was stopped. Do not try it again before somebody has looked at the table's last snapshots.",
  EngineFault: "Look at the worker's log, and run the checks under Settings; then try it again.",
  EnvironmentFault: "Something that icepack needs did not answer. Run the checks under Settings; then try it again.",
};
/* What to do about a failed run, by the kind of its error. */
export const errorRemedy = (kind) => ERRORS[kind] ?? "";

const REMEDIES = {
  unauthenticated: "Sign in again with a key that is still good.",
  forbidden: "Ask an admin for a key with that role.",
  "too-many-requests": "Wait a moment, then try again.",
  "table-not-found": "Health sync finds new tables at its next round; a dropped one is gone from here, too.",
  "job-not-found": "Jobs that ended long ago are pruned; what they did stays in the history of their table.",
  "job-state": "Reload to see what became of it.",
  "version-conflict": "Reload, look at what was changed, and change it again.",
  "cost-limit": "Raise the limit, or narrow the partitions.",
  unavailable: "Look at the service's log, or run icepack doctor.",
  "catalog-unavailable": "Run icepack doctor: it says which catalog, and why.",
  "internal-error": "Look at the service's log.",
  unreachable: "Is icepack up still running, and does the network reach it?",
};
export const remedy = (slug) => REMEDIES[slug] ?? "";
