"""`verbena env`: what it prints is enough for a program to find our devices, for each reader."""

import dataclasses
import os
import re

from cases import LO, Case, check_output
from observing import expect
from programs import need_programs

FAULTS = "seed=7,drop=1%"


def printed(host, end, *options, **kwargs):
    status, output = host.run(end.namespace, [host.verbena, "env", *options], preload=False, **kwargs)
    check_output(status, output, 0, ("LD_PRELOAD=",))
    return output.splitlines()


def devices_with(host, end, variables):
    status, output = host.run(end.namespace, ["ibv_devices"], preload=False, env=variables)
    return check_output(status, output, 0, ("vb_lo",))


def assignments(lines):
    """NAME=VALUE as docker and GitHub take them: without quotes."""
    return dict(line.split("=", 1) for line in lines)


def assignments_of_unit(lines):
    """As systemd reads a unit file: one quoted word a line, %% for a percent sign."""
    found = {}
    for line in lines:
        word = re.fullmatch(r'Environment="((?:[^"\\]|\\.)*)"', line)
        expect(word, f"no assignment of a unit file: {line}")
        text = re.sub(r"\\(.)", r"\1", word[1]).replace("%%", "%")
        name, value = text.split("=", 1)
        found[name] = value
    return found


@dataclasses.dataclass(frozen=True)
class ForShell(Case):
    """eval in a shell, beside a library that is preloaded already."""

    def run(self, host, network):
        need_programs("ibv_devices")
        script = (f'eval "$({host.verbena} env --faults {FAULTS})"; ibv_devices; '
                  'echo "$LD_PRELOAD"; echo "$VERBENA_FAULTS"')
        status, output = host.run(network.server.namespace, ["sh", "-euc", script], preload=False,
                                  env={"LD_PRELOAD": "libm.so.6"})
        return check_output(status, output, 0, (
            "vb_lo", r"^/.*/libibverbs\.so\.1:libm\.so\.6$", f"^{FAULTS}$"))


@dataclasses.dataclass(frozen=True)
class ForGithub(Case):
    """Lines for $GITHUB_ENV; files have absolute paths, because each step has its own folder."""

    def run(self, host, network):
        need_programs("ibv_devices")
        with host.scratch() as folder:
            file = os.path.join(folder, "all.pcapng")
            relative = os.path.relpath(file, "/")  # programs are started there
            variables = assignments(
                printed(host, network.server, "--format", "github", "--pcap", relative))
            expect(variables["VERBENA_PCAP"] == file, f"{variables}")
            status, output = host.run(network.server.namespace, [host.verbena, "devices"],
                                      preload=False, env=variables)
            check_output(status, output, 0, ("vb_lo",))
            expect(os.path.getsize(file) == 0, "verbena devices writes a capture")
            return devices_with(host, network.server, variables)


@dataclasses.dataclass(frozen=True)
class ForDocker(Case):
    """A container has nothing of this shell's LD_PRELOAD, and folders of its own."""

    def run(self, host, network):
        need_programs("ibv_devices")
        end = network.server
        variables = assignments(printed(host, end, "--format", "docker", "--pcap", "/none/of/ours",
                                        env={"LD_PRELOAD": "libm.so.6"}))
        expect("libm" not in variables["LD_PRELOAD"], f"{variables}")
        expect(variables["VERBENA_PCAP"] == "/none/of/ours", f"{variables}")
        status, output = host.run(end.namespace, [host.verbena, "env", "--format", "docker", "--pcap",
                                                  "relative"], preload=False)
        check_output(status, output, 2, ("absolute path",))
        del variables["VERBENA_PCAP"]
        return devices_with(host, end, variables)


@dataclasses.dataclass(frozen=True)
class ForSystemd(Case):
    """Lines for a unit file, where a percent sign stands for something else."""

    def run(self, host, network):
        need_programs("ibv_devices")
        lines = printed(host, network.server, "--format", "systemd", "--only", "--faults", FAULTS)
        variables = assignments_of_unit(lines)
        expect(variables["VERBENA_FAULTS"] == FAULTS and variables["VERBENA_ONLY"] == "1",
               f"{variables}")
        return devices_with(host, network.server, variables)


def all_cases():
    return [
        ForShell(LO, "env/shell", quick=True),
        ForGithub(LO, "env/github"),
        ForDocker(LO, "env/docker"),
        ForSystemd(LO, "env/systemd"),
    ]
