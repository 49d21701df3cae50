#!/usr/bin/env python3
"""Checks the layers of docs/architecture.md: who may include whom, and that the sans-I/O
archives import nothing that talks to the world.

  check_layers.py includes ROOT         include edges of src/, front/, include/ and the programs
  check_layers.py symbols ARCHIVE…      undefined symbols of static libraries
  check_layers.py hooked FILE…          that archives and objects make their own system calls
  check_layers.py selftest              plants violations and expects both checks to fail
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

# ---------------------------------------------------------------- include edges

# Folder -> layers it may include besides itself. The longest matching folder counts.
LAYERS = {
    "src/base": set(),
    "src/settings": {"base"},
    "src/packet": {"base"},
    "src/system": set(),
    "src/wire": {"base", "settings", "packet", "system"},
    "src/memory": {"base", "system"},
    "src/engine": {"base", "packet", "memory"},
    "src/cm": {"base", "packet"},
    "src/host": {"base", "settings", "packet", "system", "memory", "wire", "engine", "cm"},
    # The front converts between the C ABI and the host's types; how frames move is not its
    # business, so it doesn't see the wire.
    "front": {"base", "packet", "system", "engine", "cm", "host"},
    "include": set(),
    "labs": {"include", "labs/common"},
    "labs/common": {"include", "settings"},  # the faults are checked before a lab starts
    # What a user can set is checked before the program starts, by the same code as in it.
    "tools": {"include", "settings"},
    "bench": {"include"},
    # Exception: programs in bench/LAYER/ measure one layer from inside (raw sockets beside
    # src/wire, CRC speed of src/packet) and see what that layer itself sees. What is measured
    # there is never quoted as what a program gets; bench/*.cc measures that, from outside.
    "bench/base": {"base"},
    "bench/packet": {"base", "packet"},
    "bench/wire": {"base", "settings", "packet", "system", "wire"},
    "bench/engine": {"base", "packet", "memory", "engine"},
    "bench/cm": {"base", "packet", "cm"},
    "bench/host": {"base", "settings", "packet", "system", "memory", "wire", "engine", "cm", "host"},
}
SRC_LAYERS = {"base", "settings", "packet", "system", "memory", "wire", "engine", "cm", "host"}
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


def target_of(root, source, kind, name):
    """The layer that an include reaches, or None for the system's headers and unknown files."""
    candidates = [root / "src" / name, root / "include" / name, root / name]
    if kind == '"':
        candidates.insert(0, source.parent / name)
    for candidate in candidates:
        resolved = candidate.resolve()
        if resolved.is_file() and resolved.is_relative_to(root):
            folder = folder_of(resolved.relative_to(root))
            return layer_name(folder) if folder else None
    first = name.split("/")[0]
    if kind == '"' and first in SRC_LAYERS:  # not there (yet), but its place is clear
        return first
    return None


def include_violations(root):
    """(number of files seen, list of violations)."""
    root = pathlib.Path(root).resolve()
    seen, violations = 0, []
    for top in sorted({key.split("/")[0] for key in LAYERS}):
        for source in sorted((root / top).rglob("*")):
            if source.suffix not in SOURCE_SUFFIXES or not source.is_file():
                continue
            relative = source.relative_to(root).as_posix()
            folder = folder_of(relative)
            if folder is None:
                violations.append(f"{relative}: src/ has no such layer: add it to {__file__}")
                continue
            seen += 1
            for number, line in enumerate(source.read_text(errors="replace").splitlines(), 1):
                match = INCLUDE.match(line)
                if not match:
                    continue
                kind, name = match.groups()
                where = f"{relative}:{number}"
                if folder in SANS_IO and kind == "<" and name in SANS_IO_FORBIDDEN_HEADERS:
                    violations.append(f"{where}: {folder} is sans-I/O and includes <{name}>")
                target = target_of(root, source, kind, name)
                pure = SANS_IO_HEADERS.get(target)
                if folder in SANS_IO and pure is not None and name not in pure:
                    violations.append(f"{where}: {folder} is sans-I/O and includes {name}; of "
                                      f"{target} it may include {', '.join(sorted(pure))}")
                    continue
                if target is None or target == layer_name(folder) or target in LAYERS[folder]:
                    continue
                allowed = ", ".join(sorted(LAYERS[folder])) or "nothing of the project"
                violations.append(
                    f"{where}: {folder} includes {name} of layer {target}; it may see {allowed}")
    return seen, violations


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
TREE = ["src/base/psn.h", "src/settings/settings.h", "src/packet/packet.h", "src/wire/udp_wire.h", "src/engine/engine.h",
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
    _, violations = include_violations(root)
    failures += [f"complains about a good tree: {v}" for v in violations]
    for name, line, expected in BAD_INCLUDES:
        write(name, line)
        _, violations = include_violations(root)
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
        seen, violations = include_violations(args.root)
        if seen == 0:
            violations.append(f"{args.root}: no source files found")
        return report(violations, f"{seen} files, every include points downwards")
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
        failures += selftest_symbols(folder, args.cxx, args.ar, args.nm)
        return report(failures, f"{len(BAD_INCLUDES)} planted includes and {len(BAD_SYMBOLS)} "
                                "planted symbols were found")


if __name__ == "__main__":
    sys.exit(main())
