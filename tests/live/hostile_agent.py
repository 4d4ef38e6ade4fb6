#!/usr/bin/env python3
"""What other users of a node, and tasks that mean no good, can do to the processes of a run: nothing.

usage: hostile_agent.py HARROW [TEST...]     a line a case; ends with 1 when one of them did harm

Other users are played where root runs this; the forced process numbers need a PID namespace of their own."""
import contextlib
import os
import pty
import re
import signal
import socket
import stat
import subprocess
import sys
import time

import run_support
from run_support import Harrow, Skipped, check, in_part, kill, lines_of, of_run, query, recorded, same, wait_for, with_word, write

NOBODY = 65534
AS_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]


def need_other_user():
    if os.getuid() != 0:
        raise Skipped("only root can play another user", "root")


@contextlib.contextmanager
def running(harrow, *args):
    """A run that is ended at the end of the block, whatever happens in it."""
    process = harrow.start("run", *args)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(180)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextlib.contextmanager
def attacker(script, *args):
    """A python script of another user; it says `ready` once, and is killed at the end."""
    process = subprocess.Popen([*AS_NOBODY, "/usr/bin/python3", "-c", script, *args], stdout=subprocess.PIPE, text=True)
    try:
        same(process.stdout.readline(), "ready\n", "the attacker")
        yield process
    finally:
        process.kill()
        process.wait()


def abstract_names():
    with open("/proc/net/unix", encoding="utf-8", errors="replace") as f:
        return {line.split()[-1] for line in f if "@" in line}


def marks_of(pid):
    found = []
    with contextlib.suppress(OSError):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                target = os.readlink(f"/proc/{pid}/fd/{fd}")
                if target.startswith("/memfd:"):
                    found.append(target.removeprefix("/memfd:").removesuffix(" (deleted)"))
    return found


SQUATTER = """
import ctypes, os, socket, sys, time
libc = ctypes.CDLL(None, use_errno=True)
held = []
for name in sys.argv[1:]:
    if name.startswith("@"):
        s = socket.socket(socket.AF_UNIX)
        s.bind("\\0" + name[1:])     # bound, and never listened at: a connect is refused
        held.append(s)
    else:
        held.append(libc.memfd_create(name.encode(), 0))
print("ready", flush=True)
time.sleep(600)
"""


def agent_alone(harrow, run_dir):
    """An agent as srun starts one on a node: it looks for another one of its node first."""
    return subprocess.Popen([harrow.program, "agent", "--run-dir", run_dir, "--slots", "1"], cwd=harrow.cwd,
                            env={**harrow.env, "SLURMD_NODENAME": "extra"}, stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)


def joined(directory):
    return sum("joined the server" in line for line in lines_of(in_part(f"{directory}/r", "log/agent-extra.log")))


def test_squatted_names(directory, program):
    """All names by which an agent of the node could be found are taken by another user: an agent serves all the same."""
    need_other_user()
    harrow = Harrow(program, directory)
    write(f"{directory}/tasks.txt", "sleep 600\n")
    with running(harrow, "--run-dir", "r", "--slots", "1", "tasks.txt"):
        wait_for(lambda: of_run(f"{directory}/r", "inner"))
        before = abstract_names()
        first = agent_alone(harrow, "r")
        try:
            wait_for(lambda: joined(directory) == 1 or first.poll() is not None)
            names = {name for name in abstract_names() - before if "harrow" in name}
            marks = marks_of(first.pid)
        finally:
            kill(first.pid)
            first.wait()
        wait_for(lambda: not (abstract_names() & names))
        check(names or marks, "an agent shows no sign by which a second could find it")
        with attacker(SQUATTER, *names, *marks):
            second = agent_alone(harrow, "r")
            try:
                wait_for(lambda: joined(directory) == 2 or second.poll() is not None)
                same(second.poll(), None, "the agent left because of another user's names", names, marks)
            finally:
                kill(second.pid)
                second.wait()


def run_with_tmpdir(directory, program, tmpdir):
    harrow = Harrow(program, directory, {"TMPDIR": tmpdir})
    write(f"{directory}/tasks.txt", "echo $TMPDIR >>where; echo secret >$TMPDIR/x; while [ ! -e go ]; do sleep 0.05; done\n")
    with running(harrow, "--run-dir", "r", "--slots", "1", "tasks.txt") as run:
        wait_for(lambda: lines_of(f"{directory}/where"))
        where = lines_of(f"{directory}/where")[0]
        info = os.stat(os.path.dirname(where))
        same((info.st_uid, stat.S_IMODE(info.st_mode)), (os.getuid(), 0o700), "the directory of TMPDIRs")
        write(f"{directory}/go", "")
        same(run.wait(180), 0)
    return where


