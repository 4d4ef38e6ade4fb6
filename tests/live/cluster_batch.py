#!/usr/bin/env python3
"""batch/slurm inside real jobs: what was granted, when it ends, how agents start.
usage: cluster_batch.py PROBE [name of a test]"""
import os
import re
import shlex
import shutil
import sys
import time

from cluster_support import Cluster, check, run_tests

PROBE = os.path.abspath(sys.argv[1])
HARROW = os.path.join(os.path.dirname(PROBE), "harrow")  # need not be there
SHARE = ("--share", os.path.dirname(PROBE))
AGENT = """#!/bin/bash
# stands in for harrow: says what an agent would find
echo "agent $SLURMD_NODENAME args $* cpus $SLURM_CPUS_ON_NODE \
mask $(sed -n 's/^Cpus_allowed_list:\\t//p' /proc/self/status) devices ${CUDA_VISIBLE_DEVICES:-none} home $HOME pid $$"
"""


def probe(cluster, *sbatch, before="", probe_env="", with_query=True):
    """The probe's lines from inside a job, and what its agent command printed."""
    query = os.path.join(cluster.home, "harrow-slurm-query")
    if os.path.exists(query):
        os.remove(query)
    if with_query:
        shutil.copy(os.path.join(os.path.dirname(PROBE), "harrow-slurm-query"), query)
    program = os.path.join(cluster.home, "harrow")
    with open(program, "w") as f:
        f.write(AGENT)
    os.chmod(program, 0o755)
    out = os.path.join(cluster.home, "probe.out")
    ran = os.path.join(cluster.home, "agents.out")
    for path in (out, ran):
        if os.path.exists(path):
            os.remove(path)
    job = cluster.script(f"""{before}
{probe_env} {shlex.quote(PROBE)} {program} "/mnt/home/run dir" >{out} 2>&1
eval "$(sed -n 's/^command //p' {out})" >{ran} 2>&1
""", "-o", "/mnt/home/job.out", *sbatch)
    state = cluster.wait_job(job, 60)
    check(state == "COMPLETED", f"the job ended as {state}: {open(os.path.join(cluster.home, 'job.out')).read()}")
    with open(out) as f, open(ran) as g:
        return job, f.read(), g.read()


def agents(text):
    return dict(re.findall(r"^agent (\S+) (.*)$", text, re.M))


def plain_job():
    job, said, ran = probe(CLUSTER, "-p", "all", "-N4", "--ntasks=5", "--gres=gpu:1", "--mem=500", "-t", "10", "-J", "a name")
    check(f"batch slurm job {job} name a name" in said, said)
    nodes = re.findall(r"node (\S+) cpus (\d+) memory (\d+) gpus (\d+) partition (\S+)", said)
    check([n[0] for n in nodes] == ["node1", "node2", "node3", "node4"], said)
    check(sorted(n[1] for n in nodes) == ["1", "1", "1", "2"], f"CPUs are not as granted: {said}")
    check({n[2:] for n in nodes} == {(str(500 << 20), "1", "all")}, said)
    end = int(re.search(r"end (\d+)", said)[1])
    check(300 < end - time.time() < 660, f"it ends in {end - time.time():.0f} s, not 600")
    check(re.findall(r"listen (\S+)", said) == ["10.77.0.11"], f"listens at the wrong place: {said}")
    check(said.count("command ") == 1 and said.count("srun") == 1, f"not exactly one srun: {said}")
    found = agents(ran)
    check(sorted(found) == ["node1", "node2", "node3", "node4"], f"agents did not start once a node: {ran}")
    for name, cpus in [n[:2] for n in nodes]:
        check(f"cpus {cpus} " in found[name] and "devices 0 " in found[name], f"{name}: {found[name]}")
        check("args agent --run-dir /mnt/home/run dir" in found[name], found[name])


