#!/usr/bin/env python3
"""contrib/testcluster comes up, runs jobs, loses nodes and cables, and goes without a trace: as root and as an
ordinary user.  usage: cluster_lifecycle.py [name of a test]
Without HARROW_LONG=1: not everything as both, nor what the tests of whole runs show as well (losses, affinity, devices)."""
import os
import signal
import sys
import time

from cluster_support import Cluster, check, processes_naming, run_tests, wait_for


def reachable(cluster, node, port=6818):
    return cluster.run("timeout", "5", "bash", "-c", f"</dev/tcp/10.77.0.{10 + int(node[4:])}/{port}", check=False).returncode == 0


def lives_and_goes(ordinary):
    cluster = Cluster(ordinary=ordinary)
    began = time.monotonic()
    with cluster:
        print(f"  up in {time.monotonic() - began:.2f} s")
        hosts = cluster.out("srun", "-p", "all", "-N4", "-n4", "hostname").split()
        check(sorted(hosts) == ["node1", "node2", "node3", "node4"], f"srun ran on {hosts}")
        cluster.run("srun", "-p", "all", "-N4", "-n4", "bash", "-c",
                    "hostname >/mnt/local/name; hostname >/tmp/name; hostname >/dev/shm/name; echo x >/mnt/home/$(hostname)")
        for i in range(1, 5):
            for place in ("/mnt/local", "/tmp", "/dev/shm"):
                check(cluster.out("cat", f"{place}/name", node=f"node{i}") == f"node{i}", f"{place} is not node{i}'s own")
        check(len([n for n in os.listdir(cluster.home) if n.startswith("node")]) == 4, "/mnt/home is not shared")
        job = cluster.script("srun hostname | sort >/mnt/home/result\n", "-p", "slow", "-N2", "-o", "/mnt/home/%j.out")
        check(cluster.wait_job(job) == "COMPLETED", "the batch job did not complete")
        with open(os.path.join(cluster.home, "result")) as f:
            check(f.read().split() == ["node3", "node4"], "partition slow is not nodes 3 and 4")
        check(cluster.run("bash", "-c", 'exit $#', "_", "a b", "c", check=False).returncode == 2, "exec loses words or status")
        check(cluster.run("true", node="node9", check=False).returncode != 0, "there is a node9")
        everything = processes_naming(cluster.state)
        check(len(everything) >= 10, f"only {everything} run")
    check(processes_naming(cluster.state) == [], f"left: {processes_naming(cluster.state)}")
    with open("/proc/self/mountinfo") as f:
        check(cluster.state not in f.read(), "a mount is left")
    check(not os.path.exists(cluster.dir), "its directory is left")


def losses(ordinary):
    with Cluster("--conf", "SlurmdTimeout=2", ordinary=ordinary) as cluster:
        cluster.tool("cut", "node2", check=True)
        check(not reachable(cluster, "node2"), "node2 answers over a cut cable")
        check(cluster.out("hostname", node="node2") == "node2", "a cut cable ended the node")
        cluster.tool("repair", "node2", check=True)
        wait_for(lambda: reachable(cluster, "node2"), "node2 on its repaired cable", 10)
        cluster.run("touch", "/mnt/local/kept", node="node3")
        cluster.tool("kill", "node3", check=True)
        wait_for(lambda: cluster.run("true", node="node3", check=False).returncode != 0, "node3's end", 5)
        check(not reachable(cluster, "node3"), "node3 answers though it is dead")
        wait_for(lambda: "node3" in cluster.out("sinfo", "-h", "-N", "-t", "down,unknown", "-o", "%N"),
                 "slurmctld to notice", 40)
        cluster.tool("boot", "node3", check=True)
        cluster.idle(timeout=30)
        check(cluster.out("srun", "-w", "node3", "-p", "all", "ls", "/mnt/local") == "kept", "the disk did not survive")
        check(cluster.tool("kill", "node9").returncode == 2, "node9 could be killed")


def one_pid(ordinary):
    with Cluster("--nodes", "2", ordinary=ordinary) as cluster:
        with open(cluster.path("run", "pid")) as f:
            pid = int(f.read())
        job = cluster.start("srun", "-p", "all", "-N2", "sleep", "300")
        wait_for(lambda: cluster.run("pgrep", "-x", "sleep", node="node2", check=False).stdout.count("\n") >= 2, "the job", 10)
        os.kill(pid, signal.SIGKILL)
        job.wait(timeout=120)
        wait_for(lambda: processes_naming(cluster.state) == [], "everything's end", 20)
        check(cluster.tool("status").returncode == 3, "status says that it runs")
        cluster.tool("up", *cluster.options, check=True)
        check(cluster.out("srun", "hostname") == "node1", "it does not start again")


def affinity(ordinary):
    with Cluster("--profile", "affinity", "--nodes", "2", ordinary=ordinary) as cluster:
        show = ("grep", "Cpus_allowed_list", "/proc/self/status")
        if os.cpu_count() > 1 and not ordinary:
            check(len(set(cluster.out("srun", "-n2", *show).splitlines())) == 2, "two tasks are not bound apart")
            check(len(set(cluster.out("srun", "-n2", "--cpu-bind=none", *show).splitlines())) == 1, "none binds")
        check(cluster.out("srun", "-n1", "hostname") == "node1", "no job runs")


def devices():
    with Cluster("--gpus", "2", "--nodes", "1", "--conf", "KillWait=3") as cluster:
        check(cluster.out("srun", "--gres=gpu:2", "printenv", "CUDA_VISIBLE_DEVICES") == "0,1", "no devices granted")
        check("KillWait                = 3 sec" in cluster.out("scontrol", "show", "config"), "--conf is lost")


if __name__ == "__main__":
    tests = []
    for ordinary, who in [(False, "root"), (True, "ordinary user")] if os.getuid() == 0 else [(True, "ordinary user")]:
        for test in (lives_and_goes, losses, one_pid, affinity):
            tests.append((f"{test.__name__} ({who})", lambda test=test, ordinary=ordinary: test(ordinary)))
    tests.append(("devices", devices))
    in_short = ("lives_and_goes (ordinary user)", "one_pid (root)")
    sys.exit(run_tests(tests, only_long=[name for name, _ in tests if name not in in_short]))
