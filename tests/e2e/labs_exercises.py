"""What the labs' READMEs tell the reader to try: each exercise, and what must come of it.

A row: the lab, its arguments, the exit status, regular expressions of which each must match.
"""

import dataclasses

from cases import LO, LO_LOSS, Case, check_output

FAILED, USAGE = 1, 2


@dataclasses.dataclass(frozen=True)
class Exercise(Case):
    lab: str = ""
    arguments: tuple = ()
    status: int = 0
    says: tuple = ()

    def run(self, host, network):
        with host.scratch() as folder:  # for files that the arguments name
            argv = [host.verbena, "lab", self.lab, *self.arguments]
            command = ["sh", "-c", 'cd "$0" && exec "$@"', folder, *argv]
            status, output = host.run(network.server.namespace, command, preload=False,
                                      timeout=self.timeout)
        return check_output(status, output, self.status, self.says)


def label_of(lab, arguments):
    return f"labs/exercises/{lab}/{'_'.join(w.strip('-') for w in arguments) or 'plain'}"


def exercise(lab, arguments, status, *says, topology=LO, timeout=60):
    arguments = tuple(arguments.split())
    return Exercise(topology, label_of(lab, arguments), timeout=timeout, lab=lab,
                    arguments=arguments, status=status, says=says)


def cm_exercises():
    def wrong(name, *says):
        return exercise("cm", f"--break {name}", 0, *says, r"^right: ", f"^shown: --break {name}: ")

    return [
        exercise("cm", "", 0,
                 r"^client \|  3 an id; its device: not known$",
                 r"^client \|    event RDMA_CM_EVENT_ADDR_RESOLVED \(0\), status 0$",
                 r"^client \|    event RDMA_CM_EVENT_ROUTE_RESOLVED \(2\), status 0$",
                 r"^server \|    event RDMA_CM_EVENT_CONNECT_REQUEST \(4\), status 0\n"
                 r"(?:.*\n)*?server \| +id: a new one; listen_id: listener$",
                 r"^server \| +private data: 56 bytes, zeros behind the first 32: 76 62 6c 62 ",
                 r"^server \|  9 accepted; the QP is in RTS$",
                 r"^client \|    event RDMA_CM_EVENT_ESTABLISHED \(9\), status 0$",
                 r"^client \| +private data: 196 bytes, zeros behind the first 32: 76 62 6c 62 ",
                 r"which wants message 17; the QP is in RTS$",
                 r"^client \| 14 hung up; the QP is in ERR$",
                 r"^server \| 15 the client has hung up; the QP is in RTS$",
                 r"^server \|    event RDMA_CM_EVENT_DISCONNECTED \(10\), status 0$",
                 r"^client \|    event RDMA_CM_EVENT_DISCONNECTED \(10\), status 0$",
                 r"^server \| 17 .*: all gone$"),
        exercise("cm", "--endpoint", 0, r"^shown: the same connection by rdma_create_ep"),
        exercise("cm", "--size 1M --stats", 0, r"^server \| 13 1048576 bytes came into receive 1"),
        exercise("cm", "--pcap cm.pcapng", 0, "^shown: "),
        # --seed 4: the RTU is among the lost.
        exercise("cm", "--drop 10% --seed 4", 0, "^server [|] 11 the RTU was lost", "^shown: "),
        exercise("cm", "--drop 35%", 0, "^shown: ", timeout=90),
        exercise("cm", "--endpoint --drop 10% --seed 4", 0, "^shown: "),
        exercise("cm", "--endpoint", 0, "^shown: ", topology=LO_LOSS),
        wrong("route-first", r"^wrong: .*: (the program is dead \(SIGSEGV\)|-1, EINVAL)$"),
        wrong("connect-first", r"^wrong: .* gives -1, errno 22 ", "CONNECT_REQUEST"),
        wrong("connect-without-qp", r"^wrong: .* gives 0", r"CONNECT_RESPONSE \(5\), status 0$"),
        wrong("accept-without-qp", r"^wrong: .* gives 0",
              r"ESTABLISHED \(9\), status 0\n.*\n.*conn: qp_num 0,", "client's QP is in RTS"),
        wrong("listen-first", r"^wrong: .* gives 0: it listens on 0\.0\.0\.0:[1-9]\d*$"),
        wrong("bind-twice", r"^wrong: .* gives -1, errno 98 "),
        wrong("no-listener", r"^wrong: .* gives 0", r"REJECTED \(8\), status 8$"),
        wrong("refuse", r"REJECTED \(8\), status 28$", '"no room"; the QP is in ERR$'),
        wrong("too-much-data", r"^wrong: .* 57 bytes .* gives -1, errno 22 "),
        wrong("disconnect-first", r"^ +the QP is in INIT$", r"^wrong: .* gives -1, errno 22 .*\n"
              r"^ +and yet the QP is in ERR"),
        wrong("ack-late", r"blocks: not back after 200 ms\n.*now it returned$"),
        wrong("cq-first", r"^wrong: .* gives 16 "),
        wrong("pd-first", r"^wrong: .* gives 16 "),
        exercise("cm", "--break refuse --drop 10%", 0, r"REJECTED \(8\), status 28$"),
        exercise("cm", "--break refuse server", USAGE, "both its ends in one process"),
        exercise("cm", "--break refuse --endpoint", USAGE, "choose one"),
        exercise("cm", "--break nothing", USAGE, "route-first"),
    ]


