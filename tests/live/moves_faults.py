#!/usr/bin/env python3
"""Tasks with checkpoints are moved to and fro, between nodes and between allocations, while what carries them is killed, stopped and cut
off, also in one direction only, at moments of a move that a seed draws: asked, the signal is there, the task writes, what it left is digested, its attempt is recorded,
the other server takes it, it goes on. Each task ends once with the value of an undisturbed run; it never goes on from less than its last
recorded checkpoint, nor from half of one; no two of its attempts write at once; nothing is left behind.

usage: moves_faults.py HARROW MOVE_FAULTS [test_...]     MOVE_FAULTS: the library of tests/support/move_faults.c, or -

HARROW_SEED runs one seed again; HARROW_LONG=1: 100 moves a seed, and more seeds. Tasks of CRIU take part where there is one of version 4."""
import collections
import contextlib
import glob
import json
import os
import random
import signal
import sys
import time

import run_support
from criu import real_criu
from join_support import SOON, age, query
from random_faults import Cut, drawn
from run_support import Harrow, Skipped, check, kill, lines_of, of_run, processes, same, wait_for, with_word, write

LONG = bool(os.environ.get("HARROW_LONG"))
MOVES = 100 if LONG else 6
FENCE = 2.0
EXITED, LOST, CHECKPOINTED, DONE = 1, 8, 11, 1  # as the journal has outcomes and fates
PAUSE = 0.05  # seconds a step, until the file `finish` is there

# How a task is asked: by a signal, also behind a shell; by a file, with a set of files; not at all, as it writes by itself. `held`: CRIU.
SHAPES = ("signal", "shell", "file", "alone", "every", "held")
PHASES = ("asked", "signal", "writing", "left", "recorded", "went on", "whenever")
KILLS = {"inner": 4, "agent": 2, "node": 2, "server": 3, "all": 1}
FAULTS = {"kill": 5, "stop": 3, "cut": 2, "in server": 2}

# What it says goes to a log that is only added to: whose lines stand between another's wrote at the same time. A checkpoint is two files
# that are written bit by bit; each tells by every byte of which step it is.
WRITER = """import os, signal, sys, time
shape, steps, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
PARTS, SIZE = 4, 1 << 20
where, attempt = os.environ["HARROW_CHECKPOINT_DIR"], os.environ["HARROW_ATTEMPT"]
log = os.open(out + ".log", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
def say(*words):
    os.write(log, (" ".join(map(str, (attempt, os.getpid(), *words))) + "\\n").encode())
def content(step, value):
    return f"{step:08d}{value:08d}".encode() * (SIZE // 16)
def give_up(*why):
    say("half", *why)
    sys.exit(3)
begin = value = 0
restart = os.environ.get("HARROW_RESTART")
if restart:
    names = ("state.a", "state.b")
    if shape == "alone":
        step = restart.split(".")[-2]
        names = (f"state.{step}.a", f"state.{step}.b")
    for name in names:
        with open(f"{where}/{name}", "rb") as f:
            found = f.read()
        if name == names[0]:
            begin, value = int(found[:8]), int(found[8:16])
        if found != PARTS * content(begin, value):
            give_up(name, len(found))
say("begin", begin, os.environ["HARROW_NODE"])
asked = []
name = os.environ.get("HARROW_CHECKPOINT_SIGNAL")
if name:
    signal.signal(getattr(signal, "SIG" + name), lambda *_: asked.append(1))
request = os.environ.get("HARROW_CHECKPOINT_REQUEST")
def save(*names):
    for name in names:
        with open(f"{where}/{name}", "wb") as f:
            for _ in range(PARTS):
                f.write(content(step, value))
                f.flush()
                time.sleep(0.005)
for step in range(begin + 1, steps + 1):
    time.sleep(0 if os.path.exists("finish") else PAUSE)
    value = (value * 31 + step) % 1000003
    say("step", step, value)
    if shape == "alone" and step % 25 == 0:
        say("writing", step)
        for old in (step - 50, step - 75):
            for kind in "ab":
                if os.path.exists(f"{where}/state.{old}.{kind}"):
                    os.unlink(f"{where}/state.{old}.{kind}")
        save(f"state.{step}.a", f"state.{step}.b")
        say("wrote", step)
    if request and os.path.exists(request):
        asked.append(1)
    if asked:
        say("signal")
        say("writing", step)
        save("state.a", "state.b")
        say("left", step)
        sys.exit(85)
with open(out, "w") as f:
    f.write(f"{value}\\n")
say("done", steps)
"""
# Knows its state by heart, and has a file open all the time. Who it is tells the calendar time when its process was made: a restored one was
# made anew, though it has the number, and by the clock of its namespace nearly the time, of the one that was dumped.
HELD = """import os, sys, time
steps, out = int(sys.argv[1]), sys.argv[2]
born = 0.0
def who():
    global born
    with open("/proc/self/stat") as f:
        ticks = int(f.read().rpartition(")")[2].split()[19])
    now = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK")
    if abs(now - born) > 0.1:
        born = now
    return f"{born:.3f}"
def say(*words):
    with open(out + ".log", "a") as f:
        f.write(" ".join(map(str, (0, who(), *words))) + "\\n")
value = 0
say("begin", 0, "-")
with open(out + ".steps", "w") as log:
    for step in range(1, steps + 1):
        time.sleep(0 if os.path.exists("finish") else PAUSE)
        value = (value * 31 + step) % 1000003
        print(step, value, file=log, flush=True)
        say("step", step, value)
with open(out, "w") as f:
    f.write(f"{value}\\n")
say("done", steps)
"""


