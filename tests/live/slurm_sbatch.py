#!/usr/bin/env python3
"""`harrow sbatch` in a test cluster: what it hands to sbatch, what it passes on, what it refuses.

usage: slurm_sbatch.py HARROW [TEST...]"""
import glob
import os
import sys

from cluster_support import Cluster, run_tests, wait_for
from run_support import check, same, write

HARROW = os.path.abspath(sys.argv.pop(1))


def directory(name):
    path = os.path.join(CLUSTER.home, name)
    os.mkdir(path)
    return path


def sbatch(where, *words, code=0, stdin=None, **env):
    """`harrow sbatch WORDS`: what it printed on standard output and standard error."""
    shell = ["sh", "-c", 'exec "$@" <"$INPUT"', "sh"]
    done = CLUSTER.run(*shell, HARROW, "sbatch", *words, cwd=where, check=False, timeout=120,
                       env={"INPUT": stdin or "/dev/null", "HARROW_CONF": "/dev/null", **env})
    same(done.returncode, code, words, done.stdout, done.stderr)
    return done.stdout, done.stderr


def files(where, pattern):
    return sorted(glob.glob(os.path.join(where, pattern)))


def text(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return f.read()


def show(job):
    told = CLUSTER.out("scontrol", "-o", "show", "job", job)
    return dict(word.split("=", 1) for word in told.split() if "=" in word)


def passed_on():
    """What sbatch prints and how it ends is what harrow sbatch prints and how it ends."""
    where = directory("passed on")
    write(f"{where}/two.txt", "echo \"it's $0 $SLURM_JOB_ID\"\ntouch 'a b'\n")
    write(f"{where}/fails.txt", "exit 7\n")
    out, err = sbatch(where, "-p", "all", "--wait", "--", "run", "two.txt")
    check(out.startswith("Submitted batch job "), out)
    job = out.split()[-1]
    for added in ("--no-kill", "--no-requeue", "--exclusive", "--nodes=1", "--job-name=two", "--output=harrow-%j.out"):
        check(added in err, err)
    check("done 2 of 2" in text(f"{where}/harrow-{job}.out"), text(f"{where}/harrow-{job}.out"))
    check(os.path.exists(f"{where}/a b"))
    told = show(job)
    same((told["JobName"], told["NumNodes"], told["Requeue"]), ("two", "1", "0"))
    out, err = sbatch(where, "--parsable", "-N2", "-p", "all", "-J", "mine", "--wait", "--", "run", "fails.txt", code=1)
    check(out.strip().isdigit() and "--nodes" not in err and "--job-name" not in err, out, err)
    told = show(out.strip())
    same((told["JobName"], told["NumNodes"], told["ExitCode"]), ("mine", "2", "1:0"))
    before = CLUSTER.out("squeue", "-h", "-t", "all", "-o", "%i")
    _, err = sbatch(where, "--test-only", "-p", "all", "--", "run", "two.txt")
    check("to start at" in err, err)
    same(CLUSTER.out("squeue", "-h", "-t", "all", "-o", "%i"), before, "--test-only submitted something")
    _, err = sbatch(where, "-p", "nowhere", "--", "run", "two.txt", code=1)
    check("invalid partition" in err, err)
    _, err = sbatch(where, "--no-such-option", "--", "run", "two.txt", code=255)
    check("no-such-option" in err, err)


def an_array():
    """Its script is the one that was there at submission; a mistake in it is told before."""
    where = directory("an array")
    script = write(f"{where}/sweep.sh", "#!/bin/bash\n#SBATCH --array=1-3 --time=1\necho \"$1 $SLURM_JOB_NAME $SLURM_ARRAY_TASK_ID\" >>said\n", 0o755)
    out, err = sbatch(where, "-H", "-p", "all", "-N2", "--", "array", "--array=2-4", "sweep.sh", "it's")
    job = out.split()[-1]
    write(script, "#!/bin/bash\necho edited >>said\n")
    CLUSTER.run("scontrol", "release", job)
    same(CLUSTER.wait_job(job, 120), "COMPLETED", text(f"{where}/harrow-{job}.out"))
    same(sorted(text(f"{where}/said").splitlines()), [f"it's sweep.sh {i}" for i in (2, 3, 4)])
    same(show(job)["JobName"], "sweep.sh")
    for words, wrong in ((["sweep.sh"], "which elements?"), (["--array=4-1", "sweep.sh"], "counts down"), (["--array=1", "no.sh"], "no.sh")):
        _, err = sbatch(where, "-p", "all", "--", "array", *words, code=2)
        check(wrong in err, err)
    # What sbatch would run instead, or many times.
    before = CLUSTER.out("squeue", "-h", "-t", "all", "-o", "%i")
    for words, wrong in ((["-N2", "sweep.sh"], "sweep.sh would be the job"), (["--exclusive", "sweep.sh", "-N2"], "sweep.sh would be the job"),
                         (["--wrap=true"], "--wrap would be the job"), (["-a", "1-3"], "--array before -- would make many jobs")):
        _, err = sbatch(where, "-p", "all", *words, "--", "array", "--array=1", script, code=2)
        check(wrong in err, err)
    same(CLUSTER.out("squeue", "-h", "-t", "all", "-o", "%i"), before, "something was submitted")
    sbatch(where, "--test-only", "--partition", "all", "-J", "sweep.sh", "--comment", "a b", "--", "array", "--array=1", script)


def what_does_not_fit():
    """Tasks that could never run in the job are told before it is submitted; what is the job's is not told to be missing."""
    where = directory("what does not fit")
    write(f"{where}/sweep.sh", "#!/bin/bash\n#SBATCH --array=1-3 --time=00:01:00 --partition=all --account=x\n"
          "echo $SLURM_ARRAY_TASK_ID >>said\n", 0o755)
    before = CLUSTER.out("squeue", "-h", "-t", "all", "-o", "%i")
    _, err = sbatch(where, "-t", "1", "-p", "all", "--", "array", "sweep.sh", code=2)
    for said in ("sweep.sh: all tasks would never run", "(--time)", "30.0 s are kept free at its end (end_margin)", "(-t 2 before --)"):
        check(said in err, err)
    sbatch(where, "-p", "all", "--", "array", "sweep.sh", code=2, SBATCH_TIMELIMIT="1")
    same(CLUSTER.out("squeue", "-h", "-t", "all", "-o", "%i"), before, "something was submitted")
    out, err = sbatch(where, "-t", "2", "-p", "all", "--parsable", "--wait", "--", "array", "sweep.sh")
    check("sweep.sh: --account is a matter of the allocation, not of an element; where the job is to have it, write it before --" in err, err)
    said = text(f"{where}/harrow-{out.strip()}.out")
    check("standard input" not in said and "harrow: sweep.sh: " in said and "done 3 of 3" in said, said)
    write(f"{where}/f.toml", '[[task]]\nname = "long"\ncommand = "true"\ntime = "5m"\n[[task]]\nname = "short"\ncommand = "true"\n'
          '[[task]]\nname = "large"\ncommand = "true"\ncores = 640\n')
    out, err = sbatch(where, "-t", "1", "-p", "all", "--parsable", "--wait", "--", "run", "f.toml", code=4)
    check("harrow: warning: f.toml:2:8: " in err and "1 of 3 tasks would never run: the time of long is 5 min 00 s" in err, err)
    check("1 of 3 tasks can never run: large asks for 640 cores, and no node of partition all has more than " in err, err)
    said = text(f"{where}/harrow-{out.strip()}.out")
    check("1 of 3 tasks can never run here: large asks for 640 cores, and no node of this job has more than " in said, said)


def requeued():
    """What a job of an array had done stays done when Slurm begins the job again; a run's script is told how."""
    where = directory("requeued")
    write(f"{where}/sweep.sh", "#!/bin/bash\necho $1 $SLURM_ARRAY_TASK_ID >>said\n"
          "test $SLURM_ARRAY_TASK_ID -lt 3 || test $1 = first || test -e go || exec sleep 600\n", 0o755)
    write(f"{where}/tasks.txt", "true\n")
    job = CLUSTER.script(f"cd '{where}'\nexport HARROW_CONF=/dev/null\nfor i in first second; do {HARROW} array --array=1-4 sweep.sh $i || exit; done\n"
                         f"{HARROW} run tasks.txt\n", "-p", "all", "-N1", "--exclusive", "--requeue", "--open-mode=append", "-o", f"{where}/log")
    wait_for(lambda: len(text(f"{where}/said").splitlines()) == 8 if os.path.exists(f"{where}/said") else False, "both arrays", 60)
    CLUSTER.run("scontrol", "requeue", job)
    write(f"{where}/go", "")
    wait_for(lambda: "interrupted by SIGTERM" in text(f"{where}/log") and CLUSTER.job_state(job) == "PENDING", "its end", 60)
    CLUSTER.idle()
    CLUSTER.run("scontrol", "update", f"JobId={job}", "StartTime=now+3")  # its credential of before is refused within the second
    same(CLUSTER.wait_job(job, 120), "COMPLETED", text(f"{where}/log"))
    said = text(f"{where}/said").splitlines()
    same(sorted(said), sorted([f"{i} {n}" for i in ("first", "second") for n in range(1, 5)] + ["second 3", "second 4"]), text(f"{where}/log"))
    same(files(where, "harrow-*"), [f"{where}/harrow-{job}", f"{where}/harrow-{job}-2", f"{where}/harrow-{job}-3"])
    log = text(f"{where}/log")
    check("4 of 4 tasks are done and stay so" in log and "2 of 4 tasks are done and stay so" in log, log)
    check(f"Slurm has begun this job again; what a run did in it before is in harrow-{job}: harrow run --resume" in log, log)


def standard_input():
    where = directory("standard input")
    there = directory("there")
    flow = write(f"{where}/given", "echo 'from  stdin'; pwd\n")
    out, _ = sbatch(where, "-p", "all", "--parsable", "--wait", "-D", there, "--", "run", "--run-dir", "r", "-", stdin=flow)
    (kept,) = files(there, "harrow-stdin-*.txt")
    same(text(kept), text(flow))
    same(files(where, "harrow-stdin-*"), [])
    said = CLUSTER.out(HARROW, "logs", "--run-dir", f"{there}/r")
    check("from  stdin" in said and there in said, said)
    check(os.path.exists(f"{there}/harrow-{out.strip()}.out"))
    write(flow, "echo good\n#HARROW cores=none\n")
    _, err = sbatch(where, "--", "run", "-", stdin=flow, code=2)
    check("standard input:2" in err, err)
    sbatch(where, "--test-only", "-p", "all", "--", "run", "-", stdin=write(flow, "true\n"))
    same(files(where, "harrow-stdin-*"), [], "kept, though nothing was submitted")


def proposed():
    """Where run times are known as many nodes are asked for as pay off."""
    where = directory("proposed")
    write(f"{where}/f.toml", '[[task]]\nname = "t-{i}"\neach = { i = "1-8" }\ncommand = "true"\nrun_time = "1h"\n')
    write(f"{where}/tasks.txt", "true\n")
    _, err = sbatch(where, "--test-only", "-p", "all", "--", "run", "f.toml")
    check("--nodes=2 " in err and "2 nodes, by harrow plan: run times recorded in the flow, partition all" in err, err)
    _, err = sbatch(where, "--test-only", "-p", "all", "--", "run", "-j", "8", "f.toml")
    check("--nodes=1 " in err, err)
    _, err = sbatch(where, "--test-only", "-p", "all", "--", "run", "tasks.txt")
    check("1 node, as the run times are not known; -N says another count" in err, err)


def refused():
    """Nothing is submitted; what would be right is said."""
    where = directory("refused")
    write(f"{where}/tasks.txt", "true\n")
    write(f"{where}/bad.toml", '[[task]]\nname = "a"\ncommand = "true"\nafter = ["b"]\n')
    before = CLUSTER.out("squeue", "-h", "-t", "all", "-o", "%i")
    for words, said in ((["-N1", "--", "run", "bad.toml"], "bad.toml:4"),
                        (["--", "run", "absent.txt"], "absent.txt"),
                        (["--", "run", "--ordr", "fifo", "tasks.txt"], "'--order'"),
                        (["-N1", "run", "tasks.txt"], "harrow sbatch -N1 -- run tasks.txt"),
                        (["--", "tasks.txt"], "harrow sbatch -- run tasks.txt"),
                        (["--", "rnu", "tasks.txt"], "'run'"),
                        (["--", "status"], "harrow status needs none"),
                        (["-D", "/nowhere", "--", "run", "tasks.txt"], "/nowhere"),
                        (["--"], "tasks.txt"), ([], "tasks.txt")):
        _, err = sbatch(where, *words, code=2)
        check(said in err, words, err)
    os.mkdir(f"{where}/used")
    CLUSTER.run(HARROW, "run", "--run-dir", "used", "tasks.txt", cwd=where)
    _, err = sbatch(where, "--", "run", "--run-dir", "used", "tasks.txt", code=2)
    check("used already" in err, err)
    same(CLUSTER.out("squeue", "-h", "-t", "all", "-o", "%i"), before, "something was submitted")
    done = CLUSTER.run("env", "PATH=/nowhere", HARROW, "sbatch", "--", "run", "tasks.txt", cwd=where, check=False)
    same(done.returncode, 2)
    check("no sbatch" in done.stderr and "harrow run tasks.txt" in done.stderr, done.stderr)


with Cluster("--nodes", "2", "--share", os.path.dirname(HARROW)) as CLUSTER:
    sys.exit(run_tests([("passed_on", passed_on), ("an_array", an_array), ("what_does_not_fit", what_does_not_fit),
                        ("requeued", requeued), ("standard_input", standard_input), ("proposed", proposed), ("refused", refused)]))
