/* HTTP client for the API: JSON requests and responses; RFC 9457 problems become errors with a remedy. */
import { remedy } from "./labels.js";

const BASE = "api/v1";
const PREFIX = "urn:icepack:problem:";
let signedOutHandler = () => {};

export class Problem extends Error {
  constructor({ type, title, status, detail, field, errors, estimate }) {
    super(detail || title);
    Object.assign(this, { status, title, field, errors: errors ?? [], estimate });
    this.slug = String(type ?? "").replace(PREFIX, "");
    this.remedy = remedy(this.slug);
  }
}

export const onSignedOut = (callback) => {
  signedOutHandler = callback;
};

export const tablePath = (name) => `tables/${encodeURIComponent(name)}`;

export function buildUrl(path, query = {}) {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    for (const item of [value].flat()) if (item !== undefined && item !== null && item !== "") params.append(name, item);
  }
  const text = params.toString();
  return `${BASE}/${path}${text ? `?${text}` : ""}`;
}

export const get = (path, query, options) => request("GET", buildUrl(path, query), undefined, options);
export const post = (path, body, options) => request("POST", buildUrl(path), body ?? {}, options);
export const put = (path, body, options) => request("PUT", buildUrl(path), body, options);
export const remove = (path, options) => request("DELETE", buildUrl(path), undefined, options);

/* `quiet` suppresses the signed-out handler for a 401 response. */
async function request(method, url, body, { signal, key, quiet } = {}) {
  const headers = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (key) headers["Idempotency-Key"] = key;
  const response = await fetchOrProblem(url, { method, headers, signal, body: body && JSON.stringify(body) });
  if (response.ok) return response.status === 204 ? null : response.json();
  const problem = new Problem(await readProblem(response));
  if (response.status === 401 && !quiet) signedOutHandler(problem);
  throw problem;
}

async function fetchOrProblem(url, options) {
  try {
    return await fetch(url, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem({ type: "unreachable", status: 0, title: "The service does not respond." });
  }
}

async function readProblem(response) {
  try {
    return await response.json();
  } catch {
    return { type: "internal-error", status: response.status, title: `The service responded with status ${response.status}.` };
  }
}

/* A random key that makes a request take effect once, however often the button is pressed. */
export function idempotencyKey() {
  const random = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
