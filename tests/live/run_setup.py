#!/usr/bin/env python3
"""What a run does around its tasks: node_setup, node_teardown, on_end.   usage: run_setup.py HARROW [TEST...]"""
import json
import os
import signal
import sys

import run_support
from run_support import Harrow, check, kill, lines_of, of_run, query, same, wait_for, write


def test_nodes_are_set_up_and_torn_down(directory, program):
    """Once each, before the first task and after the last; what fails puts the node aside, and is named."""
    harrow = Harrow(program, directory)
    write(f"{directory}/flow.toml", """
[flow]
node_setup = "echo setup $HARROW_NODE $(basename $HARROW_RUN_DIR) >> nodes; touch ready-$HARROW_NODE"
node_teardown = "rm ready-$HARROW_NODE; sleep 2; echo teardown $HARROW_NODE >> nodes"
[[task]]
name = "t-{i}"
each = { i = "1-20" }
command = "test -e ready-$HARROW_NODE"
""")
    harrow("run", "--run-dir", "r", "--local-nodes", "2", "flow.toml", code=0)
    nodes = [line.split() for line in lines_of(f"{directory}/nodes")]
    names = {n[1] for n in nodes}
    same(len(names), 2, nodes)
    same(sorted(n[0] for n in nodes), ["setup", "setup", "teardown", "teardown"], nodes)
    same({n[2] for n in nodes if n[0] == "setup"}, {"r"})
    # One of two cannot: the other one does it all. The tasks go on until it has been told, or the run might be over before.
    bad = sorted(names)[1]
    write(f"{directory}/flow.toml", f"""
[flow]
node_setup = "if test $HARROW_NODE = {bad}; then echo first; echo no disk there >&2; exit 3; fi"
[[task]]
name = "t-{{i}}"
each = {{ i = "1-20" }}
command = "echo $HARROW_NODE >> where; until grep -q 'is put aside' {directory}/r2/0/log/server.log; do sleep 0.05; done"
""")
    result = harrow("run", "--run-dir", "r2", "--local-nodes", "2", "flow.toml", code=0)
    check(f"node {bad} is put aside: node_setup ended with exit code 3: no disk there" in result.err, result)
    check(bad not in lines_of(f"{directory}/where"), "it ran tasks")
    same(len(lines_of(f"{directory}/where")), 20)
    # None can: nothing fails, the run can be gone on with. And what takes too long is ended.
    write(f"{directory}/flow.toml", """
[flow]
node_setup = "echo waiting; sleep 1000"
node_limit = "1s"
[[task]]
name = "t"
command = "true"
""")
    result = harrow("run", "--run-dir", "r3", "flow.toml", code=3)
    check("no node is fit to run tasks" in result.err and "node_setup took longer than node_limit, 1.00 s: waiting" in result.err, result)
    check("go on with: harrow run --resume" in result.err, result)
    same(query(f"{directory}/r3", "SELECT count(*) FROM attempts")[0][0], 0)


def test_what_a_setup_leaves_running_is_there_for_all_tasks(directory, program):
    """Also for those of a second agent; and however much it writes, it fills no memory."""
    harrow = Harrow(program, directory)
    write(f"{directory}/flow.toml", """
[flow]
node_setup = "sh -c 'head -c 4000000 /dev/zero; exec sleep 1000' & echo $! > daemon; head -c 3000000 /dev/zero"
[[task]]
name = "t"
command = "echo x >> tries; until test $(wc -l < tries) -ge 2; do sleep 0.05; done; kill -0 $(cat daemon)"
""")
    run = harrow.start("run", "--run-dir", "r", "--retries", "0", "flow.toml")
    wait_for(lambda: os.path.exists(f"{directory}/tries"))
    daemon = int(lines_of(f"{directory}/daemon")[0])
    wait_for(lambda: open(f"/proc/{daemon}/comm").read() == "sleep\n")  # it has written all
    check(os.stat(f"/proc/{daemon}/fd/1").st_size < 1_000_000, "what it wrote is in memory")
    for pid in of_run(f"{directory}/r", "inner"):
        kill(pid)
    same(run.wait(180), 0, lines_of(f"{directory}/harrow.out"))
    check(not os.path.exists(f"/proc/{daemon}"), "it outlives the run")


