#!/usr/bin/env python3
"""Streams between tasks: lines go from the standard output of some to the standard input of others, on one node and between several,
while anything is killed; and programs that behave badly.

usage: streams.py HARROW [test_...]
HARROW_LONG=1: 100 seeds of kills instead of 3, and 10 GB that nobody reads yet; HARROW_SEED: repeats one."""
import collections
import contextlib
import json
import os
import random
import sys
import time

import run_support
from run_support import Harrow, check, kill, of_run, query, same, wait_for, with_word, work_dir, write

NODES = ["--local-nodes", "4", "--slots", "2"]
LONG = bool(os.environ.get("HARROW_LONG"))


def task(name, command, **keys):
    """One of a flow file; the command is a shell's."""
    lines = [f"[[task]]\nname = {json.dumps(name)}\ncommand = {json.dumps(command)}\n"]
    for key, value in keys.items():
        key = {"source": "from", "target": "to"}.get(key, key)
        text = ("{" + ", ".join(f"{k} = {json.dumps(v)}" for k, v in value.items()) + "}") if isinstance(value, dict) else json.dumps(value)
        lines.append(f"{key} = {text}\n")
    return "".join(lines)


def run(directory, program, tasks, *options, code=0, flow=""):
    write(f"{directory}/flow.toml", flow + "".join(tasks))
    harrow = Harrow(program, directory)
    return harrow("run", "flow.toml", "--run-dir", "r", "--progress", "none", *(options or NODES), code=code)


def read(path):
    with open(path, "rb") as f:
        return f.read()


def states(directory):
    return dict(query(f"{directory}/r", "SELECT name, state FROM tasks"))


def outcomes(directory, name):
    return [outcome for (outcome,) in query(f"{directory}/r", f"SELECT outcome FROM attempts WHERE task = '{name}' ORDER BY attempt")]


def test_several_writers_and_readers(directory, program):
    """Each reader gets every line of every writer, whole, and those of each writer in their order."""
    tasks = [task("w{i}", "for n in $(seq 5000); do echo {i} $n; done", each={"i": "1-3"}, target=["s"]),
             task("r{k}", "cat > got{k}", each={"k": "1-2"}, source=["s"])]
    run(directory, program, tasks)
    for k in (1, 2):
        got = collections.defaultdict(list)
        for line in read(f"{directory}/got{k}").decode().splitlines():
            writer, n = line.split()
            got[writer].append(int(n))
        same({w: len(n) for w, n in got.items()}, {"1": 5000, "2": 5000, "3": 5000})
        for numbers in got.values():
            same(numbers, list(range(1, 5001)))


def test_split(directory, program):
    """Each line to one reader, and all that want some get some."""
    tasks = [task("w{i}", "seq {i}000 {i}999", each={"i": "1-2"}, target=["s"]),
             task("r{k}", "while read -r n; do echo $n >> got{k}; sleep 0.0005; done", each={"k": "1-4"}, source=["s"], share="split")]
    run(directory, program, tasks)
    parts = [read(f"{directory}/got{k}").decode().split() if os.path.exists(f"{directory}/got{k}") else [] for k in range(1, 5)]
    same(sorted(int(n) for part in parts for n in part), list(range(1000, 3000)))
    check(sum(bool(part) for part in parts) >= 3, "one reader took all:", [len(part) for part in parts])


def going_on(directory, program, tasks, *options):
    """In the background: harrow, and its process."""
    write(f"{directory}/flow.toml", "".join(tasks))
    harrow = Harrow(program, directory)
    return harrow, harrow.start("run", "flow.toml", "--run-dir", "r", "--progress", "none", *(options or NODES))


def shared(directory, program):
    """One has read its share, and waits for another one, which has not; its writer is done."""
    tasks = [task("w", "seq 20000", target=["s"]),
             task("r{k}", "test {k} = 1 || while ! test -e go; do sleep 0.05; done; cat > got{k}", each={"k": "1-2"}, source=["s"], share="split"),
             task("after", "cp got1 copy", after=["r1"])]
    harrow, going = going_on(directory, program, tasks)
    wait_for(lambda: "are done together" in harrow("explain", "r1", "--run-dir", "r").out)
    return harrow, going


