#!/usr/bin/env python3
"""Checks the layers of docs/architecture.md: who may include whom. check_symbols.py looks at what
the archives import.

  check_layers.py includes ROOT         include edges of src/, front/, include/ and the programs,
                                        what they reach through others' headers, names they use
  check_layers.py drawing ROOT          that docs/architecture.md draws the same layers
  check_layers.py selftest              plants violations and expects the checks to fail
"""

import argparse
import collections
import functools
import pathlib
import re
import sys
import tempfile

sys.dont_write_bytecode = True
from cpp_text import code_of  # noqa: E402

# ---------------------------------------------------------------- include edges

# Folder -> layers it may include besides itself. The longest matching folder counts.
LAYERS = {
    "src/base": set(),
    "src/settings": {"base"},
    "src/packet": {"base"},
    "src/system": {"base"},
    "src/registry": {"base", "system"},
    "src/wire": {"base", "settings", "packet", "system", "registry"},
    "src/memory": {"base", "system"},
    "src/engine": {"base", "packet", "memory"},
    "src/cm": {"base", "packet"},
    "src/host": {"base", "settings", "packet", "system", "registry", "wire", "memory", "engine",
                 "cm"},
    # The front converts between the C ABI and the host's types. How frames move, and who else is
    # on this host, is not its business: it sees neither wire nor registry.
    "front": {"base", "packet", "system", "engine", "cm", "host"},
    "include": set(),
    "labs": {"include", "labs/common"},
    "labs/common": {"include", "settings"},  # the faults are checked before a lab starts
    # What a user can set is checked before the program starts, by the same code as in it. A report
    # decodes frames, and compares their PSNs.
    "tools": {"base", "include", "settings", "packet"},
    "bench": {"include"},
}
SRC_LAYERS = {key[len("src/"):] for key in LAYERS if key.startswith("src/")}
# Exception: programs in bench/LAYER/ measure one layer from inside (raw sockets beside src/wire,
# CRC speed of src/packet) and see what that layer itself sees. What is measured there is never
# quoted as what a program gets; bench/*.cc measures that, from outside.
LAYERS |= {f"bench/{layer}": LAYERS[f"src/{layer}"] | {layer} for layer in SRC_LAYERS}
# What a folder may reach through headers of layers that it sees, though it may not include it
# itself: layers or single headers. Everything else is hidden from it at any depth.
REACHED = {
    "front": {
        "settings",                               # host/log.h: the level of a line
        "memory/dma.h", "memory/null_memory.h",   # engine/rnic.h: its members
        "registry/port_binding.h",                #  host/connections/ports.h names them for the front
    },
    # settings/ speaks in strong types of base/.
    "labs/common": {"base"},
}
# Where a layer's names live in namespace verbena. Those of base/ are in verbena itself.
NAMESPACES = {name: name for name in SRC_LAYERS - {"base", "system"}} | {
    "kernel": "system", "front": "front"}
