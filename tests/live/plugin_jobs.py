#!/usr/bin/env python3
"""The SPANK plugin in a real Slurm: every way to start a job and every way to end one.
usage: plugin_jobs.py SPANK_HARROW.SO [name of a test]
HARROW_LONG=1: also the time limit (90 s), slurmd's and a node's end, clusters of their own; twenty jobs of each kind of loss."""
import os
import re
import subprocess
import sys
import time

from cluster_support import LONG, Cluster, check, run_tests, wait_for

PLUGIN = os.path.abspath(sys.argv[1])
SHARE = ("--share", os.path.dirname(PLUGIN))
POLICY = "local=/mnt/local ports=30000-30999 tasks_per_node=64 local_limit=2G move_partitions=fast,slow order=fifo files=local"
NODES = ["node1", "node2", "node3", "node4"]
# Processes that escape what Slurm tracks without cgroups: own session, no parent.
ESCAPE = "(setsid nohup sleep {0} >/dev/null 2>&1 &) ; "


def listing(node):
    """What is left of job directories on a node."""
    return CLUSTER.run("ls", "-A", "/mnt/local/harrow", node=node, check=False).stdout.split()


def sleepers(node, seconds):
    return CLUSTER.run("pgrep", "-f", f"^sleep ({seconds})$", node=node, check=False).stdout.split()


def slurmd_log(node):
    with open(CLUSTER.path("log", f"slurmd.{node}.log")) as f:
        return f.read()


def nothing_left(seconds=(), nodes=NODES, but=()):
    for node in nodes:
        wait_for(lambda: [n for n in listing(node) if n.split(".")[0] not in but] == [], f"job directories of {node}: {listing(node)}", 20)
        if seconds:
            wait_for(lambda: sleepers(node, "|".join(map(str, seconds))) == [], f"the end of processes on {node}", 20)
    states = set(CLUSTER.out("sinfo", "-h", "-N", "-p", "all", "-o", "%T").split())
    check(not any("drain" in s for s in states), f"a node is drained: {states}")


def shown_in_help():
    for command in ("srun", "sbatch", "salloc"):
        text = CLUSTER.out(command, "--help")
        check("--harrow " in text and "--harrow-order=order" in text, f"{command} --help does not show the options")
        done = CLUSTER.run(command, "--harrow-order=best", *(["--wrap"] if command == "sbatch" else []), "true", check=False)
        check(done.returncode != 0 and "it is one of auto, fifo, lifo" in done.stderr, done.stderr)


SEE = """hostname; stat -c '%u %a' "$HARROW_LOCAL"; echo $HARROW_LOCAL; env | grep ^HARROW | sort; touch $HARROW_LOCAL/made"""


def directories(text, uid):
    """The directories that tasks saw, checked to be private."""
    check(re.findall(r"^(\d+ \d+)$", text, re.M) == [f"{uid} 700"] * text.count("HARROW_LOCAL="), text)
    for line in ("HARROW_SITE_PORTS=30000-30999", "HARROW_SITE_TASKS_PER_NODE=64", "HARROW_SITE_LOCAL_LIMIT=2147483648",
                 "HARROW_SITE_MOVE_PARTITIONS=fast,slow", "HARROW_SITE_ORDER=fifo", "HARROW_SITE_FILES=local"):
        check(line in text, f"{line} is missing in {text}")
    return re.findall(r"^HARROW_LOCAL=(.*)$", text, re.M)


def every_way_to_start():
    text = CLUSTER.out("srun", "--harrow", "-p", "all", "-N4", "bash", "-c", SEE, user="alice")
    check(len(set(directories(text, 5001))) == 1 and text.count("HARROW_LOCAL=") == 4, text)
    text = CLUSTER.out("salloc", "--harrow", "-p", "all", "-N2", "bash", "-c",
                       f"echo shell $HARROW_SITE_ORDER; srun bash -c '{SEE.replace(chr(39), chr(34))}'", user="alice")
    check("shell fifo" in text and len(directories(text, 5001)) == 2, text)
    job = CLUSTER.script(f"{SEE}\nsrun bash -c '{SEE.replace(chr(39), chr(34))}'\n", "--harrow", "-p", "all", "-N3",
                         "-o", "/mnt/home/alice/%j.out", user="alice")
    CLUSTER.wait_job(job)
    with open(f"{CLUSTER.home}/alice/{job}.out") as f:
        text = f.read()
    check(set(directories(text, 5001)) == {f"/mnt/local/harrow/{job}"} and text.count("HARROW_LOCAL=") == 4, text)
    array = CLUSTER.script(SEE, "--harrow", "--array=1-3", "-p", "all", "-o", "/mnt/home/alice/a%a.out", user="alice")
    wait_for(lambda: CLUSTER.job_state(array) in ("COMPLETED", "GONE") and not CLUSTER.out("squeue", "-h"), "the array", 60)
    found = [directories(open(f"{CLUSTER.home}/alice/a{i}.out").read(), 5001)[0] for i in (1, 2, 3)]
    check(len(set(found)) == 3, f"array tasks share a directory: {found}")
    het = CLUSTER.script(f"srun --het-group=0,1 bash -c '{SEE.replace(chr(39), chr(34))}'\n", "--harrow", "-p", "fast", "-N1",
                         "-o", "/mnt/home/alice/het.out", ":", "--harrow", "-p", "slow", "-N2", user="alice")
    wait_for(lambda: not CLUSTER.out("squeue", "-h"), "the heterogeneous job", 60)
    with open(f"{CLUSTER.home}/alice/het.out") as f:
        text = f.read()
    check(sorted(set(directories(text, 5001))) == [f"/mnt/local/harrow/{het}", f"/mnt/local/harrow/{int(het) + 1}"], text)
    nothing_left()


