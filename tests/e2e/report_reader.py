"""A trace as we read it ourselves, and the page that `verbena report --html` makes of it, in a browser."""

import collections
import contextlib
import dataclasses
import glob
import re

from browser import need_browser, opened_alone
from cases import Case, check_output
from observing import events_in, expect, named, open_folder
from programs import CaseFailed

MANAGEMENT = "0x000001"

# ---------------------------------------------------------------- what a trace says, read by ourselves


@dataclasses.dataclass(frozen=True)
class Packet:
    """A line `sent`."""
    time: int  # ns since the first event
    qp: str
    headers: str
    bytes: int
    psn: int
    again: bool

    @property
    def opcode(self):
        return int(self.headers[:2], 16)


class Trace:
    def __init__(self, path):
        self.processes = events_in(path)
        events = [e for of in self.processes.values() for e in of if e["event"] != "start"]
        self.events = sorted(events, key=lambda e: e["t"])
        self.start = self.events[0]["t"]

    def packet(self, e):
        return Packet(e["t"] - self.start, e["qp"], e["headers"], e["bytes"], e["psn"], e["again"])

    def sent(self):
        return [self.packet(e) for e in named(self.events, "sent")]

    def dropped_by_faults(self):
        """The packets that --drop took: each is the newest of its process that looks so."""
        found = []
        for events in self.processes.values():
            for at, e in enumerate(events):
                if e["event"] == "fault" and e["kind"] == "drop":
                    found.append(next(self.packet(s) for s in reversed(events[:at])
                                      if s["event"] == "sent" and s["headers"].startswith(e["headers"])))
        return found

    def lost_by_headers(self):
        """How many of equal packets left and didn't arrive; of those that no receiver dropped."""
        dropped = {e["headers"] for e in named(self.events, "dropped")}
        arrived = collections.Counter(e["headers"] for e in named(self.events, "received"))
        left = collections.Counter(e["headers"] for e in named(self.events, "sent"))
        return {h: n - arrived[h] for h, n in left.items() if h not in dropped and n > arrived[h]}

    def failed_requests(self):
        return [e for e in named(self.events, "completion")
                if e["status"] != "SUCCESS" and not e["op"].startswith("RECV")]

    def states(self, qp):
        return [e["to"] for e in named(self.events, "state") if e["qp"] == qp]


def bth_of(headers):
    """The base transport header, IBA 9.2, as the page names its fields."""
    b = bytes.fromhex(headers)
    psn = int.from_bytes(b[9:12], "big")
    return {
        "opcode": f"0x{b[0]:02x}", "solicited event": yes(b[1] & 0x80), "migrated": yes(b[1] & 0x40),
        "pad": str(b[1] >> 4 & 3), "transport version": str(b[1] & 15),
        "P_Key": f"0x{b[2]:02x}{b[3]:02x}", "FECN": yes(b[4] & 0x80), "BECN": yes(b[4] & 0x40),
        "destination QP": f"0x{b[5:8].hex()}", "acknowledge request": yes(b[8] & 0x80),
        "PSN": f"{psn} (0x{psn:06x})"}


def reth_of(headers):
    b = bytes.fromhex(headers)[12:28]
    length = int.from_bytes(b[12:], "big")
    return {"virtual address": f"0x{b[:8].hex()}", "rkey": f"0x{b[8:12].hex()}",
            "length": f"{length} (0x{length:08x})"}


def yes(bit):
    return "yes" if bit else "no"


# ---------------------------------------------------------------- the page


@contextlib.contextmanager
def opened(page, **kind):
    with opened_alone(page, **kind) as browser:
        if not browser.run("return 'verbenaReport' in window"):
            raise CaseFailed(f"the page didn't start: {browser.complaints()}")
        yield browser
        errors = browser.run("return window.verbenaErrors")
        expect(not errors, f"errors of the page's script: {errors}")


def all_events(browser):
    return browser.run("return Array.from({length: verbenaReport.events}, (_, i) => verbenaReport.event(i))")


def list_length(browser):
    """Of the ladder, as it says itself."""
    browser.wait("!page.pending")
    text = browser.run("return document.getElementById('range').textContent")
    return 0 if text == "no events" else int(re.sub(r"\D", "", text[:text.index(" event")]))


def tiles(browser):
    """{"lost": "86", …}: what stands above the ladder."""
    return dict(browser.run("""return [...document.querySelectorAll('.tile')].map((t) =>
        [t.querySelector('.tile-name').textContent,
         t.querySelector('b').textContent.replaceAll('\\u202f', '')])"""))


def shown_headers(browser):
    """{header: {field: value}} of the panel beside the ladder."""
    return browser.run("""return Object.fromEntries(
        [...document.querySelectorAll('#details table')].map((table) =>
          [table.querySelector('caption b').textContent, Object.fromEntries(
             [...table.querySelectorAll('tr')].map((row) => [...row.cells].map((c) => c.textContent)))]))""")


def details(browser):
    return browser.run("return document.getElementById('details').textContent")


def click_event(browser, i, touch=False):
    """On the ladder, where event i is to be seen."""
    point = browser.run("return verbenaReport.whereIs(arguments[0])", i)
    expect(point, f"event {i} is not on the ladder")
    (browser.tap if touch else browser.click)(*point)
    expect(selected(browser) == i, f"{selected(browser)} is chosen instead of {i}")


def selected(browser):
    return browser.run("return verbenaReport.selected()")


def drawn(browser):
    return browser.run("return verbenaReport.drawn()")


# ---------------------------------------------------------------- kinds of cases


def write_report(host, network, folder, *files):
    page = f"{folder}/out.html"
    status, output = host.run(network.server.namespace,
                              [host.verbena, "report", *files, "--html", page], preload=False)
    check_output(status, output, 0, ())
    return page


@dataclasses.dataclass(frozen=True)
class LabPage(Case):
    """A lab is run, its page is opened."""
    lab: str = "hello"
    options: tuple = ()
    record: str = "--trace"
    window: tuple = ()  # of the browser

    def run(self, host, network):
        need_browser()
        with open_folder(host) as folder:
            recorded = self.make(host, network, folder)
            page = write_report(host, network, folder, *recorded)
            with opened(page, **dict(self.window)) as browser:
                return self.check(browser, recorded)

    def make(self, host, network, folder):
        """The files."""
        suffix = "jsonl" if self.record == "--trace" else "pcapng"
        status, output = host.run(
            network.server.namespace,
            [host.verbena, "lab", self.lab, self.record, f"{folder}/out.{suffix}", *self.options],
            preload=False, timeout=self.timeout)
        check_output(status, output, 0, ())
        return sorted(glob.glob(f"{folder}/out*.{suffix}"))

    def check(self, browser, recorded):
        raise NotImplementedError
