"""`verbena send` and `verbena receive`: trees arrive as they were, whatever happens in between."""

import contextlib
import dataclasses
import json
import os
import pathlib
import random
import re
import signal
import stat
import time

from cases import (LO, LO_LOSS, VETHS, VETH_LOSSES, WAITING_LO, Case, check_output, next_tcp_port)
from connections import wait_for_line
from network import Topology
from observing import expect
from programs import CaseFailed, tail

KILLS = 20  # on either side in turn; `run.py --kills` has more
WAITING_CUT = Topology("veth-cut", mtu=1500, waits=True)
HEADER, RECORD = 100, 32  # bytes of a journal
KEY_BYTES = bytes(range(32))


# ---------------------------------------------------------------- trees

def make_tree(root, seed=1):
    """Files of all kinds, with names that a terminal must not see raw."""
    dice = random.Random(seed)
    root = os.fsencode(root)
    os.makedirs(root + b"/deep/er/and/deeper")
    os.makedirs(root + b"/empty folder")
    for name, size in ((b"empty", 0), (b"one", 1), (b"chunk", 524288), (b"more", 524289),
                       (b"big", 3_000_001), (b"deep/er/and/deeper/file", 70_000),
                       (b"\xff\xfe not utf-8", 10), (b"new\nline \x1b[2J", 20), (b"-rf", 30),
                       ("n\u00e4me \u20ac".encode(), 40)):
        with open(root + b"/" + name, "wb") as out:
            out.write(dice.randbytes(size))
    with open(root + b"/sparse", "wb") as out:
        out.truncate(20_000_000)
        out.seek(9_000_000)
        out.write(b"in the middle")
    os.symlink("one", root + b"/link")
    os.symlink("/nowhere/at all", root + b"/dangling")
    os.chmod(root + b"/one", 0o400)
    os.chmod(root + b"/chunk", 0o751)
    os.utime(root + b"/big", ns=(0, 981_173_045_123_456_789))
    os.chmod(root + b"/empty folder", 0o500)
    os.utime(root + b"/deep/er", ns=(0, 1_000_000_000_000_000_007))


def describe(root):
    """What must be the same on both sides, by name."""
    found = {}
    root = os.fsencode(root)
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = os.path.join(folder, name)
            status = os.lstat(path)
            what = (stat.S_IFMT(status.st_mode), stat.S_IMODE(status.st_mode), status.st_mtime_ns)
            if stat.S_ISLNK(status.st_mode):
                what = (stat.S_IFMT(status.st_mode), os.readlink(path))
            elif stat.S_ISREG(status.st_mode):
                what += (pathlib.Path(os.fsdecode(path)).read_bytes(),)
            found[os.path.relpath(path, root)] = what
    return found


def expect_same(source, target):
    ours, theirs = describe(source), describe(target)
    expect(ours.keys() == theirs.keys(),
           f"names differ: {sorted(ours.keys() ^ theirs.keys())}")
    for name, what in ours.items():
        expect(what == theirs[name], f"{name!r} differs: {what[:3]} and {theirs[name][:3]}")


def expect_nothing_left(target):
    expect(not os.path.lexists(f"{target}/.verbena-receive"), "the hidden folder is still there")


# ---------------------------------------------------------------- the two programs

@contextlib.contextmanager
def folders(host):
    """(source, target), the programs' own."""
    with host.scratch() as folder:
        for name in ("source", "target"):
            os.mkdir(f"{folder}/{name}")
        own(host, folder)
        try:
            yield f"{folder}/source", f"{folder}/target"
        finally:
            for path, names, _ in os.walk(folder):  # so that it can be removed
                for name in names:
                    os.chmod(os.path.join(path, name), 0o700)


def own(host, folder):
    if not host.user:
        return
    folder = os.fsencode(folder)
    for path, names, files in os.walk(folder):
        for name in [b".", *names, *files]:
            os.lchown(os.path.join(path, name), host.user.pw_uid, host.user.pw_gid)


def receiver(host, network, target, *options, port, env=None):
    process = host.start(network.server.namespace,
                         [host.verbena, "receive", "--port", str(port), *options, target],
                         preload=False, env=env)
    try:
        wait_for_line(host, process, '^receiving into|"listening"')
    except CaseFailed:
        process.kill()
        raise
    return process


