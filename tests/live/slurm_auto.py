#!/usr/bin/env python3
"""`harrow run --across auto` in a test cluster: allocations are asked for as the run needs them, and given back. What users of another allocator
reported (HyperQueue's issues 248, 488, 861, 937) does not happen.

usage: slurm_auto.py HARROW PLUGIN [TEST...]
HARROW_LONG=1: the controller is away for a minute."""
import os
import sys
import time

from across_support import Across, await_said, check_each_once, ran, said
from cluster_support import LONG, Cluster, run_tests
from run_support import check, same, wait_for, write

HARROW, PLUGIN = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
AGAIN = "run --resume --run-dir r"


def submitted(where):
    return said(where).count("harrow: submitted job")


def nothing_left():
    wait_for(lambda: not RUNS.jobs(), 60)


def as_they_are_needed():
    """One node first, as nobody knows how long the tasks take; then others."""
    where = RUNS.flow("needed", 300, 0.4)
    same(RUNS.start(where, "auto,max=3").wait(240), 0, said(where))
    check_each_once(where, 300)
    text = said(where)
    check("asks for 1 node of partition fast: 300 tasks are ready; it would begin at once" in text, text)
    check(2 <= submitted(where) <= 3 and "of work for 4 slots" in text, text)
    check("done 300 of 300" in text, text)
    nothing_left()


def only_what_is_named():
    where = RUNS.flow("named", 200, 0.4)
    same(RUNS.start(where, "auto,slow:1,max=2,time=10").wait(240), 0, said(where))
    same({partition for _, partition in ran(where)}, {"slow"})
    check("asks for 1 node of partition slow for 10 min 00 s" in said(where), said(where))
    nothing_left()


def nothing_that_could_run_no_task():
    """HyperQueue 248: allocations of 30 minutes for tasks of an hour, one after the other."""
    for name, task, words in (("time", 'time = "1h"', "auto,time=30"), ("devices", "gpus = 1", "auto"), ("shape", "cores = 5", "auto")):
        where = RUNS.flow(name, 10, task=task)
        same(RUNS.start(where, words).wait(60), 2, said(where))
        check("no partition has nodes, or time, for any of the 10 tasks that wait" in said(where) and "nothing is run" in said(where), said(where))
        same((submitted(where), os.path.exists(f"{where}/r")), (0, False), said(where))
    # Beside tasks that fit they make no allocation more.
    where = RUNS.flow("beside", 8, 0.5, more='[[task]]\nname = "long{i}"\neach = { i = "1-100" }\ntime = "1h"\ncommand = "true"\n')
    same(RUNS.start(where, "auto,time=30,max=4,idle=2s").wait(120), 4, said(where))
    same(len(ran(where)), 8)
    check(submitted(where) == 1 and "no partition has nodes, or time, for any of the 100 tasks that wait" in said(where), said(where))
    nothing_left()


def not_while_there_is_room():
    """HyperQueue 488: each submission made another allocation, while there were idle workers."""
    where = RUNS.flow("room", 1, 12)
    run = RUNS.start(where, "auto,max=4")
    wait_for(lambda: os.path.exists(f"{where}/r/0/server"), 60)
    for i in range(3):
        CLUSTER.run("env", "HARROW_CONF=/dev/null", HARROW, "submit", "--run-dir", f"{where}/r", "--", "sh", "-c", f"sleep 8; echo more{i} x >> {where}/ran", cwd=where)
    same(run.wait(120), 0, said(where))
    check_each_once(where, 4)
    same(submitted(where), 1, said(where))
    nothing_left()


def after_three_refusals_it_stops():
    """HyperQueue 861: a queue that was paused without a word, and others that went on for ever. The run goes on meanwhile."""
    CLUSTER.run("scontrol", "update", "partitionname=slow", "state=inactive")
    where = RUNS.flow("refusals", 600, 1.2)
    run = RUNS.start(where, "auto,slow,all:4,max=2")
    await_said(where, "that was the 3rd time in a row, and it is asked for no more", 120)
    CLUSTER.run("scontrol", "update", "partitionname=slow", "state=up")
    same(run.wait(240), 0, said(where))
    check_each_once(where, 600)
    text = said(where)
    check("slow" not in {partition for _, partition in ran(where)}, text)
    same(text.count("partition slow: no allocation of 1 node: Required partition not available (inactive or drain); it is asked again in 10.0 s"), 1, text)
    same(text.count("partition slow: "), 2, text)
    # Of what is refused for good nothing is left to ask.
    where = RUNS.flow("refused", 10)
    same(RUNS.start(where, "auto,nowhere").wait(120), 2, said(where))
    text = said(where)
    same(text.count("partition nowhere: no allocation of 1 node: Invalid partition name specified"), 2, text)
    check("no partition is left to ask" in text and "nothing is run" in text, text)
    nothing_left()


