#!/usr/bin/env python3
"""Checks that documents speak of what is there: every file and every test that they name.

  check_mentions.py check ROOT DOCUMENT…   names in `backticks`: a path, a program of tests/abi as
                                           abi.NAME, SUITE.TEST or SUITE.*; and links to files
  check_mentions.py files ROOT DOCUMENT…   the same without SUITE.TEST, which may be others'
  check_mentions.py selftest               plants names of nothing and expects them to be found

A path may have * in it; one with a word in capitals (`src/LAYER/x.cc`) stands for others.
"""

import argparse
import pathlib
import re
import sys
import tempfile

CODE = re.compile(r"`([^`\n]+)`")
TEST = re.compile(r"[A-Z]\w*\.(?:[A-Z]\w*|\*)")
DEFINED = re.compile(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\s*\)", re.MULTILINE)
ABI_TEST = re.compile(r"abi\.(\w+)")
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
PLACEHOLDER = re.compile(r"(?<![A-Za-z0-9])(?!README|LICENSE)[A-Z]{2,}(?![A-Za-z0-9])")
FOLDERS = ("src/", "tests/", "front/", "docs/", "bench/", "tools/", "scripts/", "cmake/", "include/",
           "labs/", "debian/")


def tests_of(root):
    """SUITE.TEST of everything under tests/."""
    names = set()
    for path in sorted((root / "tests").rglob("*.cc")):
        names |= {f"{suite}.{test}" for suite, test in DEFINED.findall(path.read_text())}
    return names


def is_there(root, name):
    """A file, a folder, or a pattern that something matches."""
    if "*" in name:
        return any(True for _ in root.glob(name.rstrip("/")))
    return (root / name).exists()


def check_name(root, tests, name):
    """What is wrong with a name in backticks; "": nothing. None: it names no file and no test."""
    if name.startswith(FOLDERS) and " " not in name:
        if PLACEHOLDER.search(name):
            return None
        return "" if is_there(root, name) else "there is no such file"
    if match := ABI_TEST.fullmatch(name):
        abi = root / "tests/abi"
        there = (abi / f"{match[1]}.c").exists() or (
            (abi / "CMakeLists.txt").exists()
            and re.search(rf"NAME {re.escape(name)}\s", (abi / "CMakeLists.txt").read_text()))
        return "" if there else "there is no such test"
    if tests and TEST.fullmatch(name):
        suite, test = name.split(".")
        there = any(t.startswith(f"{suite}.") for t in tests) if test == "*" else name in tests
        return "" if there else "there is no such test"
    return None


def check(root, document, tests):
    """(how many names were looked up, the violations); `tests` are those that there are."""
    seen, violations = 0, []
    for number, line in enumerate(document.read_text().splitlines(), 1):
        where = f"{document.name}:{number}"
        for name in CODE.findall(line):
            wrong = check_name(root, tests, name)
            seen += wrong is not None
            if wrong:
                violations.append(f"{where}: `{name}`: {wrong}")
        for link in LINK.findall(CODE.sub("", line)):
            if "://" in link or link.startswith("mailto:"):
                continue
            seen += 1
            if not (document.parent / link).exists():
                violations.append(f"{where}: the link to {link} leads nowhere")
    return seen, violations


GOOD = ("`src/a.cc` is tested by `Some.Test` and `Some.*`; `ibv_qp` and `x.y` are neither\n"
        "`src/*.cc`, `abi.events`, `abi.future`, [a](src/a.cc), [b](src/a.cc#part)\n"
        "`src/LAYER/a.cc`, `tests/NAME`, [c](https://example.org/none), `[d](none)`\n")
GOOD_NAMES = 8
BAD = ["`src/b.cc`", "`tests/none_test.cc`", "`Some.Thing`", "`Other.*`", "`Other.Test`", "`src/*.h`",
       "`abi.none`", "[x](src/b.cc)", "[x](b.md#part)", "`docs/README.md`"]


def selftest():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "src").mkdir()
        (root / "tests/abi").mkdir(parents=True)
        (root / "tests/abi/events.c").write_text("")
        (root / "tests/abi/CMakeLists.txt").write_text("add_test(NAME abi.future COMMAND x)\n")
        (root / "src/a.cc").write_text("")
        (root / "tests/a_test.cc").write_text("TEST_F(Some, Test) {\n")
        document = root / "document.md"
        document.write_text(GOOD)
        tests = tests_of(root)
        failures = ([] if check(root, document, tests) == (GOOD_NAMES, []) else
                    ["names of things were refused"])
        for name in BAD:
            document.write_text(GOOD + name + "\n")
            if len(check(root, document, tests)[1]) != 1:
                failures.append(f"{name} was not found")
    return failures


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("check", "files"):
        one = commands.add_parser(name)
        one.add_argument("root", type=pathlib.Path)
        one.add_argument("documents", type=pathlib.Path, nargs="+")
    commands.add_parser("selftest")
    args = parser.parse_args()

    if args.command == "selftest":
        violations, fine = selftest(), f"{len(BAD)} names of nothing were found"
    else:
        tests = tests_of(args.root) if args.command == "check" else set()
        violations, total = [], 0
        for document in args.documents:
            seen, wrong = check(args.root, document, tests)
            total += seen
            violations += wrong
        if total == 0:
            violations.append("no file and no test is named")
        fine = f"{total} files and tests that are named are there"
    for violation in violations:
        print(violation)
    print(f"{len(violations)} violations" if violations else fine)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
