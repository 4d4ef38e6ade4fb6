#!/usr/bin/env python3
"""A user's files against everything that removes, empties or moves some: outputs that are links, parents, inputs or another
task's, kills of agent, server and all between attempts with old files there, shared files of stdout.

usage: hostile_files.py HARROW [TEST...]      HARROW_SEED repeats the random kills"""
import os
import random
import signal
import subprocess
import sys
import time

import run_support
from run_support import Harrow, Skipped, check, in_part, kill, lines_of, of_run, query, same, wait_for, write

ROLES = ("keeper", "server", "agent", "inner")


def text_of(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def flow(*tasks):
    """A flow file of (name, command, further lines)."""
    return "".join(f'[[task]]\nname = "{name}"\ncommand = \'\'\'{command}\'\'\'\n' + "".join(line + "\n" for line in more)
                   for name, command, *more in tasks)


def refused(harrow, text, *said, place=None):
    """check and run both refuse a flow, with its place; nothing is started or made."""
    path = write(f"{harrow.cwd}/refused.toml", text)
    before = sorted(os.listdir(harrow.cwd))
    for command in (["check"], ["run", "--run-dir", "never"]):
        result = harrow(*command, "refused.toml", code=2)
        for phrase in said:
            check(phrase in result.err, command, "does not say", phrase, result)
        check(f"refused.toml:{place}: " in result.err if place else "refused.toml:" in result.err, "no place", result)
        check("; " in result.err, "says nothing of what would be right", result)
    same(sorted(os.listdir(harrow.cwd)), before)
    os.unlink(path)


def kill_inner(run_dir):
    """kill -9 of the agent, whose warden starts another."""
    pids = of_run(run_dir, "inner")
    for pid in pids:
        kill(pid)
    return pids


def ended(run, code, seconds=300):
    same(run.wait(seconds), code)


# --- what was there before

def test_what_a_directory_held_before_survives_its_agents_death(directory, program):
    harrow = Harrow(program, directory)
    os.mkdir(f"{directory}/results")
    write(f"{directory}/results/old.dat", "precious")
    write(f"{directory}/flow.toml", flow(("a", "echo x >> tries; echo new > results/new.dat; test $(wc -l < tries) -ge 2 || sleep 300",
                                          'out = ["results"]')))
    run = harrow.start("run", "--run-dir", "r", "flow.toml")
    wait_for(lambda: os.path.exists(f"{directory}/results/new.dat"))
    kill_inner(f"{directory}/r")
    ended(run, 0)
    same(text_of(f"{directory}/results/old.dat"), "precious")
    same(lines_of(f"{directory}/tries"), ["x", "x"])


def test_what_an_attempt_made_is_gone_before_the_next(directory, program):
    """Of a failed attempt, and of one whose agent was killed; with the old files of others beside."""
    harrow = Harrow(program, directory)
    write(f"{directory}/old", "precious")
    command = ("echo x >> tries; ls -d out dir 2>> absent; echo $HARROW_ATTEMPT >> out; mkdir -p dir/deep; echo $HARROW_ATTEMPT >> dir/deep/file;"
               " echo more >> old; case $(wc -l < tries) in 1) exit 3;; 2) sleep 300;; esac")
    write(f"{directory}/flow.toml", flow(("a", command, 'out = ["out", "dir", "old"]', "retries = 1")))
    run = harrow.start("run", "--run-dir", "r", "flow.toml")
    wait_for(lambda: len(lines_of(f"{directory}/tries")) == 2 and lines_of(f"{directory}/dir/deep/file") == ["2"])
    kill_inner(f"{directory}/r")
    ended(run, 0)
    same(lines_of(f"{directory}/out"), ["3"], "the second and third attempt begin without the output of the one before")
    same(lines_of(f"{directory}/dir/deep/file"), ["3"])
    same(text_of(f"{directory}/old"), "preciousmore\nmore\nmore\n")
    same(query(f"{directory}/r", "SELECT attempt, outcome FROM attempts ORDER BY attempt"), [(1, "exited"), (2, "lost"), (3, "exited")])


def test_a_first_attempt_removes_nothing_after_a_servers_restart(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/b.out", "precious")
    os.mkdir(f"{directory}/c.out")
    write(f"{directory}/c.out/old", "precious")
    write(f"{directory}/flow.toml", flow(("a", "touch began; while ! test -e go; do sleep 0.05; done; echo a > a.out", 'out = ["a.out"]'),
                                          ("b", "cat b.out > seen", 'out = ["b.out"]', 'after = ["a"]'),
                                          ("c", "cat c.out/old >> seen", 'out = ["c.out"]', 'after = ["b"]')))
    run = harrow.start("run", "--run-dir", "r", "flow.toml")
    wait_for(lambda: os.path.exists(f"{directory}/began"))
    servers = of_run(f"{directory}/r", "server")
    for pid in servers:
        kill(pid)
    wait_for(lambda: [pid for pid in of_run(f"{directory}/r", "server") if pid not in servers])
    write(f"{directory}/go", "")
    ended(run, 0)
    same(text_of(f"{directory}/seen"), "preciousprecious")
    same((text_of(f"{directory}/b.out"), text_of(f"{directory}/c.out/old")), ("precious", "precious"))


def everything_killed(directory):
    for role in ROLES:
        for pid in of_run(f"{directory}/r", role):
            kill(pid)
    wait_for(lambda: not any(of_run(f"{directory}/r", role) for role in ROLES))


def test_after_everything_was_killed_only_what_attempts_made_goes(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/old.out", "precious")
    write(f"{directory}/never.out", "precious")
    write(f"{directory}/flow.toml", flow(
        ("a", "test -e a.out && exit 9; echo $$ >> a.out; touch began; test -e go || sleep 300", 'out = ["a.out", "old.out"]'),
        ("b", "test -e never.out", 'out = ["never.out"]', 'after = ["a"]')))
    run = harrow.start("run", "--run-dir", "r", "flow.toml")
    wait_for(lambda: os.path.exists(f"{directory}/began"))
    everything_killed(directory)
    run.wait()
    write(f"{directory}/go", "")
    harrow("run", "--resume", "--run-dir", "r", code=0)
    same(len(lines_of(f"{directory}/a.out")), 1, "what the killed attempt made was there")
    same((text_of(f"{directory}/old.out"), text_of(f"{directory}/never.out")), ("precious", "precious"))


def test_what_a_user_put_there_between_two_runs_stays(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/flow.toml", flow(("a", "test -e ok || { mkdir a.dir; echo part > a.out; echo part > a.dir/part; exit 1; }; cat a.out > seen",
                                          'out = ["a.out", "a.dir"]')))
    harrow("run", "--run-dir", "r", "flow.toml", code=1)
    write(f"{directory}/a.out", "by hand")
    write(f"{directory}/a.dir/notes", "by hand")
    write(f"{directory}/ok", "")
    harrow("run", "--rerun-failed", "--run-dir", "r", code=0)
    same(text_of(f"{directory}/seen"), "by hand")
    same(text_of(f"{directory}/a.dir/notes"), "by hand")


def test_what_is_put_among_results_that_nobody_recorded_stays(directory, program):
    """A success whose result gets lost with its agent: what came to be after its end is not the attempt's."""
    harrow = Harrow(program, directory)
    write(f"{directory}/flow.toml", flow(("a", "echo $$ > a.pid; while ! test -e go; do sleep 0.05; done; mkdir a.dir; echo $HARROW_ATTEMPT > a.dir/a",
                                          'out = ["a.dir"]'),
                                          ("b", "test -e began && exit; touch began; sleep 300", 'out = ["b.out"]', "missing_ok = true")))
    run = harrow.start("run", "--run-dir", "r", "--slots", "2", "flow.toml")
    wait_for(lambda: os.path.exists(f"{directory}/began") and lines_of(f"{directory}/a.pid"))
    for pid in of_run(f"{directory}/r", "server"):
        kill(pid, signal.SIGSTOP)
    write(f"{directory}/go", "")
    wait_for(lambda: not os.path.exists(f"/proc/{lines_of(f'{directory}/a.pid')[0]}"))
    changed = lambda: os.stat(in_part(f"{directory}/r", "output/1.made")).st_mtime_ns
    last = changed()
    wait_for(lambda: changed() != last)  # a's end, or a sign of life of b's after it
    notes = write(f"{directory}/a.dir/notes", "by hand")
    wait_for(lambda: changed() > os.stat(notes).st_mtime_ns)  # b lives on
    everything_killed(directory)
    run.wait()
    harrow("run", "--resume", "--run-dir", "r", code=0)
    same(query(f"{directory}/r", "SELECT task FROM attempts WHERE outcome = 'exited' ORDER BY task"), [("a",), ("b",)])
    same(text_of(notes), "by hand")


def test_results_stay_when_their_task_runs_again(directory, program):
    """What succeeded and runs again, as something before it changed, finds its results."""
    harrow = Harrow(program, directory)
    tasks = [("a", "echo 1 > a.out", 'out = ["a.out"]'), ("b", "test ! -e b.out || cp b.out seen; echo b > b.out", 'in = ["a.out"]', 'out = ["b.out"]')]
    write(f"{directory}/flow.toml", flow(*tasks))
    harrow("run", "--run-dir", "r", "flow.toml", code=0)
    tasks[0] = ("a", "echo 2 > a.out", 'out = ["a.out"]')
    write(f"{directory}/flow.toml", flow(*tasks))
    harrow("run", "--resume", "--run-dir", "r", "flow.toml", code=0)
    same(text_of(f"{directory}/seen"), "b\n")


def test_tasks_with_new_numbers_begin_without_what_they_made(directory, program):
    harrow = Harrow(program, directory)
    task = ("a", "test ! -e a.out || exit 9; echo x > a.out; test -e ok", 'out = ["a.out", "old.out"]')
    write(f"{directory}/old.out", "precious")
    write(f"{directory}/flow.toml", flow(task))
    harrow("run", "--run-dir", "r", "flow.toml", code=1)
    write(f"{directory}/ok", "")
    write(f"{directory}/flow.toml", flow(("first", "true"), task))
    harrow("run", "--resume", "--run-dir", "r", "flow.toml", code=0)
    same(text_of(f"{directory}/old.out"), "precious")


def test_files_in_the_working_directory_are_not_taken_for_outputs(directory, program):
    """Names of files are relative to where the run was started, whatever a task's cwd is."""
    harrow = Harrow(program, directory)
    os.mkdir(f"{directory}/sub")
    write(f"{directory}/sub/out", "precious")
    write(f"{directory}/flow.toml", flow(("a", "test ! -e ../out || exit 9; echo x > ../out; test $HARROW_ATTEMPT = 2", 'cwd = "sub"', 'out = ["out"]',
                                          "retries = 1")))
    harrow("run", "--run-dir", "r", "flow.toml", code=0)
    same(text_of(f"{directory}/sub/out"), "precious")


# --- links, names

def test_an_output_that_became_a_link_leads_nowhere(directory, program):
    harrow = Harrow(program, directory)
    os.makedirs(f"{directory}/precious/deep")
    write(f"{directory}/precious/file", "precious")
    write(f"{directory}/precious/deep/file", "precious")
    write(f"{directory}/flow.toml", flow(
        ("link", "ln -s precious out; test $HARROW_ATTEMPT = 2", 'out = ["out"]', "retries = 1"),
        ("inside", "mkdir dir; ln -s ../precious dir/way; test $HARROW_ATTEMPT = 2", 'out = ["dir"]', "retries = 1"),
        ("parent", "rmdir way; ln -sfn precious way; touch way/new; test $HARROW_ATTEMPT = 2", 'out = ["way/file", "way/deep"]', "retries = 1"),
        ("single", "ln -s precious/file name; test $HARROW_ATTEMPT = 2", 'out = ["name"]', "retries = 1")))
    harrow("run", "--run-dir", "r", "flow.toml", code=0)
    same((text_of(f"{directory}/precious/file"), text_of(f"{directory}/precious/deep/file")), ("precious", "precious"))
    check(os.path.islink(f"{directory}/out"), "ln would have failed had the link of the first attempt been there")


def test_what_an_attempt_moved_or_linked_into_its_output_stays(directory, program):
    harrow = Harrow(program, directory)
    os.makedirs(f"{directory}/data")
    write(f"{directory}/data/file", "precious")
    write(f"{directory}/single", "precious")
    write(f"{directory}/flow.toml", flow(("a", "test $HARROW_ATTEMPT = 2 || { mkdir out && mv data out && ln single out/single; exit 1; }",
                                          'out = ["out"]', "retries = 1")))
    harrow("run", "--run-dir", "r", "flow.toml", code=0)
    same((text_of(f"{directory}/out/data/file"), text_of(f"{directory}/single")), ("precious", "precious"))


def test_where_births_are_not_told_what_was_moved_into_an_output_stays(directory, program):
    """By the attempt, and by the user while it ran; on a file system that knows no time of birth, as Lustre."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
        raise Skipped("a file system of its own", "mounting")
    harrow = Harrow(program, directory)
    for name in ("ram", "kept"):
        os.mkdir(f"{directory}/{name}")
    write(f"{directory}/flow.toml", flow(("a", "test $HARROW_ATTEMPT = 2 && { ls out > seen; exit; }; mkdir out; echo x > out/new; mv data out/;"
                                          " touch began; while ! test -e go; do sleep 0.05; done; exit 1", 'out = ["out"]', "retries = 1")))
    script = f"""mount -t ramfs none ram && cd ram || exit 1
echo precious > data; echo by hand > notes; stat -c %W data > ../kept/birth
{harrow.program} run --progress none --run-dir r ../flow.toml & pid=$!
tries=0; until test -e began || ! kill -0 $pid || test $((tries+=1)) -gt 6000; do sleep 0.01; done
mv notes out/; touch go
wait $pid; echo $? > ../kept/code
cp -r out seen ../kept || true
"""
    subprocess.run(["unshare", "-m", "sh", "-c", script], cwd=directory, env=harrow.env, timeout=280, check=True)
    same(lines_of(f"{directory}/kept/birth"), ["0"], "this file system tells births; the test shows nothing")
    same(lines_of(f"{directory}/kept/code"), ["0"])
    same(lines_of(f"{directory}/kept/seen"), ["data", "notes"], "what the attempt wrote is gone, what was moved there is not")
    same((text_of(f"{directory}/kept/out/data"), text_of(f"{directory}/kept/out/notes")), ("precious\n", "by hand\n"))


def test_foreign_places_keep_what_they_hold(directory, program):
    harrow = Harrow(program, directory)
    os.mkdir(f"{directory}/here")
    os.mkdir(f"{directory}/other")
    write(f"{directory}/other/file", "precious")
    harrow.cwd = f"{directory}/here"
    os.symlink("../other", f"{directory}/here/link")
    write(f"{directory}/here/flow.toml", flow(
        ("above", "touch ../other/new; test $HARROW_ATTEMPT = 2", 'out = ["../other/"]', "retries = 1"),
        ("absolute", f"test ! -e {directory}/made || exit 9; touch {directory}/made; test $HARROW_ATTEMPT = 2", f'out = ["{directory}//x/../made"]',
         "retries = 1"),
        ("linked", "test ! -e link2/made || exit 9; touch link2/made; test $HARROW_ATTEMPT = 2", 'out = ["link2/made"]', "retries = 1")))
    os.mkdir(f"{directory}/disk")
    os.symlink("../disk", f"{directory}/here/link2")
    harrow("run", "--run-dir", "r", "flow.toml", code=0)
    same(text_of(f"{directory}/other/file"), "precious")
    check(os.path.exists(f"{directory}/other/new"), "what was there is left, with all that it holds")


# --- what check and run refuse

def test_outputs_that_hold_what_is_not_theirs_are_refused(directory, program):
    harrow = Harrow(program, directory)
    os.makedirs(f"{directory}/raw")
    os.makedirs(f"{directory}/sub")
    write(f"{directory}/raw/1.dat", "precious")
    os.symlink(".", f"{directory}/here")
    os.symlink("raw", f"{directory}/way")
    name = os.path.basename(directory)
    for out in (".", "./", "x/..", "..", "../..", "/", f"../{name}", directory, f"{directory}/",
                os.path.dirname(directory)):
        refused(harrow, flow(("a", "true", f'out = ["{out}"]')), "is or holds the directory that the flow runs in", place="4:8")
    refused(harrow, flow(("a", "true", 'out = ["sub"]', 'cwd = "sub"')), "working directory", place="4:8")
    refused(harrow, flow(("a", "true", 'in = ["raw/1.dat"]', 'out = ["raw"]')), '"raw/1.dat", which the task reads', place="5:8")
    refused(harrow, flow(("a", "true", 'in = ["raw/*.dat"]'), ("b", "true", 'out = ["raw"]')), "which is there already and is read", place="8:8")
    refused(harrow, flow(("a", "true", 'out = ["refused.toml"]')), "which tells the flow", place="4:8")
    refused(harrow, flow(("a", "true", 'out = ["results/a.txt"]'), ("b", "true", 'out = ["results"]', "retries = 1")),
            'holds "results/a.txt", the output of task \'a\'', place="8:8")
    refused(harrow, flow(("a", "true", 'out = ["raw/a.txt"]'), ("b", "true", 'out = ["way/a.txt"]')), "under another name")
    refused(harrow, flow(("a", "true", 'out = ["way/a.txt"]'), ("b", "true", f'out = ["{directory}/raw/a.txt"]')), "under another name")
    refused(harrow, flow(("a", "true", 'out = ["raw/deep/a.txt"]'), ("b", "true", 'out = ["way/deep"]')), 'out "way/deep" holds')
    refused(harrow, flow(("a", "true", 'out = ["way/deep/a.txt"]'), ("b", "true", 'out = ["raw/deep"]')), 'out "raw/deep" holds')
    refused(harrow, flow(("a", "true", f'out = ["{directory}/a"]'), ("b", "true", 'out = ["a/b"]')), "holds")
    result = harrow("check", "-", stdin=flow(("a", "true", 'out = ["p/*.x"]')), code=2)
    check("the directory that holds them" not in result.err, result)
    same(text_of(f"{directory}/raw/1.dat"), "precious")


def test_outputs_that_hold_the_run_directory_are_refused(directory, program):
    harrow = Harrow(program, directory)
    os.makedirs(f"{directory}/runs")
    os.symlink("runs", f"{directory}/way")
    write(f"{directory}/flow.toml", flow(("a", "true", 'out = ["runs"]')))
    for run_dir in ("runs", "runs/today", "way/today", f"{directory}/runs/x/y"):
        result = harrow("run", "--run-dir", run_dir, "flow.toml", code=2)
        check("flow.toml:2:8: " in result.err and "run directory" in result.err, result)
    same(os.listdir(f"{directory}/runs"), [])
    harrow("run", "--run-dir", "elsewhere", "flow.toml", code=0)


def test_ordinary_flows_are_taken(directory, program):
    harrow = Harrow(program, directory)
    os.makedirs(f"{directory}/raw")
    write(f"{directory}/raw/1", "1")
    os.makedirs(f"{directory}/disk")
    os.symlink("disk", f"{directory}/way")
    write(f"{directory}/flow.toml", flow(
        ("a", "cp raw/1 raw/1.out; mkdir p && touch p/x p/y", 'in = ["raw/1"]', 'out = ["raw/1.out", "p"]', 'stdout = "log-%a.txt"'),
        ("b", "cat p/x > way/b", 'in = ["p/x"]', 'out = ["way/b"]', 'stdout = "/dev/null"', 'stderr = "/dev/null"'),
        ("c", "cat way/b > c.txt", 'in = ["way/b"]', 'out = ["c.txt", "c.d/x", "c.d"]', 'stdout = "/dev/null"', "missing_ok = true")))
    harrow("run", "--run-dir", "r", "flow.toml", code=0)
    harrow("check", "flow.toml", code=0)
    harrow("run", "--run-dir", "r2", "flow.toml", code=1)  # mkdir p: it is there, and nobody removed it


# --- stdout

def test_a_shared_file_of_stdout_is_refused(directory, program):
    harrow = Harrow(program, directory)
    refused(harrow, flow(("a-{i}", "echo {i}", 'each = { i = "1-9" }', 'stdout = "all.log"')), "is written by task 'a-1'", place="5:10")


def test_a_file_of_stdout_shared_by_links_keeps_every_text(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/all.log", "before\n")
    for i in range(20):
        os.symlink("all.log", f"{directory}/{i}.log")
    write(f"{directory}/flow.toml", flow(("a-{i}", "echo {i} $HARROW_ATTEMPT; test {i} -lt 15 || test $HARROW_ATTEMPT = 2", 'each = { i = "0-19" }',
                                          'stdout = "{i}.log"', "retries = 1")))
    harrow("run", "--run-dir", "r", "flow.toml", code=0)
    same(sorted(lines_of(f"{directory}/all.log")), sorted(["before"] + [f"{i} 1" for i in range(20)] + [f"{i} 2" for i in range(15, 20)]))


def test_links_do_not_make_one_file_of_several_outputs_and_streams(directory, program):
    harrow = Harrow(program, directory)
    each = 'each = { i = "0-2" }'
    named = flow(("a-{i}", "echo text of {i}", each, 'stdout = "{i}.log"', 'out = ["{i}.log"]'))
    apart = flow(("a", "echo a", 'stdout = "0.log"', 'out = ["0.log"]'), ("b", "echo b > 1.log", 'out = ["1.log"]'))
    added = flow(("a", "echo a", 'stdout = "0.log"'), ("b", "echo b > 1.log", 'out = ["1.log"]'))
    by_index = flow(("a-{i}", "echo text of {i}", each, 'stdout = "%a.log"', 'out = ["{i}.log"]'))

    def symbolic(name):
        os.symlink("all.log", f"{directory}/{name}")

    def hard(name):
        os.link(f"{directory}/all.log", f"{directory}/{name}")

    for make in (symbolic, hard):
        write(f"{directory}/all.log", "precious\n")
        for i in range(3):
            make(f"{i}.log")
        for text in (named, apart, added, by_index):
            refused(harrow, text, 'out "1.log" is, through a link, the file "0.log" that task')
        same(text_of(f"{directory}/all.log"), "precious\n")
        for i in range(3):
            os.unlink(f"{directory}/{i}.log")
    os.unlink(f"{directory}/all.log")
    symbolic("0.log")  # leads to nothing yet
    refused(harrow, flow(("a", "echo a", 'stdout = "0.log"', 'out = ["0.log"]'), ("b", "true", 'stdout = "all.log"')), "through a link")
    symbolic("1.log")
    refused(harrow, named, 'out "1.log" is, through a link, the file "0.log" that task')
    # One task's own link, and a link to the newest text that a task makes, are nobody's loss.
    os.unlink(f"{directory}/1.log")
    write(f"{directory}/flow.toml", flow(("a-{i}", "echo text of {i}", each, 'stdout = "{i}.log"', 'out = ["{i}.log"]'),
                                         ("last", "ln -sf 2.log latest", 'in = ["2.log"]', 'out = ["latest"]')))
    for number in range(2):
        harrow("run", "--run-dir", f"r{number}", "flow.toml", code=0)
        same([text_of(f"{directory}/{name}") for name in ("all.log", "1.log", "latest")], [f"text of {i}\n" for i in range(3)])


def test_without_an_output_limit_all_is_kept(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/tasks.txt", "head -c 70000000 /dev/zero\n")
    harrow("run", "--run-dir", "r", "--output-limit", "0", "tasks.txt", code=0)
    same(query(f"{directory}/r", "SELECT stdout_bytes, output_truncated FROM attempt"), [(70000000, 0)])


# --- the run directory

def test_a_dry_run_moves_no_file_of_a_run_that_it_does_not_own(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/flow.toml", flow(("a", "false"), ("b", "true")))
    harrow("run", "--run-dir", "r", "flow.toml", code=1)
    part = in_part(f"{directory}/r")
    os.mkdir(f"{part}/resume.ready")  # as if a resume had been killed at its moment of decision
    os.rename(f"{directory}/r/flow", f"{part}/flow")
    for name in ("flow", "journal.db"):
        os.rename(f"{part}/{name}", f"{part}/resume.ready/{name}")
        write(f"{part}/{name}", "of before")
    write(f"{directory}/r/flow", "of before")

    def seen():
        return {os.path.join(top, name): (os.stat(os.path.join(top, name)).st_ino, os.stat(os.path.join(top, name)).st_mtime_ns)
                for top, _, names in os.walk(f"{directory}/r") for name in names}
    before = seen()
    result = harrow("run", "--resume", "--dry-run", "--run-dir", "r", code=0)
    same([line.split("\t")[0] for line in result.out.splitlines()], ["a"])
    same(seen(), before)


# --- random kills

def test_random_kills_destroy_nothing(directory, program):
    seed = int(os.environ.get("HARROW_SEED") or time.time_ns() % 10**9)
    print("seed", seed, flush=True)
    rng = random.Random(seed)
    harrow = Harrow(program, directory, {"HARROW_MAX_LOSSES": "1000"})
    count, old = 60, {}
    for i in range(count):
        if rng.random() < 0.5:
            if i % 2:
                os.makedirs(f"{directory}/d{i}/deep")
                old[f"d{i}/deep/old"] = write(f"{directory}/d{i}/deep/old", f"precious {i}")
            else:
                old[f"f{i}.old"] = write(f"{directory}/f{i}.old", f"precious {i}")
    tasks = []
    for i in range(count):
        outs = f'out = ["d{i}", "f{i}"]' if i % 2 else f'out = ["f{i}.old", "f{i}"]'
        make = f"mkdir -p d{i}; echo x > d{i}/new; " if i % 2 else f"test -e f{i}.old || echo made > f{i}.old; "
        tasks.append((f"t{i}", f"{make}echo $$ >> f{i}; echo t{i} >> tries; sleep {rng.uniform(0.05, 0.6):.2f}; test $HARROW_ATTEMPT -ge {1 + (i % 3 == 0)}",
                      outs, "retries = 100"))
    write(f"{directory}/flow.toml", flow(*tasks))
    options = ["--run-dir", "r", "--slots", "4", "--local-nodes", "2", "--progress", "none"]
    run = harrow.start("run", *options, "flow.toml")
    wait_for(lambda: lines_of(f"{directory}/tries"))
    servers_killed = 0  # of one keeper, which gives up a server that dies five times in a row
    for _ in range(6):
        time.sleep(rng.uniform(0.1, 0.8))
        role = rng.choice(["server", "inner", "inner", "agent", "keeper"] if servers_killed < 4 else ["inner", "agent", "keeper"])
        servers_killed += role == "server"
        pids = of_run(f"{directory}/r", role)
        if pids:
            kill(rng.choice(pids))
        if pids and role == "keeper":  # this process itself: whether it is gone shows only after its end
            code = run.wait(300)
            if code == 0:  # the run was just over
                break
            same(code, -signal.SIGKILL)
            servers_killed = 0
            wait_for(lambda: not any(of_run(f"{directory}/r", role) for role in ROLES))
            run = harrow.start("run", "--resume", *options)
    ended(run, 0, 600)
    for name, path in old.items():
        same(text_of(path).splitlines()[0], f"precious {name[1:].split('/')[0].split('.')[0]}", name)
    twice = [i for i in range(count) if len(lines_of(f"{directory}/f{i}")) != 1]
    same(twice, [], "outputs with the bytes of two attempts (all were absent before)")


def main():
    program = sys.argv[1]
    run_support.tests_of(sys.modules[__name__], program)


run_support.tell(main)
