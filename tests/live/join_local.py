#!/usr/bin/env python3
"""A run over several allocations whose files lie on the nodes' own disks (--files local), here on one machine: what tasks read comes to them
from whichever allocation made it, and whatever dies, every result is what it should be.

usage: join_local.py HARROW [test_...]"""
import collections
import json
import os
import random
import shutil
import sys

import run_support
from join_support import Run, kill_now_and_then, query
from run_support import check, kill, lines_of, same, wait_for, write

LONG = bool(os.environ.get("HARROW_LONG"))
LOCAL = ["--files", "local"]


def chains(directory, count, length, seconds):
    """Each link adds a line to what the one before has written; the last of each is a result. `sum` reads all of them."""
    text = ""
    for link in range(length):
        before = f'in = ["m{link - 1}/{{i}}"]\n' if link else ""
        copy = f"cat m{link - 1}/{{i}}; " if link else ""
        text += (f'[[task]]\nname = "l{link}.{{i}}"\neach = {{ i = "0-{count - 1}" }}\n{before}out = ["m{link}/{{i}}"]\n'
                 f'command = "set -e; sleep {seconds}; ( {copy}echo {link}.{{i}} ) > m{link}/{{i}}; echo l{link}.{{i}} >> {directory}/ran; echo $HARROW_PART >> {directory}/where"\n')
    return text + (f'[[task]]\nname = "sum"\nin = ["m{length - 1}/*"]\nout = ["all"]\n'
                   f'command = "cat $(ls m{length - 1}/* | sort -V) > all; echo sum >> {directory}/ran"\n')


def expected(count, length):
    return [f"{link}.{i}" for i in range(count) for link in range(length)]


def task_names(count, length):
    return [f"l{link}.{i}" for link in range(length) for i in range(count)] + ["sum"]


def check_recorded(run, tasks):
    """Each has succeeded once but for what was lost and made again."""
    succeeded = set(run.rows("SELECT task FROM attempt WHERE outcome = 1 AND code = 0"))
    same(len(succeeded), len(tasks))
    fates = collections.Counter(run.rows("SELECT task FROM fate WHERE fate = 1"))
    same([task for task, n in fates.items() if n > 1], [], "done by the word of two allocations")
    same(sorted(set(lines_of(f"{run.directory}/ran"))), sorted(tasks), "what ran")


def exchanged(run):
    """What lies in the run's exchange."""
    top = f"{run.path}/exchange"
    return sorted(name for flow in (os.listdir(top) if os.path.exists(top) else []) for name in os.listdir(f"{top}/{flow}") if "half" not in name)


def test_what_is_made_in_one_allocation_is_read_in_others(directory, program):
    count, length = 40, 4
    with Run(directory, program, chains(directory, count, length, 0.1), 2, *LOCAL) as run:
        run.join(2)
        run.join(3)
        run.wait(0, 0, 0)
        same(lines_of(f"{directory}/all"), expected(count, length))
        run.check_each_once(task_names(count, length))
        check(all(len(query(run, part, "SELECT 1 FROM attempt")) > 20 for part in (0, 1, 2)), [len(query(run, part, "SELECT 1 FROM attempt")) for part in (0, 1, 2)])
        same(run.rows("SELECT DISTINCT outcome FROM attempt"), [(1,)] * 3, "nothing fails, and nothing is lost")
        check(not os.path.exists(f"{run.path}/exchange"), "it goes with the run")
        same([name for name in os.listdir(directory) if name.startswith("m")], [], "the submit directory has results only")


def test_what_nobody_elsewhere_reads_stays_on_the_nodes(directory, program):
    flow = (f'[[task]]\nname = "a{{i}}"\neach = {{ i = "0-1" }}\nout = ["mid/{{i}}"]\ncommand = "echo a{{i}} > mid/{{i}}; echo a{{i}} >> {directory}/ran"\n'
            f'[[task]]\nname = "b{{i}}"\neach = {{ i = "0-1" }}\nin = ["mid/{{i}}"]\nout = ["end/{{i}}"]\n'
            f'command = "until test -e {directory}/go{{i}}; do sleep 0.05; done; cat mid/{{i}} > end/{{i}}; echo b{{i}} >> {directory}/ran"\n')
    with Run(directory, program, flow, 2, *LOCAL) as run:
        wait_for(lambda: len(lines_of(f"{directory}/ran")) == 2)
        run.join(2)
        wait_for(lambda: len(json.loads(run.harrow("status", "--json", "--run-dir", "r", code=0).out).get("allocations", [])) == 2)
        write(f"{directory}/go0", "")
        wait_for(lambda: len(lines_of(f"{directory}/ran")) == 3)
        same(exchanged(run), [], "what only tasks of one allocation read is not copied")
        write(f"{directory}/go1", "")
        run.wait(0, 0)
        same([lines_of(f"{directory}/end/{i}") for i in range(2)], [["a0"], ["a1"]])
        check(not os.path.exists(f"{directory}/mid"))


