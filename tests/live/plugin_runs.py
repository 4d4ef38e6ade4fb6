#!/usr/bin/env python3
"""What the site says by its plugin is what runs do: where their files lie, how many tasks, which ports, how much disk; and
what they used is what the site's log says. In a real Slurm.
usage: plugin_runs.py SPANK_HARROW.SO HARROW [name of a test]"""
import glob
import os
import re
import shutil
import sqlite3
import subprocess
import sys

from cluster_support import Cluster, check, run_tests, skip, wait_for
from run_support import in_part

PLUGIN, HARROW = (os.path.abspath(p) for p in sys.argv[1:3])
POLICY = "local=/mnt/local ports=31000-31009 tasks_per_node=2 local_limit=16M order=fifo move_partitions=fast,slow"
LISTENER = """import os, socket
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind('/dev/log')
os.chmod('/dev/log', 0o666)
print('ready', flush=True)
while (t := s.recv(4096)) != b'stop': print(t.decode(errors='replace'), flush=True)
os.unlink('/dev/log')"""


class Syslog:
    """What node1's programs say to syslog within a `with` block: .lines of Harrow, after it."""

    def __enter__(self):
        self.lines = []
        self.listener = CLUSTER.start("timeout", "900", sys.executable, "-c", LISTENER, node="node1", stdout=subprocess.PIPE)
        check(self.listener.stdout.readline() == "ready\n", "no listener")
        return self

    def __exit__(self, *_):
        CLUSTER.run(sys.executable, "-c", "import socket;socket.socket(socket.AF_UNIX,socket.SOCK_DGRAM).sendto(b'stop','/dev/log')", node="node1")
        self.lines = [line.split("]: ", 1)[1] for line in self.listener.communicate(timeout=120)[0].splitlines() if "harrow[" in line]


def home(*parts):
    return os.path.join(CLUSTER.home, "alice", *parts)


def submit(name, tasks, options="", after="", wait=True):
    """`harrow run` of some lines in a job with the plugin; the job's id, its state and what it printed."""
    with open(home(f"{name}.txt"), "w") as f:
        f.write("\n".join(tasks) + "\n")
    job = CLUSTER.script(f"cd\n{PROGRAM} run {name}.txt --run-dir {name} {options}\necho status $?\n{after}", "--harrow", "-p", "fast", "-w", "node1",
                         "-n2", "-o", f"/mnt/home/alice/{name}.log", user="alice")
    if not wait:
        return job
    CLUSTER.wait_job(job, 90)
    with open(home(f"{name}.log")) as f:
        return job, f.read()


def journal(name, query):
    with sqlite3.connect(f"file:{in_part(home(name), 'journal.db')}?mode=ro", uri=True) as db:
        return db.execute(query).fetchall()


def left(node="node1"):
    return CLUSTER.run("ls", "-A", "/mnt/local/harrow", node=node, check=False).stdout.split()


def policy_is_what_runs_do():
    with Syslog() as syslog:
        job, text = submit("policy", ["echo TMPDIR=$TMPDIR LOCAL=$HARROW_LOCAL; sleep 1"] * 6 + [f"cat {in_part('policy', 'server')}"], "--json --slots 3")
        wait_for(lambda: left() == [], f"the end of the directory: {left()}", 30)
    check("status 0" in text, text)
    with open(in_part(home("policy"), "log", "server.log")) as f:
        check("2 slots, not 3: more the site does not allow" in f.read(), "the log does not tell why there are fewer slots")
    check(journal("policy", "select max(slots) from node") == [(2,)], "more slots than the site allows")
    check(journal("policy", "select value from fact where key = 'order'") == [("fifo",)], "not the site's order")
    logs = CLUSTER.run(PROGRAM, "logs", "--run-dir", home("policy"), user="alice").stdout
    check(len(re.findall(rf"TMPDIR=/mnt/local/harrow/{job}/harrow-\w+/\d+ LOCAL=/mnt/local/harrow/{job}$", logs, re.M)) == 6, logs)
    ports = [int(p) for p in re.findall(r'"[0-9.]+:(\d+)"', logs)]
    check(ports and all(31000 <= p <= 31009 for p in ports), f"listens on {ports}")
    check(len(syslog.lines) == 1, f"not one line: {syslog.lines}")
    told = re.fullmatch(rf"job={job} user=alice uid=5001 run=policy tasks=7 core_hours=(0\.00\d)", syslog.lines[0])
    check(told and 0.001 <= float(told[1]) <= 0.006, syslog.lines[0])


def doctor_shows_it():
    job = CLUSTER.script(f"cd\n{PROGRAM} doctor\n", "--harrow", "-p", "fast", "-w", "node1", "-o", "/mnt/home/alice/doctor.log", user="alice")
    CLUSTER.wait_job(job)
    with open(home("doctor.log")) as f:
        text = f.read()
    line = next((x for x in text.splitlines() if re.match(r"ok +site ", x)), "")
    for part in ("at most 16.0 MiB", "at most 2 slots a node", "ports 31000-31009", f"directory is /mnt/local/harrow/{job}", " free"):
        check(part in line, f"{part} is missing in: {text}")


