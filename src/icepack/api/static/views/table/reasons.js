/* Why the score is what it is, and what to do about it, in plain words. */
import * as format from "../../lib/format.js";
import * as words from "../../lib/words.js";

export const reasonParts = () => ({
  get issues() {
    return this.found.reasons.map((reason) => ({
      ...reason,
      name: words.issue(reason.code),
      lost: rounded(reason.points),
      cure: reason.cured_by ? `${words.action(reason.cured_by)} wins them back.` : "",
    }));
  },

  get actions() {
    return this.found.gains.map((gain) => ({ ...gain, kind: gain.action, name: words.action(gain.action), facts: factsOf(gain) }));
  },

  get skipped() {
    return this.found.recommendation?.skipped ?? [];
  },

  get totalWords() {
    const costs = this.actions.map((one) => one.cost);
    const sum = (name) => costs.reduce((total, one) => total + one[name], 0);
    return `Together about ${format.duration(sum("duration_seconds"))} and ${format.money(sum("dollars"))}`;
  },

  get deleteRows() {
    const { position, equality, vectors } = this.found.status.deletes;
    return [
      { name: "By position", ...position },
      { name: "By equality", ...equality },
      { name: "Deletion vectors", ...vectors },
    ];
  },

  get deleteWords() {
    const { position, equality, vectors, dangling_files: dangling } = this.found.status.deletes;
    const files = position.files + equality.files + vectors.files;
    if (!files) return "None: reads have nothing to merge";
    return dangling ? `${format.count(dangling)} of them apply to nothing any more` : "Merged with the data by every read";
  },

  get manifestWords() {
    const { manifests } = this.found.status;
    return manifests.count ? `${format.plural(manifests.count, "manifest lists", "manifests list")} ${format.plural(manifests.entries, "file")}` : "None yet";
  },

  get manifestFigures() {
    const { manifests, metadata, cadence } = this.found.status;
    const figure = (name, text) => ({ name, text });
    return [
      figure("Manifests", format.count(manifests.count)),
      figure("Their size", format.bytes(manifests.bytes)),
      figure("Files in each", format.count(manifests.count ? manifests.entries / manifests.count : 0)),
      figure("Metadata file", format.bytes(metadata.file_bytes)),
      figure("Earlier versions", format.count(metadata.log_length)),
      figure("Commits an hour", format.count(Math.round(cadence.appends_per_hour + cadence.row_changes_per_hour))),
    ];
  },
});

const EFFECTS = [
  ["files_removed", "Files gone", format.count],
  ["delete_files_removed", "Delete files gone", format.count],
  ["manifests_removed", "Manifests gone", format.count],
  ["snapshots_removed", "Snapshots gone", format.count],
  ["bytes_rewritten", "Data rewritten", format.bytes],
];

const rounded = (points) => (points < 10 ? Math.round(points * 10) / 10 : Math.round(points));

function factsOf({ points, effect, cost, conflict_probability: conflict }) {
  const gains = EFFECTS.filter(([name]) => effect[name]).map(([name, title, written]) => ({ name: title, text: written(effect[name]) }));
  return [
    ...(points ? [{ name: "Points won back", text: `+${rounded(points)}` }] : []),
    ...gains,
    { name: "Takes about", text: format.duration(cost.duration_seconds) },
    { name: "Costs about", text: format.money(cost.dollars) },
    { name: "Conflict chance", text: format.percent(conflict) },
  ];
}
