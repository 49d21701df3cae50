"""`verbena report --html` in a browser: the page holds the packets of the trace, shows what it is asked
for, and draws what is seen only."""

import collections
import contextlib
import dataclasses
import glob
import json
import pathlib
import re

from browser import need_browser, opened_alone
from cases import LO, Case, check_output
from observing import events_in, expect, named, open_folder, packets_in
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


@dataclasses.dataclass(frozen=True)
class HoldsTheTrace(LabPage):
    """The page's model is the trace, line by line."""
    loses: bool = False

    def check(self, browser, recorded):
        trace = Trace(recorded[0])
        events = all_events(browser)
        conversations = browser.run("return verbenaReport.conversations")
        packets = [e for e in events if e["kind"] == "packet"]
        self._check_packets(trace, packets, conversations)
        self._check_losses(trace, packets)
        for line, kind in (("post_send", "postSend"), ("post_recv", "postReceive"),
                           ("completion", "completion"), ("retry", "retry")):
            wanted, found = len(named(trace.events, line)), sum(e["kind"] == kind for e in events)
            expect(wanted == found, f"{found} events {kind}, {wanted} lines {line}")
        self._check_totals(trace, packets, tiles(browser))
        self._check_timeline(trace, browser, packets, conversations)
        return f"{len(packets)} packets, {sum('lost' in e['flags'] for e in packets)} lost"

    @staticmethod
    def _key(e, conversations):
        end = conversations[e["conversation"]][e["side"]]
        qp = MANAGEMENT if "connection" in e["flags"] else f"0x{end['qpn']:06x}"
        return Packet(e["time"], qp, e["headers"], e["bytes"], e["psn"], "again" in e["flags"])

    def _check_packets(self, trace, packets, conversations):
        sent = collections.Counter(trace.sent())
        found = collections.Counter(self._key(e, conversations) for e in packets)
        expect(sent == found, f"{len(sent)} packets were sent, the page has {len(found)};\n"
               f"not in the page: {list((sent - found))[:2]}\nnot in the trace: {list((found - sent))[:2]}")
        for e in packets:
            expect(e["opcode"] == int(e["headers"][:2], 16), f"opcode {e['opcode']} of {e['headers']}")

    def _check_losses(self, trace, packets):
        lost = collections.Counter((e["time"], e["headers"]) for e in packets if "lost" in e["flags"])
        faults = collections.Counter((p.time, p.headers) for p in trace.dropped_by_faults())
        expect(bool(faults) == self.loses, f"{len(faults)} packets were dropped on purpose")
        expect(faults <= lost, f"dropped, and not marked lost: {list(faults - lost)[:3]}")
        by_headers = collections.Counter(headers for _, headers in lost.elements())
        for headers, count in trace.lost_by_headers().items():
            expect(by_headers[headers] == count,
                   f"{by_headers[headers]} lost instead of {count} of {headers}")
        if self.loses:
            expect(any("again" in e["flags"] for e in packets), "nothing was sent again")

    @staticmethod
    def _check_totals(trace, packets, shown):
        flagged = collections.Counter(flag for e in packets for flag in e["flags"])
        wanted = {"packet": len(packets), "request": len(named(trace.events, "post_send")),
                  "request failed": len(trace.failed_requests()), "sent again": flagged["again"],
                  "lost": flagged["lost"], "RNR NAK": flagged["rnr"], "NAK": flagged["nak"],
                  "dropped": flagged["dropped"], "retry": len(named(trace.events, "retry"))}
        plurals = {"retry": "retries", "request failed": "requests failed"}
        for name, count in wanted.items():
            text = shown.get(name, shown.get(plurals.get(name, name + "s"), "0"))
            expect(text == str(count), f"the page says {text} {name} instead of {count}: {shown}")

    @staticmethod
    def _check_timeline(trace, browser, packets, conversations):
        """Throughput and the states of both queue pairs, of the conversation that is shown."""
        shown = browser.run("return page.conversation")
        counted, states = browser.run("""
            page.chart.zoomTo(0, model.end + 1);
            const sum = (lists) => lists.map((list) => list.reduce((s, v) => s + v, 0));
            const { first, again } = page.chart.bins;
            return [[sum(first), sum(again)], page.chart.findStates().map((l) => l.map((s) => s.name))];""")
        for again in (0, 1):
            wanted = [sum(e["bytes"] for e in packets if e["conversation"] == shown
                          and e["side"] == side and ("again" in e["flags"]) == bool(again))
                      for side in ("left", "right")]
            expect(counted[again] == wanted, f"throughput of {counted[again]} bytes, not {wanted}")
        for found, side in zip(states, ("left", "right")):
            qp = f"0x{conversations[shown][side]['qpn']:06x}"
            expect(found == trace.states(qp), f"{qp}: {found} instead of {trace.states(qp)}")


