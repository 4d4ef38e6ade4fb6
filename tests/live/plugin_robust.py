#!/usr/bin/env python3
"""What must not happen with the SPANK plugin: mangled arguments, hostile users, the wrong version of Slurm.
usage: plugin_robust.py SPANK_HARROW.SO SANITIZED.SO [name of a test]
HARROW_LONG=1: 200 mangled configurations instead of 8, and a syslog that hangs."""
import os
import random
import re
import shutil
import subprocess
import sys
import time

from cluster_support import LONG, SOURCE, Cluster, check, run_tests, wait_for

PLUGIN, SANITIZED = (os.path.abspath(p) for p in sys.argv[1:3])
SHARE = ("--share", os.path.dirname(PLUGIN))


def plugstack(line):
    with open(CLUSTER.path("etc", "plugstack.conf"), "wb") as f:
        f.write(line if isinstance(line, bytes) else line.encode())


def listing(node="node1", place="/mnt/local/harrow"):
    return CLUSTER.run("ls", "-A", place, node=node, check=False).stdout.split()


def not_drained():
    states = set(CLUSTER.out("sinfo", "-h", "-N", "-p", "all", "-o", "%T").split())
    check(not any(word in s for s in states for word in ("drain", "down")), f"nodes are {states}")
    for node in ("node1", "node2"):
        with open(CLUSTER.path("log", f"slurmd.{node}.log"), errors="replace") as f:
            log = f.read()
        # What a sanitizer says of an errand is not heard, but that it was ended is.
        check("the process that does it was ended" not in log and "runtime error" not in log and "AddressSanitizer" not in log, f"{node}: {log[-2000:]}")


def symbols():
    """Exports what SPANK knows and nothing else; needs nothing but libc and Slurm."""
    dynamic = subprocess.run(["nm", "-D", PLUGIN], capture_output=True, text=True, check=True).stdout.split("\n")
    exported = {line.split()[2] for line in dynamic if re.match(r"[0-9a-f]+ [A-Z] ", line)}
    allowed = {"plugin_name", "plugin_type", "plugin_version", "spank_plugin_version", "slurm_spank_init",
               "slurm_spank_init_post_opt", "slurm_spank_task_init", "slurm_spank_job_epilog"}
    check(exported == allowed, f"exports {exported ^ allowed}")
    wanted = {line.split()[-1] for line in dynamic if " U " in line and "@GLIBC" not in line}
    check(all(re.match(r"(slurm|spank)_", name) for name in wanted), f"needs {wanted}")
    needed = re.findall(r"NEEDED.*\[(.*)\]", subprocess.run(["readelf", "-d", PLUGIN], capture_output=True, text=True).stdout)
    check(needed == ["libc.so.6"], f"is linked with {needed}")
    with open(os.path.join(SOURCE, "plugin", "CMakeLists.txt")) as f:
        check("exports.map" in f.read(), "no version script")
    headers = subprocess.run(["grep", "-rhoE", "<slurm/[^>]*>", os.path.join(SOURCE, "plugin")], capture_output=True, text=True)
    check(set(headers.stdout.split()) == {"<slurm/spank.h>"}, f"includes {set(headers.stdout.split())}")


def another_version():
    """Slurm refuses a plugin of another release by name; jobs run; harrow-plugin-check says so."""
    patched = CLUSTER.path("home", "spank_harrow.so")
    shutil.copy(PLUGIN, patched)
    line = next(x for x in subprocess.run(["nm", "-D", PLUGIN], capture_output=True, text=True).stdout.split("\n") if x.endswith(" plugin_version"))
    sections = subprocess.run(["readelf", "-lW", PLUGIN], capture_output=True, text=True).stdout
    address = int(line.split()[0], 16)
    offset = next(int(o, 16) + address - int(v, 16) for o, v, size in
                  re.findall(r"LOAD\s+(0x\w+) (0x\w+) 0x\w+ (0x\w+)", sections) if 0 <= address - int(v, 16) < int(size, 16))
    with open(patched, "r+b") as f:
        f.seek(offset)
        version = int.from_bytes(f.read(4), "little")
        f.seek(offset)
        f.write((version + 0x010000).to_bytes(4, "little"))
        f.seek(0)
        text = f.read()
        at = text.index(b"harrow-plugin-built-for-slurm-") + 30
        f.seek(at)
        f.write(b"99")
    plugstack(f"optional {patched} local=/mnt/local\n")
    done = CLUSTER.run("srun", "hostname", user="alice")
    check(done.stdout == "node1\n" and "Incompatible plugin version" in done.stderr, f"{done.stdout} {done.stderr}")
    not_drained()
    tool = os.path.join(SOURCE, "plugin", "harrow-plugin-check")
    done = CLUSTER.run(tool, patched, check=False)
    check(done.returncode == 1 and "does not fit Slurm" in done.stderr, done.stderr)
    done = CLUSTER.run(tool, PLUGIN)
    check("fits Slurm" in done.stdout, done.stdout + done.stderr)
    for missing in ("/nonexistent.so", "/bin/true"):
        plugstack(f"optional {missing}\n")
        check(CLUSTER.out("srun", "hostname", user="alice") == "node1", f"{missing} stopped a job")


