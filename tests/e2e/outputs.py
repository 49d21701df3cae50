"""What the documents show is what the programs print.

A block ```sh output or ```sh ladder is a command; the ```text block behind it is what it prints.

Of an output, measured times, addresses and ports may differ, and the order of lines of different
processes. Of ```sh output figures, every number may differ: a table of what was measured.

Of a ladder (the first, without its sums; the second of ```sh ladder 2), the rows of each end are
compared by lane: what it posts, what completes, what it requests, what it answers. A lane of the
picture is the beginning of a lane of what is seen. Times, PSNs, wr_ids and acknowledgements may
differ. So may repairs: what is sent again because one end is late, or tells the other to wait. In a
block ```sh ladder repairs, the repairs that it shows must be seen, too.

With VERBENA_WRITE_DOCUMENTS=1 the cases write the ```text blocks instead.
"""

import collections
import dataclasses
import os
import re
import threading

from cases import LO
from documents import ROOT, Block, documents
from programs import CaseFailed

BLOCK = re.compile(
    r"^```sh (output(?: figures)?|ladder(?: \d+)?(?: repairs)?)\n(.*?)^```\n\n```text\n(.*?)^```$", re.M | re.S)
WRITING = os.environ.get("VERBENA_WRITE_DOCUMENTS") == "1"
RUNS = 10  # of a ladder, to choose from when writing
CHANCES = 3  # of repairs: a seed counts packets, and a busy machine repeats some more
_writing = threading.Lock()  # cases run side by side

# ---------------------------------------------------------------- outputs

MEASURED = re.compile(r"0x[0-9a-f]+|\b\d+\.\d+\b|(?<=:)\d{4,5}\b|\b\d+(?= ?(?:[µu]s|ms|s|%|MiB/s)\b)")
FIGURES = re.compile(r"0x[0-9a-f]+|\d[\d.]*")


def lanes_of_output(text, differs=MEASURED):
    """Lines by the process that prints them; a table's columns may have other widths."""
    lanes = collections.defaultdict(list)
    for line in text.splitlines():
        who = re.match(r"(\w+(?: \d+)?) +\|", line)
        lanes[who[1] if who else ""].append(re.sub(r" +", " ", differs.sub("#", line)).strip())
    return lanes


# ---------------------------------------------------------------- ladders

ROW = re.compile(r"^ *[\d.]+ ms  (.*?) *$", re.M)
LADDER = re.compile(r"(?:^.*\n){2}(?:^ *[\d.]+ ms  .*\n)+", re.M)  # two lines name its ends
MORE = re.compile(r"⋮ (?:these )?(\d+) (more like this|lines (\d+) times more|lines? more) *│?$")

# A lane has an order. Two lanes have none: a program posts while its card sends and completes.
LANES = (("CM ", "connection"), ("post RECV", "posted receives"), ("post ", "posted sends"),
         ("RECV completed", "completed receives"), ("send completed", "completed sends"),
         ("again from", "retries"), (" → ", "states"), ("response|NAK|ACKNOWLEDGE", "answers"),
         ("", "requests"))
ACK = re.compile(r"\bACK\b")
REPAIR = re.compile(r"\bagain\b|a duplicate|ignored|RNR NAK")
DIFFERS = re.compile(r",? (PSN|wr_id) \w+|\bnot taken\b")  # not taken: it comes again


def ladders_of(text):
    return [found[0] for found in LADDER.finditer(text)]


def unfolded(rows):
    result = []
    for row in rows:
        more = MORE.match(row)
        if not more:
            result.append(row)
        elif more[2] in ("line more", "lines more"):
            break
        else:
            size, times = (1, more[1]) if more[2] == "more like this" else (int(more[1]), more[3])
            result.extend(result[-size:] * int(times))
    return result


