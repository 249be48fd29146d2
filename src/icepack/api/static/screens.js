/* Every screen has a line here, a views/NAME.js and a views/NAME.html. See docs/page.md. */
export const screens = [
  { name: "fleet", path: "", title: "Fleet", key: "f" },
  { name: "tables", path: "tables", title: "Tables", key: "t" },
  { name: "table", path: "tables/:table", title: "Table", within: "tables" },
  { name: "jobs", path: "jobs", title: "Jobs", key: "j" },
  { name: "job", path: "jobs/:job", title: "Job", within: "jobs" },
  { name: "schedule", path: "schedule", title: "Schedule", key: "s" },
  { name: "policies", path: "policies", title: "Policies", key: "p" },
  { name: "history", path: "history", title: "History and cost", key: "h" },
  { name: "audit", path: "audit", title: "Audit log", key: "a", role: "admin" },
  { name: "settings", path: "settings", title: "Settings", key: "e" },
];
