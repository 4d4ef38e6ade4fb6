#!/usr/bin/env python3
"""Tasks that make tasks, joined by streams: they are connected while the run goes on, by commands, files and the library, with one slot
and several, while servers are killed, and resumed.

usage: submit_streams.py HARROW [test_...]"""
import json
import os
import sys

import run_support
from run_support import Harrow, check, kill, lines_of, of_run, same, wait_for, write
from join_support import Run
from submit import HELD, Held, successes


def state(run, name):
    return run.harrow("explain", "--run-dir", "r", name, code=0).out


def test_writers_and_readers_are_connected_while_a_stream_is_open(directory, program):
    with Held(directory, program, slots=4) as run:
        run.submit("--open-stream", "s")
        run.submit("--name", "early", "--from", "s", "sh", "-c", "sort > early.out")
        check("held open" in state(run, "early"), state(run, "early"))
        run.submit("--wait", "--name", "w1", "--to", "s", "seq", "3")
        run.submit("--wait", "--name", "w2", "--to", "s", "seq", "4", "6")
        # It gets what was written before.
        run.submit("--name", "late", "--from", "s", "sh", "-c", "sort > late.out")
        run.submit("--wait", "--name", "w3", "--to", "s", "seq", "7", "9")
        run.submit("--close-stream", "s")
        run.end()
        for name in ("early", "late"):
            same(lines_of(f"{directory}/{name}.out"), [str(n) for n in range(1, 10)])
        check("is over" in run.submit("--to", "s", "true", code=2).err)


def test_what_has_ended_is_refused(directory, program):
    with Held(directory, program) as run:
        run.submit("--wait", "--name", "w", "--to", "s", "echo", "w")
        for option in ("--to", "--from"):
            refused = run.submit(option, "s", "cat", code=2).err
            check("stream s has ended" in refused and "--open-stream" in refused, refused)
        check("has ended" in run.submit("--open-stream", "s", code=2).err)
        check("no task writes stream 'none'" in run.submit("--from", "none", "cat", code=2).err)
        check("there is no stream 'none'" in run.submit("--close-stream", "none", code=2).err)
        check("stand alone" in run.submit("--close-stream", "none", "true", code=2).err)
        run.submit("--open-stream", "t")
        run.submit("--name", "r", "--from", "t", "--to", "u", "cat")
        check("circle" in run.submit("--name", "x", "--from", "u", "--to", "t", "cat", code=2).err)
        check("write the same share" in run.submit("--from", "t", "--share", "split", "cat", code=2).err)
        check("share cannot be" in run.submit("--from", "t", "--share", "some", "cat", code=2).err)
        run.submit("--close-stream", "t")
        run.end()
        same(successes(directory)["r"], 1)


def test_a_task_makes_a_pipeline(directory, program):
    """With one slot, too: what reads what is open gives it to who writes."""
    write(f"{directory}/driver.sh", f"""#!/bin/sh -e
{program} submit --open-stream found
{program} submit --name all --from found sh -c 'sort -n > all.out'
for i in 1 2 3; do {program} submit --name "search-$i" --to found seq "$i" 3 9; done
""", 0o755)
    write(f"{directory}/flow.toml", '[[task]]\nname = "driver"\ncommand = "./driver.sh"\n')
    for slots in "1", "3":
        harrow = Harrow(program, directory)
        harrow("run", "flow.toml", "--run-dir", f"r{slots}", "--slots", slots, "--progress", "none", code=0)
        same(lines_of(f"{directory}/all.out"), [str(n) for n in range(1, 10)], slots)
        os.remove(f"{directory}/all.out")


def test_a_task_that_makes_a_pipeline_is_tried_again(directory, program):
    """After it has closed its stream, which has ended; and once more when the run is resumed, with the flow named again."""
    write(f"{directory}/driver.sh", f"""#!/bin/sh -e
{program} submit --open-stream found
{program} submit --name all --from found sh -c 'sort -n > all.out'
for i in 1 2 3; do {program} submit --name "search-$i" --to found seq "$i" 3 9; done
{program} submit --close-stream found
until test -s all.out; do sleep 0.05; done
echo tried >> times
test "$(wc -l < times)" -ge 3
""", 0o755)
    write(f"{directory}/flow.toml", '[[task]]\nname = "driver"\ncommand = "./driver.sh"\nretries = 1\n')
    harrow = Harrow(program, directory)
    harrow("run", "flow.toml", "--run-dir", "r", "--slots", "3", "--progress", "none", code=1)
    same(len(lines_of(f"{directory}/times")), 2)
    harrow("run", "--resume", "--run-dir", "r", "flow.toml", "--slots", "3", "--progress", "none", code=0)
    same(len(lines_of(f"{directory}/times")), 3)
    same(lines_of(f"{directory}/all.out"), [str(n) for n in range(1, 10)])
    same(successes(directory), {"driver": 1, "all": 1, "search-1": 1, "search-2": 1, "search-3": 1})


