#!/usr/bin/env python3
"""kill -9 of server, agent, warden and keeper at random moments of a run of 500 sleeping tasks on 4 pretend nodes of 20 slots.

usage: kill_run.py HARROW SLEEPER [ROLE...]
HARROW_LONG=1: 20 kills of each instead of 2; HARROW_SEED: repeats one.

After the restart or `--resume`: every task is done, none whose end was known before a kill has run again (each task testifies
itself), outputs are those of an undisturbed run, and no process is left, however it forked.

Whose end is known: agents keep results until they are on disk, so that the death of the server forgets none at all. With an
agent goes what it has not told, with the keeper what is not on disk: that of the last half second on its node, or of all."""
import os
import random
import subprocess
import sys
import time
import typing

import run_support
from run_support import Harrow, Lateness, check, kill, lines_of, of_run, processes, query, same, wait_for, with_word, work_dir

TASKS = 500
ROLES = {"server": "server", "agent": "inner", "warden": "agent", "keeper": "keeper"}


ALL = "all"  # nodes


class Kill(typing.NamedTuple):
    """Something died: when, and where tasks may have ended without anybody hearing of it, so that they run again."""
    when: float
    nodes: object = ALL  # or names
    unheard: float = 0.5  # seconds after it in which a task may still end there: what dies with it takes a moment to


class Testimony(typing.NamedTuple):
    when: float
    task: int
    what: str
    node: str


def testimony(directory):
    """What tasks said, in the order in which they did."""
    found = []
    for line in lines_of(f"{directory}/witness"):
        task, what, when, node = line.split()
        found.append(Testimony(float(when), int(task), what, node))
    return found


LATENESS = Lateness()
HOPS = 6  # from a task's end to the disk: its spawner thread, collector, agent, server, journal; and this test's own clock
MOST = 5.0  # seconds that are forgiven, however late the machine is: a test that forgives all sees nothing


def recorded_within():
    return min(MOST, 0.5 + HOPS * LATENESS.worst + 2 * LATENESS.disk)


def is_exempt(end, kills):
    late = recorded_within() - 0.5
    return any((k.nodes == ALL or end.node in k.nodes) and k.when - recorded_within() < end.when < k.when + k.unheard + late for k in kills)


def ran_again(said, kills):
    """What ended and was known never begins again. Returns how many attempts more than tasks there were."""
    begins, ends = {}, []
    for each in said:
        if each.what == "end":
            ends.append(each)
        else:
            begins.setdefault(each.task, []).append(each.when)
    again = [(end, begins[end.task]) for end in ends if any(b > end.when for b in begins[end.task]) and not is_exempt(end, kills)]
    check(not again, "kills:", kills, f"{recorded_within():.1f} s are forgiven; (end of a task, its begins) of those that ran again:", again[:5],
          f"{len(again)} in all")
    return sum(len(b) for b in begins.values()) - len(begins)


def something_to_lose(directory, least=20):
    """A kill says nothing unless tasks ended long before it."""
    def known():
        now = time.time()
        return sum(each.what == "end" and each.when < now - MOST for each in testimony(directory)) >= least
    return known


def outputs(harrow):
    logs = harrow("logs", "--quiet", "--run-dir", "r", code=0)
    return sorted(logs.out.splitlines()), sorted(logs.err.splitlines())


def nodes_hit(role, pid):
    if role in ("server", "keeper"):
        return () if role == "server" else ALL
    words = processes().get(pid, (0, []))[1]
    return (words[words.index("--node-name") + 1],) if "--node-name" in words else ALL


def one_run(directory, program, sleeper, role, kills_wanted, rng, expected):
    marker = f"harrow-marker-{os.getpid()}-{rng.randrange(10**9)}"
    harrow = Harrow(program, directory, {"HARROW_MAX_LOSSES": "1000"})
    with open(f"{directory}/tasks.txt", "w", encoding="utf-8") as f:
        for i in range(TASKS):
            f.write(f"{sleeper} {marker} {i} {rng.uniform(0.5, 3):.3f} {directory}/witness{' leave' if i % 10 == 0 else ''}\n")
    run_dir = f"{directory}/r"
    options = ["--progress", "none", "--slots", "20", "--local-nodes", "4"]  # most tasks queue
    run = harrow.start("run", "--run-dir", "r", *options, "tasks.txt")
    wait_for(something_to_lose(directory))
    kills, resumes = [], 0
    try:
        while True:
            if len(kills) < kills_wanted:
                time.sleep(rng.uniform(0.1, 1.5))
                alive = of_run(run_dir, ROLES[role])
                if alive and run.poll() is None:
                    victim = rng.choice(alive)
                    kills.append(Kill(time.time(), nodes_hit(role, victim)))
                    kill(victim)
            if role == "keeper" and kills and run.poll() == -9:
                run.wait()
                wait_for(lambda: not with_word(marker) and not with_word(run_dir))
                run = harrow.start("run", "--resume", "--run-dir", "r", *options)
                resumes += 1
                if len(kills) < kills_wanted:
                    wait_for(lambda: of_run(run_dir, "agent"))
                    continue
            if len(kills) >= kills_wanted or run.poll() is not None:
                code = run.wait(timeout=600)
                if code == -9 and role == "keeper":
                    continue
                break
        said = open(f"{directory}/harrow.out", encoding="utf-8").read()
        same(code, 0, f"the run after {len(kills)} kills", said)
    finally:
        kill(run.pid)
        run.wait()
    same(query(run_dir, "SELECT count(*) FROM tasks WHERE state = 'done'"), [(TASKS,)])
    same(sorted({each.task for each in testimony(directory) if each.what == "end"}), list(range(TASKS)))
    again = ran_again(testimony(directory), kills)
    same(outputs(harrow), expected, "outputs differ from an undisturbed run's")
    wait_for(lambda: not with_word(marker))
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
