"""What is measured, in the order of a round. The tables find the figures by these names."""
from machine import busy
from measure import Measure

SIZES = (1 << 16, 1 << 20)
QUEUE_PAIRS = (1, 8, 64, 512)
KINDS = ("write", "send", "read")
WIRES = ("auto", "udp")

SLOT = "slot ping-pong"
EVENTFD = "eventfd ping-pong"
TCP_PING_PONG = "TCP ping-pong, blocking"
UDP_PING_PONG = "UDP ping-pong, spinning"
CALLS = "UDP ping-pong, Verbena's calls"
UDP_STREAM = "UDP stream"
UCX_LATENCY = "UCX tag_lat 64 B"
EVENTS = "ib_send_lat -e 64 B"
START = "ibv_devinfo, more than without"
LOOPS = {"pull": "pull", "ring_system_calls": "pwrite, ring, pread",
         "ring_private_frames": "private frames, ring", "ring_direct": "direct, ring"}


def size_text(size):
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} B"


def mode(rewritten):
    return ", rewritten" if rewritten else ""


def loop(program, size, rewritten):
    return f"{LOOPS[program]} {size_text(size)}{mode(rewritten)}"


def copy(size):
    return f"memcpy {size_text(size)}"


def tcp(size, rewritten=False):
    return f"TCP stream {size_text(size)}{mode(rewritten)}"


def ucx(size):
    return f"UCX tag_bw {size_text(size)}"


def perftest(kind, size, wire):
    return f"ib_{kind}_bw {size_text(size)} {wire}"


def stream(kind, size, wire, rewritten=False, events=False):
    return f"verbs_stream {kind} {size_text(size)} {wire}{mode(rewritten)}{', events' if events else ''}"


def latency(kind, wire):
    return f"ib_{kind}_lat 64 B {wire}"


def events(wire):
    return f"{EVENTS} {wire}"


def small(wire):
    return f"ib_write_bw 64 B, window 128 {wire}"


def queue_pairs(count, size):
    return f"ib_write_bw {size_text(size)} -q {count}"


def beside_loops(name):
    return f"busy: {name}"


def pairs(count, what):
    return f"{count} pairs: {what}"


def _messages(size):
    """About 1.3 GB of them."""
    return 20_000 * 65_536 // size


def limits(programs):
    """What the machine does without RDMA."""
    def limit(name, program, *options, fixed=False):
        return Measure(name, lambda: programs.limit(program, *options, fixed=fixed))

    yield limit(SLOT, "slot_ping_pong", fixed=True)
    yield limit(EVENTFD, "eventfd_ping_pong")
    yield limit(TCP_PING_PONG, "tcp_ping_pong")
    for size in SIZES:
        yield limit(copy(size), "memory_copy", "--size", size, fixed=True)
        for program in LOOPS:
            for rewritten in (False, True):
                options = ["--rewrite"] if rewritten else []
                yield limit(loop(program, size, rewritten), program, "--size", size, *options,
                            fixed=True)
    for size in (64, *SIZES):
        yield limit(tcp(size), "tcp_stream", "--size", size)
    for size in SIZES:
        yield limit(tcp(size, rewritten=True), "tcp_stream", "--size", size, "--rewrite")
    for name, what in ((UDP_STREAM, "udp-stream"), (UDP_PING_PONG, "udp-pingpong"),
                       (CALLS, "wire-pingpong")):
        yield Measure(name, lambda what=what: programs.raw_socket(what))
    for size in SIZES:
        yield Measure(ucx(size), lambda size=size: programs.ucx("tag_bw", size, _messages(size)))
    yield Measure(UCX_LATENCY, lambda: programs.ucx("tag_lat", 64, 200_000))


def verbena(programs):
    def bandwidth(name, program, wire, *options):
        return Measure(name, lambda: programs.bandwidth(program, wire, *options))

    def verbs_stream(kind, size, wire, rewritten=False, events=False):
        options = ["--rewrite"] * rewritten + ["--events"] * events
        return Measure(stream(kind, size, wire, rewritten, events),
                       lambda: programs.verbs_stream(wire, kind, "--size", size, *options))

    for wire in WIRES:
        for kind in KINDS:
            for size in SIZES:
                yield bandwidth(perftest(kind, size, wire), f"ib_{kind}_bw", wire, "-s", size, "-n",
                                _messages(size))
    for kind in KINDS:
        for size in SIZES:
            yield verbs_stream(kind, size, "auto")
            yield verbs_stream(kind, size, "auto", rewritten=True)
        for wire in WIRES:
            yield verbs_stream(kind, SIZES[0], wire, events=True)
        yield verbs_stream(kind, SIZES[0], "udp")
    for wire in WIRES:
        for kind in ("write", "send"):
            yield Measure(latency(kind, wire), lambda kind=kind, wire=wire: programs.latency(
                f"ib_{kind}_lat", wire, "-s", 64, "-n", 20_000))
        yield Measure(events(wire), lambda wire=wire: programs.latency(
            "ib_send_lat", wire, "-e", "-s", 64, "-n", 5_000))
        yield bandwidth(small(wire), "ib_write_bw", wire, "-s", 64, "-t", 128, "-n", 500_000)
    for size, messages in ((64, 512_000), (SIZES[0], 20_480)):
        for count in QUEUE_PAIRS:
            yield bandwidth(queue_pairs(count, size), "ib_write_bw", "auto", "-s", size, "-q", count,
                            "-n", messages // count)
    yield Measure(START, programs.start)


def on_a_busy_machine(programs):
    """Beside as many endless loops as there are cores."""
    def beside(name, take):
        def measure():
            with busy():
                return take()
        return Measure(beside_loops(name), measure)

    size = SIZES[0]
    yield beside(tcp(size), lambda: programs.limit("tcp_stream", "--size", size, "--seconds", 1))
    yield beside(TCP_PING_PONG, lambda: programs.limit("tcp_ping_pong", "--seconds", 2))
    for wire in WIRES:
        yield beside(perftest("write", size, wire), lambda wire=wire: programs.bandwidth(
            "ib_write_bw", wire, "-s", size, "-D", 2))
        yield beside(latency("send", wire), lambda wire=wire: programs.latency(
            "ib_send_lat", wire, "-s", 64, "-n", 20_000))


def in_pairs(programs, counts):
    """That many pairs of processes at once."""
    size = SIZES[0]
    for count in counts:
        def together(name, take, count=count):
            return Measure(pairs(count, name), lambda: programs.together(count, take))

        yield together(tcp(size), lambda pair: programs.limit(
            "tcp_stream", "--size", size, "--seconds", 2, pair=pair))
        yield together(ucx(size), lambda pair: programs.ucx(
            "tag_bw", size, 4 * _messages(size), pair=pair))
        for kind in KINDS:
            yield together(perftest(kind, size, "auto"), lambda pair, kind=kind: programs.bandwidth(
                f"ib_{kind}_bw", "auto", "-s", size, "-D", 2, pair=pair))


def measures(programs, pair_counts):
    return [*limits(programs), *verbena(programs), *on_a_busy_machine(programs),
            *in_pairs(programs, pair_counts)]
