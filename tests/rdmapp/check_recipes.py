#!/usr/bin/env python3
"""Compiles every recipe of the cookbook: each ```cpp block, in a namespace of its own.

  check_recipes.py COOKBOOK INCLUDE CXX [FLAG…]     syntax only; names the line that is wrong
"""

import re
import subprocess
import sys

HEAD = """#include <poll.h>
#include <rdma++/rdma.h>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>
using namespace rdma;
"""


def recipes(lines):
    """(number of the first line, the lines) of each block."""
    start, block = None, []
    for number, line in enumerate(lines, 1):
        if start is None and line.strip() == "```cpp":
            start, block = number + 1, []
        elif start is not None and line.strip() == "```":
            yield start, block
            start = None
        elif start is not None:
            block.append(line)


def program(name, blocks):
    parts = [HEAD]
    for number, (start, block) in enumerate(blocks):
        parts.append(f'namespace recipe_{number} {{\n#line {start} "{name}"\n' + "\n".join(block) + "\n}\n")
    return "".join(parts)


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    cookbook, include, *compiler = sys.argv[1:]
    with open(cookbook, encoding="utf-8") as file:
        text = file.read()
    blocks = list(recipes(text.splitlines()))
    if len(blocks) < len(re.findall(r"^## ", text, re.MULTILINE)) - 1:
        print(f"{cookbook}: {len(blocks)} recipes only: a section has none")
        return 1
    command = [*compiler, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wconversion",
               "-Wsign-conversion", "-Wshadow", "-Werror", "-I", include, "-x", "c++", "-"]
    done = subprocess.run(command, input=program(cookbook, blocks), text=True)
    if done.returncode == 0:
        print(f"{len(blocks)} recipes compile")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
