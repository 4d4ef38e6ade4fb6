#!/usr/bin/env python3
"""Scripts of job arrays, unchanged: by `sbatch --array` and by `harrow array` in one job, on the same cluster. Files, their
contents, what is written and what --dependency=afterok sees are the same.

usage: array_scripts.py HARROW [TEST...]"""
import os
import re
import shutil
import subprocess
import sys

from cluster_support import Cluster, check, run_tests, wait_for
from run_support import lines_of, query

HARROW = os.path.abspath(sys.argv[1])

# name: (options of the command line, script, files that are there)
SCRIPTS = {
    "a sweep over a file of parameters": ("", """#!/bin/bash
#SBATCH --job-name=sweep
#SBATCH --array=1-7
#SBATCH --partition=all
# One line of the file a run.
line=$(sed -n "${SLURM_ARRAY_TASK_ID}p" params.txt)
mkdir -p results
python3 -c 'import sys; a, b = map(float, sys.argv[1:]); print(f"{a:g} {b:g} {a ** b:.6f}")' $line >results/$SLURM_ARRAY_TASK_ID.txt
echo "run $SLURM_ARRAY_TASK_ID of $SLURM_JOB_NAME: $line"
""", {"params.txt": "".join(f"{i} 0.{i}\n" for i in range(1, 8))}),
    "cores and a time, as for GROMACS": ("", """#!/bin/bash
#SBATCH -J md
#SBATCH -a 0-3%2
#SBATCH -c 2
#SBATCH --time=00:05:00
#SBATCH --mem=100M
#SBATCH --output=md.%a.log
#SBATCH --error=md.%a.err
export OMP_NUM_THREADS=$SLURM_CPUS_PER_TASK
mkdir run$SLURM_ARRAY_TASK_ID && cd run$SLURM_ARRAY_TASK_ID || exit 1
echo "threads $OMP_NUM_THREADS steps 500" >mdout.mdp
echo "GROMACS reminds you: $SLURM_CPUS_PER_TASK" >&2
cp mdout.mdp ../conf$SLURM_ARRAY_TASK_ID.gro
echo done
""", {}),
    "blocks by MIN, MAX and STEP, with set -u": ("--array=0-30:10 -o out/blocks-%A_%a.txt", """#!/bin/bash
#SBATCH --array=1-2
set -euo pipefail
last=$((SLURM_ARRAY_TASK_ID + SLURM_ARRAY_TASK_STEP - 1))
for i in $(seq $SLURM_ARRAY_TASK_ID $last); do echo "$SLURM_ARRAY_TASK_MIN-$SLURM_ARRAY_TASK_MAX $i"; done
echo "$SLURM_ARRAY_TASK_COUNT blocks" >&2
test $# = 0 || echo "arguments: $# $*" >arguments.$SLURM_ARRAY_TASK_ID
echo "$SLURM_ARRAY_JOB_ID" >job.$SLURM_ARRAY_TASK_ID
""", {"out/.keep": ""}),
    "modules, by functions of bash": ("", """#!/bin/bash -l
#SBATCH --array=2,5
source ./modules.sh
module load tool/1.2
tool "$SLURM_ARRAY_TASK_ID" | tee tool.$SLURM_ARRAY_TASK_ID
""", {"modules.sh": "module() { shift; export LOADED=$1; tool() { echo \"$LOADED does $1\"; }; }\n"}),
    "processes by srun and by mpirun": ("", """#!/bin/bash
#SBATCH --array=1-4
#SBATCH --ntasks=2
#SBATCH --ntasks-per-node=2
set -u
here=$(hostname)
srun sh -c 'echo "$SLURM_PROCID of $SLURM_NTASKS on $(hostname)"' | sort | sed "s/$here/here/" >srun.$SLURM_ARRAY_TASK_ID
srun -n1 hostname | sed "s/$here/here/" >one.$SLURM_ARRAY_TASK_ID
if type mpirun >/dev/null 2>&1; then mpirun hostname | sed "s/$here/here/" >mpirun.$SLURM_ARRAY_TASK_ID; fi
echo "$SLURM_JOB_NUM_NODES $SLURM_NNODES $SLURM_NTASKS $SLURM_TASKS_PER_NODE" >shape.$SLURM_ARRAY_TASK_ID
test "$SLURM_JOB_NODELIST" = "$here"
""", {}),
    "a job of its own, and processes of a whole node": ("--array=1-2", """#!/bin/bash
#SBATCH --exclusive
#SBATCH --partition=all
set -u
own=$(sbatch --hold --parsable --wrap true)
scontrol show job $own | grep -o 'ReqNodeList=[^ ]*' >nodes.$SLURM_ARRAY_TASK_ID
scancel $own
echo $SLURM_TASKS_PER_NODE | tee room.$SLURM_ARRAY_TASK_ID
""", {}),
    "the submit directory and TMPDIR": ("--chdir=deep", """#!/bin/bash
#SBATCH --array=1-3
#SBATCH --input=../in.%a
cat >${TMPDIR:-/tmp}/half.$SLURM_ARRAY_JOB_ID.$SLURM_ARRAY_TASK_ID
pwd | sed 's,.*/,,'
tr a-z A-Z <${TMPDIR:-/tmp}/half.$SLURM_ARRAY_JOB_ID.$SLURM_ARRAY_TASK_ID >$SLURM_SUBMIT_DIR/up.$SLURM_ARRAY_TASK_ID
rm ${TMPDIR:-/tmp}/half.$SLURM_ARRAY_JOB_ID.$SLURM_ARRAY_TASK_ID
test $SLURM_ARRAY_TASK_ID != 2
""", {"deep/.keep": "", "in.1": "one\n", "in.2": "two\n", "in.3": "three\n"}),
}
ARGUMENTS = {"blocks by MIN, MAX and STEP, with set -u": ["a b", ""]}


