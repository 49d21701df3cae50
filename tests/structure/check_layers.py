#!/usr/bin/env python3
"""Checks the layers of docs/architecture.md: who may include whom, and that the sans-I/O
archives import nothing that talks to the world.

  check_layers.py includes ROOT         include edges of src/, front/, include/ and the programs,
                                        what they reach through others' headers, names they use
  check_layers.py symbols ARCHIVE…      undefined symbols of static libraries
  check_layers.py hooked FILE…          that archives and objects make their own system calls
  check_layers.py selftest              plants violations and expects the checks to fail
"""

import argparse
import collections
import functools
import pathlib
import re
import subprocess
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
    "src/system": set(),
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
    # decodes frames.
    "tools": {"include", "settings", "packet"},
    "bench": {"include"},
    # Exception: programs in bench/LAYER/ measure one layer from inside (raw sockets beside
    # src/wire, CRC speed of src/packet) and see what that layer itself sees. What is measured
    # there is never quoted as what a program gets; bench/*.cc measures that, from outside.
    "bench/base": {"base"},
    "bench/packet": {"base", "packet"},
    "bench/wire": {"base", "settings", "packet", "system", "registry", "wire"},
    "bench/engine": {"base", "packet", "memory", "engine"},
    "bench/cm": {"base", "packet", "cm"},
    "bench/host": {"base", "settings", "packet", "system", "registry", "wire", "memory", "engine",
                   "cm", "host"},
}
SRC_LAYERS = {key[len("src/"):] for key in LAYERS if key.startswith("src/")}
# What a folder may reach through headers of layers that it sees, though it may not include it
# itself: layers or single headers. Everything else is hidden from it at any depth.
REACHED = {
    "front": {
        "settings",                               # host/log.h: the level of a line
        "memory/dma.h", "memory/null_memory.h",   # engine/rnic.h: its members
        "wire/port_binding.h",                    # host/connections/ports.h names them for the front
    },
    # settings/ and packet/ speak in strong types of base/.
    "labs/common": {"base"},
    "tools": {"base"},
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


# ---------------------------------------------------------------- symbols

# Whole names, as nm prints them without their version. Alternatives by what they reach.
FORBIDDEN_SYMBOL = re.compile(
    "^(?:"
    # clocks and sleepers
    "clock_gettime|clock_getres|clock_nanosleep|gettimeofday|time|ftime|times|clock|nanosleep"
    "|usleep|sleep|timerfd_.*|timer_.*|alarm|setitimer"
    "|_ZNSt6chrono3_V21[0-9]+(?:steady|system|high_resolution)_clock3nowEv|_ZNSt6chrono.*3nowEv"
    # sockets and descriptors
    "|socket|socketpair|accept4?|bind|listen|connect|shutdown|[gs]etsockopt|getsockname"
    "|send|sendto|sendmsg|sendmmsg|sendfile(?:64)?|recv|recvfrom|recvmsg|recvmmsg"
    "|__recv_chk|__recvfrom_chk|epoll_.*|p?poll|__p?poll_chk|p?select|eventfd|signalfd"
    "|open|openat|open64|openat64|__open.*_2|creat(?:64)?|close|dup[23]?|pipe2?|ioctl|fcntl(?:64)?"
    "|read|write|readv|writev|pread(?:64)?|pwrite(?:64)?|__read_chk|__pread.*_chk"
    "|f(?:re|d)?open(?:64)?|fread|fwrite|f?printf|puts|putchar|__f?printf_chk|syslog"
    "|if_nametoindex|if_indextoname|getifaddrs|gethostby.*|getaddrinfo"
    "|mmap(?:64)?|memfd_create|shm_.*|process_vm_.*|syscall"
    "|_ZNSt(?:13basic_filebuf|14basic_[io]fstream|13basic_fstream).*|_ZSt4cout|_ZSt4cerr|_ZSt4clog"
    # threads and processes
    "|pthread_.*|thrd_.*|mtx_.*|cnd_.*|sem_.*|sched_.*|fork|vfork|execv.*|posix_spawn.*|kill|raise"
    "|_ZNSt6thread.*|_ZNSt18condition_variable.*|_ZNSt12__basic_futex.*|_ZNSt28__atomic_futex.*"
    "|_ZSt.*atomic_wait.*|signal|sigaction"
    # chance
    "|s?rand(?:_r)?|s?random(?:_r)?|[dlmnej]rand48|arc4random.*|getrandom|getentropy"
    "|RAND_.*|_ZNSt13random_device.*"
    # environment and identity
    "|getenv|secure_getenv|setenv|putenv|environ|__environ|getpid|gettid|getuid|geteuid|uname"
    "|gethostname|sysconf"
    ")$")


# What rdma-core's librspreload stands before, in any of its versions (seen in 44 and 65). Our own
# calls go past it: src/system/kernel_calls.h.
HOOKED_SYMBOL = re.compile(
    "^(?:accept4?|bind|close|connect|dup2?|epoll_create1?|epoll_ctl|epoll_p?wait2?|fcntl(?:64)?"
    "|getpeername|[gs]etsockopt|getsockname|listen|poll|__poll_chk|select|readv?|__read_chk|writev?"
    "|recv|recvfrom|recvmsg|__recv_chk|__recvfrom_chk|send|sendto|sendmsg|sendfile(?:64)?|shutdown"
    "|socket)$")
# They stand before the same functions themselves, and pass the program's calls on.
HOOKING_OBJECT = re.compile(r"(?:^|/)(?:descriptor|path|folder|exit)_hooks\.cc\.o$")


def undefined_symbols(nm, archive):
    """(object, symbol) pairs that the archive needs and doesn't define itself."""
    text = subprocess.run([nm, "--format=posix", archive], check=True, capture_output=True,
                          text=True).stdout
    member, needed, defined = "", [], set()
    for line in text.splitlines():
        if line.endswith(":"):
            member = re.sub(r".*\[(.*)\]:$", r"\1", line)
            continue
        fields = line.split()
        if len(fields) < 2:
            continue
        symbol, kind = fields[0].split("@")[0], fields[1]
        if kind in ("U", "w", "v"):
            needed.append((member, symbol))
        else:
            defined.add(symbol)
    return [(m, s) for m, s in needed if s not in defined]


def symbol_violations(nm, archive):
    return [f"{pathlib.Path(archive).name}({member}): imports {symbol}"
            for member, symbol in undefined_symbols(nm, archive)
            if FORBIDDEN_SYMBOL.match(symbol)]


def hooked_violations(nm, file):
    return [f"{pathlib.Path(file).name}({member}): calls {symbol}() of libc: use kernel::{symbol}()"
            for member, symbol in undefined_symbols(nm, file)
            if HOOKED_SYMBOL.match(symbol) and not HOOKING_OBJECT.search(member or file)]


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
    ("tools/verbena/a.cc", '#include "base/psn.h"', "layer base"),
    ("tools/verbena/b.cc", '#include "src/base/psn.h"', "layer base"),
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

BAD_SYMBOLS = {
    "clock_gettime": "#include <ctime>\nlong f() { timespec t; clock_gettime(CLOCK_REALTIME, &t);"
                     " return t.tv_sec; }",
    "time": "#include <ctime>\nlong f() { return time(nullptr); }",
    "steady_clock": "#include <chrono>\nlong f() { return"
                    " std::chrono::steady_clock::now().time_since_epoch().count(); }",
    "socket": "#include <sys/socket.h>\nint f() { return socket(AF_INET, SOCK_DGRAM, 0); }",
    "sendmsg": "#include <sys/socket.h>\nlong f(msghdr* m) { return sendmsg(3, m, 0); }",
    "read": "#include <unistd.h>\nlong f(void* p) { return read(0, p, 1); }",
    "pthread_create": "#include <pthread.h>\nint f(void* (*g)(void*)) { pthread_t t;"
                      " return pthread_create(&t, nullptr, g, nullptr); }",
    "pthread_mutex_lock": "#include <mutex>\nstd::mutex m;\nvoid f() { m.lock(); }",
    "random_device": "#include <random>\nunsigned f() { return std::random_device{}(); }",
    "rand": "#include <cstdlib>\nint f() { return rand(); }",
    "getenv": "#include <cstdlib>\nchar* f() { return getenv(\"HOME\"); }",
}
BAD_CALLS = {
    "epoll_create1": "#include <sys/epoll.h>\nint f() { return epoll_create1(0); }",
    "recvmsg": "#include <sys/socket.h>\nlong f(msghdr* m) { return recvmsg(3, m, 0); }",
    "close": "#include <unistd.h>\nint f() { return close(3); }",
}
GOOD_CALL = "#include <sys/syscall.h>\n#include <unistd.h>\nlong f() { return syscall(SYS_close, 3); }"

GOOD_SYMBOLS = """
#include <arpa/inet.h>
#include <cstring>
#include <string>
#include <vector>
int read_header(int v) { return v; }  // named like one, but our own
int timeouts(std::vector<std::string>& v) { v.emplace_back("x"); return read_header(1); }
const char* text(const void* a, char* out) { return inet_ntop(AF_INET, a, out, 16); }
"""


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
     "src/host/face.h": '#include "wire/port_binding.h"', "src/wire/port_binding.h": ""},
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


