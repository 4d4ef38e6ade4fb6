#!/usr/bin/env python3
"""`harrow run --across` in a test cluster: a run over allocations in several partitions, which come late, end early, or never come.

usage: slurm_across.py HARROW [TEST...]"""
import collections
import os
import sys

from across_support import Across, check_each_once, ran, said
from cluster_support import Cluster, run_tests
from run_support import check, lines_of, same, wait_for, write

HARROW = os.path.abspath(sys.argv.pop(1))
COUNT = 240


def in_two_partitions():
    where = RUNS.flow("two")
    same(RUNS.start(where, "fast:2,slow:1x2,time=10").wait(180), 0, said(where))
    check_each_once(where, COUNT)
    parts = collections.Counter(partition for _, partition in ran(where))
    check(parts["fast"] > 40 and parts["slow"] > 40, parts)
    text = said(where)
    same(text.count("harrow: submitted job"), 3, text)
    check("runs on node" in text and f"done {COUNT} of {COUNT}" in text, text)
    same(sorted(name for name in os.listdir(f"{where}/r") if name.isdigit()), ["0", "1", "2"])
    wait_for(lambda: not RUNS.jobs())


def with_local_files():
    """Each allocation's nodes keep what their tasks make; what tasks of another one read comes to them."""
    where = RUNS.flow("local", 1)
    each = 'each = { i = "0-59" }'
    note = f"$SLURM_JOB_PARTITION >> {where}/ran"
    write(f"{where}/flow.toml", f"""
[[task]]
name = "a{{i}}"
{each}
out = ["m/{{i}}"]
command = "sleep 0.3; echo {{i}} > m/{{i}}; echo a{{i}} {note}"
[[task]]
name = "b{{i}}"
{each}
in = ["m/{{i}}"]
out = ["e/{{i}}"]
command = "sleep 0.3; cat m/{{i}} m/{{i}} > e/{{i}}; echo b{{i}} {note}"
[[task]]
name = "sum"
in = ["e/*"]
out = ["all"]
command = "cat e/* | sort -n > all; echo sum {note}"
""")
    same(RUNS.start(where, "fast:2,slow:2,time=10", options=("--files", "local")).wait(180), 0, said(where))
    check_each_once(where, 121)
    parts = collections.Counter(partition for _, partition in ran(where))
    check(parts["fast"] > 10 and parts["slow"] > 10, parts)
    same(lines_of(f"{where}/all"), [str(i) for i in range(60) for _ in range(2)])
    same([name for name in ("m", "e") if os.path.exists(f"{where}/{name}")], [], "results only come to the submit directory")
    wait_for(lambda: not RUNS.jobs())


def one_comes_late():
    """Its nodes are taken: the other one works alone, until they are free."""
    where = RUNS.flow("late", 300)
    taken = CLUSTER.script("sleep 300", "-p", "slow", "-N2", "--exclusive", "-o", "/dev/null")
    wait_for(lambda: CLUSTER.job_state(taken) == "RUNNING")
    run = RUNS.start(where, "fast:1,slow:2")
    wait_for(lambda: len(ran(where)) > 30, 120)
    check("waits: " in said(where), said(where))
    CLUSTER.run("scancel", taken)
    same(run.wait(180), 0, said(where))
    check_each_once(where, 300)
    check(any(partition == "slow" for _, partition in ran(where)))
    wait_for(lambda: not RUNS.jobs())


def one_is_ended():
    """The job that has the run's first part is cancelled: the other one goes on with all of it."""
    where = RUNS.flow("ended", 300)
    run = RUNS.start(where, "fast:1")
    wait_for(lambda: len(ran(where)) > 10, 120)
    first = RUNS.jobs()[0]
    other = CLUSTER.script(f"cd {where}; HARROW_CONF=/dev/null {HARROW} join r", "-p", "slow", "-N2", "--exclusive", "-o", f"{where}/joined")
    wait_for(lambda: any(partition == "slow" for _, partition in ran(where)), 120)
    CLUSTER.run("scancel", first)
    CLUSTER.wait_job(other, 180)
    check_each_once(where, 300, again=("fast",))
    check("done 300 of 300" in "\n".join(lines_of(f"{where}/joined")), lines_of(f"{where}/joined"))
    same(run.wait(60), 0, said(where))


def one_never_comes():
    """The run is over before it has begun: it is taken back."""
    where = RUNS.flow("never", 20)
    taken = CLUSTER.script("sleep 300", "-p", "slow", "-N2", "--exclusive", "-o", "/dev/null")
    same(RUNS.start(where, "fast:2,slow:2").wait(180), 0, said(where))
    check_each_once(where, 20)
    wait_for(lambda: RUNS.jobs() == [taken])
    CLUSTER.run("scancel", taken)
    wait_for(lambda: not RUNS.jobs())


