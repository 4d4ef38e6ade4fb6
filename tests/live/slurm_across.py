#!/usr/bin/env python3
"""`harrow run --across` in a test cluster: a run over allocations in several partitions, which come late, end early, or never come.

usage: slurm_across.py HARROW [TEST...]"""
import collections
import os
import subprocess
import sys

from cluster_support import Cluster, run_tests
from run_support import check, lines_of, same, wait_for, write

HARROW = os.path.abspath(sys.argv.pop(1))
COUNT = 240


def flow(name, count=COUNT, seconds=0.2):
    where = os.path.join(CLUSTER.home, name)
    os.mkdir(where)
    write(f"{where}/flow.toml", f'[flow]\nname = "{name}"\n[[task]]\nname = "t{{i}}"\neach = {{ i = "0-{count - 1}" }}\n'
          f'command = "sleep {seconds}; echo t{{i}} $SLURM_JOB_PARTITION >> ran"\n')
    return where


def start(where, *words):
    """`harrow run flow.toml --across ...` as a user types it on a login node."""
    log = open(f"{where}/said", "wb")
    return CLUSTER.start("env", "HARROW_CONF=/dev/null", HARROW, "run", "flow.toml", "--run-dir", "r", "--across", *words, cwd=where, stdout=log,
                         stderr=subprocess.STDOUT)


def said(where):
    return "\n".join(lines_of(f"{where}/said"))


def ran(where):
    """Which tasks ran, and in which partition."""
    return [tuple(line.split()) for line in lines_of(f"{where}/ran")]


def check_each_once(where, count=COUNT, again=()):
    """By the tasks' own word; `again`: partitions whose job was killed, where a task may have said so and is run again."""
    times = collections.Counter(task for task, partition in ran(where) if partition not in again)
    same([task for task, n in times.items() if n > 1], [], "ran twice")
    same(len({task for task, _ in ran(where)}), count, said(where))


def jobs():
    return CLUSTER.out("squeue", "-h", "-o", "%i").split()


def in_two_partitions():
    where = flow("two")
    same(start(where, "fast:2,slow:1x2,time=10").wait(180), 0, said(where))
    check_each_once(where)
    parts = collections.Counter(partition for _, partition in ran(where))
    check(parts["fast"] > 40 and parts["slow"] > 40, parts)
    text = said(where)
    same(text.count("Submitted batch job"), 3, text)
    check("runs on node" in text and f"done {COUNT} of {COUNT}" in text, text)
    same(sorted(name for name in os.listdir(f"{where}/r") if name.isdigit()), ["0", "1", "2"])
    wait_for(lambda: not jobs())


def one_comes_late():
    """Its nodes are taken: the other one works alone, until they are free."""
    where = flow("late", 300)
    taken = CLUSTER.script("sleep 300", "-p", "slow", "-N2", "--exclusive", "-o", "/dev/null")
    wait_for(lambda: CLUSTER.job_state(taken) == "RUNNING")
    run = start(where, "fast:1,slow:2")
    wait_for(lambda: len(ran(where)) > 30, 120)
    check("waits: " in said(where), said(where))
    CLUSTER.run("scancel", taken)
    same(run.wait(180), 0, said(where))
    check_each_once(where, 300)
    check(any(partition == "slow" for _, partition in ran(where)))
    wait_for(lambda: not jobs())


def one_is_ended():
    """The job that has the run's first part is cancelled: the other one goes on with all of it."""
    where = flow("ended", 300)
    run = start(where, "fast:1")
    wait_for(lambda: len(ran(where)) > 10, 120)
    first = jobs()[0]
    other = CLUSTER.script(f"cd {where}; HARROW_CONF=/dev/null {HARROW} join r", "-p", "slow", "-N2", "--exclusive", "-o", f"{where}/joined")
    wait_for(lambda: any(partition == "slow" for _, partition in ran(where)), 120)
    CLUSTER.run("scancel", first)
    CLUSTER.wait_job(other, 180)
    check_each_once(where, 300, again=("fast",))
    check("done 300 of 300" in "\n".join(lines_of(f"{where}/joined")), lines_of(f"{where}/joined"))
    same(run.wait(60), 0, said(where))


def one_never_comes():
    """The run is over before it has begun: it is taken back."""
    where = flow("never", 20)
    taken = CLUSTER.script("sleep 300", "-p", "slow", "-N2", "--exclusive", "-o", "/dev/null")
    same(start(where, "fast:2,slow:2").wait(180), 0, said(where))
    check_each_once(where, 20)
    wait_for(lambda: jobs() == [taken])
    CLUSTER.run("scancel", taken)
    wait_for(lambda: not jobs())


def what_is_refused_is_told():
    where = flow("refused", 10)
    same(start(where, "fast:1,nowhere:2,fast:99").wait(180), 0, said(where))
    text = said(where)
    same(text.count("no allocation in partition"), 1, text)
    check("(fast, 99 nodes) waits: PartitionConfig" in text, text)
    check("partition nowhere" in text and "sbatch refused it" in text, text)
    wait_for(lambda: not jobs())
    where = flow("nothing", 10)
    same(start(where, "nowhere:1").wait(60), 2, said(where))
    check("nothing is run" in said(where) and not os.path.exists(f"{where}/r"), said(where))
    for words, what in (("fast:", "no number of nodes"), (":2", "no partition"), ("fast:2x0", "no number of allocations"),
                        ("fast:2,tim=1", "no such option"), ("time=1", "no partition")):
        same(start(where, words).wait(60), 2)
        check(what in said(where) and "fast:2,slow:4x3,time=1h" in said(where), said(where))


def interrupted_it_goes_on():
    where = flow("interrupted", 200)
    run = start(where, "fast:2")
    wait_for(lambda: len(ran(where)) > 10, 120)
    job = jobs()[0]
    # The command, not what has brought it into the cluster.
    CLUSTER.run("pkill", "-INT", "-f", "^[^ ]*/harrow run flow.toml --run-dir r --across")
    run.wait(60)
    check("the run goes on in its allocations" in said(where) and f"scancel {job}" in said(where), said(where))
    CLUSTER.wait_job(job, 180)
    check_each_once(where, 200)


with Cluster("--nodes", "4", "--share", os.path.dirname(HARROW)) as CLUSTER:
    sys.exit(run_tests([("in_two_partitions", in_two_partitions), ("one_comes_late", one_comes_late), ("one_is_ended", one_is_ended),
                        ("one_never_comes", one_never_comes), ("what_is_refused_is_told", what_is_refused_is_told),
                        ("interrupted_it_goes_on", interrupted_it_goes_on)]))
