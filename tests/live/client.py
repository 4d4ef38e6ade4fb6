#!/usr/bin/env python3
"""The client library as it is installed: programs in C, found by pkg-config, and in C++, found by CMake, submit to runs from their
tasks and from outside, while servers are killed; and `harrow submit --wait`. HARROW_LONG=1: 100 000 tasks from ten at once.

usage: client.py HARROW BUILD_DIR"""
import collections
import os
import shutil
import subprocess
import sys
import tempfile

import run_support
from run_support import Harrow, check, in_part, kill, lines_of, of_run, query, same, wait_for, write

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
LONG = bool(os.environ.get("HARROW_LONG"))
MARK = r"""#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
int main(int argc, char** argv) {
  char line[300];
  const int n = snprintf(line, sizeof line, "%s\n", argv[argc - 1]), fd = open(argv[1], O_WRONLY | O_APPEND | O_CREAT, 0644);
  return fd >= 0 && write(fd, line, n) == n ? 0 : 1;
}
"""
HELD = "until test -e go; do sleep 0.05; done\n"


def call(*command, **options):
    done = subprocess.run(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600, check=False, **options)
    check(done.returncode == 0, *command, "status", done.returncode, done.stdout[-4000:])
    return done.stdout


class Installed:
    """The library below a prefix, and programs that were built against it."""

    def __init__(self, top, build):
        self.prefix = os.path.join(top, "a prefix")
        for component in ("library", "library_dev"):
            call("cmake", "--install", build, "--prefix", self.prefix, "--component", component)
        (self.lib,) = [os.path.dirname(d) for d, _, files in os.walk(self.prefix) if "harrow.pc" in files]
        self.c = os.path.join(top, "client_program")
        flags = call("pkg-config", "--cflags", "--libs", "harrow", env={**os.environ, "PKG_CONFIG_PATH": f"{self.lib}/pkgconfig"}).strip()
        call("sh", "-c", f'cc -std=c99 -D_POSIX_C_SOURCE=200809L -pedantic -Wall -Wextra -Werror "$1" -o "$2" {flags} "-Wl,-rpath,$3"', "sh",
             os.path.join(SOURCE, "tests", "live", "client_program.c"), self.c, self.lib)
        self.example = os.path.join(top, "example")
        shutil.copytree(os.path.join(SOURCE, "contrib", "examples", "client"), self.example)
        call("cmake", "-S", self.example, "-B", f"{self.example}/build", f"-DCMAKE_PREFIX_PATH={self.prefix}")
        call("cmake", "--build", f"{self.example}/build")

        self.mark = os.path.join(top, "mark")  # the witness that a task ran
        call("cc", "-O1", "-static", write(f"{self.mark}.c", MARK), "-o", self.mark)

    def start(self, directory, *args):
        return subprocess.Popen([self.c, *args], cwd=directory, stdout=subprocess.PIPE, text=True)


class Held:
    """A run that goes on until the file `go` exists."""

    def __init__(self, directory, program, *options, tasks=HELD):
        self.directory = directory
        self.harrow = Harrow(program, directory)
        write(f"{directory}/tasks.txt", tasks)
        self.process = self.harrow.start("run", "tasks.txt", "--run-dir", "r", "--slots", "3", *options)
        wait_for(lambda: os.path.exists(in_part(f"{directory}/r", "server")))

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        write(f"{self.directory}/go", "")
        try:
            self.process.wait(120)
        except subprocess.TimeoutExpired:
            self.process.terminate()
            self.process.wait()

    def end(self, code):
        write(f"{self.directory}/go", "")
        same(self.process.wait(300), code, "the run")


def ran_once(directory, names):
    """By their own word, and by the journal's."""
    count = collections.Counter(lines_of(f"{directory}/ran"))
    same(max(count.values()), 1, "how often a task ran")
    same(len(count), len(names))
    same(set(count), set(names))
    succeeded = collections.Counter(
        name for (name,) in query(f"{directory}/r", "SELECT task FROM attempts WHERE outcome = 'exited' AND code = 0"))
    check(all(succeeded[name] == 1 for name in names), "succeeded twice, or never")


