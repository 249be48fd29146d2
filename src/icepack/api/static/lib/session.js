/* The signed-in user and their roles. Controls for actions that the user may not perform are hidden. */
import * as api from "./api.js";

const RANKS = { viewer: 0, operator: 1, admin: 2 };
let self = null;

export const session = {
  state: "unknown",
  name: "",
  role: null,
  grants: [],
  authentication: false,

  attach(store) {
    self = store;
    api.onSignedOut(() => {
      self.state = "out";
    });
  },

  get isSignedIn() {
    return this.state === "in";
  },

  async load() {
    try {
      this.apply(await api.get("session", {}, { quiet: true }));
    } catch (problem) {
      this.state = problem.status === 401 ? "out" : "in";
    }
  },

  async signIn(key) {
    this.apply(await api.post("session", { key }, { quiet: true }));
  },

  async signOut() {
    await api.remove("session");
    this.state = "out";
  },

  apply(response) {
    Object.assign(this, { name: response.name, role: response.role, grants: response.grants });
    this.authentication = response.authentication;
    this.state = "in";
  },

  /* Whether the user has the role for this table ({catalog, namespace, …}), or, without a table, for any table. */
  hasRole(role, table) {
    return this.grants.some((grant) => RANKS[grant.role] >= RANKS[role] && (!table || coversTable(grant.scopes, table)));
  },

  hasRoleEverywhere(role) {
    return this.grants.some((grant) => RANKS[grant.role] >= RANKS[role] && grant.scopes.includes("*.*"));
  },
};

function coversTable(scopes, table) {
  const namespace = table.namespace.map((part) => (/^\w+$/.test(part) ? part : `"${part}"`)).join(".");
  return scopes.some((scope) => {
    const dot = scope.indexOf(".");
    return matchesGlob(scope.slice(0, dot), table.catalog) && matchesGlob(scope.slice(dot + 1), namespace);
  });
}

function matchesGlob(glob, text) {
  const pattern = Array.from(glob, (char) => (char === "*" ? ".*" : char === "?" ? "." : char.replace(/[^\w]/g, "\\$&")));
  return new RegExp(`^${pattern.join("")}$`, "su").test(text);
}
