/* Rules for tables by name, being written: added, changed, checked, asked what they would do, saved. */
import * as api from "./api.js";
import { cron } from "./cron.js";
import { confirm } from "./dialogs.js";
import * as policy from "./policy.js";
import { complain, tell } from "./toasts.js";

let number = 0;
const line = (name = "", value = "") => ({ id: ++number, name, value, wrong: "" });

/* place: "policies" or "schedules"; field: what settings are called there; settles: what to read again after a save. */
export const ruleParts = ({ place, field, isTimed, again }) => ({
  draft: null,
  general: "",
  busy: false,
  preview: null,
  asked: "",
  settingNames: policy.settingNames,
  isTimed,

  get isEditing() {
    return this.draft !== null;
  },

  get mayEdit() {
    return this.$store.session.mayEverywhere("admin");
  },

  get isAsked() {
    return this.preview !== null && this.asked === JSON.stringify(this.wanted);
  },

  get isChanged() {
    return this.isEditing && JSON.stringify(this.wanted) !== JSON.stringify(this.found.overrides.map((one) => wantedOf(readRule(one, field), field, isTimed)));
  },

  get wanted() {
    return this.draft.map((rule) => wantedOf(rule, field, isTimed));
  },

  edit() {
    this.draft = this.found.overrides.map((one) => readRule(one, field));
    this.preview = null;
    this.general = "";
    if (!this.draft.length) this.addRule();
  },

  async leave() {
    const sure = !this.isChanged || (await confirm({ title: "Leave what you changed?", text: "It was not saved.", action: "Leave it", danger: true }));
    if (sure) this.draft = this.preview = null;
  },

  addRule() {
    this.draft.push(readRule({ match: "", schedule: "", [field]: {} }, field));
    this.$nextTick(() => [...this.$root.querySelectorAll("[data-match]")].at(-1)?.focus());
  },

  removeRule(rule) {
    this.draft = this.draft.filter((one) => one.id !== rule.id);
  },

  addLine(rule) {
    rule.lines.push(line());
  },

  removeLine(rule, gone) {
    rule.lines = rule.lines.filter((one) => one.id !== gone.id);
  },

  cronWords(line) {
    const said = cron(line);
    return said === line ? "" : said;
  },

  choicesOf: policy.choicesOf,
  kindOf: policy.kindOf,
  means: policy.means,
  example: policy.example,

  async ask() {
    await this.send(async (body) => {
      this.preview = await api.post(`${place}/preview`, body);
      this.asked = JSON.stringify(this.wanted);
      this.$nextTick(() => this.$refs.preview?.focus());
    });
  },

  async save() {
    await this.send(async (body) => {
      await api.put(place, body);
      this.draft = this.preview = null;
      tell("Saved. It is heeded within seconds.");
      await again(this);
    });
  },

  async send(work) {
    this.busy = true;
    this.forgive();
    try {
      await work({ overrides: this.wanted, version: this.found.version });
    } catch (problem) {
      this.preview = null;
      if (!problem.errors?.length) complain(problem);
      this.blame(problem);
    }
    this.busy = false;
  },

  forgive() {
    this.general = "";
    for (const rule of this.draft) {
      rule.wrong = { match: "", schedule: "", settings: "" };
      for (const one of rule.lines) one.wrong = "";
    }
  },

  /* Every mistake at its field; what has none, above all. */
  blame(problem) {
    for (const { field: place, message } of problem.errors ?? []) {
      const [, at, part, name] = place.split(".");
      const rule = this.draft[Number(at)];
      const found = rule?.lines.find((one) => one.name === name);
      if (found) found.wrong = plain(message);
      else if (rule && (part === "match" || part === "schedule")) rule.wrong[part] = plain(message);
      else if (rule) rule.wrong.settings = plain(name ? `${name}: ${message}` : message);
      else this.general = plain(message);
    }
    this.$nextTick(() => this.$root.querySelector("[aria-invalid=true]")?.focus());
  },
});

function readRule(one, field) {
  return {
    id: ++number,
    match: one.match,
    schedule: one.schedule ?? "",
    lines: Object.entries(one[field] ?? {}).map(([name, value]) => line(name, policy.typed(name, value))),
    wrong: { match: "", schedule: "", settings: "" },
  };
}

function wantedOf(rule, field, isTimed) {
  const settings = Object.fromEntries(rule.lines.filter((one) => one.name).map((one) => [one.name, policy.given(one.name, one.value)]));
  return isTimed ? { match: rule.match.trim(), schedule: rule.schedule.trim(), [field]: settings } : { match: rule.match.trim(), [field]: settings };
}

/* The words of the checker, without its own. */
function plain(message) {
  if (/at least 1 (character|item)/.test(message)) return "This is missing.";
  if (message.startsWith("Extra inputs")) return "There is no such setting.";
  const said = message.replace(/^does not fit: /, "").replace(/^Input should be/, "should be");
  return `${said.charAt(0).toUpperCase()}${said.slice(1)}.`.replace(/\.\.$/, ".");
}
