"""What the programs of tests/perf share: figures against their bounds, and what one command costs.

A program prints a line `NAME: FIGURE UNIT (bound B, holds|falls short)` a figure, and ends with 1 when one falls short (figure.h
is the same for those in C++)."""
import argparse
import collections
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("HARROW_BUILD", os.path.join(ROOT, "build"))
sys.path.insert(0, os.path.join(ROOT, "tests", "live"))  # cluster_support

short = []  # the names of what fell short
Cost = collections.namedtuple("Cost", "wall cpu memory")


def figure(name, value, unit, bound=None, at_least=False):
    """Prints a figure; one without a bound is for reading. `at_least`: the bound is the least."""
    verdict = ""
    if bound is not None:
        holds = value >= bound if at_least else value <= bound
        verdict = f" (bound {bound:.4g}, {'holds' if holds else 'falls short'})"
        if not holds:
            short.append(name)
    print(f"{name}: {value:.4g} {unit}{verdict}", flush=True)


def options(doc, quick):
    """A parser with what all of them take; `quick` says what --quick leaves."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--harrow", default=os.path.join(BUILD, "bin", "harrow"), type=os.path.abspath, metavar="PROGRAM")
    return parser


def measure(command):
    """Wall seconds, CPU seconds and largest resident set (MiB) of one command, which must succeed."""
    began = os.times().elapsed
    pid = os.posix_spawn(command[0], command, os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)])
    _, status, usage = os.wait4(pid, 0)
    if status != 0:
        sys.exit(f"{' '.join(command)}: status {status}")
    return Cost(os.times().elapsed - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def run(main):
    """Runs `main`; ends with its status, or with 1 when a figure fell short."""
    status = main() or 0
    if short:
        print(f"falls short: {', '.join(short)}", file=sys.stderr)
    sys.exit(status or (1 if short else 0))
