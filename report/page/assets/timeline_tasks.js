// The tasks of the timeline's rows: where they are found, what they are called, and what share of a time each kind takes.
page.timeline_tasks = () => {
  const { data, columns, time, devices: devices_text } = page;
  const begin = columns["task.begin_ps"], end = columns["task.end_ps"], kind = columns["task.kind"];
  const batch = columns["task.micro_batch"], stage = columns["task.stage"];
  const waits = columns["task.waits_for"], critical = columns["task.critical"], shares = columns["row.shares"];
  const kParts = 1024, kShareKinds = 5;  // of rows that have shares in the place of tasks
  const whole = data.step_ps;

  // Tracks whose rows stay together: one, or both timings of the same devices.
  const groups = [];
  for (const track of data.tracks) {
    const before = groups[groups.length - 1];
    const twin = track.timing === 1 && before && before[0].timing === 0 && String(before[0].devices) === String(track.devices);
    if (twin) before.push(track);
    else groups.push([track]);
  }
  const twins = new Map(groups.filter((group) => group.length > 1).flatMap(([a, b]) => [[a, b], [b, a]]));

  // The first of the lane [a, b) that ends after `at`: lanes are in the order of their begins, and computations of
  // their ends, too.
  function first_after([a, b], at) {
    while (a < b) {
      const middle = (a + b) >> 1;
      if (end[middle] > at) b = middle;
      else a = middle + 1;
    }
    return a;
  }
  function first_begin([a, b], at) {
    while (a < b) {
      const middle = (a + b) >> 1;
      if (begin[middle] >= at) b = middle;
      else a = middle + 1;
    }
    return a;
  }
  // Messages and collectives of several streams may overlap: how long the longest of a lane is.
  const longest = new Map();
  function longest_of(lane) {
    const key = lane.join();
    if (!longest.has(key)) {
      let most = 0;
      for (let i = lane[0]; i < lane[1]; ++i) most = Math.max(most, end[i] - begin[i]);
      longest.set(key, most);
    }
    return longest.get(key);
  }
  const name_of = (task) => {
    const own = data.kinds[kind[task]].name;
    return own === "update" ? `update of stage ${stage[task]}` : `${own} ${batch[task]} of stage ${stage[task]}`;
  };
  const timing_of = (track) => (track.timing === undefined ? "" : data.timings[track.timing]);
  const whose = (row) => devices_text(row.devices) + (timing_of(row.track) ? ", " + timing_of(row.track) : "");
  // The same work in the other timing: the n-th of its kind, micro-batch and stage on these devices.
  function twin_of(task, track) {
    const other = twins.get(track);
    if (!other || task < 0) return -1;
    const same = (i) => kind[i] === kind[task] && batch[i] === batch[task] && stage[i] === stage[task];
    let left = 0;
    for (let i = track.compute[0]; i < task; ++i) if (same(i)) ++left;
    for (let i = other.compute[0]; i < other.messages[1]; ++i) if (same(i) && left-- === 0) return i;
    return -1;
  }
  function twin_text(task, track) {
    const other = twin_of(task, track);
    if (other < 0) return "";
    const own = end[task] - begin[task], its = end[other] - begin[other], name = data.timings[1 - track.timing];
    const [first, second] = track.timing === 0 ? [own, its] : [its, own];
    const by = second > 0 ? `; ${data.timings[0]} over ${data.timings[1]}: ${first >= second ? "+" : ""}${page.fixed(100 * (first / second - 1), 1)} %` : "";
    return `; ${name}: begins at ${time(begin[other])}, takes ${time(its)}${by}`;
  }
  const task_text = (task, row) => `${name_of(task)}${row ? ", " + whose(row) : ""}: begins at ` +
    `${time(begin[task])}, takes ${time(end[task] - begin[task])}${waits[task] < 0 ? "" : `, after ${name_of(waits[task])}`}` +
    `${critical[task] ? "; on the critical path" : ""}${row ? twin_text(task, row.track) : ""}`;
  function part_text(row, at) {
    const part = Math.min(kParts - 1, Math.floor(at / whole * kParts)), first = row.track.shares[0] + part * kShareKinds;
    const parts = data.kinds.slice(0, kShareKinds).map((k, i) => [k.name, shares[first + i]]).filter(([, share]) => share > 0);
    return `${whose(row)} from ${time(part / kParts * whole)} to ${time((part + 1) / kParts * whole)}: ` +
      (parts.map(([name, share]) => `${name} ${page.fixed(share / 2.55, 0)} %`).join(", ") || "idle");
  }
  function idle_text(row, at) {
    if (row.track.shares) return part_text(row, at);
    const lane = row.track.compute, next = first_begin(lane, at);
    const where = `stage ${row.track.stage}, ${whose(row)}`;
    if (next >= lane[1]) return `idle: ${where} has nothing left to do after ${time(lane[1] > lane[0] ? end[lane[1] - 1] : 0)}`;
    const cause = waits[next];
    const until = `until ${time(begin[next])}, when ${name_of(next)} begins`;
    return cause < 0 ? `idle: ${where} waits ${until}` : `idle: ${where} waits for ${name_of(cause)}, ${until}`;
  }

  // [column x kind] the share of a column's time that each kind takes, exactly.
  function shares_of(track, from, to, count, sums) {
    const lane = track.compute, kinds = data.kinds.length, per = (to - from) / count;
    if (track.shares) {
      for (let c = 0; c < count; ++c) {
        const part = Math.min(kParts - 1, Math.floor((from + (c + 0.5) * per) / whole * kParts));
        for (let k = 0; k < kShareKinds; ++k) sums[c * kinds + k] += shares[track.shares[0] + part * kShareKinds + k] / 255;
      }
      return sums;
    }
    for (let i = first_after(lane, from); i < lane[1] && begin[i] < to; ++i) {
      const b = Math.max(begin[i], from), e = Math.min(end[i], to);
      const first = Math.min(count - 1, Math.floor((b - from) / per)), last = Math.min(count - 1, Math.floor((e - from) / per));
      for (let c = first; c <= last; ++c) {
        const part = Math.min(e, from + (c + 1) * per) - Math.max(b, from + c * per);
        if (part > 0) sums[c * kinds + kind[i]] += part / per;
      }
    }
    return sums;
  }
  // When the last task of a timing ends.
  const ends = new Map();
  function end_of(timing) {
    if (!ends.has(timing)) {
      let latest = 0;
      for (const track of data.tracks)
        if (track.timing === timing) for (let i = track.compute[0]; i < track.messages[1]; ++i) latest = Math.max(latest, end[i]);
      ends.set(timing, latest);
    }
    return ends.get(timing);
  }
  function has_stage(track, number) {
    for (let i = track.compute[0]; i < track.compute[1]; ++i) if (stage[i] === number) return true;
    return false;
  }
  return { groups, twins, first_after, first_begin, longest_of, name_of, task_text, idle_text, whose, twin_of, timing_of, shares_of, end_of,
    has_stage };
};