def sender(host, network, sources, *options, port, env=None):
    sources = [sources] if isinstance(sources, str) else sources
    return host.start(network.client.namespace,
                      [host.verbena, "send", "--port", str(port), *options, *sources,
                       network.server.addresses[4]], preload=False, env=env)


def transfer(host, network, source, target, *, receive=(), send=(), timeout=60):
    """((status, output) of the sender, the same of the receiver)."""
    port = next_tcp_port()
    processes = [receiver(host, network, target, *receive, port=port)]
    try:
        processes.append(sender(host, network, source, *send, port=port))
        deadline = host.deadline(timeout)
        return tuple((p.wait(deadline), p.output()) for p in reversed(processes))
    except CaseFailed as failure:
        raise CaseFailed("\n".join([str(failure), *map(tail, processes)])) from None
    finally:
        for process in processes:
            process.kill()


def key_options(host, folder):
    """Both ends' --key-file; needed between two hosts."""
    path = f"{folder}/key"
    if not os.path.exists(path):
        pathlib.Path(path).write_bytes(KEY_BYTES)
        os.chmod(path, 0o600)
        own(host, folder)
    return "--key-file", path


def expect_ended(ends, sent, received, words=()):
    for (status, output), wanted, side in zip(ends, (sent, received), ("sender", "receiver")):
        expect(status == wanted, f"the {side} ended with {status} instead of {wanted}:\n"
               + "\n".join(f"    | {output}" for _, output in ends))
    both = "\n".join(output for _, output in ends)
    for pattern in words:
        expect(re.search(pattern, both, re.M), f"nothing matches /{pattern}/ in\n{both}")


# ---------------------------------------------------------------- cases

@dataclasses.dataclass(frozen=True)
class Tree(Case):
    """A tree of all kinds of entries; once more, and nothing is sent."""
    options: tuple = ()

    def run(self, host, network):
        with folders(host) as (source, target):
            make_tree(f"{source}/tree")
            own(host, source)
            keys = () if network.client is network.server else key_options(host, source)
            receive, send = (*keys, *self.options), keys
            ends = transfer(host, network, f"{source}/tree", target, receive=receive, send=send)
            expect_ended(ends, 0, 0, ("^sent 19 of 19 entries", "not encrypted"))
            expect(not re.search(r"[^\x20-\x7e\n\u00a0-\uffff]", ends[0][1] + ends[1][1]),
                   "control characters on the screen")
            expect_same(f"{source}/tree", f"{target}/tree")
            expect(os.stat(f"{target}/tree/sparse").st_blocks * 512 < 1_000_000, "no holes")
            expect_nothing_left(target)
            ends = transfer(host, network, f"{source}/tree", target, receive=(*receive, "--json"),
                            send=(*send, "--json"))
            expect_ended(ends, 0, 0)
            for _, output in ends:
                last = json.loads(output.splitlines()[-1])
                expect(last["event"] == "end" and last["bytes_sent"] == 0
                       and last["identical"] == 13 and last["problem"] == "", f"{last}")
            expect_same(f"{source}/tree", f"{target}/tree")
            expect_nothing_left(target)
        return ""


@dataclasses.dataclass(frozen=True)
class Overwriting(Case):
    """Something is there: refused, skipped, overwritten."""

    def run(self, host, network):
        with folders(host) as (source, target):
            for folder, text in ((source, "new"), (target, "old")):
                pathlib.Path(f"{folder}/file").write_text(text)
            pathlib.Path(f"{source}/other").write_text("other")
            own(host, os.path.dirname(source))
            sources = [f"{source}/file", f"{source}/other"]
            there = pathlib.Path(f"{target}/file")

            ends = transfer(host, network, sources, target)
            expect_ended(ends, 1, 1, ("file: it is there already and differs.*--force or --skip",))
            expect(there.read_text() == "old", "it was overwritten unasked")
            expect(pathlib.Path(f"{target}/other").read_text() == "other", "the other is missing")
            expect_ended(transfer(host, network, sources, target, receive=("--skip",)), 0, 0,
                         ("keeps it", "2 skipped"))
            expect(there.read_text() == "old", "it was overwritten in spite of --skip")
            expect_ended(transfer(host, network, sources, target, receive=("--force",)), 0, 0)
            expect(there.read_text() == "new", "it was not overwritten in spite of --force")

            there.unlink()
            there.mkdir()
            own(host, target)
            expect_ended(transfer(host, network, sources, target, receive=("--force",)), 1, 1,
                         ("file: a folder is there already",))
            expect_nothing_left(target)
        return ""


