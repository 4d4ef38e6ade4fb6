#!/usr/bin/env python3
"""MPI tasks that write checkpoints: of their own, and LAMMPS, which writes restart files by itself.

usage: checkpoints_mpi.py HARROW [test_...]"""
import glob
import json
import os
import sys

import lammps_support
import run_support
from join_support import Run
from mpi_support import MPI, prepare
from run_support import check, kill, lines_of, of_run, query, same, wait_for, write


def value_after(steps, ranks):
    values = [0] * ranks
    for step in range(1, steps + 1):
        values = [(value * 31 + step + rank) % 1000003 for rank, value in enumerate(values)]
        total = sum(values)
        values = [(value + total) % 1000003 for value in values]
    return f"{values[0]}"


def nodes_of(harrow):
    return [node["name"] for node in wait_for(lambda: json.loads(harrow("status", "--nodes", "--json", "--run-dir", "r").out or "{}").get("nodes"))]


def run_of_ranks(directory, program, which, nodes):
    harrow = prepare(directory, program, "checkpoint")
    write(f"{directory}/flow.toml", f'[[task]]\nname = "a"\nranks = 3\n{nodes}command = "./checkpoint 150 out"\nout = ["out"]\ncheckpoint = "app"\n'
          f'checkpoint_every = "1s"\ncheckpoint_ranks = "{which}"\nenv = {{ {", ".join(f"{k} = {json.dumps(v)}" for k, v in MPI.items())} }}\n')
    harrow("run", "flow.toml", "--run-dir", "r", "--slots", "4", *(["--local-nodes", "2"] if nodes else []), code=0)
    same(lines_of(f"{directory}/out"), [value_after(150, 3)])
    ends = [outcome for (outcome,) in query(f"{directory}/r", "SELECT outcome FROM attempts ORDER BY id")]
    check(len(ends) >= 3 and set(ends[:-1]) == {"checkpointed"} and ends[-1] == "exited", ends, lines_of(f"{directory}/moves"))
    same(glob.glob(f"{directory}/r/checkpoints/*"), [])


def test_rank_0_is_asked(directory, program):
    run_of_ranks(directory, program, "one", "")


def test_each_rank_is_asked(directory, program):
    run_of_ranks(directory, program, "all", "")


def test_ranks_on_two_nodes(directory, program):
    run_of_ranks(directory, program, "one", "nodes = 2\n")


def test_lammps_moves_between_allocations(directory, program):
    """Twice by hand, once because its agent is killed, once because its allocation is drained: its end is the same, bit by bit."""
    lammps_support.prepare(directory, 3000)
    prepare(directory, program, "checkpoint")
    alone = lammps_support.undisturbed(directory, 2, {**os.environ, **MPI})
    with Run(directory, program, lammps_support.task(), 2, env=MPI) as run:
        run.join(2)

        def written():
            return len(glob.glob(f"{directory}/r/checkpoints/*/files/restart.*"))

        def moved_to(part):
            wait_for(lambda: written() >= 3)
            wait_for(lambda: run.harrow("move", "--run-dir", "r", "md", "--to", str(part)).code == 0)
            wait_for(lambda: run.harrow("explain", "--run-dir", "r", "md").code == 0)
            wait_for(lambda: glob.glob(f"{directory}/r/checkpoints/*/*.sums"))

        moved_to(1)
        wait_for(lambda: written() >= 3)
        kill(of_run(run.part(1), "inner")[0])
        wait_for(lambda: written() >= 3)
        run.harrow("drain", "--run-dir", "r", "1", code=0)
        same(run.keepers[1].wait(180), 0)
        same(run.keepers[0].wait(180), 0)
        with open(f"{directory}/md.dump", encoding="utf-8") as f:
            same(f.read() == alone, True, "the end differs from that of an undisturbed run")
        ends = [outcome for (outcome,) in run.rows("SELECT outcome FROM attempts")]
        check(ends.count("checkpointed") >= 1 and ends.count("exited") == 1 and set(ends) <= {"checkpointed", "exited", "lost"}, ends)


if __name__ == "__main__":
    run_support.tell(lambda: run_support.tests_of(sys.modules[__name__], os.path.abspath(sys.argv[1])))