def test_tmpdir_of_others(directory, program):
    """A TMPDIR in which others can replace directories is not used; one that is a link to a good one is."""
    need_other_user()
    foreign, open_to_all, of_group, good = (f"{directory}/{name}" for name in ("foreign", "open", "group", "good"))
    for path, owner, mode in ((foreign, NOBODY, 0o755), (open_to_all, 0, 0o777), (of_group, 0, 0o2775), (good, 0, 0o700)):
        os.mkdir(path)
        os.chown(path, owner, owner)
        os.chmod(path, mode)
    os.symlink(good, f"{directory}/link")
    for number, (tmpdir, used) in enumerate(((foreign, False), (open_to_all, False), (of_group, False), (f"{directory}/link", True),
                                             (f"{directory}/missing", False), (f"{directory}/tasks.txt", False))):
        sub = f"{directory}/{number}"
        os.mkdir(sub)
        where = run_with_tmpdir(sub, program, tmpdir)
        same(where.startswith(tmpdir + "/"), used, "TMPDIR", tmpdir, "gave", where)
        same(os.path.exists(os.path.dirname(where)), False, "left:", where)
    for path in (foreign, open_to_all, of_group, good):
        same(os.listdir(path), [])


def test_tmpdir_moved_away_by_others(directory, program):
    """Who may rename what holds a TMPDIR puts a directory or a link of the same name there: what it leads to stays."""
    need_other_user()
    os.chmod(directory, 0o755)
    for kind in ("link", "directory"):
        sub, project = f"{directory}/{kind}", f"{directory}/{kind}/project"
        os.makedirs(f"{sub}/case/0")
        write(f"{sub}/case/0/U", "precious")
        os.makedirs(f"{project}/mine/tmp")
        os.chown(project, 0, NOBODY)
        os.chmod(project, 0o2775)
        harrow = Harrow(program, sub, {"TMPDIR": f"{project}/mine/tmp"})
        write(f"{sub}/tasks.txt", "echo $TMPDIR >where; while [ ! -e go ]; do sleep 0.05; done\n" "true\n")
        with running(harrow, "--run-dir", "r", "--slots", "1", "tasks.txt") as run:
            wait_for(lambda sub=sub: lines_of(f"{sub}/where"))
            name = os.path.basename(os.path.dirname(lines_of(f"{sub}/where")[0]))
            put = f"ln -s ../../../case mine/tmp/{name}" if kind == "link" else f"mkdir mine/tmp/{name}; ln -s ../../../../case/0 mine/tmp/{name}/0"
            subprocess.run([*AS_NOBODY, "sh", "-ec", f"cd {project}; mv mine away; mkdir -p mine/tmp; {put}"], check=True)
            write(f"{sub}/go", "")
            run.wait(180)
        same(os.listdir(f"{sub}/case/0"), ["U"], kind)
        if kind == "directory":
            same(os.path.islink(f"{project}/mine/tmp/{name}/0"), True)


def test_tmpdir_replaced_by_a_link(directory, program):
    """A task that puts a link in place of its TMPDIR loses the link, and nothing that it leads to."""
    harrow = Harrow(program, directory)
    os.mkdir(f"{directory}/home")
    for name in ("a", "b"):
        write(f"{directory}/home/{name}", "precious")
    write(f"{directory}/tasks.txt", 'rmdir "$TMPDIR" && ln -s "$PWD/home" "$TMPDIR"\n' 'mv "$TMPDIR" kept-$HARROW_TASK_ID && ln -s "$PWD/home" "$TMPDIR"\n'
          'test -z "$(ls -A "$TMPDIR")" && test ! -L "$TMPDIR"\n' * 3)
    harrow("run", "--run-dir", "r", "--slots", "1", "tasks.txt", code=0)
    same(sorted(os.listdir(f"{directory}/home")), ["a", "b"])