@dataclasses.dataclass(frozen=True)
class Refusals(Case):
    """Wrong keys, no key, no receiver, wrong words: each is said, and nothing arrives."""

    def run(self, host, network):
        with folders(host) as (source, target):
            pathlib.Path(f"{source}/file").write_text("secret")
            keys = {}
            for name, text in (("right", b"r" * 32), ("wrong", b"w" * 32), ("short", b"s")):
                keys[name] = f"{source}/{name}"
                pathlib.Path(keys[name]).write_bytes(text)
                os.chmod(keys[name], 0o600)
            pathlib.Path(f"{source}/open").write_bytes(b"o" * 32)
            own(host, os.path.dirname(source))
            port = next_tcp_port()
            process = receiver(host, network, target, "--key-file", keys["right"], port=port)
            try:
                for options, words in (
                        (("--key-file", keys["wrong"]), "the receiver has another key"),
                        (("--key-file", keys["short"]), "1 bytes; a key has 16 to 4096"),
                        (("--key-file", f"{source}/open"), "lets others use the key; chmod 600"),
                        (("--key-file", f"{source}/none"), "No such file")):
                    self.refused(host, network, f"{source}/file", options, words, port)
                self.refused(host, network, f"{source}/none", (), "none: No such file", port)
                expect(process.poll() is None, "the receiver has ended\n" + tail(process))
                status, output = self.sent(host, network, f"{source}/file",
                                           ("--key-file", keys["right"]), port)
                check_output(status, output, 0, ("^sent 1 of 1",))
                check_output(process.wait(host.deadline(10)), process.output(), 0,
                             ("refused .*",))
            finally:
                process.kill()
            self.refused(host, network, f"{source}/file", (),
                         f"verbena receive --port {port} DIR. running on", port)
            check_output(*host.run(network.server.namespace, [host.verbena, "receive", f"{target}/no"],
                                   preload=False), 1, ("no: No such file",))
        return ""

    @staticmethod
    def sent(host, network, source, options, port):
        process = sender(host, network, source, *options, port=port)
        try:
            return process.wait(host.deadline(20)), process.output()
        finally:
            process.kill()

    def refused(self, host, network, source, options, words, port):
        check_output(*self.sent(host, network, source, options, port), 1, (re.escape(words),
                     ) if "DIR" not in words else (words,))


@dataclasses.dataclass(frozen=True)
class NeedsKey(Case):
    """A process of another host has to have a key."""

    def run(self, host, network):
        with folders(host) as (source, target):
            pathlib.Path(f"{source}/file").write_text("secret")
            own(host, source)
            port = next_tcp_port()
            process = receiver(host, network, target, port=port)
            try:
                status, output = Refusals.sent(host, network, f"{source}/file", (), port)
                check_output(status, output, 1, ("its own user.*same --key-file",))
                expect(os.listdir(target) == [], "something arrived")
            finally:
                process.kill()
        return ""


@dataclasses.dataclass(frozen=True)
class Permissions(Case):
    """What can't be read or written is named; the rest arrives."""

    def run(self, host, network):
        with folders(host) as (source, target):
            for name in ("closed", "open"):
                pathlib.Path(f"{source}/{name}").write_text(name)
            os.mkfifo(f"{source}/fifo")
            own(host, os.path.dirname(source))
            # A user namespace's root may read everything.
            as_nobody = host.user is not None
            if as_nobody:
                os.chmod(f"{source}/closed", 0)
            ends = transfer(host, network, [f"{source}/{n}" for n in ("closed", "fifo", "open")], target)
            expect_ended(ends, 1, 0, ("fifo: neither a file nor",))
            if as_nobody:
                expect("closed: Permission denied" in ends[0][1], ends[0][1])
            expect(pathlib.Path(f"{target}/open").read_text() == "open", "the rest didn't arrive")
            if as_nobody:
                os.chmod(target, 0o500)
                ends = transfer(host, network, f"{source}/open", target, receive=("--force",))
                os.chmod(target, 0o700)
                pathlib.Path(f"{target}/open").unlink()
                os.chmod(target, 0o500)
                ends = transfer(host, network, f"{source}/open", target)
                os.chmod(target, 0o700)
                expect_ended(ends, 1, 1, ("Permission denied",))
            expect_nothing_left(target)
        return ""


