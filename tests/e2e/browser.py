"""Debian's Chromium without a window, spoken to by WebDriver over plain HTTP."""

import base64
import contextlib
import html.parser
import http.client
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile

from programs import CaseFailed, CaseSkipped

OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run",
           "--disable-background-networking", "--disable-component-update", "--disable-sync",
           "--disable-dev-shm-usage", "--hide-scrollbars", "--force-color-profile=srgb")

KEYS = {"Enter": "\ue007", "Escape": "\ue00c", "PageUp": "\ue00e", "PageDown": "\ue00f",
        "End": "\ue010", "Home": "\ue011", "ArrowUp": "\ue013", "ArrowDown": "\ue015"}


def need_browser():
    missing = [name for name in ("chromium", "chromedriver") if not shutil.which(name)]
    if missing:
        raise CaseSkipped(f"missing: {', '.join(missing)} (Debian: chromium, chromium-driver)")


def need_loopback():
    """WebDriver goes over it. In the namespace that run.py enters for ordinary users it is down."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("127.0.0.1", 9))
        except OSError:
            subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


class Browser:
    """One window of one Chromium, with a profile of its own that is gone afterwards."""

    def __init__(self, width=1440, height=900, dark=False, phone=False):
        need_browser()
        need_loopback()
        self._folder = tempfile.mkdtemp(prefix="verbena-browser.")
        self._driver = None
        try:
            self._start()
            self._session = self._open(width, height, dark, phone)
        except BaseException:
            self.close()
            raise

    def _start(self):
        home = {**os.environ, "HOME": self._folder, "XDG_CONFIG_HOME": self._folder,
                "XDG_CACHE_HOME": self._folder, "TMPDIR": self._folder}
        self._log = open(pathlib.Path(self._folder) / "chromedriver.log", "w+b")
        self._driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE,
                                        stderr=self._log, env=home, text=True)
        for line in self._driver.stdout:
            if found := re.search(r"started successfully on port (\d+)", line):
                self._port = int(found[1])
                return
        raise CaseFailed(f"chromedriver ended with {self._driver.wait()}: {self._log_text()}")

    def _log_text(self):
        self._log.seek(0)
        return self._log.read().decode(errors="replace")[-2000:]

    def _open(self, width, height, dark, phone):
        arguments = [*OPTIONS, f"--user-data-dir={self._folder}/profile",
                     f"--window-size={width},{height}"]
        if dark:
            arguments.append("--force-dark-mode")
            arguments.append("--blink-settings=preferredColorScheme=0")
        options = {"binary": shutil.which("chromium"), "args": arguments}
        if phone:
            options["mobileEmulation"] = {
                "deviceMetrics": {"width": width, "height": height, "pixelRatio": 2, "touch": True}}
        answer = self._call("POST", "/session", {"capabilities": {"alwaysMatch": {
            "browserName": "chrome", "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL"},
            "timeouts": {"script": 120000, "pageLoad": 120000}}}})
        return f"/session/{answer['sessionId']}"

    def _call(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=180)
        try:
            connection.request(method, path, json.dumps(body or {}) if method == "POST" else None,
                               {"Content-Type": "application/json"})
            answer = json.loads(connection.getresponse().read())["value"]
        finally:
            connection.close()
        if isinstance(answer, dict) and "error" in answer:
            raise CaseFailed(f"WebDriver {method} {path}: {answer['error']}: {answer['message'][:600]}")
        return answer

    def open(self, path):
        self._call("POST", f"{self._session}/url", {"url": pathlib.Path(path).resolve().as_uri()})

    def run(self, script, *arguments):
        """The value that the script returns."""
        return self._call("POST", f"{self._session}/execute/sync",
                          {"script": script, "args": list(arguments)})

    def wait(self, condition, seconds=20):
        """Until an expression is true; looked at whenever the page could draw."""
        if not self.run(f"""
                const end = performance.now() + {seconds * 1000};
                return new Promise((done) => {{
                  const look = () => {{
                    if ({condition}) done(true);
                    else if (performance.now() > end) done(false);
                    else requestAnimationFrame(look);
                  }};
                  look();
                }});"""):
            raise CaseFailed(f"still not true after {seconds} s: {condition}")

    def click(self, x, y):
        """Of the mouse, at a point of the window."""
        self._pointer("mouse", x, y)

    def _pointer(self, kind, x, y):
        self._call("POST", f"{self._session}/actions", {"actions": [{
            "type": "pointer", "id": kind, "parameters": {"pointerType": kind}, "actions": [
                {"type": "pointerMove", "duration": 0, "x": round(x), "y": round(y)},
                {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]}]})

    def tap(self, x, y):
        """Of a finger."""
        self._pointer("touch", x, y)

    def press(self, *keys):
        """Each a character, or one of KEYS."""
        keys = [KEYS.get(key, key) for key in keys]
        steps = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self._call("POST", f"{self._session}/actions",
                   {"actions": [{"type": "key", "id": "keyboard", "actions": steps}]})

    def complaints(self):
        """What the console has of errors and warnings."""
        lines = self._call("POST", f"{self._session}/se/log", {"type": "browser"})
        return [line["message"] for line in lines if line["level"] in ("SEVERE", "WARNING")]

    def screenshot(self, path):
        data = self._call("GET", f"{self._session}/screenshot")
        pathlib.Path(path).write_bytes(base64.b64decode(data))

    def close(self):
        try:
            if hasattr(self, "_session"):
                self._call("DELETE", self._session)
        finally:
            if self._driver:
                self._driver.terminate()
                self._driver.wait()
                self._driver.stdout.close()
            self._log.close()
            shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *reason):
        self.close()


# ---------------------------------------------------------------- pages that load nothing


class Loaded(html.parser.HTMLParser):
    """What a browser would load for a page."""
    ATTRIBUTES = {"src", "srcset", "href", "xlink:href", "data", "action", "poster", "background"}

    def __init__(self, text):
        super().__init__()
        self.addresses = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.addresses += [value for name, value in attrs
                           if name in self.ATTRIBUTES and not value.startswith("#")]


@contextlib.contextmanager
def opened_alone(page, **kind):
    """A browser with a page that asks for nothing else, and of which the console has no complaint."""
    text = pathlib.Path(page).read_text(encoding="utf-8")
    found = Loaded(text).addresses + [word for word in ("http://", "https://", "url(", "@import")
                                      if word in text]
    if found:
        raise CaseFailed(f"the page loads {found}")
    with Browser(**kind) as browser:
        browser.open(page)
        yield browser
        complaints = browser.complaints()
        loaded = browser.run("return performance.getEntriesByType('resource').map((e) => e.name)")
        if complaints or loaded:
            raise CaseFailed(f"the browser loaded {loaded} and complains: {complaints}")
