"""rdma-core's own tests of pyverbs, told which address the device has.

  python3 pyverbs_tests.py FOLDER ADDRESS --dev vb_lo --gid N --port 1 -v MODULE...

FOLDER holds their package, `tests`. It learns the address from device/net/ in sysfs, which has
no folder of ours. After their own report come lines that are easy to read:
  RAN count
  SKIPPED test: reason
"""

import multiprocessing
import sys
import unittest

# Some tests start processes with what can't be sent to them, only inherited.
multiprocessing.set_start_method("fork")

folder, address = sys.argv[1:3]
del sys.argv[1:3]
sys.path[:0] = [folder, folder + "/tests"]

from args_parser import parser  # noqa: E402
import tests  # noqa: E402
import tests.base  # noqa: E402


def get_ip_mac(self, dev, port, idx):
    self.args.append([dev, port, idx, address, "00:00:00:00:00:00"])


tests.base.RDMATestCase._get_ip_mac = get_ip_mac
parser.parse_args()
result = unittest.main(module=tests, exit=False).result
print(f"RAN {result.testsRun}")
for test, reason in result.skipped:
    print(f"SKIPPED {test.id()}: {reason}")
sys.exit(0 if result.wasSuccessful() else 1)
