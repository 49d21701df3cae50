#!/usr/bin/env python3
"""Checks that files and functions stay small enough to be read in one go.

  check_limits.py check ROOT   lines of the files of src/, front/, tools/ and labs/, and of their
                               functions
  check_limits.py selftest     plants what is too long and expects it to be found

A function counts from the first line of its head to its last brace. No compiler is asked: the code
is clang-format's, which sets a blank before the brace of a body and none before an initializer's.
"""

import argparse
import pathlib
import re
import sys
import tempfile

sys.dont_write_bytecode = True
from cpp_text import code_of  # noqa: E402

FOLDERS = ("src", "front", "tools", "labs")
SUFFIXES = {".h", ".cc", ".c"}
FILE_LINES = 450
FUNCTION_LINES = 60
# The longest matching folder counts. A header of the host is read by all who use it.
HEADER_LINES = {"src/host/": 200}
# A lab's main file is what a learner reads; the parts beside it are shorter than other files.
LAB_MAIN = re.compile(r"labs/[^/]+/main\.(?:cc|c)")
LAB_PART = re.compile(r"labs/(?!common/)[^/]+/.*")
LAB_MAIN_LINES = 150
LAB_PART_LINES = 200
# Longer for a reason that outweighs it: "file" or "file:function".
EXCEPTIONS = {
    "src/packet/cm_print.cc:text": "a table: one case for each reason of a REJ",
    # What lab cm teaches is the order of the calls of one side, each with its event.
    "labs/cm/client.c:cm_client": "every call of the client, in its order",
    "labs/cm/server.c:cm_server": "every call of the server, in its order",
    "labs/cm/endpoint_client.c:cm_endpoint_client": "every call of the client, in its order",
    "labs/cm/endpoint_server.c:cm_endpoint_server": "every call of the server, in its order",
}

DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.MULTILINE)
# Words with parentheses of their own in the head of a class or a function.
DECORATION = re.compile(r"\b(?:alignas|__attribute__|noexcept|requires|decltype|explicit)\s*\(")
CONTAINER = re.compile(r"\b(?:namespace|class|struct|union|enum)\b")


def without_groups(text, opening, closing):
    """What stands in no pair of parentheses; the pairs stay, empty."""
    kept, depth = [], 0
    for c in text:
        if c == closing and depth > 0:
            depth -= 1
        if depth == 0:
            kept.append(c)
        if c == opening:
            depth += 1
    return "".join(kept)


def plain_head(head):
    """The head of a declaration without attributes, template parameters and arguments."""
    head = re.sub(r"\[\[.*?\]\]", "", head, flags=re.DOTALL)
    head = re.sub(r"\btemplate\s*<", "template<", head)
    while True:
        start = head.find("template<")
        if start < 0:
            break
        depth, end = 0, len(head)
        for i in range(start + len("template"), len(head)):
            depth += {"<": 1, ">": -1}.get(head[i], 0)
            if depth == 0:
                end = i + 1
                break
        head = head[:start] + head[end:]
    head = without_groups(head, "(", ")")
    return DECORATION.sub(lambda m: " ", head).strip()


def kind_of(head, before):
    """What the brace behind `head` opens: "container", "function" or "value"."""
    head = plain_head(head)
    if before not in (" ", "\n") or head.endswith(("=", ",", "(", "return")):
        return "value"
    if "(" in head:
        return "function"
    return "container" if CONTAINER.search(head) or head == "extern" else "value"


def name_of(head):
    """The function's name: what stands before the first parenthesis."""
    head = plain_head(head)
    match = re.search(r"((?:[\w~:]|\boperator\s*\W{1,3})+)\s*\(", head)
    return match[1] if match else head.split("\n")[0].strip()


def end_of_group(code, at):
    """Behind the brace that closes the one at `at`; None: there is none."""
    depth = 0
    for i in range(at, len(code)):
        depth += {"{": 1, "}": -1}.get(code[i], 0)
        if depth == 0:
            return i + 1
    return None


