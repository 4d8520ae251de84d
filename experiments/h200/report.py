# SPDX-License-Identifier: Apache-2.0
"""The text made of what run.py kept: one part per stage, a table or lines, failures in place."""
import re

GIB = 2**30
LOSSES_SHOWN = (0, 9, 49, 99, 149, 199)


def number(value, digits=4, factor=1.0):
    if not isinstance(value, (int, float)):
        return "-"
    return f"{value * factor:.{digits}g}" if abs(value * factor) < 10**digits else f"{value * factor:.0f}"


def share(value):
    return f"{value:.1%}" if isinstance(value, (int, float)) else "-"


def percent(value):
    return f"{value:+.1%}" if isinstance(value, (int, float)) else "-"


def table(columns, rows):
    """rows of texts, or of one text for a row that failed: (first cell, sentence)."""
    whole = [row for row in rows if len(row) == len(columns)]
    widths = [max(len(row[i]) for row in [columns, *whole]) for i in range(len(columns))]
    widths[0] = max([widths[0], *(len(row[0]) for row in rows)])

    def line(cells):
        return "  ".join([cells[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(cells[1:], widths[1:]))]).rstrip()

    lines = ["# " + line(columns)]
    for row in rows:
        lines.append("  " + (line(row) if len(row) == len(columns) else f"{row[0].ljust(widths[0])}  {row[1]}"))
    return lines


def failed(row):
    return row["what"], f"FAILED: {row['error']}"


def facts(record, _):
    return [f"  {row['what']:16}  {row['value']}" if "error" not in row else f"  {row['what']:16}  FAILED: {row['error']}" for row in record["rows"]]


def tests(record, _):
    lines = []
    for row in record["rows"]:
        if "error" in row:
            lines.append(f"  {row['what']}: FAILED: {row['error']}")
            continue
        lines.append(f"  {row['what']}: {row['summary'] or 'no test ran'}; {row['left_out']} left out; {number(row['seconds'])} s")
        lines += [f"    failed: {name}" for name in row["failed"]]
    return lines


def newest(record, records):
    programs = [row for row in record["rows"] if "batch" not in row]
    steps = {**record, "rows": [row for row in record["rows"] if "batch" in row]}
    lines = [f"  {row['what']}: " + (f"FAILED: {row['error']}" if "error" in row else f"{row['passed']} passed; {number(row['seconds'])} s")
             for row in programs]
    return lines + (runs(steps, records) if steps["rows"] else [])


def sanitizer(record, _):
    rows = record["rows"]
    ended = [row for row in rows if row.get("summary")]
    clean = [row for row in ended if re.search(r"SUMMARY: 0 (errors|hazards)", row["summary"])]
    lines = [f"  {len(clean)} of the {len(ended)} test suites that ended are without a finding; {len(rows) - len(ended)} did not end"]
    # A test that records activities fails beside the sanitizer, which does so itself.
    return lines + [f"  {row['what']}: {row.get('summary') or 'no summary'}; {row['error']}" for row in rows if "error" in row]


def verdict(document, name, what, beside):
    found = document["verdicts"][name]
    if not found["rows"]:
        return f"# {what}: no row to judge"
    return (f"# {what}: {found['reach']} of {found['rows']} rows reach {found['aim']:.0%} of {beside}; the farthest from it, at "
            f"{share(found['worst'])}: {found['worst_is']}")


def kernel_row(row, cells):
    """`cells` of a row that was measured; the sentence of one that was not."""
    name = f"{row['kernel']}  {row['shape']}"
    return (name, f"FAILED: {row['error']}") if "error" in row else (name, row["model"], row["type"], *cells(row))


def memory_lines(document):
    columns = ("kernel, shape", "model", "type", "MB", "us", "spread (us)", "GB/s", "of the copy", "of one as large")
    rows = [kernel_row(row, lambda row: (number(row["bytes"], 4, 1e-6), number(row["time_s"], 4, 1e6), number(row["spread_s"], 2, 1e6),
                                         number(row["bytes_per_s"], 4, 1e-9), share(row["of_copy"]), share(row["of_copy_as_large"])))
            for row in document["memory"]]
    return [*table(columns, rows), f"# a large copy: {number(document['copy_bytes_per_s'], 4, 1e-9)} GB/s, read and written",
            verdict(document, "memory", "what moves 32 MiB or more", "the copy's rate")]


