// Code and tables that are wider than the screen can be scrolled by the keyboard, and long tables
// can be filtered.
for (const wide of document.querySelectorAll(".sl-markdown-content :is(pre, table)")) wide.tabIndex = 0;

for (const table of document.querySelectorAll(".sl-markdown-content table")) {
  const rows = [...table.tBodies[0].rows];
  if (rows.length < 40) continue;
  const filter = Object.assign(document.createElement("input"), { type: "search", placeholder: `Filter ${rows.length} rows`, className: "filter" });
  filter.setAttribute("aria-label", "Filter the rows of the next table");
  filter.addEventListener("input", () => {
    const words = filter.value.toLowerCase().split(/\s+/);
    for (const row of rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
  });
  table.before(filter);
}