@dataclasses.dataclass(frozen=True)
class ShowsHeaders(LabPage):
    """A click on an arrow: the headers as the bytes of the trace say, and the rule."""

    def check(self, browser, recorded):
        trace = Trace(recorded[0])
        events = all_events(browser)
        writes = [i for i, e in enumerate(events) if e["kind"] == "packet" and e["opcode"] == 0x0a]
        lost = [i for i, e in enumerate(events) if "lost" in e["flags"]]
        answers = [i for i, e in enumerate(events) if e["kind"] == "packet" and e["opcode"] == 0x11]
        sent = {(p.time, p.headers) for p in trace.sent()}
        for i in (writes[0], lost[0], answers[-1]):
            expect((events[i]["time"], events[i]["headers"]) in sent, f"nobody sent {events[i]}")
            browser.run("verbenaReport.select(arguments[0]); verbenaReport.select(-1)", i)  # into view
            click_event(browser, i)
            self._check_details(browser, events[i])
        return f"{len(writes)} WRITEs, {len(lost)} packets lost"

    @staticmethod
    def _check_details(browser, event):
        headers = shown_headers(browser)
        if event["opcode"] == 0x0a:
            expect(headers.get("RETH") == reth_of(event["headers"]), f"RETH {headers.get('RETH')}")
        bth = bth_of(event["headers"])
        fields = {name: headers["BTH"][name] for name in bth}
        fields["opcode"] = fields["opcode"].split()[0]
        expect(fields == bth, f"{fields}\ninstead of {bth}")
        dump = browser.run("""return [...document.querySelectorAll('#details .byte')]
            .map((b) => b.textContent).join('')""")
        expect(dump == event["headers"], f"bytes {dump} instead of {event['headers']}")
        number, text = event["rule"]
        words = browser.run("return document.querySelector('#details .rule')?.textContent")
        expect(text and words == (f"Rule {number}" if number else "Why") + text, f"rule: {words}")
        if "lost" in event["flags"]:
            expect("lost" in details(browser) and "--faults drop" in details(browser),
                   f"no word of its loss: {details(browser)}")


@dataclasses.dataclass(frozen=True)
class KeysAndSearch(LabPage):
    def check(self, browser, recorded):
        trace = Trace(recorded[0])
        browser.run("document.getElementById('ladder').focus()")
        events = browser.run("return [...model.eventsOf(page.conversation)]")
        for key, times, place in (("ArrowDown", 1, 0), ("ArrowDown", 40, 40), ("ArrowUp", 25, 15),
                                  ("ArrowUp", 20, 0)):
            browser.press(*[key] * times)
            expect(selected(browser) == events[place],
                   f"{times} {key}: {selected(browser)} is chosen instead of {events[place]}")
            self._check_in_view(browser)
        self._check_zoom(browser)
        self._check_search(browser, trace)
        self._check_errors(browser)
        browser.press("Escape")
        expect(selected(browser) == -1, "Escape leaves an event chosen")

    @staticmethod
    def _check_in_view(browser):
        expect(selected(browser) in drawn(browser), "the chosen event is out of sight")

    @staticmethod
    def _check_zoom(browser):
        before = len(drawn(browser))
        browser.press("-", "-")
        out = len(drawn(browser))
        browser.press("+", "+")
        expect(out > before == len(drawn(browser)), f"zoom: {before}, {out}, {len(drawn(browser))}")
        browser.press("m")
        expect(browser.run("return page.axis.mode") == "time", "m doesn't choose the mode of time")
        expect(drawn(browser), "nothing is drawn in the mode of time")
        browser.press("m")

    def _check_search(self, browser, trace):
        wanted = [p for p in trace.sent() if p.qp != MANAGEMENT][-1]
        browser.press("/", *f"psn {wanted.psn}", "Enter")
        event = browser.run("return verbenaReport.event(verbenaReport.selected())")
        expect(event["psn"] == wanted.psn and event["kind"] == "packet", f"found {event}")
        self._check_in_view(browser)
        browser.run("const find = document.getElementById('find'); find.value = ''; find.focus()")
        browser.press(*"nothing has this name", "Enter")
        said = browser.run("return document.getElementById('said').textContent")
        expect("Nothing matches" in said, f"said: {said}")
        browser.press("Escape")
        expect(browser.run("return document.activeElement.id") == "ladder", "Escape stays in the field")

    def _check_errors(self, browser):
        """n goes through all that the filter shows of trouble, in its order."""
        whole = list_length(browser)
        troubles = browser.run("""return [...model.eventsOf(page.conversation)]
            .filter((i) => model.isTrouble(i))""")
        visited = []
        for _ in troubles:
            browser.press("n")
            visited.append(selected(browser))
        expect(visited == troubles, f"n went to {visited} instead of {troubles}")
        self._check_in_view(browser)
        browser.press("e")
        few = list_length(browser)
        quiet = browser.run("""const troubles = 'again lost duplicate dropped notTaken nak rnr'.split(' ');
            return verbenaReport.drawn().map(verbenaReport.event).filter((e) =>
              e.kind === 'packet' && !e.flags.some((f) => troubles.includes(f)))""")
        expect(len(troubles) <= few < whole and not quiet, f"{few} of {whole}, with {quiet[:2]}")
        browser.press("e")
        expect(list_length(browser) == whole, "without the filter, events are missing")


