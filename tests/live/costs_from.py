#!/usr/bin/env python3
"""What tasks took in one run is expected of them in the next: --costs-from, --order cost.

usage: costs_from.py HARROW [test_...]"""
import os
import sys

import run_support
from run_support import Harrow, check, query, same, write

KINDS = """[[task]]
name = "short-{i}"
kind = "short"
each = { i = "1-2" }
command = "sleep 0.01"
[[task]]
name = "long"
kind = "long"
command = "sleep 0.4"
[[task]]
name = "middle"
kind = "middle"
command = "sleep 0.15"
[[task]]
name = "after"
kind = "after"
command = "sleep 0.2"
after = ["short-2"]
"""


def started(directory, run):
    return [name for (name,) in query(f"{directory}/{run}", "SELECT task FROM attempts ORDER BY start")]


def test_the_longest_way_goes_first(directory, program):
    write(f"{directory}/flow.toml", KINDS)
    harrow = Harrow(program, directory)
    one = ("run", "flow.toml", "--slots", "1", "--progress", "none")
    harrow(*one, "--run-dir", "first", "--order", "fifo", code=0)
    same(started(directory, "first"), ["short-1", "short-2", "long", "middle", "after"])
    harrow(*one, "--run-dir", "second", "--order", "cost", "--costs-from", "first", code=0)
    # short-2 has 0.01 + 0.2 s before it.
    same(started(directory, "second"), ["long", "short-2", "after", "middle", "short-1"])
    # They are kept: the run that is resumed knows them, too, when the other one is gone.
    write(f"{directory}/flow.toml", KINDS.replace("sleep 0.4", "test -e go && sleep 0.4"))
    harrow(*one, "--run-dir", "third", "--order", "cost", "--costs-from", "second", "--fail-fast", code=1)
    same(started(directory, "third"), ["long"])
    os.rename(f"{directory}/second", f"{directory}/gone")
    write(f"{directory}/go", "")
    harrow("run", "--resume", "--run-dir", "third", "--progress", "none", code=0)
    same(started(directory, "third"), ["long", "long", "short-2", "after", "middle", "short-1"])


def test_bytes_of_streams_are_told_too(directory, program):
    """A writer's bytes, and what its reader computes and does not wait for."""
    write(f"{directory}/flow.toml", """[[task]]
name = "w"
kind = "writes"
command = "sleep 0.3; head -c 100000 /dev/zero"
to = ["s"]
[[task]]
name = "r"
kind = "reads"
command = "wc -c > r.out"
from = ["s"]
[[task]]
name = "x"
kind = "between"
command = "sleep 0.1"
""")
    harrow = Harrow(program, directory)
    run = ("run", "flow.toml", "--progress", "none")
    harrow(*run, "--slots", "3", "--run-dir", "first", code=0)
    same(query(f"{directory}/first", "SELECT value FROM fact WHERE key = 'written by writes'"), [("1 100000",)])
    for place in "files", "cost":
        harrow(*run, "--slots", "1", "--run-dir", place, "--place", place, "--order", "cost", "--costs-from", "first", code=0)
        # The reader has waited 0.3 s, and computed next to nothing.
        same(started(directory, place), ["w", "x", "r"])


def test_what_cannot_tell_is_refused(directory, program):
    write(f"{directory}/flow.toml", KINDS)
    harrow = Harrow(program, directory)
    check("--costs-from: no run in nowhere" in harrow("run", "flow.toml", "--costs-from", "nowhere", code=2).err)
    write(f"{directory}/fails.txt", "false\n")
    harrow("run", "fails.txt", "--run-dir", "failed", "--progress", "none", code=1)
    told = harrow("run", "flow.toml", "--costs-from", "failed", code=2).err
    check("no task of the run in" in told and "has succeeded" in told, told)
    check("cost" in harrow("run", "flow.toml", "--order", "costs", code=2).err)


def test_the_simulation_goes_by_them(directory, program):
    write(f"{directory}/flow.toml", KINDS)
    harrow = Harrow(program, directory)
    harrow("run", "flow.toml", "--slots", "2", "--run-dir", "first", "--progress", "none", code=0)
    told = harrow("sim", "flow.toml", "--nodes", "1x1", "--order", "cost", "--costs-from", "first", "--run-time", "1s", code=0).out
    check("cost" in told, told)


if __name__ == "__main__":
    run_support.tell(lambda: run_support.tests_of(sys.modules[__name__], os.path.abspath(sys.argv[1])))
