#!/usr/bin/env python3
"""Montage from sbatch scripts on 4 nodes, all of which work: every order, with files shared and on the nodes' own disks, each output
equal to its recorded checksum, one srun a run.

usage: slurm_montage.py HARROW SHARED_DATA_DIR [t3 m25 ...]
Without HARROW_LONG=1: t3 in one order."""
import os
import shutil
import sys

from cluster_support import LONG, Cluster, check, skip
from montage_real import ORDERS, mismatches, missing, prepare, remove_outputs
from run_support import query
from slurm_support import Job, nodes_of

HARROW, DATA = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
FLAGS = "--overlap --cpu-bind=none --mem=0 --kill-on-bad-exit=0 --no-kill --wait=0"


# Four tasks that need a node each and wait for one another: they end when all four nodes are at work.
EACH_NODE = """
[[task]]
name = "node-{i}"
each = { i = "1-4" }
command = "touch nodes/$HARROW_NODE; until [ $(ls nodes | wc -l) = 4 ]; do sleep 0.1; done"
whole_node = true
priority = 9
"""


def run(cluster, work, name, order, files, sums):
    remove_outputs(work, sums)
    shutil.rmtree(os.path.join(work, "nodes"), ignore_errors=True)
    os.mkdir(os.path.join(work, "nodes"))
    run_dir = os.path.join(work, f"run-{order}-{files}")
    job = Job(cluster, HARROW, f"run {files}.toml --files {files} --order {order} --run-dir {run_dir} --progress none", directory=work)
    code = job.code(300)
    check(code == 0, f"{name} {order} {files}: harrow ended with {code}\n{job.said()}")
    bad = mismatches(work, sums)
    check(not bad, f"{name} {order} {files}: {len(bad)} of {len(sums)} outputs: {bad[:5]}")
    sruns = job.srun_lines()
    check(len(sruns) == 1 and FLAGS in sruns[0] and "-N4 -n4" in sruns[0], f"not the one srun: {sruns}")
    names = {node for (node,) in query(run_dir, "SELECT DISTINCT node FROM attempts")}
    check(nodes_of(run_dir) == {"node1", "node2", "node3", "node4"}, nodes_of(run_dir))
    # With files on the nodes' own disks the copies between them show that several are at work.
    check(files == "local" or names == nodes_of(run_dir), f"{names} of {nodes_of(run_dir)} have run tasks")
    copies = query(run_dir, "SELECT count(*) FROM copies WHERE from_node IS NOT NULL AND to_node IS NOT NULL")[0][0]
    check((copies > 0) == (files == "local"), f"{copies} copies between nodes")
    print(f"ok   {name} {order} {files}: {len(sums)} outputs equal, {copies} copies between nodes", flush=True)


def main():
    if lacks := missing(DATA):
        skip(*lacks)
    with Cluster("--share", os.path.dirname(HARROW)) as cluster:
        for name in sys.argv[3:] or (["t3", "m25"] if LONG else ["t3"]):
            work = os.path.join(cluster.home, name)
            sums = prepare(DATA, work, name)
            with open(os.path.join(work, "shared.toml"), "a", encoding="utf-8") as flow:
                flow.write(EACH_NODE)
            for order in ORDERS if LONG or len(sys.argv) > 3 else ["rank+hrf"]:
                for files in ("shared", "local"):
                    run(cluster, work, name, order, files, sums)


main()
