"""Raw packets: perftest's programs on the two ends of a link, as the root of a namespace that an
ordinary user makes. Only there has he CAP_NET_RAW."""

import dataclasses
import os
import re

from cases import LO, PERFTEST_RESULT, Case
from programs import CaseFailed, CaseSkipped, need_programs

SERVER, CLIENT = "02:00:00:00:00:01", "02:00:00:00:00:02"
# $1 is verbena, $2 a file for the server's output, the rest the program and its arguments.
SCRIPT = f"""
set -e
ip link set lo up
ip link add raw0 address {SERVER} type veth peer name raw1 address {CLIENT}
for i in 0 1; do
  ip link set raw$i addrgenmode none
  ip address add 10.77.$i.1/24 dev raw$i
  ip link set raw$i up
done
verbena=$1 output=$2
shift 2
"$verbena" run -- "$@" --server -d vb_raw0 -B {SERVER} -E {CLIENT} -D 4 > "$output" 2>&1 &
"$verbena" run -- "$@" --client -d vb_raw1 -B {CLIENT} -E {SERVER} -D 2
wait $!
cat "$output"
"""


@dataclasses.dataclass(frozen=True)
class RawEthernet(Case):
    """The server counts what arrives, the client what it sends; nobody promises that it is the same."""
    arguments: tuple = ()

    def run(self, host, network):
        need_programs("unshare", "ip", "raw_ethernet_bw")
        namespace = network.server.namespace
        status, words = host.run(namespace, ["unshare", "-Urn", "true"], preload=False)
        if status != 0:
            raise CaseSkipped(f"no user namespaces here: {words.strip()}")
        with host.scratch() as folder:
            argv = ["unshare", "-Urn", "--", "sh", "-c", SCRIPT, "sh", host.verbena,
                    os.path.join(folder, "server"), "raw_ethernet_bw", "-F", "-f", "0",
                    *self.arguments]
            status, output = host.run(namespace, argv, timeout=self.timeout, preload=False)
        results = [int(r[1]) for r in PERFTEST_RESULT.findall(output)]
        if status != 0 or len(results) != 2 or 0 in results:
            raise CaseFailed(f"exit status {status}, frames {results}:\n{output}")
        sent, received = results
        return f"{received} of {sent} frames arrived"


def all_cases():
    udp = ("-j", "10.77.1.1", "-J", "10.77.0.1", "-k", "4000", "-K", "4001")
    return [
        RawEthernet(LO, "raw/ethernet", ("-s", "100"), timeout=30),
        RawEthernet(LO, "raw/udp", ("-s", "1400", *udp), timeout=30, quick=True),
        RawEthernet(LO, "raw/sniffer", ("-s", "100", "--sniffer"), timeout=30),
        RawEthernet(LO, "raw/promiscuous", ("-s", "100", "--promiscuous"), timeout=30),
    ]
