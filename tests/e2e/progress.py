"""Who makes progress, and in which order bytes appear: see programs/progress.c."""

import dataclasses
import re

from cases import LO, Case, compiled
from programs import CaseFailed, need_programs


@dataclasses.dataclass(frozen=True)
class Progress(Case):
    arguments: tuple = ()
    most: float = 0  # microseconds of the median, where that is promised

    def run(self, host, network):
        need_programs("cc")
        program = compiled(host, "progress", "-libverbs", "-pthread")
        status, output = host.run(network.server.namespace, [program, *map(str, self.arguments)],
                                  timeout=self.timeout)
        if status != 0:
            raise CaseFailed(f"progress {' '.join(map(str, self.arguments))} ended with {status}:\n"
                             f"{output}")
        median = re.search(r"the median took ([\d.]+) us", output)
        if self.most and (not median or float(median.group(1)) > self.most * host.slow):
            raise CaseFailed(f"wanted: at most {self.most} us; seen: {output}")
        return output.strip()


def all_cases():
    order = [Progress(LO, f"progress/last-byte-last-{size}", timeout=120,
                      arguments=("order", rounds, size))
             for size, rounds in ((64, 20_000), (4096, 15_000), (65_536, 5_000), (1 << 20, 200))]
    return [*order,
            Progress(LO, "progress/served-while-it-computes", timeout=120,
                     arguments=("compute", 500)),
            # The NIC thread comes back at the latest a millisecond after the last poll.
            Progress(LO, "progress/served-after-the-last-poll", timeout=120, most=1000,
                     arguments=("quiet", 200))]
