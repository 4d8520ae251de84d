// The sharding table: find a row, and open all other ways of a tensor with their costs.
page.parts.push(() => {
  const { columns, byId, fixed } = page;
  const box = byId("sharding-table");
  if (!box || !columns["sharding.ways"]) return;
  const ways = JSON.parse(columns["sharding.ways"]), rows = [...box.querySelectorAll("tbody tr")];
  byId("sharding-tools").hidden = false;
  const sign = (text) => (/^[1-9]|[1-9]/.test(text) && !text.startsWith("\u2212") ? "+" + text : text);
  function open(row, i, button) {
    const next = row.nextElementSibling;
    if (next && next.classList.contains("ways")) {
      next.remove();
      button.setAttribute("aria-expanded", "false");
      return;
    }
    const line = document.createElement("tr"), cell = document.createElement("td"), wide = document.createElement("div");
    line.className = "ways";
    cell.colSpan = row.children.length;
    wide.className = "wide";
    wide.append(page.table(`All ways of ${row.firstElementChild.textContent}`,
      [["spec", "c"], ["strategy", "c"], ["time, ms", "n"], ["memory, MiB", "n"], ["remark"]],
      ways[i].map(([spec, strategy, seconds, bytes, chosen, unproven]) => [spec, strategy, sign(fixed(seconds * 1e3, 3)),
        sign(fixed(bytes / 2 ** 20, 1)), chosen ? "chosen" : unproven ? "best found, not proven" : ""])));
    cell.append(wide);
    line.append(cell);
    row.after(line);
    button.setAttribute("aria-expanded", "true");
  }
  rows.forEach((row, i) => {
    const cell = row.lastElementChild, button = document.createElement("button");
    button.type = "button";
    button.textContent = cell.textContent;
    button.setAttribute("aria-expanded", "false");
    button.setAttribute("aria-label", `all ${cell.textContent} other ways of ${row.firstElementChild.textContent}`);
    button.addEventListener("click", () => open(row, i, button));
    cell.replaceChildren(button);
  });
  function find() {
    const words = byId("sharding-find").value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const line of box.querySelectorAll(".ways")) line.remove();
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += row.hidden ? 0 : 1;
      row.querySelector("button").setAttribute("aria-expanded", "false");
    }
    byId("sharding-count").textContent = `${shown} of ${rows.length}`;
  }
  byId("sharding-find").addEventListener("input", find);
  find();
});
