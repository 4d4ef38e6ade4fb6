#!/usr/bin/env python3
"""kill -9 of server, agent, warden and keeper at random moments of a run of 500 sleeping tasks on 4 pretend nodes.

usage: kill_run.py HARROW SLEEPER [ROLE...]
HARROW_LONG=1: 20 kills of each instead of 2; HARROW_SEED: repeats one.

After the restart or `--resume`: every task is done, none that ended more than half a second before a kill has run again
(each task testifies itself), outputs are those of an undisturbed run, and no process is left, however it forked."""
import os
import random
import subprocess
import sys
import time

import run_support
from run_support import Harrow, Lateness, check, kill, lines_of, of_run, query, same, wait_for, with_word, work_dir

TASKS = 500
ROLES = {"server": "server", "agent": "inner", "warden": "agent", "keeper": "keeper"}


def testimony(directory):
    """[(time, id, what)] in the order in which it was given."""
    found = []
    for line in lines_of(f"{directory}/witness"):
        task, what, when = line.split()
        found.append((float(when), int(task), what))
    return found


LATENESS = Lateness()
HOPS = 6  # from a task's end to the disk: its spawner thread, collector, agent, server, journal; and this test's own clock


def recorded_within():
    return 0.5 + HOPS * LATENESS.worst


def none_ran_again(directory, kills):
    """What ended more than half a second before a kill is recorded: it never begins again. (What dies with the killed
    process takes a moment to: a task may still end then, and nobody hears of it.)"""
    within = recorded_within()
    ends, begins = [], {}
    for when, task, what in testimony(directory):
        if what == "end":
            ends.append((task, when))
        else:
            begins.setdefault(task, []).append(when)
    again = [(task, when, begins[task]) for task, when in ends
             if any(b > when for b in begins[task]) and all(abs(when - k) > within for k in kills)]
    check(not again, "kills at", kills, "(task, its end, its begins) of tasks that ended", within, "s before one and ran again:",
          again[:5], f"and more: {len(again)}")
    return sum(len(b) for b in begins.values()) - len(begins)


def outputs(harrow):
    logs = harrow("logs", "--quiet", "--run-dir", "r", code=0)
    return sorted(logs.out.splitlines()), sorted(logs.err.splitlines())


def one_run(directory, program, sleeper, role, kills_wanted, rng, expected):
    marker = f"harrow-marker-{os.getpid()}-{rng.randrange(10**9)}"
    harrow = Harrow(program, directory, {"HARROW_MAX_LOSSES": "1000"})
    with open(f"{directory}/tasks.txt", "w", encoding="utf-8") as f:
        for i in range(TASKS):
            f.write(f"{sleeper} {marker} {i} {rng.uniform(1, 4):.3f} {directory}/witness{' leave' if i % 10 == 0 else ''}\n")
    run_dir = f"{directory}/r"
    options = ["--progress", "none", "--slots", "125", "--local-nodes", "4"]
    run = harrow.start("run", "--run-dir", "r", *options, "tasks.txt")
    wait_for(lambda: lines_of(f"{directory}/witness"))
    kills, resumes = [], 0
    try:
        while True:
            if len(kills) < kills_wanted:
                time.sleep(rng.uniform(0.1, 2.5))
                alive = of_run(run_dir, ROLES[role])
                if alive and run.poll() is None:
                    kills.append(time.time())
                    kill(rng.choice(alive))
            if role == "keeper" and kills and run.poll() == -9:
                run.wait()
                wait_for(lambda: not with_word(marker) and not with_word(run_dir), 20)
                run = harrow.start("run", "--resume", "--run-dir", "r", *options)
                resumes += 1
                if len(kills) < kills_wanted:
                    wait_for(lambda: of_run(run_dir, "agent"))
                    continue
            if len(kills) >= kills_wanted or run.poll() is not None:
                code = run.wait(timeout=180)
                if code == -9 and role == "keeper":
                    continue
                break
        said = open(f"{directory}/harrow.out", encoding="utf-8").read()
        same(code, 0, f"the run after {len(kills)} kills", said)
    finally:
        kill(run.pid)
        run.wait()
    same(query(run_dir, "SELECT count(*) FROM tasks WHERE state = 'done'"), [(TASKS,)])
    same(sorted({task for _, task, what in testimony(directory) if what == "end"}), list(range(TASKS)))
    again = none_ran_again(directory, kills)
    same(outputs(harrow), expected, "outputs differ from an undisturbed run's")
    wait_for(lambda: not with_word(marker), 10)
    print(f"{role}: {len(kills)} kills, {resumes} resumes, {again} attempts more than tasks", flush=True)
    return len(kills)


def main():
    program, sleeper = (os.path.abspath(path) for path in sys.argv[1:3])
    roles = sys.argv[3:] or list(ROLES)
    seed = int(os.environ.get("HARROW_SEED") or time.time_ns() % 10**9)
    print("seed", seed, flush=True)
    wanted = 20 if os.environ.get("HARROW_LONG") else 2
    expected = (sorted(f"out {i} {what}" for i in range(TASKS) for what in ("first", "last")), sorted(f"err {i}" for i in range(TASKS)))
    for role in roles:
        rng = random.Random(f"{seed} {role}")
        done = 0
        while done < wanted:
            with work_dir() as directory:
                done += one_run(directory, program, sleeper, role, min(3, wanted - done), rng, expected)


if __name__ == "__main__":
    run_support.tell(main)
