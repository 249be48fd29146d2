/* The table as pictures: files against the target, partitions by need, snapshots in time, before and after. */
import * as format from "../../lib/format.js";
import * as proof from "../../lib/proof.js";
import { link } from "../../lib/router.js";
import * as words from "../../lib/words.js";

const PLAN_ROWS = 12;
/* What is planned is never shown as what is left alone. */
const LEAST_URGENT = 0.13;
const sizeName = (size) => (size === null ? "∞" : format.bytes(size).replace(".0", ""));

export const pictureParts = () => ({
  pickedKey: null,

  get fileWords() {
    if (!this.histogram) return "";
    const { count, bytes } = this.histogram;
    return count ? `${format.plural(count, "file")}, ${format.bytes(bytes / count)} on average` : "No files yet";
  },

  get smallWords() {
    const status = this.found.status;
    return `Below ${format.bytes(status.small_file_bytes)} a file counts as small here.`;
  },

  get hasSmallFiles() {
    return this.found.health.issues.some((issue) => issue.code === "small_files");
  },

  get fileChart() {
    if (!this.histogram) return null;
    const { histogram, target_file_bytes: target } = this.histogram;
    const small = this.found.status.small_file_bytes;
    let lower = 0;
    const buckets = histogram.map((bucket) => {
      const from = lower;
      lower = bucket.below_bytes ?? Infinity;
      return { ...bucket, from, to: lower };
    });
    return {
      label: `Files by size; the target is ${format.bytes(target)}`,
      height: 190,
      bars: buckets.map((bucket) => barOf(bucket, this.hasSmallFiles ? small : 0, target)),
      target: { at: placeOf(buckets, target), name: `target ${format.bytes(target)}` },
    };
  },

  get partitionWords() {
    if (!this.partitionTotal) return "None";
    const shown = this.partitions.length < this.partitionTotal ? `; the ${format.count(this.partitions.length)} most urgent are shown` : "";
    const many = this.partitions.filter((one) => one.planned).length;
    if (this.partitionTotal === 1) return this.found.status.partition_spec ? "Only one" : "Not partitioned";
    return `${many ? format.count(many) : "None"} of ${format.count(this.partitionTotal)} ${many === 1 ? "wants" : "want"} care${shown}`;
  },

  get heatChart() {
    if (!this.partitions.length) return null;
    const cells = this.partitions.map((one) => ({
      key: keyOf(one.partition),
      name: nameOf(one.partition),
      value: one.planned ? Math.max(one.score, LEAST_URGENT) : 0,
      tip: [
        one.planned ? `urgency ${Math.round(one.score * 100)} of 100` : "leave it",
        `${format.plural(one.partition.data_files, "file")}, ${format.bytes(one.partition.bytes)}`,
      ],
    }));
    cells.sort((one, other) => one.name.localeCompare(other.name, undefined, { numeric: true }));
    return {
      label: "Partitions by how much they want compaction",
      cells,
      picked: this.pickedKey,
      pick: (key) => {
        this.pickedKey = this.pickedKey === key ? null : key;
      },
    };
  },

  get picked() {
    const [only] = this.partitions.length === 1 ? this.partitions : [];
    const found = only ?? this.partitions.find(({ partition }) => keyOf(partition) === this.pickedKey);
    if (!found) return null;
    const urgency = found.planned ? ` Its urgency is ${Math.round(found.score * 100)} of 100.` : "";
    return {
      name: nameOf(found.partition),
      words: factsOf(found.partition),
      verdict: `${found.planned ? "The next compaction takes it: " : "The next compaction leaves it: "}${lowered(found.reason)}${urgency}`,
      filter: filterOf(found.partition),
    };
  },

  get planRows() {
    return (this.plan?.compaction.groups ?? []).slice(0, PLAN_ROWS).map((group, at) => ({
      key: at,
      name: group.partition.path || "the whole table",
      files: group.files,
      out: group.files_out,
      deletes: group.delete_files,
      bytes: group.bytes,
      seconds: group.cost.duration_seconds,
      dollars: group.cost.dollars,
    }));
  },

  get planWords() {
    const { groups, cost, strategy } = this.plan.compaction;
    if (!groups.length) return "Nothing would be rewritten";
    const sum = (name) => groups.reduce((total, one) => total + one[name], 0);
    return `${words.strategy(strategy)}: ${format.plural(sum("files"), "file")} would become ${format.count(sum("files_out"))}, in about ${format.duration(cost.duration_seconds)} for about ${format.money(cost.dollars)}`;
  },

  get planMore() {
    if (!this.plan) return "";
    const { groups, skipped_open: open } = this.plan.compaction;
    const parts = [];
    if (!groups.length) parts.push("No partition has enough small files, or files with deletes, to be worth a rewrite.");
    if (groups.length > PLAN_ROWS) parts.push(`And ${format.plural(groups.length - PLAN_ROWS, "more group")}.`);
    if (open.length) parts.push(`${format.plural(open.length, "partition is", "partitions are")} still being written, and left alone.`);
    return parts.join(" ");
  },

  get snapshotWords() {
    const { snapshots } = this;
    if (!snapshots?.count) return "None";
    return `${format.plural(snapshots.count, "snapshot")} since ${format.moment(snapshots.oldest_at)}`;
  },

  get snapshotChart() {
    return this.snapshots?.entries.length ? timelineOf(this.snapshots) : null;
  },

  get scoreTrend() {
    const points = (this.history?.points ?? []).map((point) => ({ at: point.observed_at, value: point.totals.score }));
    return { label: "The table's score over time", height: 120, from: 0, to: 100, bands: true, points, format: format.count };
  },

  get runs() {
    const known = new Set(this.jobIds);
    return (this.history?.runs ?? []).map((run) => runOf(run, known));
  },
});

