"""The tables: medians, spreads, ratios, and which goals are met."""
import collections

import suite

# `met`: of a goal that the cell shows; None without one.
Cell = collections.namedtuple("Cell", "text met", defaults=(None,))
Table = collections.namedtuple("Table", "title columns rows")  # rows: a name, then cells
EMPTY = Cell("")


class Writer:
    """Builds tables from results; remembers the goals."""

    def __init__(self, results, before=None):
        self._results = results
        self._before = before
        self.met = 0
        self.missed = []

    def median(self, name, figure):
        return self._results.median(name, figure)

    def value(self, name, figure, digits=2, scale=1):
        """A median, times `scale`; of several rounds also the least and the most."""
        median = self.median(name, figure)
        if median is None:
            return EMPTY
        median *= scale
        if len(self._results.of(name, figure)) == 1:
            return Cell(f"{median:.{digits}f}")
        least, most = (scale * value for value in self._results.spread(name, figure))
        return Cell(f"{median:.{digits}f}  ({least:.{digits}f} to {most:.{digits}f})")

    def _judge(self, row, text, met, goal):
        if met:
            self.met += 1
        else:
            self.missed.append(f"{row}: {text}, goal {goal}")
        return Cell(f"{text} {'✓' if met else '✗'} {goal}", met)

    def ratio(self, row, value, other, at_least=None, of=""):
        """`value` as a multiple of `other`, and whether that is enough."""
        if value is None or not other:
            return EMPTY
        text = f"{value / other:.2f}"
        if at_least is None:
            return Cell(text)
        return self._judge(f"{row}, × {of}" if of else row, text, value / other >= at_least,
                           f"≥ {at_least:g}")

    def bound(self, row, value, most, digits=2):
        """Whether `value` is small enough."""
        if value is None or most is None:
            return EMPTY
        return self._judge(row, f"{value:.{digits}f}", value <= most, f"≤ {most:.{digits}f}")

    def before(self, row, name, figure, goal=False):
        """As a multiple of the same figure in an earlier run."""
        if self._before is None:
            return EMPTY
        return self.ratio(row, self.median(name, figure), self._before.median(name, figure),
                          at_least=1 if goal else None, of="before")

    def least(self, names, figure):
        return self._pick(min, names, figure)

    def most(self, names, figure):
        return self._pick(max, names, figure)

    def _pick(self, choose, names, figure):
        values = [v for v in (self.median(name, figure) for name in names) if v is not None]
        return choose(values) if values else None


def same_host(w):
    """Bytes between processes of one host, beside what bounds them."""
    rows = []
    for size in suite.SIZES:
        loops = {rewritten: [suite.loop(p, size, rewritten) for p in suite.LOOPS]
                 for rewritten in (False, True)}
        for name in (suite.copy(size), *loops[False], *loops[True], suite.ucx(size), suite.tcp(size),
                     suite.tcp(size, True)):
            rows.append([name, w.value(name, "gb_per_s"), EMPTY, EMPTY, EMPTY,
                         w.before(name, name, "gb_per_s")])
        of_loop = 0.6 if size == suite.SIZES[0] else 0.75
        ours = [(suite.perftest(kind, size, "auto"), False) for kind in suite.KINDS]
        ours += [(suite.stream(kind, size, "auto", rewritten), rewritten)
                 for rewritten in (False, True) for kind in suite.KINDS]
        for name, rewritten in ours:
            value = w.median(name, "gb_per_s")
            rows.append([name, w.value(name, "gb_per_s"),
                         w.ratio(name, value, w.most(loops[rewritten], "gb_per_s"), of_loop,
                                 "best loop"),
                         w.ratio(name, value, w.median(suite.ucx(size), "gb_per_s"), 1, "UCX"),
                         w.ratio(name, value, w.median(suite.tcp(size, rewritten), "gb_per_s"), 2,
                                 "TCP"),
                         w.before(name, name, "gb_per_s")])
    return Table("One host, bandwidth, GB/s",
                 ["GB/s", "× best loop", "× UCX", "× TCP", "× before"], rows)


