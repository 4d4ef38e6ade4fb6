#!/usr/bin/env python3
"""500 sleeping tasks on 4 nodes of a test cluster, and what can die dies at random moments.

usage: slurm_lives.py HARROW SLEEPER [TEST...]
HARROW_LONG=1: all tests, 20 kills of each kind instead of one or two; HARROW_SEED: repeats one.
What a test kills it kills at once, by what it sees of the processes: a question to Slurm takes seconds on a loaded machine.

Every task is done at the end (after a resume in another job where the run's own head died), none has run again whose end was
known (kill_run.py), outputs are those of an undisturbed run, no process is left on any node."""
import calendar
import collections
import contextlib
import os
import random
import re
import sys
import time

from cluster_support import LONG, Cluster, check, run_tests, wait_for
from kill_run import ALL, LATENESS, TASKS, Kill, outputs, ran_again, something_to_lose, testimony
from run_support import Harrow, in_part, kill, lines_of, of_run, processes, query, with_word
from slurm_support import Job, states_of

HARROW, SLEEPER = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
SEED = int(os.environ.get("HARROW_SEED") or time.time_ns() % 10**9)
OPTIONS = "--progress none"
EXPECTED = (sorted(f"out {i} {what}" for i in range(TASKS) for what in ("first", "last")), sorted(f"err {i}" for i in range(TASKS)))


class Run:
    """A run that is being disturbed."""

    def __init__(self, name, *sbatch, shortest=1.0, longest=4.0, slots=40, gated=0):
        """The last `gated` tasks wait for open_gate()."""
        self.rng = random.Random(f"{SEED} {name}")
        self.name, self.kills, self.jobs, self.killed = name, [], [], collections.Counter()
        self.marker = f"harrow-marker-{os.getpid()}-{self.rng.randrange(10**9)}"
        self.directory = os.path.join(CLUSTER.home, self.marker)
        self.run_dir = os.path.join(self.directory, "r")
        os.mkdir(self.directory)
        with open(f"{self.directory}/tasks.txt", "w", encoding="utf-8") as f:
            for i in range(TASKS):
                f.write(f"while [ ! -e {self.directory}/gate ]; do sleep 0.1; done; exec " if i >= TASKS - gated else "")
                f.write(f"{SLEEPER} {self.marker} {i} {self.rng.uniform(shortest, longest):.3f} {self.directory}/witness"
                        f"{' leave' if i % 10 == 0 else ''}\n")
        order = "--order fifo" if gated else ""
        self.submit(f"run {OPTIONS} {order} --slots {slots} --run-dir r tasks.txt", *sbatch)
        wait_for(lambda: lines_of(f"{self.directory}/witness") or self.job.cluster.job_state(self.job.id) == "FAILED", "the first task", 60)

    def open_gate(self):
        with open(f"{self.directory}/gate", "w", encoding="utf-8"):
            pass

    def submit(self, arguments, *sbatch):
        self.job = Job(CLUSTER, HARROW, arguments, *sbatch, directory=self.directory, env={"HARROW_MAX_LOSSES": "1000"})
        self.jobs.append(self.job.id)

    def resume(self, *sbatch):
        wait_for(self.nothing_left, "the end of all that the last job left", 60)
        CLUSTER.idle(90, nodes=None if not sbatch else 2)
        self.submit(f"run {OPTIONS} --slots 40 --resume --run-dir r", *sbatch)

    def pause(self, least=0.1, most=2.0):
        time.sleep(self.rng.uniform(least, most))

    def goes_on(self):
        return sum(each.what == "end" for each in testimony(self.directory)) < TASKS

    def told(self):
        return "harrow ended with" in self.job.said()

    def over(self):
        return CLUSTER.job_state(self.job.id) not in ("PENDING", "CONFIGURING", "RUNNING")

    def kill_one(self, role):
        """kill -9 of a process of a role: server, agent, inner or outer warden, stepd, keeper."""
        every = processes()
        outer = of_run(self.run_dir, "agent")
        below = {pid: every[pid][0] for pid in of_run(self.run_dir, "inner") if pid in every}
        if role == "stepd":
            found = [every[pid][0] for pid in outer if pid in every]
        elif role == "outer":
            found = outer
        elif role in ("inner", "agent"):
            found = [pid for pid, parent in below.items() if (parent in outer) == (role == "inner")]
        else:
            found = of_run(self.run_dir, role)
        if found and self.goes_on():
            victim = self.rng.choice(found)
            self.died(() if role == "server" else ALL if role == "keeper" else node_of(victim))
            kill(victim)
            self.killed[role] += 1

    def died(self, nodes, when=None, unheard=1.5):
        self.kills.append(Kill(when or time.time(), nodes, unheard))

    def nothing_left(self):
        return not with_word(self.marker) and not of_run(self.run_dir, "agent") and not of_run(self.run_dir, "server")

    def finish(self, timeout=180):
        # Slurm's own end of a job waits for lost nodes.
        wait_for(lambda: self.told() or self.over(), f"{self.name}'s end", timeout)
        code = self.job.told()
        said = self.job.said()
        logs = "".join(open(os.path.join(self.run_dir, "log", name), errors="replace").read()[-1500:]
                       for name in ("server.log", "keeper.log", "srun.log") if os.path.exists(os.path.join(self.run_dir, "log", name)))
        check(code == 0, f"{self.name}: harrow ended with {code} after {len(self.kills)} kills\n{said}\n{logs}")
        check(states_of(self.run_dir) == {"done": TASKS}, f"{self.name}: {states_of(self.run_dir)}")
        ended = sorted({each.task for each in testimony(self.directory) if each.what == "end"})
        check(ended == list(range(TASKS)), f"{self.name}: only {len(ended)} tasks ended")
        again = ran_again(testimony(self.directory), self.kills)
        check(outputs(Harrow(HARROW, self.directory)) == EXPECTED, f"{self.name}: outputs differ from an undisturbed run's")
        wait_for(self.nothing_left, "the end of every process", 30)
        killed = "".join(f", {role} {times}" for role, times in self.killed.items())
        print(f"  {self.name}: {len(self.kills)} kills{killed}, {len(self.jobs)} jobs, {again} attempts more than tasks", flush=True)