@dataclasses.dataclass(frozen=True)
class LightAndDark(LabPage):
    """Each as the system asks, each the other way by a key; text stands out from its ground."""

    def run(self, host, network):
        need_browser()
        with open_folder(host) as folder:
            page = write_report(host, network, folder, *self.make(host, network, folder))
            grounds = {}
            for dark in (False, True):
                with opened(page, dark=dark) as browser:
                    grounds[dark] = self._ground(browser)
                    self._check_contrast(browser)
                    browser.press("t")
                    grounds[dark, "t"] = self._ground(browser)
        expect(grounds[False] == grounds[True, "t"] != grounds[True] == grounds[False, "t"], f"{grounds}")

    @staticmethod
    def _ground(browser):
        """Of the page and of the ladder, with the colour of its text."""
        browser.wait("!page.pending")
        return browser.run("""return [':root', '.stage'].map((name) =>
            getComputedStyle(document.querySelector(name)).backgroundColor).concat(page.ladder.colors.ink)""")

    @staticmethod
    def _check_contrast(browser):
        """WCAG 2, 1.4.3: 4.5 to 1 for text."""
        colors = browser.run("return readColors()")

        def light(name):
            parts = [int(colors[name][i:i + 2], 16) / 255 for i in (1, 3, 5)]
            parts = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
            return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

        for name in ("ink", "muted", "faint", "request", "response", "connection", "again", "rnr", "bad",
                     "good", "accent"):
            a, b = sorted((light(name), light("surface")))
            expect((b + 0.05) / (a + 0.05) >= 4.5, f"{name} {colors[name]} on {colors['surface']}")


@dataclasses.dataclass(frozen=True)
class OnAPhone(LabPage):
    def check(self, browser, recorded):
        self._check_width(browser)
        packet = next(i for i, e in enumerate(all_events(browser)) if e["opcode"] == 0x0a)
        browser.run("""document.getElementById('ladder').scrollIntoView({block: 'center'});
            verbenaReport.select(arguments[0]); verbenaReport.select(-1)""", packet)
        click_event(browser, packet, touch=True)
        expect("BTH" in details(browser), f"no header in {details(browser)}")
        self._check_width(browser)
        browser.run("document.getElementById('fold').click()")
        expect(browser.run("return document.querySelector('#conversation-list .row').offsetHeight") > 0,
               "the conversations can't be chosen")
        browser.run("document.getElementById('tab-requests').click()")
        self._check_width(browser)

    @staticmethod
    def _check_width(browser):
        inner, wide = browser.run("return [innerWidth, document.documentElement.scrollWidth]")
        expect(inner == wide, f"{wide} pixels on a screen of {inner}")
        out = browser.run("""return [...document.querySelectorAll('button, input, .tile, .end, canvas')]
            .filter((e) => e.offsetWidth && e.getBoundingClientRect().right > innerWidth + 0.5)
            .map((e) => e.id || e.className)""")
        expect(not out, f"beyond the right edge: {out}")


