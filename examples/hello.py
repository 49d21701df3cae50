# The smallest whole flow in Python: a capability {addr, rkey}, one WRITE, one READ.
#   verbena run -- /usr/bin/python3 hello.py server              in one terminal
#   verbena run -- /usr/bin/python3 hello.py client 127.0.0.1    in another one, or on another host
# pyverbs is Debian's package python3-pyverbs, which is made for /usr/bin/python3.
import struct
import sys

from pyverbs.cmid import CMID, AddrInfo
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QPCap, QPInitAttr

CAPABILITY = struct.Struct("!QI")  # addr and rkey, big-endian
# As in verbs.h and rdma_cma.h: pyverbs has them in modules whose names depend on its release.
LOCAL_WRITE, REMOTE_WRITE, REMOTE_READ, SIGNALED = 1, 2, 4, 2
RAI_PASSIVE, RDMA_PS_TCP = 1, 0x106

def endpoint(**where):
    return CMID(AddrInfo(port_space=RDMA_PS_TCP, **where), QPInitAttr(cap=QPCap()))

def check(request, completion):
    if completion.status != 0: sys.exit(f"{request} failed:\n{completion}")
    print(f"{sys.argv[1]}: {request} done", flush=True)

def perform(peer, request, *arguments):
    getattr(peer, f"post_{request}")(*arguments, SIGNALED)
    check(request, peer.get_send_comp())  # sleeps until it is there

def serve():
    listener = endpoint(src="0.0.0.0", src_service="7471", flags=RAI_PASSIVE)
    listener.listen()
    print("server: listening on port 7471", flush=True)
    peer = listener.get_request()
    memory = MR(PD(peer), 64, LOCAL_WRITE | REMOTE_WRITE | REMOTE_READ)
    words, goodbye = peer.reg_msgs(64), peer.reg_msgs(64)
    peer.post_recv(goodbye)  # before it can come
    peer.accept()
    words.write(CAPABILITY.pack(memory.buf, memory.rkey), CAPABILITY.size)
    perform(peer, "send", words)
    check("recv", peer.get_recv_comp())
    print("server: found", memory.read(64, 0).rstrip(b"\0"))

def greet(host):
    peer = endpoint(dst=host, dst_service="7471")
    words, echo = peer.reg_msgs(64), peer.reg_msgs(64)
    peer.post_recv(words)
    peer.connect()
    check("recv", peer.get_recv_comp())
    memory = CAPABILITY.unpack(words.read(CAPABILITY.size, 0))
    words.write(b"hello from Python".ljust(64, b"\0"), 64)
    perform(peer, "write", words, 64, *memory)
    perform(peer, "read", echo, 64, *memory)
    print("client: read back", echo.read(64, 0).rstrip(b"\0"))
    perform(peer, "send", words)

match sys.argv[1:]:
    case ["server"]: serve()
    case ["client", host]: greet(host)
    case _: sys.exit("usage: hello.py server | client HOST")
