#!/usr/bin/env python3
"""MPI tasks over the nodes of a test cluster: real Open MPI, started by the agents.

usage: slurm_mpi.py HARROW [TEST...]
With HARROW_LONG=1 also 64 ranks."""
import os
import re
import shutil
import signal
import subprocess
import sys

import mpi_support
from cluster_support import LONG, Cluster, check, processes_naming, run_tests, skip, wait_for
from run_support import query, same
from slurm_support import Job

HARROW = os.path.abspath(sys.argv.pop(1))
HERE = os.path.dirname(os.path.abspath(__file__))
NODES, CPUS = 4, 4
# No fabric here; and a core has many ranks. Debian's openmpi-mca-params.conf says `osc = ^ucx,pt2pt`: without a fabric no component is left
# for one-sided access between nodes, whoever starts the ranks (MPI_ERR_WIN, with mpirun too).
MPI = {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,vader,tcp", "OMPI_MCA_mpi_yield_when_idle": "0", "OMPI_MCA_io": "romio321",
       "OMPI_MCA_osc": "pt2pt"}
ALL = ("-p", "all", f"-N{NODES}", "--no-kill", "--exclusive")


def directory_of(name, *programs):
    compiler = mpi_support.find_open_mpi() or skip("there is no Open MPI", "Open MPI")
    directory = os.path.join(CLUSTER.home, name)
    os.makedirs(directory)
    for program in programs:
        subprocess.run([compiler, "-O1", os.path.join(HERE, program + ".c"), "-o", f"{directory}/{program}"], check=True)
    return directory


def run(directory, *tasks, code=0, arguments="", timeout=240):
    """The job, which is over."""
    mpi_support.flow(directory, tasks)
    job = Job(CLUSTER, HARROW, f"run flow.toml --run-dir r --progress none {arguments}", *ALL, directory=directory, env=MPI)
    same(job.code(timeout), code, job.said())
    return job


def logs(directory, *words):
    return CLUSTER.out(HARROW, "logs", "--run-dir", "r", *words, cwd=directory)


def attempts(directory, which="1"):
    return query(f"{directory}/r", f"SELECT count(*) FROM attempts WHERE {which}")[0][0]


def nothing_left(directory):
    wait_for(lambda: not [pid for pid in processes_naming(directory) if in_cluster(pid)], f"the end of all in {directory}")


def in_cluster(pid):
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as f:
            words = f.read()
    except OSError:
        return False
    return "python" not in words.split("\0", maxsplit=1)[0]


def suite():
    """What MPI offers, over all nodes."""
    for ranks in [16] + ([64] if LONG else []):
        directory = directory_of(f"suite-{ranks}", "mpi_suite", "mpi_ranks")
        run(directory, {"name": "suite", "command": ["./mpi_suite", f"{directory}/file"], "ranks": ranks, "nodes": NODES},
            {"name": "ring", "command": ["./mpi_ranks", "ring"], "ranks": ranks, "nodes": NODES, "stdout": "ring.%t"},
            arguments=f"--slots {ranks // NODES}", timeout=600)
        same(sorted(logs(directory, "suite").splitlines()),
             sorted(f"rank {rank} of {ranks}, {ranks // NODES} on its node: wrong 0 0 0 0" for rank in range(ranks)))
        for rank in range(ranks):
            with open(f"{directory}/ring.{rank}", encoding="utf-8") as f:
                check("wrong 0" in f.read(), f"ring.{rank}")
        nothing_left(directory)