@dataclasses.dataclass(frozen=True)
class OfACapture(LabPage):
    """What one process captured: packets, and nobody's program."""

    def make(self, host, network, folder):
        return [path for path in super().make(host, network, folder) if path.endswith("/out.pcapng")]

    def check(self, browser, recorded):
        packets = [e for e in all_events(browser) if e["kind"] == "packet"]
        expect(browser.run("return verbenaReport.events") == len(packets), "a capture has packets only")
        ways = collections.defaultdict(collections.Counter)
        for flags, packet in packets_in(recorded[0]):
            ways[flags & 3][self._headers(packet)] += 1
        # A frame for another process of this address may be seen twice: as it leaves, and as it
        # comes by.
        captured = ways[1] | ways[2]
        found = collections.Counter(e["headers"] for e in packets)
        expect(captured == found, f"not in the page: {list(captured - found)[:2]}, "
               f"not captured: {list(found - captured)[:2]}")
        ends = browser.run("return document.getElementById('ends').textContent")
        expect(ends.count("QP 0x") == ends.count("not traced") == 2, f"the ends are {ends}")
        return f"{len(packets)} packets"

    @staticmethod
    def _headers(packet):
        """From the base transport header on, without payload: of an IPv4 packet."""
        bth = packet[28:]
        size = {0x06: 28, 0x0a: 28, 0x08: 12, 0x0c: 28, 0x0d: 16, 0x0e: 12, 0x0f: 16, 0x10: 16, 0x11: 16,
                0x64: 20 + 256}[bth[0]]
        return bth[:size].hex()


@dataclasses.dataclass(frozen=True)
class TwoMachines(LabPage):
    """The trace of each process in its own file; one machine's clock is off, its uptime another."""
    BEHIND = 3_700_000_000  # ns
    YOUNGER = 5_000_000_000_000

    def make(self, host, network, folder):
        both, = super().make(host, network, folder)
        lines = [json.loads(line) for line in open(both)]
        first, second = dict.fromkeys(e["pid"] for e in lines)
        for e in lines:
            if e["pid"] != second:
                continue
            e["t"] += self.YOUNGER
            if e["event"] == "start":
                e.update(wall=e["wall"] + self.BEHIND, boot="another machine's", host="other")
        files = []
        for pid, name in ((first, "left"), (second, "right")):
            files.append(f"{folder}/{name}.jsonl")
            with open(files[-1], "w") as out:
                out.writelines(json.dumps(e) + "\n" for e in lines if e["pid"] == pid)
        return files

    def check(self, browser, recorded):
        packets = [e for e in all_events(browser) if e["kind"] == "packet"]
        sent = Trace(pathlib.Path(recorded[0]).with_name("out.jsonl")).sent()  # by one clock
        expect(collections.Counter(e["headers"] for e in packets)
               == collections.Counter(p.headers for p in sent),
               f"{len(packets)} packets instead of {len(sent)}")
        conversations = browser.run("return verbenaReport.conversations")
        expect(len(conversations) == 1 and all(conversations[0][s]["traced"] for s in ("left", "right")),
               f"{conversations}")
        arrived = [e for e in packets if e["arrived"] is not None]
        early = [e for e in arrived if e["arrived"] < e["time"]]
        expect(not early, f"{len(early)} of {len(arrived)} packets arrive before they leave: {early[:1]}")
        late = max(e["arrived"] - e["time"] for e in arrived)
        expect(len(arrived) > len(packets) / 2 and late < self.BEHIND / 2, f"a packet took {late} ns")
        offsets = [abs(e["time"] - p.time) for e, p in zip(
            sorted(packets, key=lambda e: (e["headers"], e["time"])),
            sorted(sent, key=lambda p: (p.headers, p.time)))]
        expect(max(offsets) < 50_000_000, f"times differ from one clock's by {max(offsets)} ns")
        about = browser.run("return document.getElementById('sources').textContent")
        expect("found by matching packets" in about, f"no word of the clocks: {about}")
        return f"{len(arrived)} packets arrive after they left, by {max(offsets) / 1000:.0f} µs"


