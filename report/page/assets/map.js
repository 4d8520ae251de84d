// The devices of each stage: a column is a host, a square a device, shaded by its place along the first mesh axis.
page.parts.push(() => {
  const { data, colour, fit } = page;
  const kMostHosts = 64;  // more are drawn as groups of hosts
  function draw_stage(canvas) {
    const stage = data.stages[Number(canvas.dataset.stage)];
    const per_host = stage.host_size, count = stage.shape.reduce((a, b) => a * b, 1), hosts = Math.ceil(count / per_host);
    const together = Math.ceil(hosts / kMostHosts), shown = Math.ceil(hosts / together);
    const inner = count / (stage.shape[0] || 1);
    const square = Math.max(3, Math.min(14, Math.floor(canvas.clientWidth / shown)));
    const { context } = fit(canvas, square * per_host);
    const hue = stage.shape[0] > 1 ? colour("forward") : colour("backward"), paper = colour("bg");
    for (let h = 0; h < shown; ++h)
      for (let d = 0; d < per_host; ++d) {
        const place = h * together * per_host + d, along = Math.floor(place / inner);
        context.fillStyle = paper;
        context.fillRect(h * square, d * square, square, square);
        context.globalAlpha = stage.shape[0] > 1 ? 0.35 + 0.65 * (along % 2 ? 0.35 : 1) : 0.85;
        context.fillStyle = hue;
        context.fillRect(h * square, d * square, square - 1, square - 1);
        context.globalAlpha = 1;
      }
  }
  const canvases = [...document.querySelectorAll("canvas.mesh")];
  if (!data.stages) return;
  for (const canvas of canvases) canvas.hidden = false;
  const draw = () => canvases.forEach(draw_stage);
  draw();
  page.drawings.push(draw);
});
