# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium driven over its DevTools pipe, with Python's standard library alone.

Messages are JSON ended by NUL: commands go to the browser's file descriptor 3, answers and events come from its 4.
"""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome")


def find_browser():
    """The path of a Chromium, or None."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    def __init__(self, limit_s=60):
        self.limit_s, self.number, self.events, self.rest = limit_s, 0, [], b""
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_browser, self.to = os.pipe()
        self.from_, from_browser = os.pipe()

        def pipes_for_devtools():  # in the child: high numbers first, so that neither overwrites the other
            a, b = os.dup(to_browser), os.dup(from_browser)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen(
            [find_browser(), "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-color-profile=srgb",
             "--no-first-run", f"--user-data-dir={self.folder.name}", "--remote-debugging-pipe", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False, preexec_fn=pipes_for_devtools)
        os.close(to_browser)
        os.close(from_browser)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.folder.cleanup()

    def call(self, method, session=None, **parameters):
        """The result of a command; events that come meanwhile are kept."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        return self.wait(lambda got: got.get("id") == message["id"])

    def wait(self, wanted):
        end = time.monotonic() + self.limit_s
        while True:
            while b"\0" in self.rest:
                text, self.rest = self.rest.split(b"\0", 1)
                got = json.loads(text)
                if "method" in got:
                    self.events.append(got)
                if wanted(got):
                    if "error" in got:
                        raise AssertionError(f"the browser refuses: {got['error']}")
                    return got.get("result", got)
            if not select.select([self.from_], [], [], max(0.0, end - time.monotonic()))[0]:
                raise AssertionError(f"the browser did not answer within {self.limit_s} s")
            self.rest += os.read(self.from_, 1 << 20)

    def open(self, path, **options):
        return Tab(self, path, **options)


class Tab:
    """One page: opened from disk, of a width, in a colour scheme, with or without scripts."""

    def __init__(self, browser, path, width=1024, height=800, scheme="light", scripts=True, fragment=""):
        self.browser = browser
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.media(scheme)
        self.resize(width, height)
        if not scripts:
            self.call("Emulation.setScriptExecutionDisabled", value=True)
        self.begun = time.monotonic()
        self.call("Page.navigate", url=f"file://{path}{fragment}")
        browser.wait(lambda got: got.get("method") == "Page.loadEventFired" and got.get("sessionId") == self.session)
        if scripts:
            self.until("document.documentElement.dataset.ready === '1'")
        self.ready_s = time.monotonic() - self.begun

    def call(self, method, **parameters):
        return self.browser.call(method, self.session, **parameters)

    def resize(self, width, height=800):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)

    def media(self, scheme, medium=""):
        self.call("Emulation.setEmulatedMedia", media=medium, features=[{"name": "prefers-color-scheme", "value": scheme}])

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise AssertionError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def until(self, expression, limit_s=20):
        end = time.monotonic() + limit_s
        while not self.evaluate(expression):
            if time.monotonic() > end:
                raise AssertionError(f"not within {limit_s} s: {expression}; {self.complaints()}")
            time.sleep(0.02)

    def text(self, selector):
        return self.evaluate(f"document.querySelector({json.dumps(selector)}).textContent")

    def box(self, selector):
        """x, y, width, height in the window, after scrolling there."""
        return self.evaluate(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center'}});"
            " const b = e.getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; })()")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def key(self, key):
        text = key if len(key) == 1 else ""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, text=text if kind == "keyDown" else "")

    def complaints(self):
        """What the console, or the policy, has against the page."""
        own = [event for event in self.browser.events if event.get("sessionId") == self.session]
        return [event["params"] for event in own if event["method"] in ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled")]

    def requests(self):
        own = [event for event in self.browser.events if event.get("sessionId") == self.session]
        return [event["params"]["request"]["url"] for event in own if event["method"] == "Network.requestWillBeSent"]

    def screenshot(self, path, selector=None, window=False):
        """Of an element, of what the window shows, or of the whole page."""
        options = {}
        if window:
            x, y, width, height = self.evaluate("[scrollX, scrollY, innerWidth, innerHeight]")
        elif selector:
            x, y, width, height = self.evaluate(
                f"(() => {{ const b = document.querySelector({json.dumps(selector)}).getBoundingClientRect();"
                " return [b.x + scrollX, b.y + scrollY, b.width, b.height]; })()")
        else:
            x, y = 0, 0
            width, height = self.evaluate("[document.documentElement.clientWidth, document.documentElement.scrollHeight]")
        options["clip"] = {"x": x, "y": y, "width": width, "height": height, "scale": 1}
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True, **options)["data"]
        path.write_bytes(base64.b64decode(data))