def test_a_flow_that_no_longer_says_that_a_stream_is_open(directory, program):
    flow = '[[task]]\nname = "w"\ncommand = "echo 1"\nto = ["s"]\n[[task]]\nname = "r"\ncommand = "cat > r.out"\nfrom = ["s"]\n'
    write(f"{directory}/flow.toml", '[[stream]]\nname = "s"\nopen = true\n' + flow)
    harrow = Harrow(program, directory)
    process = harrow.start("run", "flow.toml", "--run-dir", "r", "--slots", "3")
    try:
        wait_for(lambda: "Stream s is held open" in harrow("explain", "--run-dir", "r", "r").out)
        harrow("submit", "--run-dir", "r", "--name", "w2", "--to", "s", "echo", "2", code=0)
        harrow("submit", "--run-dir", "r", "--name", "r2", "--from", "s", "sh", "-c", "cat > r2.out", code=0)
        wait_for(lambda: all(sorted(lines_of(f"{directory}/{name}.out")) == ["1", "2"] for name in ("r", "r2")))
        kill(process.pid, 2)
        same(process.wait(60), 130)
    finally:
        process.kill()
    write(f"{directory}/split.toml", flow + 'share = "split"\n')
    resume = ("run", "--resume", "--run-dir", "r", "--progress", "none")
    refused = harrow(*resume, "split.toml", code=2).err
    check("stream s has another share in the flow now" in refused, refused)
    write(f"{directory}/flow.toml", flow)
    harrow(*resume, "flow.toml", timeout=60, code=0)
    for name in ("r", "r2"):
        same(sorted(lines_of(f"{directory}/{name}.out")), ["1", "2"])


def test_one_slot_that_a_reader_has(directory, program):
    """The stream is held from outside, and who reads it runs already when others are connected."""
    write(f"{directory}/flow.toml", '[[stream]]\nname = "s"\nopen = true\n[[task]]\nname = "w"\ncommand = "echo 1"\nto = ["s"]\n'
          '[[task]]\nname = "r"\ncommand = "cat > r.out"\nfrom = ["s"]\n')
    harrow = Harrow(program, directory)
    process = harrow.start("run", "flow.toml", "--run-dir", "r", "--slots", "1")
    try:
        wait_for(lambda: os.path.exists(f"{directory}/r.out"))
        for n in range(2, 5):
            harrow("submit", "--wait", "--run-dir", "r", "--name", f"w{n}", "--to", "s", "echo", str(n), code=0)
        harrow("submit", "--run-dir", "r", "--close-stream", "s", code=0)
        same(process.wait(60), 0)
    finally:
        process.kill()
    same(sorted(lines_of(f"{directory}/r.out")), ["1", "2", "3", "4"])


def test_files_of_tasks_join_what_is_there(directory, program):
    """One to all, one to one and in blocks; a line file and a flow file."""
    with Held(directory, program, slots=4) as run:
        run.submit("--open-stream", "lines")
        write(f"{directory}/more.toml", """
[[task]]
name = "map-{i}"
each = { i = "0-1" }
command = "sed s/^/{i}-/"
from = ["lines"]
to = ["part-{i}"]
[[task]]
name = "reduce-{i}-{k}"
each = { i = "0-1", k = "0-1" }
command = "sort > reduce-{i}-{k}.out"
from = ["part-{i}"]
[[task]]
name = "all"
command = "sort > all.out"
from = ["part-*"]
""")
        same(run.submit("--file", "more.toml").out.split(),
             ["map-0", "map-1", "reduce-0-0", "reduce-0-1", "reduce-1-0", "reduce-1-1", "all"])
        run.submit("--wait", "--file", "-", stdin="#HARROW to=lines\necho a\necho b\n")
        run.submit("--close-stream", "lines")
        run.end()
        for i in "01":
            for k in "01":
                same(lines_of(f"{directory}/reduce-{i}-{k}.out"), [f"{i}-a", f"{i}-b"])
        same(lines_of(f"{directory}/all.out"), ["0-a", "0-b", "1-a", "1-b"])


