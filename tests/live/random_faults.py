#!/usr/bin/env python3
"""Whole runs under faults drawn from a seed: any process of Harrow's, or two of a node at once, is killed, told to end, stopped for
shorter or longer than the fence, or an agent is cut off from the server for 0.1 to 30 seconds. Nothing is lost, no recorded attempt is
there twice, no task fails that did not fail, and every output holds what one process of one attempt wrote. Odd seeds: with files on the
nodes' own disks, where an agent may also be cut off from the other agents alone; each result is, byte for byte, what it has to be, and
nothing is left on the nodes.

usage: random_faults.py HARROW

HARROW_SEED runs one seed again; HARROW_LONG=1: 200 runs, some at a time."""
import collections
import concurrent.futures
import contextlib
import ctypes
import json
import os
import random
import re
import signal
import socket
import struct
import sys
import time

import run_support
from run_support import Harrow, check, kill, lines_of, of_run, processes, query, same, wait_for, with_word, work_dir, write

NODES, SLOTS, TASKS, LINES, FENCE = 3, 3, 18, 70, 4.0  # a task lasts longer than the fence
ROLES = {"server": 3, "inner": 4, "agent": 2, "node": 2}  # and how often each is drawn; "node": an agent and its warden, both at once
FAULTS = {"kill": 4, "stop": 5, "end": 1, "cut": 5}
LONG = bool(os.environ.get("HARROW_LONG"))


def drawn(rng, weights):
    return rng.choices(list(weights), list(weights.values()))[0]


class Cut:
    """The network between an agent and its server is gone: a socket filter lets nothing in, neither data nor acknowledgements, at both
    ends of its connection and where the server takes new ones: who dials meanwhile gets no answer either. `one`: only the connection
    that there is. `peers`: the agent can be reached by no other agent and reaches none, and all is well between it and the server. `deaf`: a cut
    in one direction, "agent" hears nothing, or the "server", and the other one hears what it says, which it is never told."""
    PIDFD_GETFD, ATTACH, DETACH = 438, 26, 27
    LIBC = ctypes.CDLL(None, use_errno=True)
    DROP_ALL = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0))  # one instruction: keep 0 bytes
    PROGRAM = struct.pack("HP", 1, ctypes.addressof(DROP_ALL))

    def __init__(self, run_dir, agent, one, peers=False, deaf=None):
        self.run_dir, self.agent, self.one, self.peers, self.deaf, self.ports, self.cut = run_dir, agent, one, peers, deaf, set(), {}
        self.hold()

    def hold(self):
        """Cuts what is connected by now: the agent has dialled again, or there is another server."""
        if self.one and self.cut:
            return
        table = {}
        with open("/proc/net/tcp", encoding="ascii") as lines:
            for line in list(lines)[1:]:
                _, local, remote, state, *_, = line.split()[:4]
                table[line.split()[9]] = (local[-4:], remote[-4:], state)
        servers = of_run(self.run_dir, "server")
        listen = {table[inode][0] for server in servers for inode, _, _ in self.sockets(server)
                  if inode in table and table[inode][2] == "0A"}
        for inode, pid, fd in self.sockets(self.agent):
            if inode in table and not (self.peers and table[inode][1] in listen):
                self.ports.add(table[inode][0])
                if self.deaf != "server":
                    self.set(inode, pid, fd)
        for server in servers if not self.peers and self.deaf != "agent" else []:
            for inode, pid, fd in self.sockets(server):
                if inode in table and (table[inode][1] in self.ports or (table[inode][2] == "0A" and not self.one)):
                    self.set(inode, pid, fd)

    def repair(self):
        for inode, (pid, fd) in self.cut.items():
            if (inode, pid, fd) in self.sockets(pid):
                with contextlib.suppress(OSError):
                    self.filter(pid, fd, self.DETACH, struct.pack("i", 0))

    @staticmethod
    def sockets(pid):
        found = []
        with contextlib.suppress(OSError):
            for fd in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    if inode := re.fullmatch(r"socket:\[(\d+)\]", os.readlink(f"/proc/{pid}/fd/{fd}")):
                        found.append((inode[1], pid, int(fd)))
        return found

    def set(self, inode, pid, fd):
        if inode not in self.cut:
            with contextlib.suppress(ProcessLookupError):
                self.filter(pid, fd, self.ATTACH, self.PROGRAM)
                self.cut[inode] = (pid, fd)

    def filter(self, pid, fd, option, value):
        handle = os.pidfd_open(pid)
        try:
            copy = self.LIBC.syscall(self.PIDFD_GETFD, handle, fd, 0)
            if copy < 0:
                error = ctypes.get_errno()
                raise OSError(error, f"no access to the sockets of process {pid}: {os.strerror(error)}")
        finally:
            os.close(handle)
        with socket.socket(fileno=copy) as theirs:
            theirs.setsockopt(socket.SOL_SOCKET, option, value)


