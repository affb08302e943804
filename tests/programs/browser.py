"""Drives a headless browser by its debugging pipe (file descriptors 3 and 4, JSON ended by NUL).

browser.py BROWSER URL DIRECTORY: opens the page at several widths and themes, waits for its
self-test, takes a screenshot of each view, and prints what happened as JSON, one object each.
"""

import base64
import json
import os
import subprocess
import sys
import tempfile
import time

VIEWS = ["overview", "connections", "counters", "packets"]
PATIENCE = 60


class Browser:
    """A browser, and one page of it."""

    def __init__(self, program, profile):
        to_read, self.out = os.pipe()
        self.into, from_write = os.pipe()
        words = [program, "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        words += ["--remote-debugging-pipe", "--no-first-run", f"--user-data-dir={profile}"]

        def place():
            # Neither may be in the other's place before it has its own.
            ends = [os.dup(to_read), os.dup(from_write)]
            for end, wanted in zip(ends, (3, 4)):
                os.dup2(end, wanted)

        self.child = subprocess.Popen(
            [*words, "about:blank"], preexec_fn=place, pass_fds=(3, 4), stderr=subprocess.DEVNULL
        )
        os.close(to_read)
        os.close(from_write)
        self.buffer = b""
        self.number = 0
        self.said = []
        self.session = None

    def receive(self):
        while b"\0" not in self.buffer:
            part = os.read(self.into, 1 << 16)
            if not part:
                raise EOFError("the browser has ended")
            self.buffer += part
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **params):
        self.number += 1
        request = {"id": self.number, "method": method, "params": params}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.out, json.dumps(request).encode() + b"\0")
        while True:
            message = self.receive()
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.note(message)

    def note(self, message):
        """Keeps what a person would see on the console: errors, and what the policy forbids."""
        params = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            self.said.append(str(params["exceptionDetails"]))
        elif message.get("method") == "Log.entryAdded":
            self.said.append(f"{params['entry']['level']}: {params['entry']['text']}")
        elif message.get("method") == "Runtime.consoleAPICalled":
            self.said.append(str(params["args"]))

    def open_page(self):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in ["Runtime", "Log", "Page"]:
            self.call(f"{domain}.enable")

    def evaluate(self, text):
        return self.call("Runtime.evaluate", expression=text, returnByValue=True)["result"].get("value")

    def look(self, width, height, theme):
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=False,
        )
        features = [{"name": "prefers-color-scheme", "value": theme}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def screenshot(self, path):
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))
        return os.path.getsize(path)

    def end(self):
        self.child.kill()
        self.child.wait()


def selftest(browser):
    """The page's own result: attributes and text of its element."""
    element = "document.getElementById('selftest-result')"
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = browser.evaluate(
            f"{element} && JSON.stringify({{...{element}.dataset, text: {element}.textContent}})"
        )
        if found:
            return json.loads(found)
        time.sleep(0.1)
    held = browser.evaluate("document.querySelector('#state').textContent")
    return {"result": "late", "text": f"state: {held}"}


def pictures(browser, directory, name):
    """A screenshot of each view, as it is after the self-test."""
    browser.evaluate("document.getElementById('selftest-result')?.remove()")
    sizes = {}
    for view in VIEWS:
        browser.evaluate(f"location.hash = '{view}'")
        time.sleep(0.4)
        sizes[view] = browser.screenshot(os.path.join(directory, f"{name}-{view}.png"))
    return sizes


def main():
    program, url, directory = sys.argv[1:]
    with tempfile.TemporaryDirectory() as profile:
        browser = Browser(program, profile)
        try:
            browser.open_page()
            for width, theme in [(1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")]:
                browser.said.clear()
                browser.look(width, 1400 if width > 600 else 2200, theme)
                browser.call("Page.navigate", url="about:blank")
                browser.call("Page.navigate", url=f"{url}#selftest")
                result = selftest(browser)
                sizes = pictures(browser, directory, f"web-{width}-{theme}")
                print(json.dumps({"width": width, "theme": theme, "said": browser.said, "sizes": sizes, **result}))
        finally:
            browser.end()


main()
