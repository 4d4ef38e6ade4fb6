#!/usr/bin/env python3
"""--resume by the rule of identity: what is done stays done, what is changed and what follows runs again.
usage: resume_run.py HARROW [TEST...]"""
import os
import sys
import time

import run_support
from run_support import Harrow, check, kill, lines_of, of_run, query, same, wait_for, write

FLOW = """
[[task]]
name = "part-{i}"
each = { i = "0-9" }
command = "echo part-{i} >> ran; echo {i} > part-{i}.txt"
out = ["part-{i}.txt"]
[[task]]
name = "sum"
command = "echo sum >> ran; cat part-*.txt > sum.txt; test -e good"
in = ["part-*.txt"]
out = ["sum.txt"]
[[task]]
name = "last"
command = "echo last >> ran; cp sum.txt last.txt"
in = ["sum.txt"]
out = ["last.txt"]
"""


def ran(directory):
    lines = lines_of(f"{directory}/ran")
    write(f"{directory}/ran", "")
    return sorted(lines)


def test_failed_tasks_run_again(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/flow.toml", FLOW)
    harrow("run", "--run-dir", "r", "flow.toml", code=1)
    same(len(ran(directory)), 11)
    write(f"{directory}/good", "")
    result = harrow("run", "--rerun-failed", "--run-dir", "r", code=0)
    same(ran(directory), ["last", "sum"])
    check("10 of 12 tasks are done" in result.err, result)
    check("done 12 of 12" in result.out, result)
    same(query(f"{directory}/r", "SELECT attempt, code FROM attempts WHERE task = 'sum' ORDER BY attempt"), [(1, 1), (2, 0)])
    result = harrow("run", "--resume", "--run-dir", "r", "flow.toml", code=0)
    same(ran(directory), [])


def test_changed_tasks_run_again_with_what_follows(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/good", "")
    write(f"{directory}/flow.toml", FLOW)
    harrow("run", "--run-dir", "r", "flow.toml", code=0)
    ran(directory)
    write(f"{directory}/flow.toml", FLOW.replace("cat part-*.txt >", "cat part-*.txt | sort -r >"))
    result = harrow("run", "--resume", "--run-dir", "r", "flow.toml", code=0)
    same(ran(directory), ["last", "sum"])
    check("changed, run again: sum" in result.err and "last" in result.err, result)
    same(query(f"{directory}/r", "SELECT count(*) FROM tasks WHERE state = 'done'"), [(12,)])


def test_lines_may_be_inserted(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/tasks.txt", "".join(f"echo {i} >> ran; echo said {i}\n" for i in range(20)))
    harrow("run", "--run-dir", "r", "tasks.txt", code=0)
    ran(directory)
    lines = open(f"{directory}/tasks.txt").read().splitlines(True)
    lines[10:12] = ["echo new >> ran; echo said new\n"]
    lines.append(lines[0])
    write(f"{directory}/tasks.txt", "".join(lines))
    result = harrow("run", "--resume", "--run-dir", "r", "tasks.txt", code=0)
    same(ran(directory), ["0", "new"])
    check("done 20 of 20" in result.out, result)
    for number, said in ((1, "0"), (11, "new"), (12, "12"), (19, "19"), (20, "0")):
        logs = harrow("logs", "--run-dir", "r", f"#{number}", code=0)
        same(logs.out.splitlines()[-1].split("said ")[-1], said, "output of task", number, logs)


def test_after_everything_was_killed(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/tasks.txt", "".join(f"echo {i} >> ran; test {i} -lt 10 || test -e go || sleep 60\n" for i in range(14)))
    run = harrow.start("run", "--run-dir", "r", "--slots", "14", "tasks.txt")
    wait_for(lambda: len(lines_of(f"{directory}/ran")) == 14)
    wait_for(lambda: b'"done":10' in harrow_status(harrow))
    time.sleep(0.6)  # done is on disk at the latest half a second later
    for role in ("keeper", "server", "agent", "inner"):
        for pid in of_run(f"{directory}/r", role):
            kill(pid)
    same(run.wait(20), -9)
    ran(directory)
    write(f"{directory}/go", "")
    harrow("run", "--resume", "--run-dir", "r", code=0)
    same(ran(directory), ["10", "11", "12", "13"])


def harrow_status(harrow):
    return harrow("status", "--json", "--run-dir", "r").out.replace(" ", "").encode()


def test_the_newest_run_is_found(directory, program):
    harrow = Harrow(program, directory)
    harrow("run", "-", stdin="echo a >> ran; test -e good\n", code=1)
    check(any(name.startswith("harrow-") for name in os.listdir(directory)), os.listdir(directory))
    write(f"{directory}/good", "")
    harrow("run", "--resume", code=0)
    same(lines_of(f"{directory}/ran"), ["a", "a"])


def test_a_dry_run_changes_nothing(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/flow.toml", FLOW)
    harrow("run", "--run-dir", "r", "flow.toml", code=1)
    before = open(f"{directory}/r/journal.db", "rb").read()
    result = harrow("run", "--resume", "--dry-run", "--run-dir", "r", code=0)
    same([line.split("\t")[0] for line in result.out.splitlines()], ["sum", "last"])
    same(open(f"{directory}/r/journal.db", "rb").read(), before)


def main():
    program = sys.argv[1]
    if len(sys.argv) > 2:
        for name in [n for n in globals() if n.startswith("test_") and n not in sys.argv[2:]]:
            del globals()[name]
    run_support.tests_of(sys.modules[__name__], program)


run_support.tell(main)
