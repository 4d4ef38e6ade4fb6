#!/usr/bin/env python3
"""Run directories that somebody else made, filled or moves about, full disks, closed descriptors: what is not ours is refused
by name and never run, and nothing hangs.   usage: hostile_rundir.py HARROW [TEST...]"""
import contextlib
import itertools
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time

import run_support
from run_support import Harrow, Skipped, check, in_part, kill, lines_of, of_run, query, same, wait_for, write

NOBODY, SOMEBODY = 65534, 54321


def as_user(uid, command, **more):
    return subprocess.run(["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", *command], text=True, capture_output=True,
                          timeout=300, **more)


def need_root():
    if os.geteuid() != 0:
        raise Skipped("other users need root")


def need_mounts():
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
        raise Skipped("mounting needs root")


class Shared:
    """A directory that everybody may write, as /tmp, where nobody has a run whose tasks tell who ran them."""

    def __init__(self, directory, program):
        need_root()
        os.chmod(directory, 0o755)
        # Others must be able to start the program, wherever this tree lies.
        self.program = f"{directory}/harrow"
        shutil.copy(program, self.program)
        self.path = f"{directory}/shared"
        os.mkdir(self.path)
        os.chmod(self.path, 0o1777)
        self.harrow = Harrow(self.program, self.path)
        os.chmod(self.harrow.env["HARROW_CONF"], 0o644)

    def by(self, uid, *words, **more):
        return as_user(uid, [self.program, *words], cwd=self.path, env=self.harrow.env, **more)

    def foreign_run(self, name):
        """Made by nobody; `touch` tells who ran its task, which failed then."""
        tasks = write(f"{self.path}/{name}.txt", f"touch {self.path}/ran-by-$(id -u); false\n")
        done = self.by(NOBODY, "run", "--progress", "none", "--run-dir", name, tasks)
        same(done.returncode, 1, done.stderr)
        same(os.stat(f"{self.path}/{name}").st_uid, NOBODY)
        check(os.path.exists(f"{self.path}/ran-by-{NOBODY}"), "the foreign task did not run for its own user")

    def check_nothing_ran(self):
        for uid in (0, SOMEBODY):
            check(not os.path.exists(f"{self.path}/ran-by-{uid}"), "a foreign task ran as", uid)


# --- other users' directories

def test_a_directory_made_first_by_another_user_is_refused_by_name(directory, program):
    shared = Shared(directory, program)
    shared.foreign_run("harrow-1234")
    tasks = write(f"{directory}/tasks.txt", f"touch {directory}/mine\n")
    os.mkdir(f"{shared.path}/empty")
    os.chown(f"{shared.path}/empty", NOBODY, NOBODY)
    for name in ("harrow-1234", "empty"):
        for user, run in ((0, shared.harrow), (SOMEBODY, None)):
            done = run("run", "--run-dir", name, tasks) if run else shared.by(user, "run", "--run-dir", name, tasks)
            code = done.code if run else done.returncode
            err = done.err if run else done.stderr
            same(code, 2, err)
            same(len(err.splitlines()), 1, err)
            check(name in err and str(NOBODY) in err and "--run-dir" in err, err)
    check(not os.path.exists(f"{directory}/mine"), "something was run all the same")
    same(os.listdir(f"{shared.path}/empty"), [], "something was put there")
    shared.check_nothing_ran()


