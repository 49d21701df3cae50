"""`verbena report --html` of traces that no run would give: strange names, odd times, a million events."""

import collections
import dataclasses
import json
import pathlib

from browser import need_browser
from cases import LO, Case
from observing import expect, open_folder
from report_reader import (opened, list_length, tiles, shown_headers, details, click_event,
                           selected, drawn, write_report)

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
    return [
        MadeUp(LO, "report-page/fates-and-names"),
        NoPackets(LO, "report-page/no-packets"),
        SlowPacket(LO, "report-page/slow-packet"),
        Million(LO, "report-page/million-events", timeout=120),
    ]
