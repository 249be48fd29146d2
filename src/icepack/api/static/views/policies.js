/* Policies: the rules for each table, and a preview of the effect of a change. */
import * as api from "../lib/api.js";
import * as format from "../lib/format.js";
import * as labels from "../lib/labels.js";
import { loading } from "../lib/loading.js";
import { mergeMixins } from "../lib/mixins.js";
import * as policy from "../lib/policy.js";
import { tableLink } from "../lib/router.js";
import { ruleEditorMixin } from "../lib/rule-editor.js";

const main = () => ({
  ...loading(),
  data: null,

  init() {
    this.refresh();
  },

  refresh() {
    return this.load(async () => {
      this.data = await api.get("policies");
    });
  },

  get base() {
    return policy.settingRows(this.data.base);
  },

  get configured() {
    return this.data.configured.map(ruleRow);
  },

  get overrides() {
    return this.data.overrides.map(ruleRow);
  },

  get previewText() {
    const { tables, recommendations } = this.preview;
    if (!tables) return "No table's policy would change.";
    const effect = recommendations ? `Recommendations would change for ${format.count(recommendations)} of them.` : "Recommendations would not change.";
    return `The policy of ${format.plural(tables, "table")} would change. ${effect}`;
  },

  get previewRows() {
    return this.preview.changes.map((change) => ({
      name: change.table_name,
      href: tableLink(change.table_name),
      settings: Object.entries(change.settings).map(([name, { before, after }]) => ({ name: labels.setting(name), before: policy.displayValue(name, before), after: policy.displayValue(name, after) })),
      isChanged: change.recommendation_changes,
      before: actionNames(change.actions_before),
      after: actionNames(change.actions_after),
      note: change.estimated ? "The small-file threshold changes too, so the result is certain only after the next health sync." : "",
    }));
  },
});

const ruleRow = (rule, index) => ({ key: index, match: rule.match, settings: policy.settingRows(rule.settings) });

const actionNames = (kinds) => labels.joinNames(kinds.map((kind) => labels.action(kind).toLowerCase())) || "nothing";

export default () => mergeMixins(main(), ruleEditorMixin({ resource: "policies", field: "settings", hasSchedule: false, onSaved: (self) => self.refresh() }));