function barOf(bucket, small, target) {
  const name = bucket.to === Infinity ? `≥ ${sizeName(bucket.from)}` : `< ${sizeName(bucket.to)}`;
  const band = !small ? "plain" : bucket.to <= small ? "poor" : bucket.to < target / 2 ? "fair" : "good";
  return {
    name,
    value: bucket.count,
    text: format.brief(bucket.count),
    tip: [format.plural(bucket.count, "file"), format.bytes(bucket.bytes)],
    band,
  };
}

/* Where the target lies, counted in bars. */
function placeOf(buckets, target) {
  const at = buckets.findIndex((bucket) => target <= bucket.to);
  const { from, to } = buckets[at] ?? buckets.at(-1);
  return to === Infinity ? buckets.length - 0.5 : at + (target - from) / (to - from);
}

const keyOf = (partition) => JSON.stringify(partition.key);
const nameOf = (partition) => partition.key.path || "the whole table";

function factsOf(partition) {
  const parts = [`${format.plural(partition.data_files, "file")} with ${format.bytes(partition.bytes)}`];
  if (partition.small_files) parts.push(`${format.count(partition.small_files)} of them small`);
  const deletes = partition.position_delete_files + partition.equality_delete_files + partition.deletion_vectors;
  if (deletes) parts.push(`${format.plural(deletes, "delete file")} over ${format.plural(partition.delete_records, "row")}`);
  const last = partition.last_written_at ? ` Last written ${format.ago(partition.last_written_at)}` : "";
  const compacted = partition.last_compacted_at ? `, compacted ${format.ago(partition.last_compacted_at)}.` : last ? ", never compacted." : "";
  return `${parts.join(", ")}.${last}${compacted}`;
}

const lowered = (text) => text.charAt(0).toLowerCase() + text.slice(1);

/* Only what an identity of a column says can be asked for by its value. */
function filterOf(partition) {
  const values = partition.values ?? [];
  if (!values.length || values.some((one) => one.transform !== "identity" || one.value === null)) return "";
  return values.map((one) => `${one.source} = ${literal(one.value)}`).join(" AND ");
}

const literal = (value) => (typeof value === "number" ? String(value) : `'${String(value).replaceAll("'", "''")}'`);