def values(steps):
    found = [0]
    for step in range(1, steps + 1):
        found.append((found[-1] * 31 + step) % 1000003)
    return found


def flow_of(rng, shapes):
    """Some end while others are moved still. Their steps, and the flow."""
    steps, flow = {}, ""
    for number, shape in enumerate(shapes):
        name = f"{shape}{number}"
        steps[name] = 100 + int(MOVES * rng.uniform(*((0.2, 2.0) if number % 2 else (4.0, 8.0))) / PAUSE)
        command = ["python3", "writer.py", shape, str(steps[name]), name]
        more = 'checkpoint = "app"\ncheckpoint_files = ["state.a", "state.b"]\n'
        if shape == "shell":
            command = f"true; python3 writer.py {shape} {steps[name]} {name}; exit $?"
        elif shape == "file":
            more += 'checkpoint_ask = "file"\n'
        elif shape == "alone":
            more = 'checkpoint = "app"\ncheckpoint_ask = "none"\ncheckpoint_files = ["state.*.a", "state.*.b"]\n'
        elif shape == "every":
            more += 'checkpoint_every = "2s"\n'
        elif shape == "held":
            command, more = ["python3", "held.py", str(steps[name]), name], 'checkpoint = "criu"\n'
        flow += f'[[task]]\nname = "{name}"\ncommand = {json.dumps(command)}\nout = ["{name}"]\n{more}'
    return steps, flow


