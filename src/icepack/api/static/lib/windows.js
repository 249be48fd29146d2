/* Maintenance windows by the clock of the scheduler's zone, for whatever zone the reader is in. */
const DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const NAMES = { mon: "Monday", tue: "Tuesday", wed: "Wednesday", thu: "Thursday", fri: "Friday", sat: "Saturday", sun: "Sunday" };
const minutes = (text) => Number(text.split(":")[0]) * 60 + Number(text.split(":")[1]);

export function parseWindow(text) {
  const found = /^(?:([a-z,]+)\s+)?(\d{1,2}:\d{2})-(\d{1,2}:\d{2})$/.exec(text);
  if (!found) return null;
  const opens = minutes(found[2]);
  const closes = minutes(found[3]);
  return { days: found[1]?.split(",") ?? DAYS, opens, closes: closes > opens ? closes : closes + 1440 };
}

/* Whether the hour that begins then touches a window. */
export function isOpenAt(windows, moment, zone) {
  if (!windows.length) return true;
  const { day, minute } = wall(moment, zone);
  const before = DAYS[(DAYS.indexOf(day) + 6) % 7];
  return windows.some((one) => {
    const touches = (shift) => one.opens < minute + shift + 60 && one.closes > minute + shift;
    return (one.days.includes(day) && touches(0)) || (one.days.includes(before) && touches(1440));
  });
}

const formats = new Map();

function wall(moment, zone) {
  if (!formats.has(zone)) formats.set(zone, new Intl.DateTimeFormat("en-US", { timeZone: zone, weekday: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" }));
  const parts = Object.fromEntries(formats.get(zone).formatToParts(moment).map((part) => [part.type, part.value]));
  return { day: parts.weekday.toLowerCase(), minute: Number(parts.hour) * 60 + Number(parts.minute) };
}

/* mon,tue,wed,thu,fri 22:00-06:00 as "Monday to Friday, 22:00 to 06:00". */
export function windowWords(text) {
  const found = parseWindow(text);
  if (!found) return text;
  const [from, to] = text.split(/\s+/).at(-1).split("-");
  const hours = from === "00:00" && to === "24:00" ? "the whole day" : `${from} to ${to}`;
  return `${dayWords(found.days)}, ${hours}`;
}

function dayWords(days) {
  if (days.length === 7) return "Every day";
  const week = Object.keys(NAMES);
  const first = week.indexOf(days[0]);
  const isRow = days.length > 2 && days.every((day, at) => week[first + at] === day);
  return isRow ? `${NAMES[days[0]]} to ${NAMES[days.at(-1)]}` : days.map((day) => NAMES[day] ?? day).join(" and ");
}