def test_json_lines_from_a_program(directory, program):
    with Held(directory, program, slots=3) as run:
        lines = "".join(json.dumps({"name": f"w{n}", "command": ["echo", f"{n} a"], "to": ["s"]}) + "\n" for n in range(3))
        lines += json.dumps({"name": "r", "command": "sort > r.out", "from": ["s"]}) + "\n"
        same(run.submit("--file", "-", stdin=lines).out.split(), ["w0", "w1", "w2", "r"])
        check("standard input:1:" in run.submit("--file", "-", stdin='{"name": "x", "command": "x", "from": "none", "nam": 1}\n', code=2).err)
        run.end()
        same(lines_of(f"{directory}/r.out"), ["0 a", "1 a", "2 a"])


def test_who_shares_a_stream_may_come_later(directory, program):
    with Held(directory, program, slots=6) as run:
        run.submit("--open-stream", "s")
        for n in range(2):
            run.submit("--name", f"r{n}", "--from", "s", "--share", "split", "sh", "-c", f"cat > r{n}.out")
        run.submit("--wait", "--name", "w0", "--to", "s", "seq", "1", "2000")
        run.submit("--name", "r2", "--from", "s", "--share", "split", "sh", "-c", "cat > r2.out")
        run.submit("--wait", "--name", "w1", "--to", "s", "seq", "2001", "4000")
        run.submit("--close-stream", "s")
        run.end()
        got = [line for n in range(3) for line in lines_of(f"{directory}/r{n}.out")]
        same(sorted(map(int, got)), list(range(1, 4001)))


def test_nothing_that_was_connected_is_lost(directory, program):
    """Servers and the keeper are killed while writers are connected; the run is resumed."""
    with Held(directory, program, slots=3) as run:
        run.submit("--open-stream", "s")
        for n in range(2):
            run.submit("--name", f"r{n}", "--from", "s", "sh", "-c", f"sort -n > r{n}.out")
        said = []

        def connect():
            name = len(said)
            result = run.harrow("submit", "--run-dir", "r", "--name", f"w{name}", "--to", "s", "seq", str(10 * name), str(10 * name + 9))
            if result.code == 0:
                said.append(name)
            return result.code == 0

        for role in ("server", "agent", "server"):
            for _ in range(4):
                wait_for(connect)
            kill(wait_for(lambda: of_run(f"{directory}/r", role))[0])
        for _ in range(3):
            wait_for(connect)
        kill(wait_for(lambda: of_run(f"{directory}/r", "keeper"))[0])
        run.process.wait(60)
        wait_for(lambda: not of_run(f"{directory}/r", "server") and not of_run(f"{directory}/r", "agent"))
        # With the flow named again; the stream is still open.
        run.go()
        run.process = run.harrow.start("run", "--resume", "--run-dir", "r", "flow.toml", "--slots", "3")
        wait_for(connect)
        run.submit("--close-stream", "s")
        same(run.process.wait(120), 0)
        lines = [str(n) for n in range(10 * len(said))]
        for n in range(2):
            same(lines_of(f"{directory}/r{n}.out"), lines, n)


def test_another_allocation_takes_them_over(directory, program):
    """The one in which the run began is killed; what is open, and the stream itself, is the next one's."""
    with Run(directory, program, HELD, 2) as run:
        run.join(3)

        def submit(*args):
            return run.harrow("submit", "--run-dir", "r", *args)

        same([submit(*args).code for args in (["--open-stream", "s"], ["--name", "r", "--from", "s", "sh", "-c", "sort -n > r.out"],
                                              ["--wait", "--name", "w0", "--to", "s", "seq", "3"])], [0, 0, 0])
        kill(wait_for(lambda: of_run(run.part(0), "keeper"))[0])
        run.keepers[0].wait(60)
        wait_for(lambda: submit("--name", "w1", "--to", "s", "seq", "4", "6").code == 0)
        same(submit("--close-stream", "s").code, 0)
        write(f"{directory}/go", "")
        same(run.keepers[1].wait(120), 0)
        same(lines_of(f"{directory}/r.out"), list("123456"))


if __name__ == "__main__":
    run_support.tell(lambda: run_support.tests_of(sys.modules[__name__], os.path.abspath(sys.argv[1])))
