#!/usr/bin/env python3
"""The preload library as the dynamic linker sees it.

  check_elf.py LIBRARY PATH REAL MAP

LIBRARY answers to libibverbs.so.1 and needs PATH, which is REAL on this machine; it has every
version node of REAL and of MAP, and exports nothing but verbs. The library beside it answers to
libibverbs.so and needs LIBRARY alone. LIBRARY takes over every public verb of REAL that a program
could call with an object of ours. Whatever the programs and providers on this machine import from
libibverbs is found, at its version, in LIBRARY or REAL.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

PROGRAMS = ["ibv_devices", "ibv_devinfo", "ibv_rc_pingpong", "ibv_ud_pingpong", "ib_write_bw",
            "ib_read_bw", "ib_send_bw", "ib_write_lat", "ib_send_lat", "rping", "ucx_info"]
LIBRARIES = ["libmlx5.so.1", "libmlx4.so.1", "libefa.so.1", "librdmacm.so.1", "libuct_ib.so.0"]

# Verbs of REAL that never see an object of ours: they take none, or one that our device refuses to make.
LEFT_TO_REAL = {"ibv_copy_ah_attr_from_kern", "ibv_copy_path_rec_from_kern",
                "ibv_copy_path_rec_to_kern", "ibv_copy_qp_attr_from_kern", "ibv_dofork_range",
                "ibv_dontfork_range", "ibv_event_type_str", "ibv_fork_init", "ibv_get_sysfs_path",
                "ibv_is_fork_initialized", "ibv_node_type_str", "ibv_port_state_str",
                "ibv_rate_to_mbps", "ibv_rate_to_mult", "ibv_register_driver", "ibv_wc_status_str",
                "mbps_to_ibv_rate", "mult_to_ibv_rate",
                # DMA handles, completion counters
                "ibv_dealloc_dmah", "ibv_destroy_comp_cntr", "ibv_inc_comp_cntr",
                "ibv_inc_err_comp_cntr", "ibv_read_comp_cntr", "ibv_read_err_comp_cntr",
                "ibv_set_comp_cntr", "ibv_set_err_comp_cntr"}

problems = []


def tool(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def check(good, text):
    if not good:
        problems.append(text)


def dynamic(library, tag):
    return re.findall(rf"\({tag}\).*\[(.*)\]", tool("readelf", "-d", "-W", library))


def nodes(library):
    return set(re.findall(r"Name: (IBVERBS_\S+)", tool("readelf", "-V", "-W", library)))


def symbols(library, kind):
    """{(name, version)} of the dynamic symbols, 'defined' or 'undefined'."""
    found = set()
    for line in tool("nm", "-D", f"--{kind}-only", library).splitlines():
        name, _, version = line.split()[-1].partition("@")
        found.add((name, version.lstrip("@")))
    return found


# The functions of libc that we stand before (front/preload/*_hooks.cc).
HOOKS = {"_exit", "_Exit",
         "open", "open64", "openat", "openat64", "__open_2", "__open64_2", "__openat_2",
         "__openat64_2", "fopen", "fopen64",
         "stat", "stat64", "lstat", "lstat64", "fstatat", "fstatat64", "statx", "__xstat",
         "__xstat64", "__lxstat", "__lxstat64", "access", "faccessat",
         "readlink", "readlinkat", "__readlink_chk", "__readlinkat_chk", "realpath",
         "__realpath_chk", "canonicalize_file_name",
         "opendir", "readdir", "readdir64", "closedir", "rewinddir", "seekdir", "telldir",
         "dirfd", "scandir", "scandir64", "glob", "glob64",
         "fstat", "fstat64", "write", "close", "dup", "dup2", "dup3", "fcntl", "fcntl64",
         "sigaction", "signal", "bsd_signal", "ssignal", "sysv_signal", "__sysv_signal",
         "sigprocmask", "pthread_sigmask", "sigblock", "sigsetmask", "sigset", "sigignore",
         "sighold", "sigrelse", "setcontext", "swapcontext",
         "read", "__read_chk", "readv", "pread", "pread64", "__pread_chk", "__pread64_chk",
         "ibv_query_gid_type"}  # at every private node


def main(library, path, real, version_map):
    check(dynamic(library, "SONAME") == ["libibverbs.so.1"], "the SONAME is not libibverbs.so.1")
    needed = dynamic(library, "NEEDED")
    check(path in needed and path.startswith("/"), f"{path} is not needed by absolute path: {needed}")
    check("libibverbs.so.1" not in needed, "it needs itself")
    check("$ORIGIN/libibverbs.so" in needed, f"its second name is not needed: {needed}")
    alias = str(Path(library).with_name("libibverbs.so"))
    check(dynamic(alias, "SONAME") == ["libibverbs.so"], f"the SONAME of {alias}")
    check(dynamic(alias, "NEEDED") == ["libibverbs.so.1"], f"{alias} needs {dynamic(alias, 'NEEDED')}")
    check(not dynamic(library, "RUNPATH") and not dynamic(library, "RPATH"), "it has a RUNPATH")

    wanted = set(re.findall(r"^(IBVERBS_\S+)", Path(version_map).read_text(), re.M)) | nodes(real)
    check(wanted <= nodes(library), f"missing version nodes: {sorted(wanted - nodes(library))}")

    ours = symbols(library, "defined")
    strangers = {n for n, v in ours if not v and not n.startswith("IBVERBS_")}
    check(strangers == HOOKS, f"exported without a version: {sorted(strangers ^ HOOKS)}")

    verbs = {n for n, v in symbols(real, "defined") if v.startswith("IBVERBS_1.")}
    left = {n for n in verbs - {n for n, _ in ours} - LEFT_TO_REAL if not n.startswith("IBVERBS_")}
    check(not left, f"verbs that are not taken over: {sorted(left)}")

    have = ours | symbols(real, "defined")
    folder = Path(real).parent
    clients = [shutil.which(p) or p for p in PROGRAMS] + [str(folder / l) for l in LIBRARIES]
    checked = 0
    for client in clients:
        if not Path(client).exists():
            print(f"skipped, not on this machine: {client}")
            continue
        imports = {s for s in symbols(client, "undefined") if s[1].startswith("IBVERBS_")}
        check(imports <= have, f"{client}: unresolved: {sorted(imports - have)}")
        checked += 1
    print(f"{len(ours)} symbols, {len(nodes(library))} nodes, {checked} clients")


if len(sys.argv) != 5:
    sys.exit(__doc__)
main(*sys.argv[1:])
for problem in problems:
    print("wrong:", problem)
sys.exit(1 if problems else 0)
