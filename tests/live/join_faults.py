#!/usr/bin/env python3
"""What dies and is cut off while a run goes on in several allocations, here on one machine: each task is run once, by the record and by
its own word, none is lost, and the run ends.

usage: join_faults.py HARROW MOVE_FAULTS [test_...]     MOVE_FAULTS: the library of tests/support/move_faults.c"""
import collections
import json
import os
import random
import sys
import time

import relay
import run_support
from join_support import FENCE, Run, settled
from run_support import check, kill, lines_of, of_run, same, wait_for, write

LONG = bool(os.environ.get("HARROW_LONG"))


def drawn():
    seed = int(os.environ.get("HARROW_TEST_SEED") or random.randrange(1 << 30))
    print("seed", seed, flush=True)
    return random.Random(seed)


HELD = '[[task]]\nname = "held"\ncommand = "until test -e go; do sleep 0.05; done; echo held >> ran"\n'


class Filled(Run):
    """Work for it is submitted a batch at a time, all to the first allocation, so that tasks have to move."""

    def __init__(self, directory, program, env=None):
        self.tasks = ["held"]
        super().__init__(directory, program, HELD, 2, env=env)

    def more(self, count, seconds=0.05):
        batch = [f"s{len(self.tasks) + i}" for i in range(count)]
        self.tasks += batch
        self.harrow("submit", "--run-dir", "r", "--file", "-", stdin="".join(f"sleep {seconds}; echo $PART >> where; echo {name} >> ran\n" for name in batch), code=0)

    def end(self, *codes):
        write(f"{self.directory}/go", "")
        self.wait(*codes)


def test_servers_are_killed_in_mid_move(directory, program, library):
    """Before and after each of a move's records is on disk, and when the other one has been told."""
    rng = drawn()
    points = [f"{what}.{when}" for what in ("offered", "taken", "confirmed") for when in ("before", "after", "told")]
    points = rng.sample(points, len(points)) if not LONG else [point for _ in range(5) for point in rng.sample(points, len(points))]
    faults = f"{directory}/faults"
    os.mkdir(faults)
    with Filled(directory, program, {"LD_PRELOAD": library, "MOVE_FAULTS": faults}) as run:
        run.join(2)
        run.join(2)
        for point in points:
            wait_for(lambda: settled(run, range(3)))
            write(f"{faults}/{point}", "")
            # More work until somebody has died of it: there must be something to move.
            wait_for(lambda: not os.path.exists(f"{faults}/{point}") or run.more(20) or not os.path.exists(f"{faults}/{point}"), step=0.2)
        run.end(0, 0, 0)
        run.check_each_once(run.tasks)
        died = sum("server died" in line for part in range(3) for line in lines_of(f"{run.path}/{part}/log/keeper.log"))
        same(died, len(points), "servers that died")


def test_whatever_is_killed_at_any_moment(directory, program, library):
    """The supervisor, another server, an agent, a warden, a whole allocation by its keeper. What a killed agent's tasks had said and
    nobody recorded they may say again; nothing is recorded twice, and nothing is lost."""
    del library
    rng = drawn()
    for i in range(15 if LONG else 2):
        os.mkdir(f"{directory}/{i}")
        kill_one_of_each(f"{directory}/{i}", program, rng)


def kill_one_of_each(directory, program, rng):
    kinds = rng.sample(("supervisor", "server", "inner", "agent", "allocation"), 5)
    with Filled(directory, program) as run:
        run.join(2)
        run.join(2)
        ended = set()
        for kind in kinds:
            there = [part for part in range(len(run.keepers)) if part not in ended]
            wait_for(lambda: settled(run, there))
            run.more(60)
            time.sleep(rng.uniform(0, 1.0))  # the moment is what is drawn
            if kind == "allocation":
                part = rng.choice(there[1:])  # submissions need the first one
                kill(run.keepers[part].pid)
                run.keepers[part].wait()
                ended.add(part)
                run.join(2)
                continue
            part = there[0] if kind == "supervisor" else rng.choice(there[1:] if kind == "server" else there)
            for pid in of_run(run.part(part), "server" if kind == "supervisor" else kind):
                kill(pid)
        write(f"{directory}/go", "")
        codes = [keeper.wait(180) for part, keeper in enumerate(run.keepers) if part not in ended]
        same(codes, [0] * len(codes), *lines_of(f"{directory}/harrow.out"))
        succeeded = collections.Counter(run.rows("SELECT task FROM attempt WHERE outcome = 1 AND code = 0"))
        same([task for task, n in succeeded.items() if n > 1], [], "recorded twice")
        ran = collections.Counter(lines_of(f"{directory}/ran"))
        same(sorted(ran), sorted(run.tasks), "what ran")
        same(len(succeeded), len(run.tasks), "recorded successes")
        lost = len(run.rows("SELECT task FROM attempt WHERE outcome = 8"))
        unrecorded = 2  # of the killed allocation, on its slots
        check(sum(ran.values()) - len(ran) <= lost + unrecorded, [task for task, n in ran.items() if n > 1], "ran twice, and attempts lost:", lost)


def cut_between(directory, program, how):
    """Both go on with what they have, and move tasks again when it is over."""
    seconds = 30 if LONG else 4 * FENCE
    with Filled(directory, program) as run:
        wait_for(lambda: "joined" in run.harrow("status", "--nodes", "--run-dir", "r").out)  # its agent needs no relay
        between = relay.before_server(f"{run.path}/0/server")
        run.join(2)
        run.more(int(seconds * 2 * 2 / 0.1) + 100, 0.1)
        done = lambda part: lines_of(f"{directory}/where").count(str(part))
        wait_for(lambda: done(0) > 5 and done(1) > 5)
        check(between.passed > 0, "they do not talk through the relay")
        getattr(between, how)()
        cut = [time.monotonic(), done(0), done(1)]
        wait_for(lambda: time.monotonic() - cut[0] > seconds, seconds + 10, 0.1)
        during = [done(0) - cut[1], done(1) - cut[2]]
        check(during[0] > 20 and during[1] > 20, "tasks that they ran meanwhile:", during)
        passed = between.passed
        between.go_on()
        wait_for(lambda: between.passed > passed)
        took = lambda: json.loads(run.harrow("status", "--json", "--run-dir", "r", code=0).out)["allocations"][1]["took"]
        before = wait_for(took)
        run.more(200, 0.1)
        wait_for(lambda: took() > before)
        run.end(0, 0)
        run.check_each_once(run.tasks)
        between.close()


def test_a_silent_cut_between_allocations(directory, program, library):
    del library
    cut_between(directory, program, "hold")


def test_a_cut_between_allocations(directory, program, library):
    del library
    cut_between(directory, program, "cut")


if __name__ == "__main__":
    run_support.tell(lambda: run_support.tests_of(sys.modules[__name__], sys.argv[1], sys.argv[2]))
