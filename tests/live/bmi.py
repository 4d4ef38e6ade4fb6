#!/usr/bin/env python3
"""contrib/examples/bmi against the installed library: the serial search is sound as far as that shows, and as tasks of a run over two allocations it
finds the same within the gap, with not many more nodes. HARROW_LONG=1: an instance of the paper as well; HARROW_BMI="RD05-04 RD06-01": those instead, over four allocations.

usage: bmi.py HARROW BUILD_DIR"""
import os
import re
import subprocess
import sys
import tempfile

import run_support
from join_support import Run
from run_support import Skipped, check, same

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GAP = 0.05
PROGRAMS = ""  # where they were built


def call(*command):
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600, check=False)
    check(done.returncode == 0, *command, "status", done.returncode, done.stdout[-4000:])
    return done.stdout


def serially(instance, *options):
    """Value, what nothing is below, and nodes."""
    said = call(f"{PROGRAMS}/bmi-serial", instance, *options)
    found = re.fullmatch(r"\S+: (\S+) at \S+\n(\d+) nodes, \S+ s; nothing is below (\S+)\n", said)
    check(found, said)
    return float(found[1]), float(found[3]), int(found[2])


def test_the_gap_is_what_it_says(directory, _):
    del directory
    for number in range(1, 6):
        value, below, nodes = serially(f"RD02-0{number}")
        fine, fine_below, more = serially(f"RD02-0{number}", "--gap", "0.001")
        check(below <= fine <= value + 1e-6 and fine - fine_below <= 0.0011 * abs(fine), number, value, below, fine, fine_below)
        check(value - below <= (GAP + 1e-4) * abs(value), number, value, below)
        check(nodes <= more, number, nodes, more)


def test_the_tree_is_recorded(directory, _):
    _, _, nodes = serially("RD02-01", "--record", f"{directory}/tree")
    with open(f"{directory}/tree", encoding="utf-8") as f:
        rows = [line.split("\t") for line in f]
    same([int(row[0]) for row in rows], list(range(nodes)))
    same(int(rows[0][1]), -1)
    for number, parent, seconds, bound, children in rows[1:]:
        over = rows[int(parent)]
        check(int(parent) < int(number) and float(bound) >= float(over[3]) and int(over[4]) == 2, number, parent)
        check(float(seconds) > 0 and int(children) in (0, 2), number)


def test_tasks_find_the_same(directory, program):
    asked = os.environ.get("HARROW_BMI", "").split()
    allocations, slots = (4 if asked else 2), 2
    for instance in asked or ["RD02-01", "RD02-04"] + (["RD05-05"] if os.environ.get("HARROW_LONG") else []):
        where = f"{directory}/{instance}"
        os.mkdir(where)
        value, _, nodes = serially(instance)
        flow = ('[[task]]\nname = "gate"\ncommand = "until test -e go; do sleep 0.05; done"\n'
                f'[[task]]\nname = "root"\ncommand = ["{PROGRAMS}/bmi-node", "{instance}"]\nafter = ["gate"]\n')
        with Run(where, program, flow, slots, "--stop-gap", str(GAP)) as run:
            for _ in range(1, allocations):
                run.join(slots)
            open(f"{where}/go", "w", encoding="utf-8").close()
            run.wait(*[0] * allocations, within=1800)
            best = float(run.harrow("best", "--run-dir", "r", code=0).out.split()[0])
            check(abs(best - value) <= GAP * abs(value), instance, best, value)
            looked = len(run.rows("SELECT 1 FROM attempt")) - 1
            check(looked <= 1.3 * nodes + 4 * allocations * slots, instance, "nodes", looked, "serially", nodes)
            print(f"{instance}: {best:g} (serially {value:g}) of {looked} nodes ({nodes})", flush=True)


def main():
    global PROGRAMS
    if not os.path.exists("/usr/include/dsdp/dsdp5.h"):
        raise Skipped("the example cannot be built", "DSDP")
    with tempfile.TemporaryDirectory(prefix="harrow-bmi-") as top:
        for component in ("library", "library_dev"):
            call("cmake", "--install", sys.argv[2], "--prefix", f"{top}/prefix", "--component", component)
        PROGRAMS = f"{top}/build"
        call("cmake", "-S", os.path.join(SOURCE, "contrib", "examples", "bmi"), "-B", PROGRAMS, f"-DCMAKE_PREFIX_PATH={top}/prefix")
        call("cmake", "--build", PROGRAMS)
        run_support.tests_of(sys.modules[__name__], os.path.abspath(sys.argv[1]))


if __name__ == "__main__":
    run_support.tell(main)