def lanes_of_ladder(ladder):
    """What each end did: its rows by lane."""
    lanes = collections.defaultdict(list)
    for row in unfolded(ROW.findall(ladder)):
        words = DIFFERS.sub("", re.sub(r"[│├┤●○✔✘↻◇◀▶─═ ]+", " ", row)).strip()
        lane = next(name for pattern, name in LANES if re.search(pattern, words))
        if not ACK.search(words):
            lanes["right" if row.startswith("│") else "left", lane].append(words)
    return lanes


def first_difference(shown, seen, repairs):
    """None if each lane of the ladder `shown` begins a lane of the ladder `seen`.

    Repairs of `seen` may come in between. `repairs`: those of `shown` must be there."""
    seen = lanes_of_ladder(seen)
    for (end, lane), rows in lanes_of_ladder(shown).items():
        rest = iter(seen[end, lane])
        for row in rows:
            if not repairs and REPAIR.search(row):
                continue
            there = next((r for r in rest if r == row or not REPAIR.search(r)), "nothing")
            if there != row:
                return f"{end}, {lane}: {there}\ninstead of {row}"
    return None


# ---------------------------------------------------------------- cases

@dataclasses.dataclass(frozen=True)
class Shown(Block):
    path: str = ""
    info: str = ""  # the words behind ```sh
    shown: str = ""

    def run(self, host, network):
        if WRITING:
            runs = 1 if self.is_output() else RUNS
            parts = [self.part_of(self.output(self.commands, host, network)) for _ in range(runs)]
            self.write(min(parts, key=self.spare_rows))
            return "written"
        for chance in range(CHANCES if "repairs" in self.info else 1):
            text = self.output(re.sub(r"--ladder=\d+", "--ladder=0", self.commands), host, network)
            problem = self.problem(self.part_of(text))
            if not problem:
                return f"at try {chance + 1}" if chance else ""
        raise CaseFailed(f"{problem}\n{text}")

    def part_of(self, text):
        if self.is_output():
            return text
        number = next((int(word) for word in self.info.split() if word.isdigit()), 1)
        ladders = ladders_of(text)
        if len(ladders) < number:
            raise CaseFailed(f"{len(ladders)} ladders\n{text}")
        return re.sub(r" +$", "", ladders[number - 1], flags=re.M)

    def is_output(self):
        return self.info.startswith("output")

    def spare_rows(self, part):
        """The rows that another run may lack."""
        repairs = 0 if "repairs" in self.info else len(REPAIR.findall(part))
        return len(ACK.findall(part)) + repairs

    def problem(self, seen):
        if not self.is_output():
            return (self.wrong_length()
                    or first_difference(self.shown, seen, "repairs" in self.info))
        differs = FIGURES if "figures" in self.info else MEASURED
        shown, seen = lanes_of_output(self.shown, differs), lanes_of_output(seen, differs)
        for who in {*shown, *seen}:
            if shown[who] != seen[who]:
                return f"of \"{who}\": {seen[who]}\ninstead of {shown[who]}"
        return None

    def wrong_length(self):
        """A picture that was cut has as many lines as the command asks for."""
        *rows, last = ROW.findall(self.shown)
        asked = re.search(r"--ladder=(\d+)", self.commands)
        if asked and re.search("lines? more", last) and len(rows) != int(asked[1]):
            return f"{len(rows)} lines, not {asked[1]}"
        return None

    def write(self, text):
        with _writing:
            document = (ROOT / self.path).read_text(encoding="utf-8")
            head = f"```sh {self.info}\n{self.commands}```\n\n```text\n"
            at = document.index(head) + len(head)
            end = document.index("```\n", at)
            (ROOT / self.path).write_text(document[:at] + text + document[end:], encoding="utf-8")


def all_cases():
    found = []
    for path in documents():
        text = path.read_text(encoding="utf-8")
        name = str(path.relative_to(ROOT))
        for block in BLOCK.finditer(text):
            line = text.count("\n", 0, block.start()) + 1
            found.append(Shown(LO, f"documents/{name}:{line}", timeout=60, commands=block[2],
                               path=name, info=block[1], shown=block[3]))
    return found