class Faults:
    """Disturbs a run now and then, one fault after the other; what was stopped or cut goes on by itself."""

    def __init__(self, rng, run_dir, local_files=False):
        self.rng, self.run_dir, self.local_files, self.stopped, self.cuts, self.done = rng, run_dir, local_files, [], [], []
        self.servers_killed = 0

    def one(self):
        role, fault = drawn(self.rng, ROLES), drawn(self.rng, FAULTS)
        alive = of_run(self.run_dir, "inner" if role == "node" else role)
        if not alive or (fault in ("end", "cut") and role != "inner"):
            return
        if fault == "kill" and role == "server":
            if self.servers_killed == 4:  # who dies five times in a row is given up
                return
            self.servers_killed += 1
        victim = self.rng.choice(alive)
        victims = [victim]
        if role == "node":
            parent = processes().get(victim, (victim, []))[0]
            victims += {parent} & set(of_run(self.run_dir, "agent"))
        if fault == "kill":
            for each in victims:
                kill(each)
        elif fault == "end":
            kill(victim, signal.SIGTERM)
        elif fault == "cut":
            seconds = self.rng.choice([self.rng.uniform(0.1, FENCE), self.rng.uniform(0.1, FENCE), self.rng.uniform(FENCE, 30)])
            one = self.rng.random() < 0.3
            peers = self.local_files and self.rng.random() < 0.5
            fault = f"{'peers ' if peers else 'one connection ' if one else ''}cut for {seconds:.1f} s"
            self.cuts.append((time.monotonic() + seconds, Cut(self.run_dir, victim, one and not peers, peers)))
        else:
            seconds = self.rng.choice([self.rng.uniform(0.1, FENCE / 2), self.rng.uniform(FENCE / 2, 2 * FENCE)])
            fault = f"stop for {seconds:.1f} s"
            for each in victims:
                kill(each, signal.SIGSTOP)
                self.stopped.append((time.monotonic() + seconds, each))
        self.done.append(f"{role} {fault}")

    def go_on(self, now=None):
        now = time.monotonic() if now is None else now
        for due, pid in [each for each in self.stopped if each[0] <= now]:
            kill(pid, signal.SIGCONT)
            self.stopped.remove((due, pid))
        over = [each for each in self.cuts if each[0] <= now]
        self.cuts = [each for each in self.cuts if each[0] > now]
        for _, cut in over:
            cut.repair()
        for _, cut in self.cuts:  # one that is over may have opened what another one keeps shut
            if over and not cut.one:
                cut.cut.clear()
            cut.hold()


def run_with_faults(harrow, rng, count, begun, *options):
    """Runs flow.toml in r; the first fault comes when `begun`."""
    directory = harrow.cwd
    run = harrow.start("run", "--run-dir", "r", "--progress", "none", "--retries", "0", "--slots", str(SLOTS), "--local-nodes", str(NODES),
                       *options, "flow.toml")
    faults = Faults(rng, f"{directory}/r", "local" in options)
    try:
        wait_for(begun)
        next_fault = time.monotonic()
        limit = time.monotonic() + 600
        while run.poll() is None:
            now = time.monotonic()
            check(now < limit, "the run does not end", faults.done)
            faults.go_on()
            if len(faults.done) < count and now >= next_fault:
                faults.one()
                next_fault = now + rng.uniform(0.2, 2.0)
            time.sleep(0.02)
        same(run.returncode, 0, open(f"{directory}/harrow.out", encoding="utf-8").read(), faults.done)
    finally:
        faults.go_on(float("inf"))
        kill(run.pid)
        run.wait()
    return faults


def settings(tmp=None):
    env = {"HARROW_MAX_LOSSES": "1000", "HARROW_FENCE": f"{FENCE}s", "HARROW_BAD_NODE_FAILURES": "0"}
    return env | ({"TMPDIR": tmp} if tmp else {})


