#!/usr/bin/env python3
"""Tasks that write checkpoints: asked now and then, moved by hand, sent away from nodes and allocations; and programs that do it badly.
Every result equals that of an undisturbed run.

usage: checkpoints.py HARROW [test_...]"""
import glob
import json
import os
import random
import signal
import sys
import time

import run_support
from join_support import Run, settled
from run_support import Harrow, check, kill, lines_of, of_run, query, same, wait_for, write

LONG = bool(os.environ.get("HARROW_LONG"))

# Counts from where its checkpoint ends, without pauses when there is a file `fast`; asked, it writes one and ends with 85. `how`: what it does
# badly.
COUNTER = """import os, signal, sys, time
how, steps, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
where = os.environ["HARROW_CHECKPOINT_DIR"]
begin = value = 0
if os.environ.get("HARROW_RESTART"):
    begin, value = map(int, open(where + "/state").read().split())
with open(out + ".log", "a") as log:
    log.write(f"{os.environ['HARROW_ATTEMPT']} {begin} {os.environ['HARROW_NODE']} {os.environ.get('PART', '')}\\n")
asked = []
name = os.environ.get("HARROW_CHECKPOINT_SIGNAL")
if name and how != "deaf":
    signal.signal(getattr(signal, "SIG" + name), lambda *_: asked.append(1))
request = os.environ.get("HARROW_CHECKPOINT_REQUEST")
def save(path):
    with open(path, "w") as f:
        f.write(f"{step} {value}")
for step in range(begin + 1, steps + 1):
    time.sleep(0 if os.path.exists("fast") else 0.02)
    value = (value * 31 + step) % 1000003
    if how == "alone" and step % 5 == 0:
        save(f"{where}/tmp")
        os.rename(f"{where}/tmp", f"{where}/state.{step}")
    if request and os.path.exists(request):
        asked.append(1)
    if asked and how in ("well", "half"):
        save(where + "/state")
        sys.exit(85)
    if asked and how == "empty":
        sys.exit(85)
with open(out, "w") as f:
    f.write(f"{value}\\n")
"""

# The first allocation is four times slower than the others, as tasks tell that end.
SLOWER_IN_THE_FIRST = COUNTER.replace("else 0.02)", "else 0.02 * (4 if os.environ.get('PART') == '0' else 1))")
WARM = '[[task]]\nname = "w-{i}"\nkind = "warm"\neach = { i = "1-160" }\ncommand = "if test $PART = 0; then sleep 0.8; else sleep 0.2; fi"\n'


def value_after(steps):
    value = 0
    for step in range(1, steps + 1):
        value = (value * 31 + step) % 1000003
    return f"{value}"


def task(name, steps, more="", how="well", command="python3 counter.py"):
    return (f'[[task]]\nname = "{name}"\ncommand = "{command} {how} {steps} {name}.out"\nout = ["{name}.out"]\ncheckpoint = "app"\n'
            f'{more}\n')


def prepared(directory):
    write(f"{directory}/counter.py", COUNTER)


def attempts(directory, name):
    """Of each: its number, where it began to count, its node."""
    return [(int(number), int(begin), node) for number, begin, node, *_ in (line.split(" ") for line in lines_of(f"{directory}/{name}.out.log"))]


def outcomes(path, name):
    return [outcome for (outcome,) in query(path, f"SELECT outcome FROM attempts WHERE task = '{name}' ORDER BY id")]


def check_value(directory, name, steps):
    same(lines_of(f"{directory}/{name}.out"), [value_after(steps)], name)


def check_no_checkpoints_left(path):
    same(glob.glob(f"{path}/checkpoints/*"), [])


def test_asked_now_and_then(directory, program):
    prepared(directory)
    write(f"{directory}/flow.toml", task("a", 100, 'checkpoint_every = "400ms"') + task("b", 100, 'checkpoint_every = "500ms"\ncheckpoint_ask = "file"'))
    harrow = Harrow(program, directory)
    harrow("run", "flow.toml", "--run-dir", "r", "--slots", "2", code=0)
    for name in ("a", "b"):
        check_value(directory, name, 100)
        ends = outcomes(f"{directory}/r", name)
        check(len(ends) >= 3 and set(ends[:-1]) == {"checkpointed"} and ends[-1] == "exited", ends)
        begins = [begin for _, begin, _ in attempts(directory, name)]
        check(begins[0] == 0 and all(a < b for a, b in zip(begins, begins[1:])), begins)
    check_no_checkpoints_left(f"{directory}/r")
    figures = json.loads(harrow("report", "--json", "--run-dir", "r", code=0).out)
    check("left a checkpoint" in str(query(f"{directory}/r", "SELECT message FROM attempts")), figures)