SANS_IO = ("src/base", "src/settings", "src/packet", "src/engine", "src/cm")
# Of a layer that makes system calls, the headers that sans-I/O layers may include. They have no
# sources of their own, so that what they call shows in the includer's archive.
SANS_IO_HEADERS = {"memory": {"memory/dma.h", "memory/null_memory.h"}}
# Symbols of inline code never reach the archive's users as imports of the archive: headers that
# only serve threads, descriptors or chance stay out altogether. (<mutex> may come in for
# std::lock_guard over a spin lock; a real mutex shows as a symbol.)
SANS_IO_FORBIDDEN_HEADERS = {
    "condition_variable", "future", "poll.h", "pthread.h", "random", "semaphore",
    "shared_mutex", "stop_token", "sys/epoll.h", "sys/eventfd.h", "sys/random.h",
    "sys/timerfd.h", "thread", "unistd.h", "fstream", "filesystem",
}
SOURCE_SUFFIXES = {".h", ".hpp", ".cc", ".cpp", ".c"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def folder_of(path):
    """The key of LAYERS that `path` (relative to the root) belongs to, or None."""
    parts = pathlib.PurePosixPath(path).parts[:-1]
    for length in range(len(parts), 0, -1):
        key = "/".join(parts[:length])
        if key in LAYERS:
            return key
    return None


def layer_name(folder):
    """How LAYERS' values name a folder: src/wire is "wire", bench/wire stays itself."""
    return folder[len("src/"):] if folder.startswith("src/") else folder


def file_of(root, source, kind, name):
    """The project's file that an include names, or None."""
    return file_below(root, source.parent if kind == '"' else None, name)


@functools.lru_cache(maxsize=None)
def file_below(root, folder, name):
    candidates = [root / "src" / name, root / "include" / name, root / name]
    if folder is not None:
        candidates.insert(0, folder / name)
    for candidate in candidates:
        resolved = candidate.resolve()
        if resolved.is_file() and resolved.is_relative_to(root):
            return resolved
    return None


def target_of(root, source, kind, name):
    """The layer that an include reaches, or None for the system's headers and unknown files."""
    file = file_of(root, source, kind, name)
    if file is not None:
        folder = folder_of(file.relative_to(root))
        return layer_name(folder) if folder else None
    first = name.split("/")[0]
    if kind == '"' and first in SRC_LAYERS:  # not there (yet), but its place is clear
        return first
    return None


def includes_of(text):
    """(line, < or ", name) of each."""
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            yield number, *match.groups()


class Source:
    """A file, the layer that it belongs to, and what it includes."""

    Include = collections.namedtuple("Include", "line kind name file complaint")

    def __init__(self, root, path):
        self.root = root
        self.path = path
        self.name = path.relative_to(root).as_posix()
        self.folder = folder_of(self.name)
        self.text = path.read_text(errors="replace")
        self.includes = [] if self.folder is None else [
            self.Include(number, kind, name, file_of(root, path, kind, name),
                         self.complaint(kind, name))
            for number, kind, name in includes_of(self.text)]

    def complaint(self, kind, name):
        """Why this file must not include that header; None: it may."""
        if self.folder in SANS_IO and kind == "<" and name in SANS_IO_FORBIDDEN_HEADERS:
            return f"{self.folder} is sans-I/O and includes <{name}>"
        target = target_of(self.root, self.path, kind, name)
        pure = SANS_IO_HEADERS.get(target)
        if self.folder in SANS_IO and pure is not None and name not in pure:
            return (f"{self.folder} is sans-I/O and includes {name}; of {target} it may include "
                    f"{', '.join(sorted(pure))}")
        if target is None or target == layer_name(self.folder) or target in LAYERS[self.folder]:
            return None
        allowed = ", ".join(sorted(LAYERS[self.folder])) or "nothing of the project"
        return f"{self.folder} includes {name} of layer {target}; it may see {allowed}"


class Tree:
    """All files of the layers."""

    def __init__(self, root):
        self.root = pathlib.Path(root).resolve()
        self.sources, self.strangers = {}, []
        file_below.cache_clear()  # the selftest's trees change
        for top in sorted({key.split("/")[0] for key in LAYERS}):
            for path in sorted((self.root / top).rglob("*")):
                if path.suffix not in SOURCE_SUFFIXES or not path.is_file():
                    continue
                source = Source(self.root, path)
                if source.folder is None:
                    self.strangers.append(source.name)
                else:
                    self.sources[path] = source


def include_violations(tree):
    """Headers of layers that a file may not see."""
    violations = [f"{name}: src/ has no such layer: add it to {__file__}" for name in tree.strangers]
    for source in tree.sources.values():
        for include in source.includes:
            if include.complaint:
                violations.append(f"{source.name}:{include.line}: {include.complaint}")
    return violations


def hidden_from(folder, target, name):
    """Must a file of `folder` not get to see this header of layer `target`, however deep?"""
    if folder in SANS_IO and name not in SANS_IO_HEADERS.get(target, {name}):
        return True
    reached = REACHED.get(folder, set())
    visible = LAYERS[folder] | {layer_name(folder)}
    return target not in visible and target not in reached and name not in reached


def reach_violations(tree):
    """What a folder sees through headers of others, which may see more than it. One line for a
    folder and a header, with the way there; the file's own includes are include_violations()."""
    found = {}
    for source in tree.sources.values():
        came_from, queue = {source.path: None}, collections.deque([source])
        while queue:
            at = queue.popleft()
            for _, kind, name, file, complaint in at.includes:
                if complaint:
                    continue  # reported where it stands
                if file is None and kind == "<" and source.folder in SANS_IO:
                    if name in SANS_IO_FORBIDDEN_HEADERS:
                        found.setdefault((source.folder, f"<{name}>"), way(tree, came_from, at.path))
                if file not in tree.sources or file in came_from:
                    continue
                came_from[file] = at.path
                target = tree.sources[file]
                header = layer_name(target.name)
                if at is not source and hidden_from(source.folder, layer_name(target.folder), header):
                    found.setdefault((source.folder, header), way(tree, came_from, at.path))
                else:
                    queue.append(target)
    return [f"{steps[0]}: {folder} reaches {header} through {' > '.join(steps[1:])}"
            for (folder, header), steps in found.items()]


def way(tree, came_from, path):
    """The files from the one that began to `path`."""
    steps = []
    while path is not None:
        steps.append(layer_name(tree.sources[path].name) if came_from[path] else
                     tree.sources[path].name)
        path = came_from[path]
    return steps[::-1]


USED_NAMESPACE = re.compile(
    # verbena::wire, whatever follows
    r"(?<![\w:])(?:::\s*)?verbena\s*::\s*(?P<full>%(names)s)\b"
    # wire::Name, in a file that is in namespace verbena itself
    r"|(?<![\w:.>])(?P<short>%(names)s)\s*::\s*\w+"
    # using namespace wire; namespace w = wire;
    r"|\bnamespace\s+(?:\w+\s*=\s*)?(?P<whole>%(names)s)\s*;" % {
        "names": "|".join(sorted(NAMESPACES))})
OF_VERBENA = re.compile(r"\bnamespace\s+verbena\b")


def name_violations(tree):
    """Names of layers that a file may not see: they come in through headers of layers that it
    may see, without an include."""
    violations = []
    for source in tree.sources.values():
        code = code_of(source.text)
        visible = LAYERS[source.folder] | {layer_name(source.folder)}
        in_verbena = OF_VERBENA.search(code)
        for match in USED_NAMESPACE.finditer(code):
            name = match["full"] or match["short"] or match["whole"]
            layer = NAMESPACES[name]
            if layer in visible or not (match["full"] or in_verbena):
                continue
            number = code.count("\n", 0, match.start()) + 1
            violations.append(f"{source.name}:{number}: {source.folder} uses "
                              f"{' '.join(match[0].split())} of layer {layer}, which it may not see")
    return violations


def layer_violations(root):
    """(number of files seen, list of violations)."""
    tree = Tree(root)
    return len(tree.sources), (
        include_violations(tree) + reach_violations(tree) + name_violations(tree))


# ---------------------------------------------------------------- the drawing

DOCUMENT = "docs/architecture.md"
EDGES = re.compile(r"^(\S+) +-> +(\S.*)$")  # "src/engine -> base memory(dma.h)"
EDGE = re.compile(r"(\S+?)(?:\(([^)]*)\))?(?:\s+|$)")


def drawn_edges(text):
    """(folder, layers, {layer: its headers that may be included}) of each line in a fenced block."""
    for block in re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for line in block.splitlines():
            match = EDGES.match(line)
            if match:
                edges = [] if match[2].strip() == "nothing" else EDGE.findall(match[2])
                yield (match[1], {layer for layer, _ in edges},
                       {layer: set(headers.split()) for layer, headers in edges if headers})


def drawing_violations(text):
    """Where the document and LAYERS disagree."""
    wanted = {folder: layers for folder, layers in LAYERS.items() if not folder.startswith("bench/")}
    violations, drawn = [], set()
    for folder, layers, headers in drawn_edges(text):
        if folder in drawn:
            violations.append(f"{DOCUMENT}: {folder} stands there twice")
        drawn.add(folder)
        if folder not in wanted:
            violations.append(f"{DOCUMENT}: {folder} is no layer of {__file__}")
            continue
        for names, text in ((layers - wanted[folder], "may not include"),
                            (wanted[folder] - layers, "may include, which isn't drawn,")):
            violations += [f"{DOCUMENT}: {folder} {text} {name}" for name in sorted(names)]
        pure = {} if folder not in SANS_IO else {
            layer: {header.split("/")[-1] for header in SANS_IO_HEADERS[layer]}
            for layer in wanted[folder] if layer in SANS_IO_HEADERS}
        if headers != pure:
            violations.append(f"{DOCUMENT}: {folder} has headers {headers} in parentheses, "
                              f"it may include {pure}")
    return violations + [f"{DOCUMENT}: {folder} is missing" for folder in sorted(set(wanted) - drawn)]


# ---------------------------------------------------------------- selftest

BAD_INCLUDES = [
    # file, line, part of the expected complaint
    ("src/engine/a.cc", '#include "wire/udp_wire.h"', "layer wire"),
    ("src/engine/b.cc", '#include "../wire/udp_wire.h"', "layer wire"),
    ("src/engine/c.cc", '  #  include "host/not_there.h"', "layer host"),
    ("src/wire/a.cc", '#include "engine/engine.h"', "layer engine"),
    ("src/packet/a.h", '#include "wire/udp_wire.h"', "layer wire"),
    ("src/base/a.h", '#include "packet/packet.h"', "layer packet"),
    ("src/host/a.cc", '#include "front/verbs/x.h"', "layer front"),
    ("src/engine/d.cc", "#include <thread>", "sans-I/O"),
    ("src/engine/e.cc", '#include "memory/host_memory.h"', "it may include memory/dma.h"),
    ("front/verbs/a.cc", '#include "wire/udp_wire.h"', "layer wire"),
    ("src/registry/a.cc", '#include "wire/udp_wire.h"', "layer wire"),
    ("front/verbs/b.cc", '#include "registry/registry.h"', "layer registry"),
    ("tools/verbena/a.cc", '#include "cm/ids.h"', "layer cm"),
    ("labs/b.cc", '#include "src/base/psn.h"', "layer base"),
    ("labs/a.cc", "#include <base/psn.h>", "layer base"),
    ("bench/a.cc", '#include "wire/udp_wire.h"', "layer wire"),
    ("bench/wire/a.cc", '#include "engine/engine.h"', "layer engine"),
    ("src/elsewhere/a.cc", "", "no such layer"),
]
GOOD_INCLUDES = [
    ("src/engine/good.cc", '#include "packet/packet.h"\n#include "engine/engine.h"\n'
                           '#include "memory/dma.h"'),
    ("src/host/good.cc", '#include "wire/udp_wire.h"\n#include <thread>'),
    ("front/verbs/good.cc", '#include "host/host.h"\n#include "good.h"'),
    ("front/verbs/good.h", ""),
    ("bench/wire/good.cc", '#include "wire/udp_wire.h"'),
    ("tools/good.cc", "#include <rdma++/device.h>\n#include <infiniband/verbs.h>\n"
                      '#include "settings/settings.h"'),
]
TREE = ["src/base/psn.h", "src/settings/settings.h", "src/packet/packet.h", "src/wire/udp_wire.h",
        "src/registry/registry.h", "src/engine/engine.h",
        "src/host/host.h", "front/verbs/x.h", "include/rdma++/device.h"]

# Violations that no include line shows: files, part of the expected complaint.
BAD_FACES = [
    ({"front/verbs/a.cc": '#include "host/face.h"',
      "src/host/face.h": '#include "host/inner.h"', "src/host/inner.h": '#include "wire/udp_wire.h"'},
     "reaches wire/udp_wire.h through host/face.h > host/inner.h"),
    ({"front/verbs/a.cc": '#include "host/face.h"',
      "src/host/face.h": '#include "registry/registry.h"'}, "reaches registry/registry.h"),
    ({"src/engine/a.cc": '#include "memory/dma.h"',
      "src/memory/dma.h": '#include "memory/host_memory.h"', "src/memory/host_memory.h": ""},
     "engine reaches memory/host_memory.h"),
    ({"src/engine/a.cc": '#include "memory/dma.h"',
      "src/memory/dma.h": '#include "system/calls.h"', "src/system/calls.h": ""},
     "engine reaches system/calls.h"),
    ({"src/engine/a.cc": '#include "memory/dma.h"', "src/memory/dma.h": "#include <thread>"},
     "engine reaches <thread> through memory/dma.h"),
    ({"front/verbs/a.cc": "namespace verbena::front {\nvoid f(wire::Family);\n}"},
     "a.cc:2: front uses wire::Family"),
    ({"front/verbs/a.cc": "namespace verbena::front {\nauto f() -> registry :: PortId;\n}"},
     "front uses registry :: PortId"),
    ({"front/verbs/a.cc": "namespace verbena::wire {\nclass UdpWire;\n}"},
     "front uses verbena::wire"),
    ({"front/verbs/a.cc": "namespace verbena::front {\nnamespace w = wire;\n}"},
     "front uses namespace w = wire;"),
    ({"front/verbs/a.cc": "using namespace verbena;\nusing namespace wire;\n"
                          "namespace verbena::front {}"}, "front uses namespace wire;"),
    ({"src/engine/a.cc": "namespace verbena::engine { int f() { return 1'000 + kernel::poll(2'0); } }"},
     "engine uses kernel::poll of layer system"),
    ({"tools/a.cc": "void f(const verbena::host::Nic&);"}, "tools uses verbena::host of layer host"),
]
GOOD_FACES = [
    {"front/verbs/a.cc": '#include "host/face.h"\nnamespace verbena::front {\n'
                         "// wire::Family is the host's\n"
                         'const char* f(host::Family) { return "wire::Family"; }\n'
                         "/* wire::Family\n wire::Family */\n"
                         "const char* g(char) { return R\"(wire::Family)\"; }  // it's wire::Family\n"
                         "auto h = ucx::wire::Family{}; auto i = my_wire::x; auto j = '\"';\n}",
     "src/host/face.h": '#include "registry/port_binding.h"', "src/registry/port_binding.h": ""},
    {"src/engine/a.cc": '#include "memory/dma.h"\n', "src/memory/dma.h": "#include <span>"},
    {"src/host/a.h": "namespace verbena::wire {\nclass UdpWire;\n}"},
    # A lab's own namespace.
    {"labs/a.cc": "namespace wire {\nint f();\n}\nint g() { return wire::f(); }"},
    # Strong types of base/ behind a header that the tools may see.
    {"tools/a.cc": '#include "settings/face.h"', "src/settings/face.h": '#include "base/psn.h"'},
]


def selftest_faces(folder):
    """Each in a tree of its own, with the good one around it."""
    failures = []
    for number, (files, expected) in enumerate(BAD_FACES + [(f, None) for f in GOOD_FACES]):
        root = pathlib.Path(folder) / str(number)
        for name, text in {**{name: "#pragma once" for name in TREE}, **files}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text + "\n")
        _, violations = layer_violations(root)
        fine = not violations if expected is None else (
            len(violations) == 1 and expected in violations[0])
        if not fine:
            failures.append(f"{files}: expected {expected or 'no complaint'}, got {violations}")
    return failures


