#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Opens the pages of sweep, diff, validate and explain in a headless Chromium: document_pages_test.py MESHWRIGHT [FOLDER]

Points say the numbers of --json when they are chosen by pointer or key, any two numbers can be set against each other, rows are found,
nothing scrolls sideways on a phone, the console is silent. With FOLDER, screenshots go there. Without a Chromium the test is skipped.
"""
import json
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from report_page_test import WIDTHS, at_moment, data_of, expect, expect_quiet, figure, make, run_checks, take_screenshots, tile  # noqa: E402

MLP = "--model mlp:layers=4,hidden=256 --cluster cpu:4 --batch 64"
EVIL = "<img src=x onerror=alert(1)>&\"'"
RUNS = ("row_id,source_id,framework,gpu,n_gpus,gpus_per_node,arch,layers,hidden,heads,seq,vocab,precision,tp,pp,dp,micro_batch,"
        "global_batch,iteration_s\n"
        "a,one,Megatron-LM,A100,8,8,gpt,24,2304,24,2048,51200,fp16,1,1,8,8,64,1.2\n"
        "b,one,Megatron-LM,A100,8,8,gpt,24,2304,24,2048,51200,fp16,2,1,4,8,64,1.0\n"
        "c,\"" + EVIL.replace('"', '""') + "\",Megatron-LM,A100,8,8,gpt,24,2304,24,2048,51200,fp16,4,1,2,8,64,4.0\n")


def check_fits_a_phone(browser, path):
    for width in WIDTHS:
        tab = browser.open(path, width=width)
        expect(tab.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth"),
               f"{path.name}: scrolls sideways at {width} pixels")
        expect(tab.evaluate("document.querySelectorAll('*').length") <= 6000, f"{path.name}: too many elements")


def check_page(browser, path, folder):
    tab = browser.open(path)
    expect_quiet(tab, path)
    check_fits_a_phone(browser, path)
    if folder:
        take_screenshots(browser, path, folder)
    return tab


def choose(tab, view, number):
    tab.evaluate(f"document.querySelector('[data-points={view}] g[data-point=\"{number}\"]').dispatchEvent(new MouseEvent('click'))")
    return tab.text(f"#{view}-said")


def check_sweep(browser, box, folder):
    command = (f"meshwright sweep {MLP} --layers 2,4,99 --micro-batches 2,4,8 --schedule 1f1b,gpipe --db sweep.db --json "
               "--html sweep.html --price-per-device-hour 2")
    document = json.loads(make(box, command))
    path = box.work / "sweep.html"
    expect(data_of(path)[0]["document"] == document, "the page's document is not what --json prints")
    tab = check_page(browser, path, folder)
    points, best = document["points"], document["best"]
    shown = tile(tab, "Step time")
    unit = {"s": 1.0, "ms": 1e-3, "us": 1e-6}[shown.split()[-1]]
    expect(abs(figure(shown) * unit - points[best]["step_time_s"]) <= 0.00051 * unit, f"the tile says {shown}")
    expect(tab.evaluate("document.querySelectorAll('[data-points=sweep] svg')[0].querySelectorAll('g[data-point]').length")
           == len(points), "the heat map lacks points")
    said = choose(tab, "sweep", best)
    expect(f"step time (s) {points[best]['step_time_s']:.5g}" in said, f"the best point says '{said}'")
    expect(tab.evaluate("document.querySelector('[data-rows=sweep] tr.chosen').textContent").startswith(str(best + 1)), "its row")
    # The plan of the chosen point, and of no other, is seen: its stages, and bars that add up to its step.
    def plans_seen():
        return tab.evaluate("[...document.querySelectorAll('details.plan')].filter(d => !d.hidden && d.open).map(d => d.id)")
    expect(plans_seen() == [f"sweep-plan-{best}"], f"seen are the plans {plans_seen()}")
    other = next(i for i, point in enumerate(points) if point["feasible"] and i != best)
    choose(tab, "sweep", other)
    expect(plans_seen() == [f"sweep-plan-{other}"], f"after another choice {plans_seen()}")
    plan = points[other]["plan"]
    rows = tab.evaluate(f"[...document.querySelectorAll('#sweep-plan-{other} table tbody tr')].map(r => r.textContent)")
    expect(len(rows) == len(plan["stages"]) == points[other]["num_stages"], f"stages {rows}")
    expect(plan["stages"][0]["mesh"] in rows[0], f"the logical mesh is not in '{rows[0]}'")
    for row in plan["time"]["rows"]:
        expect(sum(row["parts_ps"].values()) == plan["time"]["step_ps"], f"the parts of {row} are not the step")
    expect(abs(plan["time"]["step_ps"] * 1e-12 - points[other]["step_time_s"]) < 1e-12, "the plan is another's")
    tab.evaluate(f"document.querySelectorAll('[data-rows=sweep] tbody tr')[{best}].click()")
    expect(plans_seen() == [f"sweep-plan-{best}"], f"after a click on a row {plans_seen()}")
    without = next(i for i, point in enumerate(points) if not point["feasible"])
    expect(points[without]["reason"] in choose(tab, "sweep", without), "a point without a plan does not say why")
    # By key, in the front of memory and price.
    tab.evaluate("const x = document.querySelector('#sweep-x'); x.value = 'memory'; x.dispatchEvent(new Event('change'));"
                 "const y = document.querySelector('#sweep-y'); y.value = 'price'; y.dispatchEvent(new Event('change'))")
    seen = tab.evaluate("[...document.querySelectorAll('[data-axes]')].filter(d => !d.hidden).map(d => d.dataset.axes).join()")
    expect(seen == "memory,price", f"seen is {seen}")
    tab.evaluate(f"const g = document.querySelector('[data-axes=\"memory,price\"] g[data-point=\"{best}\"]'); g.focus();"
                 "g.dispatchEvent(new KeyboardEvent('keydown', {key: 'Enter', bubbles: true}))")
    expect(f"price per step {points[best]['price_per_step']:.5g}" in tab.text("#sweep-said"), tab.text("#sweep-said"))
    tab.evaluate("const f = document.querySelector('[data-finds=sweep]'); f.value = 'gpipe'; f.dispatchEvent(new Event('input'))")
    left = tab.evaluate("[...document.querySelectorAll('[data-rows=sweep] tbody tr')].filter(r => !r.hidden).length")
    expect(left == sum(point["schedule"] == "gpipe" for point in points), f"{left} rows are found")


def check_validate(browser, box, folder):
    (box.work / "runs.csv").write_text(RUNS, encoding="utf-8")
    document = json.loads(make(box, "meshwright validate runs.csv --json --html validate.html"))
    path = box.work / "validate.html"
    tab = check_page(browser, path, folder)
    rows = document["rows"]
    errors = [row["predicted_step_time_s"] / row["published_step_time_s"] - 1 for row in rows]
    expect(abs(figure(tile(tab, "Mean error")) - 100 * sum(map(abs, errors)) / len(errors)) <= 0.051, tile(tab, "Mean error"))
    for number, row in enumerate(rows):
        expect(f"{row['id']}: predicted {row['predicted_step_time_s']:.4g} s" in choose(tab, "runs", number), "a run's numbers")
    worst = max(range(len(rows)), key=lambda i: abs(errors[i]))
    first = tab.evaluate("document.querySelector('[data-rows=worst] tbody tr').textContent")
    expect(first.startswith(rows[worst]["id"]), f"the first row is {first}")
    expect(EVIL in tab.text("main") and tab.evaluate("document.images.length") == 0, "a source's name is not text")


def check_diff(browser, box, folder):
    make(box, f"meshwright plan {MLP} --layers 4 --micro-batches 4 --method megatron:pp=4 -o plan.json")
    make(box, "meshwright simulate plan.json --json > one.json")
    make(box, "meshwright simulate plan.json --slow-device 2=0.5 --json > two.json")
    document = json.loads(make(box, "meshwright diff one.json two.json --json --html diff.html"))
    path = box.work / "diff.html"
    expect(data_of(path)[0]["document"] == document, "the page's document is not what --json prints")
    tab = check_page(browser, path, folder)
    step = document["step_time"]
    expect(abs(figure(tile(tab, "Difference")) - 100 * step["relative_difference"]) <= 0.051, tile(tab, "Difference"))
    first = tab.evaluate("document.querySelector('[data-rows=diff-rows] tbody tr').textContent")
    expect(first.startswith("2"), f"the slow device's stage is not first: {first}")
    expect(tab.evaluate("document.querySelector('#timeline-canvas')") is None, "timings without tasks have a timeline")


def check_diff_of_traces(browser, box, folder):
    """Both timelines on one axis: a task says how long it takes in either, and the table by kind adds up."""
    make(box, "meshwright simulate plan.json --trace one.trace > one.txt")
    make(box, "meshwright simulate plan.json --slow-device 2=0.5 --trace two.trace > two.txt")
    make(box, "meshwright diff one.trace two.trace --html traces.html")
    path = box.work / "traces.html"
    data, columns = data_of(path)
    expect([track["timing"] for track in data["tracks"]] == [0, 1] * 4, f"rows {[track['timing'] for track in data['tracks']]}")
    expect(data["tracks"][0]["devices"] == data["tracks"][1]["devices"], "the rows of a pair are of other devices")
    tab = check_page(browser, path, folder)
    slow = [track for track in data["tracks"] if track["devices"] == [[2, 2]]]
    times = [[columns["task.end_ps"][i] - columns["task.begin_ps"][i] for i in range(*track["compute"])] for track in slow]
    expect(1.8 < times[1][0] / times[0][0] < 2.01, f"half the speed takes {times[1][0] / times[0][0]} times as long")
    row = 2 * [track["devices"] for track in data["tracks"][::2]].index([[2, 2]])
    first = slow[0]["compute"][0]
    middle = (columns["task.begin_ps"][first] + columns["task.end_ps"][first]) / 2
    tab.mouse("mouseMoved", *at_moment(tab, data, middle, row))
    said = tab.text("#timeline-info")
    expect("device 2, first" in said and "; second: begins at" in said, f"over a task: '{said}'")
    shown = float(re.search(r"first over second: ([+\u2212\d.]+) %", said).group(1).replace("\u2212", "-"))
    expect(abs(shown - 100 * (times[0][0] / times[1][0] - 1)) <= 0.051, f"over a task: '{said}'")
    lengths = {kind["name"]: [0.0, 0.0] for kind in data["kinds"]}
    for track in data["tracks"]:
        for i in range(track["compute"][0], track["messages"][1]):
            name = data["kinds"][columns["task.kind"][i]]["name"]
            lengths[name][track["timing"]] += (columns["task.end_ps"][i] - columns["task.begin_ps"][i]) / 1e9
    cells = tab.evaluate("[...document.querySelector('section[aria-labelledby=kinds] table').tBodies[0].rows]"
                         ".map(r => [...r.cells].map(c => c.textContent))")
    found = {row[0]: [figure(row[3]), figure(row[4])] for row in cells if row[0] in lengths}
    expect({"forward", "backward", "update", "message"} <= set(found), f"kinds {cells}")
    for name, (one, two) in found.items():
        expect(abs(one - lengths[name][0]) < 0.001 and abs(two - lengths[name][1]) < 0.001, f"{name}: {one}, {two}, not {lengths[name]}")


def check_diff_without_micro_batches(browser, box):
    """A trace of a step that was cut off before its first micro-batch was done still makes a page."""
    event = '{"ph":"X","pid":%d,"cat":"update","name":"U","ts":%d,"dur":2,"args":{"stage":0,"microbatch":0}}'
    (box.work / "none.trace").write_text('{"traceEvents":[%s]}' % (event % (0, 0)), encoding="utf-8")
    (box.work / "later.trace").write_text('{"traceEvents":[%s,%s]}' % (event % (0, 1), event % (1, 3)), encoding="utf-8")
    make(box, "meshwright diff none.trace later.trace --html none.html")
    path = box.work / "none.html"
    data, _ = data_of(path)
    expect([(track["devices"], track["timing"]) for track in data["tracks"]] == [([[0, 0]], 0), ([[0, 0]], 1), ([[1, 1]], 1)],
           f"rows {data['tracks']}")
    tab = browser.open(path)
    tab.mouse("mouseMoved", *at_moment(tab, data, 4e6, 2))
    expect("update of stage 0, device 1, second" in tab.text("#timeline-info"), tab.text("#timeline-info"))
    expect_quiet(tab, path)


def check_explain(browser, box, folder):
    make(box, f"meshwright plan {MLP} --layers 4 --micro-batches 2 --method megatron:tp=4 -o split.json")
    make(box, "meshwright explain split.json --html explain.html")
    path = box.work / "explain.html"
    tab = check_page(browser, path, folder)
    expect("mlp" in tab.text("h1"), tab.text("h1"))
    expect(tab.evaluate("document.querySelectorAll('main table tbody tr').length") > 0, "no tensor is listed")


def check_all(browser, box, folder):
    check_sweep(browser, box, folder)
    check_validate(browser, box, folder)
    check_diff(browser, box, folder)
    check_diff_of_traces(browser, box, folder)
    check_diff_without_micro_batches(browser, box)
    check_explain(browser, box, folder)


if __name__ == "__main__":
    sys.exit(run_checks(pathlib.Path(__file__), __doc__, check_all))
