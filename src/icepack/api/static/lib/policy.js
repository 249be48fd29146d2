/* Policy settings: their descriptions, and conversion between API values, form input and display text. */
import * as format from "./format.js";
import * as labels from "./labels.js";

const choice = (description, choices) => ({ description, kind: "choice", choices });
const yesNo = (description) => choice(description, ["true", "false"]);
const text = (description, example) => ({ description, kind: "text", example });
const number = (description, example) => ({ description, kind: "number", example });
const list = (description, example, separator = ", ") => ({ description, kind: "list", example, separator });

export const SETTINGS = {
  enabled: yesNo("Whether icepack maintains these tables."),
  actions: list("Allowed actions.", "compact, expire_snapshots"),
  target_file_size: text("Target size of rewritten files.", "256MB"),
  small_file_threshold: text("Files below this size count as small.", "32MB"),
  min_input_files: number("Minimum number of small files before a partition is compacted.", "5"),
  max_files_per_partition: number("Maximum number of files per partition; partitions with more are compacted.", "1000"),
  strategy: choice("Which files compaction selects.", ["small_files", "delete_files", "time_series"]),
  layout: choice("Row order of rewritten files.", ["binpack", "sort", "zorder", "hilbert"]),
  columns: list("Columns to sort by.", "customer_id, ordered_at"),
  engine: choice("Engine that rewrites data files.", ["native", "spark"]),
  proof: choice("How much of a rewrite is compared by value: row counts only, a sample, or everything.", ["count", "sampled", "full"]),
  fragment_ratio_threshold: number("Delete files per data file above which deletes are applied.", "0.1"),
  partial_progress: yesNo("Whether a compaction commits in several steps."),
  partition_filter: text("Compact only partitions that match this filter.", "day >= current_date - 7"),
  open_partition_grace: text("How long after its end a time partition still counts as open.", "1h"),
  snapshot_retention: text("How long snapshots are kept.", "7d"),
  min_snapshots_to_keep: number("Minimum number of snapshots to keep, whatever their age.", "1"),
  orphan_retention: text("Minimum age of a file before it counts as an orphan.", "7d"),
  orphan_interval: text("Time between searches for orphan files.", "7d"),
  max_orphan_files: number("If more orphan files are found, none are deleted.", "100000"),
  max_orphan_share: number("If orphans are a larger share of all files, none are deleted.", "0.5"),
  repeat_after: text("Minimum time before the same action runs again.", "1h"),
  max_cost: number("Maximum cost of one run, in dollars.", "1.50"),
  scans_per_day: number("How often the table is read per day; used to weigh benefit against cost.", "24"),
  windows: list("Maintenance windows, separated by semicolons.", "mon-fri 22:00-06:00; sat,sun 00:00-24:00", "; "),
  daily_budget: number("Maximum cost of all these tables per day, in dollars.", "5"),
  daily_compute: text("Maximum core time of all these tables per day.", "2h"),
};
export const settingNames = Object.keys(SETTINGS);

export const description = (name) => SETTINGS[name]?.description ?? "";
export const example = (name) => SETTINGS[name]?.example ?? "";
export const kindOf = (name) => SETTINGS[name]?.kind ?? "text";
export const choicesOf = (name) => SETTINGS[name]?.choices ?? [];

/* The text that a form field shows for an API value. */
export function toInput(name, value) {
  if (value === null || value === undefined) return "";
  if (Array.isArray(value)) return value.join(SETTINGS[name]?.separator ?? ", ");
  return String(value);
}

/* The API value for the text of a form field. Invalid text is passed on unchanged, so that the API can report the error. */
export function fromInput(name, value) {
  const kind = kindOf(name);
  const trimmed = String(value).trim();
  if (kind === "number") return trimmed === "" || Number.isNaN(Number(trimmed)) ? trimmed : Number(trimmed);
  if (kind === "list") return trimmed.split(name === "windows" ? ";" : ",").map((item) => item.trim()).filter(Boolean);
  if (trimmed === "true" || trimmed === "false") return trimmed === "true";
  return trimmed;
}

const UNSET = { strategy: "automatic", windows: "any time", max_cost: "no limit", daily_budget: "no limit", daily_compute: "no limit" };
const DOLLARS = ["max_cost", "daily_budget"];

export function displayValue(name, value) {
  const unset = UNSET[name] ?? "none";
  if (name === "actions" && Array.isArray(value)) return value.map(labels.action).join(", ") || unset;
  if (value === null || value === undefined || value === "") return unset;
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (DOLLARS.includes(name)) return format.money(Number(value));
  return toInput(name, value) || unset;
}

export const settingRows = (settings) =>
  Object.entries(settings).map(([name, value]) => ({ name, title: labels.setting(name), text: displayValue(name, value), description: description(name) }));
