#!/usr/bin/env python3
"""harrow sim and harrow replay as commands: output, errors, determinism, pictures.

usage: sim_cli.py HARROW SOURCE_DIR"""
import json
import os
import re
import subprocess
import sys
import xml.dom.minidom

from run_support import Harrow, check, same, tell, tests_of, write

FLOW = "".join(f"T\ta{i}\tmake\t{1 + i % 3}\nO\ta{i}\tf{i}\nF\tf{i}\t1000000\nT\tb{i}\tuse\t2\nI\tb{i}\tf{i}\n" for i in range(20))


def test_same_input_and_seed_same_bytes(directory, harrow_program, source):
    harrow = Harrow(harrow_program, directory)
    flow = os.path.join(source, "contrib/evaluation/copyfile.toml")
    args = ["sim", "--cluster", os.path.join(source, "contrib/evaluation/tohoku.toml"), "--nodes", "10x1", "--order", "rank+hrf", flow]
    first, again, other = harrow(*args, "--json", code=0), harrow(*args, "--json", code=0), harrow(*args, "--json", "--seed", "2", code=0)
    same(first.out, again.out)
    check(first.out != other.out, "another seed changes nothing")
    same(harrow(*args, "--compare", code=0).out, harrow(*args, "--compare", code=0).out)
    document = json.loads(first.out)
    same(document["tasks"]["done"], 200)
    check(document["makespan_s"] >= document["lower_bound_s"])


def test_pictures(directory, harrow_program, source):
    harrow = Harrow(harrow_program, directory)
    write(os.path.join(directory, "f.dag.tsv"), FLOW)
    harrow("sim", "--nodes", "2x2", "--plot", "run.svg", "f.dag.tsv", code=0)
    text = xml.dom.minidom.parse(os.path.join(directory, "run.svg")).toxml()
    check("make" in text and "use" in text, text[:500])


def test_local_files(directory, harrow_program, source):
    harrow = Harrow(harrow_program, directory)
    write(os.path.join(directory, "f.dag.tsv"), FLOW)
    plain = json.loads(harrow("sim", "--nodes", "2x2", "--json", "f.dag.tsv", code=0).out)
    check("home_share" not in plain and "files" not in plain, plain)
    local = json.loads(harrow("sim", "--nodes", "2x2", "--files", "local", "--json", "f.dag.tsv", code=0).out)
    same((local["files"], local["place"], local["tasks"]["done"]), ("local", "submit", 40))
    check(0.5 < local["home_share"] <= local["present_share"] <= 1, local)
    same(local["bytes_moved"], local["input_bytes"]["remote"])
    harrow.env["HARROW_FILES"] = "local"
    text = harrow("sim", "--nodes", "2x2", "--inputs", "round-robin", "f.dag.tsv", code=0).out
    check("at home" in text and "back to it" in text, text)
    done = harrow("sim", "--nodes", "2x2", "--inputs", "here", "f.dag.tsv", code=2)
    check("submit, round-robin, spread or random" in done.err, done)
    full = harrow("sim", "--nodes", "2x2", "--local-limit", "999999", "f.dag.tsv", code=1)
    check("20 attempts failed, first for f" in full.out and "(976.6 KiB) where a node may hold 976.6 KiB" in full.out, full)
    harrow("sim", "--nodes", "2x2", "--local-limit", "20M", "f.dag.tsv", code=0)
    check("--local-limit cannot be 0" in harrow("sim", "--nodes", "2x2", "--local-limit", "0", "f.dag.tsv", code=2).err)
    del harrow.env["HARROW_FILES"]
    check("--files local" in harrow("sim", "--nodes", "2x2", "--local-limit", "1M", "f.dag.tsv", code=2).err)
    check("--files local" in harrow("sim", "--nodes", "2x2", "--inputs", "spread", "f.dag.tsv", code=2).err)


STREAMS = """[[task]]
name = "make-{i}"
each = { i = "1-8" }
command = "make 2000000 300000000"
to = ["s-{i}"]
model = "compute(@arg[0]) output(@arg[1])"

[[task]]
name = "use-{i}"
each = { i = "1-8" }
command = "use"
from = ["s-{i}"]
model = "WHILE input(1000) compute(5) END"
"""


