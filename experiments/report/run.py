#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How large and how quick the pages of large plans are: run.py MESHWRIGHT [FOLDER]

Plans Llama-3.1-70B for 512 GPUs, and Llama-3.1-405B for 16,384, and simulates a step of Llama-3.1-8B with 1,048,576 forward and
backward passes on 512 GPUs of which no two are equally fast, so that no row stands for several devices. Opens the pages in a headless Chromium and prints a row for each;
takes pictures into FOLDER (default: this one). Exit code 1: a page is larger or slower than it may be.
"""
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "tests" / "browser"))
from browser import Browser, find_browser  # noqa: E402

PLANS = {
    "70b-512": "--model llama-3.1-70b --cluster dgx-h100:64 --batch 1024 --layers 20 --micro-batches 64",
    "405b-16384": "--model llama-3.1-405b --cluster dgx-h100:2048 --batch 16384 --layers 18 --micro-batches 64",
}
# No two devices of it are alike: 512 rows of 1,024 forward and 1,024 backward passes.
MILLION = "--model llama-3.1-8b --cluster dgx-h100:64 --method megatron:pp=8,tp=8 --batch 8192 --layers 32 --micro-batches 1024"
UNLIKE = [word for device in range(512) for word in ("--slow-device", f"{device}={1 - device / 5120:.6f}")]
MAX_BYTES, MAX_PAINT_MS, MIN_FRAMES = 3_000_000, 1000, 30
PAN = """new Promise(done => { const times = [], span = page.data.step_ps / %d; let n = 0;
  const step = (t) => { times.push(t); if (++n > 90) return done(1000 * (times.length - 1) / (t - times[0]));
  page.timeline.show(n * page.data.step_ps / 100, n * page.data.step_ps / 100 + span); requestAnimationFrame(step); };
  requestAnimationFrame(step); })"""


def page_of(meshwright, folder, name, arguments):
    """The page, and what writing it adds to a simulation of the plan."""
    plan, html = folder / f"{name}.json", folder / f"{name}.html"
    subprocess.run([meshwright, "plan", *arguments.split(), "-o", plan, "--html", html], check=True, capture_output=True)
    begun = time.monotonic()
    subprocess.run([meshwright, "simulate", plan, "--html", folder / "again.html"], check=True, capture_output=True)
    return html, time.monotonic() - begun


def page_of_unlike_devices(meshwright, folder):
    plan, html = folder / "million.json", folder / "million.html"
    subprocess.run([meshwright, "plan", *MILLION.split(), "-o", plan], check=True, capture_output=True)
    begun = time.monotonic()
    subprocess.run([meshwright, "simulate", plan, *UNLIKE, "--html", html], check=True, capture_output=True)
    return html, time.monotonic() - begun


def measure(browser, html):
    tab = browser.open(html, width=1280, height=900)
    tab.until("performance.getEntriesByName('first-contentful-paint').length > 0")
    paint = tab.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    rates = [tab.evaluate(PAN % parts) for parts in (1.2, 20)]
    tab.evaluate("document.querySelector('#timeline-every').click()")
    rates.append(tab.evaluate(PAN % 1.2))
    work = tab.evaluate("page.timeline.frames.slice().sort((a, b) => a - b)[Math.floor(page.timeline.frames.length / 2)]")
    return paint, min(rates), work, tab.evaluate("document.querySelectorAll('*').length")


def take_pictures(browser, html, folder):
    """Of the page of 512 GPUs: what is seen first, the timeline near its begin, and a phone."""
    browser.open(html, width=900, height=600).screenshot(folder / "page-light.png", window=True)
    tab = browser.open(html, width=1024, scheme="dark", fragment="#t=0-1.8&row=1")
    tab.screenshot(folder / "timeline-dark.png", "#timeline-view")
    browser.open(html, width=360, height=640, scheme="dark").screenshot(folder / "page-phone.png", window=True)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    if find_browser() is None:
        sys.exit("no Chromium: install the package chromium")
    meshwright = pathlib.Path(sys.argv[1]).resolve()
    pictures = pathlib.Path(sys.argv[2]) if len(sys.argv) == 3 else HERE
    wrong = []
    print("page         size   simulate --html  first paint  frames/s  a frame  elements")
    with tempfile.TemporaryDirectory() as temporary, Browser() as browser:
        for name in (*PLANS, "million"):
            folder = pathlib.Path(temporary)
            html, seconds = page_of(meshwright, folder, name, PLANS[name]) if name in PLANS else page_of_unlike_devices(meshwright, folder)
            paint, rate, work, elements = measure(browser, html)
            size = html.stat().st_size
            print(f"{name:<11}{size / 1e3:5.0f} kB{seconds:15.2f} s{paint:10.0f} ms{rate:10.0f}{work:7.1f} ms{elements:10}", flush=True)
            if size > MAX_BYTES or paint > MAX_PAINT_MS or rate < MIN_FRAMES:
                wrong.append(name)
            if name == "70b-512":
                take_pictures(browser, html, pictures)
    if wrong:
        sys.exit(f"too large or too slow: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
