#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Opens the pages of --html in a headless Chromium and looks at what a person would: report_page_test.py MESHWRIGHT [FOLDER]

Numbers are those of --json, blocks lie where their tasks do, hover says what waits for what, filters and keys work, nothing runs or
loads but the page, nothing scrolls sideways on a phone. With FOLDER, screenshots at three widths in both colour schemes go there.
Without a Chromium the test is skipped (exit code 77).
"""
import base64
import json
import pathlib
import re
import struct
import sys
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from browser import Browser, find_browser  # noqa: E402
from sandbox import Sandbox  # noqa: E402

SKIPPED = 77
WIDTHS = (360, 1024, 1600)
EVIL = "</script><script>document.title='run'</script><img src=x onerror=alert(1)>&\"'"
MODEL = "--model gpt:layers=4,hidden=256,heads=4,seq=64,vocab=512 --batch 32 --micro-batches 8 --layers 4"
PLAN = f"meshwright plan {MODEL} --cluster p3.16xlarge:2 --submesh-space power_of_two -o plan.json --json --html plan.html"


def expect(condition, text):
    if not condition:
        raise AssertionError(text)


def make(box, command):
    done = box.run(command)
    expect(done.returncode == 0, f"exit code {done.returncode}: {command}\n{done.stderr}")
    return done.stdout


def data_of(path):
    """The data of a page and its columns, as Python's standard library reads them."""
    text = path.read_text(encoding="utf-8")
    data = json.loads(re.search(r'id="meshwright-data">(.*?)</script>', text, re.S).group(1))
    packed = re.search(r'id="meshwright-columns">(.*?)</script>', text, re.S).group(1)
    raw, columns = zlib.decompress(base64.b64decode(packed), -15), {}
    for name, column in data["columns"].items():
        begin, length = column["offset"], column["length"]
        if column["type"] == "f64":
            planes = [raw[begin + b * length:begin + (b + 1) * length] for b in range(8)]
            columns[name] = [value for (value,) in struct.iter_unpack("<d", bytes(x for row in zip(*planes) for x in row))]
        elif column["type"] == "i32":
            columns[name] = [value for (value,) in struct.iter_unpack("<i", raw[begin:begin + 4 * length])]
        else:
            columns[name] = raw[begin:begin + length]
    if data["document"] is None:
        data["document"] = json.loads(columns["document"])
    return data, columns


def figure(text):
    """The first number of a text, without its thousands' commas."""
    return float(re.search(r"-?[\d,]+(\.\d+)?", text).group(0).replace(",", ""))


def tile(tab, name):
    return tab.evaluate(f"[...document.querySelectorAll('.tiles div')].find(d => d.querySelector('dt').textContent === {name!r})"
                        "?.querySelector('b').textContent ?? ''")


def expect_quiet(tab, path):
    expect(not tab.complaints(), f"{path.name}: the console says {tab.complaints()}")
    foreign = [url for url in tab.requests() if not url.startswith(("file:", "data:", "blob:"))]
    expect(not foreign, f"{path.name}: it asks for {foreign}")
    expect(sum(url.startswith("file:") for url in tab.requests()) == 1, f"{path.name}: requests {tab.requests()}")


def check_answer(tab, document):
    step = document["step_time_s"]
    shown = tile(tab, "Step time")
    unit = {"s": 1.0, "ms": 1e-3, "us": 1e-6}[shown.split()[-1]]
    expect(abs(figure(shown) * unit - step) <= 0.00051 * unit, f"the tile says {shown}, the document {step} s")
    expect(shown in tab.text("h1"), f"'{tab.text('h1')}' does not say {shown}")
    expect(abs(figure(tile(tab, "Tokens / s")) / document["tokens_per_s"] - 1) < 1e-3, "tokens per second")
    expect(abs(figure(tile(tab, "Peak memory")) * 2**30 - document["peak_memory_bytes"]) <= 0.0051 * 2**30, "peak memory")
    expect(tab.evaluate("document.title") == tab.text("h1") + " - Meshwright", "title")


