"use strict";
// What every page has: its data, numbers as people read them, the theme, and the drawings of its sections.
const page = (() => {
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("meshwright-data").textContent);
  const drawings = [];  // functions that draw again after a change of width, theme or medium

  // Bytes of equal weight stand together: put them in the order of the numbers.
  function unshuffled(bytes, length, size) {
    const plain = new Uint8Array(bytes.length);
    for (let b = 0; b < size; ++b) for (let i = 0; i < length; ++i) plain[i * size + b] = bytes[b * length + i];
    return plain.buffer;
  }

  const columns = {};
  async function unpack() {
    const packed = byId("meshwright-columns").textContent;
    if (!packed) return;
    const bytes = Uint8Array.from(atob(packed), (c) => c.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    const all = await new Response(stream).arrayBuffer();
    for (const [name, column] of Object.entries(data.columns)) {
      const of = (size) => new Uint8Array(all, column.offset, column.length * size);
      if (column.type === "f64") columns[name] = new Float64Array(unshuffled(of(8), column.length, 8));
      if (column.type === "i32") columns[name] = new Int32Array(all, column.offset, column.length);
      if (column.type === "u8") columns[name] = of(1);
      if (column.type === "text") columns[name] = new TextDecoder().decode(of(1));
    }
    if (data.document === null) data.document = JSON.parse(columns.document);
  }

  const grouped = (number) => String(number).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
  const fixed = (value, digits) => {
    const text = Math.abs(value).toFixed(digits);
    const [whole, rest] = text.split(".");
    const shown = grouped(whole) + (rest ? "." + rest : "");
    return value < 0 && /[1-9]/.test(text) ? "\u2212" + shown : shown;
  };
  function time(ps) {
    if (ps === 0) return "0";
    if (Math.abs(ps) >= 1e12) return fixed(ps / 1e12, 3) + " s";
    if (Math.abs(ps) >= 1e9) return fixed(ps / 1e9, 3) + " ms";
    return fixed(ps / 1e6, 3) + " us";
  }
  const gib = (bytes) => fixed(bytes / 2 ** 30, 2) + " GiB";
  const ranges = (list) => list.map(([a, b]) => (a === b ? `${a}` : `${a}-${b}`)).join(", ");
  const devices = (list) => (list.length === 1 && list[0][0] === list[0][1] ? "device " : "devices ") + ranges(list);

  // Colours come from the style, so that both themes and every picture agree.
  const colour = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();
  // A canvas as wide as it is shown, in pixels of the device; its context counts in CSS pixels.
  function fit(canvas, height) {
    const scale = window.devicePixelRatio || 1, width = Math.max(1, canvas.clientWidth);
    canvas.style.height = height + "px";
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    const context = canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    return { context, width, height, scale };
  }
  // Round steps of an axis: at most `count` of them.
  function ticks(from, to, count) {
    const rough = (to - from) / Math.max(1, count), power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= rough) || rough;
    const found = [];
    for (let i = Math.ceil(from / step); i * step <= to; ++i) found.push(i * step);
    return { found, step };
  }

  function table(name, columns_, rows) {
    const made = document.createElement("table"), head = made.createTHead().insertRow();
    made.setAttribute("aria-label", name);
    for (const [title, kind] of columns_) {
      const cell = document.createElement("th");
      cell.scope = "col";
      cell.textContent = title;
      if (kind) cell.className = kind;
      head.append(cell);
    }
    const body = made.createTBody();
    for (const row of rows) {
      const line = body.insertRow();
      row.forEach((text, i) => {
        const cell = line.insertCell();
        cell.textContent = text;
        if (columns_[i][1]) cell.className = columns_[i][1];
      });
    }
    return made;
  }
  function legend(list, entries) {
    list.replaceChildren(...entries.map(([name, fill]) => {
      const item = document.createElement("li"), box = document.createElement("i");
      box.style.background = fill;
      item.append(box, name);
      return item;
    }));
  }

  function choose_theme() {
    const button = byId("theme"), names = ["Auto", "Light", "Dark"];
    let chosen = 0;
    button.hidden = false;
    button.setAttribute("aria-label", "Theme: " + names[chosen]);
    button.addEventListener("click", () => {
      chosen = (chosen + 1) % names.length;
      button.textContent = names[chosen];
      button.setAttribute("aria-label", "Theme: " + names[chosen]);
      if (chosen === 0) delete root.dataset.theme;
      else root.dataset.theme = names[chosen].toLowerCase();
      draw();
    });
  }
  let widths = 0;
  function draw() {
    widths = root.clientWidth;
    for (const drawing of drawings) drawing();
  }
  function follow() {
    window.addEventListener("resize", () => root.clientWidth !== widths && requestAnimationFrame(draw));
    window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
    window.matchMedia("print").addEventListener("change", draw);
    window.addEventListener("beforeprint", draw);
    window.addEventListener("afterprint", draw);
  }

  const parts = [];
  async function begin() {
    choose_theme();
    try {
      await unpack();
    } catch (error) {
      byId("old-browser").hidden = false;
      return;
    }
    for (const part of parts) part();
    follow();
    root.dataset.ready = "1";
  }
  queueMicrotask(begin);  // when the scripts behind this one have been read
  return { data, columns, parts, drawings, byId, grouped, fixed, time, gib, ranges, devices, colour, fit, ticks, table, legend };
})();
