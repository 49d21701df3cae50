#!/usr/bin/env python3
"""Whether what is in a folder starts on other systems: check_portable.py FOLDER GLIBC

No ELF file there needs a glibc later than GLIBC, nor a library that is neither glibc's, nor
rdma-core's, nor in the folder.
"""

import re
import subprocess
import sys
from pathlib import Path

GLIBC = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1"}
RDMA_CORE = {"libibverbs.so.1", "librdmacm.so.1"}


def number(version):
    return tuple(int(part) for part in version.split("."))


def main(folder, glibc):
    files = [path for path in Path(folder).rglob("*")
             if path.is_file() and not path.is_symlink() and path.read_bytes()[:4] == b"\x7fELF"]
    here = {path.name for path in files}
    problems = []
    for path in files:
        text = subprocess.run(["readelf", "-W", "-d", "--version-info", path], check=True,
                              capture_output=True, text=True).stdout
        latest = max((number(v) for v in re.findall(r"GLIBC_([0-9.]+)", text)), default=(0,))
        if latest > number(glibc):
            problems.append(f"{path}: glibc {'.'.join(map(str, latest))} is later than {glibc}")
        for needed in re.findall(r"\(NEEDED\).*\[(.*)\]", text):
            known = (needed in GLIBC | RDMA_CORE | here or needed.startswith("ld-linux")
                     or needed == "/usr/$LIB/libibverbs.so.1"
                     or (needed.startswith("$ORIGIN/")
                         and (path.parent / needed.removeprefix("$ORIGIN/")).exists()))
            if not known:
                problems.append(f"{path}: needs {needed}")
    for problem in problems:
        print("wrong:", problem)
    print(f"{len(files)} files start with glibc {glibc}" if files and not problems else "")
    return 0 if files and not problems else 1


if len(sys.argv) != 3:
    sys.exit(__doc__)
sys.exit(main(*sys.argv[1:]))