def mangled_arguments():
    """Under ASan and UBSan. Jobs run, with and without the option, and no node is drained."""
    seed = random.randrange(1 << 30)
    print(f"  seed {seed}")
    rng = random.Random(seed)
    whole = ["local=/mnt/local", "local_limit=20G", "ports=30000-31000", "tasks_per_node=64", "move_partitions=a,b", "order=hrf", "files=shared"]
    for case in range(200 if LONG else 8):
        arguments = [a.encode() for a in whole]
        for _ in range(rng.randint(1, 4)):
            i = rng.randrange(len(arguments))
            a = arguments[i]
            at = rng.randrange(len(a) + 1)
            arguments[i] = rng.choice([lambda: a[:at], lambda: a[:at] + bytes([rng.randrange(1, 256)]) + a[at + 1:], lambda: a + a,
                                       lambda: a[:at] + b"x" * rng.randrange(1500) + a[at:], lambda: a.replace(b"=", b""),
                                       lambda: a + b"/../../etc", lambda: b"%s%n%s=" + a])()
            if rng.random() < 0.3:
                rng.shuffle(arguments)
        plugstack((b"optional " + SANITIZED.encode() + b" " + b" ".join(arguments).replace(b"\n", b" "))[:4000] + b"\n")
        command = ("srun", *(["--harrow"] if case % 4 else []), "true")
        done = CLUSTER.run(*command, user="alice", check=False, timeout=60)
        check(done.returncode == 0, f"{arguments}: {done.returncode} {done.stderr}")
        # The epilog reads plugstack.conf, too.
        wait_for(lambda: CLUSTER.out("squeue", "-h") == "", "the job's end", 20)
    not_drained()
    for place in ("/mnt/local/harrow", "/tmp/harrow"):  # /tmp where local= was lost
        wait_for(lambda: listing(place=place) == [], "empty job directories", 20)
    for node in ("node1", "node2"):
        with open(CLUSTER.path("log", f"slurmd.{node}.log"), errors="replace") as f:
            log = f.read()
        check("runtime error" not in log and "AddressSanitizer" not in log and "Epilog" not in log, f"{node}: {log[-2000:]}")


HOSTILE = r"""cd $HARROW_LOCAL
ln -s /mnt/precious link; ln -s /etc etc; ln -s . self; ln -s ../.. up; ln /mnt/home/alice/kept hard
mkdir -p a/b/c '\040 mount' 'x
y' -- -rf '*' 0 1/2/3 shut/in
for d in 0 1 a/b; do ln -s /mnt/precious $d/link; mkfifo $d/fifo; done
chmod 000 shut/in shut
python3 -c "
import os
for i in range(300): os.mkdir('deeper'); os.chdir('deeper')"
mkdir many; touch many/{1..2000}
mkdir theirs mounted; touch mounted-file; touch /mnt/home/alice/ready
while [ ! -e /mnt/home/alice/go ]; do sleep 0.05; done
"""
RESHAPE = r"""cd /mnt/local/harrow/$1 && touch /mnt/home/alice/reshaping
while true; do mkdir -p r/s/t; ln -sf /mnt/precious r/s/l; mv r r2; mkdir r; mv r2 r/; rm -rf r; ln -sfn /mnt/precious a; done 2>/dev/null
"""