def test_line_file_and_restart_command(directory, program):
    prepared(directory)
    write(f"{directory}/tasks.txt", '#HARROW checkpoint=app checkpoint_every=400ms checkpoint_signal=USR2 checkpoint_status=99 checkpoint_files=state'
          ' restart_command="sh again.sh"\npython3 first.py\n')
    write(f"{directory}/first.py", COUNTER.replace("sys.exit(85)", "sys.exit(99)").replace("sys.argv[1], int(sys.argv[2]), sys.argv[3]", "'well', 60, 'x.out'"))
    write(f"{directory}/again.sh", 'test -f "$HARROW_RESTART" && test "$HARROW_CHECKPOINT_STATUS" = 99 && echo "$HARROW_RESTART" >> restarts\nexec python3 first.py\n')
    Harrow(program, directory)("run", "tasks.txt", "--run-dir", "r", "--slots", "1", code=0)
    check_value(directory, "x", 60)
    again = lines_of(f"{directory}/restarts")
    check(len(again) >= 2 and all(line.endswith("/files/state") for line in again), again)
    same(len(again), len(attempts(directory, "x")) - 1)


def test_moved_between_nodes(directory, program):
    prepared(directory)
    write(f"{directory}/flow.toml", task("a", 250) + '[[task]]\nname = "plain"\ncommand = "until test -e go; do sleep 0.05; done"\n')
    harrow = Harrow(program, directory)
    run = harrow.start("run", "flow.toml", "--run-dir", "r", "--slots", "2", "--local-nodes", "2")
    wait_for(lambda: attempts(directory, "a"))
    nodes = [node["name"] for node in wait_for(lambda: json.loads(harrow("status", "--nodes", "--json", "--run-dir", "r").out).get("nodes"))]
    same(len(nodes), 2)
    for step in range(4):
        here = attempts(directory, "a")[-1][2]
        there = next(node for node in nodes if node != here)
        wait_for(lambda: harrow("move", "--run-dir", "r", "a", "--to", there).code == 0)
        wait_for(lambda: len(attempts(directory, "a")) == step + 2)
        same(attempts(directory, "a")[-1][2], there)
    refused = harrow("move", "--run-dir", "r", "plain", "--to", nodes[0])
    check(refused.code == 2 and "would begin anew" in refused.err, refused)
    refused = harrow("move", "--run-dir", "r", "a", "--to", "nowhere")
    check(refused.code == 2 and "no node nowhere" in refused.err, refused)
    check("it was moved there" in harrow("explain", "--run-dir", "r", "a", code=0).out)
    write(f"{directory}/go", "")
    same(run.wait(120), 0)
    check_value(directory, "a", 250)
    same(outcomes(f"{directory}/r", "a"), ["checkpointed"] * 4 + ["exited"])
    check_no_checkpoints_left(f"{directory}/r")


def test_a_node_is_drained(directory, program):
    prepared(directory)
    write(f"{directory}/flow.toml", "".join(task(f"t{i}", 150) for i in range(4)))
    harrow = Harrow(program, directory)
    run = harrow.start("run", "flow.toml", "--run-dir", "r", "--slots", "4", "--local-nodes", "2")
    wait_for(lambda: all(attempts(directory, f"t{i}") for i in range(4)))
    gone = attempts(directory, "t0")[0][2]
    other = next(node["name"] for node in json.loads(harrow("status", "--nodes", "--json", "--run-dir", "r", code=0).out)["nodes"] if node["name"] != gone)
    harrow("drain", "--run-dir", "r", gone, code=0)
    last = harrow("drain", "--run-dir", "r", other)
    check(last.code == 2 and "the last one" in last.err, last)
    kill(of_run(f"{directory}/r", "server")[0])  # the next one knows
    same(run.wait(120), 0)
    for i in range(4):
        check_value(directory, f"t{i}", 150)
        same({node for _, _, node in attempts(directory, f"t{i}")[1:]} - {other}, set(), attempts(directory, f"t{i}"))


