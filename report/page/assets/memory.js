// Memory over time: what lies on a device of a row, stacked by what it is, with the limit.
page.parts.push(() => {
  const { data, columns, byId, time, gib, colour, fit } = page;
  const view = byId("memory-view");
  if (!view || !data.tracks) return;
  view.hidden = false;
  const at = columns["memory.time_ps"], activations = columns["memory.activations"], temporary = columns["memory.temporary"];
  const canvas = byId("memory-canvas"), info = byId("memory-info"), chooser = byId("memory-row");
  const kinds = [["weights", "forward"], ["gradients", "weight-gradient"], ["optimizer", "update"], ["other", "idle"],
                 ["activations", "backward"], ["temporary", "recompute"]];
  const kHeight = 260, kLeft = 62, kBottom = 22, kTop = 18, kNear = 0.2;
  let drawn = null, cursor = null;

  const known = data.tracks.map((_, t) => t).filter((t) => data.tracks[t].memory[0] < data.tracks[t].memory[1]);
  for (const t of known) chooser.add(new Option(`stage ${data.tracks[t].stage}, ${page.devices(data.tracks[t].devices)}`, t));
  const total = (track, i) => track.weights + track.gradients + track.optimizer + track.other + activations[i] + temporary[i];
  function peak(track) {
    let best = track.memory[0];
    for (let i = track.memory[0]; i < track.memory[1]; ++i) if (total(track, i) > total(track, best)) best = i;
    return best;
  }
  const share = (track) => total(track, peak(track)) / (track.usable || Infinity);
  const fullest = known.reduce((best, t) => (share(data.tracks[t]) > share(data.tracks[best]) ? t : best), known[0]);
  chooser.value = String(fullest);

  const amounts = (track, i) => kinds.map(([name]) => name === "activations" ? activations[i] : name === "temporary" ? temporary[i] : track[name]);
  function point_at(track, moment) {
    let [a, b] = track.memory;
    while (a + 1 < b) {
      const middle = (a + b) >> 1;
      if (at[middle] <= moment) a = middle;
      else b = middle;
    }
    return a;
  }
  function draw() {
    drawn = fit(canvas, kHeight);
    const track = data.tracks[Number(chooser.value)], { context, width } = drawn;
    // A limit far above all that is held would leave nothing to see: then it is named, not drawn.
    const held = total(track, peak(track)), near = track.usable > 0 && held > kNear * track.usable;
    const high = Math.max(near ? track.usable : 0, held) * 1.05 || 1, plot = Math.max(1, width - kLeft - 4);
    const x_of = (moment) => kLeft + moment / data.step_ps * plot, y_of = (bytes) => kTop + (1 - bytes / high) * (kHeight - kTop - kBottom);
    context.fillStyle = colour("bg");
    context.fillRect(0, 0, width, kHeight);
    // Each pixel column shows its highest moment.
    const columns_ = Math.ceil(plot), best = new Int32Array(columns_).fill(-1);
    for (let i = track.memory[0]; i < track.memory[1]; ++i) {
      const until = i + 1 < track.memory[1] ? at[i + 1] : data.step_ps;
      const first = Math.min(columns_ - 1, Math.floor(at[i] / data.step_ps * plot)), last = Math.min(columns_ - 1, Math.floor(until / data.step_ps * plot));
      for (let c = first; c <= last; ++c) if (best[c] < 0 || total(track, i) > total(track, best[c])) best[c] = i;
    }
    const fills = kinds.map(([, hue]) => colour(hue));
    for (let c = 0; c < columns_; ++c) {
      let sum = 0;
      amounts(track, best[c]).forEach((bytes, k) => {
        if (bytes <= 0) return;
        context.fillStyle = fills[k];
        context.fillRect(kLeft + c, y_of(sum + bytes), 1.2, y_of(sum) - y_of(sum + bytes));
        sum += bytes;
      });
    }
    context.fillStyle = colour("soft");
    context.font = "11px system-ui, sans-serif";
    context.textBaseline = "middle";
    context.textAlign = "right";
    const unit = high >= 2 ** 31 ? [2 ** 30, "GiB"] : high >= 2 ** 21 ? [2 ** 20, "MiB"] : [1024, "KiB"];
    for (const tick of page.ticks(0, high / unit[0], 5).found) {
      context.fillText(`${+tick.toPrecision(6)} ${unit[1]}`, kLeft - 6, y_of(tick * unit[0]));
      context.fillRect(kLeft - 3, y_of(tick * unit[0]), 3, 1);
    }
    context.textAlign = "left";
    const seconds = data.step_ps >= 2e12 ? [1e12, "s"] : data.step_ps >= 2e9 ? [1e9, "ms"] : [1e6, "us"];
    for (const tick of page.ticks(0, data.step_ps / seconds[0], Math.max(2, plot / 130)).found) {
      const x = x_of(tick * seconds[0]);
      context.fillRect(x, kHeight - kBottom, 1, 4);
      if (x < width - 40) context.fillText(`${+tick.toPrecision(6)} ${seconds[1]}`, x + 3, kHeight - kBottom / 2);
    }
    if (track.usable) {
      const y = near ? y_of(track.usable) : 0;
      context.fillStyle = colour("text");
      for (let x = kLeft; near && x < width - 4; x += 9) context.fillRect(x, y, 5, 1.5);
      context.textAlign = "right";
      context.fillText(near ? `usable ${gib(track.usable)}` : `usable ${gib(track.usable)}, far above`, width - 8, y + 10);
    }
    if (cursor !== null) {
      context.fillStyle = colour("text");
      context.fillRect(x_of(cursor), kTop, 1, kHeight - kTop - kBottom);
    }
    page.legend(byId("memory-legend"), kinds.map(([name], k) => [name, fills[k]]).filter((_, k) =>
      k >= 4 || track[kinds[k][0]] > 0));
  }
  function tell(moment) {
    const track = data.tracks[Number(chooser.value)], i = point_at(track, moment), parts = amounts(track, i);
    cursor = Math.max(0, Math.min(data.step_ps, moment));
    info.textContent = `at ${time(cursor)}: ${gib(total(track, i))}: ` +
      kinds.map(([name], k) => `${name} ${gib(parts[k])}`).filter((_, k) => parts[k] > 0).join(", ");
    draw();
  }
  canvas.addEventListener("pointermove", (event) => {
    const x = event.offsetX - kLeft, plot = Math.max(1, canvas.clientWidth - kLeft - 4);
    if (x >= 0) tell(x / plot * data.step_ps);
  });
  canvas.addEventListener("keydown", (event) => {
    const track = data.tracks[Number(chooser.value)], i = cursor === null ? track.memory[0] : point_at(track, cursor);
    const next = event.key === "ArrowRight" ? i + 1 : event.key === "ArrowLeft" ? i - 1 : event.key === "Home" ? peak(track) : -1;
    if (!["ArrowRight", "ArrowLeft", "Home"].includes(event.key)) return;
    event.preventDefault();
    tell(at[Math.max(track.memory[0], Math.min(track.memory[1] - 1, next))]);
  });
  chooser.addEventListener("change", () => (cursor === null ? draw() : tell(cursor)));
  document.addEventListener("meshwright-moment", (event) => tell(event.detail));
  draw();
  page.drawings.push(draw);
});