def without_the_option():
    before = {node: CLUSTER.out("find", "/mnt/local", "/run", "/tmp", "-xdev", node=node) for node in NODES[:2]}
    text = CLUSTER.out("srun", "-p", "all", "-N2", "env", user="bob")
    check("HARROW_LOCAL" not in text and "HARROW_SITE" not in text, text)
    job = CLUSTER.script("env >/mnt/home/bob/env\n", "-p", "all", "-o", "/dev/null", user="bob")
    check(CLUSTER.wait_job(job) == "COMPLETED", "a job without the option failed")
    with open(f"{CLUSTER.home}/bob/env") as f:
        check("HARROW_SITE" not in f.read(), "a job without the option got settings")
    for node in before:
        wait_for(lambda: CLUSTER.out("find", "/mnt/local", "/run", "/tmp", "-xdev", node=node) == before[node], "all files that it made to go")
    nothing_left()


def ended(how, act, expect, n=1, limit=60):
    """n jobs that leave processes behind and whose end is `act`'s doing."""
    for _ in range(n):
        job = CLUSTER.script("srun -n2 -N2 bash -c '" + ESCAPE.format(4001) + "exec sleep 4002' &\n" + ESCAPE.format(4003) +
                             "touch $HARROW_LOCAL/file\nwait\nsleep 4004\n" if how != "completed" else
                             "srun -n2 -N2 bash -c '" + ESCAPE.format(4001) + "touch $HARROW_LOCAL/x'\n" + ESCAPE.format(4003),
                             "--harrow", "--no-requeue", "-p", "fast", "-N2", "-o", "/dev/null", user="alice")
        if how != "completed":
            wait_for(lambda: sleepers("node1", 4002) and sleepers("node2", 4002) and sleepers("node1", 4003), "the job's processes", 20)
            check(f"{job}.job" in listing("node1") and job in listing("node2"), "no job directory")
        act(job)
        state = CLUSTER.wait_job(job, limit)
        check(state in expect, f"the job ended as {state}")
        nothing_left((4001, 4002, 4003, 4004))


def completed():
    ended("completed", lambda job: None, ["COMPLETED"])


def cancelled():
    ended("cancelled", lambda job: CLUSTER.run("scancel", job), ["CANCELLED"], 20 if LONG else 1)


def time_limit():
    ended("time", lambda job: CLUSTER.run("scontrol", "update", f"jobid={job}", "timelimit=1"), ["TIMEOUT"], limit=150)


def slurmstepd_killed():
    def kill(job):
        # Of the step and of the batch script: their tasks lose their parent.
        for node in ("node1", "node2"):
            CLUSTER.run("pkill", "-9", "-f", f"^slurmstepd: .{job}[.]", node=node, check=False)
        CLUSTER.run("scancel", job, check=False)
    ended("stepd", kill, ["CANCELLED", "FAILED", "NODE_FAIL", "COMPLETED"], 20 if LONG else 1)


def slurmd_killed():
    """A job that ends while nobody is there to clear up after it: slurmd does so when it is back."""
    def kill(job):
        with open(CLUSTER.path("run", "slurmd.node2.pid")) as f:
            CLUSTER.run("kill", "-9", f.read().strip(), node="node2")
        CLUSTER.run("scancel", job)
        wait_for(lambda: sleepers("node1", 4002) == [], "the end of the job elsewhere", 30)
        check(f"{job}.job" in listing("node2"), "somebody cleared up without slurmd")
        CLUSTER.run("slurmd", "-N", "node2", node="node2")
    ended("slurmd", kill, ["CANCELLED", "NODE_FAIL", "FAILED"], 5 if LONG else 1)


