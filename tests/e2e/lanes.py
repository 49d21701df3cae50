"""Which cases mostly wait, so that they run beside others, which need the machine for themselves, and
which only `make test-all` runs.

By name: what a case does with the machine was measured (`run.py --times`), and is no part of what it
checks.
"""

import re

# They wait for timers, for lost packets, for a compiler, or for a process that starts. The others
# keep a processor busy, or compare figures, and one of them runs at a time.
_WAITS = re.compile(r"""
    -loss/ | -waiting/
  | /(deaths|devices|documents|env|examples|faults|labs|pcap|picture|pyverbs|raw)/
  | /(rdma_cm|report|report-page|robust|stat|stats|tool|trace|ways)/
  | /(mckey|devinfo|ibv_devinfo|ibv_devices)$
  | /host/(midway|page-server)/
""", re.VERBOSE)

# They count what the scheduler does, measure, or start so many processes that others would wait: they
# run after all others, one at a time.
_ALONE = re.compile(r"""
    /host/(mesh-|one-wake-up|idle-device) | /progress/served- | /incast/ | /exercises/.*stats
""", re.VERBOSE)

# Repetitions over UDP, which `run.py --wire udp` has too, but for one of each kind; more rounds of
# what `make test` has; options of Java, which the continuous integration doesn't have.
_LONG = re.compile(r"""
    /host/midway/(?!dereg-write-).*-udp$ | /host/after-dereg/(?!write-responder-).*-udp$
  | /host/after-dereg/.*-10000$ | /progress/.*-many$
  | /fault-handlers/(?!sigaction-).*-udp$ | /fault-handlers/java-(interpreted|checked)$
""", re.VERBOSE)


def mostly_waits(name):
    return bool(_WAITS.search(name))


def runs_alone(name):
    return bool(_ALONE.search(name))


def is_long(name):
    return bool(_LONG.search(name))
