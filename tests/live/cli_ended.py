#!/usr/bin/env python3
"""status, logs, report, explain and cancel on runs that are over, with failures of every sort.

usage: cli_ended.py HARROW"""
import contextlib
import csv
import io
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import xml.dom.minidom

from run_support import Harrow, check, in_part, same, tests_of, tell, write

FLOW = """[[task]]
name = "good-{i}"
each = { i = "1-3" }
command = "sh -c 'echo out {i}; echo err {i} >&2'"
kind = "good"
[[task]]
name = "talks-and-fails"
command = "for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo line $i >&2; done; echo partial; exit 3"
out = ["never"]
[[task]]
name = "needs-it"
command = "cat never"
in = ["never"]
[[task]]
name = "killed"
command = "kill -SEGV $$"
[[task]]
name = "absent"
command = "no-such-program-here x"
[[task]]
name = "second-try"
command = "echo try $HARROW_ATTEMPT; test $HARROW_ATTEMPT = 2"
retries = 1
"""


def prepared(directory, program):
    harrow = Harrow(program, directory)
    write(os.path.join(directory, "flow.toml"), FLOW)
    return harrow, harrow("run", "flow.toml", "--run-dir", "harrow-a", code=1)


def test_end_of_run(directory, program):
    _, run = prepared(directory, program)
    for text in ("failed: talks-and-fails (exit 3", "  | line 12\n", "failed: killed (signal 11 (SIGSEGV)",
                 "failed: absent (not started: ", "  | ...\n"):
        check(text in run.err, "no", repr(text), "in", run)
    check("  | line 2\n" not in run.err, "more than ten lines of stderr")
    check(run.out.startswith("done 4 of 8, failed 3, skipped 1; "), run)
    same(run.out.count("\n"), 1)


def test_status(directory, program):
    harrow, _ = prepared(directory, program)
    text = harrow("status", code=0).out
    check(text.startswith("run harrow-a: ended\ndone 4 of 8, failed 3, skipped 1; "), text)
    text = harrow("status", "--failed", "--nodes", code=0).out
    for part in ("failed: talks-and-fails (exit 3", "failed: killed", "failed: absent", "node  slots  running  ended  state"):
        check(part in text, part, "not in", text)
    document = json.loads(harrow("status", "--json", code=0).out)
    same(document["version"], 1)
    same(document["tasks"], {"total": 8, "done": 4, "failed": 3, "skipped": 1, "cancelled": 0, "pruned": 0, "running": 0})
    same(document["state"], "ended")
    same(document["attempts"], 8)
    same(document["input_bytes"], {"local": 0, "remote": 0, "home": 0})
    same([document[key] for key in ("bytes_moved", "shared_read_bytes", "written_back_bytes")], [0, 0, 0])
    check(0 < document["core_utilisation"] <= 1 and document["makespan_s"] > 0, document)
    check("nodes" not in document and "failed" not in document, document)
    document = json.loads(harrow("status", "--json", "--nodes", "--failed", code=0).out)
    same(sorted(f["task"] for f in document["failed"]), ["absent", "killed", "talks-and-fails"])
    same([f["stderr_tail"].splitlines()[-1] for f in document["failed"] if f["task"] == "talks-and-fails"], ["line 12"])
    same(sum(n["ended"] for n in document["nodes"]), 8)
    same(harrow("status", "--watch").code, 1, "as the run ended")


