#!/usr/bin/env python3
"""Whole runs under faults drawn from a seed: any process of Harrow's is killed, told to end, or stopped for shorter or longer
than the fence. Nothing is lost, no recorded attempt is there twice, no task fails that did not fail, and every output holds
what one attempt wrote.   usage: random_faults.py HARROW

HARROW_SEED runs one seed again; HARROW_LONG=1: 200 runs."""
import collections
import os
import random
import signal
import sys
import time

import run_support
from run_support import Harrow, check, kill, lines_of, of_run, query, same, wait_for, with_word, work_dir, write

NODES, SLOTS, TASKS, LINES, FENCE = 3, 3, 18, 70, 4.0  # a task lasts longer than the fence
ROLES = {"server": 3, "inner": 4, "agent": 2}  # and how often each is drawn
FAULTS = {"kill": 4, "stop": 5, "end": 1}


def drawn(rng, weights):
    return rng.choices(list(weights), list(weights.values()))[0]


class Faults:
    """Disturbs a run now and then, one fault after the other; what was stopped goes on by itself."""

    def __init__(self, rng, run_dir):
        self.rng, self.run_dir, self.stopped, self.done = rng, run_dir, [], []
        self.servers_killed = 0

    def one(self):
        role, fault = drawn(self.rng, ROLES), drawn(self.rng, FAULTS)
        alive = of_run(self.run_dir, role)
        if not alive or (fault == "end" and role != "inner"):
            return
        if fault == "kill" and role == "server":
            if self.servers_killed == 4:  # who dies five times in a row is given up
                return
            self.servers_killed += 1
        victim = self.rng.choice(alive)
        if fault == "kill":
            kill(victim)
        elif fault == "end":
            kill(victim, signal.SIGTERM)
        else:
            seconds = self.rng.choice([self.rng.uniform(0.1, FENCE / 2), self.rng.uniform(FENCE / 2, 2 * FENCE)])
            fault = f"stop for {seconds:.1f} s"
            kill(victim, signal.SIGSTOP)
            self.stopped.append((time.monotonic() + seconds, victim))
        self.done.append(f"{role} {fault}")

    def go_on(self, now=None):
        now = time.monotonic() if now is None else now
        for due, pid in [each for each in self.stopped if each[0] <= now]:
            kill(pid, signal.SIGCONT)
            self.stopped.remove((due, pid))


def one_run(directory, program, rng, count):
    marker = f"harrow-marker-{os.getpid()}-{rng.randrange(10**9)}"
    harrow = Harrow(program, directory, {"HARROW_MAX_LOSSES": "1000", "HARROW_FENCE": f"{FENCE}s", "HARROW_BAD_NODE_FAILURES": "0"})
    os.mkdir(f"{directory}/out")
    # A line at a time, so that two attempts that write at once are seen.
    write(f"{directory}/flow.toml", f"""[[task]]
name = "t{{i}}"
each = {{ i = "1-{TASKS}" }}
command = ["sh", "-c", "n=0; while [ $n -lt {LINES} ]; do echo $HARROW_ATTEMPT >> out/$0; n=$((n+1)); sleep 0.1; done", "{{i}}", "{marker}"]
out = ["out/{{i}}"]
""")
    run_dir = f"{directory}/r"
    run = harrow.start("run", "--run-dir", "r", "--progress", "none", "--retries", "0", "--slots", str(SLOTS), "--local-nodes", str(NODES),
                       "flow.toml")
    faults = Faults(rng, run_dir)
    try:
        wait_for(lambda: os.listdir(f"{directory}/out"))
        next_fault = time.monotonic()
        limit = time.monotonic() + 600
        while run.poll() is None:
            now = time.monotonic()
            check(now < limit, "the run does not end", faults.done)
            faults.go_on()
            if len(faults.done) < count and now >= next_fault:
                faults.one()
                next_fault = now + rng.uniform(0.2, 2.0)
            time.sleep(0.02)
        same(run.returncode, 0, open(f"{directory}/harrow.out", encoding="utf-8").read(), faults.done)
    finally:
        faults.go_on(float("inf"))
        kill(run.pid)
        run.wait()
    same(query(run_dir, "SELECT state, count(*) FROM tasks GROUP BY state"), [("done", TASKS)])
    rows = query(run_dir, "SELECT task, attempt, outcome FROM attempts")
    twice = [row for row, n in collections.Counter(row[:2] for row in rows).items() if n > 1]
    same(twice, [], "recorded twice")
    outcomes = collections.Counter(row[2] for row in rows)
    check(set(outcomes) <= {"exited", "lost"}, outcomes)
    same(outcomes["exited"], TASKS, "each task ended once")
    for task, attempt, outcome in rows:
        if outcome == "exited":
            same(lines_of(f"{directory}/out/{int(task)}" if str(task).isdigit() else f"{directory}/out/{task[1:]}"), [str(attempt)] * LINES,
                 f"the output of {task} is what its attempt {attempt} wrote", faults.done)
    wait_for(lambda: not with_word(marker))
    print(f"  {len(faults.done)} faults ({', '.join(faults.done)}), {outcomes['lost']} attempts lost", flush=True)
    return len(faults.done), outcomes["lost"]


def main():
    program = os.path.abspath(sys.argv[1])
    given = os.environ.get("HARROW_SEED")
    first = int(given or time.time_ns() % 10**9)
    runs = 1 if given else 200 if os.environ.get("HARROW_LONG") else 4
    faults = 0
    for seed in range(first, first + runs):
        print("seed", seed, flush=True)
        with work_dir() as directory:
            faults += one_run(directory, program, random.Random(seed), 6)[0]
    check(faults >= runs, "next to no faults: the runs were over before")


run_support.tell(main)
