/* Which partitions, and why these and not the others. */
import * as format from "../../lib/format.js";

const SHOWN = 12;
const FEW = 4;

export const choiceParts = () => ({
  plan: null,
  allTaken: false,
  allLeft: false,

  get hasChoice() {
    return this.plan !== null && this.plan.compaction !== null && this.plan.partitions_total > 0 && this.job.state !== "succeeded";
  },

  get nowNames() {
    return this.job.state === "running" ? this.job.progress.working_on ?? [] : [];
  },

  get partitions() {
    const busy = new Set(this.nowNames);
    return this.plan.partitions.map((one) => ({
      key: `${one.spec_id} ${one.path}`,
      name: one.path || "The whole table",
      reason: one.reason,
      kind: busy.has(one.path) ? "now" : one.planned ? "taken" : "left",
    }));
  },

  get taken() {
    return this.partitions.filter((one) => one.kind !== "left").sort((one, other) => (other.kind === "now") - (one.kind === "now"));
  },

  get left() {
    return this.partitions.filter((one) => one.kind === "left");
  },

  get takenShown() {
    return this.allTaken ? this.taken : this.taken.slice(0, SHOWN);
  },

  /* By reason: many are left alone for the same one. */
  get leftGroups() {
    const groups = new Map();
    for (const one of this.left) {
      if (!groups.has(one.reason)) groups.set(one.reason, []);
      groups.get(one.reason).push(one.name);
    }
    return [...groups]
      .map(([reason, names]) => ({ reason, count: names.length, names: this.allLeft ? names.join(", ") : shortList(names) }))
      .sort((one, other) => other.count - one.count);
  },

  get hasMoreLeft() {
    return !this.allLeft && this.leftGroups.some((group) => group.count > FEW);
  },

  get tileChart() {
    const tiles = this.partitions.map((one) => ({ kind: one.kind, name: one.name, tip: one.reason }));
    return { label: `${this.choiceWords} Each square is a partition.`, tiles };
  },

  get choiceWords() {
    const now = this.nowNames.length;
    const said = `${format.plural(this.taken.length, "partition")} taken, ${format.count(this.left.length)} left alone.`;
    return now ? `${format.count(now)} being rewritten now; ${said}` : said;
  },

  get choiceNote() {
    if (["failed", "cancelled"].includes(this.job.state)) return "What the same job would take if it were tried again now; an estimate.";
    return this.plan.looked_at_since ? "As the table was when it was last looked at, after the job had begun; an estimate." : "An estimate from the last look at the table.";
  },
});

const shortList = (names) => (names.length > FEW ? `${names.slice(0, FEW).join(", ")} and ${format.count(names.length - FEW)} more` : names.join(", "));