FULL = """
mount -t tmpfs -o size=12m none "$2"
head -c 6m /dev/zero > "$2/filler"
run() {
  "$0" receive --port "$3" "$2" > "$2.log" 2>&1 &
  for i in $(seq 200); do grep -q receiving "$2.log" && break; sleep 0.05; done
  "$0" send --port "$3" "$1" 127.0.0.1
  echo "sent: $?"
  wait $!
  echo "received: $?"
  cat "$2.log"
}
run "$@"
ls -A "$2"
rm "$2/filler"
run "$@"
ls -A "$2"
cmp "$1" "$2/file" && echo same
"""


@dataclasses.dataclass(frozen=True)
class DiskFull(Case):
    """The disk fills up: both ends say so, and go on when there is room."""

    def run(self, host, network):
        with folders(host) as (source, target):
            pathlib.Path(f"{source}/file").write_bytes(random.Random(2).randbytes(9_000_000))
            own(host, source)
            status, output = host.run(
                network.server.namespace,
                ["unshare", "-Urm", "sh", "-c", FULL, host.verbena, f"{source}/file", target,
                 str(next_tcp_port())], preload=False, timeout=self.timeout)
            check_output(status, output, 0, (
                r"the receiver can't store file: No space left on device",
                r"^\.verbena-receive\nfiller$", r"file: continues with \d+ of 18 chunks",
                r"\nfile\nsame"))
            expect(output.count("sent: 1\n") == 1 and output.count("received: 1\n") == 1, output)
        return ""


@dataclasses.dataclass(frozen=True)
class Interrupted(Case):
    """Ctrl-C on either side: both say so; a second run completes."""

    def run(self, host, network):
        with folders(host) as (source, target):
            pathlib.Path(f"{source}/file").write_bytes(random.Random(3).randbytes(8_000_000))
            own(host, source)
            for who, words in (("sender", "the sender was interrupted"),
                               ("receiver", "the receiver was interrupted")):
                self.interrupt(host, network, source, target, who, words)
                expect(sorted(os.listdir(target)) == [".verbena-receive"], f"{os.listdir(target)}")
            ends = transfer(host, network, f"{source}/file", target)
            expect_ended(ends, 0, 0, (r"continues with [1-9]\d* of 16 chunks",))
            expect_same(source, target)
            expect_nothing_left(target)
        return ""

    @staticmethod
    def interrupt(host, network, source, target, who, words):
        port = next_tcp_port()
        receives = receiver(host, network, target, port=port)
        try:
            sends = sender(host, network, f"{source}/file", "--limit", "4M", port=port)
            try:
                wait_for_journal(host, target, receives)
                os.kill((sends if who == "sender" else receives).pid, signal.SIGINT)
                deadline = host.deadline(10)
                ends = tuple((p.wait(deadline), p.output()) for p in (sends, receives))
                expect_ended(ends, 130 if who == "sender" else 1, 130 if who == "receiver" else 1,
                             (words, "interrupted; run the same command"))
            finally:
                sends.kill()
        finally:
            receives.kill()


def wait_for_journal(host, target, process, records=2):
    """Until some chunks are verified that weren't at the beginning."""
    def size():
        return sum(p.stat().st_size for p in pathlib.Path(target).glob(".verbena-receive/*.journal"))
    deadline, start = host.deadline(20), size()
    while size() < max(start, HEADER) + records * RECORD:
        if process.poll() is not None or time.monotonic() > deadline:
            raise CaseFailed("no chunks arrive\n" + tail(process))
        time.sleep(0.005)