def test_nothing_but_the_interface_is_exported(directory, installed, program):
    library = os.path.join(installed.lib, "libharrow.so")
    symbols = [line.split()[-1].split("@")[0] for line in call("nm", "-D", "--defined-only", library).splitlines()]
    with open(os.path.join(installed.prefix, "include", "harrow", "harrow.h"), encoding="utf-8") as f:
        header = f.read()
    check(len(symbols) > 5 and all(name == "HARROW_0" or f"{name}(" in header for name in symbols), symbols)
    check("SONAME" in call("readelf", "-d", library) and "libharrow.so.0" in call("readelf", "-d", library), "no soname")
    check("RPATH" not in call("readelf", "-d", library) and "RUNPATH" not in call("readelf", "-d", library), "it names a place")


def test_every_fate_is_told(directory, installed, program):
    os.mkdir(f"{directory}/below")
    with Held(directory, program) as run:
        said = call(installed.c, "kinds", "r", cwd=directory, stdin=subprocess.DEVNULL).splitlines()
        same(said[:7], ["done: done 1 0", "failed: failed 1 7", "killed: failed 2 10", "skipped: skipped 0 0", "after any: done 1 0",
                        "slow: failed 3 15", "environment: done 1 0"])
        same(said[7:9], ["twice: done 1 0", "same: done 1 0"])
        check(said[9].startswith("other: error 1: there is a task twice in the run already, and it is another one"), said[9])
        same(said[10], "named: done 1 0")
        check(said[11].startswith("unknown: error 1: no task 'nobody' in this run; "), said[11])
        same(said[12], "one task: 1")
        check(said[13].startswith("flush: 1: there is a task twice"), said[13])
        same(said[14:], ["nothing: 1: a task has no command", "told: 12", "late: 6"])
        run.harrow("cancel", "--run-dir", "r", "--all", code=0)
        run.process.wait(60)


def test_values_and_what_they_prune(directory, installed, program):
    with Held(directory, program) as run:
        same(call(installed.c, "values", "r", cwd=directory, stdin=subprocess.DEVNULL).splitlines(),
             ["none: 7: no value is known yet", "nothing: 1", "better: 1", "as good: 0", "best: 3.5, 3 bytes", "small: 1, 3", "large: 3 a0b",
              "no bound: 1: the bound of a task is no finite number", "pointless: pruned 0 0", "good: done 1 0"])
        run.end(0)


def test_streams_are_open_while_somebody_holds_them(directory, installed, program):
    with Held(directory, program) as run:
        same(call(installed.c, "streams", "r", cwd=directory, stdin=subprocess.DEVNULL).splitlines(),
             ["first: done 1 0", "second: done 1 0", "waits: 1", "reader: done 1 0", "ended: 1: stream s has ended",
              "records: 1: records cannot be \"some\"; write lines, zero (a NUL byte ends each) or bytes:N, N from 1 to 1048576"])
        run.end(0)  # what it left open is closed
        same(lines_of(f"{directory}/sorted"), list("123456"))


def test_an_example_in_cpp_decides_what_is_run_next(directory, installed, program):
    for name in ("f.awk", "build/search"):
        shutil.copy(f"{installed.example}/{name}", directory)
    harrow = Harrow(program, directory)
    write(f"{directory}/tasks.txt", "./search\n")
    harrow("run", "tasks.txt", "--run-dir", "r", "--slots", "4", code=0)
    said = harrow("logs", "--run-dir", "r", "1", code=0).out.splitlines()
    same(said[:2], ["round 0: f(0.0000) = 4.5625", "round 1: f(1.2500) = 3.0000"])
    same(len(said), 6)
    same(len(query(f"{directory}/r", "SELECT 1 FROM attempts")), 55)


def test_ten_tasks_submit_at_once(directory, installed, program):
    """Each of theirs is run once. They wait for the results, so their own slots are as many as they."""
    each = 10_000 if LONG else 500
    shutil.copy(installed.mark, directory)
    harrow = Harrow(program, directory)
    write(f"{directory}/tasks.txt", "".join(f"{installed.c} submit - {each} p{i} {directory}/ran\n" for i in range(10)))
    harrow("run", "tasks.txt", "--run-dir", "r", "--slots", "12", code=0, timeout=3600)
    ran_once(directory, {f"p{i}-{n}" for i in range(10) for n in range(each)})
    same(harrow("logs", "--run-dir", "r", "3", code=0).out.splitlines()[-2:], [f"taken {each}", "failed 0"])


