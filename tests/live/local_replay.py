#!/usr/bin/env python3
"""Simulated against real, with files on the nodes' own disks: Montage (m25, recorded) is replayed on 12 nodes of one slot that this
machine pretends, its times tenfold and its sizes a tenth, and simulated with what in that run a task cost beside its own time, and a
slot waited between two tasks. Shares of input bytes at home and present agree within 5 points, bytes moved and makespans within 15 %.

usage: local_replay.py HARROW SHARED_DIR

A run that does not agree is repeated, up to twice: the machine may do something else. HARROW_LONG=1: more orders."""
import csv
import datetime
import json
import lzma
import os
import statistics
import sys

from run_support import Harrow, Skipped, check, same, tell, work_dir, write

NODES = 12
# Enough that a run is not over before all of its nodes are there.
SCALE = ["--time-scale", "10", "--size-scale", "0.1"]
CLUSTER = '[[node]]\ncount = {nodes}\ncores = 1\nmemory = "1GiB"\n[dispatch]\njitter = "10ms"\nlatency = "{latency:.6f}s"\noverhead = "{overhead:.6f}s"\n'


def at_home(flow, rows):
    """The share of input bytes that tasks read on the node where the file was made, or brought to first; from the report's rows."""
    with open(flow, encoding="utf-8") as f:
        spec = json.load(f)["workflow"]["specification"]
    size = {file["id"]: file["sizeInBytes"] for file in spec["files"]}
    tasks = {task["id"]: task for task in spec["tasks"]}
    home = {file: row["node"] for row in rows for file in tasks[row["task"]]["outputFiles"]}
    bytes_of = {True: 0, False: 0}
    for row in sorted(rows, key=lambda row: row["start"]):
        for file in tasks[row["task"]]["inputFiles"]:
            bytes_of[home.get(file) == row["node"]] += size[file]
            home.setdefault(file, row["node"])
    return bytes_of[True] / sum(bytes_of.values())


def time_of(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def median_wait(flow, rows):
    """Between two tasks on a node of which the second was ready when the first ended: words to and fro, and its inputs."""
    with open(flow, encoding="utf-8") as f:
        parents = {task["id"]: task["parents"] for task in json.load(f)["workflow"]["specification"]["tasks"]}
    end = {row["task"]: time_of(row["end"]) for row in rows}
    waits, last = [], {}
    for row in sorted(rows, key=lambda row: row["start"]):
        before = last.get(row["node"])
        if before and all(end[parent] < end[before] for parent in parents[row["task"]]):
            waits.append(time_of(row["start"]) - end[before])
        last[row["node"]] = row["task"]
    return statistics.median(waits)


def compare(harrow, flow, name, *options):
    """Replays and simulates once; what does not agree."""
    run = json.loads(harrow("replay", "--files", "local", "--local-nodes", str(NODES), "--slots", "1", "--dir", f"replay-{name}", "--run-dir",
                            f"run-{name}", "--progress", "none", "--json", *SCALE, *options, flow, code=0, timeout=600).out)
    rows = list(csv.DictReader(harrow("report", "--run-dir", f"run-{name}", "--csv", code=0).out.splitlines()))
    scaled = os.path.join(harrow.cwd, f"replay-{name}", "flow.json")
    same(run["tasks"]["done"], len(rows), name)
    between = median_wait(scaled, rows)
    used = run["core_utilisation"] * run["makespan_s"] * NODES
    asked = json.loads(harrow("sim", "--json", "--nodes", f"{NODES}x1", scaled, code=0).out)["core_s"]
    write(os.path.join(harrow.cwd, "cluster.toml"), CLUSTER.format(nodes=NODES, overhead=max(0, (used - asked) / len(rows)), latency=between / 2))
    sim = json.loads(harrow("sim", "--files", "local", "--json", "--cluster", "cluster.toml", *options, scaled, code=0).out)
    local, remote = run["input_bytes"]["local"], run["input_bytes"]["remote"]
    lasted = max(time_of(row["end"]) for row in rows) - min(time_of(row["start"]) for row in rows)
    # The run's own account of it is by words of agents and server, this one by where tasks ran.
    home = run["input_bytes"]["home"] / (local + remote)
    check(abs(home - at_home(scaled, rows)) < 0.005, name, home, at_home(scaled, rows))
    # What is said, the run's, the simulation's, by how much they may be apart: 5 points; without locality, where
    # it is luck whether a copy has come when a task is assigned, 8.
    points = 8 if "--no-locality" in options else 5
    rows = [("at home, %", 100 * home, 100 * sim["home_share"], points),
            ("present, %", 100 * local / (local + remote), 100 * sim["present_share"], points),
            ("moved, MB", run["bytes_moved"] / 1e6, sim["bytes_moved"] / 1e6, 0.15 * run["bytes_moved"] / 1e6),
            ("first start to last end, s", lasted, sim["makespan_s"], 0.15 * lasted)]
    print(f"{name}: {1000 * between:.0f} ms between; " + "; ".join(f"{what} {real:.1f}, simulated {simulated:.1f}" for what, real, simulated, _ in rows), flush=True)
    return [f"{what}: {real:.2f}, simulated {simulated:.2f}" for what, real, simulated, most in rows if abs(real - simulated) > most]


def main():
    source = os.path.join(sys.argv[2], "data", "montage-real", "m25", "montage-real-m25.dag.tsv.xz")
    if not os.path.exists(source):
        raise Skipped(f"no recorded workflows in {sys.argv[2]}", "data")
    orders = ["fifo", "lifo", "lifo+hrf", "rank+hrf"] if os.environ.get("HARROW_LONG") else ["lifo+hrf"]
    with work_dir() as directory:
        harrow = Harrow(sys.argv[1], directory)
        flow = os.path.join(directory, "m25.dag.tsv")
        with lzma.open(source, "rb") as f, open(flow, "wb") as copy:
            copy.write(f.read())
        for order in orders:
            for locality in ([], ["--no-locality"]):
                name = "-".join([order, *(["without"] if locality else [])])
                for tries in range(3):
                    off = compare(harrow, flow, f"{name}-{tries}", "--order", order, *locality)
                    if not off:
                        break
                check(not off, name, *off)


tell(main)