def each_line_once(directory):
    got = [read(f"{directory}/got{k}").split() for k in (1, 2)]
    same(sorted(int(n) for part in got for n in part), list(range(1, 20001)), [len(part) for part in got])
    same(read(f"{directory}/copy"), read(f"{directory}/got1"))


def test_a_split_stream_that_is_lost(directory, program):
    """It is split anew, for all that share it."""
    _, going = shared(directory, program)
    for pid in of_run(f"{directory}/r", "inner"):
        kill(pid)
    write(f"{directory}/go", "")
    same(going.wait(timeout=120), 0, read(f"{directory}/harrow.out").decode())
    each_line_once(directory)


def test_a_split_stream_in_a_resumed_run(directory, program):
    harrow, going = shared(directory, program)
    kill(going.pid, 2)
    same(going.wait(timeout=120), 130)
    write(f"{directory}/go", "")
    harrow("run", "--resume", "--run-dir", "r", "--progress", "none", *NODES, code=0)
    each_line_once(directory)


def test_a_writer_whose_readers_fail(directory, program):
    """It does not fill the disk for nobody."""
    tasks = [task("w", "yes", target=["s"]), task("r", "head -n 1; exit 3", source=["s"]), task("q", "head -n 1", source=["s"])]
    run(directory, program, tasks, code=1)
    same(states(directory), {"w": "done", "r": "failed", "q": "done"})


def test_a_writer_of_files_whose_readers_have_ended(directory, program):
    """It goes on until it has written them."""
    tasks = [task("w", "seq 300000 && while ! test -e read; do sleep 0.05; done && seq 300000 && echo made > f", target=["s"], out=["f"]),
             task("r", "head -n 3; touch read", source=["s"]), task("u", "cp f g", **{"in": ["f"]})]
    run(directory, program, tasks)
    same(read(f"{directory}/g"), b"made\n")
    same(outcomes(directory, "w"), ["exited"])


def test_few_descriptors(directory, program):
    """Processes may have fewer descriptors than there are streams."""
    few = write(f"{directory}/few", f'#!/bin/sh\nulimit -n 48\nexec {program} "$@"\n', 0o755)
    tasks = [task("w{i}", "seq 100", each={"i": "1-60"}, target=["s-{i}"]),
             task("r{k}", "wc -l > r{k}.out", each={"k": "1-2"}, source=["s-*"])]
    run(directory, few, tasks, "--slots", "4")
    for k in (1, 2):
        same(read(f"{directory}/r{k}.out"), b"6000\n")


def test_one_slot(directory, program):
    """A writer need not wait for its readers, so that three tasks of one slot do not wait for each other."""
    tasks = [task("c", "wc -l > n", source=["b"]), task("b", "sed s/x/yy/", source=["a"], target=["b"]),
             task("a", "for n in $(seq 300000); do echo x$n; done", target=["a"])]
    run(directory, program, tasks, "--slots", "1")
    same(read(f"{directory}/n").split(), [b"300000"])


def test_records_of_any_bytes(directory, program):
    rng = random.Random(7)
    write(f"{directory}/make.py", "import sys\nsys.stdout.buffer.write(open(sys.argv[1], 'rb').read())\n")
    for name in ("x", "y"):
        with open(f"{directory}/{name}", "wb") as f:
            f.write(b"".join(bytes(rng.randrange(1, 256) for _ in range(rng.randrange(200))) + b"\0" for _ in range(3000)))
        with open(f"{directory}/{name}16", "wb") as f:
            f.write(b"".join(name.encode() + bytes(rng.randrange(256) for _ in range(15)) for _ in range(4000)))
    tasks = [task("z-{i}", "python3 make.py {i}", each={"i": ["x", "y"]}, target=["zero"], records="zero"),
             task("f-{i}", "python3 make.py {i}16", each={"i": ["x", "y"]}, target=["fixed"], records="bytes:16"),
             task("rz", "cat > rz", source=["zero"]), task("rf", "cat > rf", source=["fixed"])]
    run(directory, program, tasks)
    same(sorted(read(f"{directory}/rz").split(b"\0")),
         sorted(read(f"{directory}/x").split(b"\0")[:-1] + read(f"{directory}/y").split(b"\0")[:-1] + [b""]))
    got = read(f"{directory}/rf")
    pieces = [got[i:i + 16] for i in range(0, len(got), 16)]
    for name in ("x", "y"):
        same(b"".join(p for p in pieces if p[:1] == name.encode()), read(f"{directory}/{name}16"))


