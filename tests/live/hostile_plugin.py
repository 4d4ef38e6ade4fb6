#!/usr/bin/env python3
"""What other users, full disks and disks that hang may do to the SPANK plugin: all of it refused or harmless.
After each case the nodes are idle but for another user's job, which has lost nothing, and nothing outside was touched.
usage: hostile_plugin.py SPANK_HARROW.SO [name of a case]; a line a case; exit status 1: one failed."""
import contextlib
import os
import subprocess
import sys
import time

from cluster_support import Cluster, check, wait_for

PLUGIN = os.path.abspath(sys.argv[1])
SHARE = ("--share", os.path.dirname(PLUGIN))
NODES = ("node1", "node2")
# A job's end that waits for a disk takes longer than the test waits for anything.
LONG_EPILOG = "epilog_time=86000"
SKIPPED = []


def plugstack(arguments):
    with open(CLUSTER.path("etc", "plugstack.conf"), "w") as f:
        f.write(f"optional {PLUGIN} {arguments}\n")


def root(command, node="node2", **kwargs):
    return CLUSTER.run("bash", "-c", command, node=node, **kwargs).stdout


def entries(place="/mnt/local/harrow", node="node2"):
    """What lies in LOCAL/harrow but for the witness' own."""
    names = root(f"ls -A {place} 2>/dev/null || true", node).split()
    return [name for name in names if name.split(".")[0] != WITNESS]


def slurmd_log(node="node2"):
    with open(CLUSTER.path("log", f"slurmd.{node}.log"), errors="replace") as f:
        return f.read()


@contextlib.contextmanager
def said(*lines):
    """Each of (text, times) is in node2's log so many times more than before; times None: once at least."""
    before = len(slurmd_log())
    yield
    new = slurmd_log()[before:]
    for text, times in lines:
        found = new.count(text)
        check(found == times if times is not None else found > 0, f"'{text}' is {found} times in slurmd's log, not {times}:\n{new[-3000:]}")


def job(text, *options, user="alice", harrow=True):
    """Submits a script for node2."""
    return CLUSTER.script(text, *(["--harrow"] if harrow else []), "-p", "all", "-w", "node2", "-o", f"/mnt/home/{user}/%j.out", *options, user=user)


def output(number, user="alice"):
    with open(CLUSTER.path("home", user, f"{number}.out"), errors="replace") as f:
        return f.read()


def signpost(name):
    return f"{CLUSTER.home}/alice/{name}"


def until_it_says(name, timeout=40):
    wait_for(lambda: os.path.exists(signpost(name)), f"the job's sign '{name}'", timeout)


