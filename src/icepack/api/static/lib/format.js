/* Formats numbers, sizes, durations and money in the reader's locale, rounded to a sensible precision. */
const whole = new Intl.NumberFormat(undefined, { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat(undefined, { maximumFractionDigits: 1 });
const EMPTY = "–";
const isMissing = (value) => value === null || value === undefined || Number.isNaN(value);

export const count = (value) => (isMissing(value) ? EMPTY : whole.format(value));

/* 12,345,678 as 12.3 M, for narrow columns. */
export function shortCount(value) {
  if (isMissing(value)) return EMPTY;
  for (const [size, unit] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (Math.abs(value) >= size) return `${tenths.format(value / (unit === "k" ? 1e3 : size))} ${unit}`;
  }
  return whole.format(value);
}

/* Uses powers of 1024, like the rest of icepack. */
export function bytes(value) {
  if (isMissing(value)) return EMPTY;
  let left = value;
  for (const unit of ["B", "KB", "MB", "GB"]) {
    const shown = unit === "B" ? Math.round(left) : Math.round(left * 10) / 10;
    if (Math.abs(shown) < 1024) return `${tenths.format(shown)} ${unit}`;
    left /= 1024;
  }
  return `${tenths.format(left)} TB`;
}

/* Shows the two largest units: 3d 4h, 2m 5s, 0.4s. */
export function duration(seconds) {
  if (isMissing(seconds)) return EMPTY;
  if (seconds < 10) return `${tenths.format(Math.max(seconds, 0))}s`;
  let left = Math.round(seconds);
  const parts = [];
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]]) {
    const amount = Math.floor(left / size);
    left -= amount * size;
    if (amount) parts.push(`${amount}${unit}`);
  }
  return parts.slice(0, 2).join(" ");
}

/* Shows at least two significant digits, even for small amounts: $0.0012, $3.40. */
export function money(dollars) {
  if (isMissing(dollars)) return EMPTY;
  if (dollars === 0) return "$0";
  if (Math.abs(dollars) < 0.00005) return dollars > 0 ? "< $0.0001" : "$0";
  const digits = Math.abs(dollars) >= 0.1 ? 2 : 4;
  return `$${dollars.toLocaleString(undefined, { minimumFractionDigits: 2, maximumFractionDigits: digits })}`;
}

export function percent(share) {
  if (isMissing(share)) return EMPTY;
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
export const dateTime = (text) => (text ? local.format(new Date(text)) : EMPTY);
export const date = (text) => (text ? day.format(new Date(text)) : EMPTY);
export const utc = (text) => (text ? `${new Date(text).toISOString().slice(0, 19).replace("T", " ")} UTC` : "");

/* Seconds of an ISO 8601 duration, as the API returns it: PT4M, P7D. */
export function parseIsoDuration(text) {
  const match = /^P(?:([\d.]+)D)?(?:T(?:([\d.]+)H)?(?:([\d.]+)M)?(?:([\d.]+)S)?)?$/.exec(text ?? "");
  if (!match) return null;
  const [days, hours, minutes, seconds] = match.slice(1).map((part) => Number(part ?? 0));
  return days * 86400 + hours * 3600 + minutes * 60 + seconds;
}