def test_one_that_reads_some_and_ends(directory, program):
    """As in a shell's pipe: who writes is ended by SIGPIPE, and both are done."""
    tasks = [task("w", "yes", target=["s"]), task("r", "head -n 3 > got", source=["s"]), task("q", "head -n 1 > got1", source=["s"])]
    run(directory, program, tasks)
    same(read(f"{directory}/got"), b"y\ny\ny\n")
    same(states(directory), {"w": "done", "r": "done", "q": "done"})
    same(outcomes(directory, "w"), ["signaled"])


def test_one_that_never_reads(directory, program):
    tasks = [task("w", "seq 100000", target=["s"]), task("r", "sleep 0.3", source=["s"])]
    run(directory, program, tasks)
    same(states(directory), {"w": "done", "r": "done"})


def test_a_writer_that_fails_after_a_while(directory, program):
    """What it wrote does not count: its reader begins anew, and has the lines of one attempt."""
    command = ("if test -e again; then seq 1000; else touch again; echo wrong; sleep 0.5; echo wron; printf half; exit 3; fi")
    tasks = [task("w", command, target=["s"], retries=1), task("r", "cat > got; echo read >> times", source=["s"])]
    run(directory, program, tasks)
    same(read(f"{directory}/got").decode().split(), [str(n) for n in range(1, 1001)])
    same(outcomes(directory, "w"), ["exited", "exited"])
    check(outcomes(directory, "r")[-1] == "exited", outcomes(directory, "r"))
    same(read(f"{directory}/times"), b"read\n", "what an attempt that began anew wrote")


def test_readers_of_a_writer_that_fails_for_good(directory, program):
    """Those that run, those that have succeeded, and what needs them."""
    tasks = [task("w", "echo some; sleep 1; exit 5", target=["s"]), task("quick", "head -n 1", source=["s"]), task("slow", "cat", source=["s"]),
             task("after", "touch after", after=["quick"])]
    done = run(directory, program, tasks, code=1)
    same(states(directory), {"w": "failed", "quick": "skipped", "slow": "skipped", "after": "skipped"}, done)
    check(not os.path.exists(f"{directory}/after"))


def test_a_reader_that_fails(directory, program):
    """It is tried again from the start, by what is kept."""
    tasks = [task("w", "seq 20000", target=["s"]),
             task("r", "if test -e again; then cat > got; else head -n 5 > /dev/null; touch again; exit 1; fi", source=["s"], retries=1)]
    run(directory, program, tasks)
    same(read(f"{directory}/got").decode().split(), [str(n) for n in range(1, 20001)])
    same(len(outcomes(directory, "w")), 1, "the writer need not run again")


def test_lines_without_ends(directory, program):
    """No newline at all, in the middle of a merge, and a line of 20 MB."""
    tasks = [task("a", "printf no-newline", target=["one", "two"]), task("b", "sleep 0.2; echo line", target=["two"]),
             task("long", "head -c 20000000 /dev/zero | tr '\\0' x; echo", target=["long"]),
             task("r1", "cat > r1", source=["one"]), task("r2", "cat > r2", source=["two"]), task("r3", "cat > r3", source=["long"])]
    run(directory, program, tasks)
    same(read(f"{directory}/r1"), b"no-newline")
    same(sorted(read(f"{directory}/r2").split()), [b"line", b"no-newline"])
    check(read(f"{directory}/r3") == b"x" * 20000000 + b"\n")


def agent_memory(run_dir):
    """The most that an agent has held, in MiB."""
    most = 0
    for pid in of_run(run_dir, "inner"):
        try:
            with open(f"/proc/{pid}/status", encoding="utf-8") as f:
                most = max(most, *(int(line.split()[1]) for line in f if line.startswith("VmHWM")))
        except (OSError, TypeError, ValueError):
            pass
    return most / 1024