def test_a_second_signal_ends_a_teardown(directory, program):
    """Of a run that was interrupted, and of one that has ended."""
    harrow = Harrow(program, directory)
    interrupted = 128 + signal.SIGINT
    for name, command, codes in (("stopped", "touch began; sleep 600", (interrupted,)), ("ended", "true", (0, interrupted))):
        word = run_support.long_sleep()
        write(f"{directory}/flow.toml", f"""
[flow]
node_teardown = "touch torn-{name}; sleep {word}"
[[task]]
name = "t"
command = "{command}"
""")
        run = harrow.start("run", "--run-dir", name, "flow.toml")
        if name == "stopped":
            wait_for(lambda: os.path.exists(f"{directory}/began"))
            run.send_signal(signal.SIGINT)
        wait_for(lambda: os.path.exists(f"{directory}/torn-{name}"))
        wait_for(lambda: run.poll() is not None or run.send_signal(signal.SIGINT), step=0.3)
        check(run.wait(180) in codes, lines_of(f"{directory}/harrow.out"))
        wait_for(lambda: not run_support.with_word(word))


def test_a_signal_after_the_last_task_interrupts_nothing(directory, program):
    """Nodes are torn down to the end, and the run has ended as it would have."""
    harrow = Harrow(program, directory)
    for command, code in (("true", 0), ("false", 1)):
        write(f"{directory}/flow.toml", f"""
[flow]
node_teardown = "touch torn-{command}; sleep 1; touch whole-{command}"
[[task]]
name = "t"
command = "{command}"
""")
        run = harrow.start("run", "--run-dir", f"r-{command}", "flow.toml")
        wait_for(lambda: os.path.exists(f"{directory}/torn-{command}"))
        run.send_signal(signal.SIGINT)
        same(run.wait(180), code, lines_of(f"{directory}/harrow.out"))
        check(os.path.exists(f"{directory}/whole-{command}"), "its end was not waited for")


def test_the_end_may_be_switched_off_and_takes_no_longer_than_allowed(directory, program):
    harrow = Harrow(program, directory)
    write(harrow.env["HARROW_CONF"], 'on_end = "touch site"\nnode_setup = "touch setup"\n')
    task = '[[task]]\nname = "t"\ncommand = "true"\n'
    write(f"{directory}/flow.toml", f'[flow]\non_end = ""\nnode_setup = ""\n{task}')
    harrow("run", "flow.toml", code=0)
    check(not {"site", "setup"} & set(os.listdir(directory)), os.listdir(directory))
    word = run_support.long_sleep()
    write(f"{directory}/flow.toml", f'[flow]\non_end = "touch begun; sleep {word}"\non_end_limit = "1s"\n{task}')
    told = harrow("run", "flow.toml", code=0)
    check("on_end took longer than on_end_limit, 1.00 s, and was ended" in told.err, told)
    check(os.path.exists(f"{directory}/begun") and not run_support.with_word(word), "it was not begun, or goes on")


def test_who_ends_the_run_ends_what_it_does_at_its_end(directory, program):
    harrow = Harrow(program, directory)
    word = run_support.long_sleep()
    write(f"{directory}/flow.toml", f"""
[flow]
on_end = "touch ending; sleep {word}"
[[task]]
name = "t"
command = "true"
""")
    run = harrow.start("run", "flow.toml")
    wait_for(lambda: os.path.exists(f"{directory}/ending"))
    run.send_signal(signal.SIGTERM)
    same(run.wait(180), 0)
    check("on_end ended with signal 15" in open(f"{directory}/harrow.out").read())
    wait_for(lambda: not run_support.with_word(word))


def test_a_retry_waits_and_the_end_is_told(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/flow.toml", """
[flow]
retry_delay = "1s"
on_end = "echo $HARROW_EXIT_STATUS $HARROW_TASKS $HARROW_DONE $HARROW_FAILED $HARROW_SKIPPED $HARROW_OPEN > told; echo shown; harrow_is_done"
[[task]]
name = "again"
command = "date +%s%N >> times; test $(wc -l < times) = 2"
retries = 1
[[task]]
name = "bad"
command = "exit 1"
[[task]]
name = "after"
command = "true"
after = ["bad"]
""")
    result = harrow("run", "--run-dir", "r", "--json", "flow.toml", code=1)
    first, second = (int(line) for line in lines_of(f"{directory}/times"))
    check(second - first >= 1e9, f"it was tried again after {(second - first) / 1e9} s")
    same(lines_of(f"{directory}/told"), ["1 3 1 1 1 0"])
    check("shown" in result.err and "on_end ended with exit code 127" in result.err, result)
    json.loads(result.out)  # nothing of on_end is in it


def main():
    program = sys.argv[1]
    run_support.tests_of(sys.modules[__name__], program)


run_support.tell(main)
