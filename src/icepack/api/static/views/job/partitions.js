/* Which partitions a compaction selects, and why it skips the others. */
import * as format from "../../lib/format.js";

const MAX_SELECTED = 12;
const MAX_NAMES = 4;

export const partitionsMixin = () => ({
  plan: null,
  showAllSelected: false,
  showAllSkipped: false,

  get hasPartitionPlan() {
    return this.plan !== null && this.plan.compaction !== null && this.plan.partitions_total > 0 && this.job.state !== "succeeded";
  },

  get activePartitions() {
    return this.job.state === "running" ? this.job.progress.working_on ?? [] : [];
  },

  get partitions() {
    const active = new Set(this.activePartitions);
    return this.plan.partitions.map((partition) => ({
      key: `${partition.spec_id} ${partition.path}`,
      name: partition.path || "Whole table",
      reason: partition.reason,
      kind: active.has(partition.path) ? "active" : partition.planned ? "selected" : "skipped",
    }));
  },

  get selected() {
    return this.partitions.filter((partition) => partition.kind !== "skipped").sort((first, second) => (second.kind === "active") - (first.kind === "active"));
  },

  get skipped() {
    return this.partitions.filter((partition) => partition.kind === "skipped");
  },

  get selectedShown() {
    return this.showAllSelected ? this.selected : this.selected.slice(0, MAX_SELECTED);
  },

  /* Grouped by reason, because many partitions are skipped for the same one. */
  get skippedGroups() {
    const groups = new Map();
    for (const partition of this.skipped) {
      if (!groups.has(partition.reason)) groups.set(partition.reason, []);
      groups.get(partition.reason).push(partition.name);
    }
    return [...groups]
      .map(([reason, names]) => ({ reason, count: names.length, names: this.showAllSkipped ? names.join(", ") : shortList(names) }))
      .sort((first, second) => second.count - first.count);
  },

  get hasMoreSkipped() {
    return !this.showAllSkipped && this.skippedGroups.some((group) => group.count > MAX_NAMES);
  },

  get partitionChart() {
    const tiles = this.partitions.map((partition) => ({ kind: partition.kind, name: partition.name, tip: partition.reason }));
    return { label: `${this.partitionText} Each square is a partition.`, tiles };
  },

  get partitionText() {
    const active = this.activePartitions.length;
    const counts = `${format.plural(this.selected.length, "partition")} selected, ${format.count(this.skipped.length)} skipped.`;
    return active ? `${format.count(active)} in progress; ${counts}` : counts;
  },

  get partitionNote() {
    if (["failed", "cancelled"].includes(this.job.state)) return "Estimate: what the same job would select if it ran again now.";
    return this.plan.looked_at_since ? "Estimate, from a health sync after the job started." : "Estimate, from the last health sync.";
  },
});

const shortList = (names) => (names.length > MAX_NAMES ? `${names.slice(0, MAX_NAMES).join(", ")} and ${format.count(names.length - MAX_NAMES)} more` : names.join(", "));
