"""Every command in the documents works: blocks fenced as ```sh tested are run as they stand.

In a folder with nothing but the installed examples, with `verbena` in PATH and as build/bin/verbena and
with the installed rdma++.pc, on a private network.
"""

import dataclasses
import os
import pathlib
import re

import examples
from cases import LO, Case, check_output

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```sh tested\n(.*?)^```$", re.M | re.S)


@dataclasses.dataclass(frozen=True)
class Block(Case):
    commands: str = ""

    def run(self, host, network):
        self.output(self.commands, host, network)
        return ""

    def output(self, commands, host, network):
        """Of commands that succeed."""
        with host.scratch() as folder:
            os.mkdir(f"{folder}/build")
            os.symlink(f"{host.prefix}/bin", f"{folder}/build/bin")
            os.symlink(examples.installed(host), f"{folder}/examples")
            script = f"cd {folder}\n{commands}"
            status, output = host.run(
                network.server.namespace, ["bash", "-euo", "pipefail", "-c", script],
                preload=False, timeout=self.timeout,
                env={"HOME": folder, **examples.environment(host)})
        check_output(status, output, 0, ())
        return output


def documents():
    return [ROOT / "README.md", ROOT / "examples/README.md", *sorted(ROOT.glob("docs/**/*.md")),
            *sorted(ROOT.glob("labs/*/README.md"))]


def all_cases():
    found = []
    for path in documents():
        text = path.read_text(encoding="utf-8")
        for block in BLOCK.finditer(text):
            line = text.count("\n", 0, block.start()) + 1
            found.append(Block(LO, f"documents/{path.relative_to(ROOT)}:{line}", timeout=60,
                               commands=block.group(1)))
    return found