def drawing_of(layers):
    """LAYERS as the document has it."""
    pure = {layer: f"{layer}({' '.join(sorted(h.split('/')[-1] for h in headers))})"
            for layer, headers in SANS_IO_HEADERS.items()}
    lines = [f"{folder} -> " + (" ".join(
        pure.get(name, name) if folder in SANS_IO else name for name in sorted(names)) or "nothing")
             for folder, names in layers.items() if not folder.startswith("bench/")]
    return "Text -> more text.\n\n```\n" + "\n".join(lines) + "\n```\n"


def selftest_drawing():
    good = drawing_of(LAYERS)
    failures = [f"complains about a good drawing: {v}" for v in drawing_violations(good)]
    for old, new, expected in (
            ("src/cm -> base packet\n", "", "src/cm is missing"),
            ("src/cm -> base packet\n", "src/cm -> base\n", "src/cm may include"),
            ("src/cm -> base packet\n", "src/cm -> base packet wire\n", "src/cm may not include wire"),
            ("src/cm -> base packet\n", "src/cm -> base packet\nsrc/mc -> base\n", "src/mc is no layer"),
            ("src/cm -> base packet\n", "src/cm -> base packet\n" * 2, "src/cm stands there twice"),
            ("src/base -> nothing\n", "src/base -> packet\n", "src/base may not include packet"),
            ("memory(dma.h null_memory.h)", "memory", "src/engine has headers"),
            ("memory(dma.h null_memory.h)", "memory(dma.h)", "src/engine has headers")):
        violations = drawing_violations(good.replace(old, new))
        if old not in good or len(violations) != 1 or expected not in violations[0]:
            failures.append(f"{new!r} in the drawing: expected one complaint with {expected!r}, "
                            f"got {violations}")
    return failures