@dataclasses.dataclass(frozen=True)
class OneEnd(LabPage):
    """A shared receive queue has no other end: one lifeline, no name, no packets."""

    def check(self, browser, recorded):
        shared = browser.run("return verbenaReport.conversations.findIndex((c) => c.type === 'SRQ')")
        expect(shared >= 0, "no conversation is a shared receive queue")
        browser.run("document.querySelectorAll('#conversation-list .row')[arguments[0]].click()", shared)
        expect(browser.run("return page.conversation") == shared, "a click on the list shows another one")
        left, right = browser.run("""return ['left', 'right'].map((name) =>
            document.querySelector(`.end.${name}`).textContent)""")
        expect("SRQ" in left and not right, f"the ends are \"{left}\" and \"{right}\"")
        kinds = browser.run("return verbenaReport.drawn().map((i) => verbenaReport.event(i).kind)")
        expect(kinds and set(kinds) == {"postReceive"}, f"drawn: {set(kinds)}")
        lifelines = browser.run("return page.ladder.lifelines")
        expect(len(lifelines) == 1, f"lifelines at {lifelines}")
        browser.run("document.getElementById('ladder').focus()")
        browser.press("ArrowDown")
        expect("SRQ" in details(browser), f"of a receive: {details(browser)}")


# ---------------------------------------------------------------- traces made up


STATE = {"event": "state", "from": "RTR", "to": "RTS", "type": "RC", "device": "vb_a", "mtu": 1024}


class Script:
    """A trace of a client and a server on one machine, written by hand."""
    QPS = ("0x0001a2", "0x0001a3")
    ADDRESSES = ("::ffff:10.0.0.1", "::ffff:10.0.0.2")

    def __init__(self, program):
        self.lines = []
        self.now = 0
        for pid in (1, 2):
            self.add(pid, event="start", version=2, wall=1_700_000_000_000_000_000, program=program,
                     host="a", boot="a")
        for pid in (1, 2):
            self.add(pid, **STATE, qp=self.QPS[pid - 1], peer_qp=self.QPS[2 - pid],
                     local=self.ADDRESSES[pid - 1], peer=self.ADDRESSES[2 - pid])

    def add(self, pid, **fields):
        self.now += 1000
        self.lines.append({"t": self.now, "pid": pid, **fields})

    def packet(self, sender, opcode, psn, more="", arrives=True):
        """Leaves one process and arrives at the other."""
        destination = self.QPS[2 - sender]
        fields = {"destination_qp": destination, "psn": psn, "bytes": 8 if not more else 0,
                  "ack_request": False, "headers": f"{opcode:02x}00ffff00{destination[2:]}00{psn:06x}{more}"}
        self.add(sender, event="sent", qp=self.QPS[sender - 1], again=False, **fields)
        if arrives:
            self.add(3 - sender, event="received", qp=destination, **fields)
        return fields

    def write(self, path):
        pathlib.Path(path).write_text("".join(json.dumps(e) + "\n" for e in self.lines))


@dataclasses.dataclass(frozen=True)
class MadeUp(Case):
    """What became of packets, in words and colours; names that look like HTML stay names."""
    HOSTILE = "<img src=x onerror=verbenaErrors.push(1)>"

    def run(self, host, network):
        need_browser()
        script = Script(self.HOSTILE)
        script.packet(1, 0x04, 10)
        script.packet(2, 0x11, 10, "1f000001")
        dropped = script.packet(1, 0x04, 11)
        script.add(2, event="dropped", reason="drop_no_receive", qp=script.QPS[1], **dropped)
        ignored = script.packet(2, 0x11, 10, "1f000002")
        script.add(1, event="dropped", reason="drop_response", qp=script.QPS[0], **ignored)
        script.packet(1, 0x04, 12, arrives=False)
        script.packet(1, 0x04, 13)
        with open_folder(host) as folder:
            script.write(f"{folder}/out.jsonl")
            with opened(write_report(host, network, folder, f"{folder}/out.jsonl")) as browser:
                self._check(browser)

    def _check(self, browser):
        drawn_as = browser.run("""return [...Array(model.length).keys()]
            .filter((i) => model.kind[i] === Kind.packet)
            .map((i) => [packetLabel(model, i), styleOf(model, i).color, model.isTrouble(i)])""")
        expect(drawn_as == [["SEND only · PSN 10 · 8 B", "request", False],
                            ["ACK · PSN 10", "response", False],
                            ["SEND only · PSN 11 · dropped · no receive posted · 8 B", "request", True],
                            ["ACK · PSN 10 · ignored", "faint", False],
                            ["SEND only · PSN 12 · 8 B", "request", True],
                            ["SEND only · PSN 13 · not taken · 8 B", "request", True]], f"{drawn_as}")
        expect(tiles(browser) | {"lost": "1", "dropped": "1", "not taken": "1"} == tiles(browser),
               f"{tiles(browser)}")
        expect(browser.run("return document.images.length") == 0, "a program's name became an image")
        ends = browser.run("return document.getElementById('ends').textContent")
        expect(ends.count(self.HOSTILE) == 2, f"the ends are {ends}")


