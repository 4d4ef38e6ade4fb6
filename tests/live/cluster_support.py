"""A test cluster (contrib/testcluster) as a `with` block, for the tests of this folder."""
import os
import shutil
import subprocess
import sys
import tempfile
import time

from run_support import pause

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TOOL = os.path.join(SOURCE, "contrib", "testcluster")
LONG = os.environ.get("HARROW_LONG") == "1"
PATIENCE = 6  # times what a quiet machine needs at most: only what hangs is waited for so long
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "HOME=/tmp", "USER=nobody"]


def skip(why, needs):
    """Ends the test. `needs`: what this machine lacks, by a name of tests/support/skips, which judges whether that is so."""
    print(f"skipped: {why} (needs {needs})", flush=True)
    sys.exit(77)


class Cluster:
    """One cluster in a directory of its own. `ordinary`: started by a user who is not root."""

    def __init__(self, *options, ordinary=False):
        self.options = list(options)
        self.prefix = NOBODY if ordinary and os.getuid() == 0 else []
        self.dir = tempfile.mkdtemp(prefix="harrow-cluster-")
        self.state = os.path.join(self.dir, "state")
        if self.prefix:
            os.chown(self.dir, 65534, 65534)
        os.chmod(self.dir, 0o755)
        self.home = os.path.join(self.state, "home")

    def tool(self, *args, **kwargs):
        kwargs.setdefault("timeout", 90 * PATIENCE)
        kwargs.setdefault("cwd", "/")
        return subprocess.run([*self.prefix, TOOL, args[0], "--state", self.state, *args[1:]], text=True, **kwargs)

    def start_tool(self, *args):
        return subprocess.Popen([*self.prefix, TOOL, args[0], "--state", self.state, *args[1:]], cwd="/")

    def up(self):
        done = self.tool("up", *self.options, stderr=subprocess.PIPE)
        if done.returncode == 77:
            shutil.rmtree(self.dir, ignore_errors=True)
            skip(" ".join(done.stderr.split()), "slurm, namespaces" + (", accounting" if "--submit-limit" in self.options else ""))
        if done.returncode != 0:
            raise RuntimeError(f"testcluster up: {done.stderr}")
        return self

    def __enter__(self):
        try:
            return self.up()
        except Exception:
            self.__exit__(*sys.exc_info())
            raise

    def __exit__(self, kind, value, trace):
        if kind is not None and kind is not SystemExit:
            for name in sorted(os.listdir(self.path("log"))) if os.path.isdir(self.path("log")) else ():
                with open(self.path("log", name), errors="replace") as log:
                    print(f"--- the end of {name}", *[line.rstrip() for line in log.readlines()[-15:]], sep="\n", file=sys.stderr)
        self.tool("down")
        shutil.rmtree(self.dir, ignore_errors=True)

    def path(self, *parts):
        return os.path.join(self.state, *parts)

    def command(self, *command, node=None, user=None):
        """The command line that runs `command` on the head, on a node, or as alice or bob."""
        line = [*self.prefix, TOOL, "exec", "--state", self.state]
        line += ["--node", node] if node else []
        line += ["--user", user] if user else []
        return [*line, "--", *command]

    def run(self, *command, node=None, user=None, check=True, timeout=60, cwd=None, env=None, merge=False):
        """Runs a command; the CompletedProcess with stdout and stderr as text."""
        done = subprocess.run(self.command(*command, node=node, user=user), text=True, timeout=timeout * PATIENCE,
                              cwd=cwd or self.home, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT if merge else subprocess.PIPE,
                              env={**os.environ, **env} if env else None)
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(command)}: status {done.returncode}\n{done.stdout}\n{done.stderr}")
        return done

    def start(self, *command, node=None, user=None, **kwargs):
        kwargs.setdefault("cwd", self.home)
        return subprocess.Popen(self.command(*command, node=node, user=user), text=True, **kwargs)

    def out(self, *command, **kwargs):
        return self.run(*command, **kwargs).stdout.strip()

    def script(self, text, *options, user=None):
        """Submits a script; the job's id."""
        home = os.path.join(self.home, user) if user else self.home
        path = os.path.join(home, f"script-{time.monotonic_ns()}.sh")
        with open(path, "w") as f:
            f.write("#!/bin/bash\n" + text)
        os.chmod(path, 0o755)
        return self.out("sbatch", "--parsable", *options, path, user=user, cwd=home)

    def job_state(self, job):
        told = self.run("scontrol", "-o", "show", "job", str(job), check=False)
        for word in told.stdout.split():
            if word.startswith("JobState="):
                return word.split("=")[1]
        check("Invalid job id" in told.stderr, f"the state of job {job} is not known: {told.stdout}{told.stderr}")
        return "GONE"

    def wait_job(self, job, timeout=60):
        """Until the job is over on all of its nodes, epilogs included."""
        wait_for(lambda: self.job_state(job) not in ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "SUSPENDED"),
                 f"the end of job {job}", timeout)
        return self.job_state(job)

    def idle(self, timeout=60, nodes=None):
        want = nodes or int(self.out("sinfo", "-h", "-p", "all", "-o", "%D").split()[0])
        wait_for(lambda: len(set(self.out("sinfo", "-h", "-N", "-p", "all", "-t", "idle", "-o", "%N").split())) >= want,
                 "idle nodes", timeout)


def wait_for(condition, what, timeout=30):
    timeout *= PATIENCE
    deadline = time.monotonic() + timeout
    while True:
        began = time.monotonic()
        if condition():
            return
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {timeout} s for {what}")
        pause(began, 0.05)


def processes_naming(text):
    """pids of living processes with `text` in their command line or environment."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if int(pid) == os.getpid():
            continue
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words = f.read()
            try:
                with open(f"/proc/{pid}/environ", "rb") as f:
                    words += f.read()
            except PermissionError:
                pass
            if text.encode() in words:
                found.append(int(pid))
        except OSError:
            pass
    return found


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def run_tests(tests, only_long=()):
    """Runs (name, function) pairs; prints a line for each; exit status. Those named in `only_long` run with HARROW_LONG=1
    or when they are asked for by name."""
    for name, test in tests:
        if not any(word in name for word in sys.argv[1:]) and (len(sys.argv) > 1 or (name in only_long and not LONG)):
            continue
        began = time.monotonic()
        print(f"{name} ...", flush=True)
        test()
        print(f"{name}: passed, {time.monotonic() - began:.1f} s", flush=True)
    return 0
