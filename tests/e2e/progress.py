"""Who makes progress, and in which order bytes appear: see programs/{progress,last_byte}.c."""

import dataclasses
import re

from cases import LO, Case, compiled
from programs import CaseFailed, need_programs


@dataclasses.dataclass(frozen=True)
class Progress(Case):
    program: str = "progress"
    arguments: tuple = ()
    most: float = 0  # microseconds of the median, where that is promised

    def run(self, host, network):
        need_programs("cc")
        program = compiled(host, self.program, "-libverbs", "-pthread")
        status, output = host.run(network.server.namespace, [program, *map(str, self.arguments)],
                                  timeout=self.timeout)
        if status != 0:
            raise CaseFailed(f"{self.program} {' '.join(map(str, self.arguments))} ended with "
                             f"{status}:\n{output}")
        median = re.search(r"the median took ([\d.]+) us", output)
        if self.most and (not median or float(median.group(1)) > self.most * host.slow):
            raise CaseFailed(f"wanted: at most {self.most} us; seen: {output}")
        return output.strip()


# How many messages of a size are watched, at each alignment: four millions in all. `make test` watches
# an eighth of them.
LAST_BYTES = ((64, 1_500_000), (1024, 400_000), (4096, 200_000), (65_536, 30_000), (1 << 20, 2_000),
              (4 << 20, 300))


def last_byte_cases():
    for size, rounds in LAST_BYTES:
        for offset in (0, 13):
            label = f"progress/last-byte-last-{size}" + ("-odd" if offset else "")
            some = rounds // 8
            case = Progress(LO, label, "last_byte", (some, size, offset), timeout=120)
            yield case
            # A tenth: sockets are slower.
            yield dataclasses.replace(case, label=label + "-udp", wire="udp",
                                      arguments=(max(some // 10, 100), size, offset))
            yield dataclasses.replace(case, label=label + "-many", arguments=(rounds, size, offset))


def all_cases():
    by_kernel = [Progress(LO, f"progress/last-byte-last-{size}-by-the-kernel", "last_byte",
                          (rounds, size, 0, "by-kernel"), timeout=120)
                 for size, rounds in ((1024, 50_000), (4096, 25_000))]
    return [*last_byte_cases(), *by_kernel,
            Progress(LO, "progress/served-while-it-computes", timeout=120,
                     arguments=("compute", 500)),
            # The NIC thread comes back at the latest a millisecond after the last poll.
            Progress(LO, "progress/served-after-the-last-poll", timeout=120, most=1000,
                     arguments=("quiet", 200))]
