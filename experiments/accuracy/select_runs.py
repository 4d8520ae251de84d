#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The runs of one software out of all published ones, as a table on standard output: select_runs.py DATA SOFTWARE fitted|mixtures

Left out are values from memory, sources whose rows leave too much open, and of a source with very many rows all but a random part. With
`mixtures`, runs of mixtures of experts alone, else all others.
"""
import csv
import pathlib
import random
import re
import sys

# By a part of the framework's name, in lower case; the first that fits.
FRAMEWORKS = (("sailor", None), ("megatron-deepspeed", "megatron-deepspeed"), ("bridge", None), ("(mlperf", "nemo-mlperf"), ("nemo", "nemo"), ("megatron-core", "nemo"),
              ("+ te", "megatron-te"), ("megascale", None), ("megatron", "megatron"), ("torchtitan", "torchtitan"), ("composer", "fsdp"),
              ("internevo", "internevo"))
MAX_ROWS = {"nemo": 30, "megatron-deepspeed-plain": 400}  # of one source: programs of large clusters take memory; of the others:
MAX_ROWS_OTHERWISE = 120
NEEDED = ("tp", "layers", "hidden", "heads", "seq", "n_gpus", "iteration_s")
# No products of 8 bits by rows in these versions' kernels, and adapters: other work than the columns say.
OTHER_WORK = re.compile(r"rowwise|nvfp4|\b(lora|peft)\b")


NEW_EXPERTS = "26.06"  # the release of NeMo from which the profile nemo-2026 holds


def software_of(row, mixtures):
    name = row["framework"].lower()
    if mixtures and "bridge" in name:
        release = re.search(r"§(\d\d\.\d\d)", row["where"])
        return "nemo-2026" if release and release[1] >= NEW_EXPERTS else "nemo"
    software = next((software for part, software in FRAMEWORKS if part in name), None)
    if software == "megatron-deepspeed" and "fused softmax" not in row["attn_impl"]:
        return "megatron-deepspeed-plain"
    return "torchtitan-eager" if software == "torchtitan" and "no compile" in row["notes"] else software


def main():
    data, software, kind = sys.argv[1:]
    mixtures = kind == "mixtures"
    archs = ("moe",) if mixtures else ("gpt", "llama")
    sources, columns = {}, []
    for path in sorted(pathlib.Path(data).glob("*.csv")):
        with open(path, encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file)
            if "row_id" not in reader.fieldnames or "iteration_s" not in reader.fieldnames:
                continue
            columns = columns or reader.fieldnames
            for row in reader:
                text = " ".join(row.values()).lower()
                if software_of(row, mixtures) != software or row["provenance"] == "recalled" or row["status"] == "oom" or row["arch"] not in archs:
                    continue
                if all(row[column] for column in NEEDED) and not OTHER_WORK.search(text):
                    sources.setdefault(row["source_id"], []).append(row)
    writer = csv.DictWriter(sys.stdout, columns, lineterminator="\n")
    writer.writeheader()
    for name, rows in sorted(sources.items()):
        limit = MAX_ROWS_OTHERWISE if mixtures else MAX_ROWS.get(software, MAX_ROWS_OTHERWISE)
        writer.writerows(rows if len(rows) <= limit else random.Random(name).sample(rows, limit))


if __name__ == "__main__":
    main()
