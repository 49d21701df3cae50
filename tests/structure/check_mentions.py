#!/usr/bin/env python3
"""Checks that a document speaks of what is there: every file and every test that it names.

  check_mentions.py check ROOT DOCUMENT   names in `backticks`: a path, SUITE.TEST or SUITE.*
  check_mentions.py selftest              plants names of nothing and expects them to be found
"""

import argparse
import pathlib
import re
import sys
import tempfile

CODE = re.compile(r"`([^`\n]+)`")
TEST = re.compile(r"[A-Z]\w*\.(?:[A-Z]\w*|\*)")
DEFINED = re.compile(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)", re.MULTILINE)
FOLDERS = ("src/", "tests/", "front/", "docs/", "bench/", "tools/", "scripts/", "cmake/")


def tests_of(root):
    """SUITE.TEST of everything under tests/."""
    names = set()
    for path in sorted((root / "tests").rglob("*.cc")):
        names |= {f"{suite}.{test}" for suite, test in DEFINED.findall(path.read_text())}
    return names


def check(root, document):
    """(how many names were looked up, the violations)"""
    tests = tests_of(root)
    suites = {name.split(".")[0] for name in tests}
    seen, violations = 0, []
    for number, line in enumerate(document.read_text().splitlines(), 1):
        for name in CODE.findall(line):
            where = f"{document.name}:{number}: `{name}`"
            if name.startswith(FOLDERS):
                seen += 1
                if not (root / name).exists():
                    violations.append(f"{where}: there is no such file")
            elif TEST.fullmatch(name):
                seen += 1
                suite, test = name.split(".")
                if suite not in suites if test == "*" else name not in tests:
                    violations.append(f"{where}: there is no such test")
    return seen, violations


GOOD = "`src/a.cc` is tested by `Some.Test` and `Some.*`; `ibv_qp` and `x.y` are neither\n"
BAD = ["`src/b.cc`", "`tests/none_test.cc`", "`Some.Thing`", "`Other.*`", "`Other.Test`"]


def selftest():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "src").mkdir()
        (root / "tests").mkdir()
        (root / "src/a.cc").write_text("")
        (root / "tests/a_test.cc").write_text("TEST_F(Some, Test) {\n")
        document = root / "document.md"
        document.write_text(GOOD)
        failures = [] if check(root, document) == (3, []) else ["names of things were refused"]
        for name in BAD:
            document.write_text(GOOD + name + "\n")
            if len(check(root, document)[1]) != 1:
                failures.append(f"{name} was not found")
    return failures


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("check")
    one.add_argument("root", type=pathlib.Path)
    one.add_argument("document", type=pathlib.Path)
    commands.add_parser("selftest")
    args = parser.parse_args()

    if args.command == "selftest":
        violations, fine = selftest(), f"{len(BAD)} names of nothing were found"
    else:
        seen, violations = check(args.root, args.document)
        if seen == 0:
            violations.append(f"{args.document}: names no file and no test")
        fine = f"{args.document.name}: {seen} files and tests are there"
    for violation in violations:
        print(violation)
    print(f"{len(violations)} violations" if violations else fine)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
