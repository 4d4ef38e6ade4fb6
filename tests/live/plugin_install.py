#!/usr/bin/env python3
"""What harrow-plugin(8) tells an admin, done: install, check, enable, use, roll back, in a Slurm that knew nothing of it.
usage: plugin_install.py BUILD_DIR"""
import os
import re
import shutil
import subprocess
import sys

from cluster_support import SOURCE, Cluster, check, run_tests, skip, wait_for

BUILD = os.path.abspath(sys.argv[1])
NODES = ["node1", "node2"]


def install(prefix, destdir=None):
    env = {**os.environ, **({"DESTDIR": destdir} if destdir else {})}
    subprocess.run(["cmake", "--install", BUILD, "--component", "plugin", "--prefix", prefix], check=True, env=env, timeout=300,
                   stdout=subprocess.DEVNULL)
    top = (destdir or "") + prefix
    return top, sorted(os.path.relpath(os.path.join(d, f), top) for d, _, files in os.walk(top) for f in files)


def files_and_their_places():
    """Everything lies below the prefix, nothing of it is enabled by being there."""
    top, files = install("/usr", CLUSTER.path("image"))
    expected = {"lib/harrow/spank_harrow.so", "sbin/harrow-plugin-check", "share/harrow/plugstack.conf.d/harrow.conf"}
    if shutil.which("scdoc"):
        expected.add("share/man/man8/harrow-plugin.8")
    check(set(files) == expected, f"installed {files}")
    check(sorted(os.listdir(CLUSTER.path("image"))) == ["usr"], "something lies outside of the prefix")
    with open(os.path.join(top, "share/harrow/plugstack.conf.d/harrow.conf")) as f:
        active = [line for line in f.read().splitlines() if line and not line.startswith("#")]
    check(active == ["optional /usr/lib/harrow/spank_harrow.so local=/tmp"], str(active))
    for file in files:
        check(os.stat(os.path.join(top, file)).st_mode & 0o022 == 0, f"{file} is writable by others")


def restart_slurmd():
    for node in NODES:
        pid = CLUSTER.out("cat", CLUSTER.path("run", f"slurmd.{node}.pid"), node=node)
        CLUSTER.run("kill", pid, node=node)
        wait_for(lambda: CLUSTER.run("kill", "-0", pid, node=node, check=False).returncode != 0, f"slurmd's end on {node}")
        CLUSTER.run("slurmd", "-N", node, node=node)


def fine():
    check(CLUSTER.out("srun", "-N2", "-p", "all", "hostname", user="alice").split() != [], "srun does not work")
    check(set(CLUSTER.out("sinfo", "-h", "-N", "-p", "all", "-o", "%T").split()) <= {"idle", "completing", "mixed", "allocated"}, "nodes are not fine")


def from_nothing_and_back():
    prefix = CLUSTER.path("opt")
    install(prefix)
    plugstack = CLUSTER.path("etc", "plugstack.conf")
    conf = CLUSTER.path("etc", "plugstack.conf.d")
    os.mkdir(conf)
    fine()
    done = CLUSTER.run(f"{prefix}/sbin/harrow-plugin-check")
    check("fits Slurm" in done.stdout, done.stdout)
    # Enable.
    with open(plugstack, "a") as f:
        f.write(f"include {conf}/*.conf\n")
    fine()
    with open(f"{prefix}/share/harrow/plugstack.conf.d/harrow.conf") as f:
        text = f.read()
    enabled = text.replace("local=/tmp", "local=/mnt/local")
    check(enabled.count(f"optional {prefix}/lib/harrow/spank_harrow.so local=/mnt/local") == 1, "the example is not for this prefix")
    with open(f"{conf}/harrow.conf", "w") as f:
        f.write(enabled)
    restart_slurmd()
    CLUSTER.idle()
    fine()
    # Check, with the page's own commands.
    with open(os.path.join(SOURCE, "contrib", "man", "harrow-plugin.8.scd")) as f:
        page = f.read()
    commands = re.search(r"# CHECK\n\n```\n(.*?)```", page, re.S).group(1).splitlines()
    check(len(commands) == 3, f"the page has other commands: {commands}")
    check("--harrow " in CLUSTER.out("bash", "-c", commands[0], user="alice"), commands[0])
    shown = CLUSTER.out("bash", "-c", commands[1].replace("srun", "srun -p all", 1), user="alice")
    check(len(re.findall(r"^drwx------ .* alice alice .* /mnt/local/harrow/\d+$", shown, re.M)) == 2, shown)
    look = commands[2].replace("/tmp", "/mnt/local").replace("srun", "srun -p all", 1)
    wait_for(lambda: CLUSTER.out("bash", "-c", look, user="alice") == "", "empty job directories", 20)
    # Roll back, with a job that waits and one that runs.
    running = CLUSTER.script("srun true; touch /mnt/home/alice/runs\nuntil [ -e /mnt/home/alice/go ]; do sleep 0.1; done\nsrun hostname >/mnt/home/alice/ran\n",
                             "--harrow", "-w", "node1", "-p", "all", "-o", "/dev/null", user="alice")
    waiting = CLUSTER.script("env | grep HARROW_LOCAL; srun hostname >/mnt/home/alice/waited\n", "--hold", "--harrow", "-p", "all", "-o", "/dev/null",
                             user="alice")
    wait_for(lambda: os.path.exists(f"{CLUSTER.home}/alice/runs"), "the job that runs")
    os.remove(f"{conf}/harrow.conf")
    restart_slurmd()
    CLUSTER.run("touch", "/mnt/home/alice/go")
    CLUSTER.run("scontrol", "release", waiting)
    for job, file in ((running, "ran"), (waiting, "waited")):
        check(CLUSTER.wait_job(job) == "COMPLETED", f"job {job} did not live through the roll-back: {CLUSTER.job_state(job)}")
        with open(f"{CLUSTER.home}/alice/{file}") as f:
            check(f.read().startswith("node"), f"{file}: no step")
    CLUSTER.idle()
    fine()
    refused = CLUSTER.run("srun", "--harrow", "true", user="alice", check=False)
    check(refused.returncode != 0 and "unrecognized option" in refused.stderr, refused.stderr)


if __name__ == "__main__":
    del sys.argv[1]
    if os.getuid() != 0:
        skip("installing and enabling takes root", "root")
    with Cluster("--nodes", "2") as CLUSTER:
        sys.exit(run_tests([(t.__name__, t) for t in (files_and_their_places, from_nothing_and_back)]))