def verbs_exercises():
    completion = (r"ibv_wc +\.wr_id={id} \.status=0 \(success\) .*\n"
                  r" +\.vendor_err=- \.opcode={opcode}")
    sent = r" \.byte_len=-$"

    def done(side, request, opcode, rest):
        return rf"^ +{side} +" + completion.format(id=request, opcode=opcode) + rest

    return [
        exercise("verbs", "", 0,
                 done("left", 41, r"0 \(IBV_WC_SEND\)", sent),
                 done("right", 40, r"128 \(IBV_WC_RECV\)", r" \.byte_len=64\n +\.imm_data=- "),
                 done("right", 50, r"128 \(IBV_WC_RECV\)",
                      r" \.byte_len=64\n +\.imm_data=0x01020304 \.wc_flags=2 "),
                 done("left", 60, r"1 \(IBV_WC_RDMA_WRITE\)", sent),
                 done("left", 70, r"2 \(IBV_WC_RDMA_READ\)", r" \.byte_len=64$"),
                 done("left", 80, r"4 \(IBV_WC_FETCH_ADD\)", r" \.byte_len=8$"),
                 r"^ +the word was 100, is 105$",
                 done("left", 82, r"3 \(IBV_WC_COMP_SWAP\)", r" \.byte_len=8$"),
                 r"^ +the word was 7, is 7$",
                 r"ibv_post_send gives 22 .*, bad_wr->wr_id=92$",
                 r"^   90 and 91 were executed; 92 and 93 weren't posted",
                 r"ibv_post_recv gives 22 .*, bad_wr->wr_id=101; 100 is posted$",
                 r"wr_id=110 \.status=4 .*\n +\.vendor_err=0x4 \.opcode=- \.byte_len=- ",
                 r"wr_id=111 \.status=5 ", r"wr_id=100 \.status=5 "),
        exercise("verbs", "--size 1M", 0, r"\.byte_len=1048576$"),
        exercise("verbs", "--drop 10%", 0, "^shown: "),
        exercise("verbs", "--pcap verbs.pcapng", 0, "^shown: "),
        exercise("verbs", "--size 8", USAGE, "8 is not between 32 and 1048576"),
    ]


def too_late(lab, arguments, *says):
    return exercise(lab, arguments, FAILED, "not done within --timeout", *says, timeout=45)


def cost(end, taken, *more):
    """The line of --stats: what was measured and what the lab knows must agree."""
    return rf"^{end} +\| cost of the work: completions taken: {taken}" + "".join(more) + "; "


WAKE_UPS = r"wake-ups: "