def check_bars(tab, data):
    """Each bar is as long as the step; each column of the table adds up to it."""
    widths = tab.evaluate("[...document.querySelectorAll('.bars .bar')].map(s => [...s.querySelectorAll('rect')]"
                          ".reduce((sum, r) => sum + parseFloat(r.getAttribute('width')), 0))")
    expect(widths and all(abs(width - 100) < 0.01 for width in widths), f"bars are {widths} % long")
    tables = tab.evaluate("[...document.querySelector('#time').parentElement.querySelectorAll('details')[0].querySelectorAll('tbody')]"
                          ".map(t => [...t.rows].map(r => [...r.children].slice(1, -1).map(c => c.textContent)))")
    for column in [column for table in tables for column in zip(*table)]:
        exact = [round(figure(cell) * 1e9) for cell in column]
        expect(sum(exact[:-1]) == exact[-1] == data["step_ps"], f"the parts are {sum(exact[:-1])} ps of {data['step_ps']} ps")


def at_moment(tab, data, moment, row=0):
    """Where a moment of a row is in the window."""
    x, y, width, _ = tab.box("#timeline-canvas")
    left = 62 if width - 2 < 560 else 150
    state = tab.evaluate("(({from, to, top}) => [from, to, top])(page.timeline.state)")
    rows = len(data["tracks"])
    tall = 40 if rows <= 4 else 30 if rows <= 10 else 22
    return (x + 1 + left + (moment - state[0]) / (state[1] - state[0]) * (width - 2 - left - 2),
            y + 1 + 22 + row * (tall + 4) + tall / 2 - state[2])


def check_hover(tab, data, columns):
    row = max(range(len(data["tracks"])), key=lambda r: data["tracks"][r]["stage"])
    begin, end = data["tracks"][row]["compute"]
    task = begin + 1
    middle = (columns["task.begin_ps"][task] + columns["task.end_ps"][task]) / 2
    tab.mouse("mouseMoved", *at_moment(tab, data, middle, row))
    name = data["kinds"][columns["task.kind"][task]]["name"]
    expect(tab.text("#timeline-info").startswith(f"{name} {columns['task.micro_batch'][task]} of stage {columns['task.stage'][task]}"),
           f"over {name}: '{tab.text('#timeline-info')}'")
    first = columns["task.begin_ps"][begin]
    if first > 0.02 * data["step_ps"]:
        tab.mouse("mouseMoved", *at_moment(tab, data, first / 2, row))
        text, cause = tab.text("#timeline-info"), columns["task.waits_for"][begin]
        expect(text.startswith("idle: "), f"over nothing: '{text}'")
        expect(f"waits for {data['kinds'][columns['task.kind'][cause]]['name']} {columns['task.micro_batch'][cause]}" in text, f"'{text}'")


def check_colours(tab, data, columns):
    """The pixel in the middle of the widest block has its kind's colour."""
    begin, end = data["tracks"][0]["compute"]
    task = max(range(begin, end), key=lambda t: columns["task.end_ps"][t] - columns["task.begin_ps"][t])
    tab.evaluate(f"page.timeline.show({columns['task.begin_ps'][task]}, {columns['task.end_ps'][task]})")
    tab.until("Math.abs(page.timeline.state.from - %f) < 2 && new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => r(true))))"
              % columns["task.begin_ps"][task])
    pixel = tab.evaluate("(() => { const c = document.querySelector('#timeline-canvas');"
                         " return [...c.getContext('2d').getImageData(c.width * 0.75, 22 + 9, 1, 1).data].slice(0, 3); })()")
    hue = tab.evaluate(f"page.colour({data['kinds'][columns['task.kind'][task]]['hue']!r})")
    expect(pixel == [int(hue[i:i + 2], 16) for i in (1, 3, 5)], f"the block is {pixel}, its kind {hue}")
    tab.evaluate("page.timeline.show(0, page.data.step_ps)")


