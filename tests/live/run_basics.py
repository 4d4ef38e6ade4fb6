#!/usr/bin/env python3
"""Whole runs: what is run, recorded, printed and refused.   usage: run_basics.py HARROW [TEST...]"""
import collections
import glob
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

import run_support
from run_support import Harrow, Skipped, check, in_part, kill, lines_of, of_run, query, same, wait_for, write


def test_journal_equals_what_the_tasks_say(directory, program):
    """An outside witness: each task appends its number and pid itself."""
    harrow = Harrow(program, directory)
    write(f"{directory}/tasks.txt", "".join(f"echo {i} $$ >> witness; exit {3 if i % 50 == 7 else 0}\n" for i in range(300)))
    result = harrow("run", "--run-dir", "r", "--slots", "4", "tasks.txt", code=1)
    check("done 294 of 300, failed 6" in result.out, result)
    witness = [int(line.split()[0]) for line in lines_of(f"{directory}/witness")]
    same(sorted(witness), list(range(300)), "each task once")
    run = f"{directory}/r"
    same(query(run, "SELECT count(*) FROM attempt")[0][0], 300)
    same(query(run, "SELECT id, state FROM tasks ORDER BY id"),
         [(i, "failed" if i % 50 == 7 else "done") for i in range(300)])
    same(query(run, "SELECT DISTINCT code FROM attempts WHERE outcome = 'exited' ORDER BY code"), [(0,), (3,)])
    same(query(run, "PRAGMA integrity_check"), [("ok",)])
    same(sorted(os.listdir(run)), ["0", "flow"])
    same(sorted(os.listdir(in_part(run))), ["journal.acknowledged", "journal.db", "log", "output"], "no WAL, owner or server is left")
    check("harrow logs --failed" in result.err and "exit 3" in result.err, result)
    check("  $ echo " in result.err, "what failed is told", result)