def hostile_contents():
    """Links, mounts, others' files, depth, and another job of the user that reshapes the tree meanwhile."""
    plugstack(f"optional {SANITIZED} local=/mnt/local\n")
    home = CLUSTER.path("home", "alice")
    CLUSTER.run("bash", "-c", "touch /mnt/home/alice/kept; chown alice /mnt/home/alice/kept")
    CLUSTER.run("bash", "-c", "mkdir -p /mnt/precious/in; touch /mnt/precious/file /mnt/precious/in/file; chmod -R 777 /mnt/precious", node="node1")
    first = CLUSTER.script(HOSTILE, "--harrow", "-w", "node1", "-o", "/mnt/home/alice/hostile.out", user="alice")
    wait_for(lambda: os.path.exists(f"{home}/ready"), "the hostile job", 30)
    top = f"/mnt/local/harrow/{first}"
    CLUSTER.run("bash", "-c", f"cd {top}; touch of-root; chown -h bob theirs; mkdir -p theirs/in; touch theirs/in/f; chown -R bob theirs/in; "
                "mount --bind /mnt/precious mounted; mount --bind /mnt/precious/file mounted-file; mount -t tmpfs x 0; touch 0/x", node="node1")
    with open(f"{home}/reshape.sh", "w") as f:
        f.write("#!/bin/bash\n" + RESHAPE)
    second = CLUSTER.out("sbatch", "--parsable", "-w", "node1", "-o", "/dev/null", "/mnt/home/alice/reshape.sh", first, user="alice", cwd=home)
    wait_for(lambda: os.path.exists(f"{home}/reshaping"), "the second job", 30)
    CLUSTER.run("touch", "/mnt/home/alice/go")
    check(CLUSTER.wait_job(first) == "COMPLETED", "the hostile job failed")
    time.sleep(0.5)
    CLUSTER.run("scancel", second)
    CLUSTER.wait_job(second)
    left = listing()
    if left:
        with open(CLUSTER.path("log", "slurmd.node1.log")) as f:
            print("  while it was reshaped:", [line.strip() for line in f if "harrow" in line][-1])
        check(left in ([f"{first}.job"], [first, f"{first}.job"]), str(left))
        CLUSTER.run("srun", "--harrow", "-w", "node1", "true", user="bob")
        wait_for(lambda: listing() == [], f"the next job's end to clear up: {listing()}", 20)
    check(CLUSTER.out("find", "/mnt/precious", "-type", "f", node="node1").count("file") == 2, "what a link or a mount led to was removed")
    check(os.path.exists(f"{home}/kept") and CLUSTER.out("ls", "/etc/passwd", node="node1"), "foreign files are gone")
    check(CLUSTER.job_state(second) == "CANCELLED", "the other job did not live on")
    not_drained()


# Mounts on each argument a file system whose server takes no request: whoever looks at it waits.
SILENT = """import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
for path in sys.argv[1:]:
    fd = os.open('/dev/fuse', os.O_RDWR)
    mode = '40000' if os.path.isdir(path) else '100000'
    data = f'fd={fd},rootmode={mode},user_id=5001,group_id=5001,allow_other'
    if libc.mount(b'silent', path.encode(), b'fuse', 0, data.encode()) != 0: sys.exit(f'{path}: {os.strerror(ctypes.get_errno())}')
print('mounted', flush=True)
sys.stdin.read()"""


