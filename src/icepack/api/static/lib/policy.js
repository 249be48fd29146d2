/* The settings that a policy has: what each means, and how it is typed in and shown. */
import * as words from "./words.js";

const choice = (means, choices) => ({ means, kind: "choice", choices });
const yesNo = (means) => choice(means, ["true", "false"]);
const text = (means, example) => ({ means, kind: "text", example });
const number = (means, example) => ({ means, kind: "number", example });
const list = (means, example, glue = ", ") => ({ means, kind: "list", example, glue });

export const SETTINGS = {
  enabled: yesNo("Whether icepack does anything to these tables."),
  actions: list("What may be done, and nothing else.", "compact, expire_snapshots"),
  target_file_size: text("How large files should be.", "256MB"),
  small_file_threshold: text("Smaller files are worth merging.", "32MB"),
  min_input_files: number("As many small files before a partition is compacted.", "5"),
  max_files_per_partition: number("More files than this are too many for one partition.", "1000"),
  strategy: choice("Which files a compaction looks for.", ["small_files", "delete_files", "time_series"]),
  layout: choice("In what order rewritten rows lie.", ["binpack", "sort", "zorder", "hilbert"]),
  columns: list("Columns to order by.", "customer_id, ordered_at"),
  engine: choice("Who rewrites the files.", ["native", "spark"]),
  proof: choice("How much of a rewrite is compared by value: row counts only, a sample, or everything.", ["count", "sampled", "full"]),
  fragment_ratio_threshold: number("From how many delete files for each data file on.", "0.1"),
  partial_progress: yesNo("Whether a compaction commits in several steps."),
  partition_filter: text("Only partitions where this holds.", "day >= current_date - 7"),
  open_partition_grace: text("How long after its end a partition by time is left alone.", "1h"),
  snapshot_retention: text("How long snapshots are kept.", "7d"),
  min_snapshots_to_keep: number("As many snapshots stay in any case.", "1"),
  orphan_retention: text("How old a file must be to count as an orphan.", "7d"),
  orphan_interval: text("How often orphans are looked for.", "7d"),
  max_orphan_files: number("More orphans than this are suspicious, and left.", "100000"),
  max_orphan_share: number("A larger share of all files is suspicious.", "0.5"),
  repeat_after: text("How long before the same is done again.", "1h"),
  max_cost: number("The most that one run may cost, in dollars.", "1.50"),
  scans_per_day: number("How often the table is read; weighs gain against cost.", "24"),
  windows: list("When it may be worked on; several with a semicolon between.", "mon-fri 22:00-06:00; sat,sun 00:00-24:00", "; "),
  daily_budget: number("Dollars that all these tables may cost in a day.", "5"),
  daily_compute: text("Core time that all these tables may take in a day.", "2h"),
};
export const settingNames = Object.keys(SETTINGS);

export const means = (name) => SETTINGS[name]?.means ?? "";
export const example = (name) => SETTINGS[name]?.example ?? "";
export const kindOf = (name) => SETTINGS[name]?.kind ?? "text";
export const choicesOf = (name) => SETTINGS[name]?.choices ?? [];

/* As it stands in a field. */
export function typed(name, value) {
  if (value === null || value === undefined) return "";
  if (Array.isArray(value)) return value.join(SETTINGS[name]?.glue ?? ", ");
  return String(value);
}

/* As the API takes it; what cannot be read goes as it is, so that the API can say what is wrong with it. */
export function given(name, value) {
  const kind = kindOf(name);
  const trimmed = String(value).trim();
  if (kind === "number") return trimmed === "" || Number.isNaN(Number(trimmed)) ? trimmed : Number(trimmed);
  if (kind === "list") return trimmed.split(name === "windows" ? ";" : ",").map((one) => one.trim()).filter(Boolean);
  if (trimmed === "true" || trimmed === "false") return trimmed === "true";
  return trimmed;
}

export const shown = (name, value) => (name === "actions" && Array.isArray(value) ? value.map(words.action).join(", ") || "none" : value === null || value === undefined || value === "" ? "none" : value === true ? "yes" : value === false ? "no" : typed(name, value) || "none");

export const lines = (settings) => Object.entries(settings).map(([name, value]) => ({ name, title: words.setting(name), text: shown(name, value), means: means(name) }));
