# sums.sh VERB PLAN OPTION...: what the verb says in JSON, each number added to those of the same name, but for what was given.
set -euo pipefail
meshwright "$@" --json 2> said.txt > answer.json || { grep '^meshwright: error' said.txt; exit 0; }
awk '
/"[a-z0-9_]+":/ { match($0, /"[a-z0-9_]+":/); name = substr($0, RSTART + 1, RLENGTH - 3) }
name ~ /^(alike|axis|axis_devices|batch|device|devices|layer|learning_rate|micro_batches|num_.*|seq|stage|used_devices|wall_.*)$/ { next }
match($0, /-?[0-9][-+0-9.e]*,?$/) { sum[name] += substr($0, RSTART) }
END { for (name in sum) if (sum[name] != 0) printf "%s %.9g\n", name, sum[name] }' answer.json | LC_ALL=C sort | paste -sd, | sed 's/,/, /g'