class Moved:
    """A run of which the parts are these, and what has been done to it."""

    def __init__(self, directory, program, library, seed):
        self.directory, self.path, self.rng = directory, f"{directory}/r", random.Random(seed)
        self.done, self.stopped, self.cuts, self.keepers, self.inflicted = [], [], [], [], collections.Counter()
        self.faults = f"{directory}/faults"
        os.mkdir(self.faults)
        for name, text in (("writer.py", WRITER), ("held.py", HELD)):
            write(f"{directory}/{name}", text.replace("PAUSE", str(PAUSE)))
        shapes = list(SHAPES)
        env = {"HARROW_MAX_LOSSES": "1000", "HARROW_FENCE": f"{FENCE}s", "HARROW_BAD_NODE_FAILURES": "0", "HARROW_RETRIES": "0"}
        try:
            env["HARROW_CRIU"] = real_criu()
        except Skipped as why:
            print("  without tasks of CRIU:", why)
            shapes.remove("held")
        self.library = library
        if library:
            env |= {"LD_PRELOAD": library, "MOVE_FAULTS": self.faults}
        self.harrow = Harrow(program, directory, env)
        self.steps, flow = flow_of(self.rng, shapes if not LONG else shapes * 2)
        write(f"{directory}/flow.toml", flow)

    def start(self, *args):
        self.keepers.append(self.harrow.start(*args))
        part = len(self.keepers) - 1
        wait_for(lambda: os.path.exists(f"{self.path}/{part}/server"))

    def part(self, number):
        return self.path if number == 0 else f"{self.path}/{number}"

    # --- what tasks have said

    def log(self, name):
        return [line.split(" ") for line in lines_of(f"{self.directory}/{name}.log")]

    def over(self, name):
        return os.path.exists(f"{self.directory}/{name}") and "done" in [words[2] for words in self.log(name)[-1:]]

    def said(self, name, mark, word):
        return any(words[2] == word for words in self.log(name)[mark:])

    # --- faults

    def victims(self, part, kind):
        if kind == "all":
            keeper = self.keepers[part].pid
            return [pid for pid, (parent, _) in processes().items() if parent == keeper]
        if kind != "node":
            found = of_run(self.part(part), kind)
            return [self.rng.choice(found)] if found else []
        wardens = of_run(self.part(part), "agent")
        below = {self.rng.choice(wardens)} if wardens else set()
        tree = processes()
        while more := {pid for pid, (parent, _) in tree.items() if parent in below} - below:
            below |= more
        return sorted(below)

    def inflict(self, fault):
        part = self.rng.randrange(len(self.keepers))
        if fault == "kill":
            kind = drawn(self.rng, KILLS)
            # Who dies five times in a row, each soon after its start, is given up.
            with contextlib.suppress(OSError):
                if kind in ("server", "all") and any(age(pid) < SOON + 0.5 for pid in of_run(self.part(part), "server")):
                    kind = "inner"
            for pid in self.victims(part, kind):
                kill(pid)
            self.inflicted[f"kill {kind}"] += 1
            self.done.append(f"{kind} of {part} killed")
        elif fault == "stop":
            kind, seconds = self.rng.choice(("inner", "inner", "server", "agent")), self.rng.choice((self.rng.uniform(0.1, 1), self.rng.uniform(1, 2 * FENCE)))
            for pid in self.victims(part, kind):
                kill(pid, signal.SIGSTOP)
                self.stopped.append((time.monotonic() + seconds, pid))
            self.inflicted[f"stop {kind}"] += 1
            self.done.append(f"{kind} of {part} stopped for {seconds:.1f} s")
        elif fault == "cut":
            between = len(self.keepers) > 1 and self.rng.random() < 0.5
            found, seconds = self.victims(1 if between else part, "server" if between else "inner"), self.rng.uniform(0.1, 2 * FENCE)
            deaf = self.rng.choice((None, "agent", "server"))
            if found:
                self.cuts.append((time.monotonic() + seconds, Cut(self.part(0 if between else part), found[0], False, deaf=deaf)))
                self.inflicted[f"cut {'between servers' if between else 'of an agent'}, {f'{deaf} deaf' if deaf else 'both ways'}"] += 1
            who, other = ("server of 1", "server of 0") if between else (f"agent of {part}", f"server of {part}")
            self.done.append(f"{who} cut off for {seconds:.1f} s" + (f", as only {who if deaf == 'agent' else other} hears nothing" if deaf else ""))

    def go_on(self, now=None):
        now = time.monotonic() if now is None else now
        for each in [each for each in self.stopped if each[0] <= now]:
            kill(each[1], signal.SIGCONT)
            self.stopped.remove(each)
        over = [cut for due, cut in self.cuts if due <= now]
        self.cuts = [each for each in self.cuts if each[0] > now]
        for cut in over:
            cut.repair()
        for _, cut in self.cuts:  # one that is over may have opened what another one keeps shut
            if over:
                cut.cut.clear()
            cut.hold()

    def soon(self, what, seconds):
        """Whether that was so within some time; it is a moment that is waited for, not an outcome."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if what():
                return True
            self.go_on()
            time.sleep(0.005)
        return False

    # --- moves

    def move(self, name, to):
        """True: it was taken."""
        rng = self.rng
        phase, fault, late = rng.choice(PHASES), drawn(rng, FAULTS), rng.uniform(0, 0.05)
        if fault == "in server":
            points = [f"{what}.{when}" for what in ("offered", "taken", "confirmed") for when in ("before", "after", "told")]
            fault, point = (fault, rng.choice(points)) if self.library and len(self.keepers) > 1 else ("kill", None)
        mark = len(self.log(name))
        answer = self.harrow("move", "--run-dir", "r", name, "--to", to)
        if answer.code != 0:
            return False
        self.done.append(f"{name} to {to}, {phase} +{late * 1000:.0f} ms")
        self.inflicted[f"in {phase}" if fault != "in server" else "in server"] += 1
        if fault == "in server":
            write(f"{self.faults}/{point}", "")
            self.done.append(point)
        elif phase == "recorded":
            self.soon(lambda: self.said(name, mark, "left"), 2)
            late *= 8
        elif phase == "went on":
            self.soon(lambda: self.said(name, mark, "begin"), 3)
        elif phase == "whenever":
            late *= 20
        elif phase != "asked":
            self.soon(lambda: self.said(name, mark, phase), 2)
        self.soon(lambda: False, late)
        self.inflict(fault)
        self.soon(lambda: self.said(name, mark, "begin") or self.over(name), 3 * rng.random())
        for left in os.listdir(self.faults):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{self.faults}/{left}")
        return True

    def move_about(self, destinations):
        """Tasks that have not ended, until there were so many moves."""
        moves, limit = 0, time.monotonic() + 30 + 20 * MOVES
        while moves < MOVES and (live := [name for name in self.steps if not self.over(name)]):
            if any(keeper.poll() is not None for keeper in self.keepers):
                break  # which end() judges
            check(time.monotonic() < limit, "the moves do not come about", self.done)
            moves += 1 if self.move(self.rng.choice(live), self.rng.choice(destinations)) else 0
            self.go_on()
        return moves

    def end(self):
        self.go_on(float("inf"))
        write(f"{self.directory}/finish", "")
        same([keeper.wait(180) for keeper in self.keepers], [0] * len(self.keepers), *lines_of(f"{self.directory}/harrow.out"))

    # --- what must hold

    def rows(self, sql):
        return [row for part in range(len(self.keepers)) for row in query(self, part, sql)]

    def check_task(self, number, name, recorded):
        steps = self.steps[name]
        right, log = values(steps), self.log(name)
        same(lines_of(f"{self.directory}/{name}"), [str(right[steps])], name)
        same([words for words in log if words[2] == "half"], [], name, "went on from half a checkpoint")
        blocks = [words[1] for at, words in enumerate(log) if at == 0 or log[at - 1][1] != words[1]]
        same([who for who, count in collections.Counter(blocks).items() if count > 1], [], name, "wrote at the same time as another of its attempts")
        same([words for words in log if words[2] == "step" and int(words[4]) != right[int(words[3])]], [], name)
        ends = [(attempt, outcome, code) for task, attempt, outcome, code in recorded if task == number]
        same([attempt for attempt, count in collections.Counter(attempt for attempt, _, _ in ends).items() if count > 1], [], name, "recorded twice", ends)
        succeeded = [attempt for attempt, outcome, code in ends if (outcome, code) == (EXITED, 0)]
        same(len(succeeded), 1, name, "ended", ends)
        same(max(attempt for attempt, _, _ in ends), succeeded[0], name, "went on after its end", ends)
        if name.startswith("held"):
            same(lines_of(f"{self.directory}/{name}.steps"), [f"{step} {right[step]}" for step in range(1, steps + 1)], name)
            return
        same(log[-1][0], str(succeeded[0]), name, "ran on after its recorded end")
        checkpointed = {attempt for attempt, outcome, _ in ends if outcome == CHECKPOINTED}
        least, could = 0, {0}
        for attempt, _, word, *more in log:
            if word == "begin":
                begin = int(more[0])
                check(begin in could, name, "began at", begin, "and left", sorted(could))
                check(begin >= least, name, "began at", begin, "after a checkpoint at", least)
                least = begin
            elif word in ("left", "wrote"):
                could.add(int(more[0]))
                if word == "left" and int(attempt) in checkpointed:
                    least = int(more[0])

    def check(self):
        names = list(self.steps)
        fates = sorted(self.rows("SELECT task, fate FROM fate"))
        same(fates, [(number, DONE) for number in range(len(names))], "each is done once")
        recorded = self.rows("SELECT task, attempt, outcome, code FROM attempt")
        for number, name in enumerate(names):
            self.check_task(number, name, recorded)
        same(glob.glob(f"{self.path}/checkpoints/*"), [], "checkpoints that were left")
        same(glob.glob(f"{self.path}/*/log/*.tmp"), [], "directories of nodes that were left")
        wait_for(lambda: not [pid for script in ("writer.py", "held.py") for pid in with_word(script) if self.is_mine(pid)])
        return collections.Counter(outcome for _, _, outcome, _ in recorded)

    def is_mine(self, pid):
        with contextlib.suppress(OSError):
            return os.readlink(f"/proc/{pid}/cwd") == os.path.realpath(self.directory)
        return False

    def stop(self):
        self.go_on(float("inf"))
        for keeper in self.keepers:
            if keeper.poll() is None:
                keeper.terminate()
        for keeper in self.keepers:
            with contextlib.suppress(Exception):
                keeper.wait(60)
            kill(keeper.pid)
            keeper.wait()


def disturbed(directory, program, library, begin):
    """A run for each seed; begin(moved) starts it, and tells where tasks may be moved to."""
    given = os.environ.get("HARROW_SEED")
    first = int(given or time.time_ns() % 10**6)
    for seed in range(first, first + (5 if LONG and not given else 1)):
        print("HARROW_SEED =", seed, flush=True)
        below = f"{directory}/{seed}"
        os.mkdir(below)
        began = time.monotonic()
        moved = Moved(below, program, library, seed)
        try:
            destinations = begin(moved)
            wait_for(lambda: all(moved.log(name) for name in moved.steps))
            moves = moved.move_about(destinations)
            moved.end()
            outcomes = moved.check()
        except BaseException:
            print("what was done:", *moved.done, sep="\n  ")
            raise
        finally:
            moved.stop()
        print(f"  seed {seed}: {moves} moves, {outcomes[CHECKPOINTED]} attempts left a checkpoint, {outcomes[LOST]} were lost, {time.monotonic() - began:.0f} s", flush=True)
        print("  " + ", ".join(f"{count} {what}" for what, count in sorted(moved.inflicted.items())), flush=True)
        check(moves >= MOVES // 2, "next to no moves: the tasks were over before")


def nodes_of(moved):
    known = json.loads(moved.harrow("status", "--nodes", "--json", "--run-dir", "r").out or "{}").get("nodes") or []
    return [node["name"] for node in known]


def test_between_nodes(directory, program, library):
    del library  # no other server takes anything

    def begin(moved):
        slots = len(moved.steps)
        moved.start("run", "flow.toml", "--run-dir", "r", "--slots", str(slots), "--local-nodes", "2")
        wait_for(lambda: len(nodes_of(moved)) == 2)
        return nodes_of(moved)

    disturbed(directory, program, "", begin)


def test_between_allocations(directory, program, library):
    def begin(moved):
        slots = len(moved.steps)
        moved.start("run", "flow.toml", "--run-dir", "r", "--slots", str(slots))
        moved.start("join", "r", "--slots", str(slots))
        return ["0", "1"]

    disturbed(directory, program, library, begin)


if __name__ == "__main__":
    run_support.tell(lambda: run_support.tests_of(sys.modules[__name__], os.path.abspath(sys.argv[1]), "" if sys.argv[2] == "-" else os.path.abspath(sys.argv[2])))