def check_tools(tab, data, columns):
    set_value = "(e => {{ e.value = {!r}; e.dispatchEvent(new Event({!r}, {{bubbles: true}})); }})(document.querySelector({!r}))"
    last = max(columns["task.micro_batch"])
    tab.evaluate(set_value.format(f"backward {last}", "change", "#timeline-find"))
    expect(tab.text("#timeline-info").startswith(f"backward {last} of stage"), f"find: '{tab.text('#timeline-info')}'")
    tab.evaluate(set_value.format("nothing 3", "change", "#timeline-find"))
    expect("nothing is called" in tab.text("#timeline-info"), "find of what is not there")
    devices = sum(b - a + 1 for track in data["tracks"] for a, b in track["devices"])
    tab.evaluate("document.querySelector('#timeline-every').click()")
    expect(tab.text("#timeline-info") == f"{devices} rows shown", f"every device: '{tab.text('#timeline-info')}'")
    tab.evaluate(set_value.format("1-2", "input", "#timeline-devices"))
    expect(tab.text("#timeline-info") == "2 rows shown", f"filter: '{tab.text('#timeline-info')}'")
    tab.evaluate(set_value.format("x", "input", "#timeline-devices"))
    expect("is not a list of devices" in tab.text("#timeline-info"), "a filter that is none")
    tab.evaluate(set_value.format("", "input", "#timeline-devices"))
    tab.evaluate("document.querySelector('#timeline-every').click()")
    # The keyboard alone.
    tab.evaluate("document.querySelector('#timeline-canvas').focus()")
    tab.key("0")
    tab.key("n")
    expect("begins at" in tab.text("#timeline-info"), f"N: '{tab.text('#timeline-info')}'")
    before = tab.evaluate("page.timeline.state.to - page.timeline.state.from")
    tab.key("+")
    expect(abs(tab.evaluate("page.timeline.state.to - page.timeline.state.from") / before - 0.5) < 1e-9, "+ halves what is seen")
    tab.until("location.hash.startsWith('#t=')")
    tab.key("0")
    tab.evaluate("document.querySelector('[data-twin=timeline]').open = true")
    tab.until("document.querySelectorAll('[data-twin=timeline] tbody tr').length > 0")
    expect(tab.evaluate("document.querySelectorAll('[data-twin=timeline] tbody tr').length") <= 200, "twin table")
    tab.evaluate("document.querySelector('[data-twin=timeline]').open = false")


def check_memory(tab, data, columns):
    x, y, width, height = tab.box("#memory-canvas")
    track = data["tracks"][int(tab.evaluate("document.querySelector('#memory-row').value"))]
    tab.mouse("mouseMoved", x + 62 + (width - 66) / 2, y + height / 2)
    total = figure(tab.text("#memory-info").split(": ")[1])
    moment = data["step_ps"] / 2
    at = max(i for i in range(*track["memory"]) if columns["memory.time_ps"][i] <= moment * 1.01)
    standing = sum(track[kind] for kind in ("weights", "gradients", "optimizer", "other"))
    near = [columns["memory.activations"][i] + columns["memory.temporary"][i] + standing
            for i in range(max(track["memory"][0], at - 4), min(track["memory"][1], at + 4))]
    expect(any(abs(value / 2**30 - total) < 0.006 for value in near), f"memory: '{tab.text('#memory-info')}'")


def check_sharding(tab):
    rows = "[...document.querySelectorAll('#sharding-table tbody tr')].filter(r => !r.hidden && !r.classList.contains('ways'))"
    expect(tab.evaluate(f"{rows}.length") > 3, "few tensors")
    others = int(tab.evaluate(f"{rows}[0].querySelector('button').textContent"))
    tab.evaluate(f"{rows}[0].querySelector('button').click()")
    ways = tab.evaluate("[...document.querySelectorAll('.ways tbody tr')].map(r => [...r.children].map(c => c.textContent))")
    expect(len(ways) == others + 1, f"{len(ways)} ways, {others} others")
    expect([way[4] for way in ways].count("chosen") == 1, "one way is chosen")
    tab.evaluate("(e => { e.value = 'mlp.up'; e.dispatchEvent(new Event('input')); })(document.querySelector('#sharding-find'))")
    expect(tab.evaluate(f"{rows}.every(r => r.textContent.includes('mlp.up'))"), "find of a tensor")
    tab.evaluate("(e => { e.value = ''; e.dispatchEvent(new Event('input')); })(document.querySelector('#sharding-find'))")


