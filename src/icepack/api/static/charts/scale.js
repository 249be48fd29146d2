/* Linear scales and axis ticks. */
export function scale(from, to, start, end) {
  const range = to - from || 1;
  return (value) => start + ((value - from) / range) * (end - start);
}

/* About `wanted` round values that cover the range. */
export function ticks(from, to, wanted = 4) {
  const raw = (to - from || 1) / wanted;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((times) => times * power).find((size) => size >= raw);
  const values = [];
  for (let value = Math.ceil(from / step) * step; value <= to + step / 1e6; value += step) values.push(Number(value.toPrecision(12)));
  return values;
}

const DAY = 86400e3;
const STEPS = [1e3, 5e3, 10e3, 30e3, 60e3, 300e3, 900e3, 3600e3, 3 * 3600e3, 6 * 3600e3, 12 * 3600e3, DAY, 2 * DAY, 7 * DAY, 14 * DAY, 30 * DAY, 91 * DAY, 365 * DAY];
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const clockSeconds = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });

/* Ticks at round times in the reader's time zone, with their labels. */
export function timeTicks(from, to, wanted) {
  const step = STEPS.find((size) => (to - from) / size <= wanted) ?? STEPS.at(-1);
  const zone = new Date(from).getTimezoneOffset() * 60e3;
  const found = [];
  for (let at = Math.ceil((from - zone) / step) * step + zone; at <= to; at += step) {
    const isMidnight = (at - zone) % DAY === 0;
    const time = step < 60e3 ? clockSeconds : clock;
    found.push({ at, name: step < DAY && !isMidnight ? time.format(at) : day.format(at) });
  }
  return found;
}
