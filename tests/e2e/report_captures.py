"""Captures of both ends tell what the traces of both ends tell."""

import dataclasses
import re

from cases import VETHS, Case, check_output, next_tcp_port
from connections import wait_for_line
from labs import verdict
from observing import open_folder
from programs import CaseFailed

WASTED = re.compile(r"^wasted: .*", re.M)


@dataclasses.dataclass(frozen=True)
class TwoWitnesses(Case):
    """A run with losses that is traced and captured at once. (Without READs: a capture cannot tell whether a
    request for a part of one left before.)"""
    seed: int = 0

    def run(self, host, network):
        with open_folder(host) as folder:
            self.record(host, network, folder)
            wasted = {self.wasted(host, network, [folder / f"{end}.{kind}" for end in ("left", "right")])
                      for kind in ("jsonl", "pcapng")}
        if len(wasted) != 1 or " 0 lost" in min(wasted):
            raise CaseFailed(" | ".join(sorted(wasted)))
        return wasted.pop()

    def record(self, host, network, folder):
        port = str(next_tcp_port())

        def end(name, namespace, *arguments):
            return host.start(namespace, [
                host.verbena, "lab", "imm", *arguments, "--port", port, "--size", "16K", "--iters",
                "40", "--drop", "3%", "--seed", str(self.seed), "--trace", folder / f"{name}.jsonl",
                "--pcap", folder / f"{name}.pcapng"], preload=False)

        server = end("right", network.server.namespace, "server")
        client = None
        try:
            wait_for_line(host, server, r"\bready$")
            client = end("left", network.client.namespace, "client", network.server.addresses[4])
            deadline = host.deadline(self.timeout)
            for process in (client, server):
                verdict(process, process.wait(deadline))
        finally:
            for process in (server, client):
                if process:
                    process.kill()

    def wasted(self, host, network, files):
        status, output = host.run(network.client.namespace,
                                  [host.verbena, "report", "--summary", *files], preload=False)
        check_output(status, output, 0, ("wasted: ",))
        return WASTED.search(output)[0]


def all_cases():
    return [TwoWitnesses(network, f"report/captures-as-traces/seed-{seed}", seed=seed)
            for network in VETHS for seed in (1, 2, 3)]