def held_reader(directory):
    """Each `b` reads what `a` has made, and takes the core of `long` as well, which does not end."""
    return (f'[[task]]\nname = "long"\ncommand = "touch {directory}/began; until test -e {directory}/go; do sleep 0.05; done; echo long >> {directory}/ran"\n'
            f'[[task]]\nname = "a"\nout = ["mid/a", "mid/empty", "mid/tree", "mid/none"]\nmissing_ok = true\n'
            f'command = "echo a > mid/a; : > mid/empty; mkdir -p mid/tree/sub; echo tree > mid/tree/sub/f; ln -s sub/f mid/tree/link; chmod +x mid/a; echo a >> {directory}/ran"\n'
            f'[[task]]\nname = "b{{i}}"\neach = {{ i = "0-3" }}\ncores = 2\nin = ["mid/a", "mid/empty", "mid/tree", "mid/none"]\nout = ["end{{i}}"]\n'
            f'command = "set -e; test -x mid/a; test ! -e mid/none; cat mid/a mid/empty mid/tree/link > end{{i}}; echo b{{i}} >> {directory}/ran"\n')


HELD = ["a", "long"] + [f"b{i}" for i in range(4)]


def ends(directory):
    return [lines_of(f"{directory}/end{i}") for i in range(4) if os.path.exists(f"{directory}/end{i}")]


def begin_held(run, directory):
    wait_for(lambda: os.path.exists(f"{directory}/began") and lines_of(f"{directory}/ran") == ["a"])
    run.join(2)


def test_a_moved_task_finds_what_was_made_before(directory, program):
    with Run(directory, program, held_reader(directory), 2, *LOCAL, env={"HARROW_MOVE_ALL": "true"}) as run:
        begin_held(run, directory)
        wait_for(lambda: len(ends(directory)) >= 2)
        write(f"{directory}/go", "")
        run.wait(0, 0)
        same(ends(directory), [["a", "tree"]] * 4)
        run.check_each_once(HELD)
        check(len(query(run, 1, "SELECT task FROM attempt")) >= 2)


def spoil(run, how):
    (flow,) = os.listdir(f"{run.path}/exchange")
    there = f"{run.path}/exchange/{flow}"
    if how == "in the way":
        shutil.rmtree(there)
        write(there, "")
        return
    wait_for(lambda: any(name.startswith("made-") for name in exchanged(run)))
    for name in exchanged(run):
        if how == "changed" and not name.startswith("made-") and os.path.isfile(f"{there}/{name}"):
            write(f"{there}/{name}", "something else")
        elif how == "gone" and os.path.isfile(f"{there}/{name}"):
            os.remove(f"{there}/{name}")


def test_what_cannot_be_copied_is_made_again(directory, program):
    """Nothing can be put into the exchange: the other allocation has to make it by itself."""
    with Run(directory, program, held_reader(directory), 2, *LOCAL, env={"HARROW_MOVE_ALL": "true"}) as run:
        wait_for(lambda: os.path.exists(f"{directory}/began") and lines_of(f"{directory}/ran") == ["a"])
        spoil(run, "in the way")
        run.join(2)
        wait_for(lambda: len(ends(directory)) >= 2)
        write(f"{directory}/go", "")
        run.wait(0, 0)
        same(ends(directory), [["a", "tree"]] * 4)
        same(collections.Counter(lines_of(f"{directory}/ran")), dict.fromkeys(HELD, 1) | {"a": 2})
        check_recorded(run, HELD)
        check("what tasks of other allocations read is made again there" in "".join(lines_of(f"{directory}/harrow.out")), lines_of(f"{directory}/harrow.out"))


def test_what_is_changed_or_removed_is_copied_again(directory, program):
    """Nobody takes a file of the exchange for what its name says: a third allocation finds nothing that it could use, and asks the first."""
    for how in ("changed", "gone"):
        where = f"{directory}/{how}"
        os.mkdir(where)
        flow = held_reader(where).replace("set -e;", f"set -e; echo $HARROW_PART >> {where}/where; until test -e {where}/spoilt; do sleep 0.05; done;", 1)
        with Run(where, program, flow, 2, *LOCAL, env={"HARROW_MOVE_ALL": "true"}) as run:
            begin_held(run, where)
            spoil(run, how)
            run.join(2)
            wait_for(lambda where=where: "2" in lines_of(f"{where}/where"))
            write(f"{where}/spoilt", "")
            write(f"{where}/go", "")
            run.wait(0, 0, 0)
            same(ends(where), [["a", "tree"]] * 4)
            run.check_each_once(HELD)


def test_a_drained_allocation_leaves_what_others_read(directory, program):
    with Run(directory, program, held_reader(directory), 2, *LOCAL, env={"HARROW_MOVE_ALL": "true"}) as run:
        begin_held(run, directory)
        run.harrow("drain", "--run-dir", "r", "0", code=0)
        write(f"{directory}/go", "")
        run.wait(0, 0)
        same(ends(directory), [["a", "tree"]] * 4)
        run.check_each_once(HELD)