def test_streams_and_where_they_are_placed(directory, harrow_program, source):
    harrow = Harrow(harrow_program, directory)
    write(os.path.join(directory, "f.toml"), STREAMS)
    write(os.path.join(directory, "c.toml"), '[[node]]\ncount = 4\ncores = 4\n[network]\nnic = "100MB/s"\n')
    told = {}
    for how in ("files", "cost-paper", "cost"):
        told[how] = json.loads(harrow("sim", "--cluster", "c.toml", "--place", how, "--json", "f.toml", code=0).out)
        same(told[how]["tasks"]["done"], 16)
        check(told[how]["makespan_s"] >= told[how]["lower_bound_s"] - 1e-9, told[how])
    same(told["cost"]["bytes_moved"], 0)
    same(told["cost"]["makespan_s"], 2)  # each reader beside its writer
    same(told["cost-paper"]["bytes_moved"], 0)
    done = harrow("sim", "--nodes", "2x2", "--place", "spread", "f.toml", code=2)
    check("files | cost-paper | cost" in done.err, done)
    check("a number above 0, or auto" in harrow("sim", "--nodes", "2x2", "--tg-max", "0", "f.toml", code=2).err)
    harrow("sim", "--nodes", "2x2", "--place", "cost", "--tg-max", "3", "--ct-max", "auto", "f.toml", code=0)
    check("nodes" in harrow("plan", "--nodes", "x2", "--place", "cost", "f.toml", code=0).out)


def test_settings_are_those_of_a_run(directory, harrow_program, source):
    harrow = Harrow(harrow_program, directory)
    write(os.path.join(directory, "f.toml"), '[[task]]\nname = "t-{i}"\neach = { i = "1-8" }\ncommand = "x"\nrun_time = "1s"\n')
    write(os.path.join(directory, "g.toml"), '[flow]\norder = "lifo"\n' + open(os.path.join(directory, "f.toml"), encoding="utf-8").read())

    def order(*args, flow="f.toml", **env):
        harrow.env = {**{k: v for k, v in harrow.env.items() if k not in ("HARROW_ORDER", "HARROW_SLOTS", "HARROW_LOCAL_NODES", "HARROW_SEED")}, **env}
        return json.loads(harrow("sim", "--json", *args, flow, code=0).out)

    nodes = ["--nodes", "1x2"]
    same(order(*nodes)["order"], "auto")
    same(order(*nodes, HARROW_ORDER="hrf")["order"], "hrf")
    write(os.path.join(directory, "harrow.conf"), 'order = "fifo"\n')
    same(order(*nodes)["order"], "fifo")
    same(order(*nodes, HARROW_ORDER="hrf")["order"], "hrf")
    same(order(*nodes, HARROW_ORDER="hrf", flow="g.toml")["order"], "lifo")
    same(order(*nodes, "--order", "rank+hrf", HARROW_ORDER="hrf", flow="g.toml")["order"], "rank+hrf")
    # This machine, as a run would divide it.
    same(order(HARROW_SLOTS="4")["makespan_s"], 2.0)
    same(order(HARROW_SLOTS="2", HARROW_LOCAL_NODES="4")["makespan_s"], 1.0)
    write(os.path.join(directory, "harrow.conf"), 'order = "best"\n')
    for command in (["sim", *nodes], ["check"], ["run"]):
        done = harrow(*command, "f.toml", code=2)
        check("harrow.conf:1:9: order cannot be" in done.err, done)


def test_check_says_what_can_be_done_with_a_recorded_flow(directory, harrow_program, source):
    harrow = Harrow(harrow_program, directory)
    write(os.path.join(directory, "f.dag.tsv"), FLOW)
    done = harrow("check", "f.dag.tsv", code=0)
    check("harrow run cannot run it" in done.out and "harrow replay" in done.out, done)
    write(os.path.join(directory, "f.txt"), "x\n")
    check("replay" not in harrow("check", "f.txt", code=0).out)
    # Tasks of several nodes are counted and simulated; keys that contradict each other are told before anything starts.
    write(os.path.join(directory, "g.toml"), '[[task]]\nname = "a"\ncommand = "x"\nrun_time = "1s"\nranks = 8\nranks_per_node = 4\n')
    said = harrow("check", "g.toml", code=0).out
    check(re.search(r"^ranks +8 +of 1 MPI task$", said, re.M) and re.search(r"^nodes +2 ", said, re.M), said)
    counts = json.loads(harrow("check", "--json", "g.toml", code=0).out)
    check(counts["ranks"] == 8 and counts["most_nodes"] == 2 and counts["cores"] == 8, counts)
    for nodes in ("2x4", "4x2"):
        done = json.loads(harrow("sim", "--nodes", nodes, "--json", "g.toml", code=0 if nodes == "2x4" else 1).out)
        check(done["tasks"]["done"] == (1 if nodes == "2x4" else 0), nodes, done)
    write(os.path.join(directory, "g.toml"), '[[task]]\nname = "a"\ncommand = "x"\nrun_time = "1s"\nranks = 8\n')
    for nodes in ("1x8", "4x2", "2x5"):
        done = json.loads(harrow("sim", "--nodes", nodes, "--json", "g.toml", code=0).out)
        check(done["tasks"]["done"] == 1 and done["core_s"] == 8, nodes, done)
    write(os.path.join(directory, "g.toml"), '[[task]]\nname = "a"\ncommand = "x"\nrun_time = "1s"\nranks = 2\nnodes = 3\n')
    for command in (["check"], ["run", "--run-dir", "r"], ["run", "--dry-run"], ["sim"]):
        done = harrow(*command, "g.toml", code=2)
        check(done.err.startswith("g.toml:6:9: nodes are 3, and the task has only 2 ranks"), command, done)
    check(not os.path.exists(os.path.join(directory, "r")))