def test_logs(directory, program):
    harrow, _ = prepared(directory, program)
    one = harrow("logs", "good-2", code=0)
    same((one.out, one.err), ("out 2\n", "err 2\n"))
    same(harrow("logs", "#2", code=0).out, "out 2\n")
    same(harrow("logs", "2", "--stderr", code=0).out, "")
    same(harrow("logs", "second-try", code=0).out, "try 2\n", "the last attempt's")
    two = harrow("logs", "good-3", "good-1", "--stdout", code=0)
    same((two.out, two.err), ("==> good-3 (exit 0) <==\nout 3\n==> good-1 (exit 0) <==\nout 1\n", ""))
    same(harrow("logs", "-q", "--stdout", "good-3", "good-1", code=0).out, "out 3\nout 1\n")
    same(harrow("logs", "--prefix", "--stdout", "good-3", "good-1", code=0).out, "good-3: out 3\ngood-1: out 1\n")
    failed = harrow("logs", "--failed", "--tail", "2", code=0)
    same([line for line in failed.out.splitlines() if not line.startswith("  $ for i in 1 2 ")],
         ["==> talks-and-fails (exit 3) <==", "partial", "==> killed (signal 11 (SIGSEGV)) <==", "  $ kill -SEGV $$",
          "==> absent (not started: no-such-program-here: command not found) <==", "  $ no-such-program-here x"], "also who wrote nothing")
    same(harrow("logs", "--failed", "-q", "--stdout", code=0).out, "partial\n")
    same(failed.err, "line 11\nline 12\n")
    same(harrow("logs", "--tail", "0", "good-1", code=0).out, "")
    listed = harrow("logs", "--list", code=0).out.splitlines()
    same(listed[0].split(), ["task", "attempt", "node", "ended", "stdout", "stderr"])
    same(len(listed), 1 + 5)
    unknown = harrow("logs", "goood-2", code=2)
    same((unknown.out, unknown.err), ("", "harrow: no task 'goood-2' in this run; did you mean 'good-2'?\n"))
    same(harrow("logs", "--stdout", "--stderr").code, 2)
    same(harrow("logs", "-f", "--failed").code, 2)
    same(harrow("logs", "-f", "good-2", code=0).out, "out 2\n", "of a run that is over: as without -f")


def test_report(directory, program):
    harrow, _ = prepared(directory, program)
    overview = harrow("report", code=0).out
    check(overview.startswith("done 4 of 8"), overview)
    check(any(line.split()[:4] == ["good", "3", "3", "0"] for line in overview.splitlines()), overview)
    journal = overview.splitlines()[-1].removeprefix("journal: ")
    with contextlib.closing(sqlite3.connect(os.path.join(directory, journal))) as db:
        same(db.execute("SELECT count(*) FROM tasks").fetchone(), (8,), "where the journal lies is told")
    rows = list(csv.DictReader(io.StringIO(harrow("report", "--csv", code=0).out)))
    same([r["task"] for r in rows], ["good-1", "good-2", "good-3", "talks-and-fails", "needs-it", "killed", "absent", "second-try"])
    of = {r["task"]: r for r in rows}
    same([of["good-1"][k] for k in ("kind", "state", "how", "exit_code", "signal", "stdout_bytes", "stderr_bytes")],
         ["good", "done", "exited", "0", "", "6", "6"])
    same([of["killed"][k] for k in ("state", "how", "exit_code", "signal")], ["failed", "signaled", "", "11"])
    same([of["needs-it"][k] for k in ("state", "because", "attempts", "node")], ["skipped", "talks-and-fails", "0", ""])
    same([of["second-try"][k] for k in ("state", "attempts", "attempt")], ["done", "2", "2"])
    same([of["absent"][k] for k in ("state", "how", "exit_code")], ["failed", "not_started", ""])
    check(float(of["good-1"]["run_time_s"]) > 0, of["good-1"])
    check(of["good-1"]["start"] < of["good-1"]["end"], of["good-1"])
    attempts = list(csv.DictReader(io.StringIO(harrow("report", "--csv", "--attempts", code=0).out)))
    same([r["attempt"] for r in attempts if r["task"] == "second-try"], ["1", "2"])
    document = json.loads(harrow("report", "--json", code=0).out)
    same(document["tasks"]["failed"], 3)
    same(len(document["task_records"]), 8)
    same([len(t["attempts"]) for t in document["task_records"]], [1, 1, 1, 1, 0, 1, 1, 2])
    same([k["kind"] for k in document["kinds"]][0], "good")
    same([r["task"] for r in csv.DictReader(io.StringIO(harrow("report", "--csv", "--failed", code=0).out))],
         ["talks-and-fails", "killed", "absent"])
    same([r["task"] for r in csv.DictReader(io.StringIO(harrow("report", "--csv", "--kind", "good", code=0).out))],
         ["good-1", "good-2", "good-3"])
    check("did you mean 'good'?" in harrow("report", "--kind", "goood", code=2).err)
    check("no node 'n'" in harrow("report", "--node", "n", code=2).err)
    same(harrow("report", "--csv", "--json").code, 2)
    harrow("report", "--plot", "run.svg", code=0)
    picture = xml.dom.minidom.parse(os.path.join(directory, "run.svg"))
    check(len(picture.getElementsByTagName("polygon")) >= 4)
    check(harrow("report", "--plot", "absent/run.svg").code != 0)


