/* Maintenance windows, evaluated in the scheduler's time zone whatever the reader's time zone is. */
const DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const NAMES = { mon: "Monday", tue: "Tuesday", wed: "Wednesday", thu: "Thursday", fri: "Friday", sat: "Saturday", sun: "Sunday" };
const minutes = (text) => Number(text.split(":")[0]) * 60 + Number(text.split(":")[1]);

export function parseWindow(text) {
  const match = /^(?:([a-z,]+)\s+)?(\d{1,2}:\d{2})-(\d{1,2}:\d{2})$/.exec(text);
  if (!match) return null;
  const opens = minutes(match[2]);
  const closes = minutes(match[3]);
  return { days: match[1]?.split(",") ?? DAYS, opens, closes: closes > opens ? closes : closes + 1440 };
}

/* Whether the hour that starts at this time overlaps a window. */
export function isOpenAt(windows, time, zone) {
  if (!windows.length) return true;
  const { day, minute } = wallClock(time, zone);
  const previousDay = DAYS[(DAYS.indexOf(day) + 6) % 7];
  return windows.some((window) => {
    const overlaps = (offset) => window.opens < minute + offset + 60 && window.closes > minute + offset;
    return (window.days.includes(day) && overlaps(0)) || (window.days.includes(previousDay) && overlaps(1440));
  });
}

const formats = new Map();

function wallClock(time, zone) {
  if (!formats.has(zone)) formats.set(zone, new Intl.DateTimeFormat("en-US", { timeZone: zone, weekday: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" }));
  const parts = Object.fromEntries(formats.get(zone).formatToParts(time).map((part) => [part.type, part.value]));
  return { day: parts.weekday.toLowerCase(), minute: Number(parts.hour) * 60 + Number(parts.minute) };
}

/* Describes mon,tue,wed,thu,fri 22:00-06:00 as "Monday to Friday, 22:00 to 06:00". */
export function describeWindow(text) {
  const window = parseWindow(text);
  if (!window) return text;
  const [from, to] = text.split(/\s+/).at(-1).split("-");
  const hours = from === "00:00" && to === "24:00" ? "all day" : `${from} to ${to}`;
  return `${describeDays(window.days)}, ${hours}`;
}

function describeDays(days) {
  if (days.length === 7) return "Every day";
  const week = Object.keys(NAMES);
  const first = week.indexOf(days[0]);
  const isConsecutive = days.length > 2 && days.every((day, index) => week[first + index] === day);
  return isConsecutive ? `${NAMES[days[0]]} to ${NAMES[days.at(-1)]}` : days.map((day) => NAMES[day] ?? day).join(" and ");
}