def a_wrong_guess_does_not_stop_it():
    """HyperQueue 937: a worker was not like what had been thought. Here nodes of 4 cores have one slot each."""
    where = RUNS.flow("guess", 60, 1)
    same(RUNS.start(where, "auto,fast:1,slow:1,max=4", env=("HARROW_SITE_TASKS_PER_NODE=1",)).wait(240), 0, said(where))
    check_each_once(where, 60)
    check(submitted(where) >= 3 and "of work for 1 slots" in said(where), said(where))
    nothing_left()


def idle_ones_are_given_back():
    where = RUNS.flow("idle", 80, 0.5, more='[[task]]\nname = "last"\nafter = ["t{i}"]\ncommand = "sleep 20; echo last x >> ran"\n')
    run = RUNS.start(where, "auto,max=2,fast:1,idle=3s")
    await_said(where, "has had nothing to do for 3.00 s, and is given back", 120)
    wait_for(lambda: len(RUNS.jobs()) == 1, 60)
    check("last x" not in "\n".join(map(" ".join, ran(where))), "the last task has ended already")
    same(run.wait(120), 0, said(where))
    check_each_once(where, 81)
    same(said(where).count("is given back"), 1, said(where))
    nothing_left()


def what_waits_in_vain_is_taken_back():
    """Its nodes are taken, and while it waits the tasks are cancelled that it was asked for."""
    taken = CLUSTER.script("sleep 300", "-p", "slow", "-N2", "--exclusive", "-o", "/dev/null", "-t", "1")
    wait_for(lambda: CLUSTER.job_state(taken) == "RUNNING")
    where = RUNS.flow("vain", 1500, 1, more='[[task]]\nname = "long"\npriority = 1\ncommand = "sleep 45; echo long x >> ran"\n')
    run = RUNS.start(where, "auto,max=2,fast:2,slow:2,idle=3s,time=30")
    wait_for(lambda: submitted(where) == 2, 120)
    check("slow" not in {partition for _, partition in ran(where)}, said(where))
    CLUSTER.run("env", "HARROW_CONF=/dev/null", HARROW, "cancel", "--run-dir", f"{where}/r", *(f"t{i}" for i in range(1500)), cwd=where)
    await_said(where, "has not been needed for 3.00 s, and is taken back", 120)
    wait_for(lambda: len(RUNS.jobs()) == 2, 60)
    same(run.wait(120), 1, said(where))
    check("long x" in "\n".join(map(" ".join, ran(where))), said(where))
    CLUSTER.run("scancel", taken)
    nothing_left()


def interrupted_and_taken_up():
    where = RUNS.flow("interrupted", 300, 0.5)
    run = RUNS.start(where, "auto,max=1")
    wait_for(lambda: len(ran(where)) > 5, 120)
    RUNS.interrupt()
    run.wait(60)
    check("the run goes on in its allocations" in said(where), said(where))
    same(len(RUNS.jobs()), 1)
    run = RUNS.start(where, "auto,max=1", program=AGAIN)
    await_said(where, "or waits, in jobs", 60)
    # As it was, with the same words and the file.
    same(run.wait(240), 0, said(where))
    same(submitted(where), 1, said(where))
    check_each_once(where, 300)
    # Once more, when nothing is left to do, by either form.
    for words in ("fast:1,slow:1", "auto,max=1"):
        same(RUNS.start(where, words, program=AGAIN).wait(60), 0, said(where))
    same(submitted(where), 1, said(where))
    nothing_left()


def another_when_one_has_ended():
    """At its time limit, or because somebody ends it: the tasks that are open get another allocation."""
    where = RUNS.flow("another", 60, 0.5)
    run = RUNS.start(where, "auto,fast:1,slow:1,max=1")
    wait_for(lambda: len(ran(where)) > 8, 120)
    CLUSTER.run("scancel", *RUNS.jobs())
    same(run.wait(240), 0, said(where))
    same(submitted(where), 2, said(where))
    check("is over: " in said(where), said(where))
    check_each_once(where, 60, again=("fast",))
    nothing_left()


def while_the_controller_is_away():
    """That is no refusal: it is waited for, and the run goes on."""
    where = RUNS.flow("away", 300, 0.5)
    run = RUNS.start(where, "auto,fast:1,max=2")
    wait_for(lambda: len(ran(where)) > 5, 120)
    with open(CLUSTER.path("run", "slurmctld.pid"), encoding="utf-8") as f:
        pid = f.read().strip()
    CLUSTER.run("kill", pid)  # it saves its state: jobs and nodes are known to the next one
    wait_for(lambda: CLUSTER.run("kill", "-0", pid, check=False).returncode != 0)
    began, before = time.monotonic(), len(ran(where))
    wait_for(lambda: "does not answer" in said(where) and len(ran(where)) > before + 10 and time.monotonic() > began + (60 if LONG else 0), 180)
    late = RUNS.flow("late", 10)
    run_late = RUNS.start(late, "fast:1,slow:1")
    await_said(late, "does not answer", 180)
    CLUSTER.run("slurmctld")
    same(run.wait(300), 0, said(where))
    same(run_late.wait(300), 0, said(late))
    check_each_once(where, 300)
    check_each_once(late, 10)
    for text in (said(where), said(late)):
        check("answer again" in text or "answers again" in text, text)
        check("time in a row" not in text and "is asked again in" not in text, text)
    same(submitted(late), 2, said(late))
    nothing_left()


