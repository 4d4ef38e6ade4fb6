#!/usr/bin/env python3
"""Arrays that a site does not take, in one job: MaxArraySize is 1001, and by MaxSubmitJobs of the user and a QOS (accounting by slurmdbd) nobody
has more than 1 000 jobs.

usage: array_limits.py HARROW
HARROW_LONG=1: 100 000 elements, else 4 000. And a node on which all elements fail at once."""
import os
import shutil
import sys

from cluster_support import LONG, Cluster, check, run_tests, wait_for
from run_support import lines_of, query, same

HARROW = os.path.abspath(sys.argv.pop(1))
ELEMENTS = 100_000 if LONG else 4_000


def says_no(array, *said):
    """sbatch of an array that is refused."""
    done = CLUSTER.run("sbatch", "-H", f"--array={array}", "job.sh", user="alice", cwd=HOME, check=False)
    check(done.returncode != 0 and all(word in done.stderr for word in said), f"--array={array}: {done.stdout}{done.stderr}")


def limit(user, group, each):
    """Until slurmctld has heard of it from slurmdbd, the user's limit first."""
    CLUSTER.run("sacctmgr", "-i", "modify", "user", "alice", "set", f"MaxSubmitJobs={user}")
    mine = "users=alice", "flags=assoc"
    wait_for(lambda: ("MaxSubmitJobs=1000(" in CLUSTER.out("scontrol", "show", "assoc_mgr", *mine)) == (user == 1000), f"{user} as the user's limit")
    CLUSTER.run("sacctmgr", "-i", "modify", "qos", "normal", "set", f"GrpSubmitJobs={group}", f"MaxSubmitJobsPerUser={each}")
    wait_for(lambda: ("GrpSubmitJobs=1000(" in CLUSTER.out("scontrol", "show", "assoc_mgr", "flags=qos")) == (group == 1000), f"{group} as the QOS's limit")


def the_site_says_no():
    says_no("1-2000", "Invalid job array specification")
    says_no(f"1-{ELEMENTS}", "Invalid job array specification")
    held = CLUSTER.out("sbatch", "--parsable", "-H", "--array=1-600", "job.sh", user="alice", cwd=HOME)
    says_no("1-450", "QOSGrpSubmitJobsLimit")
    # Each of the others by itself.
    limit(user=-1, group=-1, each=1000)
    says_no("1-450", "QOSMaxSubmitJobPerUserLimit")
    limit(user=1000, group=-1, each=-1)
    says_no("1-450", "AssocMaxSubmitJobLimit")
    limit(user=1000, group=1000, each=1000)
    CLUSTER.run("scancel", held, user="alice")


def one_job_does_it():
    job = CLUSTER.out(HARROW, "sbatch", "--parsable", "-N4", "--exclusive", "-p", "all", "-t", "60", "--wait", "--", "array", "--progress", "none",
                      f"--array=1-{ELEMENTS}%64", "--slots", "20", "job.sh", user="alice", cwd=HOME, env={"HARROW_CONF": "/dev/null"}, timeout=1800)
    run = f"{HOME}/harrow-{job}"
    same(query(run, "SELECT state, count(*) FROM tasks GROUP BY state"), [("done", ELEMENTS)], lines_of(f"{HOME}/harrow-{job}.out"))
    # Starts and ends as the agents saw them.
    most = query(run, """WITH event(at, change) AS (SELECT start, 1 FROM attempts UNION ALL SELECT "end", -1 FROM attempts)
        SELECT max(running) FROM (SELECT sum(change) OVER (ORDER BY at, change) AS running FROM event)""")[0][0]
    check(most <= 64, f"{most} elements ran at once")
    print(f"  {ELEMENTS} elements, at most {most} at once", flush=True)


def a_node_without_its_mount():
    """It is put aside, and what had failed on it is done by others, without a retry being asked for."""
    with open(f"{HOME}/mounted.sh", "w", encoding="utf-8") as f:
        f.write('#!/bin/sh\n#SBATCH --array=1-400\ntest "$SLURMD_NODENAME" != "$BROKEN" || exit 2\nsleep 0.2\n')
    nodes = CLUSTER.out("scontrol", "show", "hostnames", CLUSTER.out("sinfo", "-h", "-p", "all", "-o", "%N")).split()
    job = CLUSTER.out(HARROW, "sbatch", "--parsable", "-N4", "--exclusive", "-p", "all", "--wait", "--", "array", "--progress", "none", "--slots", "4",
                      "mounted.sh", user="alice", cwd=HOME, env={"HARROW_CONF": "/dev/null", "BROKEN": nodes[1]}, timeout=300)
    run, said = f"{HOME}/harrow-{job}", lines_of(f"{HOME}/harrow-{job}.out")
    same(query(run, "SELECT state, count(*) FROM tasks GROUP BY state"), [("done", 400)], said)
    check(any(f"node {nodes[1]} is put aside: " in line for line in said), said)
    failed = query(run, "SELECT count(*) FROM attempts WHERE code <> 0")[0][0]
    check(10 <= failed <= 10 + 4 + 4, f"{failed} elements failed there: more than ten, its slots, and one after each of some pauses")


if not shutil.which("sbatch"):
    print("skipped: there is no Slurm (needs slurm)")
    sys.exit(77)
# One job more than is allowed is not yet more than slurmctld keeps: so it is the limits that say no.
with Cluster("--share", os.path.dirname(HARROW), "--submit-limit", "1000", "--conf", "MaxArraySize=1001", "--conf", "MaxJobCount=1100") as CLUSTER:
    HOME = os.path.join(CLUSTER.home, "alice")
    with open(f"{HOME}/job.sh", "w", encoding="utf-8") as f:
        f.write("#!/bin/sh\nexit 0\n")
    sys.exit(run_tests([(t.__name__, t) for t in (the_site_says_no, one_job_does_it, a_node_without_its_mount)]))
