/* Every screen: a line here, views/NAME.js and views/NAME.html. See docs/page.md. */
export const screens = [
  { name: "fleet", path: "", title: "Fleet", key: "f" },
  { name: "tables", path: "tables", title: "Tables", key: "t" },
  { name: "table", path: "tables/:table", title: "Table", within: "tables" },
];
