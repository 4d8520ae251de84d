# look.sh OPTION...: plans so, and prints what the search says of itself and the sums of what it knew.
set -euo pipefail
meshwright plan "$@" --threads 1 --dump known -o plan.json | grep -e '^# step' -e '^# search:'
awk -f summary.awk known/stages.csv known/candidates.csv