def selftest_symbols(folder, cxx, ar, nm):
    failures = []

    def archive_of(name, text):
        source, obj, archive = (f"{folder}/{name}{suffix}" for suffix in (".cc", ".o", ".a"))
        pathlib.Path(source).write_text(text)
        subprocess.run([cxx, "-O1", "-c", source, "-o", obj], check=True)
        subprocess.run([ar, "rcs", archive, obj], check=True)
        return archive

    violations = symbol_violations(nm, archive_of("good", GOOD_SYMBOLS))
    failures += [f"complains about a good archive: {v}" for v in violations]
    violations = hooked_violations(nm, archive_of("good_call", GOOD_CALL))
    failures += [f"complains about a good call: {v}" for v in violations]
    for name, text in BAD_CALLS.items():
        violations = hooked_violations(nm, archive_of("bad_call_" + name, text))
        if not any(name in v for v in violations):
            failures.append(f"{name}(): planted and not found, got {violations}")
    for name, text in BAD_SYMBOLS.items():
        violations = symbol_violations(nm, archive_of("bad_" + name, text))
        if not any(name in v for v in violations):
            failures.append(f"{name}: planted and not found, got {violations}")
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
    symbols = commands.add_parser("symbols")
    symbols.add_argument("--nm", default="nm")
    symbols.add_argument("archives", nargs="*")
    hooked = commands.add_parser("hooked")
    hooked.add_argument("--nm", default="nm")
    hooked.add_argument("files", nargs="*")
    selftest = commands.add_parser("selftest")
    selftest.add_argument("--nm", default="nm")
    selftest.add_argument("--ar", default="ar")
    selftest.add_argument("--cxx", default="g++")
    args = parser.parse_args()

    if args.command == "includes":
        seen, violations = layer_violations(args.root)
        if seen == 0:
            violations.append(f"{args.root}: no source files found")
        return report(violations, f"{seen} files, every include and every name points downwards")
    if args.command == "symbols":
        if not args.archives:
            return report(["no archive given"], "")
        violations = [v for archive in args.archives for v in symbol_violations(args.nm, archive)]
        names = ", ".join(pathlib.Path(a).name for a in args.archives)
        return report(violations, f"{names}: no clock, socket, thread, chance or environment")
    if args.command == "hooked":
        if not args.files:
            return report(["no file given"], "")
        violations = [v for file in args.files for v in hooked_violations(args.nm, file)]
        return report(violations, f"{len(args.files)} files make their own system calls")
    with tempfile.TemporaryDirectory() as folder:
        failures = selftest_includes(folder + "/tree")
        failures += selftest_faces(folder + "/faces")
        failures += selftest_symbols(folder, args.cxx, args.ar, args.nm)
        return report(failures, f"{len(BAD_INCLUDES)} planted includes, {len(BAD_FACES)} planted leaks "
                                f"and {len(BAD_SYMBOLS)} planted symbols were found")


if __name__ == "__main__":
    sys.exit(main())