def first_exercises():
    """Of one request, of its completion, of the queue pair."""
    return [
        # The server's only wake-up is the goodbye. A stray signal or lock may add one or two.
        exercise("hello", "--stats", 0,
                 cost("client", 2, ", needed: 2; round trips: 2"),
                 cost("server", 0) + WAKE_UPS + "[1-4];"),
        exercise("hello", "--drop 20% --seed 1 --stats", 0, "^shown: ",
                 cost("client", 2, ", needed: 2; round trips: 2"), cost("server", 0)),
        exercise("hello", "--without remote_write", FAILED, "^client: .*REM_ACCESS_ERR",
                 "^server: found \"\" instead of the greeting"),
        exercise("hello", "--without remote_read", FAILED, "^client: .*REM_ACCESS_ERR",
                 "^server \\| found \"hello from the client\""),
        exercise("write-read", "--size 8 --iters 2000 --stats", 0,
                 cost("client", 2002, ", needed: 2002; round trips: 2002"), cost("server", 0)),
        too_late("write-read", "--without signaled --timeout 3"),
        exercise("imm", "--size 1 --iters 2000 --stats", 0,
                 cost("client", 4001, ", needed: 2000; round trips: 2001"),
                 cost("server", 4000, ", needed: 2000")),
        exercise("imm", "--drop 5% --iters 50", 0, "^shown: 50 WRITEs .*, 50 credits"),
        too_late("imm", "--without receive --timeout 3"),
        exercise("send-recv", "--iters 10000 --size 64 --stats", 0,
                 cost("client", 1250, ", needed: 1250; round trips: 1250"),
                 cost("server", 10000, ", needed: 10000")),
        exercise("send-recv", "", 0, "without a receive: not done after 50 ms"),
        exercise("send-recv", "--look-late", FAILED,
                 "^server: receive 0 holds message 8, message 0 is overwritten"),
        exercise("two-qp", "--size 8 --iters 10000 --stats", 0,
                 "^cost of the work: completions taken: 40000, needed: 40000; round trips: 10000;"),
        exercise("two-qp", "--expect-psn later", 0,
                 "^left's first SEND has completed with success; right has received nothing$",
                 "^left's second SEND has arrived: right takes it for the first one$"),
        exercise("two-qp", "--expect-psn earlier", 0,
                 "^left's first SEND has ended with RETRY_EXC_ERR; right has received nothing$"),
        exercise("two-qp", "--without rts", FAILED, r"^ibv_post_send: .*\(22\)$"),
        # A late server: 20 ms without a barrier, and what the client's device takes to try again.
        exercise("across-hosts", "--mode both --without barrier", 0,
                 r"^client \| both: 20 completions here, the first after (2\d|[3-9]\d|\d{3})\."),
        exercise("across-hosts", "--mode send-only", 0, r"^server \| send-only: 0 completions here$",
                 r"^client \| send-only: 20 completions"),
        exercise("across-hosts", "--mode recv-only --stats", 0, cost("client", 10),
                 cost("server", 10)),
        exercise("pingpong", "--stats", 0,
                 cost("client", 2000, ", needed: 2000; round trips: 1000")),
        exercise("pingpong", "--events --stats", 0,
                 cost("client", 2000, ", needed: 2000; round trips: 1000") + WAKE_UPS + r"\d{3,5};"),
    ]


