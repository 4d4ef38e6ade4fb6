"""What the programs of tests/perf share: figures against their bounds, and what one command costs.

A program prints a line `NAME: FIGURE UNIT (bound B, holds|falls short)` a figure, and ends with 1 when one falls short (figure.h
is the same for those in C++)."""
import argparse
import collections
import contextlib
import glob
import os
import re
import shutil
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("HARROW_BUILD", os.path.join(ROOT, "build"))
sys.path.insert(0, os.path.join(ROOT, "tests", "live"))  # cluster_support, run_support

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


def used(run_dir, wardens):
    """Seconds of CPU of a run, its tasks included; wardens: add what wardens say, for a keeper that did not wait for them."""
    from run_support import in_part  # pylint: disable=import-outside-toplevel  # found by the path above
    log = in_part(run_dir, "log")
    total = 0
    for name in ["keeper.log"] + ([os.path.basename(p) for p in glob.glob(os.path.join(log, "agent-*.log"))] if wardens else []):
        with open(os.path.join(log, name), encoding="utf-8") as lines:
            total += sum(float(s) for s in re.findall(r" used ([0-9.e+-]+) s of CPU", lines.read()))
    return total


@contextlib.contextmanager
def slow_files(work, milliseconds, rate=None):
    """A new directory on a file system of our own where each open takes so long, and all bytes go over one link of that rate a second
    (slow_files.c); None: there can be none here, which is said."""
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "slow_files.c")
    program, root, place = (os.path.join(work, name) for name in ("slow_files", "slow", "slow-mounted"))
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "fuse3"], capture_output=True, text=True, check=False) if shutil.which("pkg-config") else None
    why = None
    if flags is None or flags.returncode != 0 or not shutil.which("fusermount3"):
        why = "libfuse3-dev and fuse3 are not installed"
    elif not os.access("/dev/fuse", os.R_OK | os.W_OK):
        why = "/dev/fuse cannot be used"
    if why is not None:
        print(f"  left out: {why}", flush=True)
        yield None
        return
    subprocess.run(["cc", "-O2", "-pthread", source, "-o", program, *flags.stdout.split()], check=True)
    os.mkdir(root)
    os.mkdir(place)
    process = subprocess.Popen([program, root, place, str(milliseconds), *([] if rate is None else [str(rate)])])
    try:
        deadline = time.monotonic() + 30
        while not os.path.ismount(place):
            if process.poll() is not None or time.monotonic() > deadline:
                sys.exit("slow_files: cannot be mounted")
            time.sleep(0.01)
        yield place
    finally:
        # A loop device lets go of its file some time after it is told to.
        for _ in range(300):
            if subprocess.run(["fusermount3", "-u", place], stderr=subprocess.DEVNULL, check=False).returncode == 0:
                break
            time.sleep(0.1)
        process.wait(30)


def run(main):
    """Runs `main`; ends with its status, or with 1 when a figure fell short."""
    status = main() or 0
    if short:
        print(f"falls short: {', '.join(short)}", file=sys.stderr)
    sys.exit(status or (1 if short else 0))
