"""Eight pairs on one address, in traffic; the server of one is killed with -9.

Its client, which always has WRITEs outstanding, must end with RETRY_EXC_ERR in time; the seven
others must not notice; a new pair must start at once.
"""

import concurrent.futures
import os
import re
import signal
import time

from programs import CaseFailed, need_programs, tail

PAIRS = 8
SECONDS = 12  # of traffic of each pair
# perftest asks for retry_cnt 7; local ACK timeout 16 is 4.096 us * 2^16 = 268 ms.
ACK_TIMEOUT = 16
RETRIES = 7
TIMEOUT_BY_RETRIES = 4.096e-6 * 2**ACK_TIMEOUT * RETRIES
IN_TRAFFIC_CPU_SECONDS = 0.2  # a client that has used so much is past its set-up: it polls


def run(host, network, start_pair, check_pair):
    need_programs("ib_write_bw", "ibv_rc_pingpong")
    pairs = []
    extra = ()
    try:
        for _ in range(PAIRS):
            pairs.append(start_pair(host, network, "ib_write_bw",
                                    ("-D", str(SECONDS), "-f", "1", "-u", str(ACK_TIMEOUT)), 4))
        wait_for_traffic(host, pairs)

        victim, widow = pairs[0]
        os.kill(victim.pid, signal.SIGKILL)
        killed_at = time.monotonic()

        deadline = host.deadline(20)
        with concurrent.futures.ThreadPoolExecutor(1) as watcher:
            took = watcher.submit(wait_for_end, widow, killed_at, deadline)
            extra = start_pair(host, network, "ibv_rc_pingpong", ("-c", "-n", "100"), 4)
            took = took.result()
        statuses = extra[1].wait(deadline), extra[0].wait(deadline)
        check_pair("ibv_rc_pingpong", *extra, statuses)

        if widow.poll() == 0 or not re.search(r"failed status 12\b", widow.output(), re.I):
            raise CaseFailed("the killed one's peer did not end with status 12 (RETRY_EXC_ERR)\n"
                             + tail(widow))
        if not TIMEOUT_BY_RETRIES <= took <= 4 * TIMEOUT_BY_RETRIES:
            raise CaseFailed(f"RETRY_EXC_ERR after {took:.2f} s; expected between "
                             f"{TIMEOUT_BY_RETRIES:.2f} s and {4 * TIMEOUT_BY_RETRIES:.2f} s")
        deadline = host.deadline(SECONDS + 30)
        for server, client in pairs[1:]:
            statuses = client.wait(deadline), server.wait(deadline)
            try:
                check_pair("ib_write_bw", server, client, statuses)
            except CaseFailed as failure:
                raise CaseFailed(f"one of the seven others noticed: {failure}\n" + tail(server)
                                 + "\n" + tail(client)) from None
        return f"RETRY_EXC_ERR after {took / TIMEOUT_BY_RETRIES:.2f} x timeout x retries"
    finally:
        for pair in [*pairs, extra]:
            for process in pair:
                process.kill()


def wait_for_traffic(host, pairs):
    deadline = host.deadline(SECONDS / 2)
    while True:
        for pair in pairs:
            for process in pair:
                if process.poll() is not None:
                    raise CaseFailed("a program ended before the kill\n" + tail(process))
        if all(client.cpu_seconds() >= IN_TRAFFIC_CPU_SECONDS for _, client in pairs):
            return
        if time.monotonic() > deadline:
            raise CaseFailed(f"not every pair is in traffic after {SECONDS / 2:.0f} s")
        time.sleep(0.02)


def wait_for_end(process, since, deadline):
    """Seconds from `since` to the end of a process."""
    while process.poll() is None:
        if time.monotonic() > deadline:
            raise CaseFailed("the killed one's peer still runs\n" + tail(process))
        time.sleep(0.005)
    return time.monotonic() - since