def parts_of_nodes():
    """Ranks that do not come out even, beside serial tasks; and who they are is said in their environment."""
    directory = directory_of("parts", "mpi_ranks")
    said = "echo $HARROW_RANK/$HARROW_RANKS $HARROW_NODELIST $SLURM_PROCID $SLURM_LOCALID $SLURM_NODEID $SLURM_NNODES $SLURM_TASKS_PER_NODE $HARROW_NODE"
    run(directory, {"name": "who", "command": said, "ranks": 5, "nodes": 2, "mpi": "none", "stdout": "who.%t"},
        {"name": "hosts", "command": "cat $HARROW_HOSTFILE > hosts.$HARROW_RANK", "ranks": 3, "ranks_per_node": 1, "mpi": "none"},
        {"name": "ring", "command": ["./mpi_ranks", "ring"], "ranks": 6, "ranks_per_node": 2},
        *({"name": f"serial{i}", "command": "hostname"} for i in range(12)))
    lines = []
    for rank in range(5):
        with open(f"{directory}/who.{rank}", encoding="utf-8") as f:
            lines.append(f.read().split())
    same([line[0] for line in lines], [f"{rank}/5" for rank in range(5)])
    same([line[2:7] for line in lines], [[str(rank), str(rank % 3), str(rank // 3), "2", "3,2"] for rank in range(5)])
    nodes = [line[7] for line in lines]
    same((len(set(nodes[:3])), len(set(nodes[3:])), len(set(nodes))), (1, 1, 2), nodes)
    with open(f"{directory}/hosts.0", encoding="utf-8") as f:
        same(len(set(f.read().split())), 3)
    same(len(logs(directory, "ring").splitlines()), 6)


def too_many_for_a_node():
    """`ranks` alone, more than a node has cores: over as few nodes as it takes."""
    directory = directory_of("spread", "mpi_ranks")
    run(directory, {"name": "ring", "command": ["./mpi_ranks", "ring"], "ranks": 2 * CPUS})
    same(len(logs(directory, "ring").splitlines()), 2 * CPUS)


def failures():
    """Each task fails once, the rank and its node are named, what runs beside it is not touched, nothing is left."""
    directory = directory_of("failures", "mpi_ranks")
    wanted = {"abort": "called MPI_Abort with 7", "killed": "was killed by signal 9 (Killed)", "leave": "exited with 0 before MPI_Finalize",
              "fail": "exit 5"}
    job = run(directory, *({"name": what, "command": ["./mpi_ranks", what, "3"], "ranks": 4, "nodes": 2} for what in wanted),
              {"name": "beside", "command": ["./mpi_ranks", "sleep", "2"], "ranks": 4, "nodes": 4}, code=1)
    for what, text in wanted.items():
        said = CLUSTER.out(HARROW, "explain", "--run-dir", "r", what, cwd=directory)
        check(text in said and re.search(r"rank 3 of 4\b", said) and re.search(r"\bnode[1-4]\b", said), said)
    check("done 1 of 5, failed 4" in job.said(), job.said())
    same(attempts(directory), 5 + mpi_support.lost_by_silence(directory))
    nothing_left(directory)


# LAMMPS' example `melt`: a Lennard-Jones fluid.
MELT = """units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 10 0 10 0 10
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 20 delay 0 check no
fix 1 all nve
thermo 50
run 250
"""


def energies(said):
    """The rows of the table that LAMMPS prints: step, temperature, energies, pressure."""
    lines = [line.split() for line in said.splitlines()]
    begin = next(i for i, words in enumerate(lines) if words[:2] == ["Step", "Temp"])
    end = next(i for i, words in enumerate(lines) if words[:2] == ["Loop", "time"])
    return [words for words in lines[begin + 1:end] if words]


def lammps():
    """A real program gets the energies that it has by mpirun, digit for digit."""
    if not shutil.which("lmp"):
        print("lammps: skipped: there is no LAMMPS (needs LAMMPS)", flush=True)
        return
    directory = directory_of("lammps")
    with open(f"{directory}/in.melt", "w", encoding="utf-8") as f:
        f.write(MELT)
    command = ["lmp", "-in", "in.melt", "-log", "none"]
    alone = {**os.environ, **MPI, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(["mpirun.openmpi", "--oversubscribe", "-np", "4", *command], cwd=directory, env=alone, capture_output=True, text=True, timeout=600,
                          check=False)
    same(done.returncode, 0, done.stdout[-2000:], done.stderr[-2000:])
    run(directory, {"name": "melt", "command": command, "ranks": 4, "nodes": 2}, timeout=600)
    said = logs(directory, "melt")
    wanted = energies(done.stdout)
    same(energies(said), wanted)
    same([row[0] for row in wanted], [str(step) for step in range(0, 251, 50)])
    check("on 4 procs" in said, said)
    nothing_left(directory)


def agents_of(node, directory):
    return [pid for pid in processes_naming(f"{directory}/r") if is_agent(pid, node)]


def is_agent(pid, node):
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as f:
            words = f.read().split("\0")
        return len(words) > 1 and words[1] == "agent" and node in " ".join(words)
    except OSError:
        return False


def begin(directory, *tasks):
    mpi_support.flow(directory, tasks)
    return Job(CLUSTER, HARROW, "run flow.toml --run-dir r --progress none", *ALL, directory=directory, env=MPI)


def running(directory):
    """Nodes of the ranks of mpi_ranks that run, by pid."""
    found = {}
    for pid in processes_naming(directory):
        try:
            with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as f:
                words = f.read()
            if not words.startswith("./mpi_ranks"):
                continue
            with open(f"/proc/{pid}/environ", encoding="utf-8", errors="replace") as f:
                found[pid] = dict(entry.split("=", 1) for entry in f.read().split("\0") if "=" in entry).get("HARROW_NODE")
        except OSError:
            pass
    return found


def server_killed():
    """The ranks go on, and the next server has them on all their nodes."""
    directory = directory_of("server", "mpi_ranks")
    job = begin(directory, {"name": "long", "command": ["./mpi_ranks", "sleep", "12"], "ranks": 4, "nodes": 4})
    wait_for(lambda: len(set(running(directory).values())) == 4, "four nodes at work", 60)
    before = set(running(directory))
    with open(f"{directory}/r/0/server", "rb"):
        pass
    servers = [pid for pid in processes_naming(f"{directory}/r") if is_server(pid)]
    same(len(servers), 1, servers)
    os.kill(servers[0], signal.SIGKILL)
    same(job.code(240), 0, job.said())
    same(attempts(directory), 1, job.said(), before)
    nothing_left(directory)


def is_server(pid):
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8", errors="replace") as f:
            words = f.read().split("\0")
        return len(words) > 1 and words[1] == "server"
    except OSError:
        return False


def node_killed():
    """A node that is gone takes the attempt along; it is not the task's fault, and the next one runs on what is left."""
    directory = directory_of("node", "mpi_ranks")
    job = begin(directory, {"name": "long", "command": ["./mpi_ranks", "sleep", "8"], "ranks": 2, "nodes": 2})
    wait_for(lambda: len(set(running(directory).values())) == 2, "two nodes at work", 60)
    nodes = sorted(set(running(directory).values()))
    batch = "node1"  # has the batch script
    lost = next(node for node in nodes if node != batch)
    CLUSTER.tool("kill", lost)
    same(job.code(300), 0, job.said())
    outcomes = query(f"{directory}/r", "SELECT outcome, count(*) FROM attempts GROUP BY outcome ORDER BY outcome")
    same(outcomes, [("exited", 1), ("lost", 1)], job.said())
    nothing_left(directory)


with Cluster("--nodes", str(NODES), "--cpus", str(CPUS), "--share", os.path.dirname(HARROW)) as CLUSTER:
    sys.exit(run_tests([("suite", suite), ("parts_of_nodes", parts_of_nodes), ("too_many_for_a_node", too_many_for_a_node),
                        ("failures", failures), ("lammps", lammps), ("server_killed", server_killed), ("node_killed", node_killed)]))
