# plan.sh NAME OPTION...: plans NAME.json, and says its step.
set -euo pipefail
name=$1
shift
meshwright plan "$@" --threads 1 -o "$name.json" 2> said.txt | grep '^# step' || { cat said.txt; exit 1; }
