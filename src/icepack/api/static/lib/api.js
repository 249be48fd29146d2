/* The one way to the API: JSON in and out, problems as errors that say what to do. */
import { remedy } from "./words.js";

const BASE = "api/v1";
const PREFIX = "urn:icepack:problem:";
let onSignedOut = () => {};

export class Problem extends Error {
  constructor({ type, title, status, detail, field, errors, estimate }) {
    super(detail || title);
    Object.assign(this, { status, title, field, errors: errors ?? [], estimate });
    this.slug = String(type ?? "").replace(PREFIX, "");
    this.remedy = remedy(this.slug);
  }
}

export const whenSignedOut = (callback) => {
  onSignedOut = callback;
};

export const tablePath = (name) => `tables/${encodeURIComponent(name)}`;

export function address(path, query = {}) {
  const given = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const one of [value].flat()) if (one !== undefined && one !== null && one !== "") given.append(name, one);
  }
  const text = given.toString();
  return `${BASE}/${path}${text ? `?${text}` : ""}`;
}

export const get = (path, query, options) => call("GET", address(path, query), undefined, options);
export const post = (path, body, options) => call("POST", address(path), body ?? {}, options);
export const put = (path, body, options) => call("PUT", address(path), body, options);
export const remove = (path, options) => call("DELETE", address(path), undefined, options);

async function call(method, url, body, { signal, key, quiet } = {}) {
  const headers = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (key) headers["Idempotency-Key"] = key;
  const answer = await fetched(url, { method, headers, signal, body: body && JSON.stringify(body) });
  if (answer.ok) return answer.status === 204 ? null : answer.json();
  const problem = new Problem(await described(answer));
  if (answer.status === 401 && !quiet) onSignedOut(problem);
  throw problem;
}

async function fetched(url, options) {
  try {
    return await fetch(url, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ type: "unreachable", status: 0, title: "The service does not answer." });
  }
}

async function described(answer) {
  try {
    return await answer.json();
  } catch {
    return { type: "internal-error", status: answer.status, title: `The service answered with ${answer.status}.` };
  }
}

/* For a request that must be done once, however often a button is pressed. */
export function onceKey() {
  const random = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
