"""Python's faulthandler prints where a program was when it crashed: not for faults of our copies.

  fault_python.py LIBRARY ROUNDS [crash]     with `crash`: a fault of its own in the end
"""

import ctypes
import faulthandler
import sys

faulthandler.enable()
library = ctypes.CDLL(sys.argv[1])
print(library.run_thefts(int(sys.argv[2])), "thefts under traffic", flush=True)
if not faulthandler.is_enabled():
    sys.exit("faulthandler was switched off")
if sys.argv[3:] == ["crash"]:
    ctypes.string_at(0)
