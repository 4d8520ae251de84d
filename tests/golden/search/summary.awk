# What a search knew, in sums of the files that --dump writes: awk -f summary.awk DIR/stages.csv DIR/candidates.csv
BEGIN { FS = "," }
FNR == 1 { part++; next }
part == 1 { stages++; forward += $10; backward += $11; update += $12; resident += $13; saved += $14; recomputed += $15; working += $17 }
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
  gsub(/[0-9][0-9.]* [mun]?s/, "T", rest)
  gsub(/"/, "", rest)
  ranked[rest]++
}
END {
  printf "stages %d: forward %.9g s, backward %.9g, update %.9g; bytes resident %.9g, saved %.9g, recomputed %.9g, working %.9g\n",
    stages, forward, backward, update, resident, saved, recomputed, working
  printf "candidates: estimated %.9g s, simulated %.9g\n", estimated, simulated
  for (reason in ranked) printf "candidates %d: %s\n", ranked[reason], reason | "LC_ALL=C sort"
}
