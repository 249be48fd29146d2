/* One table: its score and issues, recommended actions, files, partitions, snapshots and past runs. */
import * as api from "../lib/api.js";
import * as format from "../lib/format.js";
import * as labels from "../lib/labels.js";
import { subscribe } from "../lib/live.js";
import { loading } from "../lib/loading.js";
import { mergeMixins } from "../lib/mixins.js";
import * as proof from "../lib/proof.js";
import { link } from "../lib/router.js";
import { activeJobMixin } from "./table/active-job.js";
import { filesMixin } from "./table/files.js";
import { healthMixin } from "./table/health.js";
import { partitionsMixin } from "./table/partitions.js";
import { runMixin } from "./table/run.js";
import { runsMixin } from "./table/runs.js";
import { snapshotsMixin } from "./table/snapshots.js";

const MAX_PARTITIONS = 1500;
const PAGE = 1500;

const main = () => ({
  ...loading(),
  data: null,
  histogram: null,
  snapshots: null,
  plan: null,
  history: null,
  partitions: [],
  partitionTotal: 0,

  init() {
    this.name = this.$store.route.params.table;
    this.path = api.tablePath(this.name);
    this.unsubscribe = subscribe((event) => this.onJobEvent(event));
    this.refresh();
  },

  destroy() {
    this.unsubscribe();
    clearTimeout(this.refreshTimer);
    clearTimeout(this.syncTimer);
  },

  async refresh() {
    await this.load(async () => {
      this.data = await api.get(this.path);
      this.name = this.data.table_name;
      this.path = api.tablePath(this.name);
    });
    if (this.status === "ready") await this.load(() => this.loadDetails());
  },

  loadDetails() {
    const loadInto = async (field, path, query) => {
      this[field] = await api.get(`${this.path}/${path}`, query);
    };
    return Promise.all([
      loadInto("histogram", "files/histogram"),
      loadInto("plan", "plan"),
      loadInto("history", "history"),
      this.loadPartitions(),
      this.loadSnapshots(),
      this.loadJobs(),
    ]);
  },

  async loadSnapshots() {
    this.snapshots = (await api.get(`${this.path}/snapshots`)).snapshots;
  },

  async loadPartitions() {
    const all = [];
    let offset = 0;
    while (offset !== null && all.length < MAX_PARTITIONS) {
      const page = await api.get(`${this.path}/partitions`, { limit: PAGE, offset });
      all.push(...page.partitions);
      this.partitionTotal = page.total;
      offset = page.next_offset;
    }
    this.partitions = all;
  },

  get score() {
    return this.data.health.score;
  },

  get canRun() {
    return this.$store.session.hasRole("operator", this.data.table);
  },

  get nativeDisabled() {
    const disabled = this.data.native_disabled;
    if (!disabled) return null;
    const name = proof.quoteForShell(this.data.table_name);
    return { ...disabled, href: this.jobIds.includes(disabled.job_id) ? link(`jobs/${disabled.job_id}`) : "", repeat: `icepack verify ${name} --repeat`, enable: `icepack native enable ${name}` };
  },

  get namespaceName() {
    return `${this.data.table.catalog}.${this.data.table.namespace.join(".")}`;
  },

  get namespaceHref() {
    return link("tables", { catalog: this.data.table.catalog, namespace: this.data.table.namespace.join(".") });
  },

  get lead() {
    const { data } = this.data.status;
    const size = `${format.plural(data.count, "file")}, ${format.bytes(data.bytes)}, ${format.plural(data.records, "row")}.`;
    if (!this.issues.length) return `${size} No issues.`;
    if (!this.actions.length) return `${size} No action is recommended.`;
    const names = labels.joinNames(this.actions.map((action) => action.name.toLowerCase()));
    const { expected_score: expected } = this.data;
    return `${size} Recommended: ${names}${expected > this.score ? `, which should raise the score from ${this.score} to ${expected}` : ""}.`;
  },
});

export default () => mergeMixins(main(), healthMixin(), filesMixin(), partitionsMixin(), snapshotsMixin(), runsMixin(), runMixin(), activeJobMixin());
