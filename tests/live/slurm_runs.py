#!/usr/bin/env python3
"""Whole runs in allocations of every form: time limit, signals, srun in front, heterogeneous jobs, task/affinity,
jobs one after the other, an ordinary user.

usage: slurm_runs.py HARROW [TEST...]
Without HARROW_LONG=1: only what one cluster can show."""
import json
import os
import shlex
import shutil
import subprocess
import sys

from cluster_support import NOBODY, Cluster, check, run_tests, wait_for
from run_support import in_part, kill, lines_of, of_run, query, same
from slurm_support import Job, nodes_of, states_of

HARROW = os.path.abspath(sys.argv[1])
SHARE = ("--share", os.path.dirname(HARROW))


def flow(cluster, name, lines):
    directory = os.path.join(cluster.home, name)
    os.mkdir(directory)
    with open(f"{directory}/tasks.txt", "w", encoding="utf-8") as f:
        f.writelines(line + "\n" for line in lines)
    return directory


def until_seen(count, columns=1):
    """A task's text: waits until so many different nodes, or nodes and CPUs, have been written to `where`, however late some come."""
    return f"until test $(cut -d\" \" -f1-{columns} where | sort -u | wc -l) -ge {count}; do sleep 0.1; done"


def time_limit():
    """Starts nothing that cannot end, ends what does not end in time, says what is left; the next job does that elsewhere."""
    directory = flow(CLUSTER, "limit", ["#HARROW time=5s"] + [f"sleep 3; echo {i} >>done" for i in range(60)])
    job = Job(CLUSTER, HARROW, "run tasks.txt --run-dir r --slots 2 --progress none", "-p", "fast", "-N2", "--exclusive",
              directory=directory, env={"HARROW_END_MARGIN": "8s"},
              before="end=$(($(date +%s) + 45))\nscontrol update JobId=$SLURM_JOB_ID EndTime=$(date -d @$end +%Y-%m-%dT%H:%M:%S)\n",
              after="echo left $((end - $(date +%s)))")
    code = job.code(90)
    said = job.said()
    check(code == 4, f"harrow ended with {code}: {said}")
    check("stopped before the job's time limit: " in said, said)
    check("of which 8.00 s are kept free (end_margin), and what is open may take 5.00 s or more (time); it needs a longer job" in said, said)
    check(int(said.split("\nleft ")[1].split()[0]) >= 0, f"it did not end in time: {said}")
    done = len(lines_of(f"{directory}/done"))
    check(4 <= done < 60, f"{done} tasks done")
    check(states_of(f"{directory}/r") == {"done": done, "open": 60 - done}, states_of(f"{directory}/r"))
    check(not query(f"{directory}/r", "SELECT 1 FROM attempts WHERE outcome <> 'exited'"), "something was started that could not end")
    check(f"{60 - done} of 60 tasks open" in said and "harrow run --resume" in said, said)
    again = Job(CLUSTER, HARROW, "run --resume --run-dir r --slots 20 --progress none", "-p", "slow", "-N2", "--exclusive", directory=directory)
    check(again.code(60) == 0, again.said())
    check(sorted(map(int, lines_of(f"{directory}/done"))) == list(range(60)), "not every task ran once")
    check(nodes_of(f"{directory}/r") == {"node1", "node2", "node3", "node4"}, nodes_of(f"{directory}/r"))


def dead_before_its_agent():
    """A node that dies between the job's start and srun's: the others are used, and it is named."""
    directory = flow(CLUSTER, "dead", [f"until grep -qs aborted {CLUSTER.home}/dead/r/0/log/srun.log; do sleep 0.1; done; "
                                       f"echo $HARROW_NODE >>where; {until_seen(3)}"] * 12)
    job = Job(CLUSTER, HARROW, "run tasks.txt --run-dir r --slots 2 --progress none", directory=directory,
              before="echo >began\nuntil test -e go; do sleep 0.1; done\n",
              after=f"{shlex.quote(HARROW)} status --nodes --run-dir r")
    try:
        wait_for(lambda: os.path.exists(f"{directory}/began"), "the job", 60)
        CLUSTER.tool("kill", "node4", check=True)
        with open(f"{directory}/go", "w", encoding="utf-8"):
            pass
        wait_for(lambda: job.told() is not None, "the run's end", 120)
        said = job.said()
        check(job.told() == 0, said)
        wait_for(lambda: "state" in job.said(), "its status", 10)
        said = job.said()
        check(nodes_of(f"{directory}/r") == {"node1", "node2", "node3"}, f"{nodes_of(f'{directory}/r')} {said}")
        with open(in_part(f"{directory}/r", "log", "srun.log"), encoding="utf-8") as f:
            srun = f.read()
        check("node4 cannot be reached by srun" in said, said + srun)
        check("node4" in said and "absent" in said, said + srun)
    finally:
        CLUSTER.run("scancel", job.id, check=False)
        CLUSTER.tool("boot", "node4", check=True)
        CLUSTER.idle(90)


