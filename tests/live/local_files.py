#!/usr/bin/env python3
"""Files on the nodes' own disks (--files local), with pretend nodes on this machine: what tasks find, what comes back, what is said
of what they did not declare, and what becomes of files when nodes and servers die.

usage: local_files.py HARROW [test ...]"""
import glob
import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys

import run_support
from run_support import Harrow, Skipped, check, lines_of, query, same, wait_for, write

THREE_NODES = ["--files", "local", "--local-nodes", "3", "--slots", "1"]


def stores():
    return glob.glob(os.path.join(os.environ.get("TMPDIR", "/tmp"), "harrow-*/files"))


def pipeline(directory, tasks=10, sleep=0, held=0):
    """raw/i -> mid/i -> all.txt; raw files hold their number. The last `held` tasks wait for a file `go`."""
    os.makedirs(f"{directory}/raw")
    for i in range(tasks):
        write(f"{directory}/raw/{i}", f"{i}\n")
    write(f"{directory}/flow.toml", f"""
[[task]]
name = "p-{{i}}"
each = {{ i = "0-{tasks - 1}" }}
command = "sleep {sleep}; until [ {{i}} -lt {tasks - held} -o -e {directory}/go ]; do sleep 0.1; done; sed s/^/made/ raw/{{i}} > mid/{{i}}; echo {{i}} >> {directory}/ran"
in = ["raw/{{i}}"]
out = ["mid/{{i}}"]
[[task]]
name = "add"
command = "cat $(ls mid/* | sort -V) > all.txt"
in = ["mid/*"]
out = ["all.txt"]
""")
    return [f"made{i}" for i in range(tasks)]


def test_tasks_find_what_they_declare_and_results_come_back(directory, program):
    harrow = Harrow(program, directory)
    made = pipeline(directory)
    before = set(stores())
    result = harrow("run", "--run-dir", "r", *THREE_NODES, "flow.toml", code=0)
    same(lines_of(f"{directory}/all.txt"), made)
    check("done 11 of 11" in result.out, result)
    check(not os.path.exists(f"{directory}/mid"), "what others read and nobody else wants is not brought back")
    same(set(stores()) - before, set(), "nothing is left on the nodes")


def test_modes_directories_links_and_odd_names(directory, program):
    harrow = Harrow(program, directory)
    odd = "odd \u00e9\nname " + "x" * 200
    os.makedirs(f"{directory}/in/deep/er")
    for name in ("a", "deep/b", "deep/er/c", odd):
        write(f"{directory}/in/{name}", name)
    os.symlink("a", f"{directory}/in/link")
    os.mkdir(f"{directory}/in/empty")
    write(f"{directory}/tool", "#!/bin/sh\ncp -r in copy; chmod -R u+w copy; echo more > copy/more; ls in/empty; mkdir only\n")
    os.chmod(f"{directory}/tool", 0o755)
    write(f"{directory}/flow.toml", """
[[task]]
name = "copy"
command = "./tool"
in = ["in"]
out = ["copy", "only"]
[[task]]
name = "use"
command = "test -x tool2 && cat copy/more copy/deep/er/c > seen; test -d only"
in = ["copy", "only", "tool2"]
out = ["seen"]
[[task]]
name = "make"
command = "printf '#!/bin/sh' > tool2; chmod +x tool2"
out = ["tool2"]
[[task]]
name = "part"
command = "cat copy/deep/b > part; test ! -e copy/more"
in = ["copy/deep/b"]
out = ["part"]
""")
    harrow("run", "--run-dir", "r", *THREE_NODES, "flow.toml", code=0)
    same(open(f"{directory}/seen").read(), "more\ndeep/er/c")
    same(open(f"{directory}/part").read(), "deep/b")