def test_where_another_user_took_the_default_names_the_next_is_taken(directory, program):
    """They stand open and empty, so that whoever uses one of them can be given another flow."""
    shared = Shared(directory, program)
    now = time.time()
    for second in range(300):
        name = f"{shared.path}/" + time.strftime("harrow-%Y%m%d-%H%M%S", time.localtime(now + second))
        os.mkdir(name)
        os.chown(name, NOBODY, NOBODY)
        os.chmod(name, 0o777)
    before = [name for name in os.listdir(shared.path) if name.startswith("harrow-")]
    for user in (0, SOMEBODY):
        work = f"{directory}/work-{user}"
        os.mkdir(work)
        os.chown(work, user, user)
        tasks = write(f"{work}/tasks.txt", f"echo x >> {work}/mine\n")
        done = shared.by(user, "run", tasks)
        same(done.returncode, 0, done.stderr)
        told = re.search(r"run directory (harrow-\d+-\d+-\d+)\n", done.stderr)
        check(told, "it is not told which", done.stderr)
        same(os.stat(f"{shared.path}/{told[1]}").st_uid, user)
        same(lines_of(f"{work}/mine"), ["x"])
        status = json.loads(shared.by(user, "status", "--json").stdout)
        same((status["state"], status["tasks"]["done"]), ("ended", 1), "the run that is found is the user's own")
    for name in before:
        same(os.listdir(f"{shared.path}/{name}"), [], "something was put into a foreign directory")


def test_another_users_run_is_not_found_and_not_gone_on_with(directory, program):
    shared = Shared(directory, program)
    shared.foreign_run("harrow-zzz")
    commands = (["run", "--resume"], ["run", "--rerun-failed"], ["run", "--resume", "--dry-run"], ["status"], ["status", "--json"],
                ["logs"], ["report"], ["explain", "#1"], ["cancel", "--all"])
    for command in commands:
        done = shared.harrow(*command, code=2)
        check("no run here" in done.err, command, done)
    same(shared.harrow("complete", "tasks", code=0).out, "")
    tasks = write(f"{directory}/tasks.txt", f"echo x >> {directory}/mine; false\n")
    shared.harrow("run", "--run-dir", "harrow-aaa", tasks, code=1)
    os.utime(f"{shared.path}/harrow-zzz/flow", (time.time() + 3600,) * 2)
    shared.harrow("run", "--rerun-failed", code=1)
    same(lines_of(f"{directory}/mine"), ["x", "x"], "the run of ours is the one that was gone on with")
    for command in (["run", "--resume"], ["run", "--rerun-failed"]):
        done = shared.harrow(*command, "--run-dir", "harrow-zzz", code=2)
        check(str(NOBODY) in done.err and "not to you" in done.err, done)
    for command in commands:
        done = shared.by(SOMEBODY, *command, "--run-dir", "harrow-zzz")
        same(done.returncode, 2, command, done.stderr)
        check(str(NOBODY) in done.stderr and "not to you" in done.stderr, command, done.stderr)
    shared.check_nothing_ran()


def test_root_may_look_at_a_users_run_and_leaves_no_trace(directory, program):
    shared = Shared(directory, program)
    shared.foreign_run("harrow-zzz")
    run = f"{shared.path}/harrow-zzz"
    before = sorted((name, os.lstat(f"{base}/{name}").st_uid) for base, _, names in os.walk(run) for name in names)
    for command in (["status"], ["logs"], ["report"], ["explain", "#1"]):
        shared.harrow(*command, "--run-dir", "harrow-zzz", code=0)
    after = sorted((name, os.lstat(f"{base}/{name}").st_uid) for base, _, names in os.walk(run) for name in names)
    same(after, before)
    # But not where it is not all that user's.
    os.chown(in_part(run, "journal.db"), SOMEBODY, SOMEBODY)
    check(str(SOMEBODY) in shared.harrow("status", "--run-dir", "harrow-zzz", code=2).err, "another's journal was believed")