def test_moved_between_allocations_and_drained(directory, program):
    prepared(directory)
    flow = "".join(task(f"t{i}", 20000) for i in range(2))
    with Run(directory, program, flow, 2) as run:
        wait_for(lambda: all(attempts(directory, f"t{i}") for i in range(2)))
        run.join(2)
        wait_for(lambda: run.harrow("move", "--run-dir", "r", "t0", "--to", "1").code == 0)
        wait_for(lambda: len(attempts(directory, "t0")) == 2)
        wrong = run.harrow("move", "--run-dir", "r", "t0", "--to", "7")
        check(wrong.code == 2, wrong)
        run.harrow("drain", "--run-dir", "r", "0", code=0)
        same(run.keepers[0].wait(120), 0)
        wait_for(lambda: len(attempts(directory, "t1")) >= 2)
        write(f"{directory}/fast", "")
        same(run.keepers[1].wait(120), 0)
        for i in range(2):
            check_value(directory, f"t{i}", 20000)
        parts = lines_of(f"{directory}/t0.out.log")
        same([line.split(" ")[3] for line in parts][:2], ["0", "1"])
        check_no_checkpoints_left(f"{directory}/r")


def test_where_it_is_moved_to_is_known_after_a_server_that_was_killed(directory, program):
    """It dies when it has said that the task goes there, and before the task has left its checkpoint."""
    write(f"{directory}/counter.py", COUNTER.replace("    if asked and how in", "    if asked:\n        time.sleep(2)\n    if asked and how in"))
    flow = "".join(task(f"t{i}", 20000) for i in range(2))
    with Run(directory, program, flow, 4) as run:
        wait_for(lambda: all(attempts(directory, f"t{i}") for i in range(2)))
        run.join(4)
        for name, to in (("t0", 1), ("t1", 1), ("t0", 0), ("t1", 0)):
            before = len(attempts(directory, name))
            wait_for(lambda: run.harrow("move", "--run-dir", "r", name, "--to", f"{to}").code == 0)
            for server in of_run(run.part(1 - to), "server"):
                kill(server)
            wait_for(lambda: len(attempts(directory, name)) == before + 1)
            same([line.split(" ")[3] for line in lines_of(f"{directory}/{name}.out.log")][-1], f"{to}", name)
        write(f"{directory}/fast", "")
        run.wait(0, 0)
        for i in range(2):
            check_value(directory, f"t{i}", 20000)
            same(len(attempts(directory, f"t{i}")), 3)
    check_no_checkpoints_left(f"{directory}/r")


def test_what_runs_goes_to_a_faster_allocation(directory, program):
    """Two long tasks run in an allocation that is four times slower than the one that joins, and has nothing left to do."""
    write(f"{directory}/counter.py", SLOWER_IN_THE_FIRST)
    flow = task("a", 900, 'checkpoint_time = "500ms"\npriority = 9') + task("b", 900, 'checkpoint_time = "500ms"\npriority = 9')
    flow += WARM
    with Run(directory, program, flow, 4) as run:
        wait_for(lambda: attempts(directory, "a") and attempts(directory, "b"))
        run.join(4)
        wait_for(lambda: len(attempts(directory, "a")) > 1 and len(attempts(directory, "b")) > 1)
        run.wait(0, 0)
        for name in ("a", "b"):
            check_value(directory, name, 900)
            parts = [line.split(" ")[3] for line in lines_of(f"{directory}/{name}.out.log")]
            same(parts, ["0", "1"], "it went there, and stayed")
        check("which is faster and idle" in open(f"{directory}/r/0/log/server.log").read())
    check_no_checkpoints_left(f"{directory}/r")


