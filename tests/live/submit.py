#!/usr/bin/env python3
"""Tasks that are submitted to a run that goes on: from its tasks and from outside, while its processes are killed, and resumed.

usage: submit.py HARROW"""
import collections
import os
import subprocess
import sys
import threading

import run_support
from run_support import Harrow, check, in_part, kill, lines_of, of_run, query, same, wait_for, write

# It goes on until the file `go` exists.
HELD = """[[task]]
name = "held"
command = "until test -e $HARROW_SUBMIT_DIR/go; do sleep 0.05; done"
out = ["held.out"]
missing_ok = true
"""


class Held:
    def __init__(self, directory, program, *options, flow=HELD, slots=2):
        self.directory = directory
        self.harrow = Harrow(program, directory)
        write(f"{directory}/flow.toml", flow)
        self.process = self.harrow.start("run", "flow.toml", "--run-dir", "r", "--slots", str(slots), *options)
        wait_for(lambda: os.path.exists(in_part(f"{directory}/r", "server")))

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.go()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.terminate()
            self.process.wait()

    def part(self, _):
        """As of join_support.Run."""
        return f"{self.directory}/r"

    def go(self):
        write(f"{self.directory}/go", "")

    def submit(self, *args, code=0, **more):
        return self.harrow("submit", "--run-dir", "r", *args, code=code, **more)

    def end(self, code=0):
        self.go()
        same(self.process.wait(180), code, "the run")


def successes(directory):
    """How often each task succeeded, by name."""
    rows = query(f"{directory}/r", "SELECT task FROM attempts WHERE outcome = 'exited' AND code = 0")
    return collections.Counter(name for (name,) in rows)


def test_tasks_are_added_and_run(directory, program):
    with Held(directory, program) as run:
        same(run.submit("sh", "-c", "echo one two > 'a b'").out, "#2\n")
        same(run.submit("--name", "second", "--after", "#2", "cat", "a b").out, "second\n")
        same(run.submit("--name", "third", "--after-any", "held,second", "true").out, "third\n")
        write(f"{directory}/more.toml", '[[task]]\nname = "p"\ncommand = "echo p > p.out"\nout = ["p.out"]\n'
              '[[task]]\nname = "q"\ncommand = "cat p.out > q.out"\nin = ["p.out"]\nout = ["q.out"]\n')
        same(run.submit("--file", "more.toml", "--after", "second").out, "p\nq\n")
        same(run.submit("--file", "-", stdin="echo l1\necho l2\n").out, "#7\n#8\n")
        wait_for(lambda: os.path.exists(f"{directory}/q.out"))
        run.end()
        same(lines_of(f"{directory}/q.out"), ["p"])
        same(run.harrow("logs", "--run-dir", "r", "second", code=0).out, "one two\n")
        same(run.harrow("logs", "--run-dir", "r", "#8", code=0).out, "l2\n")
        report = run.harrow("status", "--run-dir", "r", code=0).out
        check("8" in report, report)
        same(run.submit("true", code=2).err, "harrow: the run in r is over, and takes no more tasks\n")


def test_what_is_wrong_is_told(directory, program):
    with Held(directory, program) as run:
        same(run.submit("--after", "hold", "true", code=2).err, "harrow: no task 'hold' in this run; did you mean 'held'?\n")
        run.submit("--name", "n", "true")
        same(run.submit("--name", "n", "true").out, "n\n", "the same is no other")
        check("it is another one" in run.submit("--name", "n", "false", code=2).err)
        check("no command" in run.submit(code=2).err)
        check("not both" in run.submit("--file", "flow.toml", "true", code=2).err)
        write(f"{directory}/wrong.toml", '[[task]]\nname = "w"\ncommand = "true"\nout = ["held.out"]\n')
        check("held.out is written by task held already" in run.submit("--file", "wrong.toml", code=2).err)
        check("wrong2.toml:2" in run.submit("--file", write(f"{directory}/wrong2.toml", '[[task]]\nnam = "w"\n'), code=2).err)
        check("no run in" in run.harrow("submit", "--run-dir", "elsewhere", "true", code=2).err)
        run.end()
        same(successes(directory), {"held": 1, "n": 1})


