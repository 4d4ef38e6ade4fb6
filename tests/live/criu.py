#!/usr/bin/env python3
"""Tasks that CRIU dumps and restores: real processes with a real CRIU where there is one (test_real_*), and the way there with one that
only speaks as CRIU does. Every result equals that of an undisturbed run.

usage: criu.py HARROW FAKE_CRIU [test_...]"""
import glob
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys

import run_support
from run_support import Harrow, Skipped, check, kill, lines_of, of_run, query, same, wait_for, write

LONG = bool(os.environ.get("HARROW_LONG"))
MOVES = 50 if LONG else 4
STEPS, FIELDS = (10000, 6000) if LONG else (2000, 1200)  # so many that none is over before its moves are
FAKE = os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else ""
NOBODY = 65534
PYTHON = "/usr/bin/python3"  # has the package numpy; and no script, which would be dumped, looks for it first

# Counts in memory, and writes each step to a file that it has open all the time.
COUNTER = """import os, sys, time
steps, out, pause = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])
value = 0
with open(out + ".steps", "w") as log:
    for step in range(1, steps + 1):
        time.sleep(pause)
        value = (value * 31 + step) % 1000003
        print(step, value, file=log, flush=True)
        if os.path.exists("finish"):
            pause = 0
with open(out, "w") as f:
    f.write(f"{value}\\n")
"""
# The same with its state in a file, for one that is not really restored.
STATEFUL = """import os, sys, time
steps, out = int(sys.argv[1]), sys.argv[2]
begin = value = 0
if os.path.exists(out + ".state"):
    begin, value = map(int, open(out + ".state").read().split())
open(out + ".begins", "a").write(f"{begin}\\n")
for step in range(begin + 1, steps + 1):
    time.sleep(0 if os.path.exists("finish") else 0.02)
    value = (value * 31 + step) % 1000003
    open(out + ".tmp", "w").write(f"{step} {value}")
    os.rename(out + ".tmp", out + ".state")
open(out, "w").write(f"{value}\\n")
"""
FIELD = """import time, os, sys
import numpy
field = numpy.linspace(0, 1, 200_000)
noise = numpy.random.default_rng(7)
for step in range(int(sys.argv[1])):
    field = numpy.sin(field * 1.7 + noise.random(field.size) * 1e-3) + field * 0.25
    if not os.path.exists("finish"):
        time.sleep(0.05)
open(sys.argv[2], "w").write(f"{field.sum():.17g} {field[1234]:.17g}\\n")
"""


def steps_of(steps):
    value, lines = 0, []
    for step in range(1, steps + 1):
        value = (value * 31 + step) % 1000003
        lines.append(f"{step} {value}")
    return lines


def real_criu():
    program = os.environ.get("HARROW_CRIU") or shutil.which("criu") or shutil.which("/usr/local/sbin/criu")
    said = program and subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    version = re.search(r"Version: (\d+)", said or "")
    if not version or int(version[1]) < 4:
        raise Skipped("no CRIU of version 4 or later", "criu-4")
    return program


def task(name, command, more=""):
    return f'[[task]]\nname = "{name}"\ncommand = {json.dumps(command)}\ncheckpoint = "criu"\n{more}\n'


def ended(harrow, name):
    """What became of its attempts so far, as `harrow explain` tells it: a line each."""
    said = harrow("explain", "--run-dir", "r", name).out
    return [line for line in said.split("\n") if re.match(r" +attempt \d+ on ", line)]


def outcomes(path, name):
    """When the run is over."""
    return [outcome for (outcome,) in query(path, f"SELECT outcome FROM attempts WHERE task = '{name}' ORDER BY id")]


def nodes_of(harrow):
    nodes = wait_for(lambda: json.loads(harrow("status", "--nodes", "--json", "--run-dir", "r").out or "{}").get("nodes"))
    return [node["name"] for node in nodes]


def move_once(harrow, name, nodes):
    """To the node where it is not."""
    wait_for(lambda: any(harrow("move", "--run-dir", "r", name, "--to", node).code == 0 for node in nodes))


def move_about(harrow, names, moves):
    nodes = nodes_of(harrow)
    same(len(nodes), 2)
    for _ in range(moves):
        for name in names:
            before = len(ended(harrow, name))
            move_once(harrow, name, nodes)
            wait_for(lambda: len(ended(harrow, name)) > before)


