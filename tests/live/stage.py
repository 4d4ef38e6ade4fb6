#!/usr/bin/env python3
"""Files that are put on the nodes before a run (harrow stage), with pretend nodes on this machine: that the runs that follow find them and
read nothing again, also after faults, and that nothing is left where they were dropped.

usage: stage.py HARROW [test ...]"""
import glob
import hashlib
import json
import os
import random
import sys
import time

import run_support
from run_support import Harrow, check, lines_of, same, wait_for, write

NODES = 4


class Job(Harrow):
    """A submit directory, and the disk of its nodes."""

    def __init__(self, program, directory, nodes=NODES):
        os.makedirs(f"{directory}/here")
        os.mkdir(f"{directory}/disk", 0o700)
        super().__init__(program, f"{directory}/here")
        self.disk, self.runs = f"{directory}/disk", 0
        self.nodes = ["--local-nodes", str(nodes), "--slots", "1", "--local-dir", self.disk]
        self.content = {}

    def file(self, name, size=None):
        path = os.path.join(self.cwd, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        content = random.randbytes(random.randrange(200_000) if size is None else size)
        with open(path, "wb") as out:
            out.write(content)
        self.content[name] = content
        return name

    def settle(self):
        """What was written this moment may be once more without a sign of it, and is not taken for known."""
        newest = max((os.stat(os.path.join(self.cwd, name)).st_ctime for name in self.content), default=0)
        wait_for(lambda: time.time() > newest + 0.2)

    def bytes(self):
        return sum(len(content) for content in self.content.values())

    def stage(self, *args, code=0):
        """The document of its end."""
        self.settle()
        done = self("stage", "--json", *self.nodes, *args, code=code)
        if code == 0:
            same(glob.glob(f"{self.cwd}/.harrow-stage*"), [], "its run directory is removed")
        return json.loads(done.out)

    def flow(self):
        """A task a file, which tells what it read."""
        # Names of any bytes: by number.
        names = list(self.content)
        write(f"{self.cwd}/flow.toml", "".join(f"""
[[task]]
name = "t{n}"
command = ["sh", "-c", "md5sum < \\"$1\\" > out-{n}; sleep 0.05", "x", {json.dumps("./" + name)}]
in = [{json.dumps("./" + name)}]
out = ["out-{n}"]
""" for n, name in enumerate(names)))
        return "flow.toml"

    def run(self, *args):
        """A run whose tasks read each file; its figures."""
        self.runs += 1
        done = self("run", "--files", "local", "--json", "--run-dir", f"run{self.runs}", *self.nodes, *args, self.flow(), code=0)
        for n, content in enumerate(self.content.values()):
            same(lines_of(f"{self.cwd}/out-{n}"), [hashlib.md5(content).hexdigest() + "  -"], n)
            os.unlink(f"{self.cwd}/out-{n}")
        return json.loads(done.out)


def job_with_files(directory, program, count=20, **options):
    job = Job(program, directory, **options)
    for n in range(count):
        job.file(f"raw/{n:03}")
    return job


def test_round_robin_and_runs_that_read_nothing_again(directory, program):
    job = job_with_files(directory, program)
    staged = job.stage(*job.content)
    same((staged["stage"], staged["nodes"], staged["files"]), ("round-robin", NODES, {"total": 20, "staged": 20}))
    same((staged["bytes"], staged["shared_read_bytes"], staged["bytes_moved"]), (job.bytes(), job.bytes(), 0))
    for tries in range(2):
        run = job.run()
        same(run["shared_read_bytes"], 0, f"run {tries}: nothing is read again")
        check(run["input_bytes"]["home"] > run["input_bytes"]["remote"], run["input_bytes"])
    again = job.stage(*job.content)
    same((again["files"]["staged"], again["shared_read_bytes"]), (20, 0), "nor by another stage")


def test_a_line_for_people(directory, program):
    job = job_with_files(directory, program, count=3)
    done = job("stage", *job.nodes, *job.content, code=0)
    check(done.out.startswith("staged 3 files (") and ") on 4 nodes, round robin, in " in done.out and "between nodes 0 B" in done.out, done)
    done = job("stage", *job.nodes, "--drop", code=0)
    same(done.out, "dropped what was staged on 4 nodes\n")


def test_a_changed_file_is_read_again(directory, program):
    job = job_with_files(directory, program)
    job.stage(*job.content)
    job.file("raw/007", 12345)
    same(job.run()["shared_read_bytes"], 12345)
    job.file("raw/008", len(job.content["raw/008"]))  # of the same length
    staged = job.stage(*job.content)
    check(len(job.content["raw/008"]) <= staged["shared_read_bytes"] <= len(job.content["raw/008"]) + 12345, staged)
    same(job.run()["shared_read_bytes"], 0)


def test_everywhere(directory, program):
    job = job_with_files(directory, program)
    job.file("raw/large", 20 << 20)
    staged = job.stage("--all", *job.content)
    same((staged["stage"], staged["files"]["staged"]), ("all", 21))
    same((staged["shared_read_bytes"], staged["bytes_moved"]), (job.bytes(), (NODES - 1) * job.bytes()))
    run = job.run("--no-locality")
    same((run["shared_read_bytes"], run["bytes_moved"]), (0, 0))


def test_drop_leaves_nothing(directory, program):
    job = job_with_files(directory, program)
    job.stage(*job.content)
    check(os.listdir(job.disk), "they lie there")
    job.run()
    check(os.listdir(job.disk), "and still")
    job.stage("--drop")
    same(os.listdir(job.disk), [])
    same(job.run()["shared_read_bytes"], job.bytes())
    same(os.listdir(job.disk), [], "of a run nothing is left")


def test_directories(directory, program):
    job = Job(program, directory)
    for name in ("data/a", "data/deep/b", "data/deep/c"):
        job.file(name)
    os.makedirs(f"{job.cwd}/data/empty")
    staged = job.stage("data/", "data/deep/b")
    same(staged["files"], {"total": 3, "staged": 3}, "all files in it, each once")
    same(job.run()["shared_read_bytes"], 0)
    # As a whole it is read by the run.
    write(f"{job.cwd}/tree.toml", """
[[task]]
name = "t"
command = "ls data data/deep data/empty > out; cat data/a data/deep/* | md5sum >> out"
in = ["data"]
out = ["out"]
""")
    run = json.loads(job("run", "--files", "local", "--json", *job.nodes, "tree.toml", code=0).out)
    same(run["tasks"]["done"], 1)
    same(lines_of(f"{job.cwd}/out")[-1], hashlib.md5(b"".join(job.content.values())).hexdigest() + "  -")


def test_hostile_names(directory, program):
    job = Job(program, directory)
    for name in ("a b", "new\nline", "-x", "--all", "quote'\"`$(x)", "\u00e9\u00fc", "st*r", "x" * 255, "deep/ /\t/f", ".hidden"):
        job.file(name)
    staged = job.stage("--", *[f"./{name}" for name in job.content])
    same(staged["files"], {"total": 10, "staged": 10})
    same(job.run()["shared_read_bytes"], 0)


def test_what_a_flow_reads(directory, program):
    """What its tasks make, and what lies elsewhere, is none of it."""
    job = Job(program, directory)
    for name in ("in/1", "in/2", "in/3", "other"):
        job.file(name)
    outside = write(f"{directory}/outside", "x")
    write(f"{job.cwd}/for.toml", f"""
[[task]]
name = "a"
command = "true"
in = ["in/*", "{outside}"]
out = ["made"]
[[task]]
name = "b"
command = "true"
in = ["made", "in/1"]
""")
    staged = job.stage("--for", "for.toml")
    same(staged["files"], {"total": 3, "staged": 3})
    staged = job.stage("--for", "for.toml", "other")
    same((staged["files"]["total"], staged["shared_read_bytes"]), (4, len(job.content["other"])))


def test_what_is_wrong_is_said_at_once(directory, program):
    job = job_with_files(directory, program, count=2)
    job.nodes = job.nodes[:-2]
    for args, says in ((["raw/000"], "--local-dir DIR"),
                       (["--local-dir", job.disk], "no files; name some"),
                       (["--local-dir", job.disk, "raw/nosuch"], "raw/nosuch"),
                       (["--local-dir", job.disk, "../disk"], "lies outside of the current directory"),
                       (["--local-dir", job.disk, "/etc/passwd"], "lies outside of the current directory"),
                       (["--local-dir", job.disk, "."], "is the current directory"),
                       (["--local-dir", job.disk, "--drop", "raw/000"], "--drop takes no files"),
                       (["--local-dir", job.disk, "--all", "--round-robin", "raw/000"], "--all and --round-robin"),
                       (["--local-dir", "relative", "raw/000"], "an absolute path"),
                       (["--local-dir", job.disk, "--for", "nosuch.toml"], "nosuch.toml")):
        refused = job("stage", *job.nodes, *args, code=2)
        check(says in refused.err and not refused.out, args, refused)
    same(glob.glob(f"{job.cwd}/.harrow-stage*"), [])
    job.nodes += ["--local-dir", f"{directory}/nosuch"]
    refused = job("stage", *job.nodes, "raw/000", code=3)
    check("nosuch" in refused.err and ".harrow-stage-" in refused.err, refused)


def test_what_cannot_be_read_is_named_and_the_rest_is_staged(directory, program):
    job = job_with_files(directory, program)
    os.mkfifo(f"{job.cwd}/raw/fifo")
    job.settle()
    done = job("stage", *job.nodes, "raw/fifo", *job.content, code=1)
    check("raw/fifo cannot be read" in done.err and done.out.startswith("staged 20 of 21 files"), done)
    same(job.run()["shared_read_bytes"], 0)


def agents(run_dir):
    """The agent's process of each node."""
    words = {pid: words for pid, (_, words) in run_support.processes().items()}
    return {words[pid][words[pid].index("--node-name") + 1]: pid for pid in run_support.of_run(run_dir, "inner") if pid in words}


def begun(job, *args):
    """A stage in the background, in the middle of its work, and its run directory."""
    for n in range(12):
        job.file(f"raw/large{n}", 24 << 20)
    job.settle()
    stage = job.start("stage", "--json", *job.nodes, *args, *job.content)
    run_dir = wait_for(lambda: (glob.glob(f"{job.cwd}/.harrow-stage*") or [None])[0])
    wait_for(lambda: len(agents(run_dir)) == NODES)
    return stage, run_dir


def end_of(job, stage):
    same(stage.wait(180), 0, open(f"{job.cwd}/harrow.out").read())
    same(glob.glob(f"{job.cwd}/.harrow-stage*"), [])
    return json.loads(lines_of(f"{job.cwd}/harrow.out")[-1])


def test_a_node_that_dies_meanwhile(directory, program):
    for everywhere in ([], ["--all"]):
        os.mkdir(f"{directory}/{len(everywhere)}")
        job = job_with_files(f"{directory}/{len(everywhere)}", program)
        stage, run_dir = begun(job, *everywhere)
        run_support.kill(wait_for(lambda: agents(run_dir).get("local2")))
        staged = end_of(job, stage)
        same((staged["files"]["staged"], staged["nodes"]), (32, NODES), staged)
        same(job.run()["shared_read_bytes"], 0)
        job.stage("--drop")
        same(os.listdir(job.disk), [])


def test_a_server_that_dies_meanwhile(directory, program):
    job = job_with_files(directory, program)
    stage, run_dir = begun(job, "--all")
    run_support.kill(run_support.of_run(run_dir, "server")[0])
    staged = end_of(job, stage)
    same(staged["files"]["staged"], 32)
    run = job.run("--no-locality")
    same((run["shared_read_bytes"], run["bytes_moved"]), (0, 0))


def test_an_interrupted_stage(directory, program):
    job = job_with_files(directory, program)
    for n in range(12):
        job.file(f"raw/large{n}", 24 << 20)
    stage = job.start("stage", "--json", *job.nodes, *job.content)
    run_dir = wait_for(lambda: (glob.glob(f"{job.cwd}/.harrow-stage*") or [None])[0])
    wait_for(lambda: run_support.of_run(run_dir, "server"))
    stage.terminate()
    same(stage.wait(60), 128 + 15)
    job.run()
    staged = job.stage(*job.content)
    same(staged["files"]["staged"], 32)
    same(job.run()["shared_read_bytes"], 0)


def test_a_full_node_leaves_it_to_others(directory, program):
    """Room for some 8.75 MiB on each of two: of each node's share an eighth is others'."""
    job = Job(program, directory, nodes=2)
    job.env["HARROW_SITE_LOCAL_LIMIT"] = str(20 << 20)
    for name, size in (("a", 5), ("b", 3), ("c", 5), ("d", 5)):
        job.file(name, size << 20)
    done = job("stage", *job.nodes, *job.content, code=1)
    check("no node has room for" in done.err and done.out.startswith("staged 3 of 4 files"), done)


def main():
    seed = int.from_bytes(os.urandom(4), "big")
    print("seed", seed, flush=True)
    random.seed(seed)
    run_support.tests_of(sys.modules[__name__], sys.argv[1])


run_support.tell(main)