/* Each branch has the snapshots that lead to its head; what it shares with an earlier lane stays there. */
function timelineOf({ entries, refs }) {
  const kinds = new Map(refs.map((ref) => [ref.name, ref.kind]));
  const byId = new Map(entries.map((entry) => [entry.id, entry]));
  const heads = entries.flatMap((entry) => entry.refs.filter((name) => kinds.get(name) === "branch").map((name) => [name, entry]));
  heads.sort(([one], [other]) => (other === "main") - (one === "main"));
  const taken = new Set();
  const lanes = heads.map(([name, head]) => ({ name, snapshots: lineage(head, byId, taken).map(mark) }));
  const loose = entries.filter((entry) => !taken.has(entry.id));
  if (loose.length) lanes.push({ name: "no branch", snapshots: loose.map(mark) });
  const tags = entries.flatMap((entry) => entry.refs.filter((name) => kinds.get(name) === "tag").map((name) => flag(name, entry)));
  const ours = entries.filter((entry) => entry.job_id).length;
  const label = `${format.plural(entries.length, "snapshot")}, ${format.count(ours)} by icepack, ${format.plural(tags.length, "tag")}`;
  return { label, lanes: lanes.filter((lane) => lane.snapshots.length), tags };
}

function lineage(head, byId, taken) {
  const found = [];
  for (let at = head; at && !taken.has(at.id); at = byId.get(at.parent)) {
    taken.add(at.id);
    found.push(at);
  }
  return found.reverse();
}

const flag = (name, { committed_at: at }) => ({ name, at, tip: [`Tag ${name}`, format.moment(at)] });

function mark(entry) {
  const who = entry.job_id ? `icepack${entry.action ? ` (${words.action(entry.action).toLowerCase()})` : ""}` : "a writer";
  return {
    id: entry.id,
    at: entry.committed_at,
    operation: entry.operation,
    ours: Boolean(entry.job_id),
    tip: [`${entry.operation} by ${who}`, `${format.moment(entry.committed_at)} · ${format.utc(entry.committed_at)}`, `snapshot ${entry.id}`],
    href: entry.has_job ? link(`jobs/${entry.job_id}`) : "",
  };
}

/* What was run by hand has no job to lead to. */
function runOf(run, jobs) {
  return {
    ...run,
    name: words.action(run.action.kind),
    href: jobs.has(run.job_id) ? link(`jobs/${run.job_id}`) : "",
    picture: pictureOf(run),
    words: changeWords(run),
    note: noteOf(run, run.effect),
  };
}

/* What an action works on, and how large that is; where nothing changed there is nothing to see. */
const SUBJECTS = {
  compact: ["files", "data_files", "bytes"],
  rewrite_position_deletes: ["delete files", "delete_files"],
  rewrite_manifests: ["manifests", "manifests"],
  expire_snapshots: ["snapshots", "snapshots"],
};

function pictureOf({ before, after, action }) {
  const [what, name, volume] = SUBJECTS[action.kind] ?? [];
  if (!what || !before || !after || before[name] === after[name]) return null;
  const piece = (totals, other) => ({ files: totals[name], bytes: volume ? totals[volume] : action.kind === "expire_snapshots" ? totals[name] : other });
  return { what, before: piece(before, 1), after: piece(after, 1), isVolume: Boolean(volume) };
}

function changeWords({ before, after, state, message }) {
  if (state === "failed" || state === "refused") return message;
  if (!before || !after) return message || "";
  const changed = [["data_files", "files"], ["delete_files", "delete files"], ["manifests", "manifests"], ["snapshots", "snapshots"], ["score", "score"]]
    .filter(([name]) => before[name] !== after[name])
    .map(([name, title]) => `${title} ${format.count(before[name])} → ${format.count(after[name])}`);
  return changed.length ? changed.join(", ") : "Found nothing to change";
}

function noteOf(run, effect) {
  const parts = [`Took ${format.duration(run.realised_seconds)}`];
  if (run.estimate) parts.push(`estimated ${format.duration(run.estimate.duration_seconds)}`);
  if (effect.bytes_deleted) parts.push(`freed ${format.bytes(effect.bytes_deleted)}`);
  const proven = run.proofs.filter((one) => one.rows_before === one.rows_after).length;
  if (run.proofs.length) parts.push(proven === run.proofs.length ? `proven that no row changed (${format.count(run.proofs.at(-1).rows_after)} rows)` : "the proof does not hold");
  const values = proof.valueWords(run.value_proof);
  if (values) parts.push(values);
  if (run.value_proof?.mismatch) parts.push("the native rewrite changed values, so nothing of it was committed");
  return parts.join(", ");
}