def test_errors(directory, harrow_program, source):
    harrow = Harrow(harrow_program, directory)
    write(os.path.join(directory, "f.dag.tsv"), FLOW)
    write(os.path.join(directory, "bad.toml"), '[[node]]\ncores = 2\n[storage]\nwrite = "0MiB/s"\nwrit = 1\n')
    done = harrow("sim", "--cluster", "bad.toml", "f.dag.tsv", code=2)
    check("bad.toml:4:9: write is no rate above 0; " in done.err and "bad.toml:5:1: unknown key writ; did you mean write?" in done.err, done)
    for args, words in [(["--nodes", "0x8"], "--nodes cannot be"), (["--nodes", "4"], "write 4x8"), (["--io", "model"], "give --cluster"),
                        (["--io", "some"], "write none or model"), (["--cluster", "absent.toml"], "absent.toml:1:1: "), (["--order", "best"], "fifo, lifo"),
                        (["--leave-out", "mak"], "did you mean make")]:
        done = harrow("sim", *args, "f.dag.tsv", code=2)
        check(words in done.err, args, done)
    write(os.path.join(directory, "t.txt"), "echo a\n")
    check("t.txt:1:1: the run time of task #1 is not known" in harrow("sim", "t.txt", code=2).err)
    check("makespan          5.000 s" in harrow("sim", "--run-time", "5s", "t.txt", code=0).out)
    check("harrow replay" in harrow("run", "f.dag.tsv", code=2).err)
    check("--time-scale" in harrow("replay", "--time-scale", "-1", "f.dag.tsv", code=2).err)


def test_tasks_that_fit_nowhere(directory, harrow_program, source):
    harrow = Harrow(harrow_program, directory)
    write(os.path.join(directory, "f.dag.tsv"), "T\twide\tk\t1\t4\nT\tnarrow\tk\t2\n")
    done = harrow("sim", "--nodes", "2x2", "f.dag.tsv", code=1)
    check("1 task asks for more than the cluster has, first wide (4 cores)" in done.err and "--one-core" in done.err, done)
    check("1 done, 1 failed" in done.out and "times the lower bound" not in done.out, done)
    check("only 1 of 2 tasks done" in harrow("sim", "--compare", "--nodes", "2x2", "f.dag.tsv", code=1).out)
    check("2 done" in harrow("sim", "--one-core", "--nodes", "2x2", "f.dag.tsv", code=0).out)
    write(os.path.join(directory, "ranks.txt"), "#HARROW ranks=4\n./spread\n#HARROW ranks=5\n./many\n#HARROW ranks=2 cores=3\n./wide\n")
    done = harrow("sim", "--run-time", "1s", "--nodes", "2x2", "ranks.txt", code=1)
    check("2 tasks ask for more than the cluster has, first #2 (5 cores)" in done.err and "1 done, 2 failed" in done.out, done)


def test_replay_says_what_it_writes(directory, harrow_program, source):
    harrow = Harrow(harrow_program, directory)
    write(os.path.join(directory, "f.dag.tsv"), f"T\ta\tk\t-1\nF\tf\t{1 << 50}\nO\ta\tf\nF\tg\t1000\nO\ta\tg\n")
    full = harrow("replay", "--run-time", "0s", "--size-scale", "1", "f.dag.tsv", code=2)
    check("the stand-ins write 1024 TiB below " in full.err or "the stand-ins write 1.0 PiB below " in full.err, full)
    check("are free; give a smaller --size-scale than 1" in full.err, full)
    check("f.dag.tsv:1:7: a task's time in seconds -1 is read as unknown" in full.err, full)
    check(not os.path.exists(os.path.join(directory, "harrow-replay")), "written all the same")
    small = harrow("replay", "--run-time", "0s", "--size-scale", "1e-9", "f.dag.tsv", code=0)
    check("harrow: the stand-ins write 1.1 MiB below " in small.err or "harrow: the stand-ins write 1.0 MiB below " in small.err, small)