def times(each):
    """How many runs make 20 kills of each kind (short: one run)."""
    return range((20 if each == 1 else 10) if LONG else 1)


# What takes a node away is killed once a run: the server notices after seconds, and until then a second kill would be
# blamed for what the first did.
def kills_of(*roles):
    def test():
        wanted, done, number = 20 if LONG else 1, collections.Counter(), 0
        while any(done[role] < wanted for role in roles):
            check(number < 3 * wanted, f"only {dict(done)} of {wanted} kills each: runs are over too soon")
            run = Run(f"{'+'.join(roles)} {number}", longest=8 if len(roles) > 1 else 4)
            wait_for(something_to_lose(run.directory), "tasks whose end is known", 60)
            for role in roles:
                run.pause(0.1, 1.2)
                run.kill_one(role)
            run.finish()
            CLUSTER.idle(90)
            done, number = done + run.killed, number + 1
        print(f"  kills: {dict(done)}", flush=True)
    return test


def slurmd():
    for number in times(2):
        run = Run(f"slurmd {number}")
        for node in run.rng.sample(["node1", "node2", "node3", "node4"], 2):
            run.pause(0.1, 1.0)
            if pid := slurmd_of(node):
                run.died((node,))
                kill(pid)
            CLUSTER.run("slurmd", "-N", node, node=node)
        run.finish()
        CLUSTER.idle(90)


def nodes(*names):
    def test():
        for number in times(1):
            run = Run(f"{len(names)} nodes killed {number}", longest=6)
            run.pause()
            lost = list(names) if len(names) > 1 else [run.rng.choice(["node2", "node3", "node4"])]
            died = {node: kill_node(run, node) for node in lost}
            wait_for_notice(run, len(lost))
            late = max(noticed(run)[node] - when for node, when in died.items())
            print(f"  noticed after {late:.1f} s; this machine is late by {LATENESS.worst:.1f} s")
            check(late <= 5 + 3 * LATENESS.worst, f"noticed after {late:.1f} s")
            run.finish()
            if LONG or len(names) > 1:
                for node in lost:
                    CLUSTER.tool("boot", node)
                CLUSTER.idle(90)
    return test


def slurmd_of(node):
    for pid, (_, words) in processes().items():
        with contextlib.suppress(OSError):
            if words[0].endswith("slurmd") and node in words and CLUSTER.state in open(f"/proc/{pid}/environ", "rb").read().decode():
                return pid
    return None


def kill_node(run, node):
    """When it was last seen alive: the command that kills it takes its time on a loaded machine."""
    pid = slurmd_of(node)
    alive = time.time()
    run.died((node,))
    with CLUSTER.start_tool("kill", node) as tool:
        while tool.poll() is None and pid in processes():
            alive = time.time()
    check(tool.returncode == 0 and pid not in processes(), f"{node} was not killed")
    return alive


def comes_back():
    """A node that is booted again gets an agent again."""
    run = Run("node comes back", slots=20, gated=300)
    run.pause()
    kill_node(run, "node3")
    wait_for_notice(run, 1)
    CLUSTER.tool("boot", "node3")
    booted = time.time_ns()
    wait_for(lambda: back_again(run, "node3") or run.told(), "an agent on the node that came back", 120)
    run.open_gate()
    run.finish()
    ((later,),) = query(run.run_dir, f"SELECT count(*) FROM attempt WHERE outcome = 1 AND start_ns > {booted} AND node IN "
                                     "(SELECT node FROM node WHERE name = 'node3')")
    check(later > 0, "no task ran on the node that came back")
    print(f"  {later} tasks ran on it later")
    CLUSTER.idle(90)