def signals():
    """TERM and USR1 (what sbatch --signal sends) end the run cleanly: interrupted tasks cost no attempt."""
    for number, name in ((15, "TERM"), (10, "USR1")):
        directory = flow(CLUSTER, name, ["echo begun >>begun; exec sleep 600"] * 8)
        job = Job(CLUSTER, HARROW, "run tasks.txt --run-dir r --slots 2 --progress none", directory=directory)
        wait_for(lambda: len(lines_of(f"{directory}/begun")) == 8 or job.said(), "8 tasks", 40)
        kill(of_run(f"{directory}/r", "keeper")[0], number)
        check(job.code(40) == 128 + number, job.said())
        check(f"interrupted by SIG{name}: 8 of 8 tasks open; go on with: harrow run --resume" in job.said(), job.said())
        check(states_of(f"{directory}/r") == {"open": 8}, states_of(f"{directory}/r"))


def scancelled():
    """scancel sends its SIGTERM to tasks, agents and keeper in any order: nothing failed by it, and nothing is started any more."""
    directory = flow(CLUSTER, "scancelled", ["echo begun >>begun; exec sleep 600"] * 60)
    job = Job(CLUSTER, HARROW, "run tasks.txt --run-dir r --slots 2 --progress none", "-p", "fast", "-N2", "--exclusive", directory=directory)
    wait_for(lambda: len(lines_of(f"{directory}/begun")) == 4 or job.said(), "4 tasks", 40)
    CLUSTER.run("scancel", str(job.id))
    CLUSTER.wait_job(job.id, 60)
    check("interrupted by SIGTERM: 60 of 60 tasks open; go on with: harrow run --resume" in job.said(), job.said())
    check("failed: " not in job.said(), job.said())
    check(len(lines_of(f"{directory}/begun")) == 4, f"{len(lines_of(f'{directory}/begun'))} tasks were started")
    check(states_of(f"{directory}/r") == {"open": 60}, states_of(f"{directory}/r"))
    ends = query(f"{directory}/r", "SELECT outcome, count(*) FROM attempts GROUP BY outcome")
    same(ends, [("interrupted", 4)])
    check("attempts lost" not in job.said(), job.said())


NOTES = """[flow]
node_setup = "sleep 0.3; echo setup $HARROW_NODE $(hostname) >>notes"
node_teardown = "sleep 0.3; echo teardown $HARROW_NODE $(hostname) >>notes"
"""


def notes_of(directory, nodes, tasks=None):
    """Each node was set up once before its first task, and torn down once after its last; how many tasks ran there."""
    notes = [line.split() for line in lines_of(f"{directory}/notes")]
    counts = {}
    for node in nodes:
        here = [what for what, named, where in notes if where == node and named in (node, "-")]
        same((here[0], here[-1], here.count("setup"), here.count("teardown")), ("setup", "teardown", 1, 1), notes)
        counts[node] = len(here) - 2
    same(len(notes), sum(counts.values()) + 2 * len(nodes), notes)
    check(tasks is None or sum(counts.values()) == tasks, notes)
    return counts


