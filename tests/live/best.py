#!/usr/bin/env python3
"""Branch and bound: values that a run may improve, and tasks that these make pointless, while servers are killed, over several
allocations, and resumed.

usage: best.py HARROW [test_...]"""
import contextlib
import json
import os
import random
import sqlite3
import sys

import run_support
from join_support import Run, query, settled
from run_support import Harrow, check, in_part, kill, lines_of, of_run, same, wait_for, write
from submit import Held

FATES = ["open", "done", "failed", "skipped", "cancelled", "pruned"]


def best(harrow, *args, code=0, **more):
    return harrow("best", "--run-dir", "r", *args, code=code, **more)


def value(harrow):
    return json.loads(best(harrow, "--json").out)["value"]


def states(directory, *parts):
    """Of each task that has ended, by its name."""
    found = {}
    for part in parts or ("0",):
        with contextlib.closing(sqlite3.connect(f"file:{directory}/r/{part}/journal.db?mode=ro", uri=True)) as db:
            ended = dict(db.execute("SELECT task, fate FROM fate ORDER BY id"))
            found.update({task: fate for task, fate in ended.items() if fate})
    with contextlib.closing(sqlite3.connect(f"file:{directory}/r/0/journal.db?mode=ro", uri=True)) as db:
        return {db.execute("SELECT name FROM task WHERE id = ?", (task,)).fetchone()[0]: FATES[fate] for task, fate in found.items()}


def test_the_smallest_is_kept_with_what_belongs_to_it(directory, program):
    with Held(directory, program) as run:
        check("no value is known of the run in r" in best(run.harrow, code=2).err)
        write(f"{directory}/x", "first\n")
        same(best(run.harrow, "--min", "3.7000000000000001", "--with", "x").out, "3.7 is the best value\n")
        same(best(run.harrow, "--min", "3.7").out, "3.7 is not better than what is known\n")
        same(best(run.harrow, "--min", "-1e-3", "--with", "-", stdin="second\n").out, "-0.001 is the best value\n")
        same(best(run.harrow).out, "-0.001\n")
        same(best(run.harrow, "-o", "-").out, "second\n")
        best(run.harrow, "-o", "y")
        same(lines_of(f"{directory}/y"), ["second"])
        check("best value -0.001" in run.harrow("status", "--run-dir", "r", code=0).out)
        for args, says in ((["--min", "nan"], "write a number"), (["--min", "3,5"], "write a number"), (["--with", "x"], "--min"),
                           (["--min", "1", "-o", "y"], "one of them"), (["--min", "1", "--with", "nosuch"], "nosuch")):
            refused = best(run.harrow, *args, code=2)
            check(says in refused.err, args, refused)
        write(f"{directory}/large", "x" * ((16 << 20) + 1))
        check("16" in best(run.harrow, "--min", "-7", "--with", "large", code=2).err)
        run.end()
        same(best(run.harrow, "-o", "-").out, "second\n", "it is there when the run is over")
        check("is over" in best(run.harrow, "--min", "-9", code=2).err)
    os.chmod(f"{directory}/r/0/best", 0o600)
    with open(f"{directory}/r/0/best", "r+b") as f:
        f.seek(20)
        f.write(b"\xff\x00")
    check("is damaged" in best(run.harrow, code=3).err)


def test_what_it_makes_pointless_is_pruned(directory, program):
    """Best bound first; by the gap; with those that need it; and the run ends well."""
    tasks = ['[flow]\nstop_gap = "10%"\n[[task]]\nname = "first"\ncommand = "echo first >> ran"\n']
    for bound in random.sample(range(1, 10), 9):
        tasks.append(f'[[task]]\nname = "b{bound}"\nbound = {bound}.0\n'
                     f'command = "echo b{bound} >> ran; test b{bound} != b3 || {program} best --min 7"\n')
    tasks.append('[[task]]\nname = "needs"\nafter = ["b8"]\ncommand = "echo needs >> ran"\n')
    tasks.append('[[task]]\nname = "waits"\nafter_any = ["b9"]\ncommand = "echo waits >> ran"\n')
    write(f"{directory}/flow.toml", "".join(tasks))
    harrow = Harrow(program, directory)
    done = harrow("run", "flow.toml", "--run-dir", "r", "--slots", "1", code=0)
    check("pruned 4" in done.out + done.err, done)
    ran = lines_of(f"{directory}/ran")
    same([name for name in ran if name != "waits"], ["first", "b1", "b2", "b3", "b4", "b5", "b6"], "7 is not by more than 10 % below 7")
    check("waits" in ran)
    is_now = states(directory)
    same({name for name, state in is_now.items() if state == "pruned"}, {"b7", "b8", "b9", "needs"})
    check("pruned" in harrow("explain", "--run-dir", "r", "b9", code=0).out)
    same(run_support.query(f"{directory}/r", "SELECT count(*) FROM tasks WHERE state = 'pruned'"), [(4,)])
    same(harrow("status", "--run-dir", "r", code=0).out.count("pruned 4"), 1)
    # A resume prunes them again.
    harrow("run", "--resume", "--run-dir", "r", code=0)
    same(lines_of(f"{directory}/ran"), ran)


