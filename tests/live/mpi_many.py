"""MPI tasks of 1 to 8 ranks mixed with serial ones, twice in one life of an agent: none fails but by the library's own fault, the helper that
serves them stays small and is followed by another one when it has served its share, and what the run's processes hold is the same before and afterwards.

usage: mpi_many.py HARROW [COUNT]

COUNT: tasks of each sort, each time (1 000 with HARROW_LONG=1)."""
import collections
import glob
import os
import random
import signal
import sys
import time

import mpi_support
import run_support
from mpi_faults import over, same_again
from mpi_support import gate, mpi_task
from run_support import check, lines_of, query, same, wait_for, write

COUNT = next((int(word) for word in sys.argv[2:] if word.isdigit()), 1000 if os.environ.get("HARROW_LONG") == "1" else 24)
SEED = int(os.environ.get("HARROW_SEED") or time.time_ns() % 10**9)
MOST = 8  # ranks
LARGEST = 48  # MiB, of a helper: it has about 12 from the start, libpmix leaks 4 kB a client, and is given 2 000
TIMES = 2


def test_many(directory, program):
    print(f"HARROW_SEED={SEED}, {COUNT} tasks of each sort", flush=True)
    rng = random.Random(SEED)
    harrow = mpi_support.prepare(directory, program)
    tasks, ranks = [mpi_task("steady", directory, mpi_support.NODES, mpi_support.NODES, "steady", 0, 0)], 0
    for time_of in range(TIMES):
        some = []
        for i in range(COUNT):
            of = rng.randint(1, MOST)
            # Those that a node has no room for are spread over nodes.
            nodes = 0 if of < mpi_support.SLOTS else rng.randint(2 if of <= 6 else 3, 4)
            some.append(mpi_task(f"mpi-{time_of}-{i}", directory, of, nodes, "well", 0, rng.randrange(20), after=[f"gate-{time_of}"], retries=1))
            some.append({"name": f"serial-{time_of}-{i}", "command": "true", "after": [f"gate-{time_of}"]})
            ranks += of
        rng.shuffle(some)
        tasks += [gate(f"gate-{time_of}", f"go-{time_of}"), *some]
    mpi_support.flow(directory, tasks)
    held = mpi_support.Held(directory)
    with mpi_support.nothing_left(directory), mpi_support.begun(harrow) as run:
        wait_for(lambda: len(mpi_support.where(directory, "talks")) == mpi_support.NODES)
        watched = mpi_support.Watched(directory)
        before = held.now()
        for time_of in range(TIMES):
            write(f"{directory}/go-{time_of}", "")
            wait_for(lambda wanted=(2 * COUNT + 1) * (time_of + 1): over(harrow) >= wanted, 120 + 4 * COUNT, 1)
            same_again(held, before)
        watched.end()
        write(f"{directory}/enough", "")
        same(run.wait(timeout=120), 0, lines_of(f"{directory}/harrow.out")[-20:])
    ends = collections.Counter(query(f"{directory}/r", "SELECT outcome, code FROM attempts"))
    same(ends.pop(("exited", 0)), len(tasks))
    same(ends.pop(("lost", 0), 0), mpi_support.lost_by_silence(directory))
    # Once in some thousand ranks the MPI library finds its own memory damaged while it takes itself down.
    damaged = b"".join(open(path, "rb").read() for path in glob.glob(f"{directory}/r/0/output/*")).count(b"(ompi_mpi_finalize+")
    same(ends, collections.Counter({("signaled", signal.SIGABRT): damaged} if damaged else {}))
    check(damaged <= 1 + ranks // 1000, f"{damaged} of {ranks} ranks were damaged by the end of MPI")
    print(f"{ranks} ranks by {len(watched.seen)} helpers, of {watched.most / 1024:.0f} MiB at most", flush=True)
    check(watched.most / 1024 < LARGEST, f"a helper had {watched.most} KiB")


def main():
    run_support.tests_of(sys.modules[__name__], sys.argv[1])


if __name__ == "__main__":
    run_support.tell(main)
