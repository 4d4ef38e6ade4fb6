#!/usr/bin/env python3
"""Tasks that write checkpoints, in a test cluster: their allocation reaches its time limit, and they go on in another one.

usage: slurm_checkpoints.py HARROW [TEST...]"""
import contextlib
import glob
import os
import sqlite3
import sys

import lammps_support
from checkpoints import COUNTER, task, value_after
from cluster_support import Cluster, run_tests
from mpi_support import MPI
from run_support import check, lines_of, same, wait_for, write

HARROW = os.path.abspath(sys.argv.pop(1))
STEPS, LONGER = 4000, 5000  # the latter takes longer than the batch system is asked about its nodes
# Of a minute, the limit, ten seconds are kept free, and asking begins five before that.
CONF = 'end_margin = "10s"\n'


def rows(where, sql):
    found = []
    for path in sorted(glob.glob(f"{where}/r/[0-9]/journal.db")):
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            found += db.execute(sql).fetchall()
    return found


def moves_when_its_allocation_ends():
    """Eight tasks that are asked, and LAMMPS, which is not: all results are those of an undisturbed run, and none begins anew."""
    where = f"{CLUSTER.home}/moves"
    os.mkdir(where)
    write(f"{where}/counter.py", COUNTER)
    write(f"{where}/harrow.conf", CONF)
    lammps_support.prepare(where, 12000)
    alone = lammps_support.undisturbed(where, 2, {**os.environ, **MPI})
    write(f"{where}/flow.toml", "".join(task(f"t{i}", STEPS, 'checkpoint_time = "5s"') for i in range(8)) +
          lammps_support.task().rstrip() + '\ncheckpoint_time = "5s"\n')
    exports = "".join(f"export {name}={value}\n" for name, value in MPI.items()) + f"export HARROW_CONF={where}/harrow.conf\ncd {where}\n"
    first = CLUSTER.script(f"{exports}export PART=0\n{HARROW} run flow.toml --run-dir r --slots 5\necho ended with $?", "-p", "slow", "-N2", "--exclusive", "-t", "1", "-o", f"{where}/first")
    wait_for(lambda: all(lines_of(f"{where}/t{i}.out.log") for i in range(8)), 120)
    other = CLUSTER.script(f"{exports}export PART=1\n{HARROW} join r --slots 5\necho ended with $?", "-p", "fast", "-N2", "--exclusive", "-t", "10", "-o", f"{where}/other")
    CLUSTER.wait_job(first, 180)
    CLUSTER.wait_job(other, 400)
    said = lines_of(f"{where}/first") + lines_of(f"{where}/other")
    check("ended with 0" in lines_of(f"{where}/other"), said)
    for i in range(8):
        same(lines_of(f"{where}/t{i}.out"), [value_after(STEPS)], said)
        begins = [(int(line.split(" ")[1]), line.split(" ")[3]) for line in lines_of(f"{where}/t{i}.out.log")]
        check(begins[0] == (0, "0") and all(begin > 0 for begin, _ in begins[1:]), begins, said)
        check(len(begins) > 1, "it did not move", begins)
    with open(f"{where}/md.dump", encoding="utf-8") as f:
        check(f.read() == alone, "the end of LAMMPS differs from that of an undisturbed run", said)
    ends = [outcome for (outcome,) in rows(where, "SELECT outcome FROM attempts")]
    same(ends.count("exited"), 9, ends)
    check(ends.count("checkpointed") >= 8, ends, said)
    same(glob.glob(f"{where}/r/checkpoints/*"), [])


def leaves_a_node_that_slurm_drains():
    """Its tasks are asked, and go on on the other node; the job has it still."""
    where = f"{CLUSTER.home}/drained"
    os.mkdir(where)
    write(f"{where}/counter.py", COUNTER)
    write(f"{where}/flow.toml", "".join(task(f"t{i}", LONGER, 'checkpoint_time = "5s"') for i in range(4)))
    job = CLUSTER.script(f"export HARROW_CONF=/dev/null PART=0\ncd {where}\n{HARROW} run flow.toml --run-dir r --slots 2 --order fifo\necho ended with $?",
                         "-p", "slow", "-N2", "--exclusive", "-t", "10", "-o", f"{where}/said")
    wait_for(lambda: all(lines_of(f"{where}/t{i}.out.log") for i in range(4)), 120)
    drained = CLUSTER.out("scontrol", "show", "hostnames", CLUSTER.out("squeue", "-h", "-j", job, "-o", "%N").strip()).split()[-1]
    CLUSTER.run("scontrol", "update", f"nodename={drained}", "state=drain", "reason=test")
    wait_for(lambda: sum(len(lines_of(f"{where}/t{i}.out.log")) for i in range(4)) >= 6, 150)
    CLUSTER.wait_job(job, 400)
    CLUSTER.run("scontrol", "update", f"nodename={drained}", "state=resume")
    check("ended with 0" in lines_of(f"{where}/said"), lines_of(f"{where}/said"))
    for i in range(4):
        same(lines_of(f"{where}/t{i}.out"), [value_after(LONGER)])
    left = rows(where, "SELECT node, outcome FROM attempts")
    check(left.count((drained, "checkpointed")) == 2 and (drained, "exited") not in left, drained, left)


if __name__ == "__main__":
    with Cluster("--nodes", "4", "--share", os.path.dirname(HARROW)) as CLUSTER:
        sys.exit(run_tests([(test.__name__, test) for test in (moves_when_its_allocation_ends, leaves_a_node_that_slurm_drains)]))