def test_what_is_not_declared_is_named(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/data", "x")
    write(f"{directory}/flow.toml", """
[[task]]
name = "reads"
command = "cat data > out"
out = ["out"]
[[task]]
name = "leaves"
command = "echo x > kept; echo x > left; mkdir more; echo x > more/left"
out = ["kept"]
[[task]]
name = "forgets"
command = "true"
out = ["forgotten"]
[[task]]
name = "plain"
command = "cat data"
""")
    result = harrow("run", "--run-dir", "r", *THREE_NODES, "flow.toml", code=1)
    check("data lies in the submit directory, and not among what the task declares" in result.err, result)
    check("its output forgotten was not written" in result.err, result)
    check("done 2 of 4" in result.out, result)
    same(open(f"{directory}/kept").read(), "x\n")
    check(not os.path.exists(f"{directory}/left"), "what is not declared is dropped")
    dropped = "dropped with its sandbox, as not declared (out = [...]): "
    check(re.search(rf"task leaves: {re.escape(dropped)}(left, more|more, left)", result.err), result)
    explained = harrow("explain", "--run-dir", "r", "leaves").out
    check(re.search(rf"exit 0: {re.escape(dropped)}(left, more|more, left),", explained), explained)
    check("dropped" not in harrow("explain", "--run-dir", "r", "plain").out)


def test_an_input_that_is_missing_is_said(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/flow.toml", """
[[task]]
name = "removes"
command = "rm gone"
[[task]]
name = "t"
command = "cat gone > out"
in = ["gone"]
out = ["out"]
after = ["removes"]
""")
    write(f"{directory}/gone", "x")
    result = harrow("run", "--run-dir", "r", *THREE_NODES, "flow.toml", code=1)
    check("an input of it cannot be read" in result.err and "done 1 of 2" in result.out, result)


def test_an_input_that_a_task_changes_is_seen_by_nobody_else(directory, program):
    """Root may write through a link to a read-only file."""
    harrow = Harrow(program, directory)
    write(f"{directory}/data", "right\n")
    write(f"{directory}/flow.toml", """
[[task]]
name = "first"
command = "chmod u+w data; echo wrong > data; cat data > spoilt"
in = ["data"]
out = ["spoilt"]
[[task]]
name = "second"
command = "cat data > seen"
in = ["data"]
out = ["seen"]
after_any = ["first"]
""")
    result = harrow("run", "--run-dir", "r", "--files", "local", "--slots", "1", "flow.toml")
    same(open(f"{directory}/seen").read(), "right\n")
    same(open(f"{directory}/data").read(), "right\n")
    # Where the disk has reflinks, what it changed was its own.
    check(result.code == 0 or "changed its input data" in result.err, result)


def agents(run_dir, role="inner"):
    """The agent's process of each node."""
    words = {pid: words for pid, (_, words) in run_support.processes().items()}
    return {words[pid][words[pid].index("--node-name") + 1]: pid for pid in run_support.of_run(run_dir, role) if pid in words}


def run_with_kills(directory, program, *roles):
    """Two nodes lose these processes while they hold files that others are still to read."""
    harrow = Harrow(program, directory)
    made = pipeline(directory, tasks=24, sleep=0.1, held=8)
    run = harrow.start("run", "--run-dir", "r", "--files", "local", "--local-nodes", "3", "--slots", "2", "flow.toml")
    ran = f"{directory}/ran"
    for number, after in (("local1", 8), ("local2", 16)):
        wait_for(lambda: os.path.exists(ran) and len(lines_of(ran)) >= after)
        wait_for(lambda: agents(f"{directory}/r").get(number))
        for pid in [agents(f"{directory}/r", role)[number] for role in roles]:
            run_support.kill(pid)
    write(f"{directory}/go", "")
    same(run.wait(180), 0, open(f"{directory}/harrow.out").read())
    same(lines_of(f"{directory}/all.txt"), made)


def test_a_killed_agents_files_are_found_by_the_next(directory, program):
    """Nothing that was done is done again."""
    run_with_kills(directory, program, "inner")
    twice = query(f"{directory}/r", "SELECT task, count(*) FROM attempts WHERE outcome = 'exited' AND code = 0 GROUP BY task HAVING count(*) > 1")
    same(twice, [], "done once")
    check("its agent was started again" in open(f"{directory}/harrow.out").read(), "an agent was killed")


def test_files_that_die_with_their_node_are_made_again(directory, program):
    """With the warden goes what the node held: it is made again."""
    run_with_kills(directory, program, "agent", "inner")
    same(query(f"{directory}/r", "SELECT count(*) FROM tasks WHERE state <> 'done'")[0][0], 0)


def test_what_has_two_replicas_survives_nodes_one_after_the_other(directory, program):
    """Each node that dies is waited for until all that it held has two replicas again: nothing is made twice."""
    harrow = Harrow(program, directory)
    files = 6
    write(f"{directory}/flow.toml", f"""
[[task]]
name = "p-{{i}}"
each = {{ i = "1-{files}" }}
command = "sleep 0.2; yes {{i}} | head -c 1M > mid/{{i}}; echo {{i}} >> {directory}/ran"
out = ["mid/{{i}}"]
replicas = 2
[[task]]
name = "hold"
command = "until test -e {directory}/go; do sleep 0.1; done"
after = ["p-*"]
[[task]]
name = "add"
command = "md5sum mid/* > all.txt"
in = ["mid/*"]
out = ["all.txt"]
after = ["hold"]
""")
    run = harrow.start("run", "--run-dir", "r", *THREE_NODES, "flow.toml")

    def replicas():
        """By node, as the server knows."""
        told = harrow("explain", "--run-dir", "r", "add").out
        return {node: round(float(mib)) for node, mib in re.findall(r"(local\d+) ([0-9.]+) MiB", told)}

    def moved():
        return round(json.loads(harrow("status", "--json", "--run-dir", "r").out)["bytes_moved"] / (1 << 20))

    def all_have_two():
        return sum(replicas().values()) == 2 * files

    wait_for(all_have_two, step=0.2)
    for number in ("local1", "local2"):
        wait_for(lambda: agents(f"{directory}/r").get(number))
        held, before = replicas()[number], moved()
        for pid in [agents(f"{directory}/r", role)[number] for role in ("agent", "inner")]:
            run_support.kill(pid)
        wait_for(lambda: moved() >= before + held and all_have_two(), step=0.2)
    write(f"{directory}/go", "")
    same(run.wait(180), 0, open(f"{directory}/harrow.out").read())
    same(len(lines_of(f"{directory}/ran")), files, "nothing was made twice")
    digests = [hashlib.md5((f"{i}\n".encode() * (1 << 19))[:1 << 20]).hexdigest() for i in range(1, files + 1)]
    same([line.split()[0] for line in lines_of(f"{directory}/all.txt")], digests)


def test_a_copy_of_a_killed_agent_is_not_left_over(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/flow.toml", """
[[task]]
name = "t"
command = "cd deep; head -c 300M /dev/zero > large; mkdir many; for i in $(seq 50); do head -c 1M /dev/zero > many/$i; done"
out = ["deep/large", "deep/many"]
""")
    run = harrow.start("run", "--run-dir", "r", "--files", "local", "--local-nodes", "2", "--slots", "1", "flow.toml")

    def copies():
        return glob.glob(f"{directory}/**/.harrow-*.tmp", recursive=True)

    wait_for(copies)
    for pid in agents(f"{directory}/r").values():
        run_support.kill(pid)
    check(copies(), "killed in the middle")
    same(run.wait(180), 0, open(f"{directory}/harrow.out").read())
    same(os.path.getsize(f"{directory}/deep/large"), 300 << 20)
    same(len(os.listdir(f"{directory}/deep/many")), 50)
    same(copies(), [], "nothing is left beside the results")
    same(glob.glob(f"{directory}/r/0/output/*.copies"), [])


def test_tmpdirs_and_files_share_the_sites_limit(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/data", "x" * (6 << 20))
    write(f"{directory}/flow.toml", """
[[task]]
name = "fills"
command = "head -c 6M /dev/zero > $TMPDIR/x; sleep 60"
in = ["data"]
""")
    harrow.env["HARROW_SITE_LOCAL_LIMIT"] = str(10 << 20)
    result = harrow("run", "--run-dir", "r", "--files", "local", "--local-nodes", "1", "--slots", "1", "--retries", "0", "flow.toml", code=1)
    check("and the flow's files that it keeps, held more than the 10.0 MiB" in result.err, result)
    write(f"{directory}/flow.toml", """
[[task]]
name = "makes"
command = "head -c 6M /dev/zero > $TMPDIR/x; sleep 4; head -c 6M /dev/zero > made"
out = ["made"]
""")
    result = harrow("run", "--run-dir", "r2", "--files", "local", "--local-nodes", "1", "--slots", "1", "--retries", "0", "flow.toml", code=1)
    check("others 6.0 MiB" in result.err, result)
    write(f"{directory}/data", "x" * (9 << 20))
    write(f"{directory}/flow.toml", '[[task]]\nname = "reads"\ncommand = "cat data"\nin = ["data"]\n')
    result = harrow("run", "--run-dir", "r3", "--files", "local", "--local-nodes", "1", "--slots", "1", "--retries", "0", "flow.toml", code=1)
    check("no room" in result.err and "others 1.2 MiB" in result.err, result)


def test_a_server_that_dies_finds_the_files_again(directory, program):
    harrow = Harrow(program, directory)
    made = pipeline(directory, tasks=20, sleep=0.1)
    run = harrow.start("run", "--run-dir", "r", *THREE_NODES, "flow.toml")
    ran = f"{directory}/ran"
    wait_for(lambda: os.path.exists(ran) and len(lines_of(ran)) >= 6)
    run_support.kill(run_support.of_run(f"{directory}/r", "server")[0])
    same(run.wait(180), 0, open(f"{directory}/harrow.out").read())
    same(lines_of(f"{directory}/all.txt"), made)
    same(len(lines_of(ran)), 20, "no task ran twice")


def test_a_resume_in_another_job_makes_again_what_is_read(directory, program):
    harrow = Harrow(program, directory)
    made = pipeline(directory, tasks=6)
    write(f"{directory}/stop", "")
    flow = open(f"{directory}/flow.toml").read().replace('"cat $(ls', f'"test ! -e {directory}/stop && cat $(ls')
    write(f"{directory}/flow.toml", flow)
    harrow("run", "--run-dir", "r", *THREE_NODES, "flow.toml", code=1)
    same(len(lines_of(f"{directory}/ran")), 6)
    os.unlink(f"{directory}/stop")
    # Of an earlier run: nobody made it in this one.
    os.mkdir(f"{directory}/mid")
    write(f"{directory}/mid/3", "old\n")
    os.utime(f"{directory}/mid/3", (1e9, 1e9))
    refused = harrow("run", "--resume", "--run-dir", "r", "--files", "shared", code=2)
    check("add --files local" in refused.err, refused)
    harrow("run", "--resume", "--run-dir", "r", code=0)
    same(lines_of(f"{directory}/all.txt"), made)
    same(len(lines_of(f"{directory}/ran")), 12, "their files went with the nodes")


def test_a_resumed_run_reads_what_is_there_now(directory, program):
    """With stores that outlive the session before: another input, another flow, other numbers of files."""
    harrow = Harrow(program, directory)
    harrow.env["HARROW_LOCAL"] = f"{directory}/local"
    os.mkdir(f"{directory}/local", 0o700)
    write(f"{directory}/in1", "bad\n")
    write(f"{directory}/in2", "two\n")
    write(f"{directory}/in3", "three\n")
    task = """
[[task]]
name = "{name}"
command = "{command}"
in = ["{read}"]
out = ["{made}"]
"""
    one = task.format(name="t1", command="grep good in1 > o1", read="in1", made="o1")
    write(f"{directory}/flow.toml", one)
    local = ["--run-dir", "r", "--files", "local", "--local-nodes", "1", "--slots", "1"]
    harrow("run", *local, "flow.toml", code=1)
    write(f"{directory}/in1", "good\n")
    harrow("run", "--resume", *local, code=0)
    same(open(f"{directory}/o1").read(), "good\n")
    write(f"{directory}/flow.toml", task.format(name="t1", command="cp in2 o1", read="in2", made="o1"))
    harrow("run", "--resume", *local, "flow.toml", code=0)
    same(open(f"{directory}/o1").read(), "two\n")
    write(f"{directory}/flow.toml", task.format(name="z", command="cp in3 z", read="in3", made="z") + one)
    harrow("run", "--resume", *local, "flow.toml", code=0)
    same((open(f"{directory}/z").read(), open(f"{directory}/o1").read()), ("three\n", "good\n"))


def test_what_has_rotted_on_a_disk_is_not_read_again(directory, program):
    """Other bytes, and no sign of it: who gets them from there sees it. Neither a later task there nor a later run reads them, and
    what failed on them has not failed."""
    harrow = Harrow(program, directory)
    harrow.env["HARROW_LOCAL"] = f"{directory}/local"
    os.mkdir(f"{directory}/local", 0o700)
    good = "good" * 1000 + "\n"
    write(f"{directory}/data", good)
    wait = f"until test -e {directory}/%s; do sleep 0.05; done"
    write(f"{directory}/flow.toml", f"""
[[task]]
name = "holds"
command = "cp data holds.out; touch {directory}/held; {wait % 'moved'}; grep -q ^good data"
in = ["data"]
out = ["holds.out"]
[[task]]
name = "gate"
command = "{wait % 'rotten'}"
[[task]]
name = "fetches"
command = "cp data fetches.out; touch {directory}/fetched; {wait % 'third.out'}"
in = ["data"]
out = ["fetches.out"]
after = ["gate"]
[[task]]
name = "third"
command = "cp data third.out"
in = ["data"]
out = ["third.out"]
after = ["holds"]
""")
    options = ["--files", "local", "--local-nodes", "2", "--slots", "1"]
    run = harrow.start("run", "--run-dir", "r", *options, "flow.toml")
    wait_for(lambda: os.path.exists(f"{directory}/held"))
    objects = [path for path in glob.glob(f"{directory}/local/*/store/objects/*/*") if open(path).read() == good]
    same(len(objects), 1)
    before = os.stat(objects[0])
    os.chmod(objects[0], 0o600)
    with open(objects[0], "r+") as rots:
        rots.write("rot!")
    os.chmod(objects[0], before.st_mode & 0o777)
    os.utime(objects[0], ns=(before.st_atime_ns, before.st_mtime_ns))
    same(os.stat(objects[0]).st_ino, before.st_ino)
    write(f"{directory}/rotten", "")
    wait_for(lambda: os.path.exists(f"{directory}/fetched"))
    write(f"{directory}/moved", "")
    same(run.wait(180), 0, open(f"{directory}/harrow.out").read())
    outputs = [f"{directory}/{name}.out" for name in ("holds", "fetches", "third")]
    for output in outputs:
        check(open(output).read() == good, output)
        os.unlink(output)
    harrow("run", "--run-dir", "again", *options, "flow.toml", code=0)
    for output in outputs:
        check(open(output).read() == good, "again", output)


def test_what_open_tasks_read_is_saved_when_the_run_stops(directory, program):
    harrow = Harrow(program, directory)
    made = pipeline(directory)
    with open(f"{directory}/flow.toml", "a", encoding="utf-8") as flow:
        flow.write(f"""
[[task]]
name = "slow"
command = "echo > {directory}/slow-runs; sleep 600"
in = ["raw/0"]
out = ["never"]
[[task]]
name = "last"
command = "cat mid/* > last.txt"
in = ["mid/*", "never"]
out = ["last.txt"]
""")
    run = harrow.start("run", "--run-dir", "r", "--save", *THREE_NODES, "flow.toml")
    wait_for(lambda: os.path.exists(f"{directory}/all.txt") and os.path.exists(f"{directory}/slow-runs"))
    run.send_signal(signal.SIGINT)
    same(run.wait(120), 130, open(f"{directory}/harrow.out").read())
    check("saved 10 files" in open(f"{directory}/harrow.out").read(), open(f"{directory}/harrow.out").read())
    same([open(f"{directory}/mid/{i}").read() for i in range(10)], [f"{line}\n" for line in made])
    flow = open(f"{directory}/flow.toml", encoding="utf-8").read()
    write(f"{directory}/flow.toml", flow.replace("sleep 600", "echo > never"))
    harrow("run", "--run-dir", "r", "--resume", *THREE_NODES, "flow.toml", code=0)
    same(lines_of(f"{directory}/ran").__len__(), 10, "nothing was made again")
    same(sorted(lines_of(f"{directory}/last.txt")), sorted(made))


def test_a_store_that_is_full_is_said(directory, program):
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
        raise Skipped("a file system of its own", "mounting")
    harrow = Harrow(program, directory)
    os.mkdir(f"{directory}/disk")
    write(f"{directory}/big", "x" * (8 << 20))
    write(f"{directory}/flow.toml", """
[[task]]
name = "t-{i}"
each = { i = "1-20" }
command = "cat big > out-{i}"
in = ["big"]
out = ["out-{i}"]
""")
    script = f"""mount -t tmpfs -o size=4m,mode=1777 none disk
TMPDIR={directory}/disk {harrow.program} run --progress none --run-dir r --files local flow.toml >out.txt 2>err; echo $? >code"""
    subprocess.run(["unshare", "-m", "sh", "-c", script], cwd=directory, env=harrow.env, timeout=300, check=True)
    same(lines_of(f"{directory}/code"), ["1"], open(f"{directory}/err").read())
    check("no room" in open(f"{directory}/err").read(), open(f"{directory}/err").read())


def test_tasks_wait_for_room_in_the_store(directory, program):
    """Of six inputs one fits at a time (64 MiB are left to others), and what nobody reads any more goes."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
        raise Skipped("a file system of its own", "mounting")
    harrow = Harrow(program, directory)
    os.mkdir(f"{directory}/disk")
    for i in range(6):
        write(f"{directory}/in-{i}", str(i) * (5 << 20))
    write(f"{directory}/flow.toml", """
[[task]]
name = "t-{i}"
each = { i = "0-5" }
command = "sleep 0.2; md5sum < in-{i} > out-{i}"
in = ["in-{i}"]
out = ["out-{i}"]
""")
    script = f"""mount -t tmpfs -o size=73m,mode=1777 none disk
TMPDIR={directory}/disk {harrow.program} run --progress none --run-dir r --files local --slots 3 flow.toml >out.txt 2>err; echo $? >code"""
    subprocess.run(["unshare", "-m", "sh", "-c", script], cwd=directory, env=harrow.env, timeout=300, check=True)
    same(lines_of(f"{directory}/code"), ["0"], open(f"{directory}/err").read())
    for i in range(6):
        same(lines_of(f"{directory}/out-{i}"), [hashlib.md5(str(i).encode() * (5 << 20)).hexdigest() + "  -"])


def test_outputs_wait_for_room_in_the_store(directory, program):
    """What another task reads takes it; when that one has ended there is enough."""
    harrow = Harrow(program, directory)
    write(f"{directory}/data", "x" * (6 << 20))
    write(f"{directory}/flow.toml", f"""
[[task]]
name = "reads"
command = "echo > {directory}/reading; until test -e {directory}/tried; do sleep 0.1; done; cat data > {directory}/seen"
in = ["data"]
[[task]]
name = "makes"
command = "until test -e {directory}/reading; do sleep 0.1; done; echo >> {directory}/tries; head -c 5M /dev/zero > made"
out = ["made"]
[[task]]
name = "uses"
command = "wc -c < made > result"
in = ["made"]
out = ["result"]
""")
    harrow.env["HARROW_SITE_LOCAL_LIMIT"] = str(10 << 20)
    run = harrow.start("run", "--run-dir", "r", "--files", "local", "--local-nodes", "1", "--slots", "2", "--retries", "0", "flow.toml")
    wait_for(lambda: os.path.exists(f"{directory}/tries") and len(lines_of(f"{directory}/tries")) >= 2)
    write(f"{directory}/tried", "")
    same(run.wait(180), 0, open(f"{directory}/harrow.out").read())
    same(lines_of(f"{directory}/result"), [str(5 << 20)])
    same(os.path.getsize(f"{directory}/seen"), 6 << 20)


def test_a_task_whose_outputs_find_no_room_goes_elsewhere(directory, program):
    """What its node is full of is read there until all else is done."""
    harrow = Harrow(program, directory)
    write(f"{directory}/data", "x" * (6 << 20))
    write(f"{directory}/flow.toml", f"""
[[task]]
name = "first"
command = "echo > small"
out = ["small"]
[[task]]
name = "reads"
command = "echo > {directory}/reading; until test -e {directory}/result; do sleep 0.1; done; cat data > {directory}/seen"
in = ["small", "data"]
[[task]]
name = "makes"
command = "until test -e {directory}/reading; do sleep 0.1; done; echo $HARROW_NODE >> {directory}/tries; head -c 5M /dev/zero > made"
in = ["small"]
out = ["made"]
[[task]]
name = "uses"
command = "wc -c < made > result"
in = ["made"]
out = ["result"]
""")
    harrow.env["HARROW_SITE_LOCAL_LIMIT"] = str(20 << 20)
    harrow("run", "--run-dir", "r", "--files", "local", "--local-nodes", "2", "--slots", "2", "--no-steal", "--retries", "0", "flow.toml", code=0)
    tries = lines_of(f"{directory}/tries")
    same(lines_of(f"{directory}/result"), [str(5 << 20)])
    check(len(tries) == 2 and tries[0] != tries[1], tries)


def test_a_failed_attempt_leaves_results_as_they_were(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/a", "old\n")
    write(f"{directory}/flow.toml", '[[task]]\nname = "t"\ncommand = "echo new > a"\nout = ["a", "b"]\n')
    harrow("run", "--run-dir", "r", "--files", "local", "flow.toml", code=1)
    same(open(f"{directory}/a").read(), "old\n")


def test_a_target_is_a_result(directory, program):
    harrow = Harrow(program, directory)
    pipeline(directory, tasks=3)
    harrow("run", "--run-dir", "r", *THREE_NODES, "--target", "mid/1", "flow.toml", code=0)
    same(open(f"{directory}/mid/1").read(), "made1\n")


def test_files_elsewhere(directory, program):
    """By absolute paths they are used where they are; by ".." they are refused."""
    harrow = Harrow(program, directory)
    write(f"{directory}/flow.toml", '[[task]]\nname = "t"\ncommand = "x"\nin = ["a", "../b"]\n[flow]\nfiles = "local"\n')
    write(f"{directory}/a", "")
    refused = harrow("check", "--no-files", "flow.toml", code=2)
    check("../b lies outside of the submit directory" in refused.err and refused.err.startswith("flow.toml:"), refused)
    write(f"{directory}/flow.toml", f"""
[[task]]
name = "makes"
command = "cat a > {directory}/abs; cat a > logs/out; cat a"
in = ["a"]
out = ["{directory}/abs", "logs"]
stdout = "logs/said"
[[task]]
name = "reads"
command = "cat {directory}/abs logs/out"
in = ["{directory}/abs", "logs/out"]
[[task]]
name = "does_not"
command = "true"
in = ["a"]
out = ["{directory}/missing"]
""")
    result = harrow("run", "--run-dir", "r", *THREE_NODES, "flow.toml", code=1)
    check("done 2 of 3" in result.out and f"{directory}/missing was not written" in result.err, result)


def test_many_readers_of_one_file(directory, program):
    """Content is checked by each of them."""
    harrow = Harrow(program, directory)
    seed = int.from_bytes(os.urandom(4), "big")
    print("seed", seed, flush=True)
    content = random.Random(seed).randbytes(3 << 20)
    with open(f"{directory}/data", "wb") as out:
        out.write(content)
    digest = hashlib.sha256(content).hexdigest()
    write(f"{directory}/flow.toml", f"""
[[task]]
name = "r-{{i}}"
each = {{ i = "1-40" }}
command = "sleep 0.1; echo {digest} data | sha256sum -c"
in = ["data"]
""")
    for encryption in ("on", "off"):
        result = harrow("run", "--run-dir", encryption, "--files", "local", "--local-nodes", "6", "--slots", "1", "--no-locality",
                        "--transfer-encryption", encryption, "--json", "flow.toml", code=0)
        moved, read = (json.loads(result.out)[key] for key in ("bytes_moved", "shared_read_bytes"))
        check(len(content) <= moved <= 5 * len(content), f"{moved} bytes moved for {len(content)}")
        same(read, len(content), "read once")
        report = json.loads(harrow("report", encryption, "--json", code=0).out)
        kind = report["kind_bytes"][0]
        same((kind["moved"], kind["read"], kind["input"]), (moved, read, 40 * len(content)))
        same([(file["path"], file["copies"]) for file in report["copied_files"]], [("data", 1 + moved // len(content))])
        check("copied for it: 3.0 MiB from" in harrow("explain", "--run-dir", encryption, "r-1", code=0).out, "r-1")


def main():
    run_support.tests_of(sys.modules[__name__], sys.argv[1])


run_support.tell(main)
