/* The timeline of snapshots by branch, with tags. */
import * as format from "../../lib/format.js";
import * as labels from "../../lib/labels.js";
import { link } from "../../lib/router.js";

export const snapshotsMixin = () => ({
  get snapshotText() {
    const { snapshots } = this;
    if (!snapshots?.count) return "None";
    return `${format.plural(snapshots.count, "snapshot")} since ${format.dateTime(snapshots.oldest_at)}`;
  },

  get snapshotChart() {
    return this.snapshots?.entries.length ? timelineData(this.snapshots) : null;
  },
});

/* Each branch gets the snapshots that lead to its head, except those already shown in an earlier lane. */
function timelineData({ entries, refs }) {
  const kinds = new Map(refs.map((ref) => [ref.name, ref.kind]));
  const byId = new Map(entries.map((entry) => [entry.id, entry]));
  const heads = entries.flatMap((entry) => entry.refs.filter((name) => kinds.get(name) === "branch").map((name) => [name, entry]));
  heads.sort(([first], [second]) => (second === "main") - (first === "main"));
  const shown = new Set();
  const lanes = heads.map(([name, head]) => ({ name, snapshots: lineage(head, byId, shown).map(snapshotMark) }));
  const unreferenced = entries.filter((entry) => !shown.has(entry.id));
  if (unreferenced.length) lanes.push({ name: "no branch", snapshots: unreferenced.map(snapshotMark) });
  const tags = entries.flatMap((entry) => entry.refs.filter((name) => kinds.get(name) === "tag").map((name) => tagMark(name, entry)));
  const byIcepack = entries.filter((entry) => entry.job_id).length;
  const label = `${format.plural(entries.length, "snapshot")}, ${format.count(byIcepack)} by icepack, ${format.plural(tags.length, "tag")}`;
  return { label, lanes: lanes.filter((lane) => lane.snapshots.length), tags };
}

function lineage(head, byId, shown) {
  const snapshots = [];
  for (let entry = head; entry && !shown.has(entry.id); entry = byId.get(entry.parent)) {
    shown.add(entry.id);
    snapshots.push(entry);
  }
  return snapshots.reverse();
}

const tagMark = (name, { committed_at: at }) => ({ name, at, tip: [`Tag ${name}`, format.dateTime(at)] });

function snapshotMark(entry) {
  const committer = entry.job_id ? `icepack${entry.action ? ` (${labels.action(entry.action).toLowerCase()})` : ""}` : "another writer";
  return {
    id: entry.id,
    at: entry.committed_at,
    operation: entry.operation,
    isIcepack: Boolean(entry.job_id),
    tip: [`${entry.operation} by ${committer}`, `${format.dateTime(entry.committed_at)} · ${format.utc(entry.committed_at)}`, `snapshot ${entry.id}`],
    href: entry.has_job ? link(`jobs/${entry.job_id}`) : "",
  };
}