def hostile_environment():
    """What sbatch options and users leave in the environment does not change the step."""
    before = "export SLURM_NTASKS=9 SLURM_NTASKS_PER_NODE=3 SLURM_EXPORT_ENV=NONE SLURM_CPUS_PER_TASK=2 SRUN_CPUS_PER_TASK=2 " \
             "SLURM_MEM_PER_NODE=3999 SLURM_LABELIO=1 SLURM_OPEN_MODE=append SLURM_GRES=gpu:2 SLURM_EXCLUSIVE=1 " \
             "SLURM_DISTRIBUTION=arbitrary SLURM_KILL_BAD_EXIT=1 SLURM_TIMELIMIT=1 SLURM_JOB_NUM_NODES=1 SLURM_UMASK=0777"
    _, said, ran = probe(CLUSTER, "-p", "all", "-N3", "-c2", "--gres=gpu:2", "--export=ALL", before=before)
    found = agents(ran)
    check(len(found) == 3, f"agents: {ran}; {said}")
    for text in found.values():
        check("cpus 2 " in text and "devices 0,1 " in text and "home /" in text, text)


def heterogeneous_job():
    _, said, ran = probe(CLUSTER, "-p", "fast", "-N1", "-n2", "-t", "20", ":", "-p", "slow", "-N2", "-n3", "-t", "10")
    check(re.findall(r"node (\S+) cpus \d+ .* partition (\S+)", said) == [("node1", "fast"), ("node3", "slow"), ("node4", "slow")], said)
    check(said.count("srun") == 1, f"not exactly one srun: {said}")
    end = int(re.search(r"end (\d+)", said)[1])
    check(300 < end - time.time() < 660, f"it ends in {end - time.time():.0f} s, not with its first component")
    check(sorted(agents(ran)) == ["node1", "node3", "node4"], ran)


def without_libslurm():
    """slurm.conf unreadable for libslurm, or the program missing: SLURM_* and squeue tell."""
    _, said, ran = probe(CLUSTER, "-p", "all", "-N2", "--ntasks=3", "--mem=100", "-t", "10",
                         with_query=False)
    check(sorted(re.findall(r"node (\S+) cpus (\d+) memory (\d+)", said)) ==
          [("node1", "2", str(100 << 20)), ("node2", "1", str(100 << 20))], said)
    check(300 < int(re.search(r"end (\d+)", said)[1]) - time.time() < 660, said)
    check(len(agents(ran)) == 2, ran)
    check("SLURM_* instead" in said, f"does not say where it looked: {said}")
    _, said, _ = probe(CLUSTER, "-p", "all", "-N2", probe_env="SLURM_CONF=/dev/null")
    check(len(re.findall(r"^node ", said, re.M)) == 2 and "SLURM_* instead" in said, f"libslurm's end ended the program: {said}")


def allocation_shell():
    """salloc's shell runs on the head: agents reach it there; a job that is over is an error, no job is local."""
    done = CLUSTER.run("salloc", "-p", "all", "-N2", PROBE, HARROW, "/tmp/run", check=False)
    check(re.findall(r"listen (\S+)", done.stdout) == ["10.77.0.1"], done.stdout + done.stderr)
    done = CLUSTER.run(PROBE, HARROW, "/tmp/run", check=False,
                       env={"SLURM_JOB_ID": "99999", "SLURM_JOB_NODELIST": "node1"})
    check("error Slurm knows no running job 99999; to run on this machine alone, unset SLURM_JOB_ID" in done.stdout, done.stdout)
    check(CLUSTER.out(PROBE, HARROW, "/tmp/run").startswith("batch local"), "outside of a job it is not local")


def bound_cores():
    """Under task/affinity an agent may use every CPU that was granted, not one."""
    with Cluster("--profile", "affinity", "--nodes", "2", *SHARE) as cluster:
        cpus = os.cpu_count()
        _, said, ran = probe(cluster, "-p", "all", "-N2", "--ntasks-per-node=1", f"-c{cpus}")
        masks = re.findall(r"mask (\S+)", ran)
        check(len(masks) == 2 and set(masks) == {f"0-{cpus - 1}" if cpus > 1 else "0"}, f"{ran}; {said}")


if __name__ == "__main__":
    del sys.argv[1]
    with Cluster("--gpus", "2", *SHARE) as CLUSTER:
        status = run_tests([(t.__name__, t) for t in (plain_job, hostile_environment, heterogeneous_job, without_libslurm,
                                                      allocation_shell, bound_cores)])
    sys.exit(status)
