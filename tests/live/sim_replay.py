#!/usr/bin/env python3
"""Simulated against real: three recorded workflows, and a flow of MPI tasks and serial ones, are replayed on 4 nodes, pretended by
this machine or of a test cluster, with stand-ins that sleep, and simulated with what starting a task was measured to cost here: in a
chain of tasks that do nothing, or in the run itself (what its tasks took beyond what they were asked to), whichever is more. The
makespans agree within 10 %, and orders that differ by more than 5 % in the simulation rank the same way in reality.

usage: sim_replay.py HARROW SHARED_DIR [--slurm]     --slurm: from sbatch scripts on 4 nodes of a test cluster

A run that does not agree is repeated, up to twice: the machine may do something else. HARROW_LONG=1: a minute each instead of some seconds."""
import json
import lzma
import os
import shlex
import sys

import slurm_support
from cluster_support import Cluster
from run_support import Harrow, Skipped, check, same, tell, work_dir, write

INSTANCES = ["epigenomics-chameleon-hep-1seq-100k-001", "cycles-chameleon-1l-1c-9p-001", "soykb-chameleon-10fastq-10ch-001"]
NODES, SLOTS = 4, 2
ORDERS = ["auto", "fifo", "lifo", "hrf", "lifo+hrf", "rank+hrf"]


def arguments(flow, name, *options):
    return ["replay", "--dir", f"replay-{name}", "--run-dir", f"run-{name}", "--slots", str(SLOTS), "--progress", "none", "--json", *options, flow]


def on_this_machine(harrow):
    return lambda *args: json.loads(harrow(*arguments(*args), "--local-nodes", str(NODES), code=0, timeout=600).out)


def in_slurm(harrow, cluster):
    def replay(flow, name, *options):
        job = slurm_support.Job(cluster, harrow.program, shlex.join(arguments(flow, name, *options)) + f" >said-{name}", directory=harrow.cwd)
        code = job.code(600)
        check(code == 0, f"harrow ended with {code}:", job.said())
        if not name.startswith("chain-"):  # which may be over before the last node has come
            same(len(slurm_support.nodes_of(os.path.join(harrow.cwd, f"run-{name}"))), NODES, name, "nodes")
        with open(os.path.join(harrow.cwd, f"said-{name}"), encoding="utf-8") as f:
            return json.load(f)

    return replay


def simulate(harrow, flow, order, overhead):
    write(os.path.join(harrow.cwd, "cluster.toml"), f'[[node]]\ncount = {NODES}\ncores = {SLOTS}\n[dispatch]\noverhead = "{overhead:.6f}s"\n')
    return json.loads(harrow("sim", "--json", "--cluster", "cluster.toml", "--io", "none", "--order", order, flow, code=0).out)


def main():
    harrow_program, shared = sys.argv[1], sys.argv[2]
    sources = [os.path.join(shared, "data", "wf", name + ".json.xz") for name in INSTANCES]
    if not all(map(os.path.exists, sources)):
        raise Skipped(f"no recorded workflows in {shared}", "data")
    if "--slurm" not in sys.argv:
        with work_dir() as directory:
            harrow = Harrow(harrow_program, directory)
            compare_mixed(harrow, on_this_machine(harrow))
            compare(harrow, on_this_machine(harrow), sources, 60 if os.environ.get("HARROW_LONG") else 8)
        return
    if not os.environ.get("HARROW_LONG"):
        sources = sources[:1]
    with Cluster("--share", os.path.dirname(os.path.abspath(harrow_program))) as cluster:
        harrow = Harrow(os.path.abspath(harrow_program), cluster.home)
        compare(harrow, in_slurm(harrow, cluster), sources, 60 if os.environ.get("HARROW_LONG") else 10)


def write_mixed(path):
    """Tasks of 2 ranks on one node, and of 4 over two; one of two whole nodes; serial ones beside them, of which some follow."""
    with open(path, "w", encoding="utf-8") as f:
        for i in range(12):
            f.write(f'[[task]]\nname = "gang-{i}"\nranks = {2 + 2 * (i % 2)}\nnodes = {1 + i % 2}\nrun_time = "{1 + 0.15 * (i * 7 % 12):.2f}s"\n')
            f.write('command = "false"\n' + (f'out = ["g{i}"]\n' if i % 2 == 0 else ""))
        f.write('[[task]]\nname = "whole"\nnodes = 2\nrun_time = "1.5s"\ncommand = "false"\nin = ["g0", "g2"]\nout = ["whole"]\n')
        for i in range(40):
            f.write(f'[[task]]\nname = "serial-{i}"\nrun_time = "{0.6 + 0.1 * (i * 11 % 17):.2f}s"\ncommand = "false"\n')
            f.write(f'in = ["g{i % 12}"]\n' if i % 4 == 0 else "")