def test_what_is_to_go_to_a_faster_allocation_goes_there_after_a_server_that_was_killed(directory, program):
    """It dies when the task has been asked for its checkpoint, and has not left it yet."""
    write(f"{directory}/counter.py", SLOWER_IN_THE_FIRST.replace("    if asked and how in", "    if asked:\n        open(out + '.asked', 'w').close()\n        time.sleep(0.8)\n    if asked and how in"))
    flow = task("a", 900, 'checkpoint_time = "1200ms"\npriority = 9')
    flow += WARM
    with Run(directory, program, flow, 4) as run:
        wait_for(lambda: attempts(directory, "a"))
        run.join(4)
        wait_for(lambda: os.path.exists(f"{directory}/a.out.asked"))
        kill(of_run(run.part(0), "server")[0])
        run.wait(0, 0)
        check_value(directory, "a", 900)
        same([line.split(" ")[3] for line in lines_of(f"{directory}/a.out.log")], ["0", "1"])
    check_no_checkpoints_left(f"{directory}/r")


def test_programs_that_do_it_badly(directory, program):
    """Deaf ones go on; who leaves nothing begins anew, or goes on from what there was; and it is said."""
    prepared(directory)
    write(f"{directory}/flow.toml", task("deaf", 60, 'checkpoint_every = "300ms"\ncheckpoint_time = "300ms"', how="deaf") +
          task("empty", 40, 'checkpoint_every = "500ms"', how="empty") + task("nofile", 40, 'checkpoint_every = "500ms"\ncheckpoint_files = ["other"]'))
    harrow = Harrow(program, directory)
    done = harrow("run", "flow.toml", "--run-dir", "r", "--slots", "3")
    check_value(directory, "deaf", 60)
    same(outcomes(f"{directory}/r", "deaf"), ["exited"])
    check("task deaf was asked for a checkpoint: it did not end with status 85" in done.err, done)
    check("task empty: it was asked for a checkpoint, and left no file in HARROW_CHECKPOINT_DIR; it begins anew" in done.err, done)
    check("left no other in HARROW_CHECKPOINT_DIR" in done.err, done)
    same(set(outcomes(f"{directory}/r", "empty")[:-1]), {"lost"})


def test_a_damaged_checkpoint_is_not_used(directory, program):
    """Nor one that an earlier attempt left half-written."""
    prepared(directory)
    write(f"{directory}/flow.toml", task("a", 200))
    harrow = Harrow(program, directory)
    run = harrow.start("run", "flow.toml", "--run-dir", "r", "--slots", "2", "--local-nodes", "2")

    def joined():
        known = json.loads(harrow("status", "--nodes", "--json", "--run-dir", "r").out or "{}").get("nodes") or []
        return [node["name"] for node in known] if len(known) == 2 else None

    nodes = wait_for(joined)
    for step in range(2):
        wait_for(lambda: len(attempts(directory, "a")) == step + 1)
        there = next(node for node in nodes if node != attempts(directory, "a")[-1][2])
        wait_for(lambda: harrow("move", "--run-dir", "r", "a", "--to", there).code == 0)
    wait_for(lambda: len(attempts(directory, "a")) == 3)
    begins = [begin for _, begin, _ in attempts(directory, "a")]
    newest = max(glob.glob(f"{directory}/r/checkpoints/*/*.sums"), key=lambda path: int(os.path.basename(path).split(".")[0]))
    write(newest[:-len(".sums")] + "/state", "199 7")
    write(os.path.dirname(newest) + "/files/half", "not whole")
    for agent in of_run(f"{directory}/r", "inner"):
        kill(agent)
    same(run.wait(120), 0)
    check_value(directory, "a", 200)
    begins = [begin for _, begin, _ in attempts(directory, "a")]
    same(begins[-1], begins[1], begins)
    check("its digest differs" in "".join(lines_of(f"{directory}/harrow.out")), lines_of(f"{directory}/harrow.out"))


