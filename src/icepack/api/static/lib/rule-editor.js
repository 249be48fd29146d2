/* Editor for rules that match tables by name: policies and schedules. Edits are validated, previewed and then saved. */
import * as api from "./api.js";
import { describeCron } from "./cron.js";
import { confirm } from "./dialogs.js";
import * as policy from "./policy.js";
import { notify, notifyProblem } from "./toasts.js";

let lastId = 0;
const newSetting = (name = "", value = "") => ({ id: ++lastId, name, value, error: "" });
const noErrors = () => ({ match: "", schedule: "", settings: "" });

/* resource: "policies" or "schedules"; field: the name of the settings object in a rule; hasSchedule: whether rules have
   a cron expression; onSaved: called with the component after a save. */
export const ruleEditorMixin = ({ resource, field, hasSchedule, onSaved }) => ({
  draft: null,
  generalError: "",
  busy: false,
  preview: null,
  previewedDraft: "",
  settingNames: policy.settingNames,
  hasSchedule,

  get isEditing() {
    return this.draft !== null;
  },

  get canEdit() {
    return this.$store.session.hasRoleEverywhere("admin");
  },

  get isPreviewed() {
    return this.preview !== null && this.previewedDraft === JSON.stringify(this.draftOverrides);
  },

  get isChanged() {
    return this.isEditing && JSON.stringify(this.draftOverrides) !== JSON.stringify(this.data.overrides.map((override) => toOverride(toDraft(override, field), field, hasSchedule)));
  },

  get draftOverrides() {
    return this.draft.map((rule) => toOverride(rule, field, hasSchedule));
  },

  edit() {
    this.draft = this.data.overrides.map((override) => toDraft(override, field));
    this.preview = null;
    this.generalError = "";
    if (!this.draft.length) this.addRule();
  },

  async cancelEditing() {
    const dialog = { title: "Discard changes?", text: "Your changes have not been saved.", action: "Discard", dismiss: "Keep editing", danger: true };
    if (!this.isChanged || (await confirm(dialog))) this.draft = this.preview = null;
  },

  addRule() {
    this.draft.push(toDraft({ match: "", schedule: "", [field]: {} }, field));
    this.$nextTick(() => [...this.$root.querySelectorAll("[data-match]")].at(-1)?.focus());
  },

  removeRule(rule) {
    this.draft = this.draft.filter((other) => other.id !== rule.id);
  },

  addSetting(rule) {
    rule.settings.push(newSetting());
  },

  removeSetting(rule, setting) {
    rule.settings = rule.settings.filter((other) => other.id !== setting.id);
  },

  describeCron(expression) {
    const description = describeCron(expression);
    return description === expression ? "" : description;
  },

  choicesOf: policy.choicesOf,
  kindOf: policy.kindOf,
  settingDescription: policy.description,
  example: policy.example,

  async loadPreview() {
    await this.send(async (body) => {
      this.preview = await api.post(`${resource}/preview`, body);
      this.previewedDraft = JSON.stringify(this.draftOverrides);
      this.$nextTick(() => this.$refs.preview?.focus());
    });
  },

  async save() {
    await this.send(async (body) => {
      await api.put(resource, body);
      this.draft = this.preview = null;
      notify("Saved. The change takes effect within seconds.");
      await onSaved(this);
    });
  },

  async send(work) {
    this.busy = true;
    this.clearErrors();
    try {
      await work({ overrides: this.draftOverrides, version: this.data.version });
    } catch (problem) {
      this.preview = null;
      if (!problem.errors?.length) notifyProblem(problem);
      this.showErrors(problem);
    }
    this.busy = false;
  },

  clearErrors() {
    this.generalError = "";
    for (const rule of this.draft) {
      rule.errors = noErrors();
      for (const setting of rule.settings) setting.error = "";
    }
  },

  /* Shows each error next to its field, and errors without a field at the top. */
  showErrors(problem) {
    for (const { field: path, message } of problem.errors ?? []) {
      const [, index, part, name] = path.split(".");
      const rule = this.draft[Number(index)];
      const setting = rule?.settings.find((candidate) => candidate.name === name);
      if (setting) setting.error = errorText(message);
      else if (rule && (part === "match" || part === "schedule")) rule.errors[part] = errorText(message);
      else if (rule) rule.errors.settings = errorText(name ? `${name}: ${message}` : message);
      else this.generalError = errorText(message);
    }
    this.$nextTick(() => this.$root.querySelector("[aria-invalid=true]")?.focus());
  },
});

function toDraft(override, field) {
  return {
    id: ++lastId,
    match: override.match,
    schedule: override.schedule ?? "",
    settings: Object.entries(override[field] ?? {}).map(([name, value]) => newSetting(name, policy.toInput(name, value))),
    errors: noErrors(),
  };
}

function toOverride(rule, field, hasSchedule) {
  const settings = Object.fromEntries(rule.settings.filter((setting) => setting.name).map((setting) => [setting.name, policy.fromInput(setting.name, setting.value)]));
  return hasSchedule ? { match: rule.match.trim(), schedule: rule.schedule.trim(), [field]: settings } : { match: rule.match.trim(), [field]: settings };
}

/* A sentence without the validator's own vocabulary. */
function errorText(message) {
  if (/at least 1 (character|item)/.test(message)) return "This field is required.";
  if (message.startsWith("Extra inputs")) return "Unknown setting.";
  const text = message.replace(/^is invalid: /, "").replace(/^Input should be/, "should be");
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`.replace(/\.\.$/, ".");
}
