#!/usr/bin/env python3
"""Checks that the code which documents show stands in the files that they name.

  check_excerpts.py check ROOT DOCUMENT…   every block of C or C++ of these documents
  check_excerpts.py selftest               plants code of nothing and expects it to be found

The paragraph before a block links to the file: "From [labs/hello/main.cc](../labs/hello/main.cc):".
The block's lines stand there, one behind the other. A line `// …` or `/* … */` leaves some out. The
indentation may be less than the file's, by as much on every line.
"""

import argparse
import pathlib
import re
import sys
import tempfile

FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LANGUAGES = ("c", "cpp")
LINK = re.compile(r"\]\(([^)#\s]+\.(?:c|cc|h))\)")
LEFT_OUT = ("// …", "/* … */")
DEEPEST = 24  # blanks that may be taken off


def pieces_of(code):
    """The lines between what is left out."""
    pieces = [[]]
    for line in code.splitlines():
        if line.strip() in LEFT_OUT:
            pieces.append([])
        else:
            pieces[-1].append(line.rstrip())
    return [piece for piece in pieces if any(piece)]


def position(piece, lines, start):
    """Where it stands from there on; None: nowhere."""
    for at in range(start, len(lines) - len(piece) + 1):
        if lines[at:at + len(piece)] == piece:
            return at
    return None


def stands(pieces, lines, indent):
    """True: each piece stands behind the one before it."""
    start = 0
    for piece in pieces:
        at = position([" " * indent + line if line else line for line in piece], lines, start)
        if at is None:
            return False
        start = at + len(piece)
    return True


def check_block(root, document, text, block):
    """What is wrong with one block; "": nothing."""
    paragraph = text[:block.start()].rstrip("\n").rpartition("\n\n")[2]
    links = LINK.findall(paragraph)
    if len(links) != 1:
        return f"the paragraph before it links to {len(links)} source files instead of one"
    file = (document.parent / links[0]).resolve()
    if not file.is_file() or not file.is_relative_to(root.resolve()):
        return f"{links[0]} is no file of the project"
    pieces = pieces_of(block[2])
    if not pieces:
        return "it is empty"
    lines = [line.rstrip() for line in file.read_text(encoding="utf-8").splitlines()]
    if any(stands(pieces, lines, indent) for indent in range(DEEPEST + 1)):
        return ""
    known = {line.strip() for line in lines}
    for line in sum(pieces, []):
        if line.strip() not in known:
            return f"{links[0]} has no line `{line.strip()}`"
    return f"{links[0]} has these lines in another order, or with others between them"


def check(root, document):
    """(how many blocks were looked up, the violations)"""
    text = document.read_text(encoding="utf-8")
    seen, violations = 0, []
    for block in FENCE.finditer(text):
        if block[1] not in LANGUAGES:
            continue
        seen += 1
        if problem := check_block(root, document, text, block):
            line = text.count("\n", 0, block.start()) + 1
            violations.append(f"{document.name}:{line}: {problem}")
    return seen, violations


SOURCE = "int one() {\n  int a = 1;\n  if (a) {\n    return a;\n  }\n  return 0;\n}\n\nint two();\n"
INTRODUCTION = "From [src/a.cc](../src/a.cc), the best part:\n\n"
GOOD = ["int one() {\n  int a = 1;\n", "if (a) {\n  return a;\n}\n", "  return a;\n",
        "int one() {\n  // …\n  return 0;\n}\n", "int one() {\n/* … */\nint two();\n",
        "  return 0;\n}\n\nint two();\n"]
BAD = ["int one() {\n  int a = 2;\n", "int one() {\n  if (a) {\n", "return 0;\n// …\nint a = 1;\n",
       "if (a) {\n    return a;\n", "// …\n", "int one() {\n  int a = 1;\n\n  if (a) {\n",
       "int two();\n// …\nint two();\n"]
BAD_INTRODUCTIONS = ["From a file:\n\n", "From [src/b.cc](../src/b.cc):\n\n",
                     "From [a](../src/a.cc) and [b](../src/b.h):\n\n", "[a](../src/a.cc):\n\nso\n\n"]


def selftest():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "src").mkdir()
        (root / "docs").mkdir()
        (root / "src/a.cc").write_text(SOURCE, encoding="utf-8")
        document = root / "docs/document.md"

        def result(introduction, code):
            document.write_text(f"# Title\n\n{introduction}```cpp\n{code}```\n\n```text\nx\n```\n",
                                encoding="utf-8")
            return check(root, document)

        failures = [f"{code!r} was refused" for code in GOOD if result(INTRODUCTION, code) != (1, [])]
        failures += [f"{code!r} was taken" for code in BAD if len(result(INTRODUCTION, code)[1]) != 1]
        failures += [f"{words!r} was taken" for words in BAD_INTRODUCTIONS
                     if len(result(words, GOOD[0])[1]) != 1]
        # Any line that is changed at either end is found.
        for number, line in enumerate(SOURCE.splitlines()):
            if not line:
                continue
            changed = SOURCE.splitlines(keepends=True)
            changed[number] = changed[number].replace(line, line + " ;")
            if len(result(INTRODUCTION, "".join(changed))[1]) != 1:
                failures.append(f"the change of line {number + 1} was not found")
    return failures


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("check")
    one.add_argument("root", type=pathlib.Path)
    one.add_argument("documents", type=pathlib.Path, nargs="+")
    commands.add_parser("selftest")
    args = parser.parse_args()

    if args.command == "selftest":
        violations, fine = selftest(), f"{len(BAD) + len(BAD_INTRODUCTIONS)} wrong blocks were found"
    else:
        violations, total = [], 0
        for document in args.documents:
            seen, wrong = check(args.root, document)
            total += seen
            violations += wrong
            if seen == 0:
                violations.append(f"{document.name} shows no code")
        fine = f"{total} blocks of code stand in their files"
    for violation in violations:
        print(violation)
    print(f"{len(violations)} violations" if violations else fine)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
