#!/usr/bin/env python3
"""status, logs -f, explain and cancel while a run goes on, and when its server or keeper is killed.

usage: cli_running.py HARROW"""
import json
import os
import signal
import subprocess
import sys

from run_support import lines_of, Harrow, check, in_part, kill, of_run, recorded, same, tests_of, tell, wait_for, write

# `first` and `held`, which prints, run until the file `go` exists; `waits` needs `first`.
FLOW = """[[task]]
name = "fails"
command = "echo it went wrong >&2; exit 7"
priority = 1
[[task]]
name = "first"
command = "echo first begins; until test -e go; do sleep 0.05; done; echo first ends; touch first.done"
out = ["first.done"]
[[task]]
name = "waits"
command = "echo waits runs"
in = ["first.done"]
[[task]]
name = "held"
command = "i=0; until test -e go; do i=$((i+1)); echo tick $i; sleep 0.05; done"
[[task]]
name = "later"
command = "echo later runs"
in = ["first.done"]
"""


class Run:
    def __init__(self, directory, program, *options):
        self.directory = directory
        self.harrow = Harrow(program, directory)
        write(os.path.join(directory, "flow.toml"), FLOW)
        self.process = self.harrow.start("run", "flow.toml", "--run-dir", "harrow-a", "--slots", "2", *options)
        try:
            wait_for(lambda: self.tasks()["running"] == 2 and self.tasks()["failed"] == 1)
        except BaseException:
            self.stop()
            raise

    def status(self, *options):
        result = self.harrow("status", "--run-dir", "harrow-a", "--json", *options)
        return json.loads(result.out) if result.code == 0 else None

    def tasks(self):
        status = self.status() if os.path.exists(in_part(os.path.join(self.directory, "harrow-a"), "server")) else None
        return status["tasks"] if status else {"running": 0, "failed": 0}

    def go(self):
        write(os.path.join(self.directory, "go"), "")
        return self.process.wait(180)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(180)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def test_status(directory, program):
    with Run(directory, program) as run:
        # Tasks that were sent count as running; a node's are those that it said it has started.
        wait_for(lambda: run.status("--nodes")["nodes"][0]["running"] == 2)
        document = run.status("--nodes")
        same(document["state"], "running")
        same(document["source"], "server")
        same(document["tasks"], {"total": 5, "done": 0, "failed": 1, "skipped": 0, "cancelled": 0, "pruned": 0, "running": 2})
        same([(n["slots"], n["running"], n["state"]) for n in document["nodes"]], [(2, 2, "joined")])
        text = run.harrow("status", "--failed", code=0).out
        check("run harrow-a: running\ndone 0/5  running 2  failed 1" in text, text)
        check("failed: fails (exit 7" in text, text)
        # What is recorded so far can be reported and read.
        wait_for(lambda: "fails" in run.harrow("report", "--failed", code=0).out)
        same(run.harrow("logs", "fails", code=0).err, "it went wrong\n")
        wait_for(lambda: run.harrow("logs", "first", code=0).out == "first begins\n")
        same(run.go(), 1)
        same(run.status()["state"], "ended")


