#!/usr/bin/env python3
"""Tasks that streams join, placed by what they cost (--place cost), in a run over several allocations, here on one machine: what belongs
together goes to another allocation together, and reads there all that it is to read.

usage: join_groups.py HARROW [test_...]"""
import collections
import json
import os
import random
import sys

import run_support
from join_support import Run, kill_now_and_then
from run_support import check, lines_of, same, wait_for, write

LONG = bool(os.environ.get("HARROW_LONG"))
LINES = 400
MODEL = '"""WHILE input(1) FOR 1 compute(100) END output(1) END"""'


def pipes(directory, count, seconds):
    """gen-i writes lines to two that change each, and sum-i has what comes of them. Each says where it runs, attempt by attempt. None begins before
    `go` is there."""
    said = f"echo $HARROW_TASK_NAME $HARROW_PART >> {directory}/where"
    each = f"each = {{ i = \"0-{count - 1}\" }}\n"
    return (f'[[task]]\nname = "start"\ncommand = "until test -e {directory}/go; do sleep 0.05; done; echo start >> {directory}/ran"\n'
            f'[[task]]\nname = "gen-{{i}}"\n{each}after = ["start"]\nto = ["a-{{i}}"]\n'
            f'command = "{said}; sleep {seconds}; seq {LINES} | sed \'s/^/{{i}} /\'; echo gen-{{i}} >> {directory}/ran"\n'
            f'[[task]]\nname = "map-{{i}}-{{k}}"\neach = {{ i = "0-{count - 1}", k = "0-1" }}\nfrom = ["a-{{i}}"]\nshare = "split"\nto = ["b-{{i}}"]\nmodel = {MODEL}\n'
            f'command = "{said}; sed -u s/$/x/; echo map-{{i}}-{{k}} >> {directory}/ran"\n'
            f'[[task]]\nname = "sum-{{i}}"\n{each}from = ["b-{{i}}"]\nmodel = {MODEL}\n'
            f'command = "{said}; sort -n -k 2 > {directory}/sum-{{i}}; echo sum-{{i}} >> {directory}/ran"\n')


def tasks_of(count):
    return ["start"] + [f"gen-{i}" for i in range(count)] + [f"map-{i}-{k}" for i in range(count) for k in range(2)] + [f"sum-{i}" for i in range(count)]


def check_sums(directory, count):
    for i in range(count):
        same(lines_of(f"{directory}/sum-{i}"), [f"{i} {n}x" for n in range(1, LINES + 1)], f"sum-{i}")


def allocations(directory):
    """Of each group, where its tasks have run."""
    found = collections.defaultdict(set)
    for line in lines_of(f"{directory}/where"):
        name, part = line.split()
        found[name.split("-")[1]].add(part)
    return found


def all_run(run, count):
    """So many allocations know each other, and have a node."""
    there = json.loads(run.harrow("status", "--json", "--run-dir", "r", code=0).out).get("allocations", [])
    return [(one["state"], one["nodes"]) for one in there] == [("running", 1)] * count


def test_a_group_goes_whole(directory, program):
    count = 24
    with Run(directory, program, pipes(directory, count, 1.5), 4, "--place", "cost") as run:
        run.join(4)
        run.join(2)
        wait_for(lambda: all_run(run, 3))
        write(f"{directory}/go", "")
        run.wait(0, 0, 0)
        check_sums(directory, count)
        run.check_each_once(tasks_of(count))
        where = allocations(directory)
        same(len(where), count)
        same([group for group, parts in where.items() if len(parts) > 1], [], "in two allocations")
        by_part = collections.Counter(part for parts in where.values() for part in parts)
        check(by_part["0"] >= 5 and by_part["1"] >= 3 and by_part["2"] >= 1, by_part)


def test_whatever_is_killed_every_line_is_read_once(directory, program):
    seed = int(os.environ.get("HARROW_TEST_SEED") or random.randrange(1 << 30))
    print("seed", seed)
    rng = random.Random(seed)
    for turn in range(20 if LONG else 1):
        count, where = 20, f"{directory}/{turn}"
        os.mkdir(where)
        with Run(where, program, pipes(where, count, 1), 4, "--place", "cost") as run:
            run.join(4)
            write(f"{where}/go", "")
            kill_now_and_then(run, rng, 4, 1.5, "server", "inner")
            run.wait(0, 0)
            check_sums(where, count)


if __name__ == "__main__":
    run_support.tell(lambda: run_support.tests_of(sys.modules[__name__], sys.argv[1]))
