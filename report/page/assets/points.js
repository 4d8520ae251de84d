// Charts of points: choosing one, with the pointer or the keyboard, says its numbers, marks it in every chart and finds its row.
page.parts.push(() => {
  const { byId } = page;
  const views = document.querySelectorAll("[data-points]");
  for (const view of views) {
    const name = view.dataset.points, said = byId(name + "-said");
    const marks = [...view.querySelectorAll("g[data-point]")];
    const choose = (mark) => {
      for (const other of marks) other.classList.toggle("chosen", other.dataset.point === mark.dataset.point);
      if (said) said.textContent = mark.querySelector("title").textContent;
      for (const row of document.querySelectorAll("tr.chosen")) row.classList.remove("chosen");
      const row = document.querySelector(`[data-rows=${name}] tbody`)?.rows[Number(mark.dataset.point)];
      if (row) row.classList.add("chosen");
      open_plan(mark.dataset.point);
    };
    // Of the plans only that of the chosen point is seen, open.
    const plans = [...document.querySelectorAll(`details.plan[id^=${name}-plan-]`)];
    const open_plan = (point) => {
      for (const plan of plans) plan.hidden = !(plan.open = plan.id === `${name}-plan-${point}`);
    };
    for (const mark of marks) {
      mark.setAttribute("tabindex", "0");
      mark.setAttribute("role", "button");
      mark.setAttribute("aria-label", mark.querySelector("title").textContent);
      mark.addEventListener("click", () => choose(mark));
      mark.addEventListener("keydown", (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        choose(mark);
      });
    }
    const first = marks.find((mark) => Number(mark.dataset.point) === page.data.document.best);
    if (plans.length && first) choose(first);
    for (const [number, row] of [...(document.querySelector(`[data-rows=${name}] tbody`)?.rows || [])].entries()) {
      const mark = marks.find((own) => Number(own.dataset.point) === number);
      if (mark && plans.length) row.addEventListener("click", () => choose(mark));
    }
    // Any two of several numbers: a chart for each pair, of which one is seen.
    const x = byId(name + "-x"), y = byId(name + "-y");
    if (!x || !y) continue;
    const figures = [...view.querySelectorAll("[data-axes]")];
    const show = (moved, other) => {
      if (moved.value === other.value) other.value = [...other.options].find((option) => option.value !== moved.value).value;
      for (const figure of figures) figure.hidden = figure.dataset.axes !== `${x.value},${y.value}`;
    };
    x.closest(".tools").hidden = false;
    x.addEventListener("change", () => show(x, y));
    y.addEventListener("change", () => show(y, x));
    show(x, y);
  }
  for (const input of document.querySelectorAll("[data-finds]")) {
    const rows = [...document.querySelector(`[data-rows=${input.dataset.finds}] tbody`).rows];
    input.closest(".tools").hidden = false;
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/);
      for (const row of rows) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
    });
  }
});
