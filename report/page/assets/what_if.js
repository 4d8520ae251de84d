// Sliders over points that were simulated when the page was made.
page.parts.push(() => {
  const { data, byId, time, fixed } = page;
  const view = byId("what-if-view");
  if (!view || !data.what_if) return;
  view.hidden = false;
  for (const slider of view.querySelectorAll("[data-axis]")) {
    const { points } = data.what_if[Number(slider.dataset.axis)], own = points.findIndex((point) => point.own);
    const show = () => {
      const point = points[Number(slider.value)];
      let text = `${point.value}: `;
      if (point.step_s === null) text += point.note || "no such step";
      else {
        const change = point.step_s / points[own].step_s - 1;
        text += time(point.step_s * 1e12) + (point.own ? ", as planned" : `, ${change > 0 ? "+" : ""}${fixed(100 * change, 1)} %`);
        if (point.note) text += `; ${point.note}`;
      }
      slider.nextElementSibling.textContent = text;
      slider.setAttribute("aria-valuetext", text);
    };
    slider.value = String(own);
    slider.addEventListener("input", show);
    show();
  }
});