@dataclasses.dataclass(frozen=True)
class Changed(Case):
    """The source changes between two runs, with and without another time, and during a run."""

    def run(self, host, network):
        with folders(host) as (source, target):
            file = pathlib.Path(f"{source}/file")
            content = bytearray(random.Random(4).randbytes(8_000_000))
            file.write_bytes(content)
            own(host, source)
            time_of = os.stat(file).st_mtime_ns
            Interrupted.interrupt(host, network, source, target, "receiver", "was interrupted")
            content[100] ^= 1  # in the first chunk, which has arrived
            file.write_bytes(content)
            os.utime(file, ns=(time_of, time_of))
            expect_ended(transfer(host, network, str(file), target), 0, 0, ("continues with",))
            expect_same(source, target)

            pathlib.Path(f"{target}/file").unlink()
            Interrupted.interrupt(host, network, source, target, "receiver", "was interrupted")
            content[100] ^= 1
            file.write_bytes(content)
            expect_ended(transfer(host, network, str(file), target), 0, 0,
                         ("the source has changed since the broken run",))
            expect_same(source, target)

            pathlib.Path(f"{target}/file").unlink()
            port = next_tcp_port()
            receives = receiver(host, network, target, port=port)
            sends = sender(host, network, str(file), "--limit", "8M", port=port)
            try:
                wait_for_journal(host, target, receives)
                file.write_bytes(content[:7_000_000])
                deadline = host.deadline(20)
                ends = tuple((p.wait(deadline), p.output()) for p in (sends, receives))
            finally:
                sends.kill()
                receives.kill()
            expect_ended(ends, 1, 1, ("while it was sent; run the command again",))
            expect(os.listdir(target) == [], f"left: {os.listdir(target)}")
            expect_ended(transfer(host, network, str(file), target), 0, 0)
            expect_same(source, target)
        return ""