def same_host_latency(w):
    slot = w.median(suite.SLOT, "p50_us")
    eventfd = w.median(suite.EVENTFD, "p50_us")
    rows = []
    for name in (suite.SLOT, suite.UCX_LATENCY, suite.EVENTFD, suite.TCP_PING_PONG):
        rows.append([name, w.value(name, "p50_us"), w.value(name, "p99_us"),
                     w.ratio(name, w.median(name, "p50_us"), slot), EMPTY,
                     w.before(name, name, "p50_us")])
    bounds = [(suite.latency(kind, "auto"), slot and 3 * slot + 0.3) for kind in ("write", "send")]
    bounds.append((suite.events("auto"), eventfd and 1.5 * eventfd))
    for name, bound in bounds:
        value = w.median(name, "p50_us")
        rows.append([name, w.value(name, "p50_us"), w.value(name, "p99_us"),
                     w.ratio(name, value, slot), w.bound(name, value, bound),
                     w.before(name, name, "p50_us")])
    return Table("One host, one way, µs", ["p50", "p99", "× slot", "goal", "× before"], rows)


def small_messages(w):
    auto, udp = (suite.small(wire) for wire in suite.WIRES)
    tcp = w.median(suite.tcp(64), "gb_per_s")
    rows = [[suite.tcp(64), w.value(suite.tcp(64), "gb_per_s", scale=1e3 / 64), EMPTY, EMPTY, EMPTY]]
    for name, goal in ((auto, 4), (udp, None)):
        value = w.median(name, "million_per_s")
        rows.append([name, w.value(name, "million_per_s"),
                     w.ratio(name, value, w.median(udp, "million_per_s"), goal, "the UDP wire"),
                     w.ratio(name, value, tcp and tcp * 1e3 / 64),
                     w.before(name, name, "million_per_s", goal=name == udp)])
    return Table("64 B messages, a window of 128, million a second",
                 ["million/s", "× UDP wire", "× TCP, 64 B writes", "× before"], rows)


def queue_pairs(w):
    rows = []
    for size in (64, suite.SIZES[0]):
        names = [suite.queue_pairs(count, size) for count in suite.QUEUE_PAIRS]
        best = w.most(names, "million_per_s")
        for name in names:
            rate = w.median(name, "million_per_s")
            rows.append([name, w.value(name, "million_per_s", 3),
                         w.bound(f"{name}, µs per message × best", rate and best / rate, 1.3),
                         w.before(name, name, "million_per_s")])
    return Table("Queue pairs (-q)", ["million/s", "µs per message × best", "× before"], rows)


def cpu(w):
    size = suite.SIZES[0]
    names = [suite.tcp(size)]
    names += [suite.stream(kind, size, wire, events=events) for wire in suite.WIRES
              for kind in suite.KINDS for events in (False, True)]
    figures = ("sender_cpu_s_per_gb", "receiver_cpu_s_per_gb")

    def both(name):
        ends = [w.median(name, figure) for figure in figures]
        return sum(ends) if None not in ends else None

    rows = [[name, *(w.value(name, figure, 3) for figure in figures),
             w.ratio(name, both(name), both(suite.tcp(size))), w.value(name, "gb_per_s")]
            for name in names]
    return Table("CPU seconds per GB, 64 KiB messages",
                 ["the end that sends", "the end that receives", "sum × TCP", "GB/s"], rows)


def busy(w):
    """Beside as many endless loops as there are cores."""
    size = suite.SIZES[0]
    stream, ping_pong = suite.beside_loops(suite.tcp(size)), suite.beside_loops(suite.TCP_PING_PONG)
    rows = [[stream, w.value(stream, "gb_per_s"), EMPTY, EMPTY],
            [ping_pong, EMPTY, w.value(ping_pong, "p99_us", 1), EMPTY]]
    for wire in suite.WIRES:
        judged = wire == "auto"  # the goals are those of processes side by side
        name = suite.beside_loops(suite.perftest("write", size, wire))
        rows.append([name, w.value(name, "gb_per_s"), EMPTY,
                     w.ratio(name, w.median(name, "gb_per_s"), w.median(stream, "gb_per_s"),
                             1 if judged else None, "TCP")])
        name = suite.beside_loops(suite.latency("send", wire))
        p99, tcp = w.median(name, "p99_us"), w.median(ping_pong, "p99_us")
        rows.append([name, EMPTY, w.value(name, "p99_us", 1),
                     w.bound(f"{name}, p99", p99, tcp, 1) if judged else w.ratio(name, p99, tcp)])
    return Table("Beside as many busy loops as cores", ["GB/s", "p99, µs", "× TCP, or goal"], rows)