def check_real(directory, program, names, flow, moves):
    """Runs a flow whose tasks look for the file `finish`, and moves them about before it is there."""
    write(f"{directory}/flow.toml", flow)
    harrow = Harrow(program, directory)
    run = harrow.start("run", "flow.toml", "--run-dir", "r", "--slots", str(len(names)), "--local-nodes", "2", "--criu", real_criu())
    move_about(harrow, names, moves)
    write(f"{directory}/finish", "")
    same(run.wait(120), 0, *lines_of(f"{directory}/harrow.out"))
    for name in names:
        same(outcomes(f"{directory}/r", name), ["checkpointed"] * moves + ["exited"], name)
    same(glob.glob(f"{directory}/r/checkpoints/*"), [])
    return harrow


def test_real_programs_move(directory, program):
    write(f"{directory}/counter.py", COUNTER)
    write(f"{directory}/field.py", FIELD)
    # A program, one of many pages, and a shell with a pipe between two.
    flow = (task("count", [PYTHON, "counter.py", f"{STEPS}", "count.out", "0.05"])
            + task("pipe", f"{PYTHON} counter.py {STEPS} pipe.out 0.05 | cat; wc -l < pipe.out.steps"))
    names = ["count", "pipe"]
    numpy = subprocess.run([PYTHON, "-c", "import numpy"], capture_output=True, check=False).returncode == 0
    if numpy:
        names.append("numbers")
        flow += task("numbers", [PYTHON, "field.py", f"{FIELDS}", "numbers.out"])
    harrow = check_real(directory, program, names, flow, MOVES)
    for name in ("count", "pipe"):
        same(lines_of(f"{directory}/{name}.out.steps"), steps_of(STEPS), name)
    same(harrow("logs", "--run-dir", "r", "pipe", code=0).out.strip(), f"{STEPS}")
    if numpy:
        subprocess.run([PYTHON, "field.py", f"{FIELDS}", "alone.out"], cwd=directory, check=True)
        same(lines_of(f"{directory}/numbers.out"), lines_of(f"{directory}/alone.out"))
    check("went on from a checkpoint" in harrow("report", "--moves", "--run-dir", "r", code=0).out)


def alike_tasks(directory, names, table):
    """Programs that have so many bytes in common, and say `ready`."""
    write(f"{directory}/alike.py", f"""import os, random, sys, time
table = random.Random(5).randbytes({table})
own = random.Random(sys.argv[1]).randbytes(100000)
open("ready." + sys.argv[1], "w").close()
while not os.path.exists("finish"):
    time.sleep(0.05)
print(sum(table) + sum(own))
""")
    write(f"{directory}/flow.toml", "".join(task(name, [PYTHON, "alike.py", name]) for name in names))


def bytes_of_images(directory):
    files = {}
    for path in glob.glob(f"{directory}/r/checkpoints/*/*/*.pages"):
        stat = os.stat(path)
        files[stat.st_ino] = stat.st_size
    return sum(files.values())


def check_alike_tasks_end(directory, harrow, run, names):
    write(f"{directory}/finish", "")
    same(run.wait(120), 0, *lines_of(f"{directory}/harrow.out"))
    for name in names:
        alone = subprocess.run([PYTHON, "alike.py", name], cwd=directory, capture_output=True, text=True, check=True).stdout
        same(harrow("logs", "--run-dir", "r", name, code=0).out, alone)
    same(glob.glob(f"{directory}/r/checkpoints/*"), [])


def test_real_alike_tasks_leave_together(directory, program):
    """What their images have in common lies on the shared file system once, and each goes on from its own."""
    table, names = 24 << 20, [f"t{i}" for i in range(4)]
    alike_tasks(directory, names, table)
    harrow = Harrow(program, directory)
    run = harrow.start("run", "flow.toml", "--run-dir", "r", "--slots", "4", "--local-nodes", "2", "--criu", real_criu())
    wait_for(lambda: all(os.path.exists(f"{directory}/ready.{name}") for name in names))
    nodes = json.loads(harrow("status", "--nodes", "--json", "--run-dir", "r", code=0).out)["nodes"]
    same(sorted(node["running"] for node in nodes), [0, 4])
    harrow("drain", "--run-dir", "r", max(nodes, key=lambda node: node["running"])["name"], code=0)
    wait_for(lambda: all(ended(harrow, name) for name in names))
    check(table < bytes_of_images(directory) < 1.6 * table, bytes_of_images(directory))
    check_alike_tasks_end(directory, harrow, run, names)