def a_file_system_that_never_answers():
    """A user's own (FUSE), on and in the job's directory: the job's end does not wait for it."""
    if CLUSTER.run("test", "-w", "/dev/fuse", node="node1", check=False).returncode != 0:
        print("  not here: no /dev/fuse")
        return
    plugstack(f"optional {SANITIZED} local=/mnt/local\n")
    for where in (("dir", "deep/er", ".harrow-run-a", "dir2/file"), ("",)):
        home = CLUSTER.path("home", "alice")
        for name in ("silent-ready", "silent-go"):
            CLUSTER.run("rm", "-f", f"/mnt/home/alice/{name}")
        job = CLUSTER.script("cd $HARROW_LOCAL; mkdir -p dir deep/er dir2; touch .harrow-run-a dir2/file; cd /; touch ~/silent-ready\n"
                             "while [ ! -e ~/silent-go ]; do sleep 0.05; done\n", "--harrow", "-w", "node1", "-o", "/dev/null", user="alice")
        wait_for(lambda: os.path.exists(f"{home}/silent-ready"), "the job")
        holder = CLUSTER.start("timeout", "900", sys.executable, "-c", SILENT, *(f"/mnt/local/harrow/{job}/{name}".rstrip("/") for name in where),
                               node="node1", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        check(holder.stdout.readline() == "mounted\n", "the file system is not mounted")
        CLUSTER.run("touch", "/mnt/home/alice/silent-go")
        check(CLUSTER.wait_job(job, 40) == "COMPLETED", f"the job ended as {CLUSTER.job_state(job)}")
        wait_for(lambda: CLUSTER.out("squeue", "-h") == "" and listing() == [], f"empty job directories: {listing()}", 20)
        check(holder.poll() is None, "its server did not outlive the job: nothing was shown")
        holder.communicate("", timeout=120)
    not_drained()


def a_syslog_that_never_reads():
    """Whatever hangs: the job's end comes after epilog_time and 15 s, and no node is drained."""
    if not LONG:
        print("  only with HARROW_LONG=1: it takes 16 s")
        return
    plugstack(f"optional {SANITIZED} local=/mnt/local epilog_time=1\n")
    deaf = CLUSTER.start("timeout", "900", sys.executable, "-c", "import os, socket, sys\ns = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
                         "s.bind('/dev/log')\nos.chmod('/dev/log', 0o666)\nc = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)\n"
                         "c.connect('/dev/log')\nc.setblocking(False)\ntry:\n  while True: c.send(b'x')\nexcept BlockingIOError: pass\n"
                         "print('full', flush=True)\nsys.stdin.read()\nos.unlink('/dev/log')", node="node1", stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    check(deaf.stdout.readline() == "full\n", "no syslog")
    account = r"printf 'harrow-run 1\nrun m\ntasks 1\ncore_seconds 1\n' >$HARROW_LOCAL/.harrow-run-a"
    job = CLUSTER.script(f"{account}\n", "--harrow", "-w", "node1", "-o", "/dev/null", user="alice")
    began = time.monotonic()
    check(CLUSTER.wait_job(job, 50) == "COMPLETED", "the job failed")
    wait_for(lambda: CLUSTER.out("squeue", "-h") == "", "the job's end", 30)
    check(time.monotonic() - began > 10, "syslog did not hold it up: nothing was shown")
    not_drained()
    check(f"{job}.job" in listing(), f"not left for others: {listing()}")
    deaf.communicate("", timeout=120)
    CLUSTER.run("srun", "--harrow", "-w", "node1", "true", user="alice")
    wait_for(lambda: listing() == [], f"the next job's end to clear up: {listing()}", 30)


def hostile_base():
    """In a directory open to all, a user who comes first gains nothing."""
    plugstack(f"optional {SANITIZED} local=/tmp\n")
    CLUSTER.run("rm", "-rf", "/tmp/harrow", node="node1")
    for trap in ("mkdir /tmp/harrow", "ln -s /mnt/home/alice /tmp/harrow", "touch /tmp/harrow", "mkfifo /tmp/harrow"):
        CLUSTER.run("bash", "-c", trap, node="node1", user="alice")
        done = CLUSTER.run("srun", "-w", "node1", "--harrow", "bash", "-c", "echo has ${HARROW_LOCAL:-none}", user="bob")
        check("has none" in done.stdout, f"{trap}: {done.stdout}")
        check(sorted(os.listdir(CLUSTER.path("home", "alice"))) == ALICE or "ln" not in trap, "something was made behind a link")
        CLUSTER.run("rm", "-rf", "/tmp/harrow", node="node1")
    CLUSTER.idle()
    not_drained()


if __name__ == "__main__":
    del sys.argv[1:3]
    if os.getuid() != 0:
        sys.exit(run_tests([("symbols", symbols)]))
    with Cluster("--nodes", "2", "--plugin", SANITIZED, "--plugin-args", "local=/mnt/local", *SHARE) as CLUSTER:
        status = run_tests([(t.__name__, t) for t in (symbols, another_version, mangled_arguments, hostile_contents,
                                                          a_file_system_that_never_answers, a_syslog_that_never_reads)])
        ALICE = sorted(os.listdir(CLUSTER.path("home", "alice")))
        status = status or run_tests([("hostile_base", hostile_base)])
    sys.exit(status)