def product_lines(document):
    columns = ("product, m x n x k", "model", "type", "first (TFLOPS)", "by timing", "best", "algorithms", "first of best", "by timing of best")
    rows = [kernel_row(row, lambda row: (*(number(row["flops"] / row[time], 4, 1e-12) for time in ("first_s", "timed_s", "best_s")),
                                         str(row["algorithms"]), share(row["first_of_best"]), share(row["timed_of_best"])))
            for row in document["products"]]
    return [*table(columns, rows), verdict(document, "products_first", "products as cuBLASLt proposes", "its best algorithm"),
            verdict(document, "products_timed", "products chosen by timing", "its best algorithm")]


def compute_lines(document):
    columns = ("kernel, shape", "model", "type", "us", "spread (us)", "TFLOPS", "of the best product", "by")
    rows = [kernel_row(row, lambda row: (number(row["time_s"], 4, 1e6), number(row["spread_s"], 2, 1e6), number(row["flop_per_s"], 4, 1e-12),
                                         share(row.get("of_best_product")), row["by"]))
            for row in document["convolutions"] + document["attention"]]
    return table(columns, rows)


def kernels(record, _):
    lines, shapes = [], {"memory": memory_lines, "products": product_lines}
    for row in record["rows"]:
        lines += [f"  {row['what']}: FAILED: {row['error']}"] if "error" in row else shapes.get(row["what"], compute_lines)(row["document"])
    return lines


def profile(record, _):
    columns = ("model", "ops", "collectives", "transfers", "left out", "launch (us)", "copy (GB/s)", "best (TFLOPS)", "took (s)")
    rows = []
    for row in record["rows"]:
        if "error" in row:
            rows.append(failed(row))
            continue
        left_out = row["left_out_for_time"] + row["left_out_for_memory"]
        rows.append((row["what"], *(str(row[key]) for key in ("ops", "collectives", "transfers")), str(left_out), number(row["launch_s"], 3, 1e6),
                     number(row["copy_gb_per_s"]), number(row["best_gflop_per_s"], 4, 1e-3), number(row["seconds"], 3)))
    return table(columns, rows)


RUN_COLUMNS = ("step (ms)", "predicted (ms)", "error", "TFLOPS", "MFU", "memory (GiB)", "predicted (GiB)", "workspaces (GiB)",
               "at most (GiB)", "in use (GiB)", "predicted (GiB)")


def run_cells(row):
    return (number(row["step_s"], 4, 1e3), number(row["predicted_s"], 4, 1e3), percent(row["error_share"]), number(row["tflops"]),
            share(row.get("mfu")), *(number(row.get(key), 4, 1 / GIB) for key in ("counted_bytes", "predicted_bytes", "workspace_bytes",
                                                                                   "predicted_workspace_bytes", "in_use_bytes",
                                                                                   "predicted_in_use_bytes")))


def rate_of(row):
    """Tokens per second, images per second of what has no tokens."""
    return row.get("tokens_per_s") or row.get("samples_per_s")


def notes(record):
    """By what was predicted, and whether it may be set beside what was measured."""
    done = [row for row in record["rows"] if "error" not in row]
    sources = {re.sub(r"^\S*/", "", row["predicted_by"]) for row in done}  # no folders of the machine
    lines = [f"# predicted by {source}" for source in sorted(sources)]
    if any(not row["comparable"] for row in done):
        lines.append("# the machine is not the one planned for: no prediction above is comparable with what was measured")
    return lines