@dataclasses.dataclass(frozen=True)
class Killed(Case):
    """kill -9 of either side at random moments: the other one ends by itself, files are whole or
    nameless, and in the end everything is right and nothing is left over."""

    def run(self, host, network):
        seed = random.randrange(1 << 32)
        dice = random.Random(seed)
        kills = rounds = breaks = 0
        try:
            while kills < KILLS:
                rounds += 1
                with folders(host) as (source, target):
                    make_small_tree(f"{source}/tree", dice)
                    own(host, source)
                    while True:
                        kill = kills < KILLS
                        done, broken = self.attempt(host, network, source, target, dice, kill)
                        kills += kill
                        breaks += broken
                        self.check_names(f"{source}/tree", f"{target}/tree")
                        if done:
                            break
                    expect_same(f"{source}/tree", f"{target}/tree")
                    expect_nothing_left(target)
        except CaseFailed as failure:
            raise CaseFailed(f"seed {seed}, kill {kills}: {failure}") from None
        expect(breaks > kills // 4, f"only {breaks} of {kills} kills met a transfer")
        return f"{kills} kills, {breaks} of them broke a transfer, {rounds} trees"

    @staticmethod
    def attempt(host, network, source, target, dice, kill):
        """(completed, a transfer was broken off)"""
        port = next_tcp_port()
        options = ("--window", "256K", "--queue-pairs", "2")
        receives = receiver(host, network, target, *options, port=port)
        sends = sender(host, network, f"{source}/tree", "--limit", "10M" if kill else "1G", port=port)
        both = [sends, receives]
        try:
            if kill:
                victim, other = both if dice.random() < 0.5 else reversed(both)
                time.sleep(dice.uniform(0, 0.35))
                with contextlib.suppress(ProcessLookupError):
                    os.kill(victim.pid, signal.SIGKILL)
            if kill and victim is sends:
                # It may have died before it was heard: then the receiver waits for another one.
                victim.wait(host.deadline(5))
                time.sleep(0.05)
                if "sends;" not in receives.output():
                    receives.kill()
            deadline = host.deadline(30)
            statuses = [p.wait(deadline) for p in both]
            broken = kill and "to continue" in "".join(p.output() for p in both)
            expect(kill or statuses == [0, 0], f"{statuses}\n" + "\n".join(map(tail, both)))
            return statuses == [0, 0], broken
        finally:
            for process in both:
                process.kill()

    @staticmethod
    def check_names(source, target):
        """What has its name is whole."""
        for folder, _, files in os.walk(target):
            for name in files:
                path = os.path.join(folder, name)
                there = os.path.join(source, os.path.relpath(path, target))
                expect(pathlib.Path(path).read_bytes() == pathlib.Path(there).read_bytes(),
                       f"{path} has its name and isn't whole")


def make_small_tree(root, dice):
    os.makedirs(f"{root}/sub")
    for name, size in (("a", 900_000), ("b", 0), ("sub/c", 500_000), ("sub/d", 40_000), ("e", 700_000)):
        pathlib.Path(f"{root}/{name}").write_bytes(dice.randbytes(size))
    with open(f"{root}/sparse", "wb") as out:
        out.truncate(3_000_000)
        out.seek(1_000_000)
        out.write(dice.randbytes(200_000))


@dataclasses.dataclass(frozen=True)
class LinkDown(Case):
    """The cable is cut for five seconds."""

    def run(self, host, network):
        with folders(host) as (source, target):
            pathlib.Path(f"{source}/file").write_bytes(random.Random(5).randbytes(4_000_000))
            keys = key_options(host, os.path.dirname(source))
            own(host, os.path.dirname(source))
            port = next_tcp_port()
            receives = receiver(host, network, target, *keys, port=port)
            sends = sender(host, network, f"{source}/file", *keys, "--limit", "3M", port=port)
            try:
                wait_for_journal(host, target, receives)
                network.client.namespace.run("ip", "link", "set", "right", "down")
                time.sleep(5)
                network.client.namespace.run("ip", "link", "set", "right", "up")
                deadline = host.deadline(60)
                ends = tuple((p.wait(deadline), p.output()) for p in (sends, receives))
            finally:
                sends.kill()
                receives.kill()
            expect_ended(ends, 0, 0)
            expect_same(source, target)
            expect_nothing_left(target)
        return ""


@dataclasses.dataclass(frozen=True)
class Busy(Case):
    """One sender at a time, one receiver a folder; --keep serves the next one."""

    def run(self, host, network):
        with folders(host) as (source, target):
            for name in ("one", "two"):
                pathlib.Path(f"{source}/{name}").write_bytes(random.Random(6).randbytes(3_000_000))
            own(host, source)
            port = next_tcp_port()
            receives = receiver(host, network, target, "--keep", port=port)
            sends = sender(host, network, f"{source}/one", "--limit", "2M", port=port)
            try:
                wait_for_journal(host, target, receives)
                check_output(*Refusals.sent(host, network, f"{source}/two", (), port), 1,
                             ("the receiver said no: it serves another sender",))
                check_output(*host.run(
                    network.server.namespace,
                    [host.verbena, "receive", "--port", str(next_tcp_port()), target],
                    preload=False), 1, ("another `verbena receive` uses this folder",))
                check_output(sends.wait(host.deadline(20)), sends.output(), 0, ("^sent 1 of 1",))
                check_output(*Refusals.sent(host, network, f"{source}/two", (), port), 0,
                             ("^sent 1 of 1",))
                os.kill(receives.pid, signal.SIGINT)
                check_output(receives.wait(host.deadline(10)), receives.output(), 130,
                             ("interrupted",))
                expect_same(source, target)
            finally:
                sends.kill()
                receives.kill()
        return ""


def all_cases():
    return [Tree(LO, "transfer/tree", quick=True),
            Tree(LO, "transfer/tree-udp", wire="udp"),
            Tree(LO, "transfer/tree-one-small-queue-pair",
                 options=("--queue-pairs", "1", "--window", "64K")),
            Tree(VETHS[0], "transfer/tree"),
            Tree(LO_LOSS, "transfer/tree", timeout=120),
            Tree(VETH_LOSSES[0], "transfer/tree", timeout=120),
            Overwriting(LO, "transfer/overwrite"),
            Refusals(LO, "transfer/refusals"),
            NeedsKey(VETHS[0], "transfer/needs-key"),
            Permissions(LO, "transfer/permissions"),
            DiskFull(LO, "transfer/disk-full"),
            Interrupted(LO, "transfer/interrupted"),
            Changed(LO, "transfer/changed"),
            Busy(LO, "transfer/busy"),
            Killed(WAITING_LO, "transfer/killed", timeout=600),
            LinkDown(WAITING_CUT, "transfer/link-down")]