def node_killed():
    def kill(job):
        CLUSTER.tool("kill", "node2", check=True)
        CLUSTER.run("scancel", job)
        time.sleep(1)
        check(f"{job}" in os.listdir(CLUSTER.path("local", "node2", "harrow")), "the disk lost its directory")
        CLUSTER.tool("boot", "node2", check=True)
        CLUSTER.idle(60)
    ended("node", kill, ["CANCELLED", "NODE_FAIL", "FAILED"], 5 if LONG else 1)


def two_jobs_of_one_user():
    """The first one's end touches nothing of the second, though the first one's script submitted it."""
    second = CLUSTER.path("home", "alice", "second.sh")
    with open(second, "w") as f:
        f.write("#!/bin/bash\n" + ESCAPE.format(4102) + "env | grep ^HARROW_LOCAL >/mnt/home/alice/second.env\nsleep 4101\n")
    plain = CLUSTER.path("home", "alice", "plain.sh")
    with open(plain, "w") as f:
        f.write("#!/bin/bash\n" + ESCAPE.format(4104) + "env | grep ^HARROW >/mnt/home/alice/plain.env\nsleep 4103\n")
    first = CLUSTER.script("sbatch --harrow --parsable -p fast -w node1 -o /dev/null /mnt/home/alice/second.sh >/mnt/home/alice/id\n"
                           # (Slurm hands the option on to what a job submits.)
                           "env -u SLURM_SPANK__SLURM_SPANK_OPTION_harrow_harrow sbatch --parsable -p fast -w node1 -o /dev/null /mnt/home/alice/plain.sh >/mnt/home/alice/id2\n" +
                           ESCAPE.format(4100) + "while [ ! -e /mnt/home/alice/both-run ]; do sleep 0.1; done\n",
                           "--harrow", "-p", "fast", "-w", "node1", "-o", "/dev/null", user="alice")
    wait_for(lambda: len(sleepers("node1", "410[1-4]")) == 4, "the other jobs", 60)
    CLUSTER.run("touch", "/mnt/home/alice/both-run")
    check(CLUSTER.wait_job(first) == "COMPLETED", "the first job failed")
    with open(CLUSTER.path("home", "alice", "id")) as f:
        other = f.read().strip()
    with open(CLUSTER.path("home", "alice", "id2")) as f:
        third = f.read().strip()
    nothing_left((4100,), ["node1"], but=(other,))
    for s in (4101, 4102, 4103, 4104):
        check(len(sleepers("node1", s)) == 1, f"sleep {s} of another job was ended")
    check(sorted(listing("node1")) == sorted([other, f"{other}.job"]), str(listing("node1")))
    with open(CLUSTER.path("home", "alice", "plain.env")) as f:
        check("HARROW_LOCAL" not in f.read(), "a job without the option believes in the first one's directory")
    CLUSTER.run("scancel", other, third)
    CLUSTER.wait_job(other)
    CLUSTER.wait_job(third)
    nothing_left((4101, 4102))
    CLUSTER.run("pkill", "-x", "sleep", node="node1", user="alice", check=False)


def a_line_in_syslog():
    """One for each run that left its account, from the node that has it; nothing of what a user forges."""
    listener = CLUSTER.start("timeout", "600", sys.executable, "-c",
                             "import socket,os\ns=socket.socket(socket.AF_UNIX,socket.SOCK_DGRAM)\ns.bind('/dev/log')\n"
                             "os.chmod('/dev/log',0o666)\nprint('ready',flush=True)\n"
                             "while (t:=s.recv(4096))!=b'stop': print(t.decode(errors='replace'),flush=True)\nos.unlink('/dev/log')",
                             node="node1",
                             stdout=subprocess.PIPE)
    check(listener.stdout.readline() == "ready\n", "no listener")
    job = CLUSTER.script(r"""cd $HARROW_LOCAL
printf 'harrow-run 1\nrun mosaic\ntasks 1000\ncore_seconds 11700\n' >.harrow-run-a
printf 'harrow-run 1\nrun x job=1 user=root\ntasks 1\ncore_seconds 1\n' >.harrow-run-b
printf 'harrow-run 1\nrun m\ntasks -5\ncore_seconds 1\n' >.harrow-run-c
ln -s /etc/passwd .harrow-run-d; mkfifo .harrow-run-e; mkdir .harrow-run-f; head -c 100000 /dev/zero >.harrow-run-g
""", "--harrow", "-p", "fast", "-w", "node1", "-o", "/dev/null", user="alice")
    CLUSTER.wait_job(job)
    nothing_left()
    CLUSTER.run(sys.executable, "-c", "import socket;socket.socket(socket.AF_UNIX,socket.SOCK_DGRAM).sendto(b'stop','/dev/log')",
                node="node1")
    lines = [line.split("]: ", 1)[1] for line in listener.communicate(timeout=120)[0].splitlines() if "harrow[" in line]
    check(sorted(lines) == [f"job={job} user=alice uid=5001 run=mosaic tasks=1000 core_hours=3.250",
                            f"job={job} user=alice uid=5001 run=x_job_1_user_root tasks=1 core_hours=0.000"], str(lines))


