"""What the tests of `harrow run --across` share: flows whose tasks say where they ran, and the command as a user types it on a login node."""
import collections
import os
import subprocess

from run_support import check, lines_of, same, wait_for, write


class Across:
    """Runs in a cluster, each in a directory of its own below the cluster's home."""

    def __init__(self, cluster, harrow, user=None):
        self.cluster, self.harrow, self.user = cluster, harrow, user

    def flow(self, name, count=240, seconds=0.2, task="", more=""):
        """`count` tasks that sleep; `task`: further keys of them, `more`: further tasks."""
        where = os.path.join(self.cluster.home, self.user or "", name)
        os.mkdir(where)
        write(f"{where}/flow.toml", f'[flow]\nname = "{name}"\n[[task]]\nname = "t{{i}}"\neach = {{ i = "0-{count - 1}" }}\n{task}\n'
              f'command = "sleep {seconds}; echo t{{i}} $SLURM_JOB_PARTITION >> ran"\n{more}')
        if self.user:
            self.cluster.run("chown", "-R", self.user, where)
        return where

    def start(self, where, *words, options=(), env=(), program="run flow.toml --run-dir r"):
        """`harrow run flow.toml --across ...`; what it says is added to the file `said`."""
        log = open(f"{where}/said", "ab")
        return self.cluster.start("env", "HARROW_CONF=/dev/null", *env, self.harrow, *program.split(), *options, "--across", *words, cwd=where,
                                  stdout=log, stderr=subprocess.STDOUT, user=self.user)

    def interrupt(self, program="run flow.toml --run-dir r"):
        """The command, not what has brought it into the cluster."""
        self.cluster.run("pkill", "-INT", "-f", f"^[^ ]*/harrow {program} ")

    def jobs(self):
        return self.cluster.out("squeue", "-h", "-o", "%i").split()


def await_said(where, text, seconds=120):
    """Until the command has said that."""
    try:
        wait_for(lambda: text in said(where), seconds)
    except AssertionError as failed:
        raise AssertionError(f"{text!r} was not said:\n{said(where)}") from failed


def said(where):
    return "\n".join(lines_of(f"{where}/said"))


def ran(where):
    """Which tasks ran, and in which partition."""
    return [tuple(line.split()) for line in lines_of(f"{where}/ran")]


def check_each_once(where, count, again=()):
    """By the tasks' own word; `again`: partitions whose job was killed, where a task may have said so and is run again."""
    times = collections.Counter(task for task, partition in ran(where) if partition not in again)
    same([task for task, n in times.items() if n > 1], [], "ran twice")
    check(len({task for task, _ in ran(where)}) == count, f"not all of {count} tasks ran:", said(where))
