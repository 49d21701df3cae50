"""The programs that measure: how each is run, and which figures it prints.

Each function returns a dict of figures. Bandwidths are 10⁹ bytes a second, latencies µs.
"""
import concurrent.futures
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time

TIME_LIMIT = 120  # seconds, for one run of a program


class Missing(Exception):
    """This machine can't run it; the reason."""


class Failed(Exception):
    """A program failed; what it said."""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def listening(port):
    wanted = f":{port:04X} "
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            with open(table) as lines:
                if any(wanted in line and " 0A " in line for line in lines):
                    return True
        except FileNotFoundError:  # a machine without IPv6
            pass
    return False


def numbers(text):
    """The last line that begins with a number, as words."""
    rows = [line.split() for line in text.splitlines() if re.match(r"\s*\d", line)]
    if not rows:
        raise Failed(f"no line of figures in:\n{text}")
    return rows[-1]


def spoken(command):
    return " ".join(map(str, command))


def stop(process):
    """Ends a server and what it started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


class Programs:
    """Of one build. `cores` are CPUs on cores of their own; two for each pair of processes."""

    def __init__(self, build, cores, pin):
        self.build = build
        self.verbena = build / "bin" / "verbena"
        self._cores = cores
        self._pin = pin  # also programs that don't pin themselves

    def cores_of(self, pair):
        return [self._cores[(2 * pair + end) % len(self._cores)] for end in (0, 1)]

    def _placed(self, command, core):
        command = [str(word) for word in command]
        return ["taskset", "-c", str(core), *command] if self._pin else command

    @staticmethod
    def _need(program, package):
        if not shutil.which(program):
            raise Missing(f"there is no {program} here (Debian's package {package} has it)")

    @staticmethod
    def _json_of(command):
        try:
            done = subprocess.run([str(word) for word in command], timeout=TIME_LIMIT,
                                  capture_output=True, text=True)
        except FileNotFoundError as error:
            raise Missing(f"{command[0]} isn't built") from error
        except subprocess.TimeoutExpired as error:
            raise Failed(f"{spoken(command)}: not done after {TIME_LIMIT} s") from error
        if done.returncode == 77:
            raise Missing(done.stderr.strip())
        if done.returncode != 0:
            raise Failed(f"{spoken(command)}: status {done.returncode}: {done.stderr}")
        return json.loads(done.stdout)

    def limit(self, program, *options, fixed=False, pair=0):
        """A program of bench/limits. `fixed`: it means nothing unless each end has its core."""
        place = ["--cores", ",".join(map(str, self.cores_of(pair)))] if fixed or self._pin else []
        return self._json_of([self.build / "bench" / "limits" / program, *place, *options])

    def raw_socket(self, what):
        return {"value": float(self._json_of([self.build / "bench" / "raw_sockets", what]))}

    def verbs_stream(self, wire, *options, pair=0):
        place = ["--cores", ",".join(map(str, self.cores_of(pair)))] if self._pin else []
        return self._json_of([self.verbena, "run", "--wire", wire, "--",
                              self.build / "bench" / "verbs_stream", *options, *place])

    def _server_and_client(self, command, client_options, port, environment, pair):
        """What the client prints."""
        first, second = self.cores_of(pair)
        server = subprocess.Popen(self._placed(command, second), stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True, env=environment,
                                  start_new_session=True)
        try:
            end = time.monotonic() + 20
            while not listening(port):
                if server.poll() is not None or time.monotonic() > end:
                    stop(server)
                    raise Failed(f"{spoken(command)}: the server does not listen: "
                                 + server.stderr.read())
                time.sleep(0.01)
            client = subprocess.run(self._placed([*command, *client_options], first),
                                    timeout=TIME_LIMIT, capture_output=True, text=True,
                                    env=environment)
            if client.returncode == 0:
                server.wait(timeout=10)
        except subprocess.TimeoutExpired as error:
            ended = server.poll()
            stop(server)
            raise Failed(f"{spoken(command)}: not done after {error.timeout} s; the server "
                         + ("still ran" if ended is None else f"ended with {ended}")
                         + f": {server.stderr.read()}") from error
        finally:
            stop(server)
        if client.returncode != 0:
            raise Failed(f"{spoken(command)}: status {client.returncode}: {client.stderr.strip()}; "
                         f"the server: {server.returncode}: {server.stderr.read()}{client.stdout}")
        return client.stdout

    def _perftest(self, program, wire, options, pair):
        self._need(program, "perftest")
        port = free_port()
        command = [self.verbena, "run", "--wire", wire, "--", program, "-d", "vb_lo", "-F", "-p",
                   port, *options]
        return numbers(self._server_and_client(command, ["127.0.0.1"], port, None, pair))

    def bandwidth(self, program, wire, *options, pair=0):
        row = self._perftest(program, wire, options, pair)
        return {"gb_per_s": 1.048576e-3 * float(row[3]), "million_per_s": float(row[4])}

    def latency(self, program, wire, *options, pair=0):
        row = self._perftest(program, wire, options, pair)
        return {"p50_us": float(row[4]), "p99_us": float(row[7])}

    def ucx(self, test, size, messages, pair=0):
        """Shared memory of UCX, as MPI programs use it between processes of one host."""
        self._need("ucx_perftest", "ucx-utils")
        port = free_port()
        environment = {**os.environ, "UCX_TLS": "posix,cma"}
        command = ["ucx_perftest", "-p", port, "-f", "-t", test, "-s", size, "-n", messages,
                   "-w", messages // 10]  # to warm up; 10,000 otherwise
        row = numbers(self._server_and_client(command, ["127.0.0.1"], port, environment, pair))
        # iterations, latency: median, average, overall; MB/s: average, overall; messages/s: …
        return {"p50_us": float(row[-7]), "gb_per_s": 1.048576e-3 * float(row[-3])}

    def start(self):
        """Milliseconds that a program takes longer to start and to find the devices."""
        self._need("ibv_devinfo", "ibverbs-utils")

        def milliseconds(command):
            begin = time.monotonic()
            subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                           timeout=TIME_LIMIT)  # without Verbena it may find none, and fail
            return 1000 * (time.monotonic() - begin)

        return {"ms": milliseconds([self.verbena, "run", "--", "ibv_devinfo"])
                - milliseconds(["ibv_devinfo"])}

    @staticmethod
    def together(pairs, measure):
        """Runs `measure(pair)` for so many pairs of processes at once, and adds up their bytes."""
        with concurrent.futures.ThreadPoolExecutor(pairs) as pool:
            results = list(pool.map(measure, range(pairs)))
        return {"gb_per_s": sum(result["gb_per_s"] for result in results)}
