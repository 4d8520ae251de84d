# look.sh OPTION...: plans so, and prints what the search says of itself, the sums of what it knew and did, and those of what explains the plan.
set -euo pipefail
meshwright plan "$@" --threads 1 --dump known --log-steps -o plan.json > said.txt 2> steps.txt || { grep '^meshwright: error' steps.txt; exit 0; }
grep -e '^# step' -e '^# search:' said.txt
meshwright explain plan.json --json > explained.json 2> unexplained.txt || cat unexplained.txt
awk -f summary.awk known/stages.csv known/candidates.csv steps.txt explained.json plan.json
