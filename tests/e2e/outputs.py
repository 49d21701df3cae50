"""What the documents show is what the programs print.

A block ```sh output or ```sh ladder is a command; the ```text block behind it is what it prints. Of an
output, measured times, addresses and ports may differ, and the order of lines of different
processes. Of a ladder (the first, without its sums), times, PSNs and numbers of queue pairs may differ,
how many requests an acknowledgement covers, and what stands side by side at the two ends.

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

BLOCK = re.compile(r"^```sh (output|ladder)\n(.*?)^```\n\n```text\n(.*?)^```$", re.M | re.S)
WRITING = os.environ.get("VERBENA_WRITE_DOCUMENTS") == "1"
_writing = threading.Lock()  # cases run side by side

# ---------------------------------------------------------------- outputs

MEASURED = re.compile(r"0x[0-9a-f]+|\b\d+\.\d+\b|(?<=:)\d{4,5}\b|\b\d+(?= ?(?:[µu]s|ms|s|%|MiB/s)\b)")


def lanes_of_output(text):
    """Lines by the process that prints them; a table's columns may have other widths."""
    lanes = collections.defaultdict(list)
    for line in text.splitlines():
        who = re.match(r"(\w+(?: \d+)?) +\|", line)
        lanes[who[1] if who else ""].append(re.sub(r" +", " ", MEASURED.sub("#", line)).strip())
    return lanes


# ---------------------------------------------------------------- ladders

ROW = re.compile(r"^ *[\d.]+ ms  (.*?)\s*$")
MORE = re.compile(r"⋮ (?:these )?(\d+) (more like this|lines (\d+) times more|lines more) *│?$")
SIGNS = "●○✔✘↻◇"


def ladders_of(text):
    """The lines of each ladder, heads left out."""
    found, inside = [], False
    for line in text.splitlines():
        row = ROW.match(line)
        if row and not inside:
            found.append([])
        inside = bool(row)
        if row:
            found[-1].append(row[1])
    return found


def unfolded(rows):
    result = []
    for row in rows:
        more = MORE.match(row)
        if not more:
            result.append(row)
        elif more[2] == "lines more":
            break
        else:
            size, times = (1, more[1]) if more[2] == "more like this" else (int(more[1]), more[3])
            result.extend(result[-size:] * int(times))
    return result


def lanes_of_ladder(rows):
    """What each end did and sent, in its order."""
    lanes = collections.defaultdict(list)
    for row in unfolded(rows):
        row = re.sub(r"PSN \d+", "PSN", re.sub(r"wr_id \w+", "wr_id", row))
        words = re.sub(r"[│├┤─═◀▶ ]+", " ", row).strip()
        if "ACK, PSN" in words and "NAK" not in words:
            continue
        if row[0] in SIGNS:
            lanes["left"].append(words)
        elif row[-1] in SIGNS:
            lanes["right"].append(words)
        else:
            lanes["from left" if row[0] == "├" else "from right"].append(words)
    return lanes


def is_again(words):
    return "again" in words or "a duplicate" in words


def first_difference(shown, seen):
    """None where each lane of `shown` begins a lane of `seen`."""
    # Without losses, what a busy machine repeats is no part of the picture.
    calm = not any(is_again(w) for words in shown.values() for w in words)
    for lane, words in shown.items():
        there = [w for w in seen[lane] if not (calm and is_again(w))][:len(words)]
        if there != words:
            at = next(i for i, w in enumerate([*words, None]) if i >= len(there) or there[i] != w)
            return f"{lane}, row {at}: {there[at] if at < len(there) else 'nothing'}\n" \
                   f"instead of {words[at]}"
    return None


# ---------------------------------------------------------------- cases

@dataclasses.dataclass(frozen=True)
class Shown(Block):
    path: str = ""
    kind: str = ""
    shown: str = ""

    def run(self, host, network):
        if WRITING:
            self.write(self.part_of(self.output(self.commands, host, network)))
            return "written"
        commands = re.sub(r"--ladder=\d+", "--ladder=0", self.commands)
        seen = self.output(commands, host, network)
        problem = self.ladder_problem(seen) if self.kind == "ladder" else self.output_problem(seen)
        if problem:
            raise CaseFailed(f"{problem}\n{seen}")
        return ""

    def part_of(self, text):
        if self.kind == "output":
            return text
        lines = text.split("\n")
        first = next(i for i, line in enumerate(lines) if ROW.match(line))
        last = next((i for i in range(first, len(lines)) if not ROW.match(lines[i])), len(lines))
        return "".join(line.rstrip() + "\n" for line in lines[first - 2:last])

    def output_problem(self, seen):
        shown, seen = lanes_of_output(self.shown), lanes_of_output(seen)
        for who in {*shown, *seen}:
            if shown[who] != seen[who]:
                return f"of \"{who}\": {seen[who]}\ninstead of {shown[who]}"
        return None

    def ladder_problem(self, seen):
        shown = lanes_of_ladder(ladders_of(self.shown)[0])
        problems = [first_difference(shown, lanes_of_ladder(rows)) for rows in ladders_of(seen)]
        return None if None in problems else "\n".join(problems) or "no ladder"

    def write(self, text):
        with _writing:
            document = (ROOT / self.path).read_text(encoding="utf-8")
            head = f"```sh {self.kind}\n{self.commands}```\n\n```text\n"
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
                               path=name, kind=block[1], shown=block[3]))
    return found
