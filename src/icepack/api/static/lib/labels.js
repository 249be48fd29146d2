/* Labels and descriptions for the codes that the API returns. */
const ISSUES = {
  small_files: ["Small files", "Many files are far below the target file size. Every scan has to open each of them."],
  delete_pressure: ["Delete files to apply", "Every scan has to merge these delete files with the data."],
  dangling_deletes: ["Dangling delete files", "These delete files no longer apply to any data file, but query planning still reads them."],
  too_many_snapshots: ["Too many snapshots", "The table keeps so many snapshots that commits become slow."],
  snapshots_past_retention: ["Snapshots past retention", "Expired snapshots keep files in storage that nobody reads."],
  fragmented_manifests: ["Fragmented manifests", "The file list is spread over too many manifests. Query planning has to open all of them."],
  oversized_manifests: ["Oversized manifests", "A manifest is too large to be read in parallel."],
  metadata_bloat: ["Large metadata file", "The table metadata file is large, and every reader loads it first."],
  skewed_partitions: ["Skewed partitions", "One partition is far larger than the others. Only a different partition spec helps."],
  stale_compaction: ["Overdue compaction", "Small files accumulate, and the table has not been compacted for a long time."],
};
const ACTIONS = {
  compact: ["Compact", "Merges small files, and files with deletes, into files near the target size."],
  rewrite_position_deletes: ["Rewrite position deletes", "Merges position delete files and drops deletes that refer to no live row."],
  rewrite_manifests: ["Rewrite manifests", "Regroups manifest entries by partition. Reads no data."],
  expire_snapshots: ["Expire snapshots", "Removes old snapshots and the files that only they refer to."],
  remove_orphan_files: ["Remove orphan files", "Deletes files in the table's location that no snapshot refers to."],
  compute_stats: ["Compute statistics", "Counts distinct values for the query planner."],
};
const STATES = { queued: "Queued", running: "Running", succeeded: "Succeeded", failed: "Failed", cancelled: "Cancelled", refused: "Refused" };
const SEVERITIES = { critical: "Critical", warning: "Warning", info: "Info" };
const STRATEGIES = { small_files: "Small files", delete_files: "Files with deletes", time_series: "Closed time partitions" };
const BANDS = { good: "Healthy", fair: "Fair", poor: "Poor", bad: "Bad" };

const fromCode = (code) => String(code ?? "").replaceAll("_", " ");
export const issue = (code) => ISSUES[code]?.[0] ?? fromCode(code);
export const issueDescription = (code) => ISSUES[code]?.[1] ?? "";
export const action = (kind) => ACTIONS[kind]?.[0] ?? fromCode(kind);
export const actionDescription = (kind) => ACTIONS[kind]?.[1] ?? "";
export const state = (name) => STATES[name] ?? fromCode(name);
export const severity = (name) => SEVERITIES[name] ?? "Healthy";
export const strategy = (name) => STRATEGIES[name] ?? fromCode(name);
export const band = (name) => BANDS[name] ?? fromCode(name);
export const setting = (name) => {
  const text = fromCode(name).replace(/^max /, "maximum ").replace(/^min /, "minimum ");
  return text.charAt(0).toUpperCase() + text.slice(1);
};
export const issueCodes = Object.keys(ISSUES);
export const actionKinds = Object.keys(ACTIONS);

/* Joins labels of issues or actions for use in a sentence: a, b and c. */
export function joinNames(names) {
  const parts = names.map((name, index) => (index ? name.toLowerCase() : name));
  if (parts.length < 2) return parts[0] ?? "";
  return `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}`;
}

const ERROR_REMEDIES = {
  CommitConflict:
    "Another writer changed the table, or one of its files disappeared, while the job ran. Retry: the job is planned again. If a file stays missing, restore it, or roll the table back to a snapshot without it.",
  CommitStateUnknown: "The catalog's response to the commit was lost. Retry: work that was already committed is detected and not repeated.",
  RowsChanged: "The rows before and after did not match, so the run was stopped. Do not retry before someone has checked the table's latest snapshots.",
  EngineFault: "Check the worker's log and run the checks under Settings; then retry.",
  EnvironmentFault: "A service that icepack needs did not respond. Run the checks under Settings; then retry.",
};
/* What to do about a failed run, by error type. */
export const errorRemedy = (kind) => ERROR_REMEDIES[kind] ?? "";

const PROBLEM_REMEDIES = {
  unauthenticated: "Sign in again with a valid key.",
  forbidden: "Ask an admin for a key with the required role.",
  "too-many-requests": "Wait a moment, then try again.",
  "table-not-found": "New tables appear after the next health sync; dropped tables disappear.",
  "job-not-found": "Old jobs are pruned; their runs stay in the table's history.",
  "job-state": "Reload the page to see the current state of the job.",
  "version-conflict": "Reload the page, review the other change, and make yours again.",
  "cost-limit": "Raise the limit, or select fewer partitions.",
  unavailable: "Check the service's log, or run icepack doctor.",
  "catalog-unavailable": "Run icepack doctor to see which catalog failed, and why.",
  "internal-error": "Check the service's log.",
  unreachable: "Check that icepack up is still running and that the network reaches it.",
};
export const remedy = (slug) => PROBLEM_REMEDIES[slug] ?? "";