def test_output_is_captured(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/tasks.txt", "".join(f"echo out {i}; echo err {i} >&2\n" for i in range(20)))
    harrow("run", "--run-dir", "r", "tasks.txt", code=0)
    for i in (0, 7, 19):
        logs = harrow("logs", "--run-dir", "r", f"#{i + 1}", code=0)
        check(f"out {i}" in logs.out and f"err {i}" in logs.err, logs)


def test_dependencies_and_skips(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/flow.toml", """
[[task]]
name = "good"
command = "echo x > good.txt"
out = ["good.txt"]
[[task]]
name = "use"
command = "cat good.txt > used.txt"
in = ["good.txt"]
out = ["used.txt"]
[[task]]
name = "bad"
command = "echo broken >&2; exit 9"
out = ["bad.txt"]
[[task]]
name = "after-bad"
command = "touch never"
in = ["bad.txt"]
""")
    result = harrow("run", "--run-dir", "r", "--json", "flow.toml", code=1)
    document = json.loads(result.out)
    same({k: document["tasks"][k] for k in ("total", "done", "failed", "skipped", "running")},
         {"total": 4, "done": 2, "failed": 1, "skipped": 1, "running": 0})
    check(document["version"] >= 1 and document["makespan_s"] > 0 and "core_utilisation" in document, document)
    check("broken" in json.dumps(document), "the failure's stderr is told", document)
    check(not os.path.exists(f"{directory}/never"), "a task ran without its input")
    same(query(f"{directory}/r", "SELECT state, because FROM tasks WHERE name = 'after-bad'"), [("skipped", "bad")])


def test_retries(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/tasks.txt", "echo x >> tries; test $(wc -l < tries) -ge 3\n")
    harrow("run", "--run-dir", "r", "--retries", "3", "tasks.txt", code=0)
    same(len(lines_of(f"{directory}/tries")), 3)
    same(query(f"{directory}/r", "SELECT attempt, code FROM attempts ORDER BY attempt"), [(1, 1), (2, 1), (3, 0)])


def test_max_failures_and_fail_fast(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/tasks.txt", "false\n" * 5000)  # more than an agent runs before the server hears of the third
    stopped = harrow("run", "--run-dir", "r1", "--slots", "1", "--max-failures", "3", "tasks.txt", code=1)
    check("after 3 failed tasks (--max-failures)" in stopped.err, stopped)
    failed = query(f"{directory}/r1", "SELECT count(*) FROM tasks WHERE state = 'failed'")[0][0]
    check(3 <= failed < 5000, failed, "failed")
    write(f"{directory}/more.txt", "touch a; sleep 600\nuntil test -e a && test -e b; do sleep 0.05; done; false\ntouch b; sleep 600\n")
    ended = harrow("run", "--run-dir", "r2", "--slots", "3", "--fail-fast", "more.txt", code=1)
    same(query(f"{directory}/r2", "SELECT outcome, code FROM attempts ORDER BY task"),
         [("cancelled", signal.SIGTERM), ("exited", 1), ("cancelled", signal.SIGTERM)], "the others are ended at once, and in peace")
    check("(--fail-fast)" in ended.err, ended)


def test_a_used_directory_is_not_touched(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/tasks.txt", "true\n")
    harrow("run", "--run-dir", "r", "tasks.txt", code=0)
    before = subprocess.check_output("find r -type f | sort | xargs md5sum; stat -c %Y r/*", shell=True, cwd=directory)
    result = harrow("run", "--run-dir", "r", "tasks.txt", code=2)
    same(len(result.err.splitlines()), 1, result)
    check("--resume" in result.err, result)
    same(subprocess.check_output("find r -type f | sort | xargs md5sum; stat -c %Y r/*", shell=True, cwd=directory), before)


def test_two_keepers_cannot_share_a_run(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/tasks.txt", "touch began; sleep 600\n")
    first = harrow.start("run", "--run-dir", "r", "tasks.txt")
    try:
        wait_for(lambda: os.path.exists(f"{directory}/began"))
        second = harrow("run", "--resume", "--run-dir", "r")
        check(second.code == 2 and len(second.err.splitlines()) == 1, second)
    finally:
        first.send_signal(signal.SIGINT)
        same(first.wait(180), 128 + signal.SIGINT)


def test_interrupt_and_resume(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/tasks.txt", "".join(f"echo {i} >> began; test -e go || sleep 600; echo {i} >> ended\n" for i in range(6)) +
          "echo quick >> began; echo quick >> ended\n")
    first = harrow.start("run", "--run-dir", "r", "--slots", "7", "tasks.txt")
    wait_for(lambda: len(lines_of(f"{directory}/began")) == 7)
    wait_for(lambda: json.loads(harrow("status", "--json", "--run-dir", "r", code=0).out)["tasks"]["done"] == 1)
    first.send_signal(signal.SIGTERM)
    same(first.wait(180), 128 + signal.SIGTERM)
    said = open(f"{directory}/harrow.out").read()
    check("harrow run --resume" in said and "interrupted by SIGTERM: 6 of 7 tasks open" in said, said)
    wait_for(lambda: not run_support.of_run(f"{directory}/r", "agent"))
    write(f"{directory}/go", "")
    result = harrow("run", "--resume", "--run-dir", "r", code=0)
    check("1 of 7 tasks are done" in result.err, result)
    same(sorted(lines_of(f"{directory}/ended")), ["0", "1", "2", "3", "4", "5", "quick"])
    same(lines_of(f"{directory}/began").count("quick"), 1)


def test_a_second_signal_ends_at_once(directory, program):
    harrow = Harrow(program, directory)
    word = run_support.long_sleep()
    write(f"{directory}/tasks.txt", f"trap '' TERM; touch began; sleep {word}\n")
    first = harrow.start("run", "--run-dir", "r", "tasks.txt")
    wait_for(lambda: os.path.exists(f"{directory}/began"))
    first.send_signal(signal.SIGINT)
    wait_for(lambda: "once more" in open(f"{directory}/harrow.out").read())
    wait_for(lambda: first.poll() is not None or first.send_signal(signal.SIGINT))
    same(first.wait(180), 128 + signal.SIGINT)
    check("ended at once" in open(f"{directory}/harrow.out").read())
    wait_for(lambda: not run_support.with_word(word))


def test_ctrl_z_stops_all_until_it_goes_on(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/tasks.txt", "while sleep 0.02; do echo x >>lines; test -e go && exit; done\n" * 2)
    # As a shell starts it: a group of its own, in the shell's session. (Elsewhere nobody could let it go on, and it does not stop.)
    with open(f"{directory}/harrow.out", "w") as out:
        first = subprocess.Popen([harrow.program, "run", "--run-dir", "r", "--slots", "2", "tasks.txt"], cwd=directory, env=harrow.env,
                                 stdin=subprocess.DEVNULL, stdout=out, stderr=out, process_group=0)
    wait_for(lambda: len(lines_of(f"{directory}/lines")) > 10)
    first.send_signal(signal.SIGTSTP)

    def state(pid):
        try:
            return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0]
        except OSError:
            return "gone"

    keeper = of_run(f"{directory}/r", "keeper")[0]
    wait_for(lambda: state(keeper) == "T")
    below = [keeper]
    for pid in below:
        below += [child for child, (parent, _) in run_support.processes().items() if parent == pid]
    check(len(below) >= 6, "keeper, server, warden, agent, two tasks", below)
    # A sleep may end meanwhile, and is a zombie for as long as its shell stands.
    wait_for(lambda: {state(pid) for pid in below} <= {"T", "Z", "gone"})
    first.send_signal(signal.SIGCONT)
    stood = len(lines_of(f"{directory}/lines"))
    wait_for(lambda: len(lines_of(f"{directory}/lines")) > stood)
    write(f"{directory}/go", "")
    same(first.wait(180), 0)
    same(query(f"{directory}/r", "SELECT count(*) FROM attempts"), [(2,)])


def test_a_signal_to_process_and_group_is_one(directory, program):
    """As timeout sends it; what runs is asked politely."""
    harrow = Harrow(program, directory)
    write(f"{directory}/tasks.txt", "trap 'echo polite > asked; exit 1' TERM; touch began; sleep 600 & wait\n")
    first = harrow.start("run", "--run-dir", "r", "tasks.txt")
    wait_for(lambda: os.path.exists(f"{directory}/began"))
    # Both before it has dealt with one: this process may stand between two lines of its own.
    for number in (signal.SIGSTOP, signal.SIGINT, signal.SIGTERM, signal.SIGCONT):
        first.send_signal(number)
    same(first.wait(180), 128 + signal.SIGINT)
    same(lines_of(f"{directory}/asked"), ["polite"])
    said = open(f"{directory}/harrow.out").read()
    check("ended at once" not in said and "1 of 1 task open" in said, said)


def test_a_stale_run_of_nothing_says_so(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/flow.toml", '[[task]]\nname = "a"\ncommand = "touch a"\nout = ["a"]\n')
    harrow("run", "--run-dir", "r", "--stale", "flow.toml", code=0)
    result = harrow("run", "--run-dir", "r2", "--stale", "flow.toml", code=0)
    check("nothing is to be run" in result.err, result)
    check(not os.path.exists(f"{directory}/r2"), "a run directory of nothing")


def test_logs_of_a_silent_task_say_so(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/tasks.txt", "true\necho x\n#HARROW stdout=own.txt\necho y\n")
    harrow("run", "--run-dir", "r", "tasks.txt", code=0)
    same(harrow("logs", "--run-dir", "r", "1", code=0).err, "harrow: #1 wrote nothing\n")
    same(harrow("logs", "--run-dir", "r", "--stderr", "2", code=0).err, "harrow: #2 wrote nothing to stderr\n")
    same(harrow("logs", "--run-dir", "r", "3", code=0).err, "harrow: #3 writes its stdout to the file own.txt\n")


def test_nothing_survives_a_run(directory, program):
    """Children that fork twice or make a session of their own end with the run."""
    harrow = Harrow(program, directory)
    one, two, three = words = [run_support.long_sleep() for _ in range(3)]
    write(f"{directory}/tasks.txt", f"setsid sleep {one} & (sleep {two} & ) ; setsid sh -c 'sleep {three} & exit' ; true\n")
    harrow("run", "--run-dir", "r", "tasks.txt", code=0)
    for word in words:
        wait_for(lambda: not run_support.with_word(word))


def test_pretend_nodes(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/tasks.txt", "echo $HARROW_NODE >> nodes; until test $(sort -u nodes | wc -l) -eq 4; do sleep 0.05; done\n" * 40)
    harrow("run", "--run-dir", "r", "--slots", "2", "--local-nodes", "4", "tasks.txt", code=0)
    same(sorted(set(lines_of(f"{directory}/nodes"))), ["local0", "local1", "local2", "local3"])
    same(query(f"{directory}/r", "SELECT count(DISTINCT node) FROM attempts"), [(4,)])


def test_what_is_ready_together_runs_in_the_order_of_the_file(directory, program):
    harrow = Harrow(program, directory)
    one = ["--slots", "1", "--progress", "none"]
    harrow("run", *one, "-", stdin="".join(f"echo {i} >> lines\n" for i in range(1, 9)), code=0)
    same(lines_of(f"{directory}/lines"), [str(i) for i in range(1, 9)])
    flow = write(f"{directory}/flow.toml", """
[[task]]
name = "sim-{i}"
each = { i = "1-5" }
command = "echo {i} | tee sim-{i}.txt >> ran"
out = ["sim-{i}.txt"]
[[task]]
name = "all"
command = "echo all >> ran"
in = ["sim-*.txt"]
""")
    harrow("run", *one, flow, code=0)
    same(lines_of(f"{directory}/ran"), ["1", "2", "3", "4", "5", "all"])
    harrow("run", *one, "--order", "lifo+hrf", flow, code=0)
    same(lines_of(f"{directory}/ran")[6:], ["5", "4", "3", "2", "1", "all"])


def test_what_tasks_ask_for(directory, program):
    harrow = Harrow(program, directory)
    lines = """echo $OMP_NUM_THREADS
#HARROW cores=2 env.A=1
echo $OMP_NUM_THREADS $A
#HARROW env.B=2
echo $OMP_NUM_THREADS $A$B
#HARROW
echo $OMP_NUM_THREADS $A$B
#HARROW time=0
sleep 0.6; echo slept
"""

    def printed(*options):
        harrow("run", *options, "--progress", "none", "-", stdin=lines, code=0)
        return [line for line in harrow("logs", code=0).out.splitlines() if not line.startswith("==>")]

    same(printed("-j", "4"), ["1", "2 1", "1 2", "1", "slept"])
    same(printed("-j", "4", "--cores", "3", "--time", "500ms"), ["3", "2 1", "3 2", "3", "slept"])
    late = harrow("run", "--time", "300ms", "--memory", "1G", "-", stdin="sleep 60\n", code=1)
    check("timed out" in late.err, late)
    check("timed out (its time is 300 ms)" in harrow("explain", "1").out, harrow("explain", "1"))
    large = "python3 -c 'import time; text = bytearray(300 << 20); time.sleep(60)'\n"
    check("out of memory" in harrow("run", "--memory", "50M", "-", stdin=large, code=1).err)
    said = harrow("explain", "1").out
    # Of a process that had less than the agent (one under a sanitizer is large) the kernel tells no peak.
    seen = json.loads(harrow("report", "--json", code=0).out)["task_records"][0]["attempts"][0]
    peak = "" if "max_rss_below_kib" in seen else r"; its largest process had [0-9.]+ MiB"
    check(re.search(rf"out of memory \(its memory is 50.0 MiB{peak}\)", said), said)
    bad = harrow("run", "--memory", "2", "-", stdin="true\n", code=2)
    same(bad.err, "harrow: --memory cannot be 2 bytes; write 2M or 2G if MiB or GiB are meant\n")
    again = harrow("run", "--resume", "--cores", "2", code=2)
    check("--cores sets what tasks of a FILE ask for" in again.err, again)


def test_outputs_that_are_not_written(directory, program):
    harrow = Harrow(program, directory)

    def run(name, liar, more=""):
        write(f"{directory}/flow.toml", f"""
[[task]]
name = "liar"
command = "{liar}"
out = ["made/{name}/a.txt", "made/{name}/b.txt"]
{more}
[[task]]
name = "reader"
command = "cat made/{name}/a.txt"
in = ["made/{name}/a.txt"]
stdout = "said/{name}/out"
""")
        return harrow("run", "--run-dir", name, "--retries", "1", "flow.toml")

    failed = run("x", "echo no")
    check("liar (exited with 0, and did not write its output made/x/a.txt and 1 more" in failed.err, failed)
    check("done 0 of 2, failed 1, skipped 1" in failed.out, failed)
    same(query(f"{directory}/x", "SELECT task, outcome FROM attempts"), [("liar", "missing_output")] * 2)
    failed = run("y", "echo no", "missing_ok = true")
    check("reader (exit 1" in failed.err and "done 1 of 2, failed 1, skipped 0" in failed.out, failed)
    # Their directories are made.
    same(run("z", "echo a > made/z/a.txt; ln -s nowhere made/z/b.txt").code, 0)
    same(lines_of(f"{directory}/said/z/out"), ["a"])


def test_lists_made_for_others(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/Tasks", """#DISBATCH PREFIX echo before; 
#DISBATCH SUFFIX  &> log-$HARROW_TASK_ID
echo one
echo two
#DISBATCH BARRIER
cat log-1 log-2
""")
    harrow("run", "--progress", "none", "Tasks", code=0)
    same(lines_of(f"{directory}/log-3"), ["one", "two"])
    # What is below a barrier waits for ends, below one that checks for success.
    for check_word, left in (("", ["after"]), (" CHECK", [])):
        write(f"{directory}/Tasks", f"sleep 0.3; echo above >> said{check_word[1:]}; false\n#DISBATCH BARRIER{check_word}\n"
                                    f"echo after >> said{check_word[1:]}\n#DISBATCH BARRIER\ntrue\n")
        done = harrow("run", "--progress", "none", "--run-dir", f"b{check_word[1:]}", "Tasks", code=1)
        same(lines_of(f"{directory}/said{check_word[1:]}"), ["above"] + left)
        check(("done 2 of 3, failed 1, skipped 0" if left else "done 0 of 3, failed 1, skipped 2") in done.out, done)
    harrow("run", "--progress", "none", "-", stdin="touch first\n# a comment\n[# 1 #] test -e first\n[# -1 #][@ / @] test -e proc\n", code=0)
    refused = harrow("run", "-", stdin="cat > x <<END\nrm x\nEND\n", code=2)
    check("standard input:1:9: a here-document goes over several lines" in refused.err, refused)


def test_what_is_said_of_a_flow_can_be_used(directory, program):
    harrow = Harrow(program, directory)
    os.mkdir(f"{directory}/sub")
    write(f"{directory}/in.txt", "12345")
    flow = write(f"{directory}/flow.toml", r"""
[[task]]
name = "a"
command = '''
echo "$X" \
  it\'s > ../a.txt
printf '%s' "tab	" >> ../a.txt'''
cwd = "sub"
env = { X = "it's" }
in = ["in.txt"]
out = ["a.txt"]
[[task]]
name = "b"
command = ["sh", "-c", "exit 3", "two words"]
in = ["a.txt"]
[[task]]
name = "c d"
command = "true"
after = ["b"]
[[task]]
name = "last"
command = "true"
after = ["c d"]
""")
    lines = harrow("run", "--dry-run", flow, code=0).out.splitlines()
    same([line.split("\t")[0] for line in lines], ["a", "b", "c d", "last"])
    pasted = [subprocess.run(["bash", "-c", line.split("\t", 1)[1]], cwd=directory, capture_output=True, text=True, timeout=60) for line in lines]
    same([(done.returncode, done.stderr) for done in pasted], [(0, ""), (3, ""), (0, ""), (0, "")], *lines)
    with open(f"{directory}/a.txt", encoding="utf-8") as f:
        by_hand = f.read()
    os.remove(f"{directory}/a.txt")
    checked = harrow("check", flow, code=0).out
    check("2   1 input, 1 made by tasks\n" in checked, checked)
    harrow("run", "--run-dir", "r", flow, code=1)
    with open(f"{directory}/a.txt", encoding="utf-8") as f:
        same(f.read(), by_hand)
    said = harrow("explain", "--run-dir", "r", "last", code=0).out
    check("skipped: it needs b, which failed\n" in said, said)
    unknown = harrow("help", "flwo", code=2)
    check("no command 'flwo'; did you mean 'flow'?" in unknown.err, unknown)


def test_the_only_run_here_is_found_whatever_it_is_called(directory, program):
    harrow = Harrow(program, directory)
    harrow("run", "--run-dir", "mine", "-", stdin="echo mine\n", code=0)
    check("mine" in harrow("logs", code=0).out)
    harrow("run", "--run-dir", "yours", "-", stdin="true\ntrue\n", code=0)
    check("there are several runs here (mine, yours); name one with --run-dir D" in harrow("status", code=2).err)
    check("1 of 1" in harrow("status", "mine", code=0).out)
    check("2 of 2" in harrow("status", "yours", code=0).out)
    check("2" in harrow("report", "yours", code=0).out)


def test_orders_and_input_forms(directory, program):
    harrow = Harrow(program, directory)
    for number, order in enumerate(("auto", "fifo", "lifo", "hrf", "lifo+hrf", "rank+hrf")):
        harrow("run", "--run-dir", f"r{number}", "--order", order, "-", stdin="true\ntrue\n", code=0)
    harrow("run", "--run-dir", "r9", "--lines", write(f"{directory}/odd.sh", "true\n"), code=0)
    bad = harrow("run", "--run-dir", "r10", "--order", "fastest", "-", stdin="true\n", code=2)
    check("fifo" in bad.err and not os.path.exists(f"{directory}/r10"), bad)


def test_target_stale_and_dry_run(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/in.txt", "1\n")
    flow = write(f"{directory}/flow.toml", """
[[task]]
name = "one"
command = "cat in.txt > one.txt; echo one >> ran"
in = ["in.txt"]
out = ["one.txt"]
[[task]]
name = "two"
command = "cat one.txt > two.txt; echo two >> ran"
in = ["one.txt"]
out = ["two.txt"]
[[task]]
name = "other"
command = "touch other.txt; echo other >> ran"
out = ["other.txt"]
""")
    dry = harrow("run", "--dry-run", "--target", "two", flow, code=0)
    same([line.split("\t")[0] for line in dry.out.splitlines()], ["one", "two"])
    check(not glob.glob(f"{directory}/harrow-*"), "a dry run made a run directory")
    result = harrow("run", "--run-dir", "r1", "--target", "two", flow, code=0)
    check("done 2 of 2" in result.out, result)
    same(lines_of(f"{directory}/ran"), ["one", "two"])
    harrow("run", "--run-dir", "r2", "--stale", flow, code=0)
    same(lines_of(f"{directory}/ran"), ["one", "two", "other"])
    later = time.time() + 5
    os.utime(f"{directory}/in.txt", (later, later))
    harrow("run", "--run-dir", "r3", "--stale", flow, code=0)
    same(lines_of(f"{directory}/ran"), ["one", "two", "other", "one", "two"])
    unknown = harrow("run", "--target", "tow", flow, code=2)
    check("two" in unknown.err and len(unknown.err.splitlines()) == 1, unknown)


def test_bad_places(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/tasks.txt", "true\n")
    write(f"{directory}/file", "")
    for place in ("file/r", "/proc/harrow-run"):
        result = harrow("run", "--run-dir", place, "tasks.txt")
        check(result.code in (2, 3) and len(result.err.splitlines()) == 1, result)
    result = harrow("run", "--resume", "--run-dir", "nowhere", code=2)
    same(len(result.err.splitlines()), 1, result)
    # The same line of a job's script begins a run, and goes on with it.
    for said in ("there is no run in fresh yet: it begins now", "1 of 1 tasks are done and stay so"):
        result = harrow("run", "--progress", "none", "--resume", "--run-dir", "fresh", "tasks.txt", code=0)
        check(said in result.err and "done 1 of 1" in result.out, result)
    result = harrow("run", code=2)
    check("no flow file" in result.err, result)
    result = harrow("run", "--reusme", "tasks.txt", code=2)
    check("--resume" in result.err, result)
    result = harrow("rnu", code=2)
    check("'run'" in result.err, result)


def test_a_read_only_directory(directory, program):
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
        raise Skipped("a file system of its own", "mounting")
    harrow = Harrow(program, directory)
    write(f"{directory}/tasks.txt", "true\n")
    os.mkdir(f"{directory}/ro")
    done = subprocess.run(["unshare", "-m", "sh", "-c", f"mount -t tmpfs -o ro none {directory}/ro && exec {harrow.program} run --run-dir ro/r tasks.txt"],
                          cwd=directory, env=harrow.env, text=True, capture_output=True, timeout=300)
    check(done.returncode == 3 and len(done.stderr.splitlines()) == 1 and "ead-only" in done.stderr, done)


def test_a_full_disk(directory, program):
    """The run directory's disk fills up while tasks run: one line, exit 3, and --resume goes on without repeating what is recorded."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
        raise Skipped("a file system of its own", "mounting")
    harrow = Harrow(program, directory)
    write(f"{directory}/tasks.txt", "".join(f"echo {i} >> {directory}/witness\n" for i in range(5000)))
    os.mkdir(f"{directory}/small")
    script = f"""mount -t tmpfs -o size=700k none small
{harrow.program} run --progress none --run-dir small/r tasks.txt >first.out 2>first.err; echo $? >first.code
{harrow.program} status --run-dir small/r >status.out
cp -r small/r copy
mount -o remount,size=200m small
{harrow.program} run --progress none --resume --run-dir small/r >second.out 2>second.err; echo $? >second.code
cp {in_part('small/r', 'journal.db')} done.db
"""
    subprocess.run(["unshare", "-m", "sh", "-c", script], cwd=directory, env=harrow.env, timeout=900, check=True)
    same(lines_of(f"{directory}/first.code"), ["3"], open(f"{directory}/first.err").read())
    check("full" in open(f"{directory}/first.err").read() or "space" in open(f"{directory}/first.err").read(),
          open(f"{directory}/first.err").read())
    same(lines_of(f"{directory}/first.out")[-1], lines_of(f"{directory}/status.out")[-1], "run and status tell the same")
    same(lines_of(f"{directory}/second.code"), ["0"], open(f"{directory}/second.err").read())
    recorded = int(lines_of(f"{directory}/second.err")[0].split()[1])
    check(recorded > 0, "nothing was recorded before the disk was full")
    done = [str(i) for (i,) in query(f"{directory}/copy", "SELECT id FROM tasks WHERE state = 'done'")]
    same(len(done), recorded, "what is told is what was recorded")
    times = collections.Counter(lines_of(f"{directory}/witness"))
    same(sorted(times, key=int), [str(i) for i in range(5000)])
    same([i for i in done if times[i] != 1], [], "tasks that were recorded as done ran again")


def test_a_disk_that_is_full_of_output_is_told_and_waited_for(directory, program):
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
        raise Skipped("a file system of its own", "mounting")
    harrow = Harrow(program, directory)
    write(f"{directory}/tasks.txt", "head -c 3000000 /dev/zero; echo x >> ran\n" * 10)
    os.makedirs(in_part(f"{directory}/r", "output"))  # the journal has room
    script = f"""mount -t tmpfs -o size=10m,mode=755 none {in_part('r', 'output')}
{harrow.program} run --progress none --run-dir r tasks.txt >out 2>err & pid=$!
tries=0; until grep -qs "cannot be written" err || ! kill -0 $pid || test $((tries+=1)) -gt 6000; do sleep 0.01; done
mount -o remount,size=100m {in_part('r', 'output')}
wait $pid; echo $? >code
{harrow.program} logs --list --run-dir r >list
"""
    subprocess.run(["unshare", "-m", "sh", "-c", script], cwd=directory, env=harrow.env, timeout=900, check=True)
    same(lines_of(f"{directory}/code"), ["0"], lines_of(f"{directory}/err"))
    said = open(f"{directory}/err").read()
    check("output of tasks cannot be written" in said and "space" in said, said)
    same(len(lines_of(f"{directory}/ran")), 10)
    same([line.split()[5] for line in lines_of(f"{directory}/list")[1:]], ["3000000"] * 10)


def test_a_damaged_journal(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/tasks.txt", "echo $HARROW_TASK_ID >> ran; test -e go\n" * 30)
    harrow("run", "--run-dir", "r", "tasks.txt", code=1)
    data = bytearray(open(in_part(f"{directory}/r", "journal.db"), "rb").read())
    data[data.rindex(b"#15")] ^= 0x10
    open(in_part(f"{directory}/r", "journal.db"), "wb").write(data)
    before = lines_of(f"{directory}/ran")
    result = harrow("run", "--resume", "--run-dir", "r", code=3)
    same(len(result.err.splitlines()), 1, result)
    same(lines_of(f"{directory}/ran"), before, "something ran")
    same(open(in_part(f"{directory}/r", "journal.db"), "rb").read(), bytes(data), "the journal was changed")


def test_many_kinds_of_ends(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/flow.toml", """
[[task]]
name = "signal"
command = "kill -SEGV $$"
[[task]]
name = "late"
command = "sleep 60"
time = "1s"
[[task]]
name = "missing"
command = "no-such-program-anywhere"
[[task]]
name = "wide"
command = "true"
cores = 4000
""")
    result = harrow("run", "--run-dir", "r", "flow.toml", code=1)
    same(dict(query(f"{directory}/r", "SELECT task, outcome FROM attempts")),
         {"signal": "signaled", "late": "timed_out", "missing": "not_started", "wide": "not_started"})
    for words in ("no-such-program-anywhere", "4000 cores", "signal 11"):
        check(words in result.err, words, "is not told", result)


def test_runs_of_one_second_get_directories_of_their_own(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/tasks.txt", "true\n")
    runs = [subprocess.Popen([harrow.program, "run", "tasks.txt"], cwd=directory, env=harrow.env,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(6)]
    for run in runs:
        out, err = run.communicate(timeout=300)
        same(run.returncode, 0, out, err)
    same(len(glob.glob(in_part(f"{directory}/harrow-*", "journal.db"))), 6)


def test_pinning_can_be_switched_off(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/tasks.txt", "grep Cpus_allowed_list /proc/self/status\n")
    allowed = os.sched_getaffinity(0)
    if len(allowed) < 2:
        raise Skipped("one core: pinned or not is the same", "two CPUs")
    seen = {}
    for pin in ("true", "false"):
        with_pin = Harrow(program, directory, {"HARROW_PIN": pin})
        with_pin("run", "--run-dir", pin, "tasks.txt", code=0)
        seen[pin] = harrow("logs", "--run-dir", pin, "#1", code=0).out.split(":")[1].strip()
    cpus = {pin: {cpu for part in text.split(",") for cpu in range(int(part.split("-")[0]), int(part.split("-")[-1]) + 1)}
            for pin, text in seen.items()}
    same(cpus["false"], allowed, "free to use all")
    if "not pinned" not in harrow("doctor").out:  # where a control group limits the time, nothing is
        check(cpus["true"] < allowed, "pinned to one core", seen)
    same(query(f"{directory}/false", "SELECT cores FROM attempt"), [("",)])


def test_logs_names_the_file_a_stream_goes_to(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/flow.toml", '[[task]]\nname = "quiet"\ncommand = "echo hidden"\nstdout = "out-%j.txt"\n')
    harrow("run", "--run-dir", "r", "flow.toml", code=0)
    logs = harrow("logs", "--run-dir", "r", "quiet", code=0)
    check("out-%j.txt" in logs.err and "hidden" not in logs.out, logs)
    same(len(glob.glob(f"{directory}/out-*.txt")), 1)


def test_an_interrupted_run_knows_how_many_tasks_it_has(directory, program):
    """Its journal has not got all tasks' names yet."""
    harrow = Harrow(program, directory)
    write(f"{directory}/tasks.txt", "sleep 600\n" * 200000)
    run = subprocess.Popen([harrow.program, "run", "--run-dir", "r", "tasks.txt"], cwd=directory, env=harrow.env,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: os.path.exists(in_part(f"{directory}/r", "journal.db")))
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=300)
    same(run.returncode, 130, out, err)
    check("of 200000" in out or "200000 tasks open" in err, out, err)
    check("of 200000" in harrow("status", "--run-dir", "r").out, harrow("status", "--run-dir", "r"))


def test_a_limit_of_threads_is_told_in_a_sentence(directory, program):
    if os.geteuid() != 0:
        raise Skipped("becomes a user whom the limit of processes holds", "root")
    shutil.copy(program, f"{directory}/harrow")
    os.chmod(directory, 0o777)
    harrow = Harrow(f"{directory}/harrow", directory)
    write(f"{directory}/tasks.txt", "true\n")
    # The keeper, the server or an agent has too few; the kernel takes its time to count those that have ended, so which of them is
    # not certain.
    for most in (1, 3, 4, 6, 30):
        done = subprocess.run([harrow.program, "run", "--run-dir", f"r{most}", "--slots", "64", "tasks.txt"], cwd=directory, env=harrow.env,
                              user=54321, group=54321, extra_groups=[], timeout=300, text=True, capture_output=True,
                              preexec_fn=lambda n=most: resource.setrlimit(resource.RLIMIT_NPROC, (n, n)))
        same(done.returncode, 3, done.stderr)
        check(re.search("harrow: no more (threads|processes) can be started", done.stderr) and "ulimit -u" in done.stderr, done.stderr)
        check("terminate called" not in done.stderr and "no journal" not in done.stderr, done.stderr)
    # One whose server never came goes on, too.
    done = subprocess.run([harrow.program, "run", "--resume", "--run-dir", "r1", "tasks.txt"], cwd=directory, env=harrow.env, user=54321,
                          group=54321, extra_groups=[], timeout=300, text=True, capture_output=True)
    same(done.returncode, 0, done.stderr)


def test_an_agent_that_somebody_ends_is_replaced(directory, program):
    """By a SIGTERM that was not the run's: its tasks are started again, in a new agent."""
    harrow = Harrow(program, directory)
    write(f"{directory}/tasks.txt", "echo x >> tries; until test $(wc -l < tries) -ge 2; do sleep 0.05; done; echo done > out\n")
    run = harrow.start("run", "--run-dir", "r", "--retries", "0", "tasks.txt")
    wait_for(lambda: os.path.exists(f"{directory}/tries"))
    for pid in of_run(f"{directory}/r", "inner"):
        kill(pid, signal.SIGTERM)
    same(run.wait(180), 0)
    same(lines_of(f"{directory}/out"), ["done"])
    same(query(f"{directory}/r", "SELECT attempt, outcome FROM attempts"), [(1, "interrupted"), (2, "exited")])


def test_a_node_that_fails_every_task_is_put_aside(directory, program):
    """As with a broken mount: by name, before it has had many tasks, and the run succeeds."""
    harrow = Harrow(program, directory)
    write(f"{directory}/name.txt", "echo $HARROW_NODE > name\n")
    harrow("run", "--run-dir", "n", "--local-nodes", "2", "name.txt", code=0)
    bad = lines_of(f"{directory}/name")[0]
    for retries in (0, 2):
        write(f"{directory}/flow.toml", f"""
[flow]
bad_node_failures = 5
retries = {retries}
[[task]]
name = "t-{{i}}"
each = {{ i = "1-40" }}
command = "test $HARROW_NODE != {bad} && sleep 0.2"
""")
        result = harrow("run", "--run-dir", f"r{retries}", "--local-nodes", "2", "--slots", "2", "flow.toml", code=0)
        check(f"node {bad} is put aside: " in result.err and "done 40 of 40" in result.out, result)
        failed = query(f"{directory}/r{retries}", "SELECT count(*) FROM attempts WHERE code <> 0")[0][0]
        check(5 <= failed <= 5 + 2 + 2, f"{failed} attempts failed there: more than so many, its slots, and one after each of two pauses")


def main():
    program = sys.argv[1]
    run_support.tests_of(sys.modules[__name__], program)


run_support.tell(main)