def test_servers_are_killed_while_the_library_submits(directory, installed, program):
    """From outside and from within. What was acknowledged is there; nothing ran twice; all results come."""
    each = 20_000 if LONG else 1_500
    shutil.copy(installed.mark, directory)
    with Held(directory, program) as run:
        clients = [installed.start(directory, "submit", "r", str(each), f"c{i}", f"{directory}/ran") for i in range(2)]
        run.harrow("submit", "--run-dir", "r", installed.c, "submit", "-", str(each), "inner", f"{directory}/ran", code=0)
        killed = 0
        while killed < 4 and any(client.poll() is None for client in clients):
            before = len(lines_of(f"{directory}/ran"))
            wait_for(lambda: len(lines_of(f"{directory}/ran")) > before + 100 or all(c.poll() is not None for c in clients))
            if not any(client.poll() is None for client in clients):
                break
            kill(wait_for(lambda: of_run(f"{directory}/r", "server"))[0])
            killed += 1
        check(killed >= 2, "the clients were done before servers were killed")
        for client in clients:
            same(client.communicate(timeout=900)[0].splitlines()[-2:], [f"taken {each}", "failed 0"])
            same(client.returncode, 0)
        run.end(0)
    ran_once(directory, {f"{who}-{n}" for who in ("c0", "c1", "inner") for n in range(each)})


def test_the_run_ends_and_the_library_says_so(directory, installed, program):
    with Held(directory, program, tasks="sleep 1000\nsleep 1000\nsleep 1000\n") as run:
        client = installed.start(directory, "hold", "r", "10")
        same(client.stdout.readline(), "taken\n")
        run.process.terminate()
        run.process.wait(60)
        said = client.communicate(timeout=120)[0].splitlines()
        same(said, ["child: 7", "await: 4: the run has ended before the task; it goes on when the run is resumed", "submit: 4", "close: 0"])
    for where, why in (("r", "open: 4: the run in r is over"), ("elsewhere", "open: 2: "), ("-", "open: 1: this is in no task of a run")):
        done = subprocess.run([installed.c, "hold", where, "1"], cwd=directory, capture_output=True, text=True, check=False,
                              env={k: v for k, v in os.environ.items() if k != "HARROW_RUN"})
        check(done.returncode == 1 and done.stderr.startswith(why), where, done)


def test_submit_waits(directory, installed, program):
    with Held(directory, program, "--retries", "0") as run:
        same(run.harrow("submit", "--run-dir", "r", "--wait", "true", code=0).out, "#2\n")
        write(f"{directory}/more.txt", "true\nexit 3\n")
        failed = run.harrow("submit", "--run-dir", "r", "--wait", "--file", "more.txt", code=1)
        same((failed.out, failed.err), ("#3\n#4\n", "harrow: task #4 failed: exit code 3\n"))
        skipped = run.harrow("submit", "--run-dir", "r", "--wait", "--after", "#4", "--name", "next", "true", code=1)
        same(skipped.err, "harrow: task next was skipped\n")
        waiting = run.harrow.start("submit", "--run-dir", "r", "--wait", "sleep", "1000")
        wait_for(lambda: b"#6" in open(f"{directory}/harrow.out", "rb").read())
        for pid in of_run(f"{directory}/r", "server"):
            kill(pid)
        wait_for(lambda: run.harrow("status", "--run-dir", "r").code == 0)
        run.process.terminate()
        run.process.wait(60)
        same(waiting.wait(60), 4)
        with open(f"{directory}/harrow.out", encoding="utf-8") as f:
            check("has ended, and 1 of the tasks have not" in f.read())


def main():
    build = os.path.abspath(sys.argv[2])
    del sys.argv[2]
    program = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="harrow-client-") as top:
        installed = Installed(top, build)
        run_support.tests_of(sys.modules[__name__], installed, program)


run_support.tell(main)