def test_killed_wardens_leave_nothing(directory, program):
    """Killed once, its successor clears up after it; killed at the end, the keeper does."""
    tmp = f"{directory}/tmp"
    os.mkdir(tmp, 0o700)
    harrow = Harrow(program, directory, {"TMPDIR": tmp})
    write(f"{directory}/tasks.txt", "trap '' TERM; echo x >$TMPDIR/x; touch started; while [ ! -e go ]; do sleep 0.05; done\n")
    with running(harrow, "--run-dir", "r", "--slots", "1", "tasks.txt") as run:
        wait_for(lambda: os.path.exists(f"{directory}/started"))
        first = os.listdir(tmp)
        os.unlink(f"{directory}/started")
        kill(of_run(f"{directory}/r", "agent")[0])
        wait_for(lambda: os.path.exists(f"{directory}/started"))
        second = os.listdir(tmp)
        same(len(second), 1, "what the killed one had made stays:", first, second)
        check(first != second, first, second)
        # A second Ctrl-C ends all at once: wardens are killed, and nobody is left to clear up but the keeper.
        run.send_signal(signal.SIGINT)
        wait_for(lambda: any("once more" in line for line in lines_of(f"{directory}/harrow.out")))
        wait_for(lambda: run.poll() is not None or run.send_signal(signal.SIGINT))  # too soon after the first it is the same one
        run.wait(180)
    same(os.listdir(tmp), [])
    same([name for name in os.listdir(in_part(f"{directory}/r", "log")) if name.endswith(".tmp")], [])


WILD = {
    "session": "setsid sh -c 'exec sleep {mark}' &",
    "twice": "(setsid sh -c '(exec setsid sleep {mark}) &' &); ",
    "deaf": "trap '' TERM HUP INT; (trap '' TERM; exec sleep {mark}) & ",
    "closed": "exec 0<&- 1>&- 2>&-; sleep {mark} & ",
    "stopped": "(kill -STOP $(sh -c 'echo $PPID'); exec sleep {mark}) & ",
    "nameless": "env -i /bin/sh -c 'exec sleep {mark}' & ",
}


def test_tasks_that_will_not_end(directory, program):
    """Own sessions, double forks, deaf, closed, stopped: with the run all of it has ended."""
    harrow = Harrow(program, directory)
    mark = run_support.long_sleep()
    write(f"{directory}/tasks.txt", "".join(text.format(mark=mark) + f" echo {name} >>ran\n" for name, text in WILD.items()))
    harrow("run", "--run-dir", "r", "--slots", "2", "tasks.txt", code=0)
    same(sorted(lines_of(f"{directory}/ran")), sorted(WILD))
    same(with_word(mark), [], "survivors")
    # Ended by a signal: those that wait for what they started.
    write(f"{directory}/more.txt", "".join(text.format(mark=mark) + f" echo {name} >>more; while :; do sleep 1; done\n" for name, text in WILD.items()))
    with running(harrow, "--run-dir", "q", "--slots", "6", "more.txt") as run:
        wait_for(lambda: len(lines_of(f"{directory}/more")) == len(WILD))
        run.terminate()
        same(run.wait(180), 128 + signal.SIGTERM)
    same(with_word(mark), [], "survivors of a run that was ended")


def test_cancelled_tasks_leave_nobody(directory, program):
    """A task that is cancelled takes its sessions along, while the run goes on."""
    harrow = Harrow(program, directory)
    mark = run_support.long_sleep()
    write(f"{directory}/tasks.txt", f"setsid sleep {mark} & touch started; wait\nwhile [ ! -e go ]; do sleep 0.05; done\n")
    with running(harrow, "--run-dir", "r", "--slots", "2", "tasks.txt") as run:
        wait_for(lambda: os.path.exists(f"{directory}/started") and with_word(mark))
        harrow("cancel", "--run-dir", "r", "#1", code=0)
        wait_for(lambda: recorded(harrow, "r")["cancelled"] == 1)
        wait_for(lambda: not with_word(mark))
        write(f"{directory}/go", "")
        run.wait(180)


def test_tasks_that_kill_their_parents(directory, program):
    """Agent and warden come again; a task that always kills its agent does not do so for ever."""
    harrow = Harrow(program, directory)
    write(f"{directory}/tasks.txt", "test -e agent-killed || { touch agent-killed; kill -9 $PPID; sleep 60; }\n"
          "test -e warden-killed || { touch warden-killed; kill -9 $(ps -o ppid= -p $PPID); sleep 60; }\n" + "sleep 0.1\n" * 5)
    harrow("run", "--run-dir", "r", "--slots", "1", "tasks.txt", code=0)
    same(query(f"{directory}/r", "SELECT state, count(*) FROM tasks GROUP BY state"), [("done", 7)])
    write(f"{directory}/always.txt", "kill -9 $PPID; sleep 60\n")
    result = harrow("run", "--run-dir", "q", "--slots", "1", "always.txt")  # it ends
    check(result.code in (1, 3), "a task that kills its agent each time:", result)
    same(of_run(f"{directory}/q", "agent"), [])