def nodes_set_up():
    """node_setup and node_teardown under wardens that srun has started: also where the job is cancelled, or its time limit ends it."""
    def begin(name, partition, command, tasks, before=""):
        directory = os.path.join(CLUSTER.home, name)
        os.mkdir(directory)
        with open(f"{directory}/flow.toml", "w", encoding="utf-8") as f:
            f.write(f'{NOTES}[[task]]\nname = "t-{{i}}"\neach = {{ i = "1-{tasks}" }}\ncommand = "echo task - $(hostname) >>notes; {command}"\n')
        return directory, Job(CLUSTER, HARROW, "run flow.toml --run-dir r --slots 2 --progress none", "-p", partition, "-N2", "--exclusive",
                              directory=directory, before=before)

    def began(directory, job):
        wait_for(lambda: sum(line.startswith("task") for line in lines_of(f"{directory}/notes")) == 4 or job.told(), "4 tasks", 40)

    def begin_late(name):
        return begin(name, "slow", "exec sleep 600", 8,
                     "scontrol update JobId=$SLURM_JOB_ID EndTime=$(date -d @$(($(date +%s) + 8)) +%Y-%m-%dT%H:%M:%S)\n")

    directory, late = begin_late("set-up-late")
    whole, job = begin("set-up", "fast", "sleep 0.2", 40)
    same(job.code(), 0, job.said())
    counts = notes_of(whole, ("node1", "node2"), 40)
    check(min(counts.values()) > 0, counts)
    cancelled, job = begin("set-up-cancelled", "fast", "exec sleep 600", 8)
    began(cancelled, job)
    CLUSTER.run("scancel", str(job.id))
    CLUSTER.wait_job(job.id, 60)
    notes_of(cancelled, ("node1", "node2"), 4)
    CLUSTER.wait_job(late.id, 150)
    if "cannot be reached by srun" in late.said():  # a busy machine: srun has taken more than all of the job's time
        print(late.said(), "\nonce more", flush=True)
        directory, late = begin_late("set-up-later")
        CLUSTER.wait_job(late.id, 150)
    check("interrupted by SIGTERM at the job's time limit: 8 of 8 tasks open" in late.said(), late.said())
    notes_of(directory, ("node3", "node4"), 4)


def srun_form():
    """srun --mpi=pmix harrow run: rank 0 keeps, the others are agents."""
    directory = flow(CLUSTER, "wired", [f"echo $HARROW_NODE ${{PMIX_RANK-clean}} >>where; {until_seen(4)}"] * 8)
    job = Job(CLUSTER, HARROW, "run tasks.txt --run-dir r --progress none", "-p", "all", "-N4", "--exclusive", directory=directory,
              wrap="srun -N4 --ntasks-per-node=1 --cpus-per-task=2 --mpi=pmix")
    check(job.code(60) == 0, job.said())
    where = lines_of(f"{directory}/where")
    check(sorted(set(where)) == [f"node{i} clean" for i in (1, 2, 3, 4)], f"{where}")
    check(len(job.srun_lines()) == 1, job.srun_lines())
    bad = Job(CLUSTER, HARROW, "run missing.txt", "-p", "all", "-N2", directory=directory, wrap="srun -N2 --ntasks-per-node=1 --mpi=pmix")
    check(bad.code(60) == 2 and bad.said().count("cannot read missing.txt") == 1, bad.said())


def heterogeneous():
    directory = flow(CLUSTER, "het", [f"echo $HARROW_NODE >>where; {until_seen(3)}"] * 6)
    job = Job(CLUSTER, HARROW, "run tasks.txt --run-dir r --progress none", "-p", "fast", "-N1", "-n2", ":", "-p", "slow", "-N2", "-n4",
              directory=directory)
    check(job.code(90) == 0, job.said())
    check(len(job.srun_lines()) == 1, job.srun_lines())
    check(set(lines_of(f"{directory}/where")) == {"node1", "node3", "node4"}, lines_of(f"{directory}/where"))


def heterogeneous_srun_form():
    directory = flow(CLUSTER, "wired-het", [f"echo $HARROW_NODE >>where; {until_seen(3)}"] * 6)
    job = Job(CLUSTER, HARROW, "run tasks.txt --run-dir r --progress none", "-p", "fast", "-N1", "-n1", ":", "-p", "slow", "-N2", "-n2",
              directory=directory, wrap="srun --het-group=0,1 --mpi=pmix")
    check(job.code(90) == 0, job.said())
    check(set(lines_of(f"{directory}/where")) == {"node1", "node3", "node4"}, lines_of(f"{directory}/where"))


def one_after_the_other():
    """Two runs of one job have directories of their own, named after the job."""
    directory = flow(CLUSTER, "twice", ["true"])
    job = Job(CLUSTER, HARROW, "run tasks.txt --progress none", directory=directory, before=f"{shlex.quote(HARROW)} run tasks.txt --progress none\n")
    check(job.code(60) == 0, job.said())
    found = sorted(name for name in os.listdir(directory) if name.startswith("harrow-"))
    check(found == [f"harrow-{job.id}", f"harrow-{job.id}-2"], found)