def functions_of(text):
    """(name, first line, lines) of each function. ValueError: braces don't match."""
    code = DIRECTIVE.sub(lambda m: re.sub(r"[^\n]", " ", m[0]), code_of(text))
    functions, depth, head, at, parentheses = [], 0, 0, 0, 0
    while at < len(code):
        c = code[at]
        parentheses += {"(": 1, ")": -1}.get(c, 0)
        if c == "{":
            kind = kind_of(code[head:at], code[at - 1:at])
            if kind == "container" and parentheses == 0:
                depth, head = depth + 1, at + 1
            else:
                end = end_of_group(code, at)
                if end is None:
                    raise ValueError(f"line {code.count(chr(10), 0, at) + 1}: nothing closes the brace")
                if kind == "function" and parentheses == 0:
                    begin = head + len(code[head:at]) - len(code[head:at].lstrip())
                    functions.append((name_of(code[head:at]), code.count("\n", 0, begin) + 1,
                                      code.count("\n", begin, end) + 1))
                    head = end
                at = end
                continue
        elif c == "}":
            depth, head = depth - 1, at + 1
            if depth < 0:
                raise ValueError(f"line {code.count(chr(10), 0, at) + 1}: a brace closes nothing")
        elif c == ";" and parentheses == 0:
            head = at + 1
        elif c == ":" and re.search(r"\b(?:public|private|protected)\s*$", code[head:at]):
            head = at + 1
        at += 1
    if depth != 0:
        raise ValueError("the last brace is open")
    return functions


def limit_of(name):
    """Lines that a file may have."""
    if LAB_MAIN.fullmatch(name):
        return LAB_MAIN_LINES
    if LAB_PART.fullmatch(name):
        return LAB_PART_LINES
    folders = [f for f in HEADER_LINES if name.startswith(f) and name.endswith(".h")]
    return HEADER_LINES[max(folders, key=len)] if folders else FILE_LINES


def check(root, exceptions):
    """(number of files, number of functions, violations)"""
    files, functions, violations, used = 0, 0, [], set()

    def excepted(key):
        used.add(key)
        return key in exceptions

    for top in FOLDERS:
        for path in sorted((root / top).rglob("*")):
            if path.suffix not in SUFFIXES or not path.is_file():
                continue
            files += 1
            name = path.relative_to(root).as_posix()
            text = path.read_text(errors="replace")
            lines, limit = text.count("\n"), limit_of(name)
            if lines > limit and not excepted(name):
                violations.append(f"{name}: {lines} lines, {limit} may be: split it by concept")
            try:
                found = functions_of(text)
            except ValueError as e:
                violations.append(f"{name}: {e}")
                continue
            functions += len(found)
            for function, line, length in found:
                if length > FUNCTION_LINES and not excepted(f"{name}:{function}"):
                    violations.append(f"{name}:{line}: {function} has {length} lines, "
                                      f"{FUNCTION_LINES} may be: give its parts names")
    violations += [f"{__file__}: EXCEPTIONS has {key}, which needs none"
                   for key in exceptions if key not in used]
    return files, functions, violations