def test_groups_that_can_write_projects_are_no_danger(directory, program):
    """umask 002 in a setgid project tree, with a default access list where there are any."""
    need_root()
    shared = Shared(directory, program)
    project = f"{directory}/project"
    os.mkdir(project)
    os.chown(project, NOBODY, 100)
    os.chmod(project, 0o2775)
    if shutil.which("setfacl"):
        subprocess.run(["setfacl", "-d", "-m", "g::rwx,g:100:rwx,o::rwx", project], capture_output=True)
    write(f"{project}/tasks.txt", "echo x >> ran; echo out; test -e go\n")
    script = f"umask 002; {shared.program} run --run-dir deep/r tasks.txt; mkdir made; {shared.program} run --run-dir made tasks.txt; touch go; " \
             f"{shared.program} run --resume --run-dir made"
    done = as_user(NOBODY, ["sh", "-c", script], cwd=project, env=shared.harrow.env)
    same(done.returncode, 0, done.stderr)
    same(lines_of(f"{project}/ran"), ["x"] * 3)
    for base, names, files in itertools.chain(os.walk(f"{project}/deep/r"), os.walk(f"{project}/made")):
        for path in [base, *(f"{base}/{name}" for name in names + files)]:
            check(os.lstat(path).st_mode & 0o022 == 0, path, "can be written by others:", oct(os.lstat(path).st_mode))
    # One that was opened to the group afterwards.
    os.chmod(f"{project}/made", 0o2775)
    for command in (["run", "--resume"], ["status"]):
        done = as_user(NOBODY, [shared.program, *command, "--run-dir", "made"], cwd=project, env=shared.harrow.env)
        same(done.returncode, 2, done.stderr)
        check("written by others" in done.stderr and "chmod -R go-w made" in done.stderr, done.stderr)
    same(lines_of(f"{project}/ran"), ["x"] * 3)


# --- what lies in a directory of ours

