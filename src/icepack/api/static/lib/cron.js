/* Describes common cron expressions in words; returns any other expression unchanged. */
const DAYS = ["Sundays", "Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays", "Sundays"];
const isNumber = (text) => /^\d+$/.test(text);
const clock = (hour, minute) => `${hour.padStart(2, "0")}:${minute.padStart(2, "0")}`;

export function describeCron(expression) {
  const [minute, hour, day, month, weekday, ...rest] = expression.trim().split(/\s+/);
  if (weekday === undefined || rest.length) return expression;
  if (day !== "*" || month !== "*") return expression;
  const every = (text) => /^\*\/(\d+)$/.exec(text)?.[1];
  if (weekday === "*" && hour === "*" && every(minute)) return `every ${every(minute)} minutes`;
  if (weekday === "*" && hour === "*" && isNumber(minute)) return minute === "0" ? "every hour" : `every hour at :${minute.padStart(2, "0")}`;
  if (weekday === "*" && isNumber(minute) && every(hour)) return `every ${every(hour)} hours`;
  if (!isNumber(minute) || !isNumber(hour)) return expression;
  if (weekday === "*") return `daily at ${clock(hour, minute)}`;
  if (weekday === "1-5") return `Monday to Friday at ${clock(hour, minute)}`;
  return DAYS[weekday] ? `${DAYS[weekday]} at ${clock(hour, minute)}` : expression;
}
