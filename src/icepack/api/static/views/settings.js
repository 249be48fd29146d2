/* Settings: checks with remedies, API keys, catalogs, versions and configuration. */
import * as api from "../lib/api.js";
import { confirm } from "../lib/dialogs.js";
import * as format from "../lib/format.js";
import * as labels from "../lib/labels.js";
import { loading } from "../lib/loading.js";
import { mergeMixins } from "../lib/mixins.js";
import { notify, notifyProblem } from "../lib/toasts.js";

const POLL_MS = 700;
const NEW_KEY = { name: "", role: "viewer", scopes: "*", expires_in: "" };
const LIFETIMES = [["", "never"], ["30d", "in 30 days"], ["90d", "in 90 days"], ["365d", "in 1 year"]];
const NAMES = { icepack: "icepack", iceberg: "Iceberg", spark: "Spark", python: "Python", pyiceberg: "PyIceberg", pyarrow: "PyArrow" };

const main = () => ({
  ...loading(),
  data: null,

  init() {
    this.refresh();
  },

  destroy() {
    clearTimeout(this.refreshTimer);
  },

  refresh() {
    return this.load(async () => {
      this.data = await api.get("settings");
      if (this.canManageKeys) this.keys = (await api.get("keys")).keys;
      if (this.data.checkup?.running) this.pollChecks();
    });
  },

  get canManageKeys() {
    return this.$store.session.hasRoleEverywhere("admin");
  },

  get versions() {
    return Object.entries(this.data.versions).map(([name, text]) => ({ name: NAMES[name] ?? name, text }));
  },

  get catalogs() {
    return this.data.catalogs;
  },

  get sections() {
    return Object.entries(this.data.sections).map(([name, values]) => ({ name: labels.setting(name), key: name, rows: flatten(values) }));
  },

  get checks() {
    const checks = this.data.checkup?.checks ?? [];
    return [...checks].sort((first, second) => first.ok - second.ok).map((check) => ({ ...check, title: labels.setting(check.name) }));
  },

  get checkSummary() {
    if (this.data.checkup.running) return "Running …";
    const failed = this.checks.filter((check) => !check.ok).length;
    return failed ? `${failed} of ${format.plural(this.checks.length, "check")} failed` : `${format.plural(this.checks.length, "check")} passed`;
  },

  async startChecks() {
    try {
      this.data.checkup = await api.post("settings/checks");
      this.data.checkup.running = true;
      this.pollChecks();
    } catch (problem) {
      notifyProblem(problem);
    }
  },

  pollChecks() {
    clearTimeout(this.refreshTimer);
    this.refreshTimer = setTimeout(() => this.refresh(), POLL_MS);
  },
});

const keysMixin = () => ({
  keys: [],
  createdKey: null,
  isCreating: false,
  newKey: { ...NEW_KEY },
  errors: {},
  busy: false,
  lifetimes: LIFETIMES.map(([value, name]) => ({ value, name })),

  get validKeys() {
    return this.keys.filter((key) => key.state === "valid");
  },

  get invalidKeys() {
    return this.keys.filter((key) => key.state !== "valid");
  },

  openForm() {
    Object.assign(this, { isCreating: true, newKey: { ...NEW_KEY }, errors: {}, createdKey: null });
    this.$nextTick(() => this.$refs.keyName.focus());
  },

  async createKey() {
    this.busy = true;
    this.errors = {};
    try {
      const { name, role, scopes, expires_in: lifetime } = this.newKey;
      const body = { name: name.trim(), role, scopes: scopes.split(",").map((scope) => scope.trim()).filter(Boolean), ...(lifetime ? { expires_in: lifetime } : {}) };
      this.createdKey = await api.post("keys", body);
      this.isCreating = false;
      this.keys = (await api.get("keys")).keys;
      this.$nextTick(() => this.$refs.createdKey?.focus());
    } catch (problem) {
      this.showErrors(problem);
    }
    this.busy = false;
  },

  showErrors(problem) {
    const errors = problem.errors.length ? problem.errors : [{ field: problem.field ?? "name", message: problem.message }];
    this.errors = Object.fromEntries(errors.map(({ field, message }) => [field.split(".")[0], /at least 1 character/.test(message) ? "This field is required." : message]));
  },

  async copyKey() {
    try {
      await navigator.clipboard.writeText(this.createdKey.key);
      notify("Key copied.");
    } catch {
      getSelection().selectAllChildren(this.$refs.keyText);
      notify("The key is selected; copy it with the keyboard.");
    }
  },

  async revokeKey(key) {
    const text = "Clients that use this key lose access within seconds, and its sessions end. This cannot be undone.";
    if (!(await confirm({ title: `Revoke ${key.name}?`, text, action: "Revoke key", danger: true }))) return;
    try {
      await api.remove(`keys/${encodeURIComponent(key.id)}`);
      notify(`Key ${key.name} revoked.`);
      this.keys = (await api.get("keys")).keys;
    } catch (problem) {
      notifyProblem(problem);
    }
  },
});

/* Nested sections as one list with dotted names. */
function flatten(values, prefix = "") {
  return Object.entries(values).flatMap(([name, value]) =>
    value !== null && typeof value === "object" && !Array.isArray(value)
      ? flatten(value, `${prefix}${name}.`)
      : [{ name: `${prefix}${name}`, text: value === null ? "none" : Array.isArray(value) ? value.join(", ") : String(value) }],
  );
}

export default () => mergeMixins(main(), keysMixin());
