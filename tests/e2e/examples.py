"""The programs of examples/: built and run by the commands that stand in their head comments."""

import dataclasses
import os
import pathlib
import re

from cases import LO, VETHS, Case, check_output
from connections import wait_for_line
from programs import PATH, CaseFailed, CaseSkipped, need_programs, tail

LINES = 60  # each is shorter
BUILD = re.compile(r"^(?://|#) +((?:cc|g\+\+) .*)$", re.M)
RUN = re.compile(r"^(?://|#) +verbena run -- (.*?) {2,}in ", re.M)


def installed(host):
    """The folder, where the user who runs the programs can read it."""
    return f"{host.prefix}/share/doc/verbena/examples"


def environment(host):
    return {"PATH": f"{host.prefix}/bin:{PATH}", "PKG_CONFIG_PATH": f"{host.prefix}/share/pkgconfig"}


@dataclasses.dataclass(frozen=True)
class Example(Case):
    """The server on one end of the network, the client on the other."""
    file: str = ""
    server_says: str = ""
    client_says: str = ""

    def run(self, host, network):
        path = pathlib.Path(installed(host), self.file)
        text = path.read_text(encoding="utf-8")
        if text.count("\n") >= LINES:
            raise CaseFailed(f"{self.file} has {text.count(chr(10))} lines, not less than {LINES}")
        with host.scratch() as folder:
            os.symlink(path, f"{folder}/{self.file}")
            self.prepare(host, network, folder, BUILD.findall(text))
            server, client = (f"cd {folder} && exec verbena run -- {words}"
                              for words in RUN.findall(text))
            self.run_ends(host, network, server,
                          client.replace("127.0.0.1", network.server.addresses[4]))

    def prepare(self, host, network, folder, commands):
        for command in commands:
            need_programs(command.split()[0], "pkg-config")
            script = f"cd {folder} && {command}"
            check_output(*host.run(network.server.namespace, ["bash", "-c", script], preload=False,
                                   timeout=self.timeout, env=environment(host)), 0, ())
        if not commands and host.run(network.server.namespace,
                                     ["/usr/bin/python3", "-c", "import pyverbs"])[0] != 0:
            raise CaseSkipped("python3-pyverbs is not installed")

    def run_ends(self, host, network, server_script, client_script):
        started = []

        def start(end, script):
            started.append(host.start(end.namespace, ["bash", "-c", script], preload=False,
                                      env=environment(host)))
            return started[-1]

        try:
            server = start(network.server, server_script)
            wait_for_line(host, server, "^server: listening on port 7471$")
            client = start(network.client, client_script)
            deadline = host.deadline(self.timeout)
            for process, says in ((client, self.client_says), (server, self.server_says)):
                check_output(process.wait(deadline), process.output(), 0, (says,))
        except CaseFailed as failure:
            raise CaseFailed("\n".join([str(failure), *map(tail, started)])) from None
        finally:
            for process in started:
                process.kill()


@dataclasses.dataclass(frozen=True)
class Wrong(Example):
    """Without words, with wrong ones, and with nobody at the other end."""

    def run_ends(self, host, network, server_script, client_script):
        bare = server_script.removesuffix(" server")
        namespace = network.server.namespace
        for script, says in ((bare, "usage: hello"), (f"{bare} nonsense", "usage: hello"),
                             (client_script, "refused|nobody listens")):
            status, output = host.run(namespace, ["bash", "-c", script], preload=False,
                                      env=environment(host))
            if status == 0:
                raise CaseFailed(f"exit status 0 of: {script}\n{output}")
            check_output(status, output, status, (says,))


def all_cases():
    ends = {
        "hello.c": ('^server: RDMA_CM_EVENT_DISCONNECTED, found "hello from C"$',
                    '^client: success, read back "hello from C"$'),
        "hello.cc": (r'^server: found "hello from C\+\+"$', r'^client: READ done, "hello from C\+\+"$'),
        "hello.py": ("^server: found b'hello from Python'$",
                     "^client: read back b'hello from Python'$"),
    }
    found = []
    for file, says in ends.items():
        found += [Example(topology, f"examples/{file}", file=file, server_says=says[0],
                          client_says=says[1]) for topology in (LO, VETHS[0])]
        found.append(Wrong(LO, f"examples/{file}-wrong", file=file))
    return found