def compare_mixed(harrow, replay):
    """The stand-ins of an MPI task are as many as its ranks."""
    write_mixed(os.path.join(harrow.cwd, "mixed.toml"))
    for order in ("fifo", "hrf"):
        runs = []
        while len(runs) < 3:
            run = replay("mixed.toml", f"mixed-{order}-{len(runs)}", "--order", order, "--size-scale", "0")
            same(run["tasks"]["done"], 53, order)
            scaled = os.path.join(harrow.cwd, f"replay-mixed-{order}-{len(runs)}", "flow.json")
            runs.append(run["makespan_s"] / simulate(harrow, scaled, order, 0.02)["makespan_s"] - 1)
            if abs(runs[-1]) <= 0.1:
                break
        print(f"mixed, {order}: real is {', '.join(f'{100 * run:+.1f}' for run in runs)} % longer than simulated", flush=True)
        check(min(map(abs, runs)) <= 0.1, "mixed", order, "is simulated wrongly")
    with open(os.path.join(harrow.cwd, f"replay-mixed-{order}-0", "flow.json"), encoding="utf-8") as f:
        executions = {task["id"]: task for task in json.load(f)["workflow"]["execution"]["tasks"]}
    same([executions["gang-1"][key] for key in ("ranks", "nodes", "mpi", "coreCount")], [4, 2, "none", 4])
    same("ranks" in executions["serial-0"], False)


def compare(harrow, replay, sources, target):
    directory = harrow.cwd
    # What it takes to start a task and to hear of its end, and to start a run: chains of tasks that do nothing.
    chains = []
    for length in (20, 60):
        chain = f"chain-{length}.dag.tsv"
        write(os.path.join(directory, chain), "".join(f"T\tt{i}\tk\t0\n" + (f"E\tt{i - 1}\tt{i}\n" if i else "") for i in range(length)))
        chains.append(min(replay(chain, f"chain-{length}-{i}")["makespan_s"] for i in range(3)))
    overhead = max(0, chains[1] - chains[0]) / 40
    begin = max(0, chains[0] - 20 * overhead)
    print(f"a task costs {1000 * overhead:.1f} ms beside its run, a run {1000 * begin:.1f} ms before its first")
    write(os.path.join(directory, "free.toml"), f"[[node]]\ncount = {NODES}\ncores = {SLOTS}\n")

    for source in sources:
        name = os.path.basename(source).removesuffix(".json.xz")
        flow = os.path.join(directory, name + ".json")
        with lzma.open(source, "rb") as f, open(flow, "wb") as copy:
            copy.write(f.read())
        recorded = json.loads(harrow("sim", "--json", "--cluster", "free.toml", "--io", "none", "--one-core", flow, code=0).out)
        scale = ["--one-core", "--time-scale", f"{target / recorded['makespan_s']:.9f}", "--size-scale", "0.00001"]
        first = replay(flow, name, *scale)
        same(first["tasks"]["done"], recorded["tasks"]["done"], name)
        scaled = os.path.join(directory, f"replay-{name}", "flow.json")
        asked = simulate(harrow, scaled, "fifo", 0)["core_s"]

        def measured(run):
            used = run["core_utilisation"] * run["makespan_s"] * NODES * SLOTS
            return max(overhead, (used - asked) / run["tasks"]["done"])

        def simulated(order, run):
            return begin + simulate(harrow, scaled, order, measured(run))["makespan_s"]

        def off(order, run):
            return simulated(order, run) / run["makespan_s"] - 1

        expected = {order: simulate(harrow, scaled, order, overhead)["makespan_s"] for order in ORDERS}
        best, worst = min(ORDERS, key=expected.get), max(ORDERS, key=expected.get)
        orders = {"auto"} | ({best, worst} if expected[worst] > 1.05 * expected[best] else set())
        real = {}
        for order in sorted(orders):
            # The machine is busy with more than this, which makes a run longer and never shorter: the shortest of three, or of more
            # where these were all disturbed.
            runs = []
            while len(runs) < 3 or (len(runs) < 9 and abs(off(order, real[order])) > 0.1):
                runs.append(replay(flow, f"{name}-{order}-{len(runs)}", *scale, "--order", order))
                real[order] = min(runs, key=lambda run: run["makespan_s"])
            print(f"{name}, {order}: real {real[order]['makespan_s']:.3f} s, a task costs {1000 * measured(real[order]):.1f} ms, simulated "
                  f"{', '.join(f'{100 * off(order, run):+.1f}' for run in runs)} %", flush=True)
            check(abs(off(order, real[order])) <= 0.1, name, order, "is simulated wrongly")
        # With what the machine really took in each: the one it was busier in may have lost what its order gains.
        if best in real and worst in real and 1.05 * simulated(best, real[best]) < simulated(worst, real[worst]):
            check(real[best]["makespan_s"] < real[worst]["makespan_s"], name, best, "is really not faster than", worst)


tell(main)