def a_full_or_missing_disk():
    """The job runs, without a directory, one line is logged; the node stays as it is."""
    CLUSTER.run("mkdir", "-p", "/mnt/full", node="node1")
    CLUSTER.run("mount", "-t", "tmpfs", "-o", "nr_inodes=2,size=4k", "full", "/mnt/full", node="node1")
    with open(CLUSTER.path("etc", "plugstack.conf")) as f:
        before = f.read()
    for place in ("/mnt/full", "/mnt/none", "/proc", "/etc/passwd"):
        with open(CLUSTER.path("etc", "plugstack.conf"), "w") as f:
            f.write(f"optional {PLUGIN} local={place}\n")
        logged = slurmd_log("node1")
        done = CLUSTER.run("srun", "--harrow", "-w", "node1", "bash", "-c", "echo has ${HARROW_LOCAL:-none}", user="alice")
        check("has none" in done.stdout, f"{place}: {done.stdout}")
        lines = slurmd_log("node1")[len(logged):].count("harrow: no job directory")
        check(lines == 1, f"{place}: {lines} lines in slurmd's log")
    with open(CLUSTER.path("etc", "plugstack.conf"), "w") as f:
        f.write(before)
    CLUSTER.run("umount", "/mnt/full", node="node1")
    nothing_left()


def a_private_mount():
    """Under job_container/tmpfs a job's /tmp is its own: HARROW_LOCAL is there all the same."""
    cluster = Cluster("--nodes", "1", "--plugin", PLUGIN, *SHARE, "--conf", "JobContainerType=job_container/tmpfs",
                      "--conf", "PrologFlags=Contain")
    # Kernels that number namespaces per CPU (6.18) refuse, now and then, to hold a namespace made on another one.
    cluster.prefix = ["taskset", "-c", str(min(os.sched_getaffinity(0)))]
    os.makedirs(cluster.path("etc"))
    with open(cluster.path("etc", "job_container.conf"), "w") as f:
        f.write("BasePath=/mnt/local/containers AutoBasePath=true\n")
    with cluster:
        done = cluster.run("srun", "--harrow", "bash", "-c", "echo x >$HARROW_LOCAL/file && echo $HARROW_LOCAL; ls -la /tmp", user="alice",
                           cwd="/")
        check("/tmp/harrow/1" in done.stdout and done.stderr == "", done.stdout + done.stderr)
        wait_for(lambda: cluster.run("ls", "-A", "/tmp/harrow", node="node1", check=False).stdout == "", "the directory's end", 20)
        check("drain" not in cluster.out("sinfo", "-h", "-o", "%T"), "drained")


def an_ordinary_users_cluster():
    """Slurm without root: the directory is there, private and gone; what needs root says so."""
    with Cluster("--nodes", "2", "--plugin", PLUGIN, "--plugin-args", "local=/mnt/local", *SHARE, ordinary=True) as cluster:
        text = cluster.out("srun", "--harrow", "-p", "all", "-N2", "bash", "-c", "stat -c '%u %a' $HARROW_LOCAL; echo $HARROW_LOCAL; " + ESCAPE.format(4201))
        check(text.count(" 700") == 2 and text.count("/mnt/local/harrow/") == 2, text)
        for node in ("node1", "node2"):
            wait_for(lambda: cluster.out("ls", "-A", "/mnt/local/harrow", node=node) == "", "the directory's end", 20)
            check(not cluster.run("pgrep", "-f", "^sleep 4201$", node=node, check=False).stdout, "a process is left")
        check("as an ordinary user" in open(cluster.path("log", "slurmd.node1.log")).read(), "does not say what is missing")


if __name__ == "__main__":
    del sys.argv[1]
    mixed = [shown_in_help, every_way_to_start, without_the_option, completed, cancelled, time_limit, slurmstepd_killed,
             slurmd_killed, node_killed, two_jobs_of_one_user, a_line_in_syslog, a_full_or_missing_disk]
    alone = [a_private_mount, an_ordinary_users_cluster]
    only_long = ("time_limit", "completed", "slurmstepd_killed", "slurmd_killed", "node_killed", "a_private_mount", "an_ordinary_users_cluster")
    if os.getuid() != 0:
        print("not root: only the cluster of an ordinary user is tested")
        sys.exit(run_tests([(t.__name__, t) for t in alone[1:]]))
    with Cluster("--plugin", PLUGIN, "--plugin-args", POLICY, *SHARE) as CLUSTER:
        status = run_tests([(t.__name__, t) for t in mixed], only_long)
    sys.exit(status or run_tests([(t.__name__, t) for t in alone], only_long))
