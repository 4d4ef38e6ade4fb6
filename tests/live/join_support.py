"""Runs in several allocations, here on one machine: what their tests share."""
import collections
import contextlib
import os
import signal
import sqlite3
import subprocess
import time

from run_support import Harrow, check, kill, lines_of, of_run, same, wait_for, write

FENCE = 2
SOON = 2  # seconds: a server that dies within so many of its start, five times in a row, is not started again


class Run:
    """A run `r` of which the first allocation has so many slots. Every task says so in `ran` when it has done its work."""

    def __init__(self, directory, program, flow, slots=2, *options, env=None):
        self.directory, self.path = directory, f"{directory}/r"
        self.harrow = Harrow(program, directory, env)
        write(f"{directory}/harrow.conf", f'fence = "{FENCE}s"\n')
        write(f"{directory}/flow.toml", flow)
        self.harrow.env["PART"] = "0"  # of the tasks that it runs
        self.keepers = [self.harrow.start("run", "flow.toml", "--run-dir", "r", "--slots", str(slots), *options)]
        wait_for(lambda: os.path.exists(f"{self.path}/0/server"))

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        for keeper in self.keepers:
            if keeper.poll() is None:
                if kind is None:
                    keeper.terminate()
                else:
                    keeper.send_signal(signal.SIGTERM)
        for keeper in self.keepers:
            try:
                keeper.wait(60)
            except subprocess.TimeoutExpired:
                keeper.kill()
                keeper.wait()

    def join(self, slots=2, *options):
        part = len(self.keepers)
        self.harrow.env["PART"] = str(part)
        self.keepers.append(self.harrow.start("join", "r", "--slots", str(slots), *options))
        wait_for(lambda: os.path.exists(f"{self.path}/{part}/server"))

    def part(self, number):
        """As of_run names its processes."""
        return self.path if number == 0 else f"{self.path}/{number}"

    def wait(self, *codes, within=180):
        same([keeper.wait(within) for keeper in self.keepers], list(codes), "exit statuses", *lines_of(f"{self.directory}/harrow.out"))

    def stop(self):
        """All allocations end, by SIGTERM; with which statuses."""
        for keeper in self.keepers:
            keeper.terminate()
        return [keeper.wait(60) for keeper in self.keepers]

    def rows(self, sql):
        """Of all parts' journals together."""
        return [row for part in range(len(self.keepers)) for row in query(self, part, sql)]

    def check_each_once(self, tasks):
        """In the record and by the tasks' own word: no task more than once, and none lost."""
        ran = collections.Counter(lines_of(f"{self.directory}/ran"))
        same(sorted(ran), sorted(tasks), "what ran")
        same({task: n for task, n in ran.items() if n > 1}, {}, "what ran twice")
        succeeded = collections.Counter(self.rows("SELECT task FROM attempt WHERE outcome = 1 AND code = 0"))
        same(len(succeeded), len(ran), "recorded successes")
        same([task for task, n in succeeded.items() if n > 1], [], "recorded twice")


def independent(count, seconds):
    return (f'[[task]]\nname = "t{{i}}"\neach = {{ i = "0-{count - 1}" }}\n'
            f'command = "sleep {seconds}; echo t{{i}} >> ran"\n')


def names(count):
    return [f"t{i}" for i in range(count)]


def chains(count, length, seconds):
    """Each link reads what the one before has written."""
    text = ""
    for link in range(length):
        before = f'in = ["c{{i}}.{link - 1}"]\n' if link else ""
        test = f"test -s c{{i}}.{link - 1}; " if link else ""
        text += (f'[[task]]\nname = "l{link}.{{i}}"\neach = {{ i = "0-{count - 1}" }}\n{before}out = ["c{{i}}.{link}"]\n'
                 f'command = "set -e; {test}sleep {seconds}; echo x > c{{i}}.{link}; echo l{link}.{{i}} >> ran"\n')
    return text


def query(run, part, sql):
    with contextlib.closing(sqlite3.connect(f"file:{run.path}/{part}/journal.db?mode=ro", uri=True)) as db:
        return db.execute(sql).fetchall()


def age(pid):
    """Seconds since it was started."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
        ticks = int(f.read().rpartition(")")[2].split()[19])
    with open("/proc/uptime", encoding="utf-8") as f:
        return float(f.read().split()[0]) - ticks / os.sysconf("SC_CLK_TCK")


def kill_now_and_then(run, rng, times, pause, *kinds):
    """kill -9 of these processes (as of_run names them) of some allocation, so often, each up to `pause` seconds after the one before."""
    killed = collections.Counter()
    for _ in range(times):
        time.sleep(rng.uniform(0, pause))  # the moment is what is drawn
        part, kind = rng.randrange(len(run.keepers)), rng.choice(kinds)
        over = lambda part=part: run.keepers[part].poll() is not None
        if kind == "server" and killed[part] == 4:  # a fifth in a row ends the keeper
            wait_for(lambda part=part, over=over: over() or settled(run, [part]))
            killed[part] = 0
        killed[part] += kind == "server"
        for pid in [] if over() else of_run(run.part(part), kind):
            kill(pid)


def settled(run, parts):
    """All of these have a server, which has lived long enough to be no one that dies at its start."""
    try:
        found = [of_run(run.part(part), "server") for part in parts]
        return all(len(servers) == 1 and age(servers[0]) > SOON for servers in found)
    except (OSError, IndexError):
        return False
