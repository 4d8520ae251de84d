#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The accuracy of predictions on published runs: report.py MESHWRIGHT DATA FOLDER

Predicts every row of every table of published runs in DATA and writes into FOLDER: accuracy.md (per source: rows, errors of step time and
memory, coverage of the intervals, ranking) and predicted-published.svg (each run a point, both axes logarithmic). With --terms also terms.md: the error when one term of the model is
switched off and nothing is fitted anew.
"""
import collections
import csv
import json
import pathlib
import subprocess
import sys
import tempfile

# What a term becomes when it is switched off, as members of a software profile.
TERMS = {
    "host dispatch": {"dispatch_us": 0, "dispatch_collective_us": 0, "dispatch_run_us": 0},
    "sustained clocks": {"sustained": 0.9},
    "passes over memory": {"pass_factor": 0.2},
    "activation collectives": {"collective_factor": 0.0},
    "blocking messages": {"blocking": 0.0},
    "gradient accumulation": {"fused_accumulation": True},
    "step of the host": {"step_ms": 0},
}

# What other predictors say of themselves on the same runs, mean error in %: vTrain of its own measurements (arXiv:2312.12391, 1,440 and
# 116 points), Calculon of eight steps of Korthikanti et al. (its own `llm-validation`).
PEERS = {
    "vtrain_single": {"vTrain": 8.37},
    "vtrain_multi": {"vTrain": 14.73},
    "korthikanti2022": {"Calculon": 3.65},
}


def peers_text(name):
    return ", ".join(f"{peer} {error}" for peer, error in PEERS.get(name, {}).items()) or "-"


def tables(data):
    """The tables of published runs: those with the columns that `validate` needs."""
    found = []
    for path in sorted(pathlib.Path(data).glob("*.csv")):
        with open(path, encoding="utf-8", newline="") as file:
            columns = next(csv.reader(file))
        if {"row_id", "gpu", "n_gpus", "layers", "hidden", "seq", "tp"} <= set(columns):
            found.append(str(path))
    return found


def validate(meshwright, files, *options):
    # Rows that contradict themselves leave exit code 2, and the others predicted.
    done = subprocess.run([meshwright, "validate", "--json", *options, *files], capture_output=True, text=True, check=False)
    if not done.stdout:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def percent(share):
    return f"{100 * share:.1f}"


def errors_text(errors):
    return f"{percent(errors['mean'])} / {percent(errors['median'])} / {percent(errors['p90'])} / {100 * errors['bias']:+.1f}" if errors["rows"] else "-"


def covered(summary):
    return percent(summary["covered"] / summary["step_time"]["rows"]) if summary["step_time"]["rows"] else "-"


def accuracy(result):
    ranking = {r["source"]: r for r in result["ranking"]}
    lines = ["# Predicted against published", "", "Errors in %: mean / median / 90th percentile / bias of predicted over published, less 1.", "",
             "| source | rows | step time | others say | covered (%) | rows | memory | groups | Spearman | regret (%) |", "|---" * 10 + "|"]
    for s in result["summaries"]:
        r = ranking.get(s["name"])
        lines.append(f"| {s['name']} | {s['step_time']['rows']} | {errors_text(s['step_time'])} | {peers_text(s['name'])} | {covered(s)} | {s['memory']['rows']} | {errors_text(s['memory'])} | "
                     + (f"{r['groups']} | {r['spearman']:.2f} | {percent(r['mean_regret'])} |" if r else "- | - | - |"))
    reasons = collections.Counter(row["reason"] for row in result["rows"] if row["predicted_step_time_s"] is None)
    lines += ["", "Rows without a prediction:", ""] + [f"- {count}: {reason}" for reason, count in reasons.most_common()]
    return "\n".join(lines) + "\n"


def rows_of(files, ids, folder):
    """Copies of the tables with no other rows than these."""
    copies = []
    for number, path in enumerate(files):
        with open(path, encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file)
            wanted = [row for row in rows if row["row_id"] in ids]
        if wanted:
            copies.append(str(folder / f"rows{number}.csv"))
            with open(copies[-1], "w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, rows.fieldnames)
                writer.writeheader()
                writer.writerows(wanted)
    return copies


def terms(meshwright, files, result):
    """Each term off in every profile, one after the other: mean error by source."""
    shipped = {p["name"]: p for p in json.loads((pathlib.Path(__file__).parents[2] / "costmodel/sheets/software.json").read_text())["profiles"]}
    used = collections.defaultdict(set)
    for row in result["rows"]:
        if row["predicted_step_time_s"] and row["published_step_time_s"]:
            used[row["software"]].add(row["id"])

    def sustained(software):
        profile = shipped.get(software, {})
        return profile.get("sustained", sustained(profile["like"]) if "like" in profile else 1.0)

    names = sorted({s["name"] for s in result["summaries"]} - {"all"})
    columns = {"as it is": {s["name"]: s["step_time"] for s in result["summaries"]}}
    errors = {term: collections.defaultdict(list) for term in TERMS}
    for software, ids in used.items():
        with tempfile.TemporaryDirectory() as place:
            tables_of = rows_of(files, ids, pathlib.Path(place))
            for term, members in TERMS.items():
                profile = {"format": "meshwright-software-profile 1", **shipped[software], **members}
                for record in ("fitted", "mixtures"):
                    profile.pop(record, None)
                if "sustained" in members:
                    profile["sustained"] = sustained(software) * members["sustained"]
                path = pathlib.Path(place) / "term.json"
                path.write_text(json.dumps(profile))
                for row in validate(meshwright, tables_of, "--software", str(path))["rows"]:
                    if row["predicted_step_time_s"] and row["published_step_time_s"]:
                        errors[term][row["source"]].append(abs(row["predicted_step_time_s"] / row["published_step_time_s"] - 1))
    for term, by_source in errors.items():
        columns[term] = {name: {"mean": sum(e) / len(e)} for name, e in by_source.items()}
    lines = ["# What each term removes", "", "Mean error in % when a term is switched off and nothing is fitted anew.", "",
             "| source | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for name in names:
        lines.append(f"| {name} | " + " | ".join(percent(c[name]["mean"]) if name in c else "-" for c in columns.values()) + " |")
    return "\n".join(lines) + "\n"


def main():
    arguments = [a for a in sys.argv[1:] if a != "--terms"]
    if len(arguments) != 3:
        sys.exit(__doc__)
    meshwright, data, folder = arguments[0], arguments[1], pathlib.Path(arguments[2])
    folder.mkdir(parents=True, exist_ok=True)
    files = tables(data)
    page = folder / "predicted-published.html"
    result = validate(meshwright, files, "--html", str(page))
    plot = page.read_text(encoding="utf-8")
    (folder / "predicted-published.svg").write_text(plot[plot.index("<svg"):plot.index("</svg>") + len("</svg>\n")])
    (folder / "accuracy.md").write_text(accuracy(result))
    if "--terms" in sys.argv:
        (folder / "terms.md").write_text(terms(meshwright, files, result))
    print((folder / "accuracy.md").read_text(), end="")


if __name__ == "__main__":
    main()