def measured_exercises():
    """Of many requests, of many clients, of what they cost."""
    return [
        exercise("atomics", "--clients 1", 0, "^shown: .*none lost \\(without: 0\\)",
                 "asked for the lock in vain: 0 times"),
        exercise("atomics", "--clients 16 --iters 20", 0, "^shown: 16 clients, 320 FETCH_ADDs"),
        exercise("atomics", "--iters 20 --drop 5%", 0, "^server \\| found counter 80, guarded 80"),
        exercise("flags", "", 0, "SIGNALED +500 WRITEs .*: 500 completions,",
                 r"one in 16 signalled: 32 completions, .* a ratio of \d",
                 r"overwritten right after the post: all arrived as posted, .* a ratio of \d",
                 r"READ, then WRITE what it brought: [1-9]\d* carried old bytes",
                 r"with the fence: 0 carried old bytes, .* a ratio of \d",
                 "SOLICITED +200 messages in groups of 8: .*for solicited ones, 25$"),
        exercise("flags", "--size 64K --iters 100", 0, "INLINE +100 WRITEs of 64 bytes"),
        exercise("flags", "--inline 1000000", FAILED, "ibv_create_qp: .*max_inline_data 1000000"),
        exercise("events", "", 0, "no event within 100 ms; poll again: there it is"),
        too_late("events", "--without second-poll --timeout 4",
                 "last wait was for an event of the completion queue"),
        exercise("ud", "", 0, r"^server \| 64 of 100 datagrams",
                 "^client \\| 100 datagrams completed with success; 64 arrived",
                 r"100 datagrams to 239\.86\.66\.1: 128 arrivals"),
        exercise("ud", "--iters 10", 0, "^shown: 10 datagrams sent, 0 lost, .* arrived 20 times"),
        exercise("ud", "--iters 1000", 0, "^shown: 1000 datagrams sent, 936 lost"),
        exercise("ud", "--drop 10% --iters 50", 0, "^shown: 50 datagrams sent, "),
        exercise("ud", "--size 4097", USAGE, "a datagram is one packet; .* is 4096 bytes"),
        exercise("srq", "--clients 32 --iters 50", 0, "^shown: 1600 messages of 32 clients"),
        exercise("srq", "--clients 32 --iters 50 --receives 8", 0,
                 r"1600 messages of 32 clients through 8 receives; .*[1-9]\d* times dry"),
        exercise("srq", "--receives 1 --iters 20 --stats", 0, cost("server", 80, ", needed: 80"),
                 cost("client", 80)),
        exercise("errors", "--iters 10", 0, "70 times broken, 70 times brought back"),
        exercise("errors", "--drop 5%", 0, "^shown: 7 ways to fail"),
        exercise("registration", "--size 4K --cache 4", 0, "with a cache of 4, 26 % hits"),
        exercise("registration", "--size 4K --even", 0, "with a cache of 16, 25 % hits"),
        exercise("registration", "--size 4K", 0, "with a cache of 16, 78 % hits",
                 "invalidated by the peer: .* revoked; then REM_ACCESS_ERR"),
        # Three transfers of 256 messages for each of four rates.
        exercise("loss", "--stats", 0, cost("client", 3072, ", needed: 3072"), cost("server", 0),
                 r"out_of_seq_request +\d+"),
        exercise("loss", "--rates 0,2,10", 0, r"^client \| +10 % .* [1-9]\d* +[1-9]\d* +[\d.]+ ms$",
                 "at 0, 2, 10 % loss: .*; every byte arrived$"),
        exercise("loss", "--delay 2ms --iters 32", 0,
                 r"^client \| +5 % .* [1-9]\d* +[1-9]\d* +[\d.]+ ms$", "every byte arrived$"),
        exercise("bulk", "--depths 16 --every 64", USAGE, "--every: 64 exceeds the deepest"),
        exercise("bulk", "--size 1M --chunks 64K --depths 16 --every 1,16 --stats", 0,
                 r"^client \| RDMA +65536 +16 +16 .* 1$", r"^client \| RDMA +65536 +16 +1 .* 16$",
                 r"^client +\| cost of the work: completions taken: \d+; bytes copied: 1048576; "),
    ]


def course_exercises():
    """Of whole programs."""
    secret = r"^client \| .*the secret for 42 is ([0-9a-f]{16})…$"
    return [
        # Both print the same secret, and the receiver checks the proof. 64 pieces, three messages
        # received, four sent; more when a wait is long, because it asks whether the peer lives.
        exercise("file", "--stats", 0, r"(?s)the secret for 42 is ([0-9a-f]{16})….*"
                 r"the secret for 42 is \1…", secret,
                 r"^server \| the secret for 42 is [0-9a-f]{16}…; the sender has proved to have it$",
                 cost("client", r"7\d", "; round trips: 3; bytes copied: 4194304"),
                 cost("server", r"\d+", "; round trips: 4")),
        exercise("file", "--iters 3 --size 1 --id 7", 0,
                 r"(?s)(the secret for 7 is .*){6}"),
        exercise("file", "--break hash", 0, r"^server \| refused: wrong hash",
                 r"^client \| the receiver refused: wrong hash"),
        exercise("file", "--break truncate", 0, r"^server \| refused: truncated: got 2097152 bytes"),
        exercise("file", "--break die", 0, r"^server \| refused: the peer is gone: it hung up",
                 r"^client \| the sender was killed in the middle"),
        exercise("parameter-server", "--ranks 4 --size 8K --iters 20", 0,
                 r"^shown: 1, 2, 3 workers train as one process does \(to the last bit\)"),
        exercise("rendezvous", "--ranks 8 --size 4 --iters 100", 0, "200 barriers held, 100 sums"),
        exercise("inference-ring", "--slots 4 --iters 300", 0,
                 r"a slow consumer held up [1-9]\d* of 300 batches, none lost"),
        exercise("inference-ring", "--slots 64 --iters 300", 0,
                 # However long the queue: a batch that stalls waits for its stall.
                 r"^shown: .* none lost; p99\.9 (4\d|[5-9]\d|\d{3,})\.\d ms"),
        exercise("inference-ring", "--no-credits --iters 300", 0,
                 r"^shown: without credits [1-9]\d* of 600 batches were overwritten"),
        *kv_cache_exercises(),
    ]


