/* Policies: what holds for which tables, in which order, and what a change would do before it is made. */
import * as api from "../lib/api.js";
import * as format from "../lib/format.js";
import { join } from "../lib/join.js";
import { loading } from "../lib/loading.js";
import * as policy from "../lib/policy.js";
import { tableLink } from "../lib/router.js";
import { ruleParts } from "../lib/rules.js";
import * as words from "../lib/words.js";

const main = () => ({
  ...loading(),
  found: null,

  init() {
    this.refresh();
  },

  refresh() {
    return this.load(async () => {
      this.found = await api.get("policies");
    });
  },

  get base() {
    return policy.lines(this.found.base);
  },

  get configured() {
    return this.found.configured.map((one, at) => ({ key: at, match: one.match, lines: policy.lines(one.settings) }));
  },

  get overrides() {
    return this.found.overrides.map((one, at) => ({ key: at, match: one.match, lines: policy.lines(one.settings) }));
  },

  get previewWords() {
    const { tables, recommendations } = this.preview;
    if (!tables) return "Nothing: no table would have another policy.";
    const more = recommendations ? `For ${format.plural(recommendations, "of them", "of them")} something else would be recommended.` : "What is recommended stays the same for all of them.";
    return `${format.plural(tables, "table")} would have another policy. ${more}`;
  },

  get previewRows() {
    return this.preview.changes.map((one) => ({
      name: one.table_name,
      href: tableLink(one.table_name),
      settings: Object.entries(one.settings).map(([name, change]) => ({ name: words.setting(name), before: policy.shown(name, change.before), after: policy.shown(name, change.after) })),
      isChanged: one.recommendation_changes,
      before: named(one.actions_before),
      after: named(one.actions_after),
      note: one.estimated ? "What counts as small changes too, so the next look at the table tells for sure." : "",
    }));
  },
});

const named = (kinds) => words.joined(kinds.map((kind) => words.action(kind).toLowerCase())) || "nothing";

export default () => join(main(), ruleParts({ place: "policies", field: "settings", isTimed: false, again: (self) => self.refresh() }));
