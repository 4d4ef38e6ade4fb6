"""What the tests of whole runs inside a test cluster share."""
import json
import os
import shlex

from cluster_support import Cluster, check, wait_for
from run_support import query

# Counts the sruns of a job and says what they were asked: stands before the real one in PATH.
SRUN = """#!/bin/sh
printf '%s\\n' "$*" >>{log}
exec /usr/bin/srun "$@"
"""


class Job:
    """`harrow run` in an sbatch script."""

    def __init__(self, cluster, harrow, arguments, *sbatch, directory=None, before="", after="", user=None, env=None, wrap="", limit="10"):
        self.cluster = cluster
        self.directory = directory or cluster.home
        bin_dir = os.path.join(self.directory, "bin")
        os.makedirs(bin_dir, exist_ok=True)
        self.sruns = os.path.join(bin_dir, "sruns")
        with open(os.path.join(bin_dir, "srun"), "w", encoding="utf-8") as f:
            f.write(SRUN.format(log=shlex.quote(self.sruns)))
        os.chmod(os.path.join(bin_dir, "srun"), 0o755)
        if os.path.exists(self.sruns):
            os.unlink(self.sruns)
        self.log = os.path.join(self.directory, "job.log")
        if os.path.exists(self.log):
            os.unlink(self.log)
        exports = "".join(f"export {k}={shlex.quote(v)}\n" for k, v in (env or {}).items())
        text = f"""cd {shlex.quote(self.directory)}
export PATH={shlex.quote(bin_dir)}:$PATH HARROW_CONF=/dev/null
{exports}{before}
{wrap} {shlex.quote(harrow)} {arguments}
code=$?
echo "harrow ended with $code"
{after}
exit $code
"""
        sbatch = sbatch or ("-p", "all", "-N4", "--no-kill", "--exclusive")
        self.id = cluster.script(text, "-o", self.log, "--open-mode=append", "-t", limit, *sbatch, user=user)

    def said(self):
        try:
            with open(self.log, encoding="utf-8", errors="replace") as f:
                return f.read()
        except FileNotFoundError:
            return ""

    def code(self, timeout=120):
        """Waits for the end; the exit status of harrow, None when it has not told."""
        self.cluster.wait_job(self.id, timeout)
        return self.told()

    def told(self):
        for line in reversed(self.said().splitlines()):
            if line.startswith("harrow ended with "):
                return int(line.split()[-1])
        return None

    def srun_lines(self):
        try:
            with open(self.sruns, encoding="utf-8") as f:
                return f.read().splitlines()
        except FileNotFoundError:
            return []


def nodes_of(run_dir):
    return {name for (name,) in query(run_dir, "SELECT DISTINCT name FROM node")}


def states_of(run_dir):
    return dict(query(run_dir, "SELECT state, count(*) FROM tasks GROUP BY state"))