def kv_cache_exercises():
    return [
        # 2912 READs and a block table per request; the SENDs of `done` complete as well.
        exercise("kv-cache", "--stats", 0, cost("client", 3040, ", needed: 2976"),
                 cost("server", 128, ", needed: 64"),
                 r"^server \| 128 completions, 2 for each request; none for a READ$",
                 "^shown: 2912 READs .*, all blocks whole: median .* us, p99 .* us; "),
        exercise("kv-cache", "--without lease", 0,
                 r"^client \| request \d+, block \d+: slot \d+ is in generation (?!1,)\d+, "
                 r"the block table says 1$",
                 "^server .* 0 of 64 requests waited for a free slot$",
                 r"^shown: without a lease [1-9]\d* of 2912 READs brought another block .*; "
                 "all completed with success$"),
        exercise("kv-cache", "--without lease --slots 1024", 0,
                 "without a lease 0 of 2912 READs brought another block and 0 a torn one"),
        exercise("kv-cache", "--slots 1024", 0, "488 of 1024 blocks shared",
                 "^server .* 536 blocks computed, 488 found .*; 0 of 64 requests waited"),
        exercise("kv-cache", "--slots 16", 0, "0 of 1024 blocks shared",
                 "^server .* 1024 blocks computed, 0 found .*; 63 of 64 requests waited"),
        exercise("kv-cache", "--depth 1", 0, "^client .* READs in flight: 1$", "all blocks whole"),
        exercise("kv-cache", "--depth 8", 0, "^client .* READs in flight: 8$", "all blocks whole"),
        exercise("kv-cache", "--size 1 --depth 64", 0, "^shown: 2912 READs .*, all blocks whole"),
        exercise("kv-cache", "--iters 8 --drop 5% --size 16K", 0, "all blocks whole"),
        exercise("kv-cache", "--without lease --drop 5% --size 4K", 0,
                 r"^shown: without a lease [1-9]\d* of 2912 READs"),
        exercise("kv-cache", "--slots 15", USAGE, "15 is not between 16 and 65536"),
        exercise("kv-cache", "--size 17M", USAGE, "17825792 is not between 1 and 16777216"),
        exercise("kv-cache", "--size 16M --slots 65536", USAGE, "choose a smaller --size"),
    ]


def gpu_exercises():
    checked = r"^shown: \d+ messages between GPU and host memory, each byte checked"
    rates = [rf"^client \| {operation} +{here} +to {there} +\d+\.\d\d GB/s, +\d+ % of cuMemcpy's$"
             for operation in ("WRITE", "READ", "SEND")
             for here, there in (("GPU", "GPU"), ("host", "GPU"), ("GPU", "host"))]
    return [
        exercise("gpu", "", 0, "registered by ibv_reg_mr$", "frames of the software device$",
                 *rates, checked),
        exercise("gpu", "--dmabuf", 0, "registered by ibv_reg_dmabuf_mr$", checked),
        exercise("gpu", "--pinned --size 64K", 0, checked),
        exercise("gpu", "--size 64 --iters 100 --stats", 0, checked, "^client .* needed: 909"),
        exercise("gpu", "--size 1 --dmabuf", 0, checked),
        exercise("gpu", "--size 100000 --drop 1%", 0, checked),
        exercise("gpu", "--gpu 1", USAGE, "--gpu 1: this machine has 1; the first one is 0"),
        exercise("gpu", "--size 257M", USAGE, "is not between 1 and 268435456"),
    ]


def all_cases():
    return [*cm_exercises(), *verbs_exercises(), *first_exercises(), *measured_exercises(),
            *course_exercises(), *gpu_exercises()]