FILLER = "  f();\n"
# File and contents: none of these is complained about, each of BAD once.
GOOD = {
    # As long as may be.
    "src/base/a.cc": "namespace verbena {\n" + "int f();\n" * (FILE_LINES - 2) + "}\n",
    "src/host/a.h": "int f();\n" * 200,
    "labs/a/main.cc": "int f();\n" * LAB_MAIN_LINES,
    "labs/a/part.h": "int f();\n" * LAB_PART_LINES,
    "labs/common/main.h": "int f();\n" * FILE_LINES,
    "front/verbs/a.cc": "int f() {\n" + FILLER * (FUNCTION_LINES - 2) + "}\n",
    # Long, and no function.
    "src/base/b.cc": "constexpr int kTable[] = {\n" + "    1,\n" * 100 + "};\n"
                     "const Table table{\n" + "    {1, 2},\n" * 100 + "};\n",
    "src/base/b.h": "class A {\n public:\n" + "  int f() { return 1; }\n" * 100 + "};\n"
                    "enum class E : int {\n" + "  a,\n" * 100 + "};\n",
    # Braces that are none, and those of initializers.
    "src/base/c.cc": "// {\n/* { */\nconst char* a = \"{\"; char b = '{'; int c = 1'000;\n"
                     'const char* d = R"({ " {)";\n#define BEGIN {\n#if 1\n#endif\n'
                     "A::A(int x) : a_{x}, b_{{1, 2}}, c_([] { return 1; }) {}\n",
}
SHORTER = FILLER * FUNCTION_LINES + "}\n"  # than its head may be
BAD = {
    "src/base/file.cc": "int f();\n" * (FILE_LINES + 1),
    "front/file.c": "int f();\n" * (FILE_LINES + 1),
    "src/host/deep/file.h": "int f();\n" * 201,
    "labs/a/main.cc": "int f();\n" * (LAB_MAIN_LINES + 1),
    "labs/b/main.c": "int f();\n" * (LAB_MAIN_LINES + 1),
    "labs/b/part.cc": "int f();\n" * (LAB_PART_LINES + 1),
    "labs/common/part.cc": "int f();\n" * (FILE_LINES + 1),
    "labs/b/part.c": "int f() {\n" + SHORTER,
    "src/base/plain.cc": "int f() {\n" + SHORTER,
    "src/base/head.cc": "int f(int a,\n      int b) {\n" + FILLER * (FUNCTION_LINES - 2) + "}\n",
    "src/base/member.cc": "namespace verbena {\nnamespace {\nResult<int> A::f(B* b) const noexcept {\n"
                          + SHORTER + "}\n}\n",
    "src/base/inline.h": "class A : public B {\n public:\n  explicit A(int x) : x_{x}, y_{1} {\n"
                         + SHORTER + "  int x_ = 1;\n};\n",
    "src/base/template.h": "template <class T, int n = (1 > 0)>\nstruct X {\n"
                           "template <typename U>\nauto f(U u) -> Y<U> {\n" + SHORTER + "};\n",
    "src/base/c_struct.cc": 'extern "C" {\nstruct ibv_qp* f(struct ibv_pd* pd) {\n' + SHORTER + "}\n",
    "src/base/lambda.cc": "const auto f = [](int x) {\n" + SHORTER[:-1] + ";\n",
    "src/base/operator.h": "struct A {\n  bool operator()(int x) const {\n" + SHORTER + "};\n",
    "src/base/nested.cc": "int f() {\n  if (a) {\n" + FILLER * FUNCTION_LINES + "  }\n}\n",
    "src/base/open.cc": "int f() {\n",
    "src/base/closed.cc": "int f();\n}\n",
}


def selftest():
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)

        def write(name, text):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)

        for name, text in GOOD.items():
            write(name, text)
        failures += [f"complains about good files: {v}" for v in check(root, {})[2]]
        for name, text in BAD.items():
            write(name, text)
            found = check(root, {})[2]
            (root / name).unlink()
            if len(found) != 1 or not found[0].startswith(name):
                failures.append(f"{name}: expected one complaint, got {found}")
        write("src/base/file.cc", BAD["src/base/file.cc"])
        if check(root, {"src/base/file.cc": "a table"})[2]:
            failures.append("complains about an exception")
        if len(check(root, {"src/base/file.cc": "a table", "src/base/a.cc": "a table"})[2]) != 1:
            failures.append("keeps an exception that nothing needs")
    return failures


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("check").add_argument("root", type=pathlib.Path)
    commands.add_parser("selftest")
    args = parser.parse_args()

    if args.command == "selftest":
        violations = selftest()
        fine = f"{len(BAD)} planted lengths were found"
    else:
        files, functions, violations = check(args.root, EXCEPTIONS)
        if functions == 0:
            violations.append(f"{args.root}: no function found")
        fine = f"{files} files, {functions} functions within their limits"
    for violation in violations:
        print(violation)
    print(f"{len(violations)} violations" if violations else fine)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
