/* The partitions by urgency, the selected partition, and the compaction plan. */
import * as format from "../../lib/format.js";
import * as labels from "../../lib/labels.js";

const MAX_PLAN_ROWS = 12;
/* A planned partition is never coloured like one that needs no compaction. */
const MIN_URGENCY = 0.13;

export const partitionsMixin = () => ({
  selectedKey: null,

  get partitionText() {
    if (!this.partitionTotal) return "None";
    const shown = this.partitions.length < this.partitionTotal ? `; only the ${format.count(this.partitions.length)} most urgent are shown` : "";
    const planned = this.partitions.filter((item) => item.planned).length;
    if (this.partitionTotal === 1) return this.data.status.partition_spec ? "1 partition" : "Not partitioned";
    return `${format.count(planned)} of ${format.count(this.partitionTotal)} ${planned === 1 ? "needs" : "need"} compaction${shown}`;
  },

  get partitionChart() {
    if (!this.partitions.length) return null;
    const cells = this.partitions.map((item) => ({
      key: keyOf(item.partition),
      name: nameOf(item.partition),
      value: item.planned ? Math.max(item.score, MIN_URGENCY) : 0,
      tip: [
        item.planned ? `urgency ${Math.round(item.score * 100)} of 100` : "no compaction needed",
        `${format.plural(item.partition.data_files, "file")}, ${format.bytes(item.partition.bytes)}`,
      ],
    }));
    cells.sort((first, second) => first.name.localeCompare(second.name, undefined, { numeric: true }));
    return {
      label: "Partitions by urgency of compaction",
      cells,
      selected: this.selectedKey,
      select: (key) => {
        this.selectedKey = this.selectedKey === key ? null : key;
      },
    };
  },

  get selectedPartition() {
    const [only] = this.partitions.length === 1 ? this.partitions : [];
    const item = only ?? this.partitions.find(({ partition }) => keyOf(partition) === this.selectedKey);
    if (!item) return null;
    const urgency = item.planned ? ` Urgency: ${Math.round(item.score * 100)} of 100.` : "";
    return {
      name: nameOf(item.partition),
      facts: describePartition(item.partition),
      decision: `${item.planned ? "Included in the next compaction: " : "Not included in the next compaction: "}${lowerFirst(item.reason)}${urgency}`,
      filter: filterFor(item.partition),
    };
  },

  get planRows() {
    return (this.plan?.compaction.groups ?? []).slice(0, MAX_PLAN_ROWS).map((group, index) => ({
      key: index,
      name: group.partition.path || "Whole table",
      inputFiles: group.files,
      outputFiles: group.files_out,
      deleteFiles: group.delete_files,
      bytes: group.bytes,
      seconds: group.cost.duration_seconds,
      dollars: group.cost.dollars,
    }));
  },

  get planText() {
    const { groups, cost, strategy } = this.plan.compaction;
    if (!groups.length) return "Nothing to rewrite";
    const sum = (name) => groups.reduce((total, group) => total + group[name], 0);
    return `${labels.strategy(strategy)}: ${format.plural(sum("files"), "file")} → ${format.count(sum("files_out"))}, about ${format.duration(cost.duration_seconds)}, about ${format.money(cost.dollars)}`;
  },

  get planNote() {
    if (!this.plan) return "";
    const { groups, skipped_open: open } = this.plan.compaction;
    const parts = [];
    if (!groups.length) parts.push("No partition has enough small files, or files with deletes, to be worth a rewrite.");
    if (groups.length > MAX_PLAN_ROWS) parts.push(`${format.plural(groups.length - MAX_PLAN_ROWS, "more file group")} not shown.`);
    if (open.length) parts.push(`${format.plural(open.length, "partition is", "partitions are")} still being written and therefore skipped.`);
    return parts.join(" ");
  },
});

const keyOf = (partition) => JSON.stringify(partition.key);
const nameOf = (partition) => partition.key.path || "Whole table";
const lowerFirst = (text) => text.charAt(0).toLowerCase() + text.slice(1);

function describePartition(partition) {
  const parts = [`${format.plural(partition.data_files, "file")}, ${format.bytes(partition.bytes)}`];
  if (partition.small_files) parts.push(`${format.count(partition.small_files)} small`);
  const deletes = partition.position_delete_files + partition.equality_delete_files + partition.deletion_vectors;
  if (deletes) parts.push(`${format.plural(deletes, "delete file")} with ${format.plural(partition.delete_records, "row")}`);
  const written = partition.last_written_at ? ` Last written ${format.ago(partition.last_written_at)}` : "";
  const compacted = partition.last_compacted_at ? `, compacted ${format.ago(partition.last_compacted_at)}.` : written ? ", never compacted." : "";
  return `${parts.join(", ")}.${written}${compacted}`;
}

/* A filter that selects this partition; only identity transforms can be filtered by value. */
function filterFor(partition) {
  const values = partition.values ?? [];
  if (!values.length || values.some((item) => item.transform !== "identity" || item.value === null)) return "";
  return values.map((item) => `${item.source} = ${toLiteral(item.value)}`).join(" AND ");
}

const toLiteral = (value) => (typeof value === "number" ? String(value) : `'${String(value).replaceAll("'", "''")}'`);
