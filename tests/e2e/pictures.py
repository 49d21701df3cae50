"""The pictures that documents show are what the report draws today.

The block ```sh picture FILE is how FILE is made: commands that write picture.svg. Measured times,
PSNs, numbers of queue pairs and of processes may differ.

With VERBENA_WRITE_DOCUMENTS=1 the cases write the files instead.
"""

import dataclasses
import os
import re
import xml.etree.ElementTree

from cases import LO
from documents import ROOT, Block, documents
from programs import CaseFailed

BLOCK = re.compile(r"^```sh picture (\S+)\n(.*?)^```$", re.M | re.S)
NUMBERS = re.compile(r"(?<=PSN )\d+|\b0x[0-9a-f]{6}\b|\d+\.\d+(?= ms)|(?<=[a-z] )\d{2,}$")


def drawn(svg):
    """The elements with their look and their words."""
    return [(element.tag.rpartition("}")[2], element.get("class"),
             NUMBERS.sub("#", element.text or ""))
            for element in xml.etree.ElementTree.fromstring(svg).iter()]


@dataclasses.dataclass(frozen=True)
class Picture(Block):
    path: str = ""

    def run(self, host, network):
        lines = self.output(f"{self.commands}\necho; cat picture.svg", host, network)
        seen = lines[lines.index("<svg"):]
        if os.environ.get("VERBENA_WRITE_DOCUMENTS") == "1":
            (ROOT / self.path).write_text(seen, encoding="utf-8")
            return "written"
        shown = drawn((ROOT / self.path).read_text(encoding="utf-8"))
        for was, now in zip(shown, drawn(seen)):
            if was != now:
                raise CaseFailed(f"{now}\ninstead of {was}\n{seen}")
        if len(shown) != len(drawn(seen)):
            raise CaseFailed(f"{len(drawn(seen))} elements instead of {len(shown)}\n{seen}")
        return ""


def all_cases():
    return [Picture(LO, f"picture/{os.path.basename(block[1])}", timeout=60, commands=block[2],
                    path=block[1])
            for path in documents()
            for block in BLOCK.finditer(path.read_text(encoding="utf-8"))]
