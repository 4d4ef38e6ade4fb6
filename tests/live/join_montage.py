#!/usr/bin/env python3
"""A real Montage run over two allocations, while servers, agents and an allocation are killed: each output equal to its recorded checksum.

usage: join_montage.py HARROW SHARED_DATA_DIR
With files on shared storage, and on the nodes' own disks, where what only tasks of one allocation read need not be in the submit directory.
Without HARROW_LONG=1: t3 once each; with it m25 five times and twice."""
import os
import random
import sys
import time

from join_support import Run, query
from montage_real import mismatches, missing, prepare, remove_outputs
from run_support import check, kill, lines_of, of_run, same, work_dir

LONG = bool(os.environ.get("HARROW_LONG"))
# What is killed, and in which part; an allocation is replaced by another one.
KILLS = [("server", 0), ("inner", 1), ("allocation", 1), ("server", 2), ("inner", 0)]


def results(work):
    """Outputs that no task reads."""
    with open(os.path.join(work, "tasks.tsv"), encoding="utf-8") as lines:
        tasks = [line.rstrip("\n").split("\t") for line in lines]
    read = {name for _, _, ins, _, _ in tasks for name in ins.split(",")}
    return {name for _, _, _, outs, _ in tasks for name in outs.split(",")} - read


def run(harrow, work, sums, rng, pause, local):
    remove_outputs(work, sums)
    with open(os.path.join(work, "shared.toml"), encoding="utf-8") as flow:
        with Run(work, harrow, flow.read(), 2, "--order", "rank+hrf", *(["--files", "local"] if local else [])) as run:
            run.join(2)
            for what, part in KILLS:
                time.sleep(rng.uniform(0, pause))  # the moment is what is drawn
                if run.keepers[0].poll() is not None:
                    break
                if what == "allocation":
                    kill(run.keepers[1].pid)
                    run.join(2)
                    continue
                for pid in of_run(run.part(part), what):
                    kill(pid)
            codes = [keeper.wait(600 if LONG else 180) for part, keeper in enumerate(run.keepers) if part != 1]
            same(codes, [0] * len(codes), *lines_of(f"{work}/harrow.out"))
            made = [(digest, name) for digest, name in sums if not local or name in results(work) or os.path.exists(os.path.join(work, name))]
            bad = mismatches(work, made)
            check(not bad, f"{len(bad)} of {len(made)} outputs: {bad[:5]}")
            # What was lost with a node or an allocation is made again; it is done once all the same.
            tasks = run.rows("SELECT task FROM fate WHERE fate = 1" if local else "SELECT task FROM attempt WHERE outcome = 1 AND code = 0")
            same(len(tasks), len(set(tasks)), "recorded as done, each once")
            shares = [len(query(run, part, "SELECT 1 FROM attempt WHERE outcome = 1")) for part in range(len(run.keepers))]
            check(shares[0] > 0 and sum(shares[1:]) > 0, "attempts by allocation:", shares)
            lost = len(run.rows("SELECT 1 FROM attempt WHERE outcome = 8"))
            print(f"ok   {'local files, ' if local else ''}{len(made)} outputs equal, attempts by allocation {shares}, {lost} lost", flush=True)


def main():
    harrow, data = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    if lacks := missing(data):
        print(f"skipped: {lacks[0]} (needs {lacks[1]})")
        return 77
    seed = int(os.environ.get("HARROW_TEST_SEED") or random.randrange(1 << 30))
    print("seed", seed, flush=True)
    rng = random.Random(seed)
    with work_dir() as top:
        name = "m25" if LONG else "t3"
        sums = prepare(data, os.path.join(top, "inputs"), name)
        for i, local in enumerate([False] * (5 if LONG else 1) + [True] * (2 if LONG else 1)):
            work = os.path.join(top, f"{i}")
            os.rename(os.path.join(top, "inputs" if i == 0 else f"{i - 1}"), work)
            run(harrow, work, sums, rng, 3 if LONG else 1, local)
            os.rename(os.path.join(work, "r"), os.path.join(top, f"run-{i}"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