def test_real_alike_tasks_of_two_nodes(directory, program):
    """They change places, at once: what the one's image has the other's node does not write."""
    table, names = 24 << 20, ["t0", "t1"]
    alike_tasks(directory, names, table)
    harrow = Harrow(program, directory)
    run = harrow.start("run", "flow.toml", "--run-dir", "r", "--slots", "1", "--local-nodes", "2", "--criu", real_criu())
    wait_for(lambda: all(os.path.exists(f"{directory}/ready.{name}") for name in names))
    nodes = nodes_of(harrow)
    for name in names:
        move_once(harrow, name, nodes)
    wait_for(lambda: all(ended(harrow, name) for name in names))
    check(table < bytes_of_images(directory) < 1.6 * table, bytes_of_images(directory))
    same({path.rsplit(".", 1)[1] for path in os.listdir(f"{directory}/r/checkpoints/alike")}, {"1"})
    check_alike_tasks_end(directory, harrow, run, names)


def test_real_picture_moves(directory, program):
    if not shutil.which("povray"):
        raise Skipped("no POV-Ray", "povray")
    write(f"{directory}/scene.pov", """#version 3.7; global_settings { assumed_gamma 1 max_trace_level 20 }
camera { location <0, 2, -6> look_at 0 } light_source { <4, 8, -6> rgb 1 area_light <2,0,0>, <0,0,2>, 9, 9 } plane { y, -1 pigment { checker rgb 1 rgb 0.2 } }
#declare R = seed(3); #for (I, 1, 60) sphere { <rand(R)*6-3, rand(R)*3-1, rand(R)*6-2>, 0.4 pigment { rgb <rand(R), rand(R), rand(R)> } finish { reflection 0.4 } } #end
""")
    picture = ["povray", "+Iscene.pov", *(["+W960", "+H720"] if LONG else ["+W320", "+H240"]), "+A0.1", "-D", "+WT1", "-GA"]
    write(f"{directory}/flow.toml", task("picture", [*picture, "+Opicture.png"]))
    harrow = Harrow(program, directory)
    run = harrow.start("run", "flow.toml", "--run-dir", "r", "--slots", "1", "--local-nodes", "2", "--criu", real_criu())
    nodes = nodes_of(harrow)
    moves = 0
    while run.poll() is None and moves < (MOVES if LONG else 3):
        before = len(ended(harrow, "picture"))
        if any(harrow("move", "--run-dir", "r", "picture", "--to", node).code == 0 for node in nodes):
            wait_for(lambda: run.poll() is not None or len(ended(harrow, "picture")) > before)
            moves += 1
    same(run.wait(1200 if LONG else 300), 0, *lines_of(f"{directory}/harrow.out"))
    subprocess.run([*picture, "+Oalone.png"], cwd=directory, check=True, capture_output=True)
    ends = outcomes(f"{directory}/r", "picture")
    check(ends.count("checkpointed") >= (MOVES if LONG else 2), ends)
    print(f"  {ends.count('checkpointed')} moves, attempts: {len(ends)}", flush=True)
    with open(f"{directory}/picture.png", "rb") as one, open(f"{directory}/alone.png", "rb") as other:
        check(pixels(one.read()) == pixels(other.read()), "the pictures differ")


def pixels(png):
    """What is in its IDAT chunks: the others hold a time."""
    return re.findall(rb"IDAT(.*?)(?=....IEND|....IDAT)", png, re.S)