def runs(record, records):
    columns = ("model", "batch", "tokens or images/s", *RUN_COLUMNS, "PyTorch eager", "compiled", "ours / its best")
    twins = {(row["what"], row.get("mode")): row for row in records.get("peers", {"rows": []})["rows"]}
    rows = []
    for row in record["rows"]:
        if "error" in row:
            rows.append(failed(row))
            continue
        rates = [rate_of(twins.get((row["what"], mode), {})) for mode in ("eager", "compile")]
        known = [rate for rate in rates if rate]
        ratio = f"{rate_of(row) / max(known):.2f}" if known else "-"
        rows.append((row["what"], str(row["batch"]), number(rate_of(row), 5), *run_cells(row), *(number(rate, 5) for rate in rates), ratio))
    return table(columns, rows) + notes(record)


def ops(record, _):
    lines = []
    for row in record["rows"]:
        lines += [f"  {row['what']}: FAILED: {row['error']}"] if "error" in row else [f"  {row['what']}", *(f"    {line}" for line in row["table"])]
    return lines


def shared(record, _):
    columns = ("plan, devices sharing one GPU", "devices", "batch", "micro-batches", *RUN_COLUMNS)
    return table(columns, [failed(row) if "error" in row else
                           (row["what"], str(row["devices"]), str(row["batch"]), str(row["micro_batches"]), *run_cells(row))
                           for row in record["rows"]]) + notes(record)


def determinism(record, _):
    lines = []
    for row in record["rows"]:
        if "error" in row:
            lines.append(f"  {row['what']}: FAILED: {row['error']}")
        elif row["identical"]:
            lines.append(f"  {row['what']}: two runs of {row['steps']} steps: every loss the same to the last bit")
        elif not row["finite"]:
            lines.append(f"  {row['what']}: LOSSES ARE NOT NUMBERS")
        else:
            lines.append(f"  {row['what']}: THE LOSSES DIFFER, first in step {row['first_difference']} of {row['steps']}")
    return lines


def losses(record, _):
    columns = ("loss after", *(f"step {step + 1}" for step in LOSSES_SHOWN), "step (ms)")
    rows = []
    for row in record["rows"]:
        if "error" in row:
            rows.append(failed(row))
        else:
            shown = [number(row["losses"][step], 6) if step < len(row["losses"]) else "-" for step in LOSSES_SHOWN]
            rows.append((row["what"], *shown, number(row["step_s"], 4, 1e3)))
    lines = table(columns, rows)
    curves = [row["losses"] for row in record["rows"] if "error" not in row]
    if len(curves) == 2 and all(isinstance(loss, (int, float)) for curve in curves for loss in curve):
        apart = max(abs(a - b) / max(abs(b), 1e-30) for a, b in zip(*curves))
        lines.append(f"# largest relative distance in any step: {apart:.2e}")
    return lines


def peers(record, _):
    columns = ("model", "mode", "batch", "tokens or images/s", "step (ms)", "MFU", "memory (GiB)", "parameters")
    rows = []
    for row in record["rows"]:
        if "error" in row:
            rows.append((f"{row['what']} {row.get('mode', '')}".strip(), f"FAILED: {row['error']}"))
            continue
        rows.append((row["what"], row["mode"], str(row["batch"]), number(rate_of(row), 5), number(row["step_time_s"], 4, 1e3), share(row.get("mfu")),
                     number(row.get("peak_memory_bytes"), 4, 1 / GIB), str(row["parameters"])))
    versions = sorted({row["torch"] for row in record["rows"] if "torch" in row})
    return table(columns, rows) + [f"# PyTorch {version}" for version in versions]


PARTS = {"device": facts, "newest": newest, "tests": tests, "sanitizer": sanitizer, "kernels": kernels, "profile": profile, "runs": runs, "ops": ops,
         "shared": shared, "determinism": determinism, "losses": losses, "peers": peers}


def report(records):
    lines = []
    for stage, part in PARTS.items():
        if stage not in records:
            continue
        record = records[stage]
        how = ", quick" * record["quick"] + ", tiny models on threads: a trial of the script" * record["tiny"]
        lines += [f"# === {stage} ({record['when']}{how})", *part(record, records), ""]
    return "\n".join(lines)