def test_a_failed_prerequisite_skips_what_is_submitted(directory, program):
    with Held(directory, program, "--retries", "0") as run:
        run.submit("--name", "fails", "false")
        wait_for(lambda: run.harrow("status", "--run-dir", "r", "--failed").out.count("fails"))
        run.submit("--name", "skipped", "--after", "fails", "true")
        run.submit("--name", "runs", "--after-any", "fails", "true")
        run.end(code=1)
        same(successes(directory), {"held": 1, "runs": 1})


def test_tasks_make_tasks(directory, program):
    """A tree of 3 x 3 x 3, each leaf run once: every task submits its children itself."""
    write(f"{directory}/node.sh", f"""#!/bin/sh
echo "$1" >> ran
test ${{#1}} -ge 4 && exit 0
for i in 1 2 3; do {program} submit --name "$1$i" ./node.sh "$1$i" || exit 1; done
""", 0o755)
    harrow = Harrow(program, directory)
    write(f"{directory}/tasks.txt", "./node.sh t\n")
    harrow("run", "tasks.txt", "--run-dir", "r", code=0)
    ran = lines_of(f"{directory}/ran")
    same(len(ran), 1 + 3 + 9 + 27)
    same(len(set(ran)), len(ran))


def test_nothing_acknowledged_is_lost(directory, program):
    """Clients submit while server, agent and keeper are killed; the run is resumed where it has to be."""
    with Held(directory, program) as run:
        said, stop = [], threading.Event()

        def client(number):
            count = 0
            while not stop.is_set():
                name = f"c{number}-{count}"
                result = run.harrow("submit", "--run-dir", "r", "--name", name, "sh", "-c", f"echo {name} >> ran")
                if result.code == 0:
                    said.append(name)
                    count += 1
                elif "is over" not in result.err:
                    check("ending" in result.err or "answer" in result.err, result)

        clients = [threading.Thread(target=client, args=(n,)) for n in range(3)]
        for each in clients:
            each.start()
        try:
            for role in ("server", "agent", "server", "inner", "server"):
                before = len(said)
                wait_for(lambda: len(said) >= before + 5)
                pids = wait_for(lambda: of_run(f"{directory}/r", role))
                kill(pids[0])
        finally:
            stop.set()
            for each in clients:
                each.join()
        kill(wait_for(lambda: of_run(f"{directory}/r", "keeper"))[0])
        run.process.wait(60)
        wait_for(lambda: not of_run(f"{directory}/r", "server") and not of_run(f"{directory}/r", "agent"))
        run.go()
        # With the flow named again, as a job's script that is requeued does.
        run.harrow("run", "--resume", "--run-dir", "r", "flow.toml", code=0)
        done = successes(directory)
        same(sorted(name for name in done if name.startswith("c")), sorted(set(done) - {"held"}))
        check(set(said) <= set(done), "lost:", sorted(set(said) - set(done)))
        check(max(done.values()) == 1, "succeeded twice:", done)
        # And once more, from the flow that the run has by now.
        run.harrow("run", "--resume", "--run-dir", "r", code=0)
        same(successes(directory), done)


def test_files_on_nodes(directory, program):
    """Submitted tasks read what others left on the nodes, and run on several."""
    with Held(directory, program, "--local-nodes", "2", "--files", "local") as run:
        write(f"{directory}/a.toml", '[[task]]\nname = "a"\ncommand = "echo a > a.out"\nout = ["a.out"]\n')
        write(f"{directory}/b.toml", '[[task]]\nname = "b"\ncommand = "cat a.out a.out > b.out"\nin = ["a.out"]\nout = ["b.out"]\n')
        run.submit("--file", "a.toml")
        run.submit("--file", "b.toml")
        run.end()
        same(lines_of(f"{directory}/b.out"), ["a", "a"])


if __name__ == "__main__":
    run_support.tell(lambda: run_support.tests_of(sys.modules[__name__], os.path.abspath(sys.argv[1])))
