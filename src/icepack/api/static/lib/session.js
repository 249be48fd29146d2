/* Who is looking, and what they may do: buttons for what they may not are not there. */
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
    api.whenSignedOut(() => {
      self.state = "out";
    });
  },

  get isIn() {
    return this.state === "in";
  },

  async look() {
    try {
      this.take(await api.get("session", {}, { quiet: true }));
    } catch (problem) {
      this.state = problem.status === 401 ? "out" : "in";
    }
  },

  async enter(key) {
    this.take(await api.post("session", { key }, { quiet: true }));
  },

  async leave() {
    await api.remove("session");
    this.state = "out";
  },

  take(found) {
    Object.assign(this, { name: found.name, role: found.role, grants: found.grants });
    this.authentication = found.authentication;
    this.state = "in";
  },

  /* For one table ({catalog, namespace, …}), or at least somewhere. */
  may(role, table) {
    return this.grants.some((grant) => RANKS[grant.role] >= RANKS[role] && (!table || covers(grant.scopes, table)));
  },

  mayEverywhere(role) {
    return this.grants.some((grant) => RANKS[grant.role] >= RANKS[role] && grant.scopes.includes("*.*"));
  },
};

function covers(scopes, table) {
  const namespace = table.namespace.map((part) => (/^\w+$/.test(part) ? part : `"${part}"`)).join(".");
  return scopes.some((scope) => {
    const at = scope.indexOf(".");
    return fits(scope.slice(0, at), table.catalog) && fits(scope.slice(at + 1), namespace);
  });
}

function fits(glob, text) {
  const pattern = Array.from(glob, (one) => (one === "*" ? ".*" : one === "?" ? "." : one.replace(/[^\w]/g, "\\$&")));
  return new RegExp(`^${pattern.join("")}$`, "su").test(text);
}
