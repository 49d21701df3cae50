"""`verbena report --html` in a browser: the page holds the packets of a run, and shows what it is asked
for."""

import collections
import dataclasses
import json
import pathlib

from browser import need_browser
from cases import LO
from observing import expect, named, open_folder, packets_in
from report_reader import (MANAGEMENT, Packet, Trace, bth_of, reth_of, opened, all_events,
                           list_length, tiles, shown_headers, details, click_event, selected,
                           drawn, write_report, LabPage)


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
    ]