def what_is_refused_is_told():
    where = RUNS.flow("refused", 10)
    same(RUNS.start(where, "fast:1,nowhere:2,fast:99").wait(180), 0, said(where))
    text = said(where)
    same(text.count("no allocation of 2 nodes in partition nowhere: Invalid partition name specified"), 1, text)
    same(text.count("(fast, 99 nodes) would never begin: "), 1, text)
    wait_for(lambda: not RUNS.jobs())
    where = RUNS.flow("nothing", 10)
    same(RUNS.start(where, "nowhere:1").wait(60), 2, said(where))
    check("nothing is run" in said(where) and not os.path.exists(f"{where}/r"), said(where))
    for words, what in (("fast:", "no number of nodes"), (":2", "no partition"), ("fast:2x0", "no number of allocations"),
                        ("fast:2,tim=1", "no such option"), ("time=1", "no partition")):
        same(RUNS.start(where, words).wait(60), 2)
        check(what in said(where) and "fast:2,slow:4x3,time=1h" in said(where), said(where))


def interrupted_it_goes_on():
    where = RUNS.flow("interrupted", 200)
    run = RUNS.start(where, "fast:2")
    wait_for(lambda: len(ran(where)) > 10, 120)
    job = RUNS.jobs()[0]
    RUNS.interrupt()
    run.wait(60)
    check("the run goes on in its allocations" in said(where) and f"scancel {job}" in said(where), said(where))
    CLUSTER.wait_job(job, 180)
    check_each_once(where, 200)


AGAIN = "run --resume --run-dir r"


def taken_up_again():
    """What waits and what goes on is found; what is asked for beside it is submitted."""
    where = RUNS.flow("again", 400)
    taken = CLUSTER.script("sleep 300", "-p", "slow", "-N2", "--exclusive", "-o", "/dev/null")
    wait_for(lambda: CLUSTER.job_state(taken) == "RUNNING")
    run = RUNS.start(where, "fast:1,slow:2,comment=mine|x")
    wait_for(lambda: len(ran(where)) > 10, 120)
    same(len(RUNS.jobs()), 3)
    RUNS.interrupt()
    run.wait(60)
    run = RUNS.start(where, "fast:1,slow:2", program=AGAIN)
    wait_for(lambda: "or waits, in jobs" in said(where), 60)
    RUNS.interrupt(AGAIN)
    run.wait(60)
    same(len(RUNS.jobs()), 3, said(where))
    run = RUNS.start(where, "fast:1x2,slow:2", program=AGAIN)
    wait_for(lambda: len(RUNS.jobs()) == 4, 60)
    CLUSTER.run("scancel", taken)
    same(run.wait(180), 0, said(where))
    check_each_once(where, 400)
    same(said(where).count("harrow: submitted job"), 3, said(where))
    # Over, it is shown, and nothing is submitted.
    same(RUNS.start(where, "auto", program=AGAIN).wait(60), 0, said(where))
    same(said(where).count("harrow: submitted job"), 3, said(where))
    for words in ("--order fifo", "--stale", "--rerun-failed"):
        same(RUNS.start(where, "fast:1", program=f"{AGAIN} {words}").wait(60), 2, said(where))
    wait_for(lambda: not RUNS.jobs())


def what_was_stopped_goes_on():
    """All of its allocations are over, and tasks are open: others take them."""
    where = RUNS.flow("stopped", 100)
    run = RUNS.start(where, "fast:1")
    wait_for(lambda: len(ran(where)) > 10, 120)
    CLUSTER.run("scancel", *RUNS.jobs())
    same(run.wait(120), 4, said(where))
    check("tasks are open" in said(where) and "is over: " in said(where), said(where))
    same(RUNS.start(where, "slow:2", program=AGAIN).wait(180), 0, said(where))
    check_each_once(where, 100, again=("fast",))
    wait_for(lambda: not RUNS.jobs())


with Cluster("--nodes", "4", "--share", os.path.dirname(HARROW)) as CLUSTER:
    RUNS = Across(CLUSTER, HARROW)
    sys.exit(run_tests([(test.__name__, test) for test in (in_two_partitions, with_local_files, one_comes_late, one_is_ended, one_never_comes, what_is_refused_is_told,
                                                           interrupted_it_goes_on, taken_up_again, what_was_stopped_goes_on)]))