def udp_wire(w):
    rows = []
    stream = w.median(suite.UDP_STREAM, "value")
    raw = stream and stream / 1e3
    rows.append([suite.UDP_STREAM, w.value(suite.UDP_STREAM, "value", scale=1e-3), EMPTY, EMPTY, EMPTY])
    for size in suite.SIZES:
        name = suite.tcp(size)
        rows.append([name, w.value(name, "gb_per_s"), EMPTY,
                     w.ratio(name, w.median(name, "gb_per_s"), raw), EMPTY])
        for kind in suite.KINDS:
            name = suite.perftest(kind, size, "udp")
            value = w.median(name, "gb_per_s")
            rows.append([name, w.value(name, "gb_per_s"),
                         w.ratio(name, value, w.median(suite.tcp(size), "gb_per_s")),
                         w.ratio(name, value, raw), w.before(name, name, "gb_per_s", goal=True)])
    return Table("The UDP wire, bandwidth, GB/s",
                 ["GB/s", "× TCP, same write size", "× raw UDP", "× before"], rows)


def udp_wire_latency(w):
    rows = []
    raw, calls = (w.median(name, "value") for name in (suite.UDP_PING_PONG, suite.CALLS))
    for name in (suite.UDP_PING_PONG, suite.CALLS):
        rows.append([name, w.value(name, "value"), w.ratio(name, w.median(name, "value"), raw), EMPTY,
                     EMPTY])
    for name in (*(suite.latency(kind, "udp") for kind in ("write", "send")), suite.events("udp")):
        value = w.median(name, "p50_us")
        rows.append([name, w.value(name, "p50_us"), w.ratio(name, value, raw),
                     w.ratio(name, value, calls), w.before(name, name, "p50_us")])
    return Table("The UDP wire, one way, µs",
                 ["p50", "× raw UDP", "× the same calls", "× before"], rows)


def start(w):
    return Table("Start", ["ms"], [[suite.START, w.value(suite.START, "ms", 1)]])


def pairs(w, counts):
    size = suite.SIZES[0]
    rows = []
    for count in counts:
        tcp, ucx = (suite.pairs(count, name) for name in (suite.tcp(size), suite.ucx(size)))
        names = [suite.pairs(count, suite.perftest(kind, size, "auto")) for kind in suite.KINDS]
        for name in (tcp, ucx, *names):
            value = w.median(name, "gb_per_s")
            rows.append([name, w.value(name, "gb_per_s"),
                         w.ratio(name, value, w.median(ucx, "gb_per_s")),
                         w.ratio(name, value, w.median(tcp, "gb_per_s")),
                         w.before(name, name, "gb_per_s")])
    return Table("Pairs of processes at once, sum of GB/s", ["GB/s", "× UCX", "× TCP", "× before"], rows)


def all_tables(w, pair_counts):
    """Those that have anything to show; no column and no row is empty."""
    tables = [same_host(w), same_host_latency(w), small_messages(w), queue_pairs(w), cpu(w), busy(w),
              udp_wire(w), udp_wire_latency(w), start(w), pairs(w, pair_counts)]
    shown = []
    for title, columns, rows in tables:
        rows = [row for row in rows if any(cell.text for cell in row[1:])]
        used = [i for i in range(len(columns)) if any(row[i + 1].text for row in rows)]
        if rows:
            shown.append(Table(title, [columns[i] for i in used],
                               [[row[0], *(row[i + 1] for i in used)] for row in rows]))
    return shown


def as_text(table):
    lines = [[table.title, *table.columns]]
    lines += [[row[0], *(cell.text for cell in row[1:])] for row in table.rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "\n".join("  ".join(f"{cell:<{width}}" for cell, width in zip(line, widths)).rstrip()
                     for line in lines)


def as_markdown(table):
    lines = [f"| {table.title} | {' | '.join(table.columns)} |",
             "|---" * (len(table.columns) + 1) + "|"]
    lines += [f"| {row[0]} | {' | '.join(cell.text for cell in row[1:])} |" for row in table.rows]
    return "\n".join(lines)