def test_a_fork_bomb_is_bounded(directory, program):
    """A task that forks all the time, each in a session of its own, ends at its time limit with all of it."""
    harrow = Harrow(program, directory)
    mark = run_support.long_sleep()
    write(f"{directory}/bomb", f"#!/bin/sh\nulimit -u 400 2>/dev/null\nfor i in $(seq 400); do setsid sleep {mark} & done\nwait\n", 0o755)
    write(f"{directory}/tasks.txt", "#HARROW time=3s\n./bomb\n")
    result = harrow("run", "--run-dir", "r", "--slots", "1", "tasks.txt")
    same(result.code, 1, result)
    same(with_word(mark), [], "survivors")
    same(harrow("run", "--run-dir", "q", "--slots", "1", write(f"{directory}/ok.txt", "true\n")).code, 0)


# In a PID namespace where it may choose the next number. A task ends and leaves one that holds its output; meanwhile a
# stranger is given the task's number, if it can be had, and leads a group of that number.
FORCED = r"""
import os, subprocess, sys, time
directory, program = sys.argv[1:]
run = subprocess.Popen([program, "run", "--run-dir", "r", "--slots", "1", "--progress", "none", "tasks.txt"], cwd=directory)
alive = 0.0          # the task had not ended then
def read(name):
    global alive
    end = time.monotonic() + 180
    while (now := time.monotonic()) < end:
        try:
            with open(f"{directory}/{name}") as f:
                text = f.read()
            if text.endswith("\n"):
                return int(text)
        except FileNotFoundError:
            alive = now
        time.sleep(0.001)
    sys.exit(f"no {name}")
def state(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0]
    except OSError:
        return ""
task = read("task")
looked = time.monotonic()
while state(task) not in ("Z", ""):
    alive = looked
    time.sleep(0.001)
    looked = time.monotonic()
strangers = []
had = False
while time.monotonic() < alive + 0.35 and not had:
    with open("/proc/sys/kernel/ns_last_pid", "w") as f:
        f.write(str(task - 1))
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        time.sleep(600)
        os._exit(7)
    had = pid == task and time.monotonic() < alive + 0.5   # what is left of it is given half a second from its end on
    strangers.append(pid)
run.wait()
hit = [pid for pid in strangers if os.waitpid(pid, os.WNOHANG) != (0, 0)]
print("had" if had else "not had", "hit" if hit else "not hit", len(strangers))
for pid in strangers:
    if pid not in hit:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
sys.exit(run.returncode)
"""


def test_a_reused_number_hits_no_stranger(directory, program):
    user = [] if os.getuid() == 0 else ["--user", "--map-root-user"]
    unshare = ["unshare", *user, "--pid", "--fork", "--mount", "--mount-proc", "--kill-child"]
    if subprocess.run([*unshare, "sh", "-c", "echo 99 >/proc/sys/kernel/ns_last_pid"], capture_output=True, check=False).returncode:
        raise Skipped("no say in which number a process gets", "chosen process numbers")
    env = Harrow(program, directory).env
    for number in range(20):  # until it was tried in time, which a machine that has much else to do may not allow
        sub = f"{directory}/{number}"
        os.mkdir(sub)
        write(f"{sub}/tasks.txt", "(exec setsid sleep 2) & echo $$ >task.tmp; mv task.tmp task; exit 0\n")
        done = subprocess.run([*unshare, "/usr/bin/python3", "-c", FORCED, sub, program], capture_output=True, text=True, timeout=300, env=env,
                              check=False)
        same(done.returncode, 0, done.stdout, done.stderr)
        check(" not hit " in done.stdout, "a stranger of the task's number was killed:", done.stdout)
        last = done.stdout.splitlines()[-1]
        check(last.startswith("not had"), "the number was free before the task's group was dealt with", done.stdout)
        if int(last.split()[-1]) > 0:
            return
    check(False, "it was never tried in time: nothing was shown")