def what_a_partition_cannot_give():
    """Node count and time limit: named at once, and what another one gives is used."""
    CLUSTER.run("scontrol", "update", "partitionname=slow", "MaxTime=20", "MaxNodes=1")
    where = RUNS.flow("cannot", 40)
    same(RUNS.start(where, "auto,slow:2,fast:99,all:1,time=10").wait(120), 0, said(where))
    text = said(where)
    check("partition slow: a job there has at most 1 node, not 2; it is not asked" in text, text)
    check("partition fast: a job there has at most 2 nodes, not 99; it is not asked" in text, text)
    where = RUNS.flow("too_long", 40)
    same(RUNS.start(where, "auto,slow:1,all:1,time=30").wait(120), 0, said(where))
    check("partition slow: a job there has at most 20 min 00 s, not 30 min 00 s; it is not asked" in said(where), said(where))
    # The same of allocations that are all asked for at once.
    where = RUNS.flow("at_once", 40)
    same(RUNS.start(where, "slow:1,slow:2,fast:1,time=30").wait(120), 0, said(where))
    text = said(where)
    # Slurm's reason is the limit, or that the partition cannot, by when it has looked.
    same((text.count("(slow, 1 node) would never begin: "), text.count("(slow, 2 nodes) would never begin: ")), (1, 1), text)
    check_each_once(where, 40)
    CLUSTER.run("scontrol", "update", "partitionname=slow", "MaxTime=INFINITE", "MaxNodes=UNLIMITED")
    nothing_left()


def what_the_site_allows():
    """`move_partitions` of its plugin: others are refused by name, and nothing is submitted."""
    write(CLUSTER.path("etc", "harrow.conf"), f"# {HARROW}\noptional {PLUGIN} move_partitions=all,fast\n")
    write(CLUSTER.path("etc", "plugstack.conf"), "include harrow.c*f\n")
    where = RUNS.flow("allowed", 40)
    for words in ("fast:1,slow:1", "auto,slow"):
        same(RUNS.start(where, words).wait(60), 2, said(where))
        check("this site lets no run spread to partition slow, only to: all, fast" in said(where) and not os.path.exists(f"{where}/r"), said(where))
    same(RUNS.start(where, "auto").wait(120), 0, said(where))
    check_each_once(where, 40)
    same(submitted(where), 1, said(where))
    write(CLUSTER.path("etc", "plugstack.conf"), "")
    nothing_left()


def the_quota_is_used_up():
    """One job of a user at a time: the second is refused, three times, and the run goes on with the first."""
    global CLUSTER, RUNS
    with Cluster("--nodes", "2", "--share", os.path.dirname(HARROW), "--submit-limit", "1") as CLUSTER:
        RUNS = Across(CLUSTER, HARROW, "alice")
        where = RUNS.flow("quota", 120, 1.2)
        same(RUNS.start(where, "auto,fast:1,max=2").wait(240), 0, said(where))
        check_each_once(where, 120)
        text = said(where)
        check("SubmitJob" in text and "that was the 3rd time in a row, and it is asked for no more" in text, text)
        same((text.count("no allocation of 1 node: "), submitted(where)), (2, 1), text)
        where = RUNS.flow("at_once", 10)
        same(RUNS.start(where, "fast:1x2").wait(120), 0, said(where))
        same((said(where).count("no allocation of 1 node in partition fast: "), submitted(where)), (1, 1), said(where))


TESTS = [as_they_are_needed, only_what_is_named, nothing_that_could_run_no_task, not_while_there_is_room, after_three_refusals_it_stops,
         a_wrong_guess_does_not_stop_it, idle_ones_are_given_back, what_waits_in_vain_is_taken_back, interrupted_and_taken_up,
         another_when_one_has_ended, while_the_controller_is_away, what_a_partition_cannot_give, what_the_site_allows]
with Cluster("--nodes", "4", "--share", os.path.dirname(HARROW)) as CLUSTER:
    RUNS = Across(CLUSTER, HARROW)
    failed = run_tests([(test.__name__, test) for test in TESTS])
sys.exit(failed or run_tests([("the_quota_is_used_up", the_quota_is_used_up)]))
