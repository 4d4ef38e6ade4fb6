"""What the tests of whole runs share: running harrow in a directory of its own, checks, processes, the journal.

A failed check raises; main() of a test is run by tell(), which prints what failed and ends with 1."""
import contextlib
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import traceback


class Skipped(Exception):
    """Why, and what this machine lacks, by a name of tests/support/skips, which judges whether that is so."""

    def __init__(self, why, needs):
        super().__init__(f"{why} (needs {needs})")


def check(condition, *what):
    if not condition:
        raise AssertionError(" ".join(str(w) for w in what))


def same(got, wanted, *what):
    check(got == wanted, *what, "\n  got:    ", repr(got)[:2000], "\n  wanted: ", repr(wanted)[:2000])


@contextlib.contextmanager
def work_dir():
    """A new directory, removed at the end unless the test failed."""
    path = tempfile.mkdtemp(prefix="harrow-live-")
    try:
        yield path
    except Skipped:
        shutil.rmtree(path, ignore_errors=True)
        raise
    except BaseException:
        print("left for inspection:", path)
        raise
    shutil.rmtree(path, ignore_errors=True)


class Result:
    def __init__(self, done):
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    def __repr__(self):
        return f"exit {self.code}\nstdout: {self.out[-1500:]}\nstderr: {self.err[-1500:]}"


class Harrow:
    """The program under test, run in one directory."""

    def __init__(self, program, cwd, env=None):
        self.program, self.cwd = os.path.abspath(program), cwd
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("HARROW_", "SLURM_"))}
        self.env["HARROW_CONF"] = os.path.join(cwd, "harrow.conf")
        with open(self.env["HARROW_CONF"], "a"):
            pass
        self.env.update(env or {})

    def __call__(self, *args, stdin=None, timeout=300, code=None, cwd=None):
        done = subprocess.run([self.program, *args], cwd=cwd or self.cwd, env=self.env, input=stdin, text=True, capture_output=True,
                              timeout=timeout)
        result = Result(done)
        if code is not None:
            check(result.code == code, "harrow", *args, ": wanted exit", code, "but got", result)
        return result

    def start(self, *args):
        """In the background, with its output in files; .wait() tells the exit status."""
        log = open(os.path.join(self.cwd, "harrow.out"), "ab")
        return subprocess.Popen([self.program, *args], cwd=self.cwd, env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                start_new_session=True)


def write(path, text, mode=0o644):
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    os.chmod(path, mode)
    return path


def lines_of(path):
    try:
        with open(path, encoding="utf-8") as f:
            return f.read().splitlines()
    except FileNotFoundError:
        return []


def in_part(run_dir, *names):
    """The path of what lies in a run's first part, that of its one allocation; no names: of that directory."""
    return os.path.join(run_dir, "0", *names)


def query(run_dir, sql):
    """Of a run that no server writes; recorded() of one that goes on."""
    with contextlib.closing(sqlite3.connect(f"file:{in_part(run_dir, 'journal.db')}?mode=ro", uri=True)) as db:
        return db.execute(sql).fetchall()


def recorded(harrow, run_dir):
    """How many tasks ended how, as it is on disk."""
    return json.loads(harrow("report", "--json", "--run-dir", run_dir, code=0).out)["tasks"]


def pause(began, least):
    """Before it is asked again what was asked at `began`: who asks takes a fifth of a core at most, as others run beside."""
    time.sleep(max(least, min(1, 4 * (time.monotonic() - began))))


def wait_for(what, seconds=180, step=0.02):
    """Until what() gives something true, which is returned."""
    end = time.monotonic() + seconds
    while (began := time.monotonic()) < end:
        found = what()
        if found:
            return found
        pause(began, step)
    raise AssertionError(f"waited {seconds} s in vain for {what}")


class Lateness:
    """How late this machine is to run what is ready to: the worst case since the start. What must hold within some time on a quiet
    machine must hold within that and, for each process in the chain, this. `disk`: the same of what waits for the disk."""

    def __init__(self, pause=0.02):
        self.worst, self.disk, self.pause = 0.0, 0.0, pause
        threading.Thread(target=self._watch, daemon=True).start()
        threading.Thread(target=self._watch_disk, daemon=True).start()

    def _watch(self):
        while True:
            began = time.monotonic()
            time.sleep(self.pause)
            self.worst = max(self.worst, time.monotonic() - began - self.pause)

    def _watch_disk(self):
        with tempfile.TemporaryFile() as f:
            while True:
                began = time.monotonic()
                os.pwrite(f.fileno(), b"x" * 4096, 0)
                os.fsync(f.fileno())
                self.disk = max(self.disk, time.monotonic() - began)
                time.sleep(0.2)


# --- processes

def processes():
    """pid -> (parent, words) of all processes that can be read."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as f:
                stat = f.read()
            with open(f"/proc/{name}/cmdline", "rb") as f:
                words = f.read().decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        fields = stat[stat.rindex(")") + 2:].split()
        if fields[0] != "Z":
            found[int(name)] = (int(fields[1]), words)
    return found


def is_agent(pid):
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/comm", encoding="utf-8") as f:
            return f.read() == "harrow-agent\n"
    return False


def of_run(run_dir, role):
    """pids of `harrow keeper|server|agent` of a run directory; role "agent" is the warden, "inner" the agent below it. A child of an
    agent is a task, also before its exec, when it still has the agent's words."""
    all_of = processes()
    run_dir = os.path.realpath(run_dir)
    mine = {pid: parent for pid, (parent, words) in all_of.items()
            if "--run-dir" in words and os.path.realpath(words[words.index("--run-dir") + 1]) == run_dir and len(words) > 1
            and words[1] == ("agent" if role == "inner" else role)}
    if role == "agent":
        return sorted(pid for pid, parent in mine.items() if parent not in mine)
    if role == "inner":
        return sorted(pid for pid, parent in mine.items() if parent in mine and not is_agent(parent))
    return sorted(mine)


def with_word(word):
    """pids of processes one of whose arguments contains `word`."""
    return sorted(pid for pid, (_, words) in processes().items() if pid != os.getpid() and any(word in w for w in words))


def long_sleep():
    """Seconds to sleep that no other process' words contain."""
    return f"9{os.getpid()}.{time.time_ns() % 10**9}"


def kill(pid, number=signal.SIGKILL):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def tell(main):
    try:
        main()
    except Skipped as why:
        print("skipped:", why)
        sys.exit(77)
    except Exception:
        traceback.print_exc()
        sys.exit(1)
    print("passed")


def tests_of(module, *args):
    """Runs every function test_* of a module, or those that the command line names, with a fresh directory; all are run, then
    failures are told."""
    tests = {name: test for name, test in vars(module).items() if name.startswith("test_")}
    wanted = [word for word in sys.argv[1:] if word.startswith("test_")] or list(tests)
    check(set(wanted) <= set(tests), "there is no test", *sorted(set(wanted) - set(tests)))
    failed = []
    for name in wanted:
        test = tests[name]
        start = time.monotonic()
        try:
            with work_dir() as directory:
                test(directory, *args)
            print(f"{name}: ok, {time.monotonic() - start:.1f} s", flush=True)
        except Skipped as why:
            print(f"{name}: skipped: {why}", flush=True)
        except Exception:
            traceback.print_exc()
            print(f"{name}: FAILED", flush=True)
            failed.append(name)
            if "GTEST_FAIL_FAST" in os.environ:  # as the programs of GoogleTest do
                break
    check(not failed, "failed:", *failed)