def server_said(run, what):
    """[(when, name of the node)] of the lines about a node in the server's log."""
    found = []
    for line in lines_of(in_part(run.run_dir, "log/server.log")):
        if about := re.search(f" node (\\S+) {what}", line):
            stamp = line.split()[0]
            found.append((calendar.timegm(time.strptime(stamp[:19], "%Y-%m-%dT%H:%M:%S")) + float(stamp[19:23]), about[1]))
    return found


def noticed(run):
    """When the server first gave a node nothing more, by name: unheard of, or its agent had still the time to say that it ends."""
    return {node: when for when, node in reversed(server_said(run, "is (silent|lost): "))}


def back_again(run, node):
    """When an agent of the node came, but for the first time."""
    return sorted(when for when, name in server_said(run, "(joined|is connected again)") if name == node)[1:]


def node_of(victim):
    """Where a process of a job step runs; all nodes when it cannot be told. (A slurmstepd says it by what it has started.)"""
    for pid in [victim, *(pid for pid, (parent, _) in processes().items() if parent == victim)]:
        with contextlib.suppress(OSError):
            for pair in open(f"/proc/{pid}/environ", "rb").read().split(b"\0"):
                if pair.startswith(b"SLURMD_NODENAME="):
                    return (pair.split(b"=")[1].decode(),)
    return ALL


def wait_for_notice(run, count):
    wait_for(lambda: len(noticed(run)) >= count or run.told(), "the server to notice", 30)
    check(len(noticed(run)) >= count, "\n".join(["the server did not notice:", *lines_of(in_part(run.run_dir, "log/server.log"))[-20:], run.job.said()]))


def keeper():
    for number in times(1):
        run = Run(f"keeper {number}", longest=8)
        run.pause()
        run.kill_one("keeper")
        check(run.job.code() in (137, None), run.job.said())
        run.resume()
        run.finish()


def cancelled():
    """scancel, and the next job goes on on other nodes."""
    for number in times(1):
        run = Run(f"scancel {number}", "-p", "fast", "-N2", "--no-kill", "--exclusive")
        run.pause()
        CLUSTER.run("scancel", str(run.job.id))
        CLUSTER.wait_job(run.job.id, 60)
        said = run.job.said()
        ends = query(run.run_dir, "SELECT DISTINCT outcome FROM attempts WHERE outcome NOT IN ('exited', 'interrupted', 'lost')")
        check(not ends, f"tasks that scancel ended are told as {ends}")
        run.resume("-p", "slow", "-N2", "--no-kill", "--exclusive")
        run.finish()
        check("go on with: harrow run --resume" in said, f"does not say how to go on: {said}")


def drained():
    run = Run("drained")
    CLUSTER.run("scontrol", "update", "NodeName=node3", "State=DRAIN", "Reason=test")
    run.finish()
    CLUSTER.wait_job(run.job.id)
    CLUSTER.run("scontrol", "update", "NodeName=node3", "State=RESUME")
    CLUSTER.idle()


def cut(seconds):
    def test():
        run = Run(f"network cut for {seconds} s", longest=6)
        run.pause()
        began = time.time()
        CLUSTER.tool("cut", "node3")
        time.sleep(seconds)
        CLUSTER.tool("repair", "node3")
        repaired = time.time()
        wait_for(lambda: run.told() or run.over(), "the run's end", 180)
        # What ends on the node that is cut off is kept there, and counts unless the task was given to another node meanwhile:
        # that is so where the node was taken for lost, and until its agent is there again. The other nodes are not concerned.
        check(set(noticed(run)) <= {"node3"}, f"other nodes were taken for lost: {noticed(run)}")
        if noticed(run):
            run.died(("node3",), began, max([repaired, *back_again(run, "node3")]) - began)
        run.finish()
        CLUSTER.idle(120)
    return test


def main():
    global CLUSTER
    sys.argv[1:] = sys.argv[3:]
    print("seed", SEED, flush=True)
    tests = [("server_agent", kills_of("server", "agent", "inner", "server")), ("warden", kills_of("outer")), ("stepd", kills_of("stepd"))]
    tests += [("slurmd", slurmd), ("two_nodes", nodes("node3", "node4")), ("keeper", keeper), ("scancel", cancelled), ("drained", drained),
              ("cut3", cut(3)), ("cut60", cut(60)), ("comes_back", comes_back), ("one_node", nodes("any"))]
    with Cluster("--cpus", "4", "--share", os.path.dirname(HARROW)) as CLUSTER:
        return run_tests(tests, only_long=("warden", "slurmd", "two_nodes", "keeper", "scancel", "drained", "cut60", "comes_back"))


sys.exit(main())