def test_replay_reads_and_writes(directory, harrow_program, source):
    harrow = Harrow(harrow_program, directory)
    write(os.path.join(directory, "f.dag.tsv"), FLOW.replace("T\ta0\t", "I\ta0\tsome/in put\nF\tsome/in put\t2000000\nT\ta0\t"))
    done = harrow("replay", "--time-scale", "0.01", "--size-scale", "0.5", "--local-nodes", "2", "--slots", "2", "--run-dir", "run", "--json", "f.dag.tsv", code=0)
    document = json.loads(done.out)
    same((document["tasks"]["done"], document["tasks"]["failed"]), (40, 0))
    sizes = sorted(os.path.getsize(os.path.join(directory, "harrow-replay/files", name)) for name in os.listdir(os.path.join(directory, "harrow-replay/files")))
    same(sizes, [500000] * 20 + [1000000])
    for name in os.listdir(os.path.join(directory, "harrow-replay/files")):
        with open(os.path.join(directory, "harrow-replay/files", name), "rb") as f:
            check(f.read(100).startswith(name.encode()), name, "does not begin with its name")
    # The generated flow can be run, checked and simulated as any other.
    check("no problem found" in harrow("check", "harrow-replay/flow.json", code=0).out)
    check("40 done" in harrow("sim", "--nodes", "2x2", "harrow-replay/flow.json", code=0).out)


def test_replay_with_local_files(directory, harrow_program, source):
    harrow = Harrow(harrow_program, directory)
    write(os.path.join(directory, "f.dag.tsv"), FLOW)
    args = ["replay", "--files", "local", "--time-scale", "0.05", "--local-nodes", "2", "--slots", "2", "--no-locality", "--json"]
    document = json.loads(harrow(*args, "f.dag.tsv", code=0).out)
    same(document["tasks"]["done"], 40)
    # As it comes; it may be nothing.
    same(document["bytes_moved"], document["input_bytes"]["remote"], "files of one size are told apart")
    done = harrow(*args, "--dir", "/tmp/elsewhere", "f.dag.tsv", code=2)
    check("does not lie there" in done.err, done)


def test_recorded_trees_are_compared(directory, harrow_program, source):
    """A search tree of 61 nodes, as bmi-serial records it; broken off and taken up again."""
    os.mkdir(os.path.join(directory, "trees"))
    nodes = [f"{n}\t{(n - 1) // 2 if n else -1}\t{0.01 + n % 5 / 500}\t{3 + n / 100}\t{2 if n < 30 else 0}\n" for n in range(61)]
    write(os.path.join(directory, "trees/RD05-05.tsv"), "".join(nodes))

    def compare(program, *words):
        return subprocess.run([os.path.join(source, "contrib/evaluation/moves"), "--harrow", program, "--trees", "trees", "--instance", "RD05-05", "--seeds", "3",
                               *words], cwd=directory, capture_output=True, text=True, check=False)
    whole = compare(harrow_program, "--crossed", "--json", "kept")
    same(whole.returncode, 0, whole.stderr)
    rows = [line for line in whole.stdout.splitlines() if re.match(r"(yes|no) +[0-9]+ +[AB] ", line)]
    same(len(rows), 80)
    # All nodes are in the four groups.
    same({round(8 * sum(float(word) for word in row.split()[-4:])) // 4 for row in rows}, {15}, rows[0])
    check(whole.stdout.count("of the paper's order") == 20 and "Amounts, B - A" in whole.stdout, whole.stdout)
    # The last simulation was broken off while it was written: it alone is made again.
    path = os.path.join(directory, "kept")
    kept = open(path, encoding="utf-8").read()
    same(len(kept.splitlines()), 2 + 80 * 3)
    write(path, kept[:-20])
    check(compare("/bin/false", "--crossed", "--json", "kept").returncode != 0, "what is missing is not simulated")
    same(compare(harrow_program, "--crossed", "--json", "kept").stdout, whole.stdout)
    same(compare("/bin/false", "--crossed", "--json", "kept").stdout, whole.stdout)
    same(open(path, encoding="utf-8").read(), kept)
    other = compare(harrow_program, "--crossed", "--json", "kept", "--spread", "0.2")
    check(other.returncode == 1 and "name another file" in other.stderr, other)


tell(lambda: tests_of(sys.modules[__name__], sys.argv[1], sys.argv[2]))