def the_disk_of_a_node_is_limited():
    """The task that holds the most is killed and says why; the others go on, and what it held is gone."""
    _, text = submit("disk", ["head -c 40000000 /dev/zero >$TMPDIR/large; sleep 60", "head -c 1000000 /dev/zero >$TMPDIR/small; sleep 3; wc -c <$TMPDIR/small",
                              "head -c 10000000 /dev/zero >$TMPDIR/x; sleep 2", "true"])
    check("status 1" in text, text)
    rows = dict((task, (fate, message)) for task, fate, message in
                journal("disk", "select task, code, message from attempt where start_ns > 0"))
    check([rows[i][0] for i in sorted(rows)] == [9, 0, 0, 0], str(rows))
    check("held more than the 16.0 MiB that the site allows" in rows[0][1], str(rows))
    check("held more than the 16.0 MiB" in text, text)


def a_cancelled_run_is_accounted_for():
    with Syslog() as syslog:
        job = submit("cancelled", ["true", "touch cancelled.begun; sleep 100"], wait=False)
        wait_for(lambda: os.path.exists(home("cancelled.begun")), "the run's tasks", 60)
        CLUSTER.run("scancel", job)
        check(CLUSTER.wait_job(job) == "CANCELLED", "not cancelled")
        wait_for(lambda: left() == [], "the end of the directory", 30)
    check(len(syslog.lines) == 1 and re.match(rf"job={job} user=alice uid=5001 run=cancelled tasks=\d core_hours=0\.\d", syslog.lines[0]), str(syslog.lines))


def a_run_gone_on_with_counts_once():
    """In the next job: what the first one did is not told again."""
    with Syslog() as syslog:
        first, text = submit("twice", ["sleep 2", "[ -e twice.go ]"])
        check("status 1" in text, text)
        wait_for(lambda: left() == [], "the end of the directory", 30)
        open(home("twice.go"), "w").close()
        second = CLUSTER.script(f"cd\n{PROGRAM} run --resume --run-dir twice\n", "--harrow", "-p", "fast", "-w", "node1", "-n2", "-o", "/mnt/home/alice/second.log",
                                user="alice")
        check(CLUSTER.wait_job(second, 90) == "COMPLETED", open(home("second.log")).read())
        wait_for(lambda: left() == [], "the end of the directory", 30)
    told = [re.fullmatch(r"job=(\d+) user=alice uid=5001 run=twice tasks=(\d) core_hours=(.*)", line) for line in syslog.lines]
    check(all(told), str(syslog.lines))
    check([(t[1], t[2]) for t in told] == [(first, "2"), (second, "1")], str(syslog.lines))
    check(float(told[0][3]) > float(told[1][3]) == 0, str(syslog.lines))


def every_component_has_its_own_directory():
    """One run over a heterogeneous job: tasks find the directory of their node; one line tells of all of them."""
    with open(home("het.txt"), "w") as f:
        f.write("echo $HARROW_NODE $HARROW_LOCAL $TMPDIR; sleep 1\n" * 8)
    with Syslog() as syslog:
        job = CLUSTER.script(f"cd\n{PROGRAM} run het.txt --run-dir het\n", "--harrow", "-p", "fast", "-N1", "-o", "/mnt/home/alice/het.log", ":",
                             "--harrow", "-p", "slow", "-N1", user="alice")
        wait_for(lambda: CLUSTER.out("squeue", "-h") == "", "the job's end", 90)
        for node in ("node1", "node2"):
            wait_for(lambda: left(node) == [], f"the end of the directory of {node}: {left(node)}", 30)
    logs = CLUSTER.run(PROGRAM, "logs", "--run-dir", home("het"), user="alice").stdout
    seen = set(re.findall(r"(node\d) (/\S+) (/\S+/)harrow-\w+/\d+$", logs, re.M))
    own = {"node1": f"/mnt/local/harrow/{job}", "node2": f"/mnt/local/harrow/{int(job) + 1}"}
    check(seen == {(node, local, local + "/") for node, local in own.items()}, f"{seen}\n{logs}")
    check(len(syslog.lines) == 1 and f"job={job} user=alice uid=5001 run=het tasks=8 " in syslog.lines[0], str(syslog.lines))


if __name__ == "__main__":
    del sys.argv[1:3]
    if os.getuid() != 0:
        skip("a user of the cluster besides Slurm's own takes root", "root")
    with Cluster("--nodes", "2", "--plugin", PLUGIN, "--plugin-args", POLICY, "--share", os.path.dirname(PLUGIN)) as CLUSTER:
        os.makedirs(CLUSTER.path("opt", "bin"))
        PROGRAM = CLUSTER.path("opt", "bin", "harrow")
        for program in [HARROW, *glob.glob(os.path.join(os.path.dirname(HARROW), "harrow-slurm-query"))]:
            shutil.copy(program, os.path.join(os.path.dirname(PROGRAM), os.path.basename(program)))
        for d in ("opt", "opt/bin"):
            os.chmod(CLUSTER.path(d), 0o755)
        sys.exit(run_tests([(t.__name__, t) for t in (policy_is_what_runs_do, doctor_shows_it, the_disk_of_a_node_is_limited, a_cancelled_run_is_accounted_for,
                                                      a_run_gone_on_with_counts_once, every_component_has_its_own_directory)],
                           only_long=("a_run_gone_on_with_counts_once", "every_component_has_its_own_directory")))
