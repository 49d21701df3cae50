#!/usr/bin/env python3
"""Checks what archives import: those of the sans-I/O layers nothing that talks to the world, and no
object of ours a function of libc that other preloaded libraries stand before.

  check_symbols.py symbols ARCHIVE…   undefined symbols of static libraries
  check_symbols.py hooked FILE…       that archives and objects make their own system calls
  check_symbols.py selftest           plants violations and expects them to be found
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

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


def selftest(folder, cxx, ar, nm):
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
    symbols = commands.add_parser("symbols")
    symbols.add_argument("--nm", default="nm")
    symbols.add_argument("archives", nargs="*")
    hooked = commands.add_parser("hooked")
    hooked.add_argument("--nm", default="nm")
    hooked.add_argument("files", nargs="*")
    selftests = commands.add_parser("selftest")
    selftests.add_argument("--nm", default="nm")
    selftests.add_argument("--ar", default="ar")
    selftests.add_argument("--cxx", default="g++")
    args = parser.parse_args()

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
        failures = selftest(folder, args.cxx, args.ar, args.nm)
        return report(failures, f"{len(BAD_SYMBOLS) + len(BAD_CALLS)} planted symbols were found")


if __name__ == "__main__":
    sys.exit(main())
