/* The histogram of file sizes. */
import * as format from "../../lib/format.js";

const sizeName = (size) => (size === null ? "∞" : format.bytes(size).replace(".0", ""));

export const filesMixin = () => ({
  get fileText() {
    if (!this.histogram) return "";
    const { count, bytes } = this.histogram;
    return count ? `${format.plural(count, "file")}, ${format.bytes(bytes / count)} on average` : "No files yet";
  },

  get smallFileText() {
    return `Files below ${format.bytes(this.data.status.small_file_bytes)} count as small.`;
  },

  get hasSmallFiles() {
    return this.data.health.issues.some((issue) => issue.code === "small_files");
  },

  get fileChart() {
    if (!this.histogram) return null;
    const { histogram, target_file_bytes: target } = this.histogram;
    const small = this.data.status.small_file_bytes;
    let lower = 0;
    const buckets = histogram.map((bucket) => {
      const from = lower;
      lower = bucket.below_bytes ?? Infinity;
      return { ...bucket, from, to: lower };
    });
    return {
      label: `Files by size; the target is ${format.bytes(target)}`,
      height: 190,
      bars: buckets.map((bucket) => sizeBar(bucket, this.hasSmallFiles ? small : 0, target)),
      target: { at: targetPosition(buckets, target), name: `target ${format.bytes(target)}` },
    };
  },
});

function sizeBar(bucket, small, target) {
  const name = bucket.to === Infinity ? `≥ ${sizeName(bucket.from)}` : `< ${sizeName(bucket.to)}`;
  const band = !small ? "plain" : bucket.to <= small ? "poor" : bucket.to < target / 2 ? "fair" : "good";
  return {
    name,
    value: bucket.count,
    text: format.shortCount(bucket.count),
    tip: [format.plural(bucket.count, "file"), format.bytes(bucket.bytes)],
    band,
  };
}

/* The position of the target on the axis, counted in bars. */
function targetPosition(buckets, target) {
  const index = buckets.findIndex((bucket) => target <= bucket.to);
  const { from, to } = buckets[index] ?? buckets.at(-1);
  return to === Infinity ? buckets.length - 0.5 : index + (target - from) / (to - from);
}