def affinity():
    """Under task/affinity every granted CPU is used, each task pinned to its own, and no other job's."""
    cpus = os.cpu_count()
    with Cluster("--nodes", "2", "--profile", "affinity", *SHARE) as cluster:
        line = "echo $HARROW_NODE $(sed -n 's/^Cpus_allowed_list:.//p' /proc/self/status) >>where; "
        directory = flow(cluster, "pinned", [line + until_seen(2 * cpus, 2)] * 2 * cpus)
        job = Job(cluster, HARROW, "run tasks.txt --run-dir r --progress none", "-p", "all", "-N2", "--exclusive", directory=directory)
        check(job.code(60) == 0, job.said())
        where = lines_of(f"{directory}/where")
        check(len(set(where)) == 2 * cpus, f"not every task had a core of its own: {where}")
        if cpus > 1:
            directory = flow(cluster, "part", [line + "sleep 2"] * 2)
            job = Job(cluster, HARROW, "run tasks.txt --run-dir r --progress none", "-p", "fast", "-N1", "-n1", directory=directory)
            check(job.code(60) == 0, job.said())
            check(len(set(lines_of(f"{directory}/where"))) == 1, "more than the granted core was used")
            check(query(f"{directory}/r", "SELECT DISTINCT slots FROM node") == [(1,)], "one granted CPU is one slot")


def side_by_side():
    """Jobs that share a node which nothing constrains keep to the CPUs that each was granted, in both forms."""
    cpus = os.cpu_count()
    if cpus < 2:
        return
    share = cpus // 2
    with Cluster("--nodes", "1", "--cpus", str(cpus), *SHARE) as cluster:
        jobs = []
        for name, wrap in (("script", ""), ("srun", f"srun -N1 -n1 --cpus-per-task={share} --cpu-bind=none --mpi=pmix")):
            line = "sed -n 's/^Cpus_allowed_list:.//p' /proc/self/status >>where; echo >>begun; while [ ! -e ../go ]; do sleep 0.1; done"
            directory = flow(cluster, name, [line] * share)
            jobs.append(Job(cluster, HARROW, "run tasks.txt --run-dir r --progress none", "-p", "all", "-N1", "-n1", f"--cpus-per-task={share}",
                            directory=directory, wrap=wrap))
        wait_for(lambda: all(len(lines_of(f"{job.directory}/begun")) == share or job.told() is not None for job in jobs), "tasks of both jobs", 60)
        with open(f"{cluster.home}/go", "w", encoding="utf-8"):
            pass
        for job in jobs:
            check(job.code(60) == 0, job.said())
        where = [line for job in jobs for line in lines_of(f"{job.directory}/where")]
        check(len(set(where)) == len(where) == 2 * share, f"tasks do not have cores of their own: {where}")
        check(not any("," in cores or "-" in cores for cores in where), f"tasks are not pinned to one core each: {where}")


def crowded():
    """Where Slurm grants more CPUs than there are, the grant counts, unpinned, and that is said."""
    directory = flow(CLUSTER, "crowded", ["sed -n 's/^Cpus_allowed_list:.//p' /proc/self/status >>where"] * 8)
    job = Job(CLUSTER, HARROW, "run tasks.txt --run-dir r --progress none", "-p", "all", "-N1", "--exclusive", directory=directory)
    check(job.code(60) == 0, job.said())
    check(query(f"{directory}/r", "SELECT DISTINCT slots FROM node") == [(CPUS,)], query(f"{directory}/r", "SELECT slots FROM node"))
    check(len(set(lines_of(f"{directory}/where"))) == 1, "tasks are pinned")
    check(any("tasks are not pinned" in line for line in lines_of(in_part(f"{directory}/r", "log/server.log"))), "it is not said")