def test_explain_and_cancel(directory, program):
    harrow, _ = prepared(directory, program)
    text = harrow("explain", "second-try", code=0).out
    check("second-try" in text and "attempt 1 on" in text and "exit 1" in text and "attempt 2 on" in text, text)
    check("  command (flow.toml:" in text, text)
    check("it needs talks-and-fails" in harrow("explain", "needs-it", code=0).out)
    check("did you mean" in harrow("explain", "need-it", code=2).err)
    same(harrow("explain").code, 2)
    over = harrow("cancel", "good-1", code=2)
    same(over.err, "harrow: the run in harrow-a is over: nothing is left to cancel\n")
    same(harrow("cancel").code, 2)
    same(harrow("cancel", "--all", "good-1").code, 2)


def test_which_run(directory, program):
    harrow, _ = prepared(directory, program)
    write(os.path.join(directory, "one.txt"), "echo other\n")
    harrow("run", "one.txt", "--run-dir", "harrow-b", code=0)
    same(harrow("logs", code=0).out, "other\n", "the newest")
    same(harrow("logs", "--run-dir", "harrow-a", "good-1", code=0).out, "out 1\n")
    harrow.env["HARROW_RUN_DIR"] = "harrow-a"
    same(harrow("logs", "good-1", code=0).out, "out 1\n")
    harrow.env["HARROW_RUN_DIR"] = directory
    same(harrow("logs", code=0).out, "other\n")
    del harrow.env["HARROW_RUN_DIR"]
    same(harrow("status", cwd=os.path.join(directory, "harrow-a"), code=0).out.splitlines()[0], "run .: ended")
    same(harrow("status", cwd=in_part(os.path.join(directory, "harrow-a")), code=0).out.splitlines()[0], "run ..: ended", "a part is the run's")
    same(harrow("logs", "--run-dir", in_part("harrow-a"), "good-1", code=0).out, "out 1\n")
    for command in ("status", "logs", "report"):
        missing = harrow(command, "--run-dir", "nowhere", code=2)
        same(missing.err, "harrow: no run in nowhere (--run-dir); a run directory holds the files flow and 0/journal.db\n")
    os.mkdir(os.path.join(directory, "empty"))
    nothing = harrow("status", cwd=os.path.join(directory, "empty"), code=2)
    check(nothing.err.startswith("harrow: no run here"), nothing)


def test_damage(directory, program):
    harrow, _ = prepared(directory, program)
    shutil.copytree(os.path.join(directory, "harrow-a"), os.path.join(directory, "cut"))
    os.truncate(in_part(os.path.join(directory, "cut"), "journal.db"), 5000)
    for command in (["status"], ["report"], ["logs"], ["explain", "good-1"]):
        result = harrow(*command, "--run-dir", "cut", code=3)
        check(in_part("cut", "journal.db") in result.err and result.err.count("\n") == 1, command, result)
        same(result.out, "")
    # Of damaged output, what is undamaged is printed.
    output = in_part(os.path.join(directory, "harrow-a"), "output")
    name = os.path.join(output, [n for n in os.listdir(output) if n.endswith(".out")][0])
    data = bytearray(open(name, "rb").read())
    at = data.index(b"out 2\n")
    data[at] ^= 0xFF
    with open(name, "wb") as f:
        f.write(data)
    result = harrow("logs", "-q", "--stdout", "good-1", "good-2", "good-3")
    same((result.code, result.out), (3, "out 1\nout 3\n"))
    check("damaged" in result.err, result)


def test_output_that_cannot_be_written(directory, program):
    harrow, _ = prepared(directory, program)
    if not os.path.exists("/dev/full"):
        return
    for command in (["status"], ["report", "--csv"], ["logs", "good-1"], ["explain", "good-1"]):
        code = os.system(f"cd {directory} && HARROW_CONF= {harrow.program} {' '.join(command)} > /dev/full 2> err.txt")
        same(os.waitstatus_to_exitcode(code), 3, command)
        check("No space left" in open(os.path.join(directory, "err.txt"), encoding="utf-8").read(), command)