@dataclasses.dataclass(frozen=True)
class NoPackets(Case):
    """Of a queue pair that only waited; for every key."""

    def run(self, host, network):
        need_browser()
        script = Script("idle")
        script.add(1, event="post_recv", qp=script.QPS[0], wr_id="7", bytes=64)
        with open_folder(host) as folder:
            script.write(f"{folder}/out.jsonl")
            with opened(write_report(host, network, folder, f"{folder}/out.jsonl")) as browser:
                expect(list_length(browser) == 3, "there are not two states and a receive")
                browser.run("document.getElementById('ladder').focus()")
                browser.press(*"m+-0nebtm", "ArrowDown", "PageDown", "End", "Enter", "Escape")
                browser.press("e", *["ArrowDown"] * 3)
                expect("post receive" in details(browser), f"of the receive: {details(browser)}")
                browser.run("document.getElementById('tab-requests').click()")
                browser.wait("!page.pending")


@dataclasses.dataclass(frozen=True)
class SlowPacket(Case):
    """One that takes very long is drawn beside thousands that leave meanwhile, and hides none."""
    packets: int = 3000

    def run(self, host, network):
        need_browser()
        script = Script("slow")
        slow = script.packet(1, 0x04, 1, arrives=False)
        for psn in range(2, self.packets):
            script.packet(1, 0x04, psn)
        script.add(2, event="received", qp=script.QPS[1], **slow)
        with open_folder(host) as folder:
            script.write(f"{folder}/out.jsonl")
            with opened(write_report(host, network, folder, f"{folder}/out.jsonl")) as browser:
                browser.run("document.getElementById('ladder').focus()")
                browser.press("m")
                browser.press("/", *f"psn {self.packets // 2}", "Enter")
                seen = browser.run("return verbenaReport.drawn().map((i) => verbenaReport.event(i).psn)")
                expect({1, self.packets // 2} <= set(seen) and len(seen) < 200, f"PSNs {seen[:20]} are drawn")


@dataclasses.dataclass(frozen=True)
class Million(Case):
    """However many events there are, a redraw reads and draws a few thousand things at most."""
    writes: int = 250_000  # of four events each
    MOST_CALLS = 10_000  # of a canvas
    MOST_READS = 60_000  # of the model's arrays

    def run(self, host, network):
        need_browser()
        with open_folder(host) as folder:
            self._write(f"{folder}/out.jsonl")
            page = write_report(host, network, folder, f"{folder}/out.jsonl")
            with opened(page) as browser:
                return self._check(browser)

    def _write(self, path):
        """As the client saw it. A line in a thousand is a repetition."""
        script = Script("million")
        script.lines = [e for e in script.lines if e["pid"] == 1]
        script.write(path)
        with open(path, "a") as out:
            for i in range(self.writes):
                t, psn = 10_000 + 5000 * i, i & 0xffffff
                again = "true" if i % 1000 == 999 else "false"
                out.write(
                    f'{{"t":{t},"pid":1,"event":"post_send","qp":"0x0001a2","wr_id":"{i}",'
                    '"op":"RDMA_WRITE","bytes":512}\n'
                    f'{{"t":{t + 500},"pid":1,"event":"sent","qp":"0x0001a2","destination_qp":"0x0001a3",'
                    f'"psn":{psn},"bytes":512,"ack_request":true,"again":{again},'
                    f'"headers":"0a00ffff000001a380{psn:06x}00007f00000010000000123400000200"}}\n'
                    f'{{"t":{t + 4000},"pid":1,"event":"received","qp":"0x0001a2",'
                    f'"destination_qp":"0x0001a2","psn":{psn},"bytes":0,"ack_request":false,'
                    f'"headers":"1100ffff000001a200{psn:06x}1f{psn:06x}"}}\n'
                    f'{{"t":{t + 4500},"pid":1,"event":"completion","qp":"0x0001a2","wr_id":"{i}",'
                    '"status":"SUCCESS","op":"RDMA_WRITE","bytes":512}\n')

    # Counts calls of the canvases' contexts, and elements that are read of the model's arrays.
    COUNT = """
        window.work = { calls: 0, reads: 0 };
        const drawing = CanvasRenderingContext2D.prototype;
        for (const name of Object.getOwnPropertyNames(drawing)) {
          const { value } = Object.getOwnPropertyDescriptor(drawing, name);
          if (typeof value !== 'function' || name === 'constructor') continue;
          drawing[name] = function (...a) { ++work.calls; return value.apply(this, a); };
        }
        for (const name of ['kind', 'right', 'flags', 'time', 'arrived', 'request', 'what', 'note', 'psn',
                            'bytes']) {
          model[name] = new Proxy(model[name], { get(list, key) { ++work.reads; return list[key]; } });
        }
        window.measure = () => {
          Object.assign(work, { calls: 0, reads: 0 });
          page.drawNow();
          return { ...work, drawn: page.ladder.hits.length, shown: page.axis.range() };
        };"""

    def _check(self, browser):
        counts = browser.run("""const counts = [0, 0, 0, 0, 0, 0];
            for (const kind of model.kind) ++counts[kind];
            return counts;""")
        expect(counts == [self.writes, 0, 2 * self.writes, 0, self.writes, 1], f"events by kind: {counts}")
        expect(tiles(browser)["sent again"] == str(self.writes // 1000), f"{tiles(browser)}")
        browser.run("document.getElementById('ladder').focus()")
        browser.run(self.COUNT)
        worst = collections.Counter()
        for mode in ("steps", "time"):
            expect(browser.run("return page.axis.mode") == mode, f"the mode is not {mode}")
            browser.press("0")
            self._measure(browser, worst, everything=True)
            for _ in range(6):
                browser.press("+", "+", "+", "+")
                self._measure(browser, worst)
                browser.press("PageDown")
                self._measure(browser, worst)
            expect(drawn(browser), f"nothing to click when zoomed in, in the mode of {mode}")
            browser.press("m")
        self._check_middle(browser)
        return f"at most {worst['calls']} calls, {worst['reads']} reads, {worst['drawn']} events drawn"

    def _measure(self, browser, worst, everything=False):
        found = browser.run("return measure()")
        a, b = found.pop("shown")
        expect(not everything or b - a > self.writes * 4, f"{b - a} events are not all")
        expect(found["calls"] <= self.MOST_CALLS and found["reads"] <= self.MOST_READS,
               f"a redraw of {b - a} events: {found}")
        for name, count in found.items():
            worst[name] = max(worst[name], count)

    def _check_middle(self, browser):
        psn = self.writes // 2
        browser.press("/", *f"psn {psn}", "Enter")
        event = browser.run("return verbenaReport.event(verbenaReport.selected())")
        expect(event["psn"] == psn, f"found {event}")
        expect(shown_headers(browser)["BTH"]["PSN"] == f"{psn} (0x{psn:06x})", "other headers are shown")
        click_event(browser, selected(browser))


# ---------------------------------------------------------------- the table


def all_cases():
    lossy = ("--drop", "5%", "--seed", "7", "--iters", "60", "--size", "8192")
    phone = (("width", 390), ("height", 844), ("phone", True))
    return [
        HoldsTheTrace(LO, "report-page/holds-a-lossy-trace", lab="write-read", options=lossy, loses=True,
                      quick=True),
        HoldsTheTrace(LO, "report-page/holds-a-trace-with-rnr", lab="send-recv",
                      options=("--iters", "100")),
        HoldsTheTrace(LO, "report-page/holds-a-trace-of-errors", lab="errors"),
        ShowsHeaders(LO, "report-page/click-shows-headers", lab="write-read", options=lossy),
        KeysAndSearch(LO, "report-page/keys-and-search", lab="write-read", options=lossy),
        LightAndDark(LO, "report-page/light-and-dark"),
        OnAPhone(LO, "report-page/phone", lab="write-read", options=lossy, window=phone),
        OfACapture(LO, "report-page/capture", lab="write-read", record="--pcap",
                   options=("--iters", "60")),
        TwoMachines(LO, "report-page/two-machines", lab="write-read", options=lossy),
        OneEnd(LO, "report-page/shared-receive-queue", lab="srq"),
        MadeUp(LO, "report-page/fates-and-names"),
        NoPackets(LO, "report-page/no-packets"),
        SlowPacket(LO, "report-page/slow-packet"),
        Million(LO, "report-page/million-events", timeout=120),
    ]