def check_what_if(tab, data, box):
    """Every position of the sliders says what simulate does."""
    def simulated(options):
        return json.loads(make(box, f"meshwright simulate plan.json {options} --json"))["step_time_s"]

    axes = {axis["name"]: (number, axis["points"]) for number, axis in enumerate(data["what_if"])}
    for name, option in (("Micro-batches", "--micro-batches {}"), ("Links between hosts", "--slow-links between-hosts={}")):
        number, points = axes[name]
        expect(len([point for point in points if point["step_s"]]) >= 3, f"{name} has the points {points}")
        for place, point in enumerate(points):
            tab.evaluate("(e => { e.value = %d; e.dispatchEvent(new Event('input')); })(document.querySelector('#what-if-%d'))"
                         % (place, number))
            shown = tab.text(f"#what-if-{number} + output")
            expect(shown.startswith(point["value"] + ": "), f"slider: '{shown}'")
            if point["step_s"] is None:
                continue
            step = simulated(option.format(point["value"].removesuffix(" x").replace(",", "")))
            expect(step == point["step_s"], f"{name}, {point}: simulate says {step}")
            expect(point["own"] == (step == data["document"]["step_time_s"] and point["value"] in ("8", "1 x")), f"{name}, {point}: own")
    # Faster devices launch their kernels no faster, while those of --slow-device do.
    used = sorted(device for track in data["tracks"] for a, b in track["devices"] for device in range(a, b + 1))
    for point in axes["Speed of all devices"][1]:
        speed = float(point["value"].removesuffix(" x"))
        step = simulated(" ".join(f"--slow-device {device}={speed}" for device in used))
        low, high = sorted((step, data["document"]["step_time_s"]))
        expect(low <= point["step_s"] <= high, f"at {speed} of the speed {point['step_s']} is not from {low} to {high}")


def check_layout(browser, path):
    for width in WIDTHS:
        tab = browser.open(path, width=width)
        over = tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        expect(over <= 0, f"{path.name}: {over} px too wide at {width}")
        tab.evaluate("document.querySelectorAll('details').forEach(d => { if (d.querySelector('.bar')) d.open = true; })")
        outside = tab.evaluate("[...document.querySelectorAll('.bar text')].filter(t => getComputedStyle(t).display !== 'none').filter(t => {"
                               " const r = t.previousElementSibling.getBoundingClientRect(), b = t.getBoundingClientRect();"
                               " return b.left < r.left - 1 || b.right > r.right + 1; }).map(t => t.textContent)")
        expect(not outside, f"{path.name}: labels {outside} leave their parts at {width}")
        small = tab.evaluate("[...document.querySelectorAll('button, select, summary, input:not([type=checkbox])')].filter(e => e.offsetParent"
                             " && e.getBoundingClientRect().height < 32).map(e => e.outerHTML.slice(0, 80))")
        expect(not small, f"{path.name}: {small} are hard to touch")
        expect_quiet(tab, path)
    expect(tab.evaluate("document.querySelectorAll('*').length") <= 3000, f"{path.name}: too many elements")


def check_without_scripts(browser, path, document):
    tab = browser.open(path, scripts=False)
    source = path.read_text(encoding="utf-8")
    head = source[:source.index('<script type="application/json"')]
    expect("<table>" in head and 'class="tiles"' in head and "<svg class=\"bar\"" in head, "words and tables need scripts")
    expect(document["model"] in head, "the model is not named")
    tree = tab.call("Accessibility.getFullAXTree")["nodes"]
    names = {(node.get("role", {}).get("value"), node.get("name", {}).get("value", "")) for node in tree}
    expect(any(role == "heading" and document["model"] in name for role, name in names), "no heading says the answer")
    expect(any(role == "table" for role, _ in names), "no table is heard")


def check_print(browser, path, most):
    tab = browser.open(path)
    pdf = base64.b64decode(tab.call("Page.printToPDF", printBackground=True)["data"])
    pages = len(re.findall(rb"/Type\s*/Page\b", pdf))
    expect(0 < pages <= most, f"{path.name}: prints on {pages} pages")
    # On A4 between the browser's margins of 1 cm nothing sticks out to the right, and all text is of one size but headings.
    tab.media("light", "print")
    tab.resize(718)
    tab.evaluate("document.querySelectorAll('details:not(.twin)').forEach(d => d.open = true)")
    cut = tab.evaluate("[...document.querySelectorAll('main table, main svg, main canvas, .tiles')].filter(e => e.getBoundingClientRect().right > 718.5)"
                       ".map(e => `${e.textContent.slice(0, 60)}: ${e.getBoundingClientRect().right}`)")
    expect(cut == [], f"{path.name}: cut off in print: {cut}")
    sizes = tab.evaluate("['section > p', 'td', 'summary'].map(s => parseFloat(getComputedStyle(document.querySelector(s)).fontSize))")
    expect(max(sizes) <= 1.15 * min(sizes), f"{path.name}: paragraphs, tables and summaries are printed in sizes of {sizes} px")
    tab.call("Page.close")