def memory():
    """Tasks with memory share what the job was granted of a node, not what the machine has."""
    directory = flow(CLUSTER, "memory", ["#HARROW memory=400M"] + ["sleep 2"] * 4)
    job = Job(CLUSTER, HARROW, "run tasks.txt --run-dir r --slots 4 --progress none", "-p", "fast", "-N1", "--mem=1000", directory=directory,
              before=f"{shlex.quote(HARROW)} doctor --json --run-dir . >doctor.json\n")
    check(job.code(60) == 0, job.said())
    moments = query(f"{directory}/r", "SELECT start_ns, 1 FROM attempt UNION ALL SELECT end_ns, -1 FROM attempt ORDER BY 1, 2")
    at_once = most = 0
    for _, change in moments:
        at_once += change
        most = max(most, at_once)
    if os.cpu_count() > 1:  # one CPU was granted, nothing binds to it
        check(any("it is not known which" in line for line in lines_of(in_part(f"{directory}/r", "log/server.log"))), "pinned to CPUs that may be others'")
    check(len(moments) == 8 and most == 2, f"{most} tasks of 400 MB at once, where 1000 MB were granted: {moments}")
    doctor(directory, job.id)


def doctor(directory, job):
    """What `harrow doctor` said inside the job."""
    with open(f"{directory}/doctor.json", encoding="utf-8") as f:
        told = {found["name"]: (found["state"], found["text"]) for found in json.load(f)["checks"]}
    check(told["Slurm"][0] == "ok" and f"job {job}: 1 node, " in told["Slurm"][1] and "ends in " in told["Slurm"][1], told["Slurm"])
    for part in (" granted, ", " allowed, ", " slot"):
        check(part in told["CPUs"][1], told["CPUs"])
    check(told["addresses"] == ("ok", "other nodes reach this one at 10.77.0.11"), told["addresses"])
    for name in ("fsync", "rename", "append", "clock", "network", "keys", "PMIx"):
        check(told[name][0] == "ok", (name, told.get(name)))
    check("cgroup" in told, sorted(told))
    check(told["GPUs"] == ("ok", "none granted") and "here" not in told, told)
    check("pinned" not in told["cores"][1], told["cores"])


def doctor_elsewhere():
    """On a login node `harrow doctor` says that runs would use it; in salloc there that it is no node of the job; and what was granted
    of GPUs, in both places."""
    def told(*before):
        text = CLUSTER.run(*before, HARROW, "doctor", "--json", env={"SLURM_GPUS_ON_NODE": "2"}, check=False).stdout
        return {found["name"]: (found["state"], found["text"], found["advice"]) for found in json.loads(text)["checks"]}

    login = told()
    same(login["Slurm"], ("ok", "srun is there; not in a job: runs use this machine",
                          "if this is a login node: say harrow run in a script for sbatch, or after salloc"))
    check("here" not in login and "GPUs" not in login, sorted(login))
    allocated = told("salloc", "-Q", "-p", "fast", "-N1", "env", "SLURM_GPUS_ON_NODE=2")
    check(allocated["here"][0] == "warning" and "this machine is no node of job" in allocated["here"][1], allocated["here"])
    same(allocated["here"][2], "ask a node: srun -N1 -n1 harrow doctor")
    same(allocated["GPUs"][:2], ("ok", "granted on a node: 2"))
    node = told("srun", "-p", "fast", "-N1", "-n1", "env", "SLURM_GPUS_ON_NODE=2")
    check("here" not in node and "granted" in node["CPUs"][1], node)
    same(node["GPUs"][:2], ("warning", "granted on a node: 2; none is seen by hwloc"))


def two_at_once():
    """Of two runs in one job the second says that both take all cores, and not where they share them. What others put beside
    it is not opened, nor believed."""
    directory = flow(CLUSTER, "two", ["until test -e go; do sleep 0.05; done"])
    for name in ("a", "b"):
        os.makedirs(f"{directory}/{name}/0")
    os.mkfifo(f"{directory}/a/0/owner")
    forge = "cp r/0/owner b/0/; chown -R nobody a b; "
    second = f"until test -e r/0/server; do sleep 0.05; done; {forge}echo true | {shlex.quote(HARROW)} run --progress none - 2>"
    job = Job(CLUSTER, HARROW, "run tasks.txt --run-dir r --progress none & " + second + f"plain; echo true | {shlex.quote(HARROW)} run -j 1 --progress none - 2>shared; "
              "touch go; wait", "-p", "fast", "-N1", directory=directory)
    check(job.code(60) == 0, job.said())
    said = "".join(lines_of(f"{directory}/plain"))
    check("/two/r runs in this job as well, and each takes all cores" in said, said)
    check("runs in this job" not in "".join(lines_of(f"{directory}/shared")), lines_of(f"{directory}/shared"))