def test_much_before_anybody_reads(directory, program):
    """It is on disk, not in memory."""
    size = 10_000_000_000 if LONG else 300_000_000
    tasks = [task("w", f"head -c {size} /dev/zero", target=["s"]), task("r", "wc -c > n", source=["s"])]
    write(f"{directory}/flow.toml", "".join(tasks))
    harrow = Harrow(program, directory)
    going = harrow.start("run", "flow.toml", "--run-dir", "r", "--progress", "none", "--slots", "1")
    most = 0
    while going.poll() is None:
        most = max(most, agent_memory(f"{directory}/r"))
        time.sleep(0.05)
    same(going.returncode, 0, read(f"{directory}/harrow.out").decode())
    same(read(f"{directory}/n").split(), [str(size).encode()])
    check(0 < most < 200, "the agent held", most, "MiB")


def held_of(run_dir):
    """What the server and the agents have: the most descriptors in one table, and the most memory so far (MiB)."""
    most = {}
    for role in ("server", "inner"):
        files, memory = 0, 0
        for pid in of_run(run_dir, role):
            with contextlib.suppress(OSError):
                files = max([files] + [len(os.listdir(f"/proc/{pid}/task/{thread}/fd")) for thread in os.listdir(f"/proc/{pid}/task")])
                with open(f"/proc/{pid}/status", encoding="utf-8") as f:
                    memory = max([memory] + [int(line.split()[1]) / 1024 for line in f if line.startswith("VmHWM")])
        most[role] = (files, memory)
    return most


def test_ten_thousand_streams(directory, program):
    """All are open at once, read up to here, until one that writes to all of them ends. No process has a descriptor for each (or for
    each of a node's 250 logs), nor 64 KiB (of a node's 2500)."""
    writers, readers = 1000, 10
    tasks = [task("w-{i}", "seq {i}00 {i}19", each={"i": f"1000-{999 + writers}"}, target=[f"s-{{i}}-{j}" for j in range(readers)]),
             task("last", "echo last; while ! test -e go; do sleep 0.05; done", target=["s-*"]),
             task("r-{j}", "cat > got-{j}", each={"j": f"0-{readers - 1}"}, source=["s-*-{j}"])]
    harrow, going = going_on(directory, program, tasks, "--local-nodes", "4", "--slots", "4")

    held = {"server": (0, 0), "inner": (0, 0)}

    def all_read():
        check(going.poll() is None, "it ended too soon:", read(f"{directory}/harrow.out").decode())
        for role, now in held_of(f"{directory}/r").items():
            held[role] = tuple(map(max, held[role], now))
        names = [f"{directory}/got-{j}" for j in range(readers)]
        return all(os.path.exists(name) and os.path.getsize(name) == writers * (20 * len("100000\n") + len("last\n")) for name in names)

    wait_for(all_read)
    write(f"{directory}/go", "")
    same(going.wait(timeout=120), 0, read(f"{directory}/harrow.out").decode())
    lines = collections.Counter([str(i * 100 + n) for i in range(1000, 1000 + writers) for n in range(20)] + ["last"] * writers)
    for j in range(readers):
        same(collections.Counter(read(f"{directory}/got-{j}").decode().split()), lines)
    print("descriptors and MiB:", held)
    for files, memory in held.values():
        check(0 < files < 200 and 0 < memory < 150, held)


def test_a_run_that_is_resumed(directory, program):
    """What was written is gone with the nodes: who has it yet to read has it written again, and what is done stays done."""
    tasks = [task("w", "echo w >> ran; seq 1000", target=["s"]), task("quick", "echo quick >> ran; cat > quick", source=["s"]),
             task("slow", "echo slow >> ran; test -e go || sleep 600; cat > slow", source=["s"])]
    write(f"{directory}/flow.toml", "".join(tasks))
    harrow = Harrow(program, directory)
    going = harrow.start("run", "flow.toml", "--run-dir", "r", "--progress", "none", *NODES)
    wait_for(lambda: os.path.exists(f"{directory}/quick") and json.loads(
        harrow("status", "--run-dir", "r", "--json").out or "{}").get("tasks", {}).get("done") == 2)
    kill(going.pid, 2)
    same(going.wait(timeout=120), 130)
    same(states(directory), {"w": "done", "quick": "done", "slow": "open"})
    write(f"{directory}/go", "")
    harrow("run", "--resume", "--run-dir", "r", "--progress", "none", *NODES, code=0)
    numbers = "".join(f"{n}\n" for n in range(1, 1001)).encode()
    same(read(f"{directory}/slow"), numbers)
    same(collections.Counter(read(f"{directory}/ran").split()), {b"w": 2, b"quick": 1, b"slow": 2})
    same(states(directory), {"w": "done", "quick": "done", "slow": "done"})