def test_what_a_command_says_is_written_or_its_exit_status_tells(directory, program):
    if not os.path.exists("/dev/full"):
        return
    harrow = Harrow(program, directory)
    program = harrow.program
    write(f"{directory}/good.txt", "true\n")
    write(f"{directory}/bad.txt", "false\n")
    commands = ["--help", "--version", "help", "run --help", "run --dry-run good.txt", "run good.txt", "run --json good.txt", "run bad.txt",
                "check good.txt", "check --json good.txt", "sim --run-time 1s good.txt", "sim --run-time 1s --compare good.txt", "doctor", "doctor --json"]
    for command in commands:
        done = subprocess.run(f"{program} {command} > /dev/full", shell=True, cwd=directory, env=harrow.env, stderr=subprocess.PIPE, text=True)
        said = done.stderr.count("harrow: cannot write the output: No space left on device")
        same((done.returncode, said), (3, 1), command, done.stderr)
    # What was wrong with the input goes first; nobody who reads on is no failure.
    done = subprocess.run(f"{program} run nothing.txt > /dev/full", shell=True, cwd=directory, env=harrow.env, stderr=subprocess.PIPE, text=True)
    same((done.returncode, "cannot write" in done.stderr), (2, False))
    with subprocess.Popen(["bash", "-c", f"exec 3> >(:); wait $!; {program} run good.txt >&3"], cwd=directory, env=harrow.env,
                          stderr=subprocess.PIPE, text=True) as nobody:
        said = nobody.communicate()[1]
        same((nobody.returncode, "cannot write" in said), (0, False), said)


def test_doctor(directory, program):
    harrow, _ = prepared(directory, program)
    result = harrow("doctor", "--run-dir", "harrow-a")
    check(result.code in (0, 1), result)
    lines = [line for line in result.out.splitlines() if not line.startswith(" ")]
    for line in lines:
        check(line.split()[0] in ("ok", "warning", "bad"), line)
    same(result.code, int(any(line.startswith("bad") for line in lines)), result)
    for word in ("cores", "memory", "fsync", "rename", "append", "clock", "network", "keys", "journal", "storage", "settings"):
        check(any(line.split()[1] == word for line in lines), word, "was not checked:", result)
    names = {c["name"] for c in json.loads(harrow("doctor", "--json").out)["checks"]}
    check({"cores", "network", "directory"} <= names, names)
    same([n for n in os.listdir(directory) if "doctor" in n], [], "left behind")
    write(harrow.env["HARROW_CONF"], "\nretries = 3\n")
    harrow.env["HARROW_SEED"] = "7"
    lines = [line.split() for line in harrow("doctor", "--config", code=0).out.splitlines()]
    check(["retries", "3", harrow.env["HARROW_CONF"] + ":2:11"] in lines and ["seed", "7", "HARROW_SEED"] in lines and
          ["order", "auto", "default"] in lines, lines)
    told = {s["key"]: (s["value"], s["from"]) for s in json.loads(harrow("doctor", "--config", "--json", code=0).out)["settings"]}
    same({line[0]: (line[1].replace("-", ""), line[-1]) for line in lines if line[0] in ("retries", "seed", "order", "name")},
         {key: told[key] for key in ("retries", "seed", "order", "name")})
    same(len(told), len(lines))
    harrow.env.update(HARROW_RETIRES="1", HARROW_LOCAL="/tmp", HARROW_RUN="r", HARROW_NODE="n", HARROW_OF_THE_SITES="1")
    same(harrow("doctor", "--config", code=0).err, "harrow: warning: HARROW_RETIRES sets nothing; did you mean HARROW_RETRIES?\n")
    for name in ("RETIRES", "LOCAL", "RUN", "NODE", "OF_THE_SITES"):
        del harrow.env[f"HARROW_{name}"]
    write(harrow.env["HARROW_CONF"], "ordr = fifo\n")
    bad = harrow("doctor", code=1)
    check("did you mean order?" in bad.out, bad)
    bad = harrow("doctor", "--config", code=2)
    check("harrow.conf:1:1: unknown setting ordr; did you mean order?" in bad.err, bad)


if __name__ == "__main__":
    tell(lambda: tests_of(sys.modules[__name__], sys.argv[1]))