def check_theme(tab):
    background = "getComputedStyle(document.body).backgroundColor"
    first = tab.evaluate(background)
    tab.evaluate("document.querySelector('#theme').click(); document.querySelector('#theme').click()")
    expect(tab.evaluate(background) != first and tab.text("#theme") == "Dark", "the button does not change the theme")
    tab.evaluate("document.querySelector('#theme').click()")
    tab.media("dark")
    tab.until(f"{background} !== {first!r}")
    tab.media("light")


def check_frames(tab, least=30):
    """Frames a second while the timeline is panned."""
    rate = tab.evaluate(
        "new Promise(done => { const times = []; let n = 0; const span = page.data.step_ps / 8;"
        " const step = (t) => { times.push(t); if (++n > 60) return done(1000 * (times.length - 1) / (t - times[0]));"
        " page.timeline.show(n * span / 10, n * span / 10 + span); requestAnimationFrame(step); }; requestAnimationFrame(step); })")
    expect(rate >= least, f"{rate:.0f} frames a second")
    tab.evaluate("page.timeline.show(0, page.data.step_ps)")
    return rate


def take_screenshots(browser, path, folder):
    for width in WIDTHS:
        for scheme in ("light", "dark"):
            browser.open(path, width=width, scheme=scheme).screenshot(folder / f"{path.stem}-{width}-{scheme}.png")


def check_plan(browser, box, folder):
    document = json.loads(make(box, PLAN))
    path = box.work / "plan.html"
    data, columns = data_of(path)
    document.pop("planning_wall_s")
    expect(data["document"] == document, "the page's document is not what --json prints")
    tab = browser.open(path)
    check_answer(tab, document)
    check_bars(tab, data)
    check_hover(tab, data, columns)
    check_colours(tab, data, columns)
    check_tools(tab, data, columns)
    check_memory(tab, data, columns)
    check_sharding(tab)
    check_what_if(tab, data, box)
    check_theme(tab)
    check_frames(tab)
    expect_quiet(tab, path)
    check_layout(browser, path)
    check_without_scripts(browser, path, document)
    check_print(browser, path, 8)
    if folder:
        take_screenshots(browser, path, folder)
    again = make(box, PLAN.replace("plan.html", "again.html"))
    expect(again, "nothing printed")
    same = path.read_text(encoding="utf-8").replace("plan.html", "again.html")
    expect(same == (box.work / "again.html").read_text(encoding="utf-8"), "the same command wrote another page")


def check_links(tab, document):
    """Channels that carry the same between two stages are one row; the rows together are all of them."""
    rows = tab.evaluate("[...document.querySelector('section[aria-labelledby=links] table').tBodies[0].rows].map(r => r.cells[0].textContent)")
    counts = [1 + int((re.search(r" and ([\d,]+) alike$", row) or [0, "0"])[1].replace(",", "")) for row in rows]
    expect(max(counts) > 1, f"no channels are alike: {rows}")
    expect(f"busiest of {sum(counts)} channels" in tab.text("section[aria-labelledby=links] > p"), f"channels {rows}")
    expect(len(rows) <= 2 * len(document["stages"]), f"{len(rows)} rows of channels")


def check_simulate(browser, box, folder):
    for name, options in (("simulate", ""), ("overlap", "--overlap --network fluid"), ("slow", "--slow-device 3=0.8")):
        document = json.loads(make(box, f"meshwright simulate plan.json {options} --json --html {name}.html"))
        path = box.work / f"{name}.html"
        data, columns = data_of(path)
        expect(data["document"]["step_time_s"] == document["step_time_s"], "step time")
        expect(data["document"]["time"] == document["time"], "where the time goes")
        expect(max(columns["task.end_ps"]) <= data["step_ps"], "a task ends after the step")
        tab = browser.open(path)
        check_answer(tab, document)
        check_bars(tab, data)
        if name == "simulate":  # --json asks for all devices, none of which stands for others
            check_links(tab, document)
        expect_quiet(tab, path)
        check_layout(browser, path)
        if folder:
            take_screenshots(browser, path, folder)