def prepare(name, manner):
    options, script, files = SCRIPTS[name]
    directory = os.path.join(CLUSTER.home, f"{manner}-{list(SCRIPTS).index(name)}")
    os.mkdir(directory)
    for path, text in {**files, "job.sh": script}.items():
        os.makedirs(os.path.dirname(os.path.join(directory, path)), exist_ok=True)
        with open(os.path.join(directory, path), "w", encoding="utf-8") as f:
            f.write(text)
    return directory, options.split()


def after(job, directory):
    """Two jobs that wait for it: (ran, would run after a failure)."""
    return [CLUSTER.out("sbatch", "--parsable", "-o", "/dev/null", f"--dependency={kind}:{job}", "--wrap", "true", cwd=directory)
            for kind in ("afterok", "afternotok")]


def seen(job, followers):
    """What the followers saw: "ok" or "not ok"."""
    def state(follower):
        told = CLUSTER.run("scontrol", "-o", "show", "job", follower).stdout
        if "Reason=DependencyNeverSatisfied" in told:
            return "never"
        return "ran" if "JobState=COMPLETED" in told else "waits"

    wait_for(lambda: "waits" not in map(state, followers), f"what depends on {job}", 60)
    states = [state(follower) for follower in followers]
    check(sorted(states) == ["never", "ran"], f"what depends on {job}: {states}")
    return "ok" if states[0] == "ran" else "not ok"


def snapshot(directory, array):
    """All files but the batch system's own, without the array's number."""
    found = {}
    for root, directories, files in os.walk(directory):
        directories[:] = [d for d in directories if not d.startswith("harrow-")]
        for file in files:
            if file.startswith("slurm-") or file == "harrow.log":
                continue
            path = os.path.join(root, file)
            with open(path, encoding="utf-8") as f:
                text = f.read()
            key = os.path.relpath(path, directory)
            found[re.sub(rf"\b{array}_", "ARRAY_", key)] = re.sub(rf"\b{array}\b", "ARRAY", text)
    return found


def submit(directory, words, nodes, *options, limit=10):
    """A job that becomes `harrow array WORDS` in that directory."""
    return CLUSTER.script(f"cd {directory}\nexport HARROW_CONF=/dev/null\nexec {HARROW} array --progress none {words}\n",
                          f"-N{nodes}", "--exclusive", "-p", "all", "-o", f"{directory}/harrow.log", "-t", str(limit), *options)


def same_as_sbatch():
    for name in SCRIPTS:
        arguments = ARGUMENTS.get(name, [])
        directory, options = prepare(name, "sbatch")
        array = CLUSTER.out("sbatch", "--parsable", "-H", *options, "job.sh", *arguments, cwd=directory)
        followers = after(array, directory)
        CLUSTER.run("scontrol", "release", array)
        theirs_seen = seen(array, followers)
        theirs = snapshot(directory, array)
        their_logs = {}
        for root, _, files in os.walk(directory):
            for file in files:
                if match := re.fullmatch(rf"slurm-{array}_(\d+)\.out", file):
                    with open(os.path.join(root, file), encoding="utf-8") as f:
                        their_logs[match[1]] = f.read().replace(array, "ARRAY")

        directory, options = prepare(name, "harrow")
        words = " ".join(f"'{word}'" for word in arguments)
        job = submit(directory, f"{' '.join(options)} job.sh {words}", 2, "-H")
        followers = after(job, directory)
        CLUSTER.run("scontrol", "release", job)
        ours_seen = seen(job, followers)
        said = "".join(f"\n{line}" for line in lines_of(f"{directory}/harrow.log"))
        ours = snapshot(directory, job)
        check(ours == theirs, f"{name}: files differ:\nsbatch {theirs}\nharrow {ours}{said}")
        check(ours_seen == theirs_seen, f"{name}: for what depends on it it was {theirs_seen} by sbatch, {ours_seen} by harrow{said}")
        for element, text in their_logs.items():
            told = CLUSTER.out(HARROW, "logs", "-q", f"{job}_{element}", cwd=directory, merge=True)
            # What srun says of itself depends on when: of steps that have to wait; that this cluster binds nothing.
            told, text = (sorted(line for line in whole.splitlines() if not line.startswith("srun: ")) for whole in (told, text))
            check([line.replace(job, "ARRAY") for line in told] == text, f"{name}: element {element} wrote {text!r} by sbatch, {told!r} by harrow")
        print(f"  {name}: {len(theirs)} files, {len(their_logs)} logs, {theirs_seen}", flush=True)