def test_what_another_user_can_read(directory, program):
    """Key, environment and logs are the owner's alone, in a directory that everybody may enter."""
    need_other_user()
    os.chmod(directory, 0o755)
    secret = f"secret{os.getpid()}"
    harrow = Harrow(program, directory, {"MY_TOKEN": secret})
    os.umask(0)
    write(f"{directory}/tasks.txt", "touch started; while [ ! -e go ]; do sleep 0.05; done\n")
    with running(harrow, "--run-dir", "r", "--slots", "1", "tasks.txt") as run:
        wait_for(lambda: os.path.exists(f"{directory}/started"))
        with open(in_part(f"{directory}/r", "server"), "rb") as f:
            server = f.read()
        keys = re.findall(rb"[0-9a-f]{32,}|[A-Za-z0-9+/=]{40,}", server)
        check(keys, "no key found in", server)
        found = subprocess.run([*AS_NOBODY, "sh", "-c", "find r -type f -exec cat {} + 2>/dev/null; "
                                "for d in /proc/[0-9]*; do cat $d/environ $d/cmdline 2>/dev/null; done"], cwd=directory, capture_output=True, check=False).stdout
        check(secret.encode() not in found, "another user can read the run's environment")
        for key in keys:
            check(key not in found, "another user can read the key")
        writable = subprocess.run([*AS_NOBODY, "sh", "-c", "find r -writable ! -type l"], cwd=directory, capture_output=True, text=True, check=False).stdout
        same(writable, "", "another user can write to")
        # What listens says nothing to one who does not know the key.
        port = int(re.search(rb":(\d+)", server).group(1))
        for said in (b"", b"\0" * 65536, b"\x16\x03\x01" + b"\xff" * 600, b"GET / HTTP/1.0\r\n\r\n"):
            with socket.create_connection(("127.0.0.1", port), 10) as s:
                s.settimeout(30)
                with contextlib.suppress(OSError):
                    s.sendall(said)
                    s.shutdown(socket.SHUT_WR)
                    told = s.recv(4096)
                    check(len(told) < 100, "it answered", told)
        write(f"{directory}/go", "")
        same(run.wait(180), 0)
    os.umask(0o022)


def on_terminal(command, cwd, env):
    """What a command writes to a terminal."""
    pid, fd = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        os.execve(command[0], command, {**env, "TERM": "xterm"})
    text = b""
    with contextlib.suppress(OSError):
        while chunk := os.read(fd, 65536):
            text += chunk
    os.waitpid(pid, 0)
    os.close(fd)
    return text


def test_output_of_tasks(directory, program):
    """What a failed task wrote, and what it is called, moves no cursor and sets no title; NUL and endless lines pass."""
    harrow = Harrow(program, directory)
    evil = "\\033]0;owned\\007\\033[2J\\033[31mred\\000\\n"
    write(f"{directory}/flow.toml", f'''
[[task]]
name = "esc\\u001b]0;owned\\u0007"
command = "printf '{evil.replace(chr(92), chr(92) * 2)}' >&2; exit 3"
''')
    text = on_terminal([harrow.program, "run", "--run-dir", "r", "flow.toml"], directory, harrow.env)
    check(b"owned" in text and b"red" in text, "the failure is told", text)
    for bad in (b"\x1b]0;", b"\x1b[2J", b"\x1b[31m", b"\x07", b"\0"):
        check(bad not in text, "the terminal got", bad, text)
    text = on_terminal([harrow.program, "status", "--run-dir", "r", "--failed"], directory, harrow.env)
    check(b"\x1b]0;" not in text and b"\x07" not in text, text)
    # Its own bytes reach a file unchanged.
    logs = subprocess.run([harrow.program, "logs", "--run-dir", "r", "#1"], cwd=directory, env=harrow.env, capture_output=True, check=False)
    check(b"\x1b]0;owned\x07\x1b[2J\x1b[31mred\0\n" in logs.stderr + logs.stdout, logs)


def test_a_line_without_end(directory, program):
    """A line of a GB is cut at the limit, and neither fills the disk nor the agent's memory."""
    harrow = Harrow(program, directory)
    write(f"{directory}/tasks.txt", "head -c 1000000000 /dev/zero\ncat /proc/$PPID/status >status\n")
    harrow("run", "--run-dir", "r", "--slots", "1", "tasks.txt", timeout=300, code=0)
    kept = query(f"{directory}/r", "SELECT stdout_bytes FROM attempt WHERE task = 0")
    check(kept and 0 < kept[0][0] <= 64 << 20, kept)
    size = sum(os.path.getsize(in_part(f"{directory}/r", f"output/{name}")) for name in os.listdir(in_part(f"{directory}/r", "output")))
    check(size < 80 << 20, "the packed output has", size, "bytes")
    peak = int(next(line for line in lines_of(f"{directory}/status") if line.startswith("VmHWM:")).split()[1])
    check(peak < 300_000, "the agent held", peak, "KiB")


def main():
    program = os.path.abspath(sys.argv[1])
    run_support.tests_of(sys.modules[__name__], program)


run_support.tell(main)