def test_real_what_is_written_after_an_image_is_written_over(directory, program):
    """The agent is killed again and again: what came after the last image is done once more, and lies in the file once."""
    steps = 1200 if LONG else 300
    write(f"{directory}/counter.py", COUNTER)
    write(f"{directory}/flow.toml", task("count", [PYTHON, "counter.py", f"{steps}", "count.out", "0.02"], 'checkpoint_every = "700ms"'))
    seed = int(os.environ.get("HARROW_TEST_SEED", "0")) or random.randrange(1 << 30)
    print("seed", seed)
    draw = random.Random(seed)
    harrow = Harrow(program, directory, {"HARROW_MAX_LOSSES": "100"})
    run = harrow.start("run", "flow.toml", "--run-dir", "r", "--slots", "1", "--criu", real_criu())
    wait_for(lambda: ended(harrow, "count"))
    for _ in range(20 if LONG else 3):
        before = len(lines_of(f"{directory}/count.out.steps"))
        more = draw.randrange(3, 40)
        wait_for(lambda: run.poll() is not None or len(lines_of(f"{directory}/count.out.steps")) != before + more)
        if run.poll() is not None:
            break
        for agent in of_run(f"{directory}/r", "agent"):
            kill(agent)
        lost = sum("lost" in line for line in ended(harrow, "count"))
        wait_for(lambda: run.poll() is not None or sum("lost" in line for line in ended(harrow, "count")) > lost)
    same(run.wait(180), 0, *lines_of(f"{directory}/harrow.out"))
    same(lines_of(f"{directory}/count.out.steps"), steps_of(steps))
    check("lost" in outcomes(f"{directory}/r", "count"), outcomes(f"{directory}/r", "count"))


def test_real_a_number_that_criu_would_take(directory, program):
    """What a program starts while CRIU begins to dump it gets one of those; here it sees to that itself."""
    write(f"{directory}/flow.toml", task("t", "echo 9 > /proc/sys/kernel/ns_last_pid; sleep 1000 & echo $! > number;"
                                              " while [ ! -e finish ]; do sleep 0.1; done; kill $(cat number) && echo well"))
    harrow = Harrow(program, directory)
    run = harrow.start("run", "flow.toml", "--run-dir", "r", "--slots", "1", "--local-nodes", "2", "--criu", real_criu())
    wait_for(lambda: lines_of(f"{directory}/number") != [])
    same(lines_of(f"{directory}/number"), ["10"])
    move_about(harrow, ["t"], 2)
    write(f"{directory}/finish", "")
    same(run.wait(60), 0, *lines_of(f"{directory}/harrow.out"))
    same(outcomes(f"{directory}/r", "t"), ["checkpointed", "checkpointed", "exited"])
    same(harrow("logs", "--run-dir", "r", "t", code=0).out, "well\n")


def test_real_a_slow_one_is_waited_for(directory, program):
    """As on a loaded machine, where what the agent tries it with must not be over before."""
    slow = write(f"{directory}/slow", f'#!/bin/sh\ncase "$1" in swrk) sleep 1;; esac\nexec {real_criu()} "$@"\n', 0o755)
    said = subprocess.run([program, "hold", "--criu", slow, "--try", directory], capture_output=True, text=True, check=False)
    same(said.returncode, 0, said.stderr)
    same(os.listdir(directory), ["slow"])


def test_real_what_cannot_be_dumped_goes_on(directory, program):
    write(f"{directory}/connected.py", """import os, socket, time
listener = socket.create_server(("127.0.0.1", 0))
peer = socket.create_connection(listener.getsockname())
other = listener.accept()[0]
open("connected", "w").close()
while not os.path.exists("finish"):
    time.sleep(0.02)
peer.sendall(b"well")
open("said", "wb").write(other.recv(4))
""")
    write(f"{directory}/flow.toml", task("talk", [PYTHON, "connected.py"], 'checkpoint_time = "5s"'))
    harrow = Harrow(program, directory)
    run = harrow.start("run", "flow.toml", "--run-dir", "r", "--slots", "1", "--local-nodes", "2", "--criu", real_criu())
    wait_for(lambda: os.path.exists(f"{directory}/connected"))
    move_once(harrow, "talk", nodes_of(harrow))
    wait_for(lambda: any("task talk was asked for a checkpoint: it goes on, and has left no checkpoint: CRIU: " in line for line in lines_of(f"{directory}/harrow.out")))
    write(f"{directory}/finish", "")
    same(run.wait(60), 0, *lines_of(f"{directory}/harrow.out"))
    same(lines_of(f"{directory}/said"), ["well"])
    same(outcomes(f"{directory}/r", "talk"), ["exited"])


