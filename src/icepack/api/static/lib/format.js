/* Numbers, sizes, spans, money: short, in the reader's own way of writing them, and never more exact than they are. */
const whole = new Intl.NumberFormat(undefined, { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });
const NOTHING = "–";
const missing = (value) => value === null || value === undefined || Number.isNaN(value);

export const count = (value) => (missing(value) ? NOTHING : whole.format(value));

/* 12,345,678 as 12.3 M, where a column has little room. */
export function brief(value) {
  if (missing(value)) return NOTHING;
  for (const [size, unit] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (Math.abs(value) >= size) return `${tenths.format(value / (unit === "k" ? 1e3 : size))} ${unit}`;
  }
  return whole.format(value);
}

/* Powers of 1024, as everywhere in icepack. */
export function bytes(value) {
  if (missing(value)) return NOTHING;
  let left = value;
  for (const unit of ["B", "KB", "MB", "GB"]) {
    const shown = unit === "B" ? Math.round(left) : Math.round(left * 10) / 10;
    if (Math.abs(shown) < 1024) return `${tenths.format(shown)} ${unit}`;
    left /= 1024;
  }
  return `${tenths.format(left)} TB`;
}

/* The two largest units: 3d 4h, 2m 5s, 0.4s. */
export function duration(seconds) {
  if (missing(seconds)) return NOTHING;
  if (seconds < 10) return `${tenths.format(Math.max(seconds, 0))}s`;
  let left = Math.round(seconds);
  const parts = [];
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]]) {
    const found = Math.floor(left / size);
    left -= found * size;
    if (found) parts.push(`${found}${unit}`);
  }
  return parts.slice(0, 2).join(" ");
}

/* Two figures that count, however small: $0.0012, $3.40. */
export function money(dollars) {
  if (missing(dollars)) return NOTHING;
  if (dollars === 0) return "$0";
  if (Math.abs(dollars) < 0.00005) return dollars > 0 ? "< $0.0001" : "$0";
  const digits = Math.abs(dollars) >= 0.1 ? 2 : 4;
  return `$${dollars.toLocaleString(undefined, { minimumFractionDigits: 2, maximumFractionDigits: digits })}`;
}

export function percent(share) {
  if (missing(share)) return NOTHING;
  if (share > 0 && share < 0.01) return "< 1 %";
  return `${whole.format(share * 100)} %`;
}

export const plural = (number, one, many) => `${count(number)} ${number === 1 ? one : (many ?? `${one}s`)}`;

export const band = (score) => (score >= 90 ? "good" : score >= 70 ? "fair" : score >= 50 ? "poor" : "bad");

const UNITS = [["year", 31557600], ["month", 2629800], ["day", 86400], ["hour", 3600], ["minute", 60]];
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" });

export function ago(text, now = Date.now()) {
  if (!text) return "never";
  const seconds = (new Date(text).getTime() - now) / 1000;
  for (const [unit, size] of UNITS) {
    if (Math.abs(seconds) >= size) return relative.format(Math.trunc(seconds / size), unit);
  }
  return seconds > 5 ? "in a moment" : "just now";
}

const local = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
export const moment = (text) => (text ? local.format(new Date(text)) : NOTHING);
export const date = (text) => (text ? day.format(new Date(text)) : NOTHING);
export const utc = (text) => (text ? `${new Date(text).toISOString().slice(0, 19).replace("T", " ")} UTC` : "");

/* ISO 8601 spans, as the API writes them: PT4M, P7D. */
export function isoSeconds(text) {
  const found = /^P(?:([\d.]+)D)?(?:T(?:([\d.]+)H)?(?:([\d.]+)M)?(?:([\d.]+)S)?)?$/.exec(text ?? "");
  if (!found) return null;
  const [days, hours, minutes, seconds] = found.slice(1).map((part) => Number(part ?? 0));
  return days * 86400 + hours * 3600 + minutes * 60 + seconds;
}