def check_names(browser, box):
    """Names with markup are shown and do nothing."""
    presets = json.loads(make(box, "meshwright clusters --json"))["clusters"]
    cluster = next(preset["for_n_1"] for preset in presets if preset["pattern"].startswith("p3.16xlarge"))
    cluster["name"] = EVIL
    (box.work / "evil.json").write_text(json.dumps(cluster), encoding="utf-8")
    make(box, f"meshwright plan {MODEL} --cluster evil.json --html evil.html -o evil.plan")
    path = box.work / "evil.html"
    tab = browser.open(path)
    expect(tab.evaluate("document.title").endswith(" - Meshwright"), "a name was run")
    expect(tab.evaluate("document.images.length") == 0, "a name became an image")
    expect(tab.evaluate("page.data.document.cluster") == EVIL, "the name is another")
    expect_quiet(tab, path)
    check_names_of_tensors(browser, box)


def check_names_of_tensors(browser, box):
    """A model whose file and weights are named as markup."""
    script, image = "<script>alert`1`<script>&<img>", "<img src=x onerror=document.title=2>&"
    module = (pathlib.Path(__file__).resolve().parent.parent / "golden" / "hlo" / "step.hlo").read_text(encoding="utf-8")
    named, count = re.subn(r"(w = f32\[2,8,8\] parameter\(0\))", lambda m: m.group(1) + ', metadata={op_name="' + script + '"}', module)
    expect(count == 1, "the module has no such parameter")
    (box.work / f"{image}.hlo").write_text(named, encoding="utf-8")
    make(box, f"meshwright plan --model '{image}.hlo' --cluster cpu:2 --batch 8 --micro-batches 2 -o named.json --html named.html")
    make(box, "meshwright run named.json --steps 2 --html ran.html")
    for name in ("named", "ran"):
        path = box.work / f"{name}.html"
        tab = browser.open(path)
        expect(tab.evaluate("document.title").endswith(" - Meshwright"), f"{name}: a name was run")
        expect(tab.evaluate("document.images.length") == 0, f"{name}: a name became an image")
        expect(image in tab.text("h1"), f"{name}: the model is called '{tab.text('h1')}'")
        if name == "named":
            expect(script in tab.text("main"), "the weight's name is not shown")
        expect_quiet(tab, path)


def check_run(browser, box):
    make(box, "meshwright plan --model mlp:layers=2,hidden=64 --cluster cpu:2 --batch 32 --layers 2 --micro-batches 4 --method megatron:pp=2 -o small.json")
    document = json.loads(make(box, "meshwright run small.json --steps 3 --json --html run.html"))
    path = box.work / "run.html"
    data, columns = data_of(path)
    expect(data["document"] == document, "the page's document is not what --json prints")
    tab = browser.open(path)
    shown = tile(tab, "Measured step")
    unit = {"s": 1.0, "ms": 1e-3, "us": 1e-6}[shown.split()[-1]]
    expect(abs(figure(shown) * unit - document["measured_step_time_s"]) <= 0.00051 * unit, f"the tile says {shown}")
    expect([track["timing"] for track in data["tracks"]] == [0, 1, 0, 1], "predicted and measured are not under each other")
    for number, track in enumerate(data["tracks"]):
        passes = range(*track["compute"])
        expect(len(passes) == 4 + 4 + 1, f"row {number} has {len(passes)} passes")
        # On a busy machine a pass is narrower than a pixel of the whole step.
        begin, end = columns["task.begin_ps"][passes[0]], columns["task.end_ps"][passes[0]]
        tab.evaluate(f"page.timeline.show({begin}, {end})")
        tab.until(f"Math.abs(page.timeline.state.from - {begin}) < 2 && new Promise(r => requestAnimationFrame(() => "
                  "requestAnimationFrame(() => r(true))))")
        tab.mouse("mouseMoved", *at_moment(tab, data, (begin + end) / 2, number))
        said, names = tab.text("#timeline-info"), ["predicted", "measured"]
        expect(f"forward 0 of stage {track['stage']}, device {track['stage']}, {names[number % 2]}" in said
               and f"; {names[1 - number % 2]}: begins at" in said, f"over the first block of row {number}: '{said}'")
    check_bars(tab, {"step_ps": document["time"]["step_ps"]})
    for device in document["time"]["devices"]:
        expect(sum(part["exposed_ps"] for part in device["parts"]) == document["time"]["step_ps"], f"the parts of {device} are not the step")
    # Of the two steps beside each other the last row is their lengths, and the rows above it add up to it.
    compared = tab.evaluate("[...document.querySelector('section[aria-labelledby=time] > .wide table').tBodies[0].rows]"
                            ".map(r => [...r.cells].slice(1, 3).map(c => c.textContent))")
    for column in zip(*compared):
        sums = [figure(cell) for cell in column]
        expect(abs(sum(sums[:-1]) - sums[-1]) <= 0.0006 * len(sums), f"measured beside predicted: {sums}")
    for section in ("loss", "measured", "time", "timeline", "kinds", "memory", "links"):
        expect(tab.evaluate(f"document.querySelector('section[aria-labelledby={section}]') !== null"), f"no section {section}")
    points = tab.evaluate("document.querySelector('section[aria-labelledby=loss] svg').querySelectorAll('circle').length")
    expect(points == len(document["losses"]) == 4, f"the loss curve has {points} points")
    memory = tab.evaluate("[...document.querySelector('section[aria-labelledby=memory] table').tBodies[0].rows].map(r => r.cells[2].textContent)")
    expect([figure(cell) for cell in memory] == [device["measured_peak_memory_bytes"] for device in document["devices"]], f"memory {memory}")
    sent = {(channel["from"], channel["to"]): channel["bytes"] for channel in document["channels"]}
    # A micro-batch's activations to the second device, and their gradients back: 8 samples of 64 numbers of 4 bytes.
    expect(sent == {(0, 1): 4 * 8 * 64 * 4, (1, 0): 4 * 8 * 64 * 4}, f"sent {sent}")
    expect_quiet(tab, path)
    check_layout(browser, path)