def test_real_of_an_ordinary_user(directory, program):
    """By a namespace of his own, without rights of the system's."""
    if os.geteuid() != 0:
        raise Skipped("the other tests do it as an ordinary user", "root")
    said = subprocess.run(["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", program, "hold", "--criu", real_criu(), "--try", "/tmp"],
                          capture_output=True, text=True, check=False)
    if said.returncode != 0 and "namespace" in said.stderr:
        raise Skipped(said.stderr.strip(), "namespaces")
    same(said.returncode, 0, said.stderr)
    check(re.fullmatch(r"\d+\.\d+(\.\d+)?\n", said.stdout), said.stdout)


def run_with_fake(directory, program, how, more="", criu=FAKE):
    write(f"{directory}/counter.py", STATEFUL)
    write(f"{directory}/flow.toml", task("count", [PYTHON, "counter.py", "2000", "count.out"], more))
    harrow = Harrow(program, directory, {"FAKE_CRIU": how})
    run = harrow.start("run", "flow.toml", "--run-dir", "r", "--slots", "1", "--local-nodes", "2", "--criu", criu)
    wait_for(lambda: lines_of(f"{directory}/count.out.begins"))
    return harrow, run


def ends_well(directory, run):
    write(f"{directory}/finish", "")
    same(run.wait(120), 0, *lines_of(f"{directory}/harrow.out"))
    same(lines_of(f"{directory}/count.out"), [steps_of(2000)[-1].split()[1]])
    same(glob.glob(f"{directory}/r/checkpoints/*"), [])


def says(directory, what):
    wait_for(lambda: any(what in line for line in lines_of(f"{directory}/harrow.out")))


def test_moved(directory, program):
    harrow, run = run_with_fake(directory, program, "")
    move_about(harrow, ["count"], 3)
    ends_well(directory, run)
    same(outcomes(f"{directory}/r", "count"), ["checkpointed"] * 3 + ["exited"])
    begins = list(map(int, lines_of(f"{directory}/count.out.begins")))
    check(len(begins) >= 2 and begins == sorted(begins) and begins[-1] > 0, begins)


def test_a_refusal_and_a_crash_before_the_image_leave_it_running(directory, program):
    for how, text in (("refuses", "has left no checkpoint: CRIU: inet: Connected TCP socket"), ("dies", "has left no checkpoint: CRIU ended without an answer"),
                      ("hangs", "has left no checkpoint: CRIU did not answer within 800 ms, and was killed")):
        below = f"{directory}/{how}"
        os.mkdir(below)
        _, run = run_with_fake(below, program, how, 'checkpoint_every = "300ms"\ncheckpoint_time = "1s"')
        says(below, text)
        ends_well(below, run)
        same(outcomes(f"{below}/r", "count"), ["exited"])


def test_a_crash_after_the_image_loses_the_attempt(directory, program):
    """Nobody knows whether the image is whole: its task is tried again."""
    for how in ("dies-late", "dies-before-it"):
        below = f"{directory}/{how}"
        os.mkdir(below)
        harrow, run = run_with_fake(below, program, how)
        move_once(harrow, "count", nodes_of(harrow))
        wait_for(lambda: ended(harrow, "count"))
        ends_well(below, run)
        same(set(outcomes(f"{below}/r", "count")[:-1]), {"lost"})


def test_an_image_that_cannot_be_restored_is_tried_twice(directory, program):
    """Then the task begins anew, and is not dumped again, so that it can be done."""
    for how in ("restores-nothing", "dies-restoring"):
        below = f"{directory}/{how}"
        os.mkdir(below)
        harrow, run = run_with_fake(below, program, how)
        move_once(harrow, "count", nodes_of(harrow))
        says(below, "that was tried often enough")
        ends_well(below, run)
        same(outcomes(f"{below}/r", "count"), ["checkpointed", "lost", "lost", "exited"])


