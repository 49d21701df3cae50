"""Frames of strangers at live devices: see programs/flood.c. Nobody crashes, no byte is wrong, and
the traffic goes on."""

import dataclasses
import os
import re
import time

from cases import LO, Case, check_pair, compiled, next_tcp_port, start_pair, wait_for_pair
from connection_lifetimes import rping_client, rping_server
from connections import run_client, start_server
from programs import CaseFailed, need_programs, tail

FRAMES = 200_000  # of one run; run.py --frames
RATE = 60_000     # per second: what live devices can take beside their traffic
STRANGERS = tuple(f"127.0.0.{n}" for n in range(2, 10))
PINGPONG = ("ibv_rc_pingpong", ("-c", "-n", "2000", "-s", "4096"), 4)


@dataclasses.dataclass(frozen=True)
class Flood(Case):
    """Pairs of checked ping-pong, one after the other, and a server that stays, under the flood."""

    def run(self, host, network):
        need_programs("rping", "ibv_rc_pingpong", "stdbuf")
        frames = max(FRAMES, 1)
        targets = os.path.join(host.logs, "flood.qpns")
        port = next_tcp_port()
        server = start_server(host, network, rping_server(network, port))
        flood = None
        try:
            run_client(host, network, server, rping_client(network, port), host.deadline(20))
            flood = host.start(network.client.namespace,
                               [compiled(host, "flood"), network.server.addresses[4], str(frames),
                                str(RATE), "7", targets, *STRANGERS], preload=False)
            deadline = host.deadline(60 + 3 * frames / RATE)
            pairs, seen = 0, {}
            while flood.poll() is None or pairs == 0:
                self._pair(host, network, targets, seen)
                run_client(host, network, server, rping_client(network, port), host.deadline(20))
                pairs += 1
                if time.monotonic() > deadline:
                    raise CaseFailed(f"the flood did not end in time\n{tail(flood)}")
            if flood.poll() != 0:
                raise CaseFailed(f"the flood ended with {flood.poll()}\n{tail(flood)}")
            if server.poll() is not None:
                raise CaseFailed(f"the server ended with {server.poll()}")
            for name in ("drop_source", "icrc_errors"):
                if not seen.get(name):
                    raise CaseFailed(f"{name} is 0: the flood missed the queue pairs")
            counts = ", ".join(f"{name} {count}" for name, count in sorted(seen.items()))
            return f"{flood.output().strip()}; {pairs} pairs and {pairs} clients beside it; {counts}"
        except CaseFailed as failure:
            raise CaseFailed(f"{failure}\n{tail(server)}") from None
        finally:
            server.kill()
            if flood:
                flood.kill()

    @staticmethod
    def _pair(host, network, targets, seen):
        server, client = start_pair(host.with_options("--stats"), network, *PINGPONG,
                                    wrapper=("stdbuf", "-oL"))
        try:
            aim(host, targets, (server, client))
            check_pair("ibv_rc_pingpong", server, client, wait_for_pair(host, server, client, 40))
            for process in (server, client):
                count_drops(process.output(), seen)
        finally:
            server.kill()
            client.kill()


def aim(host, targets, processes):
    """The numbers of their queue pairs, as soon as they tell them."""
    deadline = host.deadline(10)
    while True:
        numbers = [re.search(r"local address:.*QPN (0x[0-9a-f]+)", p.output()) for p in processes]
        if all(numbers) or any(p.poll() is not None for p in processes):
            break
        if time.monotonic() > deadline:
            raise CaseFailed("no queue pair within 10 s\n" + tail(processes[0]))
        time.sleep(0.005)
    with open(targets + ".new", "w", encoding="ascii") as file:
        file.write("".join(f"{int(found.group(1), 16)}\n" for found in numbers if found))
    os.chmod(targets + ".new", 0o644)
    os.replace(targets + ".new", targets)


def count_drops(output, seen):
    """Of a port or of the sockets: each name once, its first column."""
    for name in ("drop_source", "icrc_errors", "malformed", "socket_drops"):
        found = re.search(rf"\b{name}\s+(\d+)", output)
        if found:
            seen[name] = seen.get(name, 0) + int(found.group(1))


def all_cases():
    return [Flood(LO, "flood/strangers")]
