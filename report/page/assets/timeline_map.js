// The whole step in small above the timeline, with a frame about what is seen.
page.timeline_map = (map, state, shares_of) => {
  const { data, colour, fit } = page;
  const whole = data.step_ps;
  let drawn = null;
  const kMapHeight = 30;
  function draw_all(colours) {
    const made = fit(map, kMapHeight), count = Math.round(made.width * made.scale), kinds = data.kinds.length;
    const sums = new Float64Array(count * kinds);
    let all = 0;
    for (const track of data.tracks) {
      const weight = track.devices.reduce((sum, [a, b]) => sum + b - a + 1, 0);
      const own = shares_of(track, 0, whole, count, new Float64Array(count * kinds));
      for (let i = 0; i < own.length; ++i) sums[i] += weight * own[i];
      all += weight;
    }
    const { context } = made;
    context.fillStyle = colours.idle;
    context.fillRect(0, 0, made.width, kMapHeight);
    for (let c = 0; c < count; ++c) {
      let filled = 0;
      for (let k = 0; k < kinds; ++k) {
        const share = sums[c * kinds + k] / all;
        if (share <= 0) continue;
        context.fillStyle = colours[k];
        context.fillRect(c / made.scale, kMapHeight * (1 - filled - share), 1 / made.scale, kMapHeight * share);
        filled += share;
      }
    }
    const still = document.createElement("canvas");
    still.width = map.width;
    still.height = map.height;
    still.getContext("2d").drawImage(map, 0, 0);
    drawn = { ...made, still };
  }
  function draw(colours) {
    if (!drawn) draw_all(colours);
    const { context, width, still } = drawn;
    context.clearRect(0, 0, width, kMapHeight);
    context.drawImage(still, 0, 0, width, kMapHeight);
    const a = state.from / whole * width, b = Math.max(a + 3, state.to / whole * width);
    context.globalAlpha = 0.6;
    context.fillStyle = colour("bg");
    context.fillRect(0, 0, a, kMapHeight);
    context.fillRect(b, 0, width - b, kMapHeight);
    context.globalAlpha = 1;
    context.strokeStyle = colours.mark;
    context.lineWidth = 2;
    context.strokeRect(a + 1, 1, b - a - 2, kMapHeight - 2);
  }
  return { draw, forget: () => (drawn = null) };
};