def one_program_beside_a_run():
    """harrow exec in a job whose run goes on: with an srun of its own, and nobody warns of it."""
    directory = flow(CLUSTER, "exec", ["until test -e go; do sleep 0.05; done"] * 2)
    program = shlex.quote(HARROW)
    one = f"{program} exec -n 2 --mpi none -j 4"
    job = Job(CLUSTER, HARROW, "run tasks.txt --run-dir r --slots 1 --progress none & until test -e r/0/server; do sleep 0.05; done; "
              f"{one} sh -c 'hostname; echo $HARROW_RANK >&2' >out 2>err; echo $? >>out; {one} sh -c 'exit 5' 2>failed; echo $? >>failed; "
              f"({one} sh -c 'touch began; sleep 300' & pid=$!; until test -e began; do sleep 0.05; done; "
              f"echo true | {program} run --run-dir other --progress none - 2>warned; kill $pid; wait $pid; echo $? >ended); "
              "ls -a >listed; touch go; wait", "-p", "fast", "-N2", "--exclusive", directory=directory)
    check(job.code(90) == 0, job.said())
    out, err, failed = (lines_of(f"{directory}/{name}") for name in ("out", "err", "failed"))
    check(len(out) == 3 and out[0] == out[1] and out[0].startswith("node") and out[2] == "0", f"{out} {err} {job.said()}")
    same(sorted(line for line in err if "pinned" not in line and "other nodes say" not in line), ["0", "1"])
    check(failed[-1] == "5" and "rank " in failed[-2] and ", on node" in failed[-2], f"{failed}")
    same(lines_of(f"{directory}/ended"), ["143"], job.said())
    check(not [name for name in lines_of(f"{directory}/listed") if name.startswith(".harrow")], lines_of(f"{directory}/listed"))
    warned = [line for line in lines_of(f"{directory}/warned") if "runs in this job" in line]
    check(len(warned) == 1 and "/exec/r runs in this job as well" in warned[0], warned)
    check(len(job.srun_lines()) == 5, job.srun_lines())


MPI_SIZE = """#include <mpi.h>
#include <stdio.h>
int main(int c, char** v) {
  int size, rank;
  MPI_Init(&c, &v);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  printf("%d of %d\\n", rank, size);
  return MPI_Finalize();
}
"""


def task_environment():
    """A task is a step of one process with its cores, whatever started the run: for programs that read SLURM_*, for srun, for mpirun and
    for programs that start MPI by themselves; and the steps of tasks do not wait for each other."""
    show = "echo $SLURM_NTASKS $SLURM_PROCID $SLURM_CPUS_ON_NODE $SLURM_TASKS_PER_NODE"
    mpi = bool(shutil.which("mpicc") and shutil.which("mpirun"))
    forms = (("script", "", ("-p", "all", "-N2", "--ntasks-per-node=2", "--exclusive")),
             ("srun", "srun -N2 --ntasks-per-node=1 --cpus-per-task=4 --mpi=pmix", ("-p", "all", "-N2", "--exclusive")))
    for name, wrap, sbatch in forms:
        directory = flow(CLUSTER, f"environment-{name}", [])
        if mpi:
            with open(f"{directory}/size.c", "w", encoding="utf-8") as f:
                f.write(MPI_SIZE)
            subprocess.run(["mpicc", "-o", f"{directory}/size", f"{directory}/size.c"], check=True)
        # Each in a file of its own: several wait for the same moment, so that their steps overlap.
        lines = [f"{show} >shown", "#HARROW cores=2", f"{show} >shown2", "#HARROW cores=1",
                 "env | grep -E '^(SLURM_STEP|SLURM_NNODES|SLURM_JOB_NUM_NODES|SLURM_MEM|SLURM_CPU_BIND|SRUN|PMI)' >rest; true",
                 "echo $SLURM_JOB_ID $SLURM_NODELIST $HARROW_NODE >job",
                 "srun hostname >one", "srun -N2 -n4 hostname >four", "srun -w $SLURMD_NODENAME sh -c 'test $SLURMD_NODENAME = '$HARROW_NODE >here 2>&1"]
        lines += [f"srun -n1 sleep 2 >step-{i} 2>&1" for i in range(4)]
        if mpi:
            again = "--allow-run-as-root" if os.getuid() == 0 else ""
            lines += ["./size >alone 2>&1", f"mpirun {again} ./size >mpirun 2>&1", "#HARROW cores=2", f"mpirun {again} ./size >mpirun2 2>&1"]
        with open(f"{directory}/tasks.txt", "w", encoding="utf-8") as f:
            f.writelines(line + "\n" for line in lines)
        job = Job(CLUSTER, HARROW, "run tasks.txt --run-dir r --slots 4 --progress none", *sbatch, directory=directory, wrap=wrap)
        check(job.code(120) == 0, job.said())
        said = {file: sorted(lines_of(f"{directory}/{file}")) for file in os.listdir(directory)
                if os.path.isfile(f"{directory}/{file}") and not file.endswith((".c", ".sh")) and file != "size"}
        check(said["shown"] == ["1 0 1 1"] and said["shown2"] == ["1 0 2 2"], said)
        check(said["rest"] == [], said["rest"])
        node = said["job"][0].split()
        check(node[0] == str(job.id) and node[1] == node[2], said["job"])
        check(len(said["one"]) == 1 and said["one"][0].startswith("node"), f"srun in a task starts {said['one']}")
        check(len(set(said["four"])) == 2 and len(said["four"]) == 4, said["four"])
        check(said["here"] == [], said["here"])
        for i in range(4):
            check(not any("busy" in line for line in said[f"step-{i}"]), f"a task's step waited for another's: {said[f'step-{i}']}")
        if mpi:
            # Its orted, which outlives it, may find that its directory went with the task.
            alone = [line for line in said["alone"] if "PMIX ERROR: NO-PERMISSIONS" not in line]
            check(alone == ["0 of 1"], f"a program that starts MPI by itself: {said['alone']}")
            check(said["mpirun"] == ["0 of 1"], f"mpirun in a task of one core: {said['mpirun']}")
            check(said["mpirun2"] == ["0 of 2", "1 of 2"], f"mpirun in a task of two: {said['mpirun2']}")


