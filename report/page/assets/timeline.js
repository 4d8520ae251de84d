// The timeline: rows of devices (tasks: timeline_tasks.js), blocks where they are wide enough, and shares of each column's time where they are not.
page.parts.push(() => {
  const { data, columns, byId, time, devices: devices_text, colour, fit } = page;
  const view = byId("timeline-view");
  if (!view || !data.tracks) return;
  view.hidden = false;
  const begin = columns["task.begin_ps"], end = columns["task.end_ps"], kind = columns["task.kind"];
  const batch = columns["task.micro_batch"], stage = columns["task.stage"];
  const waits = columns["task.waits_for"], critical = columns["task.critical"];
  const { groups, twins, first_after, first_begin, longest_of, name_of, task_text, idle_text, whose, twin_of, timing_of, shares_of, end_of,
    has_stage } = page.timeline_tasks();
  const canvas = byId("timeline-canvas"), map = byId("timeline-map"), info = byId("timeline-info");
  const kAxis = 20, kGap = 4, kTallest = 420, kExact = 3, kLetter = 22;
  const whole = data.step_ps;
  const state = { from: 0, to: whole, top: 0, row: 0, task: -1, twin: -1, every: false, filter: null };
  let rows = [], drawn = null, colours = [], message = "", asked = false;
  const minimap = page.timeline_map(map, state, shares_of);

  // ---- rows
  const holds = (list, device) => list.some(([a, b]) => a <= device && device <= b);
  function find_rows() {
    rows = [];
    for (const group of groups) {
      const { devices } = group[0];
      const shown = state.filter ? devices.flatMap(([a, b]) => state.filter.map(([c, d]) => [Math.max(a, c), Math.min(b, d)]))
                                     .filter(([a, b]) => a <= b) : devices;
      if (!shown.length) continue;
      const add = (own) => group.forEach((track) => rows.push({ track, devices: own }));
      if (!state.every) add(shown);
      else for (const [a, b] of shown) for (let d = a; d <= b; ++d) add([[d, d]]);
    }
    state.row = Math.min(state.row, Math.max(0, rows.length - 1));
  }
  const row_height = () => (rows.length <= 4 ? 40 : rows.length <= 10 ? 30 : 22);
  const canvas_height = () => Math.min(kTallest, kAxis + 4 + Math.max(1, rows.length) * (row_height() + kGap));
  const max_top = () => Math.max(0, rows.length * (row_height() + kGap) - (canvas_height() - kAxis - 4));

  // ---- drawing
  const label_width = (width) => (width < 560 ? 62 : 150);
  function plot_of(width) {
    const left = label_width(width);
    return { left, width: Math.max(10, width - left - 2) };
  }
  const x_of = (at, plot) => plot.left + (at - state.from) / (state.to - state.from) * plot.width;
  const at_of = (x, plot) => state.from + (x - plot.left) / plot.width * (state.to - state.from);

  const packed = (text) => {
    const n = parseInt(text.slice(1), 16);
    return (255 << 24) | ((n & 255) << 16) | (n & 0xff00) | (n >> 16);
  };
  function read_colours() {
    colours = data.kinds.map((k) => colour(k.hue));
    colours.ink = colour("bg");
    colours.idle = colour("idle");
    colours.text = colour("text");
    colours.soft = colour("soft");
    colours.line = colour("line");
    colours.mark = colour("text");
    colours.packed = colours.map(packed);
    colours.packed_idle = packed(colours.idle);
  }

  let image = null, room = new Float64Array(0);
  function draw_shares(context, row, y, height, plot, scale) {
    const count = Math.round(plot.width * scale), tall = Math.round(height * scale), kinds = data.kinds.length;
    if (room.length !== count * kinds) room = new Float64Array(count * kinds);
    const sums = shares_of(row.track, state.from, state.to, count, room.fill(0));
    if (!image || image.width !== count || image.height !== tall) image = context.createImageData(count, tall);
    const pixels = new Uint32Array(image.data.buffer);
    pixels.fill(colours.packed_idle);
    for (let c = 0; c < count; ++c) {
      let filled = 0;
      for (let k = 0; k < kinds; ++k) {
        const share = sums[c * kinds + k];
        if (share <= 0) continue;
        const low = Math.round(filled * tall), high = Math.round(Math.min(1, filled + share) * tall);
        filled += share;
        for (let p = low; p < high; ++p) pixels[(tall - 1 - p) * count + c] = colours.packed[k];
      }
    }
    context.putImageData(image, Math.round(plot.left * scale), Math.round(y * scale));
  }
  function draw_blocks(context, row, y, height, plot) {
    const lane = row.track.compute;
    context.fillStyle = colours.idle;
    context.fillRect(plot.left, y, plot.width, height);
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "middle";
    for (let i = first_after(lane, state.from); i < lane[1] && begin[i] < state.to; ++i) {
      const a = Math.max(plot.left, x_of(begin[i], plot)), b = Math.min(plot.left + plot.width, x_of(end[i], plot));
      context.fillStyle = colours[kind[i]];
      context.fillRect(a, y, Math.max(1, b - a - 1), height);
      if (critical[i]) {
        context.fillStyle = colours.mark;
        context.fillRect(a, y, Math.max(1, b - a - 1), 2);
      }
      if (b - a >= kLetter) {
        context.fillStyle = colours.ink;
        const own = data.kinds[kind[i]];
        context.fillText(own.letter + (own.name === "update" ? "" : batch[i]), (a + b) / 2, y + height / 2 + 1);
      }
    }
  }
  // What moves is a thin bar at the foot, where it goes on; collectives are dotted.
  function draw_moves(context, row, y, height, plot) {
    for (const [lane, dotted, at] of [[row.track.messages, false, height - 4], [row.track.communication, true, height - 8]]) {
      let last = -1;
      const from = state.from - longest_of(lane);
      for (let i = first_begin(lane, from); i < lane[1] && begin[i] < state.to; ++i) {
        if (end[i] <= state.from) continue;
        let a = Math.max(plot.left, x_of(begin[i], plot));
        const b = Math.max(a + 1, Math.min(plot.left + plot.width, x_of(end[i], plot)));
        if (b <= last) continue;
        a = Math.max(a, last);
        context.fillStyle = colours[kind[i]];
        if (!dotted || b - a < 4) context.fillRect(a, y + at, b - a, 4);
        else for (let x = a; x < b; x += 4) context.fillRect(x, y + at, Math.min(3, b - x), 4);
        last = b;
      }
    }
  }
  function tasks_in_view(lane) {
    return first_begin(lane, state.to) - first_after(lane, state.from);
  }
  function draw_labels(context, row, y, height, plot, chosen) {
    context.fillStyle = colours.text;
    context.font = (chosen ? "600 " : "") + "12px system-ui, sans-serif";
    context.textAlign = "left";
    context.textBaseline = "middle";
    const short = plot.left < 100, names = devices_text(row.devices).replace("devices", "dev.").replace("device", "dev.");
    const where = short ? (state.every ? names : `stage ${row.track.stage}`) : `stage ${row.track.stage}  ${names}`;
    const text = (words, at) => context.fillText(words, 6, at, plot.left - 10), timing = timing_of(row.track);
    if (!timing) return text(where, y + height / 2);
    // Of a pair each row says which timing it is; who is timed stands in the first.
    const first = row.track.timing === 0 || !twins.has(row.track);
    if (height < 30) return text(first ? `${where} ${timing}` : `${timing}`, y + height / 2);
    if (first) text(where, y + height / 2 - 8);
    context.fillStyle = colours.soft;
    text(timing, y + height / 2 + (first ? 8 : 0));
  }
  function draw_axis(context, width, plot) {
    context.fillStyle = colour("bg");
    context.fillRect(0, 0, width, kAxis);
    context.fillStyle = colours.soft;
    context.strokeStyle = colours.line;
    context.font = "11px system-ui, sans-serif";
    context.textAlign = "left";
    context.textBaseline = "middle";
    const unit = state.to - state.from >= 2e12 ? [1e12, "s"] : state.to - state.from >= 2e9 ? [1e9, "ms"] : [1e6, "us"];
    const { found, step } = page.ticks(state.from / unit[0], state.to / unit[0], Math.max(2, plot.width / 130));
    const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    for (const tick of found) {
      const x = x_of(tick * unit[0], plot);
      if (x > plot.left + plot.width - 40) continue;
      context.fillRect(x, kAxis - 5, 1, 5);
      context.fillText(`${tick.toFixed(digits)} ${unit[1]}`, x + 3, kAxis / 2);
    }
  }
  // The chosen task, and thinner what it waited for.
  function draw_mark(context, row, y, height, plot) {
    if (state.task < 0) return;
    for (const [task, line] of [[waits[state.task], 1], [state.twin, 1], [state.task, 2]]) {
      if (task < row.track.compute[0] || task >= row.track.messages[1] || end[task] < state.from || begin[task] > state.to) continue;
      const a = Math.max(plot.left, x_of(begin[task], plot)), b = Math.min(plot.left + plot.width, x_of(end[task], plot));
      const message = task >= row.track.messages[0];
      context.strokeStyle = colours.mark;
      context.lineWidth = line;
      context.strokeRect(a, message ? y + height - 5 : y - 1, Math.max(2, b - a), message ? 6 : height + 2);
    }
  }
  // The shorter of two timings ends before the axis does: what is behind its end is no idle time.
  function draw_end(context, row, y, height, plot) {
    if (row.track.timing === undefined || row.track.shares) return;
    const x = Math.max(plot.left, x_of(end_of(row.track.timing), plot)), right = plot.left + plot.width;
    if (x >= right) return;
    context.fillStyle = colours.ink;
    context.fillRect(x, y, right - x, height);
    context.fillStyle = colours.mark;
    context.fillRect(x, y - 1, 1, height + 2);
  }
  // Shares stand on what moves, which would hide the small ones.
  const foot_of = (track) => (track.communication[0] < track.communication[1] ? 9 : track.messages[0] < track.messages[1] ? 5 : 0);
  function draw_row(context, row, y, tall, plot, scale) {
    if (row.track.shares || tasks_in_view(row.track.compute) * kExact > plot.width) {
      const foot = foot_of(row.track);
      context.fillStyle = colours.idle;
      context.fillRect(plot.left, y + tall - foot, plot.width, foot);
      draw_shares(context, row, y, tall - foot, plot, scale);
    } else {
      draw_blocks(context, row, y, tall, plot);
    }
    draw_moves(context, row, y, tall, plot);
    draw_end(context, row, y, tall, plot);
  }
  // Devices that do the same look alike: each such row is drawn once a frame.
  const strips = new Map();
  function strip_of(row, width, tall, plot, scale) {
    let strip = strips.get(row.track);
    if (!strip) strips.set(row.track, strip = { canvas: document.createElement("canvas"), fresh: false });
    if (strip.fresh) return strip.canvas;
    strip.canvas.width = Math.round(width * scale);
    strip.canvas.height = Math.round(tall * scale);
    const context = strip.canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    draw_row(context, row, 0, tall, plot, scale);
    strip.fresh = true;
    return strip.canvas;
  }
  function draw_rows() {
    asked = false;
    const begun = performance.now();
    if (!drawn) drawn = fit(canvas, canvas_height());
    const { context, width, height, scale } = drawn, plot = plot_of(width), tall = row_height();
    context.fillStyle = colour("bg");
    context.fillRect(0, 0, width, height);
    const first = Math.floor(state.top / (tall + kGap));
    for (const strip of strips.values()) strip.fresh = false;
    for (let r = first; r < rows.length; ++r) {
      const y = kAxis + 2 + r * (tall + kGap) - state.top;
      if (y > height) break;
      const row = rows[r];
      if (state.every) context.drawImage(strip_of(row, width, tall, plot, scale), 0, y, width, tall);
      else draw_row(context, row, y, tall, plot, scale);
      draw_mark(context, row, y, tall, plot);
      draw_labels(context, row, y, tall, plot, r === state.row);
    }
    draw_axis(context, width, plot);
    byId("timeline-range").textContent = `${time(state.from)} \u2013 ${time(state.to)}`;
    minimap.draw(colours);
    fill_twin();
    page.timeline.frames.push(performance.now() - begun);
    if (page.timeline.frames.length > 1000) page.timeline.frames.shift();
  }
  function ask() {
    if (!asked) requestAnimationFrame(draw_rows);
    asked = true;
  }
  function resize() {
    drawn = null;
    minimap.forget();
    read_colours();
    page.legend(byId("timeline-legend"), [...used_kinds().map((k) => [data.kinds[k].name, colours[k]]), ["idle", colours.idle]]);
    state.top = Math.min(state.top, max_top());
    draw_rows();
  }
  function used_kinds() {
    const seen = new Set(kind);
    return data.kinds.map((_, k) => k).filter((k) => seen.has(k));
  }

  // ---- the view
  let noted = 0;
  function show(from, to) {
    const least = Math.min(whole, 1000), span = Math.min(whole, Math.max(least, to - from));
    state.from = Math.max(0, Math.min(from, whole - span));
    state.to = state.from + span;
    clearTimeout(noted);
    noted = setTimeout(note, 300);
    ask();
  }
  function note() {
    const hash = `#t=${(state.from / 1e12).toPrecision(6)}-${(state.to / 1e12).toPrecision(6)}&row=${state.row}`;
    if (state.from > 0 || state.to < whole) history.replaceState(null, "", hash);
    else if (location.hash.startsWith("#t=")) history.replaceState(null, "", "#timeline");
  }
  function from_address() {
    const found = /^#t=([\d.e+-]+?)-([\d.e+-]+?)(?:&row=(\d+))?$/.exec(location.hash);
    if (!found || !(Number(found[2]) > Number(found[1]))) return;
    state.row = Math.min(rows.length - 1, Number(found[3] || 0));
    show(Number(found[1]) * 1e12, Number(found[2]) * 1e12);
  }
  function zoom(factor, around) {
    const at = around === undefined ? (state.from + state.to) / 2 : around;
    show(at - (at - state.from) * factor, at + (state.to - at) * factor);
  }
  const pan = (share) => show(state.from + share * (state.to - state.from), state.to + share * (state.to - state.from));
  function say(text) {
    if (text !== message) info.textContent = message = text;
  }
  function choose(task, row) {
    state.task = task;
    if (row >= 0) {
      state.row = row;
      const tall = row_height() + kGap, seen = canvas_height() - kAxis - 4;
      state.top = Math.max(Math.min(state.top, row * tall), Math.min(max_top(), (row + 1) * tall - seen));
    }
    state.twin = task >= 0 ? twin_of(task, rows[state.row].track) : -1;
    if (task >= 0) {
      say(task_text(task, rows[state.row]));
      if (begin[task] < state.from || end[task] > state.to) {
        const span = Math.max(state.to - state.from, 4 * (end[task] - begin[task])), middle = (begin[task] + end[task]) / 2;
        show(middle - span / 2, middle + span / 2);
      }
      document.dispatchEvent(new CustomEvent("meshwright-moment", { detail: begin[task] }));
    }
    ask();
  }
  function step_task(by) {
    const row = rows[state.row];
    if (!row) return;
    const lane = row.track.compute;
    if (lane[0] === lane[1]) return say(`stage ${row.track.stage} computes nothing`);
    const inside = state.task >= lane[0] && state.task < lane[1];
    const next = inside ? state.task + by : first_after(lane, state.from);
    choose(Math.max(lane[0], Math.min(lane[1] - 1, next)), state.row);
  }

  // ---- what is under the pointer
  function under(event) {
    const box = canvas.getBoundingClientRect(), plot = plot_of(box.width), tall = row_height();
    const x = event.clientX - box.left - canvas.clientLeft, y = event.clientY - box.top - canvas.clientTop;
    const r = Math.floor((y - kAxis - 2 + state.top) / (tall + kGap)), row = rows[r];
    if (!row || y < kAxis || x < plot.left) return { plot, row: -1, task: -1, at: at_of(x, plot) };
    const at = at_of(x, plot), inner = y - (kAxis + 2 + r * (tall + kGap) - state.top);
    if (inner >= tall - 4) {
      const lane = row.track.messages;
      for (let i = first_begin(lane, at - longest_of(lane)); i < lane[1] && begin[i] <= at; ++i)
        if (end[i] > at) return { plot, row: r, task: i, at };
    }
    const lane = row.track.compute, i = first_after(lane, at);
    return { plot, row: r, task: i < lane[1] && begin[i] <= at ? i : -1, at };
  }
  function hover(event) {
    const found = under(event);
    if (found.row < 0) return;
    say(found.task >= 0 ? task_text(found.task, rows[found.row]) : idle_text(rows[found.row], found.at));
  }
  const touches = new Map();
  let dragged = null;
  canvas.addEventListener("pointerdown", (event) => {
    touches.set(event.pointerId, event.clientX);
    dragged = { x: event.clientX, y: event.clientY, from: state.from, to: state.to, top: state.top, moved: false, spread: spread() };
    canvas.setPointerCapture(event.pointerId);
  });
  function spread() {
    const xs = [...touches.values()];
    return xs.length === 2 ? Math.max(10, Math.abs(xs[0] - xs[1])) : 0;
  }
  canvas.addEventListener("pointermove", (event) => {
    if (!touches.has(event.pointerId)) return hover(event);
    touches.set(event.pointerId, event.clientX);
    const plot = plot_of(canvas.clientWidth), span = dragged.to - dragged.from;
    if (dragged.spread && spread()) {
      const middle = (dragged.from + dragged.to) / 2, half = span / 2 * dragged.spread / spread();
      dragged.moved = true;
      return show(middle - half, middle + half);
    }
    const by = (dragged.x - event.clientX) / plot.width * span;
    if (Math.abs(event.clientX - dragged.x) + Math.abs(event.clientY - dragged.y) > 3) dragged.moved = true;
    if (!dragged.moved) return;
    if (event.pointerType === "mouse") state.top = Math.max(0, Math.min(max_top(), dragged.top + dragged.y - event.clientY));
    show(dragged.from + by, dragged.to + by);
  });
  function release(event) {
    if (dragged && !dragged.moved && event.type === "pointerup") {
      const found = under(event);
      if (found.row >= 0) {
        choose(found.task, found.row);
        if (found.task < 0) say(idle_text(rows[found.row], found.at));
      }
    }
    touches.delete(event.pointerId);
    if (!touches.size) dragged = null;
  }
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("wheel", (event) => {
    const plot = plot_of(canvas.clientWidth), x = event.clientX - canvas.getBoundingClientRect().left;
    if (event.ctrlKey || event.shiftKey) zoom(1.002 ** (event.deltaY || event.deltaX), at_of(x, plot));
    else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(event.deltaX / plot.width);
    else if (max_top() > 0 && !(state.top <= 0 && event.deltaY < 0) && !(state.top >= max_top() && event.deltaY > 0)) {
      state.top = Math.max(0, Math.min(max_top(), state.top + event.deltaY));
      ask();
    } else return;  // the page scrolls
    event.preventDefault();
  }, { passive: false });
  const keys = {
    ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2),
    0: () => show(0, whole), Home: () => show(0, whole), n: () => step_task(1), p: () => step_task(-1),
    ArrowUp: () => choose(-1, Math.max(0, state.row - 1)), ArrowDown: () => choose(-1, Math.min(rows.length - 1, state.row + 1)),
    "/": () => byId("timeline-find").focus(),
  };
  canvas.addEventListener("keydown", (event) => {
    const act = keys[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
    if (event.key.startsWith("ArrowUp") || event.key.startsWith("ArrowDown"))
      say(`row of stage ${rows[state.row].track.stage}, ${whose(rows[state.row])}`);
  });
  let grabbed = null;
  map.addEventListener("pointerdown", (event) => {
    const at = event.offsetX / map.clientWidth * whole, span = state.to - state.from;
    grabbed = at >= state.from && at <= state.to ? at - state.from : span / 2;
    map.setPointerCapture(event.pointerId);
    show(at - grabbed, at - grabbed + span);
  });
  map.addEventListener("pointermove", (event) => {
    if (grabbed === null) return;
    const at = event.offsetX / map.clientWidth * whole;
    show(at - grabbed, at - grabbed + state.to - state.from);
  });
  for (const type of ["pointerup", "pointercancel"]) map.addEventListener(type, () => (grabbed = null));

  // ---- tools
  const acts = { in: () => zoom(0.5), out: () => zoom(2), whole: () => show(0, whole), begin: () => show(0, begin_of_steady()) };
  // Until the device that begins last has done two of its computations.
  function begin_of_steady() {
    let latest = 0;
    for (const { compute: [a, b] } of data.tracks) if (b > a) latest = Math.max(latest, end[Math.min(a + 1, b - 1)]);
    return Math.min(whole, 2 * latest);
  }
  for (const button of view.querySelectorAll("[data-do]")) button.addEventListener("click", acts[button.dataset.do]);
  function filter_rows() {
    const text = byId("timeline-devices").value.trim(), found = [];
    let wrong = false;
    for (const part of text === "" || text === "all" ? [] : text.split(/[\s,]+/).filter(Boolean)) {
      const range = /^(\d+)(?:[-\u2013](\d+))?$/.exec(part);
      if (range) found.push([Number(range[1]), Number(range[2] || range[1])]);
      else wrong = true;
    }
    state.filter = found.length ? found : null;
    state.every = byId("timeline-every").checked;
    find_rows();
    state.top = 0;
    resize();
    say(wrong ? `'${text}' is not a list of devices; write 0-7, 12.` : rows.length ? `${rows.length} row${rows.length === 1 ? "" : "s"} shown` : "no such device");
  }
  byId("timeline-every").addEventListener("change", filter_rows);
  byId("timeline-devices").addEventListener("input", filter_rows);
  // "backward 17", "device 300", "stage 2"; several words together narrow it down.
  function find(text) {
    const words = text.toLowerCase().split(/[\s,]+/).filter(Boolean);
    let wanted = null, number = null, on_stage = null, on_device = null;
    for (let i = 0; i < words.length; ++i) {
      const value = /^\d+$/.test(words[i + 1] || "") ? Number(words[i + 1]) : null;
      if (words[i] === "stage" && value !== null) on_stage = value, ++i;
      else if (words[i] === "device" && value !== null) on_device = value, ++i;
      else if (/^\d+$/.test(words[i])) number = Number(words[i]);
      else wanted = words[i];
    }
    const shown = (r) => (on_stage === null || rows[r].track.stage === on_stage || has_stage(rows[r].track, on_stage)) && (on_device === null || holds(rows[r].devices, on_device));
    for (let r = 0; r < rows.length; ++r) {
      if (!shown(r)) continue;
      if (wanted === null && number === null) return choose(-1, r), say(`row of stage ${rows[r].track.stage}, ${whose(rows[r])}`);
      const [a] = rows[r].track.compute, b = rows[r].track.messages[1];
      for (let i = a; i < b; ++i)
        if ((wanted === null || data.kinds[kind[i]].name.startsWith(wanted) || data.kinds[kind[i]].letter.toLowerCase() === wanted) &&
            (number === null || batch[i] === number) && (on_stage === null || stage[i] === on_stage)) return choose(i, r);
    }
    say(`nothing is called '${text.trim()}'`);
  }
  byId("timeline-find").addEventListener("change", (event) => event.target.value.trim() && find(event.target.value));

  // ---- the same as a table
  const kListed = 200;
  const twin = view.querySelector("[data-twin]");
  function fill_twin() {
    if (!twin.open) return;
    const listed = [];
    for (const row of rows) {
      const lane = row.track.compute;
      for (let i = first_after(lane, state.from); i < lane[1] && begin[i] < state.to && listed.length < kListed; ++i)
        listed.push([whose(row), name_of(i), time(begin[i]), time(end[i] - begin[i]), critical[i] ? "yes" : ""]);
    }
    const made = page.table("The tasks in view", [["devices"], ["task"], ["begins at", "n"], ["takes", "n"], ["critical"]], listed);
    const box = document.createElement("div");
    box.className = "wide";
    box.append(made);
    twin.lastElementChild.replaceWith(box);
  }
  twin.addEventListener("toggle", fill_twin);

  page.timeline = { state, frames: [], show, task_at: under };
  find_rows();
  resize();
  from_address();
  page.drawings.push(resize);
});