def waits(name):
    """Shell text: says that it is there, and waits to be told to go on."""
    for end in ("there", "go"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(signpost(f"{name}-{end}"))
    return f"touch ~/{name}-there; while [ ! -e ~/{name}-go ]; do sleep 0.1; done\n"


def go_on(name):
    CLUSTER.run("touch", f"/mnt/home/alice/{name}-go")


def ended(number, timeout=60):
    state = CLUSTER.wait_job(number, timeout)
    check(state == "COMPLETED", f"job {number} ended as {state}")


def cleared_by_the_next_job(place="/mnt/local/harrow"):
    """What could not be removed goes at the end of another user's job."""
    ended(job("true\n", user="bob"))
    wait_for(lambda: entries(place) == [], f"the next job's end to clear {place}: {entries(place)}", 20)


def restart_slurmd(meanwhile=""):
    pid = root(f"cat {CLUSTER.path('run', 'slurmd.node2.pid')}").strip()
    root(f"kill {pid}; while kill -0 {pid} 2>/dev/null; do sleep 0.05; done; {meanwhile}")
    root("slurmd -N node2")


SNAPSHOT = "find /mnt/precious /etc/hostname /mnt/local -maxdepth 0 -printf '%p %U %m\\n'; " \
           "find /mnt/precious -mindepth 1 -printf '%p %y %U %m %s\\n' | sort; cat /mnt/precious/file /mnt/precious/in/file"


def untouched():
    """Nodes idle or with the witness alone, none drained; the witness' job, files and what lies outside as before."""
    wait_for(lambda: CLUSTER.out("squeue", "-h", "-o", "%A %T").split("\n") == [f"{WITNESS} RUNNING"], "the end of all jobs but one", 60)
    states = set(CLUSTER.out("sinfo", "-h", "-N", "-p", "all", "-o", "%T").split())
    check(states == {"mixed"}, f"the nodes are {states}")
    for node in NODES:
        check(root(f"cat /mnt/local/harrow/{WITNESS}/kept; stat -c '%u %a' /mnt/local/harrow/{WITNESS}", node) == "kept\n5002 700\n",
              f"another job's directory on {node} is not as it was")
        check(len(root("pgrep -u bob -fx 'sleep 9001'", node).split()) == 1, f"another job's process on {node} is gone")
        check(root(SNAPSHOT, node) == BEFORE[node], f"what lies outside was touched on {node}")
    check(sorted(os.listdir(CLUSTER.path("home", "bob", "own"))) == ["own"], "another user's home was touched")


# ---- cases -----------------------------------------------------------------------------------------------------------

HOLD = """import fcntl, os, sys
held = []
for top in ('/mnt/local', '/run', '/tmp'):
    for where, names, files in os.walk(top, onerror=lambda e: None):
        for path in [where, *(os.path.join(where, f) for f in files)]:
            for flags in (os.O_RDWR, os.O_RDONLY):
                try: fd = os.open(path, flags | os.O_NONBLOCK | os.O_NOFOLLOW)
                except OSError: continue
                for lock in (lambda: fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB), lambda: fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)):
                    try: lock()
                    except OSError: pass
                held.append((fd, path))
open(os.path.expanduser('~/locked'), 'w').write('\\n'.join(p for _, p in held))
import time; time.sleep(100000)"""


def another_users_lock():
    """A lock on everything that can be opened: a job that starts again over its remains, ends, is swept."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(signpost("locked"))
    first = job("[ -n \"$SLURM_RESTART_COUNT\" ] && { echo again ${HARROW_LOCAL:-none}; exit 0; }\ntouch $HARROW_LOCAL/kept-by-root\n" + waits("lock"), "--requeue")
    until_it_says("lock-there")
    root(f"chattr +i /mnt/local/harrow/{first}/kept-by-root")
    holder = job(f"python3 -c \"$(cat <<'X'\n{HOLD}\nX\n)\"\n", harrow=False)
    wait_for(lambda: os.path.exists(signpost("locked")) and open(signpost("locked")).read(), "the locks", 40)
    held = open(signpost("locked")).read().split("\n")
    check("/mnt/local/harrow" in held, "the lock on the directory of all jobs is not held: nothing was shown")
    check(not any(".job" in path or ".note" in path for path in held), f"a user opened what is root's: {held}")
    CLUSTER.run("scontrol", "requeue", first)
    wait_for(lambda: CLUSTER.job_state(first) == "COMPLETED", "the job's second start, which is short", 100)
    check("again none" in output(first), output(first))
    root(f"chattr -i /mnt/local/harrow/{first}/kept-by-root")
    cleared_by_the_next_job()
    check(CLUSTER.job_state(holder) == "RUNNING", "the locks were let go: nothing was shown")
    CLUSTER.run("scancel", holder)


def made_by_somebody_else_first():
    """A directory, a link, a file, a FIFO before slurmd starts: named in its log, nothing is made in it, jobs run."""
    plugstack("local=/tmp")
    for trap, kind in (("mkdir -m 777 /tmp/harrow", "directory"), ("ln -s /mnt/home/alice /tmp/harrow", "link"),
                       ("touch /tmp/harrow", "file"), ("mkfifo /tmp/harrow", "file")):
        home = sorted(os.listdir(CLUSTER.path("home", "alice")))
        with said((f"jobs get no directory: /tmp/harrow is not a directory that only slurmd's user (uid 0) may write to, but a {kind} of uid 5001", 1),
                  (f"no job directory: /tmp/harrow is not a directory that only slurmd's user (uid 0) may write to, but a {kind} of uid 5001", 1)):
            restart_slurmd(f"rm -rf /tmp/harrow; setpriv --reuid=5001 --regid=5001 --clear-groups {trap}")
            number = job("echo has ${HARROW_LOCAL:-none}\n", user="bob")
            ended(number)
        check(output(number, "bob") == "has none\n", f"{trap}: {output(number, 'bob')}")
        check(sorted(os.listdir(CLUSTER.path("home", "alice"))) == home, "something was made behind a link")
        check(root("stat -c %u /tmp/harrow").strip() == "5001", "it is not as it was")


def nobody_is_first():
    """Once slurmd has started, before any job, the directory is there and no other user can move or replace it."""
    plugstack("local=/tmp")
    restart_slurmd("rm -rf /tmp/harrow")
    wait_for(lambda: root("stat -c '%u %a' /tmp/harrow 2>/dev/null || true") == "0 755\n", "/tmp/harrow", 20)
    for attempt in ("rmdir /tmp/harrow", "mv /tmp/harrow /tmp/mine", "ln -sfn /mnt/precious /tmp/harrow", "touch /tmp/harrow/1.job", "mkdir /tmp/harrow/1",
                    "ln -s /mnt/precious /tmp/harrow/99", "ls /run/harrow", "rm -rf /tmp/harrow"):
        done = CLUSTER.run("bash", "-c", attempt, node="node2", user="alice", check=False)
        check(done.returncode != 0 or "/tmp/harrow/" not in attempt and "ln" in attempt, f"{attempt} worked")
    check(root("stat -c '%u %a %F' /tmp/harrow; ls -A /tmp/harrow") == "0 755 directory\n", "it is not as it was")
    root("mkdir -m 777 /mnt/open")
    plugstack("local=/mnt/open")
    with said(("no job directory: in /mnt/open (uid 0, mode 0777) others may rename what is not theirs", 1)):
        number = job("echo has ${HARROW_LOCAL:-none}\n", user="bob")
        ended(number)
    check(output(number, "bob") == "has none\n" and root("ls -A /mnt/open") == "", "something was made where others may rename it")


CONTENTS = r"""cd $HARROW_LOCAL
ln -s /mnt/precious link; ln -s /etc etc; ln -s . self; ln -s ../.. up; ln -s ../$WITNESS other; ln /mnt/home/alice/mine hard
mkdir -p a/b/c '\040 mount' 'x
y' -- -rf '*' ' ' 0 1/2/3 shut/in "$(printf '\377\001')"; touch -- -f '
' 'x
y/z
w'
for d in 0 1 a/b; do ln -s /mnt/precious $d/link; mkfifo $d/fifo; done
python3 -c "
import os, socket
socket.socket(socket.AF_UNIX).bind('socket')
for i in range(4000): os.mkdir('deeper'); os.chdir('deeper')
open('at the end', 'w')"
mkdir many many/wide; python3 -c "
for i in range(30000): open(f'many/wide/{i}', 'w')"
mkdir mounted theirs locked; touch mounted-file
chmod 000 shut/in shut
"""


def contents():
    """Links out, 4 000 levels, 30 000 files, strange names, shut directories, FIFOs, mounts: all gone, nothing else."""
    CLUSTER.run("bash", "-c", "touch ~alice/mine; chown alice ~alice/mine")
    first = job(f"WITNESS={WITNESS}\n" + CONTENTS + waits("contents"))
    until_it_says("contents-there", 100)
    root(f"cd /mnt/local/harrow/{first}; touch of-root; touch theirs/in; chown -R bob theirs; mount --bind /mnt/precious mounted; "
         "mount --bind /mnt/precious/file mounted-file; mount -t tmpfs x 0; touch 0/x; mount --bind /mnt/precious 1/2")
    go_on("contents")
    ended(first, 120)
    wait_for(lambda: entries() == [], f"an empty directory: {entries()}", 20)
    check(f"/harrow/{first}" not in root("cat /proc/mounts"), "a mount is left")
    check(os.path.exists(signpost("mine")), "the other name of a file is gone")


def what_cannot_be_removed():
    """An immutable file of root's stays, is named, keeps nobody; when it can go, it goes."""
    first = job("cd $HARROW_LOCAL; mkdir -p a/b; touch a/b/fixed a/other\n" + waits("fixed"))
    until_it_says("fixed-there")
    root(f"chattr +i /mnt/local/harrow/{first}/a/b/fixed")
    with said((f"/mnt/local/harrow/{first} is not wholly removed: Operation not permitted", None)):
        go_on("fixed")
        ended(first)
        ended(job("true\n", user="bob"))
    check(sorted(entries()) == sorted([first, f"{first}.job"]), str(entries()))
    check(root(f"stat -c '%u %a' /mnt/local/harrow/{first}").strip() == "0 700", "what is left is still open to its user")
    root(f"find /mnt/local/harrow/{first} -name fixed -exec chattr -i '{{}}' ';'")
    cleared_by_the_next_job()


# Its current directory stays when the tree is removed above it.
SWAP = r"""cd /mnt/local/harrow/$1/$2 && touch ~/swapping-$2
while true; do
  mkdir -p r/s/t in; touch in/{1..20}; mv in in2; ln -sfn /mnt/precious in; rm in; ln -sfn /mnt/precious r/s/l; mv r r2; ln -s /mnt/precious r
  rm r; mv r2 r; ln -s /mnt/precious/in ../../x-$2 ; mv in2 ../in-$2; ln -sfn /mnt/precious ../$2; rm -rf in2
done 2>/dev/null
"""


def swapped_while_removed():
    """Directories become links and back while root removes them: no link is followed, and the job's end comes."""
    for name in ("a", "b"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(signpost(f"swapping-{name}"))
    first = job("cd $HARROW_LOCAL; mkdir -p a b many; for d in many/{1..300}; do mkdir $d; touch $d/{1..20}; done\n" + waits("swap"))
    until_it_says("swap-there")
    with open(signpost("swap.sh"), "w") as f:
        f.write("#!/bin/bash\n" + SWAP)
    os.chmod(signpost("swap.sh"), 0o755)
    # Another job of the same user: the first one's end does not end its processes.
    second = job(f"~/swap.sh {first} a & ~/swap.sh {first} b & wait\n", harrow=False)
    until_it_says("swapping-a")
    until_it_says("swapping-b")
    go_on("swap")
    ended(first, 120)
    check(CLUSTER.job_state(second) == "RUNNING", "the other job did not live on: nothing was shown")
    CLUSTER.run("scancel", second)
    wait_for(lambda: CLUSTER.job_state(second) in ("CANCELLED", "GONE"), "the other job's end", 40)
    if entries():
        cleared_by_the_next_job()


def forged_processes():
    """Who announces another user's directory lives on; what the job itself left is ended."""
    first = job("(setsid nohup sleep 9101 >/dev/null 2>&1 &)\n(env -i setsid nohup env HARROW_LOCAL=$HARROW_LOCAL sleep 9102 >/dev/null 2>&1 &)\n" + waits("forge"))
    until_it_says("forge-there")
    forger = job(f"export HARROW_LOCAL=/mnt/local/harrow/{first} SLURM_JOB_ID={first}\nsetsid sleep 9103 & sleep 9104\n", user="bob", harrow=False)
    wait_for(lambda: len(root("pgrep -u bob -fx 'sleep 910[34]' || true").split()) == 2, "the forger's processes")
    with said((f"job {first}: ended 2 processes it had left", 1)):
        go_on("forge")
        ended(first)
        wait_for(lambda: entries() == [], f"an empty directory: {entries()}", 20)
    check(root("pgrep -fx 'sleep 910[12]' || true") == "", "processes of the job are left")
    check(len(root("pgrep -u bob -fx 'sleep 910[34]'").split()) == 2, "another user's processes were ended")
    CLUSTER.run("scancel", forger)
    root("pkill -u bob -fx 'sleep 9103' || true")


@contextlib.contextmanager
def small_disk(options):
    root(f"mkdir -p /mnt/small; mount -t tmpfs -o mode=755,{options} small /mnt/small")
    plugstack("local=/mnt/small")
    try:
        yield
    finally:
        root("umount /mnt/small")


def full_disk():
    """Full before the job, full by the job: of blocks, of inodes. It runs; its end removes all."""
    for size in ("size=4k,nr_inodes=100", "size=1M,nr_inodes=1", "size=1M,nr_inodes=2", "size=1M,nr_inodes=3"):
        with small_disk(size), said(("No space left", 1), ("no job directory", 1)):
            if "4k" in size:
                root("mkdir /mnt/small/harrow; head -c 1M /dev/zero >/mnt/small/x 2>/dev/null || true")
            number = job("echo has ${HARROW_LOCAL:-none}\n")
            ended(number)
            check(output(number) == "has none\n", f"{size}: {output(number)}")
            check(root("ls -A /mnt/small/harrow 2>/dev/null || true") == "", f"{size}: something is left")
            check(root(f"ls /run/harrow | grep -c ^{number} || true") == "0\n", "a note is left")
    for fill in ("mkdir d; head -c 8M /dev/zero >d/f", "mkdir -p d/e/f; i=0; while mkdir d/$i; do i=$((i+1)); done; touch d/e/f/g"):
        with small_disk("size=4M,nr_inodes=600"):
            number = job(f"cd $HARROW_LOCAL; {{ {fill}; }} 2>&1 | tail -n 1; echo filled\n")
            ended(number)
            check("No space left" in output(number), f"it is not full: nothing was shown: {output(number)}")
            wait_for(lambda: root("ls -A /mnt/small/harrow") == "", "an empty directory", 20)


# A file system whose server takes no request: whoever looks at it waits.
SILENT = """import ctypes, os, sys
fd = os.open('/dev/fuse', os.O_RDWR)
data = f'fd={fd},rootmode=40000,user_id=0,group_id=0,allow_other'
if ctypes.CDLL(None, use_errno=True).mount(b'silent', sys.argv[1].encode(), b'fuse', 0, data.encode()) != 0: sys.exit(os.strerror(ctypes.get_errno()))
print('hangs', flush=True)
sys.stdin.read()"""
# Whoever writes to it waits, and no signal ends that.
FROZEN = """import subprocess, sys
subprocess.run(['fsfreeze', '-f', sys.argv[1]], check=True)
print('hangs', flush=True)
sys.stdin.read()
subprocess.run(['fsfreeze', '-u', sys.argv[1]], check=True)"""


@contextlib.contextmanager
def hanging(place, script=SILENT):
    """node2's disk does not answer."""
    holder = CLUSTER.start("timeout", "3000", sys.executable, "-c", script, place, node="node2", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    check(holder.stdout.readline() == "hangs\n", "the disk does not hang: nothing was shown")
    try:
        yield
    finally:
        holder.communicate("", timeout=300)
        if script == SILENT:
            root(f"umount -l {place}")


def hung_disk_slurmd_starts():
    """slurmd starts all the same, and says so; a job without the option does not notice."""
    plugstack(f"local=/mnt/local {LONG_EPILOG}")
    with said(("/mnt/local/harrow is not prepared, 10 s at most: it takes longer; does the disk answer?", 1)), hanging("/mnt/local"):
        restart_slurmd()
        number = job("hostname\n", user="bob", harrow=False)
        ended(number, 100)
        check(output(number, "bob") == "node2\n", output(number, "bob"))


def hung_disk_job_starts():
    """The job runs without a directory, only its first step waits, and its end does not; nor does a job without the option."""
    plugstack(f"local=/mnt/local {LONG_EPILOG}")
    with said(("is not made, 20 s at most: it takes longer; does the disk answer?", 1),
              ("no job directory: /mnt/local did not answer when the job began", 3)), hanging("/mnt/local"):
        number = job("echo has ${HARROW_LOCAL:-none}\nfor i in 1 2 3; do srun bash -c 'echo step ${HARROW_LOCAL:-none}'; done\n")
        ended(number, 60)
        # srun tells when a step has to wait for the one before it.
        said_by_steps = "".join(line for line in output(number).splitlines(True) if not line.startswith("srun: "))
        check(said_by_steps == "has none\n" + 3 * "step none\n", output(number))
        ended(job("true\n", user="bob", harrow=False), 60)
    check(root(f"ls /run/harrow | grep -c ^{number} || true") == "0\n", "a note is left")
    check(entries() == [], f"something is left: {entries()}")


def hung_disk_job_ends():
    """A job's end is as long as epilog_time says; when the disk is back, the next one removes what is left."""
    plugstack("local=/mnt/local epilog_time=1")
    first = job("mkdir $HARROW_LOCAL/d; touch $HARROW_LOCAL/d/file; cd /\n" + waits("hang"))
    until_it_says("hang-there")
    with said((f"job {first}: clearing up, 16 s at most: it takes longer; does the disk answer?", 1)), hanging("/mnt/local"):
        go_on("hang")
        ended(first, 60)
        check(root("ps -o stat= -C slurmstepd,slurmd | grep -c ^D || true") == "0\n", "something of Slurm's hangs")
    check(sorted(entries()) == sorted([first, f"{first}.job"]), f"not left for others: {entries()}")
    plugstack("local=/mnt/local")
    cleared_by_the_next_job()


@contextlib.contextmanager
def image(kind, megabytes, *options):
    """A file system of a kind at node2:/mnt/image."""
    path = CLUSTER.path("image")
    with open(path, "wb") as f:
        f.truncate(megabytes << 20)
    subprocess.run([f"mkfs.{kind}", "-q", *options, path], check=True, stdout=subprocess.DEVNULL)
    device = subprocess.run(["losetup", "-f", "--show", path], check=True, capture_output=True, text=True).stdout.strip()
    try:
        minor = os.minor(os.stat(device).st_rdev)
        root(f"mkdir -p /mnt/image; mknod {device} b 7 {minor}; mount -t {kind} {device} /mnt/image; chmod 755 /mnt/image")
    finally:
        subprocess.run(["losetup", "-d", device], check=False)  # when it is not mounted any more
    plugstack("local=/mnt/image epilog_time=1")
    try:
        yield
    finally:
        root(f"umount /mnt/image; rm {device}")
        os.unlink(path)


def frozen_disk():
    """What no signal ends is left behind, and keeps neither the job's start nor its end."""
    if not tools("fsfreeze", "mkfs.ext4", "losetup"):
        return
    with image("ext4", 32):
        root("mkdir /mnt/image/harrow")
        with hanging("/mnt/image", FROZEN):
            number = job("echo has ${HARROW_LOCAL:-none}\n")
            ended(number, 100)
            check(output(number) == "has none\n", output(number))
            check(root("ps -e -o stat=,comm= | grep -c '^D.*slurm' || true") != "0\n", "nothing hangs: nothing was shown")
            wait_for(lambda: CLUSTER.job_state(number) != "COMPLETING", "the job's end", 60)
        wait_for(lambda: root("ps -e -o stat=,comm= | grep -c '^D.*slurm' || true") == "0\n", "the end of what was left", 20)
        first = job("touch $HARROW_LOCAL/file; cd /\n" + waits("ice"))
        until_it_says("ice-there")
        with hanging("/mnt/image", FROZEN):
            go_on("ice")
            ended(first, 100)
        wait_for(lambda: root("ps -e -o stat=,comm= | grep -c '^D.*slurm' || true") == "0\n", "the end of what was left", 20)
        plugstack("local=/mnt/image")
        cleared_by_the_next_job("/mnt/image/harrow")


def tools(*names):
    missing = [name for name in names if subprocess.run(["which", name], stdout=subprocess.DEVNULL).returncode != 0]
    if missing:
        SKIPPED.append(f"{', '.join(missing)} not there (contrib/install-packages test)")
    return not missing


def projects_and_subvolumes():
    """Directories of other project ids (quotas) and subvolumes of the user's cannot be moved, and are removed."""
    if tools("mkfs.xfs", "mkfs.btrfs", "chattr", "losetup"):
        for kind, megabytes, make in (("xfs", 300, "mkdir -p a/b/c/d e/f/g; touch a/b/c/d/file e/f/g/file; chattr -R -p 7 a; chattr -p 8 e/f; chattr -p 9 . ; chattr +P . a a/b e; ls a/b/c/d"),
                                      ("btrfs", 200, "mkdir -p d/e; btrfs -q subvolume create d/s; btrfs -q subvolume create d/s/t; mkdir -p d/s/u/v/w d/s/t/x/y; touch d/s/u/v/w/file d/s/t/x/y/file; ls d/s/u/v/w")):
            with image(kind, megabytes):
                if kind == "xfs":  # as a site that gives all job directories one project
                    root("mkdir /mnt/image/harrow; chattr -p 3 /mnt/image/harrow; chattr +P /mnt/image/harrow")
                number = job(f"cd $HARROW_LOCAL\n{make}\n")
                ended(number)
                check(output(number) == "file\n", f"{kind}: {output(number)}")
                wait_for(lambda: root("ls -A /mnt/image/harrow") == "", f"{kind}: an empty directory: {root('ls -AR /mnt/image/harrow')}\n{slurmd_log()[-600:]}", 10)


CASES = [another_users_lock, made_by_somebody_else_first, nobody_is_first, contents, what_cannot_be_removed, swapped_while_removed, forged_processes, full_disk,
         projects_and_subvolumes, hung_disk_slurmd_starts, hung_disk_job_starts, hung_disk_job_ends, frozen_disk]

if __name__ == "__main__":
    if os.getuid() != 0:
        print("SKIPPED: it takes root to be several users")
        sys.exit(77)
    failed = 0
    CLUSTER = Cluster("--nodes", "2", "--plugin", PLUGIN, "--plugin-args", "local=/mnt/local", "--conf", "SlurmdTimeout=120", *SHARE)
    # What is requeued starts when the credentials of its first start are no longer good: after two minutes by default.
    CLUSTER.options += ["--conf", f"AuthInfo=socket={CLUSTER.path('run', 'munge.sock')},cred_expire=15"]
    with CLUSTER:
        BEFORE = {}
        for NODE in NODES:
            root("mkdir -p /mnt/precious/in; echo of-others | tee /mnt/precious/file /mnt/precious/in/file >/dev/null; chmod -R 777 /mnt/precious", NODE)
            BEFORE[NODE] = root(SNAPSHOT, NODE)
        CLUSTER.run("bash", "-c", "mkdir ~bob/own; touch ~bob/own/own; chown -R bob ~bob/own; chmod -R a+rwX ~bob")
        WITNESS = CLUSTER.script("srun bash -c 'echo kept >$HARROW_LOCAL/kept; exec sleep 9001'\n", "--harrow", "-p", "all", "-N2", "-n2", "-t", "600",
                                 "-o", "/dev/null", user="bob")
        wait_for(lambda: all(root("pgrep -u bob -fx 'sleep 9001' || true", node) for node in NODES), "the other user's job")
        for case in CASES:
            if not any(word in case.__name__ for word in sys.argv[2:]) and len(sys.argv) > 2:
                continue
            began = time.monotonic()
            SKIPPED.clear()
            try:
                plugstack("local=/mnt/local")
                case()
                plugstack("local=/mnt/local")
                untouched()
                print(f"{'SKIPPED' if SKIPPED else 'harmless'}: {case.__name__}: {' '.join([*SKIPPED, case.__doc__.split(chr(10))[0]])} ({time.monotonic() - began:.0f} s)", flush=True)
            except (AssertionError, OSError, subprocess.SubprocessError) as error:
                failed += 1
                print(f"FAILED: {case.__name__}: {error}", flush=True)
                # What it left must not be the next one's.
                for line in CLUSTER.out("squeue", "-h", "-o", "%A").split():
                    if line != WITNESS:
                        CLUSTER.run("scancel", line, check=False)
    sys.exit(1 if failed else 0)
