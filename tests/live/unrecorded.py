#!/usr/bin/env python3
"""What an agent has told is not safe before it is on disk: until then the agent keeps it, and stays.
usage: unrecorded.py HARROW HELD_WRITES [TEST...]     HELD_WRITES: the library of tests/support/held_writes.c"""
import os
import sys

import run_support
from run_support import Harrow, check, kill, lines_of, of_run, query, same, wait_for, write


def start(directory, program, library, tasks):
    """A run whose journal is written no further from the moment on when a task makes the file `held`."""
    write(f"{directory}/tasks.txt", tasks)
    held = {"LD_PRELOAD": library, "HELD_NAME": "journal.db-wal", "HELD_WHILE": f"{directory}/held"}
    return Harrow(program, directory, held).start("run", "--run-dir", "r", "--progress", "none", "tasks.txt")


def kill_server_and_let_go(directory):
    (server,) = of_run(f"{directory}/r", "server")
    kill(server)
    wait_for(lambda: server not in of_run(f"{directory}/r", "server"))
    os.unlink(f"{directory}/held")


def known(harrow):
    return harrow("status", "--json", "--run-dir", "r").out.replace(" ", "")


def test_agents_are_not_let_go_before_the_last_result_is_on_disk(directory, program, library):
    harrow = Harrow(program, directory)
    run = start(directory, program, library, "echo ran >> witness; touch held\n")
    try:
        wait_for(lambda: os.path.exists(f"{directory}/held.waits"))
        wait_for(lambda: '"done":1' in known(harrow))  # the server knows, the disk does not
        check(run.poll() is None, "the run ended without its record")
        agents = of_run(f"{directory}/r", "inner")
        kill_server_and_let_go(directory)
        same(run.wait(60), 0)
    finally:
        kill(run.pid)
        run.wait()
    same(lines_of(f"{directory}/witness"), ["ran"], "the task that was done has run again")
    same(query(f"{directory}/r", "SELECT attempt, outcome FROM attempts"), [(1, "exited")])
    check(len(agents) == 1, agents)
    same(query(f"{directory}/r", "SELECT count(DISTINCT incarnation) FROM node"), [(1,)], "it was the same agent to the end")


def test_results_that_are_not_on_disk_outlive_the_server(directory, program, library):
    """In the middle of a run: what ended and what still runs, of several tasks of one agent."""
    harrow = Harrow(program, directory)
    tasks = "".join(f"echo {i} >> witness\n" for i in range(20)) + "touch held; echo 20 >> witness; until test -e go; do sleep 0.05; done\n"
    run = start(directory, program, library, "#HARROW cores=1\n" + tasks)
    try:
        wait_for(lambda: os.path.exists(f"{directory}/held"))
        wait_for(lambda: '"done":20' in known(harrow) and len(lines_of(f"{directory}/witness")) == 21)
        kill_server_and_let_go(directory)
        write(f"{directory}/go", "")
        same(run.wait(60), 0)
    finally:
        kill(run.pid)
        run.wait()
    same(sorted(map(int, lines_of(f"{directory}/witness"))), list(range(21)), "some tasks have run again")
    same(query(f"{directory}/r", "SELECT count(*), max(attempt) FROM attempts"), [(21, 1)])


if __name__ == "__main__":
    program, library = (os.path.abspath(path) for path in sys.argv[1:3])
    run_support.tell(lambda: run_support.tests_of(sys.modules[__name__], program, library))