def test_what_people_are_told(directory, program):
    tasks = [task("w", "echo to the stream; echo to stderr >&2; while ! test -e go; do sleep 0.05; done", target=["s"]),
             task("r", "head -n 1", source=["s"])]
    write(f"{directory}/flow.toml", "".join(tasks))
    harrow = Harrow(program, directory)
    check("streams" in harrow("check", "flow.toml", code=0).out)
    going = harrow.start("run", "flow.toml", "--run-dir", "r", "--progress", "none", *NODES)
    wait_for(lambda: "is done when the tasks whose streams it read are" in harrow("explain", "r", "--run-dir", "r").out)
    write(f"{directory}/go", "")
    same(going.wait(timeout=120), 0)
    same(harrow("logs", "r", "--run-dir", "r", "--quiet", code=0).out, "to the stream\n")
    logs = harrow("logs", "w", "--run-dir", "r", "--quiet", code=0)
    same((logs.out, logs.err), ("", "to stderr\n"), "what goes to a stream is in no log")


# --- figure 1 of paper 001

M, N = 3, 2


def figure_1(lines):
    """T1 makes lines, T2 of each of M maps them, T3 of each of M N reduces what its T2 has made."""
    return [task("make", f"for n in $(seq {lines}); do echo $n; sleep 0.002; done", target=["made"]),
            task("map-{k}", "while read -r n; do echo $((n * {k})); done", each={"k": f"1-{M}"}, source=["made"], target=["mapped-{k}"])] + [
                task(f"reduce-{k}-{{j}}", f"awk '{{{{ s += $1 }} END {{{{ print NR, s }}' > sum-{k}-{{j}}", each={"j": f"1-{N}"},
                     source=[f"mapped-{k}"]) for k in range(1, M + 1)]


def test_the_papers_net_while_anything_is_killed(directory, program):
    """Each output is that of a serial pipeline, whatever dies."""
    seeds = [int(os.environ["HARROW_SEED"])] if os.environ.get("HARROW_SEED") else [
        time.time_ns() % 10**9 + i for i in range(100 if LONG else 3)]
    lines = 400
    total = lines * (lines + 1) // 2
    for seed in seeds:
        print("HARROW_SEED =", seed, flush=True)
        rng = random.Random(seed)
        with work_dir() as here:
            marker = f"harrow-streams-{os.getpid()}-{seed}"
            write(f"{here}/flow.toml", "[flow]\nretries = 30\nmax_losses = 200\n" +
                  "".join(figure_1(lines)).replace("done", f"done; : {marker}"))
            harrow = Harrow(program, here)
            options = ["--progress", "none", *NODES]
            going = harrow.start("run", "flow.toml", "--run-dir", "r", *options)
            for _ in range(rng.randrange(1, 6)):
                time.sleep(rng.uniform(0.05, 1.2))
                role = rng.choice(["server", "inner", "agent", "task", "task", "keeper"])
                if role == "task":
                    alive = [pid for pid in with_word(marker) if pid != going.pid]
                else:
                    alive = of_run(f"{here}/r", role)
                if not alive or going.poll() is not None:
                    continue
                kill(rng.choice(alive))
                if role == "keeper":
                    same(going.wait(timeout=60), -9)
                    wait_for(lambda: not with_word(f"{here}/r"))
                    going = harrow.start("run", "--resume", "--run-dir", "r", *options)
            same(going.wait(timeout=600), 0, "seed", seed, read(f"{here}/harrow.out").decode()[-3000:])
            for k in range(1, M + 1):
                for j in range(1, N + 1):
                    same(read(f"{here}/sum-{k}-{j}").decode().split(), [str(lines), str(total * k)], "seed", seed, "reduce", k, j)
            same(query(f"{here}/r", "SELECT count(*) FROM tasks WHERE state = 'done'"), [(1 + M + M * N,)])
            wait_for(lambda: not with_word(marker))


if __name__ == "__main__":
    run_support.tell(lambda: run_support.tests_of(sys.modules["__main__"], os.path.abspath(sys.argv[1])))
