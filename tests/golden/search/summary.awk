# What a search knew and did, in sums of the files that `plan --dump` writes and of what --log-steps and `explain` say:
# awk -f summary.awk DIR/stages.csv DIR/candidates.csv STEPS EXPLAINED PLAN
BEGIN {
  FS = ","
  split("ns us ms s min h B KiB MiB GiB TiB", units, " ")
  split("1e-9 1e-6 1e-3 1 60 3600 1 1024 1048576 1073741824 1099511627776", sizes, " ")
  for (i in units) size[units[i]] = sizes[i]
}
FILENAME != file { file = FILENAME; part = file ~ /stages/ ? 1 : file ~ /candidates/ ? 2 : file ~ /steps/ ? 3 : file ~ /explained/ ? 4 : 5 }
FNR == 1 && part < 3 { next }
part == 1 { stages++; forward += $10; backward += $11; update += $12; resident += $13; saved += $14; recomputed += $15; repeated += $16; working += $17 }
part == 2 {
  # Of rank, stages, degrees, layers, micro_batches, schedule, chunks, num_stages, estimated_s, simulated_s, needs_bytes, reason.
  rest = $0
  for (i = 1; i < 12; i++) {
    match(rest, /^("[^"]*"|[^,"]*),/)
    field[i] = substr(rest, 1, RLENGTH - 1)
    rest = substr(rest, RLENGTH + 1)
  }
  estimated += field[9]
  simulated += field[10]
  needs += field[11]
  gsub(/"/, "", rest)
  if (rest == "chosen") chosen = field[5] " micro-batches, " field[6] ", " (field[3] == "" ? field[2] : field[3])
  gsub(/[0-9][0-9.]* [mun]?s/, "T", rest)
  gsub(/stage [0-9]+ needs .*/, "a stage needs more", rest)
  ranked[rest]++
}
# "judge 1.379 ms, not better than 1.2 ms  0.012 s": the last is the clock's, as all that follows the steps.
part == 3 && /^#/ { ended = 1 }
part == 3 && !ended {
  sub(/  [0-9.]+ s$/, "")
  count = split($0, word, " ")
  text = word[1]
  if (text == "cut") cuts = cuts " " word[2] "x" word[6]
  numbers = 0
  delete number
  for (i = 2; i <= count; i++) {
    if (word[i] !~ /^[0-9]/) { text = text " " word[i]; continue }
    value = word[i] + 0
    unit = word[i + 1]
    comma = unit ~ /,$/ ? "," : ""
    sub(/,$/, "", unit)
    if (unit in size) { value *= size[unit]; i++ } else comma = word[i] ~ /,$/ ? "," : ""
    text = text " N" comma
    number[++numbers] = value
  }
  gsub(/1 stage /, "N stages ", text)
  gsub(/ stage on| stages on/, " stages on", text)
  gsub(/ device,/, " devices,", text)
  times[text]++
  most[text] = numbers
  for (i = 1; i <= numbers; i++) sum[text, i] += number[i]
}
part == 4 && /"priced_by"/ { decisions++ }
part == 4 && /"chosen"/ { alternatives++ }
part > 3 { value = $0; gsub(/[^:]*: |,/, "", value) }
part == 4 && /"layer_time_bound_s"/ { bounds += value }
part == 4 && /"layer_time_s"/ { alternative_times += value }
part == 4 && /"layer_bytes"/ { bytes += value }
part == 5 && /"lower_bound_s"/ { lower = value }
END {
  printf "stages %d: forward %.9g s, backward %.9g, update %.9g; bytes resident %.9g, saved %.9g, recomputed %.9g, at once %.9g, working %.9g\n",
    stages, forward, backward, update, resident, saved, recomputed, repeated, working
  printf "candidates: estimated %.9g s, simulated %.9g; bytes %.12g\n", estimated, simulated, needs
  for (reason in ranked) printf "candidates %d: %s\n", ranked[reason], reason | "LC_ALL=C sort"
  close("LC_ALL=C sort")
  print "chosen: " chosen
  if (decisions) printf "explained: %d decisions with %d alternatives, %.9g s, at least %.9g, bytes %.12g\n", decisions, alternatives, alternative_times, bounds, bytes
  printf "bound: %.9g s\n", lower
  if (cuts != "") print "layers x micro-batches:" cuts
  for (text in times) {
    line = "steps " times[text] ": " text
    for (i = 1; i <= most[text]; i++) line = line (i == 1 ? ": " : ", ") sprintf("%.9g", sum[text, i])
    print line | "LC_ALL=C sort"
  }
}