def in_an_allocation():
    """Elements bounded by %N, in Slurm's notation for logs and cancel, warned before their limit, with an edited script."""
    directory = os.path.join(CLUSTER.home, "many")
    os.mkdir(directory)
    with open(f"{directory}/job.sh", "w", encoding="utf-8") as f:
        f.write("#!/bin/bash\n#SBATCH --array=1-40%5 --export=ALL,COLOUR=red\n"
                "echo begin $(date +%s%N) >>times\nsleep 0.3\necho end $(date +%s%N) >>times\n"
                "echo $SLURM_ARRAY_TASK_ID $COLOUR | tee -a done\necho edited >>$SLURM_SUBMIT_DIR/job.sh\n")
    job = submit(directory, "job.sh", 4)
    check(CLUSTER.wait_job(job, 120) == "COMPLETED", lines_of(f"{directory}/harrow.log"))
    events = sorted((int(at), 1 if what == "begin" else -1) for what, at in map(str.split, lines_of(f"{directory}/times")))
    running = most = 0
    for _, change in events:
        running += change
        most = max(most, running)
    check(most == 5, f"{most} elements ran at once")
    check(sorted(lines_of(f"{directory}/done")) == sorted(f"{i} red" for i in range(1, 41)), lines_of(f"{directory}/done"))
    told = CLUSTER.out(HARROW, "logs", "-q", f"{job}_[3-4,7]", cwd=directory)
    check(told == "3 red\n4 red\n7 red", told)
    first = job

    with open(f"{directory}/warned.sh", "w", encoding="utf-8") as f:
        f.write("#!/bin/bash\n#SBATCH --array=1-6 --time=0:10 --signal=B:USR1@8\n"
                "trap 'echo warned; exit 0' USR1\ntest $SLURM_ARRAY_TASK_ID -ge 3 && trap 'echo too late; exit 0' USR1\n"
                "touch began.$SLURM_ARRAY_TASK_ID\nwhile :; do sleep 0.1; done\n")
    job = submit(directory, "warned.sh", 2)
    wait_for(lambda: os.path.exists(f"{directory}/began.6"), "the last element", 60)
    CLUSTER.run(HARROW, "cancel", f"{job}_[3-6]", cwd=directory)
    check(CLUSTER.wait_job(job, 120) == "FAILED", lines_of(f"{directory}/harrow.log"))
    states = dict(query(f"{directory}/harrow-{job}", "SELECT name, state FROM tasks"))
    check(states == {**{f"{job}_{i}": "done" for i in (1, 2)}, **{f"{job}_{i}": "cancelled" for i in range(3, 7)}}, states)
    told = CLUSTER.out(HARROW, "logs", "-q", "--run-dir", f"harrow-{job}", f"{job}_1", f"{job}_2", cwd=directory)
    check(told == "warned\nwarned", told)
    # The number says which run, though another one is newer.
    told = CLUSTER.out(HARROW, "logs", "-q", f"{first}_[3-4]", cwd=directory)
    check(told == "3 red\n4 red", told)
    told = CLUSTER.out(HARROW, "logs", "-q", first, cwd=directory)
    check(sorted(told.splitlines()) == sorted(f"{i} red" for i in range(1, 41)), told)
    for command in ("status", "report"):
        told = CLUSTER.out(HARROW, command, first, cwd=directory)
        check("done 40 of 40" in told, told)
    for command in ("status", "explain"):
        told = CLUSTER.out(HARROW, command, f"{first}_[7-8]", cwd=directory)
        check(f"{first}_7 " in told and f"{first}_8 " in told and told.count(": done") == 2, told)
    over = CLUSTER.run(HARROW, "cancel", first, cwd=directory, check=False)
    check(over.returncode == 2 and f"harrow-{first} is over" in over.stderr, over)


if __name__ == "__main__":
    if not shutil.which("sbatch"):
        print("SKIPPED: there is no Slurm (needs slurm)")
        sys.exit(77)
    with Cluster("--share", os.path.dirname(HARROW), "--conf", "FirstJobId=47110") as CLUSTER:
        sys.argv = sys.argv[1:]
        os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        sys.exit(run_tests([(t.__name__, t) for t in (same_as_sbatch, in_an_allocation)]))
