#!/usr/bin/env python3
"""`harrow plan`: what it proposes is within 10 % of the least makespan x core-hours of all counts, by `harrow sim` of each of them, on
two recorded flows (HARROW_LONG=1: five); where it gets run times from; its table, JSON document and picture.

usage: plan_cli.py HARROW SHARED        (without SHARED/data its flows are left out)"""
import json
import lzma
import os
import re
import sys
import xml.dom.minidom

from run_support import Harrow, Skipped, check, same, tell, tests_of, write

RECORDED = ("montage-chameleon-2mass-02d-001", "epigenomics-chameleon-ilmn-4seq-50k-001", "1000genome-chameleon-22ch-250k-001",
            "airrflow-dirt02-001", "blast-chameleon-medium-001")
CORES, MOST = 4, 80
FLOW = '[[task]]\nname = "t-{i}"\neach = { i = "1-8" }\ncommand = "sleep 0.0{i}"\nkind = "short"\n'


def plan(harrow, *args):
    return json.loads(harrow("plan", "--json", *args, code=0).out)


def test_proposals_against_all_counts(directory, program, shared):
    if not os.path.isdir(os.path.join(shared, "data")):
        raise Skipped(f"{shared}/data is not at hand", "data")
    harrow = Harrow(program, directory)
    for name in RECORDED if os.environ.get("HARROW_LONG") else RECORDED[:2]:
        path = os.path.join(directory, name + ".json")
        with lzma.open(os.path.join(shared, "data/wf", name + ".json.xz")) as packed, open(path, "wb") as plain:
            plain.write(packed.read())
        told = plan(harrow, "--nodes", f"{MOST}x{CORES}", path)
        cost = {}
        for nodes in range(1, MOST + 1):
            makespan = json.loads(harrow("sim", "--json", "--nodes", f"{nodes}x{CORES}", path, code=0).out)["makespan_s"]
            cost[nodes] = makespan * makespan * nodes * CORES / 3600
        least = min(cost, key=cost.get)
        mine = cost[told["proposed_nodes"]]
        print(f"  {name}: {told['proposed_nodes']} nodes, best {least}: {mine / cost[least] - 1:.1%} more, {len(told['counts'])} simulated")
        check(mine <= 1.1 * cost[least], name, told["proposed_nodes"], "costs", mine, "and", least, cost[least])
        check(len(told["counts"]) < 40, name, len(told["counts"]))
        row = next(row for row in told["counts"] if row["nodes"] == told["proposed_nodes"])
        check(abs(row["makespan_s"] * row["core_hours"] - mine) <= 1e-3 * mine, row, mine)


def test_run_times_of_an_earlier_run(directory, program, _):
    harrow = Harrow(program, directory)
    write(f"{directory}/f.toml", FLOW)
    shape = ("--nodes", "64x1")
    done = harrow("plan", *shape, "f.toml", code=2)
    check("f.toml:2" in done.err and "--times RUN" in done.err and "--task-time" in done.err, done)
    assumed = plan(harrow, *shape, "--task-time", "10s", "f.toml")
    same((assumed["proposed_nodes"], assumed["times"]), (8, "8 of 8 tasks take 10s by assumption"))
    harrow("run", "-j", "2", "--run-dir", "harrow-1", "f.toml", code=0)
    measured = plan(harrow, *shape, "f.toml")
    same(measured["times"], "of the run harrow-1")
    check(0.2 < measured["counts"][0]["makespan_s"] < 30, measured["counts"][0])
    # Another flow of which the run knows a part, and one of which it knows nothing.
    write(f"{directory}/more.toml", FLOW.replace("1-8", "1-9"))
    same(plan(harrow, *shape, "more.toml")["times"], "of the run harrow-1; 1 of 9 tasks take their kind's mean")
    write(f"{directory}/other.toml", FLOW.replace("sleep", "exec sleep"))
    harrow("plan", *shape, "other.toml", code=2)
    same(plan(harrow, *shape, "--times", "harrow-1", "other.toml")["times"], "of the run harrow-1")
    done = harrow("plan", *shape, "--times", "nowhere", "f.toml", code=2)
    check("nowhere" in done.err, done)
    write(f"{directory}/said.toml", FLOW + 'run_time = "1s"\n')
    same(plan(harrow, *shape, "said.toml")["times"], "recorded in the flow")


def test_table_picture_and_refusals(directory, program, _):
    harrow = Harrow(program, directory)
    write(f"{directory}/f.toml", FLOW + 'run_time = "1h"\n')
    out = harrow("plan", "--nodes", "x2", "--plot", "p.svg", "f.toml", code=0).out
    (row,) = re.findall(r"^ +4 +8 +1:00:00 +8 +100.0 %  <- proposed$", out, re.M)
    check(out.rstrip().endswith("4 nodes"), out)
    text = xml.dom.minidom.parse(f"{directory}/p.svg").toxml()
    check(text.count("<polyline") == 2 and "core-hours" in text, text[:300])
    same(plan(harrow, "--nodes", "x2", "--max-nodes", "3", "f.toml")["counts"][-1]["nodes"], 3)
    write(f"{directory}/wide.toml", FLOW + 'run_time = "1h"\ncores = 4\n')
    for args, said in ((("--nodes", "x2", "wide.toml"), "ask for more"), (("--nodes", "2", "f.toml"), "write x8"), ((), "FILE"),
                       (("--nodes", "2x2", "--partition", "a", "f.toml"), "--partition")):
        done = harrow("plan", *args, code=2)
        check(said in done.err, args, done)


if __name__ == "__main__":
    tell(lambda: tests_of(sys.modules[__name__], os.path.abspath(sys.argv[1]), sys.argv[2]))
