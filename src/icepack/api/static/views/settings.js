/* How it is set up: checks with their remedies, keys, catalogs, versions. */
import * as api from "../lib/api.js";
import { confirm } from "../lib/dialogs.js";
import { join } from "../lib/join.js";
import { loading } from "../lib/loading.js";
import { complain, tell } from "../lib/toasts.js";
import * as words from "../lib/words.js";

const AGAIN_MS = 700;
const NEW = { name: "", role: "viewer", scopes: "*", expires_in: "" };
const LIVES = [["", "until it is revoked"], ["30d", "30 days"], ["90d", "90 days"], ["365d", "a year"]];
const NAMES = { icepack: "icepack", iceberg: "Iceberg", spark: "Spark", python: "Python", pyiceberg: "PyIceberg", pyarrow: "PyArrow" };

const main = () => ({
  ...loading(),
  found: null,

  init() {
    this.refresh();
  },

  destroy() {
    clearTimeout(this.later);
  },

  refresh() {
    return this.load(async () => {
      this.found = await api.get("settings");
      if (this.mayKeys) this.keys = (await api.get("keys")).keys;
      if (this.found.checkup?.running) this.watchChecks();
    });
  },

  get mayKeys() {
    return this.$store.session.mayEverywhere("admin");
  },

  get versions() {
    return Object.entries(this.found.versions).map(([name, text]) => ({ name: NAMES[name] ?? name, text }));
  },

  get catalogs() {
    return this.found.catalogs;
  },

  get sections() {
    return Object.entries(this.found.sections).map(([name, block]) => ({ name: words.setting(name), key: name, lines: flat(block) }));
  },

  get checks() {
    const found = this.found.checkup?.checks ?? [];
    return [...found].sort((one, other) => one.ok - other.ok).map((check) => ({ ...check, title: words.setting(check.name) }));
  },

  get checkWords() {
    if (this.found.checkup.running) return "Looking …";
    const bad = this.checks.filter((check) => !check.ok).length;
    return bad ? `${bad} of ${this.checks.length} need care` : `${this.checks.length} looked at, all in order`;
  },

  async startChecks() {
    try {
      this.found.checkup = await api.post("settings/checks");
      this.found.checkup.running = true;
      this.watchChecks();
    } catch (problem) {
      complain(problem);
    }
  },

  watchChecks() {
    clearTimeout(this.later);
    this.later = setTimeout(() => this.refresh(), AGAIN_MS);
  },
});

const keyParts = () => ({
  keys: [],
  fresh: null,
  isMaking: false,
  making: { ...NEW },
  wrong: {},
  busy: false,
  lives: LIVES.map(([value, name]) => ({ value, name })),

  get validKeys() {
    return this.keys.filter((key) => key.state === "valid");
  },

  get endedKeys() {
    return this.keys.filter((key) => key.state !== "valid");
  },

  startMaking() {
    Object.assign(this, { isMaking: true, making: { ...NEW }, wrong: {}, fresh: null });
    this.$nextTick(() => this.$refs.keyName.focus());
  },

  async make() {
    this.busy = true;
    this.wrong = {};
    try {
      const { name, role, scopes, expires_in: life } = this.making;
      const body = { name: name.trim(), role, scopes: scopes.split(",").map((one) => one.trim()).filter(Boolean), ...(life ? { expires_in: life } : {}) };
      this.fresh = await api.post("keys", body);
      this.isMaking = false;
      this.keys = (await api.get("keys")).keys;
      this.$nextTick(() => this.$refs.fresh?.focus());
    } catch (problem) {
      this.blame(problem);
    }
    this.busy = false;
  },

  blame(problem) {
    const found = problem.errors.length ? problem.errors : [{ field: problem.field ?? "name", message: problem.message }];
    this.wrong = Object.fromEntries(found.map(({ field, message }) => [field.split(".")[0], /at least 1 character/.test(message) ? "This is missing." : message]));
  },

  async copy() {
    try {
      await navigator.clipboard.writeText(this.fresh.key);
      tell("Copied.");
    } catch {
      getSelection().selectAllChildren(this.$refs.key);
      tell("It is marked; copy it with the keyboard.");
    }
  },

  async revoke(key) {
    const text = "Whoever uses it is locked out within seconds, and its sessions end. It cannot be undone.";
    if (!(await confirm({ title: `Revoke ${key.name}?`, text, action: "Revoke it", danger: true }))) return;
    try {
      await api.remove(`keys/${encodeURIComponent(key.id)}`);
      tell(`${key.name} is revoked.`);
      this.keys = (await api.get("keys")).keys;
    } catch (problem) {
      complain(problem);
    }
  },
});

/* Blocks within blocks as one list. */
function flat(block, prefix = "") {
  return Object.entries(block).flatMap(([name, value]) =>
    value !== null && typeof value === "object" && !Array.isArray(value)
      ? flat(value, `${prefix}${name}.`)
      : [{ name: `${prefix}${name}`, text: value === null ? "none" : Array.isArray(value) ? value.join(", ") : String(value) }],
  );
}

export default () => join(main(), keyParts());
