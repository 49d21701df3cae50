"""Interleaved rounds of measurements, and what came out."""
import collections
import json
import signal
import statistics
import sys
import time

from programs import Failed, Missing

# A name, and a function that returns a dict of figures.
Measure = collections.namedtuple("Measure", "name take")


class Results:
    """All values of each figure of each measure."""

    def __init__(self, machine=None, values=None):
        self.machine = machine or {}
        self.values = values or {}  # name -> figure -> a value for each round
        self.missing = {}  # name -> why this machine can't run it
        self.failed = []  # name, what the program said

    def add(self, name, figures):
        for figure, value in figures.items():
            self.values.setdefault(name, {}).setdefault(figure, []).append(value)

    def of(self, name, figure):
        return self.values.get(name, {}).get(figure, [])

    def median(self, name, figure):
        """None: it wasn't measured."""
        values = self.of(name, figure)
        return statistics.median(values) if values else None

    def spread(self, name, figure):
        values = self.of(name, figure)
        return (min(values), max(values)) if values else None

    def save(self, path):
        with open(path, "w") as file:
            json.dump({"machine": self.machine, "measures": self.values, "missing": self.missing,
                       "failed": self.failed}, file, indent=1)

    @staticmethod
    def load(path):
        with open(path) as file:
            saved = json.load(file)
        return Results(saved["machine"], saved["measures"])


def progress(text):
    if sys.stderr.isatty():
        print(f"\r{text:<78}\r{text}", end="", file=sys.stderr, flush=True)


def say(text):
    progress("")
    print(text, file=sys.stderr, flush=True)


def end_by_signal():
    """Lets `finally` end servers and busy loops, which spin for ever otherwise."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))


def run(measures, rounds, results, placement):
    """`placement` names the measure that shows how far the cores are from each other; each round
    prints it."""
    for number in range(1, rounds + 1):
        begin = time.monotonic()
        for at, measure in enumerate(measures, 1):
            if measure.name in results.missing:
                continue
            progress(f"round {number}/{rounds}, {at}/{len(measures)}: {measure.name}")
            try:
                results.add(measure.name, measure.take())
            except Missing as reason:
                results.missing[measure.name] = str(reason)
                say(f"skipped: {measure.name}: {reason}")
            except Failed as reason:
                results.failed.append([measure.name, str(reason)])
                say(f"FAILED: {measure.name}: {reason}")
        here = results.of(placement, "p50_us")
        say(f"round {number}/{rounds}: {time.monotonic() - begin:.0f} s"
            + (f", {placement} {here[-1]:.3f} µs" if here else ""))