def one_local_run(directory, program, rng, count):
    """raw/i -> mid/i; mid/i, mid/i+1 -> pair/i; pair/* -> all: copied, never rewritten, with the task's name in front."""
    tmp = f"{directory}/tmp"
    os.mkdir(tmp)
    os.mkdir(f"{directory}/raw")
    harrow = Harrow(program, directory, settings(tmp))
    content, flow = {}, []

    def task(out, inputs, sleep, keep):
        content[out] = f"{out}\n".encode() + b"".join(content[name] for name in inputs)
        flow.append(f"""[[task]]
name = "{out}"
command = "echo begun >> {directory}/begun; sleep {sleep:.1f}; (echo {out}; cat {' '.join(inputs)}) > {out}"
in = {json.dumps(inputs)}
out = ["{out}"]
keep = {json.dumps(keep)}
""")

    for i in range(TASKS):
        content[f"raw/{i}"] = rng.randbytes(rng.choice([0, 100, 5_000, 300_000, 3_000_000]))
        with open(f"{directory}/raw/{i}", "wb") as raw:
            raw.write(content[f"raw/{i}"])
    for i in range(TASKS):
        task(f"mid/{i}", [f"raw/{i}"], rng.uniform(0, 2), False)
    for i in range(TASKS):
        task(f"pair/{i}", [f"mid/{i}", f"mid/{(i + 1) % TASKS}"], rng.uniform(0, 4), rng.random() < 0.5)
    task("all", [f"pair/{i}" for i in range(TASKS)], 0, True)
    write(f"{directory}/flow.toml", "".join(flow))
    faults = run_with_faults(harrow, rng, count, lambda: os.path.exists(f"{directory}/begun"), "--files", "local")
    run_dir = f"{directory}/r"
    same(query(run_dir, "SELECT state, count(*) FROM tasks GROUP BY state"), [("done", 2 * TASKS + 1)])
    rows = query(run_dir, "SELECT task, attempt, outcome FROM attempts")
    same([row for row, n in collections.Counter(row[:2] for row in rows).items() if n > 1], [], "recorded twice")
    results = {name for name in content if os.path.exists(f"{directory}/{name}")}
    for name in results:
        with open(f"{directory}/{name}", "rb") as result:
            check(result.read() == content[name], name, "is not what it has to be", faults.done)
    check("all" in results and not any(name.startswith("mid/") for name in results), sorted(results))
    wait_for(lambda: not os.listdir(tmp))
    return faults.done, sum(1 for row in rows if row[2] in ("lost", "interrupted"))


def one_run(directory, program, rng, count):
    marker = f"harrow-marker-{os.getpid()}-{rng.randrange(10**9)}"
    harrow = Harrow(program, directory, settings())
    os.mkdir(f"{directory}/out")
    # A line at a time, so that two attempts, or two processes of one, that write at once are seen.
    write(f"{directory}/flow.toml", f"""[[task]]
name = "t{{i}}"
each = {{ i = "1-{TASKS}" }}
command = ["sh", "-c", "n=0; while [ $n -lt {LINES} ]; do echo $HARROW_ATTEMPT $$ >> out/$0; n=$((n+1)); sleep 0.1; done", "{{i}}", "{marker}"]
out = ["out/{{i}}"]
""")
    faults = run_with_faults(harrow, rng, count, lambda: os.listdir(f"{directory}/out"))
    run_dir = f"{directory}/r"
    same(query(run_dir, "SELECT state, count(*) FROM tasks GROUP BY state"), [("done", TASKS)])
    rows = query(run_dir, "SELECT task, attempt, outcome FROM attempts")
    twice = [row for row, n in collections.Counter(row[:2] for row in rows).items() if n > 1]
    same(twice, [], "recorded twice")
    outcomes = collections.Counter(row[2] for row in rows)
    check(set(outcomes) <= {"exited", "lost", "interrupted"}, outcomes)
    same(outcomes["exited"], TASKS, "each task ended once")
    for task, attempt, outcome in rows:
        if outcome == "exited":
            wrote = lines_of(f"{directory}/out/{int(task)}" if str(task).isdigit() else f"{directory}/out/{task[1:]}")
            same([line.split()[0] for line in wrote], [str(attempt)] * LINES, f"the output of {task} is what its attempt {attempt} wrote",
                 faults.done)
            same(len(set(wrote)), 1, f"one process wrote the output of {task}", wrote, faults.done)
    wait_for(lambda: not with_word(marker))
    return faults.done, outcomes["lost"] + outcomes["interrupted"]


def main():
    program = os.path.abspath(sys.argv[1])
    given = os.environ.get("HARROW_SEED")
    first = int(given or time.time_ns() % 10**9)
    runs = 1 if given else 200 if LONG else 4

    def run(seed):
        print("seed", seed, flush=True)
        with work_dir() as directory:
            kind = one_local_run if seed % 2 else one_run
            done, lost = kind(directory, program, random.Random(seed), 6)
        print(f"  seed {seed}: {len(done)} faults ({', '.join(done)}), {lost} attempts lost", flush=True)
        return done

    # Runs wait most of the time.
    with concurrent.futures.ThreadPoolExecutor(3 if LONG else 1) as pool:
        faults = [fault for done in pool.map(run, range(first, first + runs)) for fault in done]
    check(len(faults) >= runs, "next to no faults: the runs were over before")


if __name__ == "__main__":
    run_support.tell(main)