def test_one_that_writes_by_itself(directory, program):
    """Whatever ends it: it goes on from the newest whole set."""
    prepared(directory)
    restart = ('restart_command = "sh again.sh"\ncheckpoint_ask = "none"\ncheckpoint_files = ["state.*"]\nretries = 3')
    write(f"{directory}/flow.toml", task("a", 250, restart, how="alone"))
    write(f"{directory}/again.sh", 'cp "$HARROW_RESTART" "$HARROW_CHECKPOINT_DIR/state"\nexec python3 counter.py alone 250 a.out\n')
    harrow = Harrow(program, directory)
    run = harrow.start("run", "flow.toml", "--run-dir", "r", "--slots", "2", "--local-nodes", "2")
    nodes = [node["name"] for node in wait_for(lambda: json.loads(harrow("status", "--nodes", "--json", "--run-dir", "r").out or "{}").get("nodes"))]
    wait_for(lambda: len(glob.glob(f"{directory}/r/checkpoints/*/files/state.*")) > 12)
    there = next(node for node in nodes if node != attempts(directory, "a")[-1][2])
    harrow("move", "--run-dir", "r", "a", "--to", there, code=0)
    wait_for(lambda: len(attempts(directory, "a")) == 2)
    wait_for(lambda: len(glob.glob(f"{directory}/r/checkpoints/*/files/state.*")) > 12)
    for agent in of_run(f"{directory}/r", "inner"):
        kill(agent)
    same(run.wait(120), 0)
    check_value(directory, "a", 250)
    begins = [begin for _, begin, _ in attempts(directory, "a")]
    # The one agent may be killed when the task has just begun there.
    check(len(begins) >= 3 and begins[0] == 0 and 0 < begins[1] < begins[-1] and begins == sorted(begins), begins)
    ends = outcomes(f"{directory}/r", "a")
    check(ends[0] == "checkpointed" and set(ends[1:-1]) == {"lost"} and ends[-1] == "exited", ends)


def test_resumed(directory, program):
    """What was interrupted goes on in the next session from its last checkpoint."""
    prepared(directory)
    write(f"{directory}/flow.toml", task("a", 150, 'checkpoint_every = "500ms"'))
    harrow = Harrow(program, directory)
    run = harrow.start("run", "flow.toml", "--run-dir", "r")
    wait_for(lambda: len(attempts(directory, "a")) >= 3)
    run.send_signal(signal.SIGTERM)
    same(run.wait(60), 128 + signal.SIGTERM)
    before = len(attempts(directory, "a"))
    harrow("run", "--resume", "--run-dir", "r", code=0)
    check_value(directory, "a", 150)
    check(attempts(directory, "a")[before][1] > 0, attempts(directory, "a"))
    check_no_checkpoints_left(f"{directory}/r")


def test_seeded_kills(directory, program):
    """Servers and agents are killed while tasks move to and fro: each ends once, with the value of an undisturbed run."""
    prepared(directory)
    seed = int(os.environ.get("HARROW_SEED", random.randrange(10**6)))
    print("HARROW_SEED =", seed)
    draw = random.Random(seed)
    moves = 100 if LONG else 24
    steps = 40 * moves
    flow = "".join(task(f"t{i}", steps, "retries = 0") for i in range(8))
    with Run(directory, program, flow, 4, env={"HARROW_MAX_LOSSES": "1000"}) as run:
        run.join(4)
        wait_for(lambda: all(attempts(directory, f"t{i}") for i in range(8)))
        done = 0
        while done < moves and any(keeper.poll() is None for keeper in run.keepers):
            name, to = f"t{draw.randrange(8)}", draw.randrange(2)
            if os.path.exists(f"{directory}/{name}.out"):
                if all(os.path.exists(f"{directory}/t{i}.out") for i in range(8)):
                    break
                continue
            answer = run.harrow("move", "--run-dir", "r", name, "--to", str(to))
            done += 1 if answer.code == 0 else 0
            if draw.random() < 0.3:
                time.sleep(draw.random() * 0.2)
                part, role = draw.randrange(2), draw.choice(("server", "inner"))
                victims = of_run(run.part(part), role)
                # Servers that die at their start, five times in a row, are given up.
                if victims and (role != "server" or settled(run, [part])):
                    kill(draw.choice(victims))
            time.sleep(draw.random() * 0.2)
        print("moves:", done)
        run.wait(0, 0)
        for i in range(8):
            check_value(directory, f"t{i}", steps)
        ended = [name for (name,) in run.rows("SELECT t.id FROM task t")]
        same(len(ended), 8)
        fates = run.rows("SELECT task, count(*) FROM fate WHERE fate = 1 GROUP BY task")
        same(sorted(fates), [(i, 1) for i in range(8)])
        check_no_checkpoints_left(f"{directory}/r")


if __name__ == "__main__":
    run_support.tell(lambda: run_support.tests_of(sys.modules[__name__], os.path.abspath(sys.argv[1])))