def selftest_includes(folder):
    failures = []
    root = pathlib.Path(folder)

    def write(name, text):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text + "\n")

    for name in TREE:
        write(name, "#pragma once")
    for name, text in GOOD_INCLUDES:
        write(name, text)
    _, violations = layer_violations(root)
    failures += [f"complains about a good tree: {v}" for v in violations]
    for name, line, expected in BAD_INCLUDES:
        write(name, line)
        _, violations = layer_violations(root)
        (root / name).unlink()
        if len(violations) != 1 or not violations[0].startswith(name) or expected not in violations[0]:
            failures.append(f"{name} with {line!r}: expected one complaint with {expected!r}, "
                            f"got {violations}")
    return failures


# ---------------------------------------------------------------- main

def report(violations, fine):
    for violation in violations:
        print(violation)
    print(f"{len(violations)} violations" if violations else fine)
    return 1 if violations else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    includes = commands.add_parser("includes")
    includes.add_argument("root")
    drawing = commands.add_parser("drawing")
    drawing.add_argument("root", type=pathlib.Path)
    commands.add_parser("selftest")
    args = parser.parse_args()

    if args.command == "includes":
        seen, violations = layer_violations(args.root)
        if seen == 0:
            violations.append(f"{args.root}: no source files found")
        return report(violations, f"{seen} files, every include and every name points downwards")
    if args.command == "drawing":
        return report(drawing_violations((args.root / DOCUMENT).read_text()),
                      f"{DOCUMENT} draws the layers as they are")
    with tempfile.TemporaryDirectory() as folder:
        failures = selftest_includes(folder + "/tree")
        failures += selftest_faces(folder + "/faces")
        failures += selftest_drawing()
        return report(failures, f"{len(BAD_INCLUDES)} planted includes and {len(BAD_FACES)} planted "
                                "leaks were found")


if __name__ == "__main__":
    sys.exit(main())