def test_bounds_are_told_wrong(directory, program):
    harrow = Harrow(program, directory)
    for text, says in (("bound = \"x\"", "bound"), ("bound = nan", "bound"), ("bound = inf", "bound"), ("bound = true", "bound")):
        write(f"{directory}/wrong.toml", f'[[task]]\nname = "a"\ncommand = "true"\n{text}\n')
        refused = harrow("check", "wrong.toml", code=2)
        check(says in refused.err and "wrong.toml:4" in refused.err, text, refused)


def test_nothing_acknowledged_is_lost(directory, program):
    """Values are offered while the server is killed, and the run stopped and resumed."""
    with Held(directory, program) as run:
        known = 1000
        for step in range(40):
            if step % 8 == 4:
                wait_for(lambda: settled(run, (0,)))
                kill(of_run(f"{directory}/r", "server")[0])
            known -= random.randrange(1, 9)
            same(best(run.harrow, "--min", str(known), "--with", "-", stdin=f"of {known}").out, f"{known} is the best value\n")
            if step % 5 == 0:
                best(run.harrow, "--min", str(known + 1))
        wait_for(lambda: os.path.exists(in_part(f"{directory}/r", "server")))
        same(best(run.harrow, "-o", "-").out, f"of {known}")
        run.process.terminate()
        run.process.wait(60)
        again = run.harrow.start("run", "--resume", "--run-dir", "r")
        wait_for(lambda: "worse" if best(run.harrow, "--min", str(known + 0.5), code=None).out.endswith("what is known\n") else None)
        same(value(run.harrow), known)
        run.go()
        same(again.wait(60), 0)


FLOW = """
[[task]]
name = "t{i}"
each = { i = "1-300" }
bound = 5.5
command = "sleep 0.05; echo $HARROW_TASK_NAME $PART >> ran"
[[task]]
name = "held{i}"
each = { i = "1-4" }
priority = -1
command = "until test -e $HARROW_SUBMIT_DIR/go; do sleep 0.02; done"
"""


def test_all_allocations_hear_of_it(directory, program):
    """What was offered to one prunes in the others; and still when that one has been killed."""
    with Run(directory, program, FLOW, 2) as run:
        run.join(2)
        wait_for(lambda: len({line.split()[1] for line in lines_of(f"{directory}/ran")} if os.path.exists(f"{directory}/ran") else ()) == 2)
        check("least bound 5.5" in wait_for(lambda: (lambda out: out if "best value" in out else None)(
            (best(run.harrow, "--min", "6.25"), run.harrow("status", "--run-dir", "r", code=0).out)[1])))
        best(run.harrow, "--min", "5.5", "--with", "-", stdin="the one")

        def looks():
            return json.loads(run.harrow("status", "--json", "--run-dir", "r", code=0).out)

        wait_for(lambda: sum(one["ready"] for one in looks()["allocations"]) < 4)
        check(looks()["tasks"]["pruned"] > 50 and looks()["best"] == 5.5, looks())
        ran = len(lines_of(f"{directory}/ran"))
        check(ran < 250, ran)
        wait_for(lambda: all(os.path.exists(f"{directory}/r/{part}/best") for part in (0, 1)))
        os.unlink(f"{directory}/r/0/best")
        wait_for(lambda: settled(run, (0,)))
        kill(of_run(run.part(0), "server")[0])
        wait_for(lambda: settled(run, (0, 1)))
        same(best(run.harrow, "--min", "5.75").out, "5.75 is not better than what is known\n")
        same(best(run.harrow, "-o", "-").out, "the one")
        same(run.harrow("submit", "--run-dir", "r", "--name", "late", "--bound", "5.6", "true", code=0).out, "late\n")
        same(run.harrow("submit", "--run-dir", "r", "--name", "good", "--bound", "5.4", "true", code=0).out, "good\n")
        same(run.harrow("submit", "--run-dir", "r", "--wait", "--name", "awaited", "--bound", "5.7", "true", code=0).out, "awaited\n")
        write(f"{directory}/go", "")
        run.wait(0, 0)
        for part in (0, 1):
            check(query(run, part, "SELECT count(*) FROM fate WHERE fate = 5")[0][0] > 0, "nothing was pruned in part", part)
        is_now = states(directory, 0, 1)
        same((is_now["late"], is_now["good"]), ("pruned", "done"))


if __name__ == "__main__":
    run_support.tell(lambda: run_support.tests_of(sys.modules[__name__], sys.argv[1]))