def site_flags():
    """HARROW_SRUN_FLAGS reach the one srun."""
    directory = flow(CLUSTER, "flags", ["true"] * 2)
    with open(f"{directory}/prolog", "w", encoding="utf-8") as f:
        f.write(f"#!/bin/sh\nhostname >>{directory}/began\n")
    os.chmod(f"{directory}/prolog", 0o755)
    job = Job(CLUSTER, HARROW, "run tasks.txt --run-dir r --progress none", "-p", "fast", "-N1", directory=directory,
              env={"HARROW_SRUN_FLAGS": f"--task-prolog={directory}/prolog --mpi=none"})
    check(job.code(60) == 0, job.said())
    check(lines_of(f"{directory}/began") == ["node1"], lines_of(f"{directory}/began"))
    check(len(job.srun_lines()) == 1 and "--mpi=none" in job.srun_lines()[0], job.srun_lines())


def ordinary_user():
    if os.getuid() == 0 and not os.access("/usr/bin/setpriv", os.X_OK):
        return
    with Cluster("--nodes", "2", *SHARE, ordinary=True) as cluster:
        check(cluster.prefix == NOBODY or os.getuid() != 0, "not an ordinary user")
        job = cluster.script(f"cd /mnt/home && printf 'hostname >>where; {until_seen(2)}\\n%.0s' $(seq 8) >tasks.txt\n"
                             f"{shlex.quote(HARROW)} run tasks.txt --slots 4 --run-dir r --progress none\n", "-N2", "-p", "all", "-o", "/mnt/home/job.log")
        state = cluster.wait_job(job, 60)
        said = cluster.run("cat", "/mnt/home/job.log").stdout
        check(state == "COMPLETED", said)
        check(set(cluster.out("cat", "/mnt/home/where").split()) == {"node1", "node2"}, said)


def main():
    global CLUSTER, CPUS
    sys.argv[1:] = sys.argv[2:]
    CPUS = (os.cpu_count() or 1) + 2
    with Cluster("--cpus", str(CPUS), *SHARE) as CLUSTER:
        tests = (time_limit, dead_before_its_agent, signals, scancelled, nodes_set_up, srun_form, heterogeneous, heterogeneous_srun_form, one_after_the_other, side_by_side, crowded, memory, doctor_elsewhere, two_at_once, one_program_beside_a_run,
                 task_environment, site_flags, affinity, ordinary_user)
        return run_tests([(test.__name__, test) for test in tests], only_long=("heterogeneous_srun_form", "affinity", "ordinary_user"))


sys.exit(main())
