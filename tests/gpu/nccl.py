#!/usr/bin/env python3
"""PyTorch's collectives over NCCL, several ranks on one GPU, each result checked.

    verbena run -- tests/gpu/nccl.py [--ranks N] [--bytes N,N,…] [--only all_reduce,…] [--seconds S]

Prints a JSON line for each collective and size: right or not, and GB/s as nccl-tests counts them
(bytes of the buffer by time). NCCL's own variables choose the path: NCCL_NET_GDR_LEVEL=SYS for
GPUDirect, NCCL_NET=Socket for TCP.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")


def rank_main(args):
    import torch
    import torch.distributed as dist

    rank, ranks = args.rank, args.ranks
    # Ranks of one host that share a GPU need different names for it.
    os.environ["NCCL_HOSTID"] = f"rank{rank}"
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", init_method=f"file://{args.meet}", rank=rank,
                            world_size=ranks, device_id=torch.device("cuda:0"))

    def prepared(name, count):
        """(call, check) for one collective of `count` floats for each rank."""
        mine = torch.arange(count, device="cuda", dtype=torch.float32) % 1000 + rank
        if name == "all_reduce":
            work = mine.clone()
            want = (torch.arange(count, device="cuda") % 1000) * ranks + ranks * (ranks - 1) / 2
            return (lambda: (work.copy_(mine), dist.all_reduce(work)),
                    lambda: torch.equal(work, want.float()))
        if name == "all_gather":
            out = torch.zeros(count * ranks, device="cuda")
            want = torch.cat([mine - rank + r for r in range(ranks)])
            return lambda: dist.all_gather_into_tensor(out, mine), lambda: torch.equal(out, want)
        part = count // ranks
        if name == "reduce_scatter":
            out = torch.zeros(part, device="cuda")
            want = (mine - rank)[rank * part:(rank + 1) * part] * ranks + ranks * (ranks - 1) / 2
            return (lambda: dist.reduce_scatter_tensor(out, mine[:part * ranks]),
                    lambda: torch.equal(out, want))
        out = torch.zeros(part * ranks, device="cuda")
        want = torch.cat([(mine - rank + r)[rank * part:(rank + 1) * part] for r in range(ranks)])
        return (lambda: dist.all_to_all_single(out, mine[:part * ranks].contiguous()),
                lambda: torch.equal(out, want))

    for name in args.only:
        for size in args.bytes:
            call, check = prepared(name, size // 4)
            call()
            torch.cuda.synchronize()
            right = check()
            times = []
            end = time.monotonic() + args.seconds
            go = torch.ones(1, device="cuda")
            while go.item():
                torch.cuda.synchronize()
                dist.barrier()
                start = time.perf_counter()
                call()
                torch.cuda.synchronize()
                times.append(time.perf_counter() - start)
                go.fill_(1.0 if rank == 0 and time.monotonic() < end and len(times) < 50 else 0.0)
                dist.broadcast(go, 0)
            right = right and check()
            verdict = torch.tensor([0 if right else 1], device="cuda")
            dist.all_reduce(verdict)
            if rank == 0:
                times.sort()
                median = times[len(times) // 2]
                print(json.dumps({"collective": name, "ranks": ranks, "bytes": size,
                                  "right": verdict.item() == 0, "rounds": len(times),
                                  "us": round(median * 1e6, 1),
                                  "gb_per_s": round(size / median / 1e9, 3)}), flush=True)
            if verdict.item() != 0:
                sys.exit(1)
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--bytes", default="4096,4194304,67108864",
                        type=lambda text: [int(part) for part in text.split(",")])
    parser.add_argument("--only", default=list(COLLECTIVES), type=lambda text: text.split(","))
    parser.add_argument("--seconds", type=float, default=1.0, help="measured for each size")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--meet", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.rank is not None:
        return rank_main(args)

    settings = {"NCCL_MULTI_RANK_GPU_ENABLE": "1", "NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1",
                **os.environ}
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, *sys.argv[1:], "--meet", f"{folder}/meet", "--rank"]
        ranks = [subprocess.Popen([*command, str(r)], env=settings) for r in range(args.ranks)]
        codes = [rank.wait() for rank in ranks]
    return 0 if not any(codes) else 1


if __name__ == "__main__":
    sys.exit(main())