def test_where_it_does_not_work_tasks_run_without(directory, program):
    for number, (how, criu, text) in enumerate((("never", FAKE, "CRIU: this kernel cannot"), ("garbage", FAKE, "answer cannot be read"),
                                               ("", "/nowhere/criu", "/nowhere/criu is not there (setting criu, option --criu)"))):
        below = f"{directory}/{number}"
        os.mkdir(below)
        _, run = run_with_fake(below, program, how, criu=criu)
        says(below, text)
        says(below, "run without checkpoints here")
        ends_well(below, run)
        same(outcomes(f"{below}/r", "count"), ["exited"])


def test_an_image_waits_for_nodes_where_it_works(directory, program):
    """Its task does not begin anew beside it."""
    criu = f"{directory}/criu"
    os.symlink(FAKE, criu)
    harrow, run = run_with_fake(directory, program, "", 'checkpoint_every = "200ms"', criu)
    wait_for(lambda: "it left a checkpoint" in harrow("explain", "--run-dir", "r", "count").out)
    run.send_signal(signal.SIGINT)
    same(run.wait(120), 128 + signal.SIGINT)
    check(glob.glob(f"{directory}/r/checkpoints/*"), "an image is there")
    begins = len(lines_of(f"{directory}/count.out.begins"))
    resume = ("run", "--resume", "--run-dir", "r", "--slots", "1", "--local-nodes", "2", "--criu", criu)
    os.unlink(criu)
    run = harrow.start(*resume)
    says(directory, "it has an image to go on from, and CRIU does not work here")
    run.send_signal(signal.SIGINT)
    same(run.wait(120), 128 + signal.SIGINT)
    same(len(lines_of(f"{directory}/count.out.begins")), begins)
    os.symlink(FAKE, criu)
    run = harrow.start(*resume)
    ends_well(directory, run)
    check("lost" in outcomes(f"{directory}/r", "count"))


def test_a_program_is_as_it_would_be_alone(directory, program):
    """Exit statuses, signals, what it says, a program that is not there, what it leaves behind."""
    left = f"1000.{os.getpid()}"  # other tests have sleepers as well
    flow = (task("three", ["sh", "-c", "echo out; echo err >&2; exit 3"]) + task("killed", ["sh", "-c", "kill -SEGV $$"])
            + task("absent", ["./not-there"]) + task("identity", "id -u; id -g; pwd; cat; ulimit -c")
            + task("leaves", f"sleep {left} & echo done") + task("late", "(sleep 0.2; echo late) & echo early")
            + task("limit", ["sleep", "1000"], 'time = "500ms"'))
    write(f"{directory}/flow.toml", flow)
    harrow = Harrow(program, directory, {"FAKE_CRIU": ""})
    harrow("run", "flow.toml", "--run-dir", "r", "--slots", "2", "--criu", FAKE, code=1)
    ends = {name: (outcome, code) for name, outcome, code in query(f"{directory}/r", "SELECT task, outcome, code FROM attempts")}
    same(ends["three"], ("exited", 3))
    same(ends["killed"], ("signaled", 11))
    same(ends["absent"], ("exited", 127))
    same(ends["leaves"], ("exited", 0))
    same(ends["limit"][0], "timed_out")
    same(harrow("logs", "--run-dir", "r", "three", code=0).out, "out\n")
    same(harrow("logs", "--run-dir", "r", "identity", code=0).out.split()[:3], [str(os.getuid()), str(os.getgid()), directory])
    same(harrow("logs", "--run-dir", "r", "late", code=0).out, "early\nlate\n")
    check("./not-there: command not found" in harrow("logs", "--run-dir", "r", "--stderr", "absent").out + harrow("logs", "--run-dir", "r", "--stderr", "absent").err)
    same([line for line in subprocess.run(["pgrep", "-fx", f"sleep {left}"], capture_output=True, text=True, check=False).stdout.split()], [])


def asked_once(directory, program, command, says_what):
    """A task of this command, which looks for `finish`, is asked once: the run says this, and it goes on. Its run."""
    write(f"{directory}/flow.toml", task("x", command))
    harrow = Harrow(program, directory, {"FAKE_CRIU": ""})
    run = harrow.start("run", "flow.toml", "--run-dir", "r", "--slots", "1", "--local-nodes", "2", "--criu", FAKE)
    wait_for(lambda: os.path.exists(f"{directory}/began"))
    move_once(harrow, "x", nodes_of(harrow))
    says(directory, says_what)
    return harrow, run


