# threads.sh OPTION...: plans so with one thread and with four, and says whether both knew the same.
set -euo pipefail
for threads in 1 4; do meshwright plan "$@" --threads $threads --dump known$threads -o plan$threads.json 2> /dev/null | grep -v ' written to ' > said$threads.txt; done
diff -r known1 known4 > /dev/null && diff plan1.json plan4.json > /dev/null && diff said1.txt said4.txt > /dev/null && echo the same