def plant(kind, path, precious):
    """Puts something else in the place of `path`; `precious` is what a link leads to."""
    content = None
    if os.path.isdir(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        content = open(path, "rb").read()
        os.unlink(path)
    if kind == "link":
        os.symlink(precious, path)
    elif kind == "hard link":
        os.link(precious, path)
    elif kind == "fifo":
        os.mkfifo(path, 0o600)
    elif kind == "socket":
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as s:
            s.bind(path)
    elif kind == "directory":
        os.mkdir(path)
    else:
        with open(path, "wb") as f:
            f.write(content or b"")
        if kind == "foreign":
            os.chown(path, NOBODY, NOBODY)
        else:
            os.chmod(path, 0o666)


def test_planted_files_are_refused_and_hold_nobody(directory, program):
    need_root()
    harrow = Harrow(program, directory)
    tasks = write(f"{directory}/tasks.txt", "echo x >> ran; false\n")
    harrow("run", "--run-dir", "clean", tasks, code=1)
    stolen = f"{directory}/stolen"
    shutil.copytree(f"{directory}/clean", stolen)
    ran = len(lines_of(f"{directory}/ran"))
    part = in_part("")
    decides = ("flow", part, *(f"{part}/{name}" for name in (
        "flow", "journal.db", "journal.db-wal", "journal.db-journal", "journal.acknowledged", "owner", "resume.ready", "output", "log")))
    for name in decides + tuple(f"{part}/{name}" for name in ("output/1.out", "log/keeper.log", "log/server.log")):
        for kind in ("link", "hard link", "foreign", "open", "fifo", "socket", "directory"):
            if name in (part, f"{part}/output", f"{part}/log") and kind in ("hard link", "foreign", "open", "directory"):
                continue
            run = f"{directory}/r"
            shutil.rmtree(run, ignore_errors=True)
            shutil.copytree(f"{directory}/clean", run)
            precious = write(f"{directory}/precious", "what it leads to\n")
            target = precious
            if kind in ("link", "hard link") and os.path.exists(f"{stolen}/{name}") and name in decides:
                target = f"{stolen}/{name}"
            if name == f"{part}/resume.ready" and kind == "link":
                target = in_part(stolen)
            before = {f: open(f, "rb").read() for f in (precious, f"{stolen}/flow", in_part(stolen, "journal.db"), in_part(stolen, "journal.acknowledged"))}
            plant(kind, f"{run}/{name}", target)
            what = f"{kind} at {name}:"
            result = harrow("run", "--rerun-failed", "--run-dir", "r", timeout=180)
            # What is only read, under its own name, is harmless with a second one; an empty directory replaces nothing.
            harmless = name.startswith((f"{part}/output/", f"{part}/log/")) or (kind == "hard link" and name == "flow") or \
                (name == f"{part}/resume.ready" and kind == "directory")
            if not harmless:
                check(result.code in (2, 3), what, result)
                check(f"r/{name}" in result.err, what, "is not named", result)
                same(len(lines_of(f"{directory}/ran")), ran, what, "something ran", result)
            ran = len(lines_of(f"{directory}/ran"))
            for command in (["status"], ["logs", "-q"], ["report"]):
                looked = harrow(*command, "--run-dir", "r", timeout=180)
                check("what it leads to" not in looked.out + looked.err, what, looked)
            for path, content in before.items():
                same(open(path, "rb").read(), content, what, path, "was changed")


def test_links_to_run_directories_are_not_followed(directory, program):
    harrow = Harrow(program, directory)
    tasks = write(f"{directory}/tasks.txt", "echo x >> ran; false\n")
    os.mkdir(f"{directory}/elsewhere")
    harrow("run", "--run-dir", "elsewhere/r", tasks, code=1)
    os.symlink("elsewhere/r", f"{directory}/harrow-link")
    os.symlink("elsewhere/none", f"{directory}/harrow-dangling")
    check("no run here" in harrow("run", "--rerun-failed", code=2).err, "a link was found")
    for name in ("harrow-link", "harrow-link/"):
        for command in (["run", "--rerun-failed"], ["status"], ["run", tasks]):
            said = harrow(*command, "--run-dir", name, code=2).err
            check("symbolic link" in said and "elsewhere/r" in said, said)
    same(harrow("run", "--run-dir", "harrow-dangling", tasks).code, 2)
    check(not os.path.exists(f"{directory}/elsewhere/none"), "a link was followed")
    same(lines_of(f"{directory}/ran"), ["x"])


def test_a_directory_that_is_swapped_while_its_run_goes_on(directory, program):
    """Its name leads to another run's directory, nobody's or one of our own: the server that is started again takes neither."""
    need_root()
    for owner in (NOBODY, 0):
        base = f"{directory}/{owner}"
        os.mkdir(base)
        harrow = Harrow(program, base)
        planted = write(f"{base}/planted.txt", "touch planted; false\n")
        harrow("run", "--run-dir", "other", planted, code=1)
        os.unlink(f"{base}/planted")
        tasks = write(f"{base}/tasks.txt", f"echo x >> {base}/begun; while ! test -e {base}/go; do sleep 0.05; done\n" * 4)
        run = harrow.start("run", "--run-dir", "r", "--slots", "2", tasks)
        wait_for(lambda: len(lines_of(f"{base}/begun")) == 2)
        server = of_run(f"{base}/r", "server")
        same(len(server), 1)
        os.rename(f"{base}/r", f"{base}/moved")
        shutil.copytree(f"{base}/other", f"{base}/r")
        for top, names, files in os.walk(f"{base}/r"):
            for path in [top, *(f"{top}/{n}" for n in names + files)]:
                os.chown(path, owner, owner)
        before = sorted(os.listdir(f"{base}/r"))
        kill(server[0])
        write(f"{base}/go", "")
        same(run.wait(timeout=300), 3, lines_of(f"{base}/harrow.out"))
        check(not os.path.exists(f"{base}/planted"), "what was put in its place was run")
        same(sorted(os.listdir(f"{base}/r")), before, "something was written where its name leads to")
        result = harrow("run", "--resume", "--run-dir", "moved", code=0)
        check("done 4 of 4" in result.out, result)


# --- full disks

def test_a_disk_full_of_output_ends_in_time_and_nothing_is_lost_silently(directory, program):
    need_mounts()
    harrow = Harrow(program, directory)
    write(f"{directory}/tasks.txt", "head -c 3000000 /dev/zero; echo x >> ran\n" * 10)
    os.makedirs(in_part(f"{directory}/r", "output"))  # the journal has room
    script = f"""mount -t tmpfs -o size=10m,mode=755 none {in_part('r', 'output')}
{harrow.program} run --progress none --run-dir r tasks.txt >out 2>err & pid=$!
tries=0; until grep -qs "cannot be written" err || ! kill -0 $pid || test $((tries+=1)) -gt 6000; do sleep 0.01; done
date +%s.%N >asked; kill -TERM $pid; wait $pid; echo $? >code; date +%s.%N >ended
mount -o remount,size=100m {in_part('r', 'output')}
{harrow.program} run --resume --progress none --run-dir r >out2 2>err2; echo $? >code2
{harrow.program} logs --list --run-dir r >list
"""
    lateness = run_support.Lateness()
    subprocess.run(["unshare", "-m", "sh", "-c", script], cwd=directory, env=harrow.env, timeout=900, check=True)
    took = float(lines_of(f"{directory}/ended")[0]) - float(lines_of(f"{directory}/asked")[0])
    said = open(f"{directory}/err").read()
    same(lines_of(f"{directory}/code"), [str(128 + signal.SIGTERM)], said)
    check(took < 15 + 5 * lateness.worst, f"it took {took:.1f} s to end; Slurm kills after 30", said)
    check(re.search(r"output of \d+ tasks? could not be written and is lost", said) and "--resume" in said, "what was lost is not told", said)
    same(lines_of(f"{directory}/code2"), ["0"], open(f"{directory}/err2").read())
    same(query(f"{directory}/r", "SELECT count(*) FROM tasks WHERE state = 'done'"), [(10,)])
    same([line.split()[5] for line in lines_of(f"{directory}/list")[1:] if line.split()[5] != "0"], ["3000000"] * 10,
         "every task that is done has its output", open(f"{directory}/list").read())


# --- descriptors and terminals

LOG_LINE = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\S+ \d+ (debug|info|warning|error) ")


def test_closed_descriptors_let_nothing_land_in_a_file(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/tasks.txt", "echo out; echo err >&2; cat; ls -l /proc/self/fd | wc -l; false\n" * 3)
    for closed in [c for n in (1, 2, 3) for c in itertools.combinations((0, 1, 2), n)]:
        redirect = " ".join(("<&-", ">&-", "2>&-")[fd] for fd in closed)
        run = "r" + "".join(map(str, closed))
        done = subprocess.run(["sh", "-c", f"exec {harrow.program} run --progress plain --run-dir {run} tasks.txt {redirect}"], cwd=directory,
                              env=harrow.env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
        same(done.returncode, 3 if 1 in closed else 1, closed, done.stderr)  # 3: its summary could not be written
        if 1 not in closed:
            check("failed 3" in done.stdout, closed, done.stdout)
        if 2 not in closed:
            check("failed: #1" in done.stderr, closed, done.stderr)
        for name in os.listdir(in_part(f"{directory}/{run}", "log")):
            for line in lines_of(in_part(f"{directory}/{run}", "log", name)):
                check(LOG_LINE.match(line), closed, f"text for people in {name}:", line)
        same(query(f"{directory}/{run}", "PRAGMA integrity_check"), [("ok",)], closed)
        logs = harrow("logs", "-q", "--run-dir", run, code=0)
        same((logs.out.count("out\n"), logs.err.count("err\n")), (3, 3), closed, logs)
    for command in ("status", "report", "logs -q", "logs --list"):
        done = subprocess.run(["sh", "-c", f"exec {harrow.program} {command} --run-dir r1 >&-"], cwd=directory, env=harrow.env,
                              capture_output=True, text=True, timeout=300)
        same((done.returncode, "cannot write the output" in done.stderr), (3, True), command, done.stderr)


def on_a_terminal(command, directory, env):
    """What a command writes to a terminal of its own."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(directory)
        os.execve(command[0], command, env)
    text = b""
    end = time.monotonic() + 300
    while time.monotonic() < end:
        if not select.select([terminal], [], [], 1)[0]:
            continue
        try:
            got = os.read(terminal, 65536)
        except OSError:
            break
        if not got:
            break
        text += got
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status), text.decode(errors="replace")


def test_terminals_that_know_no_escapes_get_none(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/tasks.txt", "sleep 0.3\n" * 8)
    for number, (more, escapes) in enumerate([({"TERM": "xterm"}, True), ({"TERM": "dumb"}, False), ({"TERM": ""}, False), ({}, False),
                                              ({"TERM": "xterm", "NO_COLOR": "1"}, False)]):
        env = {k: v for k, v in harrow.env.items() if k not in ("TERM", "NO_COLOR")} | more
        code, text = on_a_terminal([harrow.program, "run", "--slots", "2", "--run-dir", f"r{number}", "tasks.txt"], directory, env)
        same(code, 0, text)
        same("\x1b" in text, escapes, more, repr(text))
        check("done 8 of 8" in text, text)


# What each process of a run may hold besides 0 to 2, and why.
ALLOWED = {
    "keeper": [r"anon_inode:\[(eventpoll|eventfd|timerfd|signalfd|pidfd)\]",  # the loop, signals
               r"pipe:\[\d+\]",  # both ends of the server's progress: it outlives servers
               r"/dev/null", r"RUN", r"RUN/0", r"RUN/0/log/keeper\.log", r"RUN/0/log/srun\.log"],
    "server": [r"anon_inode:\[(eventpoll|eventfd|timerfd|signalfd)\]", r"socket:\[\d+\]", r"RUN", r"RUN/0", r"RUN/0/log/server\.log",
               r"RUN/0/journal\.(db|db-wal|acknowledged)"],
    "agent": [r"RUN", r"RUN/0", r"RUN/0/log/agent-.*\.log", r"socket:\[\d+\]"],  # the warden; the name that it is alone by
    "inner": [r"anon_inode:\[(eventpoll|eventfd|timerfd|signalfd)\]", r"socket:\[\d+\]", r"pipe:\[\d+\]",  # tasks' output
              r"RUN", r"RUN/0", r"RUN/0/log/agent-.*\.log", r"RUN/0/output/\d+\.(out|idx)", r"/.*/harrow-\w+(/.*)?"],  # tasks' TMPDIR
}


def descriptors(pid):
    found = {}
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            found[int(fd)] = os.readlink(f"/proc/{pid}/fd/{fd}")
    return found


def without_reason(pid, run_dir, allowed):
    """What a process holds and need not, or passes on to programs."""
    found = set()
    for fd, target in descriptors(pid).items():
        target = target.replace(run_dir, "RUN")
        if fd > 2 and not any(re.fullmatch(pattern, target) for pattern in allowed):
            found.add((fd, target))
        with contextlib.suppress(FileNotFoundError):
            with open(f"/proc/{pid}/fdinfo/{fd}", encoding="ascii") as f:
                flags = int(re.search(r"flags:\s*(\d+)", f.read())[1], 8)
            if fd > 2 and not flags & os.O_CLOEXEC:
                found.add((fd, target, "is passed on to programs"))
    time.sleep(0.05)
    return found


def test_every_open_descriptor_has_a_reason(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/tasks.txt", "echo x >> begun; while ! test -e go; do sleep 0.05; done\n" * 3)
    with open("/dev/null") as ours:  # and one of the starter's
        run = subprocess.Popen([program, "run", "--progress", "none", "--run-dir", "r", "--slots", "3", "tasks.txt"], cwd=directory,
                               env=harrow.env, pass_fds=[ours.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    path = os.path.realpath(f"{directory}/r")
    wait_for(lambda: len(lines_of(f"{directory}/begun")) == 3)
    try:
        for role, allowed in ALLOWED.items():
            pids = of_run(path, role)
            check(pids, "no", role)
            for pid in pids:
                # What it opens, reads and closes now and then is seen once at most.
                bad = set.intersection(*(without_reason(pid, path, allowed) for _ in range(3)))
                check(not bad, role, "holds", bad)
        agent = of_run(path, "inner")[0]
        tasks = [pid for pid, (parent, words) in run_support.processes().items() if parent == agent and words[0].endswith("sh")]
        same(len(tasks), 3)
        for pid in tasks:
            same(sorted(descriptors(pid)), [0, 1, 2], "a task holds", descriptors(pid))
    finally:
        write(f"{directory}/go", "")
        code = run.wait(timeout=180)
    same(code, 0)


if __name__ == "__main__":
    harrow_program = sys.argv[1]
    run_support.tell(lambda: run_support.tests_of(sys.modules[__name__], harrow_program))