WAITS = "touch began; until test -e finish; do sleep 0.05; done; "


def test_what_would_not_go_along_is_not_dumped(directory, program):
    for number, (command, text) in enumerate(((f"(sleep 60 &); {WAITS}", "it has left a process behind (sleep)"),
                                              (f'exec 5>"$TMPDIR/open"; {WAITS}', "in its TMPDIR, which does not go along"),
                                              (f'cd "$TMPDIR"; d=$OLDPWD; touch "$d/began"; until test -e "$d/finish"; do sleep 0.05; done', "in its TMPDIR"))):
        below = f"{directory}/{number}"
        os.mkdir(below)
        _, run = asked_once(below, program, command, text)
        write(f"{below}/finish", "")
        same(run.wait(60), 0, text)
        same(outcomes(f"{below}/r", "x"), ["exited"])


def test_its_status_is_its_own(directory, program):
    """A refused question makes no answer of an exit status that one would have."""
    _, run = asked_once(directory, program, f"(sleep 60 &); {WAITS} exit 85", "it has left a process behind")
    write(f"{directory}/finish", "")
    same(run.wait(60), 1)
    same(query(f"{directory}/r", "SELECT outcome, code FROM attempts"), [("exited", 85)])


def test_signals_are_the_programs(directory, program):
    """Those that only the process before it gets, as a user would send them to the task."""
    write(f"{directory}/flow.toml", task("x", 'trap "echo usr1" USR1; trap "echo usr2" USR2; touch began; until test -e finish; do sleep 0.05; done'))
    harrow = Harrow(program, directory, {"FAKE_CRIU": ""})
    run = harrow.start("run", "flow.toml", "--run-dir", "r", "--slots", "1", "--criu", FAKE)
    wait_for(lambda: os.path.exists(f"{directory}/began"))
    holders = sorted(int(pid) for pid in subprocess.run(["pgrep", "-f", f"harrow hold .*{directory}/r/"], capture_output=True, text=True, check=True).stdout.split())
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        os.kill(holders[0], number)
    wait_for(lambda: "usr2" in harrow("logs", "--run-dir", "r", "x").out)
    write(f"{directory}/finish", "")
    same(run.wait(60), 0)
    same(sorted(harrow("logs", "--run-dir", "r", "x", code=0).out.split()), ["usr1", "usr2"])


def test_its_environment_is_its_own(directory, program):
    """What a task sets for itself is not for the process before it, nor for CRIU."""
    write(f"{directory}/flow.toml", task("x", "/bin/echo $SAID $PATH; test -z \"$HARROW_HELD_ENVIRONMENT\"", 'env = { PATH = "/nowhere", SAID = "a b", LD_PRELOAD = "/nowhere.so" }'))
    harrow = Harrow(program, directory, {"FAKE_CRIU": ""})
    harrow("run", "flow.toml", "--run-dir", "r", "--slots", "1", "--criu", FAKE, code=0)
    same(harrow("logs", "--run-dir", "r", "x", code=0).out, "a b /nowhere\n")


def test_what_several_leave_behind_is_waited_for(directory, program):
    write(f"{directory}/flow.toml", task("x", "(sleep 0.05) & (sleep 0.2; echo late) & echo early"))
    harrow = Harrow(program, directory, {"FAKE_CRIU": ""})
    harrow("run", "flow.toml", "--run-dir", "r", "--slots", "1", "--criu", FAKE, code=0)
    same(harrow("logs", "--run-dir", "r", "x", code=0).out, "early\nlate\n")


