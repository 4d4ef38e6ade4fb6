#!/usr/bin/env python3
"""Montage from sbatch scripts on 4 nodes: every order, each output equal to its recorded checksum, one srun a run.

usage: slurm_montage.py HARROW SHARED_DATA_DIR [t3 m25 ...]
Without HARROW_LONG=1: t3 in one order."""
import os
import subprocess
import sys

import montage_real
from cluster_support import LONG, Cluster, check, skip
from montage_real import ORDERS, PARAMETERS, mismatches, read_sums, write_flow
from slurm_support import Job, nodes_of

HARROW, DATA = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
FLAGS = "--overlap --cpu-bind=none --mem=0 --kill-on-bad-exit=0 --no-kill --wait=0"


def prepare(work, name):
    generate, tasks = PARAMETERS[name]
    for tool, args in (("gen_montage_inputs.py", generate), ("mk_montage_tasks.py", tasks)):
        subprocess.run([sys.executable, os.path.join(DATA, "tools", tool), work, *args], check=True, stdout=subprocess.DEVNULL)
    with open(os.path.join(work, "tasks.tsv"), encoding="utf-8") as tasks:
        write_flow(tasks, os.path.join(work, "flow.toml"))
    return read_sums(os.path.join(DATA, "montage-real", name, "outputs.sha256.xz"))


def run(cluster, work, name, order, sums):
    for _, output in sums:
        if os.path.exists(os.path.join(work, output)):
            os.unlink(os.path.join(work, output))
    run_dir = os.path.join(work, f"run-{order}")
    job = Job(cluster, HARROW, f"run flow.toml --order {order} --run-dir {run_dir} --progress none", directory=work)
    code = job.code(300)
    check(code == 0, f"{name} {order}: harrow ended with {code}\n{job.said()}")
    bad = mismatches(work, sums)
    check(not bad, f"{name} {order}: {len(bad)} of {len(sums)} outputs: {bad[:5]}")
    sruns = job.srun_lines()
    check(len(sruns) == 1 and FLAGS in sruns[0] and "-N4 -n4" in sruns[0], f"not the one srun: {sruns}")
    names = nodes_of(run_dir)
    # A short run may be over before the last agent has come.
    check(names and names <= {"node1", "node2", "node3", "node4"}, f"nodes are named {names}")
    print(f"ok   {name} {order}: {len(sums)} outputs equal", flush=True)


def main():
    if not os.path.isdir(os.path.join(DATA, "montage-real")):
        skip(f"no montage-real below {DATA}")
    if not montage_real.shutil.which("mProjectPP"):
        skip("the Montage programs are not installed (Debian: montage, montage-gridtools)")
    with Cluster("--share", os.path.dirname(HARROW)) as cluster:
        for name in sys.argv[3:] or (["t3", "m25"] if LONG else ["t3"]):
            work = os.path.join(cluster.home, name)
            sums = prepare(work, name)
            for order in ORDERS if LONG or len(sys.argv) > 3 else ["rank+hrf"]:
                run(cluster, work, name, order, sums)


main()
