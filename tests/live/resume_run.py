#!/usr/bin/env python3
"""--resume by the rule of identity: what is done stays done, what is changed and what follows runs again.
usage: resume_run.py HARROW [TEST...]"""
import os
import shutil
import subprocess
import sys

import run_support
from run_support import Harrow, check, in_part, kill, lines_of, of_run, query, recorded, same, wait_for, write

FLOW = """
[[task]]
name = "part-{i}"
each = { i = "0-9" }
command = "echo part-{i} >> ran; echo {i} > part-{i}.txt"
out = ["part-{i}.txt"]
[[task]]
name = "sum"
command = "echo sum >> ran; cat part-*.txt > sum.txt; test -e good"
in = ["part-*.txt"]
out = ["sum.txt"]
[[task]]
name = "last"
command = "echo last >> ran; cp sum.txt last.txt"
in = ["sum.txt"]
out = ["last.txt"]
"""


def ran(directory):
    lines = lines_of(f"{directory}/ran")
    write(f"{directory}/ran", "")
    return sorted(lines)


def test_failed_tasks_run_again(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/flow.toml", FLOW)
    harrow("run", "--run-dir", "r", "flow.toml", code=1)
    same(len(ran(directory)), 11)
    write(f"{directory}/good", "")
    result = harrow("run", "--rerun-failed", "--run-dir", "r", code=0)
    same(ran(directory), ["last", "sum"])
    check("10 of 12 tasks are done" in result.err, result)
    check("done 12 of 12" in result.out, result)
    same(query(f"{directory}/r", "SELECT attempt, code FROM attempts WHERE task = 'sum' ORDER BY attempt"), [(1, 1), (2, 0)])
    result = harrow("run", "--resume", "--run-dir", "r", "flow.toml", code=0)
    same(ran(directory), [])


def test_changed_tasks_run_again_with_what_follows(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/good", "")
    write(f"{directory}/flow.toml", FLOW)
    harrow("run", "--run-dir", "r", "flow.toml", code=0)
    ran(directory)
    write(f"{directory}/flow.toml", FLOW.replace("cat part-*.txt >", "cat part-*.txt | sort -r >"))
    result = harrow("run", "--resume", "--run-dir", "r", "flow.toml", code=0)
    same(ran(directory), ["last", "sum"])
    check("changed, run again: sum" in result.err and "last" in result.err, result)
    same(query(f"{directory}/r", "SELECT count(*) FROM tasks WHERE state = 'done'"), [(12,)])


def test_lines_may_be_inserted(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/tasks.txt", "".join(f"echo {i} >> ran; echo said {i}\n" for i in range(20)))
    harrow("run", "--run-dir", "r", "tasks.txt", code=0)
    ran(directory)
    lines = open(f"{directory}/tasks.txt").read().splitlines(True)
    lines[10:12] = ["echo new >> ran; echo said new\n"]
    lines.append(lines[0])
    write(f"{directory}/tasks.txt", "".join(lines))
    result = harrow("run", "--resume", "--run-dir", "r", "tasks.txt", code=0)
    same(ran(directory), ["0", "new"])
    check("done 20 of 20" in result.out, result)
    for number, said in ((1, "0"), (11, "new"), (12, "12"), (19, "19"), (20, "0")):
        logs = harrow("logs", "--run-dir", "r", f"#{number}", code=0)
        same(logs.out.splitlines()[-1].split("said ")[-1], said, "output of task", number, logs)


def test_after_everything_was_killed(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/tasks.txt", "".join(f"echo {i} >> ran; test {i} -lt 10 || test -e go || sleep 600\n" for i in range(14)))
    run = harrow.start("run", "--run-dir", "r", "--slots", "14", "tasks.txt")
    wait_for(lambda: len(lines_of(f"{directory}/ran")) == 14)
    wait_for(lambda: recorded(harrow, "r")["done"] == 10)
    for role in ("keeper", "server", "agent", "inner"):
        for pid in of_run(f"{directory}/r", role):
            kill(pid)
    same(run.wait(180), -9)
    ran(directory)
    write(f"{directory}/go", "")
    harrow("run", "--resume", "--run-dir", "r", code=0)
    same(ran(directory), ["10", "11", "12", "13"])


def test_the_newest_run_is_found(directory, program):
    harrow = Harrow(program, directory)
    harrow("run", "-", stdin="echo a >> ran; test -e good\n", code=1)
    check(any(name.startswith("harrow-") for name in os.listdir(directory)), os.listdir(directory))
    write(f"{directory}/good", "")
    harrow("run", "--resume", code=0)
    same(lines_of(f"{directory}/ran"), ["a", "a"])


def test_a_dry_run_changes_nothing(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/flow.toml", FLOW)
    harrow("run", "--run-dir", "r", "flow.toml", code=1)
    before = open(in_part(f"{directory}/r", "journal.db"), "rb").read()
    result = harrow("run", "--resume", "--dry-run", "--run-dir", "r", code=0)
    same([line.split("\t")[0] for line in result.out.splitlines()], ["sum", "last"])
    same(open(in_part(f"{directory}/r", "journal.db"), "rb").read(), before)


def files(run):
    found = {}
    for top, _, names in os.walk(run):
        for name in names:
            path = os.path.join(top, name)
            found[os.path.relpath(path, run)] = (os.stat(path).st_ino, open(path, "rb").read())
    return found


def test_the_flow_of_a_run_is_never_rewritten(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/flow.toml", FLOW)
    harrow("run", "--run-dir", "r", "flow.toml", code=1)
    common = files(f"{directory}/r")["flow"]
    harrow("run", "--rerun-failed", "--run-dir", "r", code=1)  # the same numbering
    write(f"{directory}/good", "")
    write(f"{directory}/flow.toml", FLOW.replace('name = "last"', 'name = "zlast"').replace("echo last", "echo zlast"))
    harrow("run", "--resume", "--run-dir", "r", "flow.toml", code=0)  # another one
    same(files(f"{directory}/r")["flow"], common)
    same(sorted(os.listdir(f"{directory}/r")), ["0", "flow"])
    check("zlast" in harrow("explain", "--run-dir", "r", "zlast", code=0).out)
    check("cp sum.txt" in harrow("explain", "--run-dir", "r", "zlast", code=0).out, "the flow that the part goes by now")


def test_a_run_whose_part_was_removed_begins_anew(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/tasks.txt", "echo x >> ran\n" * 3)
    harrow("run", "--run-dir", "r", "tasks.txt", code=0)
    shutil.rmtree(in_part(f"{directory}/r"))
    same(len(harrow("run", "--resume", "--dry-run", "--run-dir", "r", code=0).out.splitlines()), 3)
    check(not os.path.exists(in_part(f"{directory}/r")), "a dry run made something")
    harrow("run", "--resume", "--run-dir", "r", code=0)
    same(ran(directory), ["x"] * 6)


def test_a_run_of_a_release_without_parts_is_shown_and_not_gone_on_with(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/flow.toml", FLOW)
    harrow("run", "--run-dir", "harrow-old", "flow.toml", code=1)
    run = f"{directory}/harrow-old"
    for name in os.listdir(in_part(run)):
        os.rename(in_part(run, name), f"{run}/{name}")
    os.rmdir(in_part(run))
    before, said = files(run), ran(directory)
    for command in (["run", "--resume"], ["run", "--rerun-failed"], ["run", "--resume", "--dry-run"], ["run", "--resume", "flow.toml"]):
        result = harrow(*command, code=2)
        same(len(result.err.splitlines()), 1, result)
        check(f"{run} was made by an earlier version of Harrow" in result.err and "finish it with that version" in result.err, result)
    check("is used already" in harrow("run", "--run-dir", "harrow-old", "flow.toml", code=2).err)
    check("done 10 of 12, failed 1" in harrow("status", code=0).out)
    check("done 10 of 12, failed 1" in harrow("report", code=0).out)
    check("exit 1" in harrow("explain", "sum", code=0).out)
    check("journal" in harrow("doctor", "--run-dir", "harrow-old").out)
    same(harrow("cancel", "--all", code=2).err, "harrow: the run in harrow-old is over: nothing is left to cancel\n")
    same(files(run), before, "something was changed")
    same((len(said), ran(directory)), (11, []))


ONE_FAILS = """
[[task]]
name = "a"
command = "echo a > a.txt; pwd >> ran"
out = ["a.txt"]
[[task]]
name = "b"
command = "test -e ok && pwd >> ran && echo b > b.txt"
in = ["a.txt"]
out = ["b.txt"]
"""


def project(directory, program):
    """A project p1 whose run has a failed task; and the program, to be run in any directory."""
    harrow = Harrow(program, directory)
    os.mkdir(f"{directory}/p1")
    write(f"{directory}/p1/flow.toml", ONE_FAILS)
    harrow("run", "--run-dir", "r", "flow.toml", code=1, cwd=f"{directory}/p1")
    os.unlink(f"{directory}/p1/ran")
    return harrow


def precious(path):
    os.mkdir(path)
    write(f"{path}/b.txt", "precious\n")
    write(f"{path}/ok", "")


def test_a_copied_project_leaves_the_original_alone(directory, program):
    harrow = project(directory, program)
    os.rename(f"{directory}/p1", f"{directory}/p4")
    subprocess.run(["cp", "-a", f"{directory}/p4", f"{directory}/p5"], check=True)
    precious(f"{directory}/p1")
    for more in ([], ["--dry-run"]):
        result = harrow("run", "--rerun-failed", "--run-dir", "r", *more, code=2, cwd=f"{directory}/p5")
        check(f"{directory}/p5/r" in result.err and f"tasks ran in {directory}/p1," in result.err, result)
        check("name the flow again" in result.err, "no way out", result)
    same(sorted(os.listdir(f"{directory}/p1")), ["b.txt", "ok"])
    same(lines_of(f"{directory}/p1/b.txt"), ["precious"])
    write(f"{directory}/p5/ok", "")
    result = harrow("run", "--rerun-failed", "--run-dir", "r", "flow.toml", code=0, cwd=f"{directory}/p5")
    check(f"goes on in {directory}/p5" in result.err, result)
    same(lines_of(f"{directory}/p5/ran"), [f"{directory}/p5"])
    same(sorted(os.listdir(f"{directory}/p1")), ["b.txt", "ok"])
    same(harrow("run", "--rerun-failed", "--run-dir", "r", code=0, cwd=f"{directory}/p5").err.count("goes on in"), 0)
    harrow("run", "--rerun-failed", "--run-dir", "p4/r", code=2)  # the one that was renamed


def test_a_renamed_project_goes_on_where_it_is(directory, program):
    harrow = project(directory, program)
    os.rename(f"{directory}/p1", f"{directory}/p4")
    write(f"{directory}/p4/ok", "")
    result = harrow("run", "--rerun-failed", "--run-dir", "p4/r", code=2)  # not from elsewhere
    check(f"if {directory}/p4 holds its files now, resume it from there" in result.err, result)
    result = harrow("run", "--rerun-failed", "--run-dir", "r", code=0, cwd=f"{directory}/p4")
    check(f"goes on in {directory}/p4; its tasks ran in {directory}/p1 before" in result.err, result)
    same(lines_of(f"{directory}/p4/ran"), [f"{directory}/p4"])
    check(not os.path.exists(f"{directory}/p1"))


def test_a_flow_named_elsewhere_does_not_take_its_run_along(directory, program):
    harrow = project(directory, program)
    os.mkdir(f"{directory}/q")
    for name in ("flow.toml", "ok"):
        write(f"{directory}/q/{name}", ONE_FAILS)
    result = harrow("run", "--rerun-failed", "--run-dir", "../p1/r", "flow.toml", code=2, cwd=f"{directory}/q")
    check(f"{directory}/p1, and this is {directory}/q" in result.err, result)
    same(sorted(os.listdir(f"{directory}/q")), ["flow.toml", "ok"])


def test_a_run_resumed_from_elsewhere_says_where_its_tasks_run(directory, program):
    harrow = project(directory, program)
    write(f"{directory}/p1/ok", "")
    os.symlink("p1", f"{directory}/link")
    result = harrow("run", "--rerun-failed", "--run-dir", "p1/r", code=0)
    check(f"tasks run in {directory}/p1, as before" in result.err, result)
    same(lines_of(f"{directory}/p1/ran"), [f"{directory}/p1"])
    result = harrow("run", "--rerun-failed", "--run-dir", "r", code=0, cwd=f"{directory}/link")
    check("as before" not in result.err and "goes on in" not in result.err, result)


def test_a_run_directory_may_move_beside_its_project(directory, program):
    harrow = Harrow(program, directory)
    os.makedirs(f"{directory}/runs")
    os.mkdir(f"{directory}/p1")
    write(f"{directory}/p1/flow.toml", ONE_FAILS)
    harrow("run", "--run-dir", "../runs/r", "flow.toml", code=1, cwd=f"{directory}/p1")
    os.rename(f"{directory}/runs/r", f"{directory}/runs/old")
    write(f"{directory}/p1/ok", "")
    harrow("run", "--rerun-failed", "--run-dir", "../runs/old", code=0, cwd=f"{directory}/p1")
    same(lines_of(f"{directory}/p1/ran")[1:], [f"{directory}/p1"])
    os.rename(f"{directory}/p1", f"{directory}/p2")
    result = harrow("run", "--rerun-failed", "--run-dir", "runs/old", code=2)
    check(f"{directory}/p1, is no longer there" in result.err, result)
    harrow("run", "--rerun-failed", "--run-dir", "../runs/old", "flow.toml", code=0, cwd=f"{directory}/p2")


def main():
    program = sys.argv[1]
    run_support.tests_of(sys.modules[__name__], program)


run_support.tell(main)
