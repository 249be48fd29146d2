/* The table's issues, recommended actions, delete files and manifests. */
import * as format from "../../lib/format.js";
import * as labels from "../../lib/labels.js";

export const healthMixin = () => ({
  get issues() {
    return this.data.reasons.map((reason) => ({
      ...reason,
      name: labels.issue(reason.code),
      pointsLost: roundPoints(reason.points),
      remedy: reason.cured_by ? `Fixed by: ${labels.action(reason.cured_by).toLowerCase()}.` : "",
    }));
  },

  get actions() {
    return this.data.gains.map((gain) => ({ ...gain, kind: gain.action, name: labels.action(gain.action), facts: actionFacts(gain) }));
  },

  get skipped() {
    return this.data.recommendation?.skipped ?? [];
  },

  get totalCost() {
    const costs = this.actions.map((action) => action.cost);
    const sum = (name) => costs.reduce((total, cost) => total + cost[name], 0);
    return `Estimated total: ${format.duration(sum("duration_seconds"))}, ${format.money(sum("dollars"))}`;
  },

  get deleteRows() {
    const { position, equality, vectors } = this.data.status.deletes;
    return [
      { name: "Position deletes", ...position },
      { name: "Equality deletes", ...equality },
      { name: "Deletion vectors", ...vectors },
    ];
  },

  get deleteText() {
    const { position, equality, vectors, dangling_files: dangling } = this.data.status.deletes;
    const files = position.files + equality.files + vectors.files;
    if (!files) return "None";
    return dangling ? `${format.count(dangling)} of them no longer apply to any data file` : "Merged with the data on every read";
  },

  get manifestText() {
    const { manifests } = this.data.status;
    return manifests.count ? `${format.plural(manifests.count, "manifest lists", "manifests list")} ${format.plural(manifests.entries, "file")}` : "None yet";
  },

  get manifestFigures() {
    const { manifests, metadata, cadence } = this.data.status;
    const figure = (name, text) => ({ name, text });
    return [
      figure("Manifests", format.count(manifests.count)),
      figure("Total manifest size", format.bytes(manifests.bytes)),
      figure("Files per manifest", format.count(manifests.count ? manifests.entries / manifests.count : 0)),
      figure("Metadata file size", format.bytes(metadata.file_bytes)),
      figure("Metadata log entries", format.count(metadata.log_length)),
      figure("Commits per hour", format.count(Math.round(cadence.appends_per_hour + cadence.row_changes_per_hour))),
    ];
  },
});

const EFFECTS = [
  ["files_removed", "Files removed", format.count],
  ["delete_files_removed", "Delete files removed", format.count],
  ["manifests_removed", "Manifests removed", format.count],
  ["snapshots_removed", "Snapshots removed", format.count],
  ["bytes_rewritten", "Data rewritten", format.bytes],
];

const roundPoints = (points) => (points < 10 ? Math.round(points * 10) / 10 : Math.round(points));

function actionFacts({ points, effect, cost, conflict_probability: conflict }) {
  const effects = EFFECTS.filter(([name]) => effect[name]).map(([name, title, formatValue]) => ({ name: title, text: formatValue(effect[name]) }));
  return [
    ...(points ? [{ name: "Score gain", text: `+${roundPoints(points)} points` }] : []),
    ...effects,
    { name: "Duration", text: format.duration(cost.duration_seconds) },
    { name: "Cost", text: format.money(cost.dollars) },
    { name: "Conflict risk", text: format.percent(conflict) },
  ];
}
