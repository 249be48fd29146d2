/* One table: what it scores and why, what to do, what it is made of, what was done. */
import * as api from "../lib/api.js";
import { listen } from "../lib/live.js";
import { loading } from "../lib/loading.js";
import * as format from "../lib/format.js";
import * as proof from "../lib/proof.js";
import { link } from "../lib/router.js";
import * as words from "../lib/words.js";
import { jobParts } from "./table/job.js";
import { pictureParts } from "./table/pictures.js";
import { reasonParts } from "./table/reasons.js";
import { runParts } from "./table/run.js";
import { join } from "../lib/join.js";

const MOST_PARTITIONS = 1500;
const PAGE = 1500;

const main = () => ({
  ...loading(),
  found: null,
  histogram: null,
  snapshots: null,
  plan: null,
  history: null,
  partitions: [],
  partitionTotal: 0,

  init() {
    this.name = this.$store.route.params.table;
    this.path = api.tablePath(this.name);
    this.stop = listen((news) => this.heard(news));
    this.refresh();
  },

  destroy() {
    this.stop();
    clearTimeout(this.later);
    clearTimeout(this.catching);
  },

  async refresh() {
    await this.load(async () => {
      this.found = await api.get(this.path);
      this.name = this.found.table_name;
      this.path = api.tablePath(this.name);
    });
    if (this.status === "ready") await this.load(() => this.rest());
  },

  rest() {
    const take = async (field, path, query) => {
      this[field] = await api.get(`${this.path}/${path}`, query);
    };
    return Promise.all([
      take("histogram", "files/histogram"),
      take("plan", "plan"),
      take("history", "history"),
      this.allPartitions(),
      this.readSnapshots(),
      this.readJobs(),
    ]);
  },

  async readSnapshots() {
    this.snapshots = (await api.get(`${this.path}/snapshots`)).snapshots;
  },

  async allPartitions() {
    const all = [];
    let offset = 0;
    while (offset !== null && all.length < MOST_PARTITIONS) {
      const page = await api.get(`${this.path}/partitions`, { limit: PAGE, offset });
      all.push(...page.partitions);
      this.partitionTotal = page.total;
      offset = page.next_offset;
    }
    this.partitions = all;
  },

  get score() {
    return this.found.health.score;
  },

  get mayRun() {
    return this.$store.session.may("operator", this.found.table);
  },

  get nativeOff() {
    const off = this.found.native_disabled;
    if (!off) return null;
    const name = proof.shellQuoted(this.found.table_name);
    return { ...off, href: this.jobIds.includes(off.job_id) ? link(`jobs/${off.job_id}`) : "", repeat: `icepack verify ${name} --repeat`, enable: `icepack native enable ${name}` };
  },

  get namespaceName() {
    return `${this.found.table.catalog}.${this.found.table.namespace.join(".")}`;
  },

  get namespaceHref() {
    return link("tables", { catalog: this.found.table.catalog, namespace: this.found.table.namespace.join(".") });
  },

  get lead() {
    const { data } = this.found.status;
    const size = `${format.plural(data.count, "file")}, ${format.bytes(data.bytes)}, ${format.plural(data.records, "row")}.`;
    if (!this.issues.length) return `${size} It is as it should be.`;
    if (!this.actions.length) return `${size} Nothing that icepack does would help.`;
    const cure = words.joined(this.actions.map((one) => one.name.toLowerCase()));
    const { expected_score: expected } = this.found;
    return `${size} Recommended: ${cure}${expected > this.score ? `, which should bring it from ${this.score} to ${expected}` : ""}.`;
  },
});

export default () => join(main(), reasonParts(), pictureParts(), runParts(), jobParts());