def test_watch(directory, program):
    with Run(directory, program) as run:
        watching = subprocess.Popen([run.harrow.program, "status", "--watch"], cwd=directory, env=run.harrow.env,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        same(run.go(), 1)
        out, err = watching.communicate(timeout=180)
        same((watching.returncode, err), (1, ""))
        check("run harrow-a: ended\ndone 4 of 5, failed 1" in out, out)


def test_follow(directory, program):
    with Run(directory, program) as run:
        def follow(*options):
            return subprocess.Popen([run.harrow.program, "logs", "-f", *options], cwd=directory, env=run.harrow.env,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        everything, one = follow(), follow("first")
        same(one.stdout.readline(), "first begins\n", "comes while the task runs")
        wait_for(lambda: "tick 5\n" in run.harrow("logs", "held", code=0).out)
        new = follow("--tail", "0", "held")
        check(int(new.stdout.readline().split()[1]) > 5, "only what comes")
        last = follow("--tail", "1", "first")
        same(last.stdout.readline(), "first begins\n")
        same(run.go(), 1)
        out, err = everything.communicate(timeout=180)
        same(everything.returncode, 0)
        lines = out.splitlines()
        ticks = [line for line in lines if line.startswith("held: ")]
        same(ticks, [f"held: tick {i + 1}" for i in range(len(ticks))])
        same(sorted(set(lines) - set(ticks)), ["first: first begins", "first: first ends", "later: later runs", "waits: waits runs"])
        same(err, "fails: it went wrong\n")
        for process in (one, last):
            out, _ = process.communicate(timeout=180)
            same((process.returncode, out), (0, "first ends\n"))
        new.communicate(timeout=180)
        same(new.returncode, 0)


def test_explain(directory, program):
    with Run(directory, program) as run:
        check("first" in run.harrow("explain", "waits", code=0).out)
        check(run.harrow("explain", "held", code=0).out.strip())
        text = run.harrow("explain", "fails", code=0).out
        check("attempt 1 on" in text and "exit 7" in text, text)
        check("did you mean" in run.harrow("explain", "hold", code=2).err)
        check(run.harrow("explain", "#4", code=0).out.strip())


def test_cancel(directory, program):
    with Run(directory, program) as run:
        unknown = run.harrow("cancel", "held", "nobody")
        same(unknown.code, 2)
        same(run.tasks()["running"], 2, "nothing is cancelled when one name is unknown")
        same(run.harrow("cancel", "fails").code, 1, "it has ended")
        same(run.harrow("cancel", "later", code=0).out, "1 task cancelled\n")  # waits
        same(run.harrow("cancel", "held", code=0).out, "1 task cancelled\n")   # runs
        wait_for(lambda: run.tasks()["running"] == 1)
        same(run.go(), 1)
        said = "\n".join(lines_of(f"{directory}/harrow.out"))
        check("\ncancelled: held, later; harrow run --resume --run-dir " in said or "\ncancelled: later, held; harrow run" in said, said)
        same(run.status()["run_dir"], os.path.realpath(f"{directory}/harrow-a"))
        same(run.status()["tasks"], {"total": 5, "done": 2, "failed": 1, "skipped": 0, "cancelled": 2, "pruned": 0, "running": 0})
        check("cancelled" in run.harrow("explain", "held", code=0).out)


def test_cancel_all(directory, program):
    with Run(directory, program) as run:
        check(run.harrow("cancel", "--all", code=0).out.endswith("cancelled\n"))
        same(run.process.wait(180), 1)
        same(run.status()["tasks"]["cancelled"], 4)


def test_server_is_killed(directory, program):
    with Run(directory, program) as run:
        for tries in range(3):
            for pid in of_run(os.path.join(directory, "harrow-a"), "server"):
                kill(pid)
            # Asked at once: the client waits for the server that is started in its place, but not for one that is long in coming, as on
            # a machine that has much else to do.
            status = run.status()
            if status["source"] == "server":
                break
            wait_for(lambda: run.status()["source"] == "server")
        same((status["source"], status["tasks"]["total"]), ("server", 5))
        wait_for(lambda: run.status()["tasks"]["running"] == 2)
        check(run.status()["epoch"] > 1)
        same(run.go(), 1)


def test_a_server_that_hangs_is_replaced(directory, program):
    with Run(directory, program) as run:
        run_dir = os.path.join(directory, "harrow-a")
        stopped = of_run(run_dir, "server")
        for pid in stopped:
            kill(pid, signal.SIGSTOP)
        write(os.path.join(directory, "go"), "")
        same(run.process.wait(600), 1)  # as one task fails
        check(not set(stopped) & set(of_run(run_dir, "server")), "the one that hangs is still there")
        check("the server does not answer; another takes over" in open(os.path.join(directory, "harrow.out"), encoding="utf-8").read())
        status = run.status()
        same((status["state"], status["tasks"]["done"], status["tasks"]["failed"], status["attempts"]), ("ended", 4, 1, 5))


def test_an_interrupted_run_does_not_wait_for_a_server_that_hangs(directory, program):
    with Run(directory, program) as run:
        for pid in of_run(os.path.join(directory, "harrow-a"), "server"):
            kill(pid, signal.SIGSTOP)
        run.process.send_signal(signal.SIGTERM)
        same(run.process.wait(180), 128 + signal.SIGTERM)
        said = open(os.path.join(directory, "harrow.out"), encoding="utf-8").read()
        check("the server does not answer; it is ended by force" in said and "harrow run --resume" in said, said)
        same(of_run(os.path.join(directory, "harrow-a"), "server"), [])


def test_keeper_is_killed(directory, program):
    with Run(directory, program) as run:
        run_dir = os.path.join(directory, "harrow-a")
        wait_for(lambda: recorded(run.harrow, "harrow-a")["failed"] == 1)
        for pid in of_run(run_dir, "keeper"):
            kill(pid)
        run.process.wait(180)
        wait_for(lambda: not of_run(run_dir, "server"))
        document = run.status()
        same((document["state"], document["source"]), ("stopped", "journal"))
        same(document["tasks"]["failed"], 1)
        text = run.harrow("status", code=0).out
        check("--resume" in text, text)
        same(run.harrow("cancel", "held").code, 2)
        check("failed: fails" in run.harrow("status", "--failed", code=0).out)
        same(run.harrow("status", "--watch").code, 4)
        write(os.path.join(directory, "go"), "")
        same(run.harrow("run", "--resume", "--run-dir", "harrow-a").code, 1)
        document = run.status()
        same((document["state"], document["tasks"]["done"]), ("ended", 4))
        check(document["makespan_s"] < 600, document)


if __name__ == "__main__":
    tell(lambda: tests_of(sys.modules[__name__], sys.argv[1]))