def test_what_a_killed_allocation_had_is_made_again(directory, program):
    count, length = 24, 4
    with Run(directory, program, chains(directory, count, length, 0.15), 2, *LOCAL) as run:
        run.join(2)
        wait_for(lambda: lines_of(f"{directory}/where").count("1") > 12)
        kill(run.keepers[1].pid)
        run.join(2)
        same([run.keepers[part].wait(180) for part in (0, 2)], [0, 0], *lines_of(f"{directory}/harrow.out"))
        same(lines_of(f"{directory}/all"), expected(count, length))
        check_recorded(run, task_names(count, length))


def test_whatever_is_killed_at_any_moment(directory, program):
    """Servers and agents; what was lost with an agent is made again."""
    seed = int(os.environ.get("HARROW_TEST_SEED") or random.randrange(1 << 30))
    print("seed", seed)
    rng = random.Random(seed)
    for turn in range(5 if LONG else 1):
        count, length = 40, 5
        where = f"{directory}/{turn}"
        os.mkdir(where)
        with Run(where, program, chains(where, count, length, 0.1), 2, *LOCAL) as run:
            run.join(2)
            run.join(2)
            kill_now_and_then(run, rng, 6, 1, "server", "server", "inner")
            run.wait(0, 0, 0)
            same(lines_of(f"{where}/all"), expected(count, length))
            check_recorded(run, task_names(count, length))
        shutil.rmtree(where)


def test_all_ended_and_resumed(directory, program):
    """What lay on nodes is gone; what was copied for another allocation is there, and is not made again."""
    count, length = 16, 4
    with Run(directory, program, chains(directory, count, length, 0.2), 2, *LOCAL) as run:
        run.join(2)
        wait_for(lambda: len(lines_of(f"{directory}/ran")) > 30)
        run.stop()
        check(not os.path.exists(f"{directory}/all"))
        run.keepers = [run.harrow.start("run", "flow.toml", "--resume", "--run-dir", "r", "--slots", "4", *LOCAL)]
        run.wait(0)
        same(lines_of(f"{directory}/all"), expected(count, length))


def test_a_result_that_is_gone_or_changed_is_made_again_when_resumed(directory, program):
    """It was read elsewhere before, and is known to lie in the submit directory."""
    for how in ("gone", "changed"):
        where = f"{directory}/{how}"
        os.mkdir(where)
        flow = (f'[[task]]\nname = "long"\ncommand = "touch {where}/began; until test -e {where}/go; do sleep 0.05; done"\n'
                '[[task]]\nname = "t"\nkeep = true\nout = ["x", "y"]\ncommand = "n=$(date +%N); echo $n > x; echo $n > y"\n'
                '[[task]]\nname = "b{i}"\neach = { i = "0-3" }\ncores = 2\nin = ["x", "y"]\nout = ["end{i}"]\n'
                f'command = "touch {where}/b; until test -e {where}/go; do sleep 0.05; done; cat x y > end{{i}}"\n')
        with Run(where, program, flow, 2, *LOCAL, env={"HARROW_MOVE_ALL": "true"}) as run:
            wait_for(lambda where=where: os.path.exists(f"{where}/began") and os.path.exists(f"{where}/y"))
            run.join(2)
            wait_for(lambda where=where: os.path.exists(f"{where}/b"))
            run.stop()
            before = lines_of(f"{where}/y")
            if how == "gone":
                os.remove(f"{where}/x")
            else:
                write(f"{where}/x", "mine\n")
                os.utime(f"{where}/x", (1, 1))
            write(f"{where}/go", "")
            run.keepers = [run.harrow.start("run", "flow.toml", "--resume", "--run-dir", "r", "--slots", "2", *LOCAL)]
            run.wait(0)
            x, y = lines_of(f"{where}/x"), lines_of(f"{where}/y")
            check(x == y and y != before, x, y, before)
            same(ends(where), [x + y] * 4)


def test_what_no_node_can_make_again_fails(directory, program):
    """The allocation that could is killed; what is left is too small for it."""
    flow = (f'[[task]]\nname = "t"\ncores = 4\nout = ["m"]\ncommand = "echo t > m; echo t >> {directory}/ran"\n'
            f'[[task]]\nname = "g{{i}}"\neach = {{ i = "0-7" }}\nout = ["g/{{i}}"]\ncommand = "echo $HARROW_PART >> {directory}/where; until test -e {directory}/go; do sleep 0.05; done; echo g > g/{{i}}"\n'
            '[[task]]\nname = "b{i}"\neach = { i = "0-7" }\nin = ["m", "g/{i}"]\nout = ["e/{i}"]\ncommand = "cat m g/{i} > e/{i}"\n')
    with Run(directory, program, flow, 4, *LOCAL) as run:
        wait_for(lambda: "t" in lines_of(f"{directory}/ran"))
        run.join(2)
        wait_for(lambda: "1" in lines_of(f"{directory}/where"))
        kill(run.keepers[0].pid)
        write(f"{directory}/go", "")
        check(run.keepers[1].wait(180) > 0, *lines_of(f"{directory}/harrow.out"))
        check("its outputs were lost, and it failed when it was to make them again" in "".join(lines_of(f"{directory}/harrow.out")),
              *lines_of(f"{directory}/harrow.out"))


if __name__ == "__main__":
    run_support.tell(lambda: run_support.tests_of(sys.modules[__name__], sys.argv[1]))