def test_real_files_of_others_stay_as_they_are(directory, program):
    """Another process writes to the same file, while the task is dumped and elsewhere: nothing of that is lost."""
    write(f"{directory}/shared.py", """import os, time
f = os.open("shared", os.O_RDWR | os.O_CREAT)
step = 0
while not os.path.exists("finish"):
    os.pwrite(f, b"m", step * 2)
    step = (step + 1) % 1000
    if step == 1:
        open("began", "w").close()
    time.sleep(0.002)
""")
    write(f"{directory}/flow.toml", task("x", [PYTHON, "shared.py"]))
    harrow = Harrow(program, directory)
    run = harrow.start("run", "flow.toml", "--run-dir", "r", "--slots", "1", "--local-nodes", "2", "--criu", real_criu())
    wait_for(lambda: os.path.exists(f"{directory}/began"))
    nodes = nodes_of(harrow)
    written = 0
    with open(f"{directory}/shared", "r+b", buffering=0) as shared:
        for move in range(4):
            before = len(ended(harrow, "x"))
            move_once(harrow, "x", nodes)
            while len(ended(harrow, "x")) == before:
                os.pwrite(shared.fileno(), b"o" * 1000, 10_000 + written)
                written += 1000
    write(f"{directory}/finish", "")
    same(run.wait(60), 0, *lines_of(f"{directory}/harrow.out"))
    with open(f"{directory}/shared", "rb") as shared:
        shared.seek(10_000)
        same(shared.read().count(b"o"), written)
    same(outcomes(f"{directory}/r", "x"), ["checkpointed"] * 4 + ["exited"])


def test_real_links_in_the_place_of_its_files_are_not_followed(directory, program):
    """Somebody who may rename files there puts a link in its place while the process is nowhere."""
    write(f"{directory}/victim", "v" * 1000)
    write(f"{directory}/counter.py", COUNTER)
    os.mkdir(f"{directory}/images")
    words = [os.path.abspath(program), "hold", "--criu", real_criu(), "--trouble", f"{directory}/trouble", "--signal", "40", "--status", "85"]
    command = ["--", PYTHON, "counter.py", "2000", "count.out", "0.02"]
    held = subprocess.Popen([*words, "--images", "images", *command], cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    wait_for(lambda: len(lines_of(f"{directory}/count.out.steps")) > 5)
    held.send_signal(40)
    same(held.wait(60), 85)
    for place in ("victim", "nowhere"):
        os.rename(f"{directory}/count.out.steps", f"{directory}/aside")
        os.symlink(place, f"{directory}/count.out.steps")
        again = subprocess.run([*words, "--images", "other", "--restore", "images", *command], cwd=directory, stdin=subprocess.DEVNULL, check=False)
        same(again.returncode, 1)
        check("count.out.steps, which it had open for writing: Too many levels of symbolic links" in lines_of(f"{directory}/trouble")[0], lines_of(f"{directory}/trouble"))
        os.rename(f"{directory}/aside", f"{directory}/count.out.steps")
    with open(f"{directory}/victim") as victim:
        same(victim.read(), "v" * 1000)
    write(f"{directory}/finish", "")
    same(subprocess.run([*words, "--images", "other", "--restore", "images", *command], cwd=directory, stdin=subprocess.DEVNULL, check=False).returncode, 0)
    same(lines_of(f"{directory}/count.out.steps"), steps_of(2000))


def test_keys(directory, program):
    harrow = Harrow(program, directory)
    for more, text in (('checkpoint_signal = "USR2"', "about a program that writes checkpoints itself"), ("ranks = 2", "CRIU dumps no MPI task"),
                       ('restart_command = "x"', "leave restart_command out"), ('checkpoint_ask = "file"', "leave checkpoint_ask out"),
                       ('to = ["s"]', "CRIU dumps no task that is joined to others by streams")):
        write(f"{directory}/flow.toml", task("a", ["true"], more))
        said = harrow("check", "flow.toml")
        check(said.code == 2 and text in said.err, more, said.err)
    write(f"{directory}/lines.txt", "#HARROW checkpoint=criu from=s\ncat\n")
    said = harrow("check", "lines.txt")
    check(said.code == 2 and "CRIU dumps no task that is joined to others by streams" in said.err, said.err)


def test_no_sandbox(directory, program):
    write(f"{directory}/flow.toml", task("a", ["touch", "o"], 'out = ["o"]'))
    said = Harrow(program, directory)("run", "flow.toml", "--files", "local")
    check(said.code == 2 and "would be in a sandbox of its node, which CRIU does not take to another" in said.err, said)


def main():
    check(len(sys.argv) > 2, "usage: criu.py HARROW FAKE_CRIU [test_...]")
    run_support.tests_of(sys.modules[__name__], os.path.abspath(sys.argv[1]))


if __name__ == "__main__":
    run_support.tell(main)
