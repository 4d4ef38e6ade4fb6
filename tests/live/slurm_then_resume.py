#!/usr/bin/env python3
"""`harrow sbatch --then-resume` in a test cluster with limits of a minute: several chains, side by side.

usage: slurm_then_resume.py HARROW
Each task notes when it begins and ends, so that what ran twice is seen from outside."""
import collections
import os
import sys

from cluster_support import Cluster, run_tests, wait_for
from run_support import check, lines_of, query, same, write

HARROW = os.path.abspath(sys.argv.pop(1))
# Slurm signals the shell and its sleep one after the other: a shell that went on after the other's end would note an end.
TASK = 'echo "begin {i}" >>witness; sleep {seconds} && echo "end {i}" >>witness'
LIMIT = 400  # seconds for what takes three jobs of a minute


class Chain:
    def __init__(self, name, tasks, seconds, *sbatch, bin_dir=None, code=0, options=(), env=None, files=()):
        self.directory = os.path.join(CLUSTER.home, name)
        os.mkdir(self.directory)
        for file in files:
            write(f"{self.directory}/{file}", "")
        self.tasks = tasks
        write(f"{self.directory}/tasks.txt", "".join(TASK.format(i=i, seconds=seconds) + "\n" for i in range(tasks)))
        export = [f"--export=ALL,PATH={bin_dir}:{os.environ['PATH']}"] if bin_dir else []
        done = CLUSTER.run(HARROW, "sbatch", "--then-resume", "--parsable", "-p", "all", "-N1", "-t", "1", *export, *sbatch, "--", "run",
                           "--progress", "none", *options, "tasks.txt", cwd=self.directory, env={"HARROW_CONF": "/dev/null", **(env or {})}, check=False)
        same(done.returncode, code, done.stdout, done.stderr)
        self.first = done.stdout.strip()
        self.said_at_first = done.stderr
        self.run_dir = f"{self.directory}/harrow-{self.first}"

    def jobs(self):
        """[(number, state)] of the chain, from the first one on; all that Slurm has not forgotten."""
        told = CLUSTER.out("squeue", "-h", "-t", "all", "-o", "%i %T %Z")
        return sorted((int(line.split()[0]), line.split()[1]) for line in told.splitlines() if line.split(None, 2)[2] == self.directory)

    def over(self):
        return all(state not in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING") for _, state in self.jobs())

    def wait(self):
        wait_for(self.over, f"the end of the chain in {self.directory}: {self.jobs()}", LIMIT)

    def ran(self):
        """The jobs that wrote something."""
        return sorted(int(name[7:-4]) for name in os.listdir(self.directory) if name.startswith("harrow-") and name.endswith(".out"))

    def said(self):
        return "".join("\n".join(lines_of(f"{self.directory}/harrow-{job}.out")) + "\n" for job in self.ran())

    def ran_alone(self):
        """No follow-on did anything. One that is submitted when the first job is over already finds nothing to go on with."""
        first, *others = self.ran()
        same([first, len(others) < 2], [int(self.first), True], self.said())
        same("nothing is to be gone on with" in self.said(), bool(others), self.said())
        noted = collections.Counter(lines_of(f"{self.directory}/witness"))
        same({noted[f"begin {i}"] for i in range(self.tasks)}, {1}, noted, self.said())

    def all_done_once(self):
        noted = collections.Counter(lines_of(f"{self.directory}/witness"))
        # One that ended by itself just before the limit counts as interrupted where it may have been that (agent/slot_pool.cc), and
        # runs again; no other one does.
        interrupted = collections.Counter(int(name.lstrip("#")) - 1 for (name,) in query(
            self.run_dir, "SELECT task FROM attempts WHERE outcome = 'interrupted'"))
        same([i for i in range(self.tasks) if not 1 <= noted[f"end {i}"] <= 1 + interrupted[i]], [], noted, interrupted, self.said())
        same(query(self.run_dir, "SELECT state, count(*) FROM tasks GROUP BY state"), [("done", self.tasks)])
        twice = [i for i in range(self.tasks) if noted[f"begin {i}"] > 1]
        # What began twice was ended by the limit, which is nobody's failure; no task has a retry to spend.
        outcomes = dict(query(self.run_dir, "SELECT outcome, count(*) FROM attempts GROUP BY outcome"))
        same(outcomes.pop("exited"), self.tasks)
        same(set(outcomes) - {"interrupted", "not_started"}, set(), outcomes)
        check(sum(outcomes.values()) >= len(twice), twice, outcomes)
        return twice


def forbidding():
    """A directory with an sbatch that refuses, as on compute nodes where it is forbidden."""
    path = os.path.join(CLUSTER.home, "forbidding")
    os.mkdir(path)
    write(f"{path}/sbatch", "#!/bin/sh\necho 'sbatch: error: access denied' >&2\nexit 1\n", 0o755)
    return path


def chains():
    finishes = Chain("finishes", 60, 10)  # two or three jobs of a minute and what Slurm gives beyond, on 4 cores
    short = Chain("short", 4, 1)
    stuck = Chain("stuck", 1, 600)
    forbidden = Chain("forbidden", 60, 10, bin_dir=forbidding())
    for chain in (finishes, short, stuck, forbidden):
        check("goes on where the time limit ends job " + chain.first in chain.said_at_first, chain.said_at_first)

    short.wait()
    short.ran_alone()
    short.all_done_once()

    # Its first job is ended by hand: nobody goes on.
    cancelled = Chain("cancelled", 28, 10)
    wait_for(lambda: lines_of(f"{cancelled.directory}/witness"), "its first task", 120)
    CLUSTER.run("scancel", cancelled.first)
    cancelled.wait()
    same(cancelled.ran(), [int(cancelled.first)], cancelled.said())
    check("no job goes on: the run was cancelled" in cancelled.said(), cancelled.said())

    # A follow-on that is let go while the first job still runs.
    early = Chain("early", 8, 6)
    wait_for(lambda: lines_of(f"{early.directory}/witness"), "its first task", 120)
    (follow_on,) = [job for job, state in early.jobs() if state == "PENDING"]
    CLUSTER.run("scontrol", "update", f"JobId={follow_on}", "Dependency=")
    early.wait()
    early.all_done_once()
    check(f"job {early.first} still works in" in early.said() or follow_on not in early.ran(), early.said())
    check("nothing is to be gone on with: no task of the run is open" in early.said(), early.said())

    for chain in (finishes, stuck, forbidden):
        chain.wait()
    twice = finishes.all_done_once()
    check(len(finishes.ran()) > 1, finishes.said())
    check(twice, "the limit interrupted nothing")
    print(f"  finishes: {len(finishes.ran())} jobs, {len(twice)} tasks were interrupted by the limit", flush=True)
    same(stuck.ran(), [int(stuck.first)], stuck.said())
    check("no job goes on: no task ended in this job" in stuck.said(), stuck.said())
    check("no follow-on of job" in forbidden.said() and "--resume --run-dir" in forbidden.said(), forbidden.said())
    same(len(forbidden.ran()), 2, forbidden.said())


def late():
    """A job that is too late to begin a task is followed by one more; a second one in a row by none."""
    slow = os.path.join(CLUSTER.home, "slow")
    os.mkdir(slow)
    # The first srun, or each, starts when the tasks' 30 s and the margin do not fit any more.
    write(f"{slow}/srun", """#!/bin/sh
if test -e each || mkdir once 2>/dev/null; then
  end=$(date -d "$(squeue -h -j $SLURM_JOB_ID -o %e)" +%s)
  until test $(date +%s) -ge $((end - 35)); do sleep 0.5; done
fi
exec /usr/bin/srun "$@"
""", 0o755)
    margin = {"HARROW_END_MARGIN": "8s"}
    once = Chain("once late", 2, 1, bin_dir=slow, options=["--time", "30s"], env=margin)
    each = Chain("each late", 2, 1, bin_dir=slow, options=["--time", "30s"], env=margin, files=["each"])
    for chain in (once, each):
        chain.wait()
    once.all_done_once()
    same(len(once.ran()), 2, once.said())
    check("no task began in this job, which may be due to a late start: one more job tries it" in once.said(), once.said())
    same(len(each.ran()), 2, each.said())
    check("no job goes on: no task began in this job, nor in the one before" in each.said(), each.said())


def needless():
    """No limit of time is involved: nobody goes on."""
    failed = Chain("failed", 2, "0; exit 3", "--wait", code=1)
    failed.wait()
    failed.ran_alone()
    same(query(failed.run_dir, "SELECT state, count(*) FROM tasks GROUP BY state"), [("failed", 2)])
    never = Chain("never began", 2, 1, "--begin=now+1hour")
    CLUSTER.run("scancel", never.first)
    never.wait()
    check(not os.path.exists(f"{never.directory}/witness"), never.said())
    check("there is no run in" in never.said(), never.said())
    there = os.path.join(CLUSTER.home, "failed")
    before = CLUSTER.out("squeue", "-h", "-t", "all", "-o", "%i")
    for words in (["--test-only", "-p", "all"], ["--array=1-2"], ["-Q"]):
        CLUSTER.run(HARROW, "sbatch", "--then-resume", *words, "--", "run", "tasks.txt", cwd=there, check=False)
    same(CLUSTER.out("squeue", "-h", "-t", "all", "-o", "%i"), before, "something was submitted")


with Cluster("--nodes", "6", "--cpus", "4", "--share", os.path.dirname(HARROW)) as CLUSTER:
    sys.exit(run_tests([("needless", needless), ("late", late), ("chains", chains)]))