def check_circumstances(browser, box):
    """Steps that vary have a section of their own; a step among many that a controller issues has bars like any other."""
    document = json.loads(make(box, "meshwright simulate small.json --jitter 0.1 --samples 40 --json --html jitter.html"))
    tab = browser.open(box.work / "jitter.html")
    rows = dict(tab.evaluate("[...document.querySelector('section[aria-labelledby=variation] table').tBodies[0].rows]"
                             ".map(r => [r.cells[0].textContent, r.cells[1].textContent])"))
    for share, name in (("0.5", "50 % take at most"), ("0.9", "90 % take at most"), ("0.99", "99 % take at most")):
        expect(abs(figure(rows[name]) * 1e-3 - document["quantiles_s"][share]) <= 0.00051e-3, f"{name} {rows[name]}")
    tips = tab.evaluate("[...document.querySelectorAll('section[aria-labelledby=variation] svg title')].map(t => t.textContent)")
    counts = [int(tip.split()[0]) for tip in tips if re.match(r"\d+ steps? from ", tip)]
    expect(sum(counts) == 40, f"{counts} of 40 steps are drawn")
    expect_quiet(tab, box.work / "jitter.html")
    issued = "meshwright simulate small.json --controller single --dispatch-us 100 --fetch-every 2"
    document = json.loads(make(box, f"{issued} --json --html issued.html"))
    expect(abs(document["time"]["step_ps"] - 1e12 * document["step_time_s"]) < 1.5, "the parts are of another step")
    tab = browser.open(box.work / "issued.html")
    check_bars(tab, {"step_ps": document["time"]["step_ps"]})
    expect_quiet(tab, box.work / "issued.html")
    for name in ("jitter", "issued"):
        check_layout(browser, box.work / f"{name}.html")


def check_one_device(browser, box):
    make(box, "meshwright plan --model mlp:layers=2,hidden=64 --cluster cpu:1 --batch 16 --html one.html")
    path = box.work / "one.html"
    tab = browser.open(path)
    expect("device 0" in tab.text("main"), "no device")
    expect_quiet(tab, path)
    check_layout(browser, path)


def run_checks(script, usage, check):
    """The exit code of a test script: check(browser, box, folder) with the folder for pictures, or None."""
    if len(sys.argv) not in (2, 3):
        sys.exit(usage)
    if find_browser() is None:
        print("[SKIP] no Chromium: install the package chromium")
        return SKIPPED
    folder = pathlib.Path(sys.argv[2]) if len(sys.argv) == 3 else None
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
    with Sandbox(sys.argv[1], script) as box, Browser() as browser:
        check(browser, box, folder)
    print(f"{script.stem}: the pages are as they should be")
    return 0


def check_all(browser, box, folder):
    check_plan(browser, box, folder)
    check_simulate(browser, box, folder)
    check_names(browser, box)
    check_one_device(browser, box)
    check_run(browser, box)
    check_circumstances(browser, box)


if __name__ == "__main__":
    sys.exit(run_checks(pathlib.Path(__file__), __doc__, check_all))
