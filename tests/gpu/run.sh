#!/bin/bash
# Tests on a real GPU: run.sh BUILD, where BUILD/bin/verbena and BUILD/release/tests lie. KIT=FOLDER: they
# lie in FOLDER instead, for a machine that can't build. Exit status 77: there is no GPU.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
build=$1
verbena=${KIT:+$KIT/verbena}
verbena=${verbena:-$build}/bin/verbena
programs=${KIT:-$build/release/tests}
log=${LOG:-/dev/null}

run() {
  echo "== $*"
  "$@"
}

if ! "$verbena" devices --json | grep -q '"gpu"'; then
  echo "SKIPPED test-gpu: there is no NVIDIA GPU, or no libcuda.so.1"
  exit 77
fi
"$verbena" devices | sed -n '/^GPU/,$p'
run "$verbena" run -- "$programs/gpu_transfers" 10000
VERBENA_WIRE=udp run "$verbena" run -- "$programs/gpu_transfers" 1000 7
run "$verbena" run -- "$programs/gpu_misuse"
run "$verbena" lab gpu
run "$verbena" lab gpu --dmabuf
if command -v compute-sanitizer >/dev/null; then
  run compute-sanitizer --target-processes all --error-exitcode 9 "$verbena" lab gpu --iters 1
else
  echo "skipped: compute-sanitizer isn't installed"
fi
if ! python3 -c 'import torch, sys; sys.exit(not torch.distributed.is_nccl_available())' 2>/dev/null; then
  echo "skipped: NCCL (PyTorch with it isn't installed)"
  exit 0
fi
for ranks in 2 4; do
  for level in SYS LOC; do
    echo "== NCCL, $ranks ranks, NCCL_NET_GDR_LEVEL=$level"
    NCCL_DEBUG=INFO NCCL_NET_GDR_LEVEL=$level "$verbena" run -- python3 "$here/nccl.py" --ranks $ranks \
      --bytes 4096,4194304 --seconds 0.2 2>&1 | tee -a "$log" | grep -E '^\{|GDR [01]' | sort -u
  done
done
