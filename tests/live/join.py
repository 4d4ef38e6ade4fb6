#!/usr/bin/env python3
"""A run over several allocations, here on one machine: `harrow join` gives a run that goes on one more, tasks move between their
servers, and whatever dies, each task is run once and none is lost.

usage: join.py HARROW [test_...]"""
import collections
import json
import os
import random
import signal
import subprocess
import sys
import time

import run_support
from join_support import FENCE, Run, chains, independent, kill_now_and_then, names, query
from relay import before_server
from run_support import Harrow, check, kill, lines_of, of_run, same, wait_for, write

LONG = bool(os.environ.get("HARROW_LONG"))
HELD = '[[task]]\nname = "held"\ncommand = "until test -e go; do sleep 0.05; done; echo held >> ran"\n'


def test_another_allocation_takes_its_share(directory, program):
    with Run(directory, program, independent(400, 0.05)) as run:
        run.join(4)
        run.wait(0, 0)
        run.check_each_once(names(400))
        done = [len(query(run, part, "SELECT 1 FROM attempt")) for part in (0, 1)]
        check(done[1] > 150, "of 400 tasks the larger allocation ran", done[1])
        check(done[0] > 60, "the smaller", done[0])
        status = json.loads(run.harrow("status", "--json", "--run-dir", "r", code=0).out)
        same(status["tasks"]["done"], 400)
        said = run.harrow("report", "--run-dir", "r", "--wide", code=0).out
        check("400" in said and "allocation" in said, said)
        of = json.loads(run.harrow("report", "--json", "--run-dir", "r", code=0).out)
        same([(one["part"], one["slots"], one["attempts"], one["gave"] - one["took"]) for one in of["allocations"]],
             [(0, 2, done[0], done[1]), (1, 4, done[1], -done[1])])
        check(all(0 < one["idle"] < 0.5 and one["messages_per_s"] > 1 for one in of["allocations"]), of["allocations"])
        same(sum(move["tasks"] for move in of["moves"] if move["to"] == 1) - sum(move["tasks"] for move in of["moves"] if move["to"] == 0), done[1])
        same(len(run.harrow("report", "--moves", "--run-dir", "r", code=0).out.splitlines()), 1 + len(of["moves"]))


def test_tasks_go_by_the_supervisor_where_that_is_asked(directory, program):
    """And with the other ways to decide when and how many."""
    for trigger, amount in (("empty", "capacity"), ("low", "workers")):
        where = f"{directory}/{trigger}"
        os.mkdir(where)
        settings = {"HARROW_MOVE_TRIGGER": trigger, "HARROW_MOVE_AMOUNT": amount, "HARROW_MOVE_ALL": "true", "HARROW_REPORT_PERIOD": "50ms"}
        with Run(where, program, independent(200, 0.05), 2, "--moves", "via-supervisor", env=settings) as run:
            run.join(1)
            run.join(3)
            run.wait(0, 0, 0)
            run.check_each_once(names(200))
            check(all(len(query(run, part, "SELECT 1 FROM attempt")) > 15 for part in (0, 1, 2)))


def test_status_has_a_line_for_each_allocation(directory, program):
    with Run(directory, program, independent(300, 0.1)) as run:
        alone = json.loads(run.harrow("status", "--json", "--run-dir", "r", code=0).out)
        check("allocations" not in alone, alone)
        run.join(3)

        def looks():
            status = json.loads(run.harrow("status", "--json", "--nodes", "--run-dir", "r", code=0).out)
            found = status.get("allocations", [])
            return status if len(found) == 2 and found[1].get("took", 0) > 0 and found[1]["running"] > 0 else None

        status = wait_for(looks)
        of = status["allocations"]
        same([(one["part"], one["state"], one["nodes"], one["slots"]) for one in of], [(0, "running", 1, 2), (1, "running", 1, 3)])
        same(status["tasks"]["running"], of[0]["running"] + of[1]["running"])
        same((status["slots"], len(status["nodes"])), (5, 2))
        table = run.harrow("status", "--run-dir", "r", code=0).out
        check("allocation" in table and "gave" in table, table)
        run.keepers[1].send_signal(signal.SIGTERM)
        wait_for(lambda: "over" in run.harrow("status", "--run-dir", "r", code=0).out)
        run.wait(0, 128 + signal.SIGTERM)
        run.check_each_once(names(300))


def test_output_of_all_parts_is_shown(directory, program):
    flow = ('[[task]]\nname = "t{i}"\neach = { i = "0-59" }\ncommand = "sleep 0.1; echo said {i}; echo t{i} >> ran"\n'
            '[[task]]\nname = "sum"\ncommand = "echo sum >> ran; false"\nafter = ["t{i}"]\n').replace('after = ["t{i}"]',
            'after = [' + ", ".join(f'"t{i}"' for i in range(60)) + ']')
    with Run(directory, program, flow) as run:
        run.join(4)
        run.wait(1, 1)
        elsewhere = [name for (name,) in query(run, 1, "SELECT task FROM attempt")]
        check(len(elsewhere) > 10, elsewhere)
        for task in range(60):
            same(run.harrow("logs", "--run-dir", "r", f"t{task}", code=0).out, f"said {task}\n")
        check("sum" in run.harrow("status", "--failed", "--run-dir", "r").out)


def test_what_depends_on_tasks_elsewhere_is_run(directory, program):
    with Run(directory, program, chains(30, 5, 0.05)) as run:
        run.join(3)
        run.join(2)
        run.wait(0, 0, 0)
        run.check_each_once([f"l{link}.{i}" for link in range(5) for i in range(30)])
        check(all(len(query(run, part, "SELECT 1 FROM attempt")) > 10 for part in (0, 1, 2)))


def test_submitted_tasks_are_shared(directory, program):
    with Run(directory, program, HELD) as run:
        run.join(4)
        lines = "".join(f"sleep 0.05; echo s{i} >> ran\n" for i in range(100))
        run.harrow("submit", "--run-dir", "r", "--file", "-", stdin=lines, code=0)
        wait_for(lambda: len(lines_of(f"{directory}/ran")) == 100)
        write(f"{directory}/go", "")
        run.wait(0, 0)
        run.check_each_once(["held"] + [f"s{i}" for i in range(100)])
        check(len(query(run, 1, "SELECT 1 FROM attempt")) > 20)


def submit_in(run, part, name, command, *options):
    """As a task of that part does."""
    env = run.harrow.env | {"HARROW_RUN": run.path, "HARROW_PART": str(part)}
    return subprocess.Popen([run.harrow.program, "submit", "--name", name, *options, "sh", "-c", command], cwd=run.directory, env=env, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def await_first(run, part):
    """Until its server is connected with the first part's."""
    def connected():
        with open(f"{run.path}/{part}/log/server.log", encoding="utf-8") as f:
            return "server of part 0 at" in f.read()
    wait_for(connected)


def test_what_a_task_submits_is_its_own_allocations(directory, program):
    """Reports that would move it come once a minute."""
    with Run(directory, program, HELD, env={"HARROW_REPORT_PERIOD": "60s"}) as run:
        for part in (1, 2):
            run.join(2)
            await_first(run, part)
        child = f'{run.harrow.program} submit --name $HARROW_TASK_NAME.c sh -c "echo \\$HARROW_TASK_NAME >> ran"; echo $HARROW_TASK_NAME >> ran'
        asked = [submit_in(run, part, f"p{part}.{i}", child) for i in range(4) for part in (0, 1, 2)]
        for one in asked:
            same(one.wait(60), 0, one.stderr.read())
        wait_for(lambda: len(lines_of(f"{directory}/ran")) == 24)
        write(f"{directory}/go", "")
        run.wait(0, 0, 0)
        run.check_each_once(["held"] + [f"p{part}.{i}{end}" for part in (0, 1, 2) for i in range(4) for end in ("", ".c")])
        same([len(query(run, part, "SELECT 1 FROM attempt")) for part in (0, 1, 2)], [9, 8, 8])
        same(sum(one["took"] for one in json.loads(run.harrow("report", "--json", "--run-dir", "r", code=0).out)["allocations"]), 0)


def test_what_is_submitted_while_an_allocation_is_cut_off_is_taken_later(directory, program):
    with Run(directory, program, HELD) as run:
        relay = before_server(f"{run.path}/0/server")
        try:
            run.join(2)
            await_first(run, 1)
            same(submit_in(run, 1, "first", "echo first >> ran").wait(30), 0)
            relay.hold()
            cut = submit_in(run, 1, "cut", "echo cut >> ran", "--after", "first")
            time.sleep(2)
            same(cut.poll(), None)
            relay.go_on()
            same(cut.wait(60), 0)
            relay.cut()
            lost = submit_in(run, 1, "lost", "echo lost >> ran")
            time.sleep(1)
            relay.go_on()
            same(lost.wait(60), 0)
            wait_for(lambda: len(lines_of(f"{directory}/ran")) == 3)
            write(f"{directory}/go", "")
            run.wait(0, 0)
            run.check_each_once(["held", "first", "cut", "lost"])
        finally:
            relay.close()


def test_what_any_server_has_acknowledged_is_run_whoever_is_killed(directory, program):
    """Clients in three allocations, whose servers are killed in turns; then the whole of the allocation that takes what is submitted."""
    with Run(directory, program, '[[task]]\nname = "held"\ncommand = "until test -e go; do sleep 0.05; done; echo held >> ran"\nretries = 99\n') as run:
        for _ in range(3):
            run.join(2)
        draw = random.Random(os.environ.get("HARROW_TEST_SEED", "17"))
        acknowledged, going, count = [], [], 0
        # A server that dies within two seconds, five times in a row, is not started again.
        kills = sorted((draw.uniform(1, 12), draw.choice((0, 0, 1, 2))) for _ in range(8))
        began = time.monotonic()
        while kills or time.monotonic() - began < 14:
            now = time.monotonic() - began
            while kills and kills[0][0] <= now:
                _, part = kills.pop(0)
                for server in of_run(run.part(part), "server"):
                    kill(server)
            if now > 13 and run.keepers[0].poll() is None:
                kill(run.keepers[0].pid)
            while len(going) < 6:
                name = f"s{count}"
                going.append((name, submit_in(run, count % 3 + 1, name, f"echo {name} >> ran")))
                count += 1
            for name, one in list(going):
                if one.poll() is not None:
                    going.remove((name, one))
                    same(one.returncode, 0, name, one.stderr.read())
                    acknowledged.append(name)
            time.sleep(0.02)
        for name, one in going:
            same(one.wait(90), 0, name)
            acknowledged.append(name)
        wait_for(lambda: len(set(lines_of(f"{directory}/ran"))) >= len(acknowledged), 60)
        write(f"{directory}/go", "")
        same([keeper.wait(120) for keeper in run.keepers[1:]], [0, 0, 0])
        same(sorted(set(lines_of(f"{directory}/ran"))), sorted(["held"] + acknowledged))
        succeeded = collections.Counter(run.rows("SELECT task FROM attempt WHERE outcome = 1 AND code = 0"))
        same((len(succeeded), max(succeeded.values())), (1 + len(acknowledged), 1))
        check(len(acknowledged) > 10, acknowledged)  # however slow the machine is


def test_submissions_outlive_the_first_allocation(directory, program):
    """It is killed, and then the one that has taken its place: who submits waits, and each task is run once, also those that tell of
    tasks submitted before; the run's journals know all of them, and a resume goes on with them."""
    with Run(directory, program, '[[task]]\nname = "held"\ncommand = "until test -e go; do sleep 0.05; done; echo held >> ran"\nretries = 9\n') as run:
        run.join(2)
        run.join(2)
        run.join(2)

        def submit(first, count):
            lines = "".join(f'[[task]]\nname = "s{i}"\ncommand = "sleep 0.05; echo s{i} >> ran"\n' for i in range(first, first + count))
            write(f"{directory}/{first}.toml", lines)
            after = ["--after", f"s{first - 1},s{first - 40}"] if first else []
            run.harrow("submit", "--run-dir", "r", *after, "--file", f"{first}.toml", code=0)
        submit(0, 40)
        kill(run.keepers[0].pid)
        submit(40, 40)
        # The server that takes them dies, and is started again.
        for server in of_run(run.part(1), "server"):
            kill(server)
        submit(80, 40)
        kill(run.keepers[1].pid)
        submit(120, 40)
        wait_for(lambda: len(set(lines_of(f"{directory}/ran"))) == 160)
        write(f"{directory}/go", "")
        same([keeper.wait(120) for keeper in run.keepers[2:]], [0, 0])
        ran = collections.Counter(lines_of(f"{directory}/ran"))
        same(sorted(ran), sorted(["held"] + [f"s{i}" for i in range(160)]))
        # What a killed allocation ran, on two slots each, and nobody recorded may have said so before.
        lost = len(run.rows("SELECT task FROM attempt WHERE outcome = 8"))
        check(sum(ran.values()) - len(ran) <= lost + 4, ran.most_common(5), lost)
        succeeded = collections.Counter(run.rows("SELECT task FROM attempt WHERE outcome = 1 AND code = 0"))
        same((len(succeeded), max(succeeded.values())), (161, 1))
        tasks = json.loads(run.harrow("report", "--json", "--run-dir", "r", code=0).out)
        same((tasks["tasks"]["done"], len(tasks["task_records"]), tasks["task_records"][-1]["name"]), (161, 161, "s159"))
        check("is over" in run.harrow("submit", "--run-dir", "r", "true").err)


def test_what_was_submitted_to_a_later_allocation_is_resumed(directory, program):
    with Run(directory, program, HELD) as run:
        run.join(2)
        run.keepers[0].terminate()
        run.keepers[0].wait(60)
        run.harrow("submit", "--run-dir", "r", "--file", "-", stdin="".join(f"sleep 0.2; echo s{i} >> ran\n" for i in range(30)), code=0)
        wait_for(lambda: len(lines_of(f"{directory}/ran")) > 3)
        run.keepers[1].terminate()
        run.keepers[1].wait(60)
        write(f"{directory}/go", "")
        said = run.harrow("run", "--resume", "--run-dir", "r", "--slots", "4", code=0)
        same(sorted(set(lines_of(f"{directory}/ran"))), sorted(["held"] + [f"s{i}" for i in range(30)]), said)
        # They are the first part's now, and what is submitted to that one again has other numbers.
        tasks = json.loads(run.harrow("status", "--json", "--run-dir", "r", code=0).out)["tasks"]
        same((tasks["total"], tasks["done"]), (31, 31))


def test_results_of_tasks_elsewhere_are_told(directory, program):
    """With their exit codes, to who waits at the first allocation."""
    with Run(directory, program, HELD, 1) as run:
        run.join(2)
        write(f"{directory}/flow2.toml", "".join(f'[[task]]\nname = "x{i}"\ncommand = "exit {i}"\n' for i in range(4)))
        said = run.harrow("submit", "--run-dir", "r", "--wait", "--file", "flow2.toml", code=1)
        check(all(f"exit code {i}" in said.out + said.err for i in (1, 2, 3)), said)
        write(f"{directory}/go", "")
        run.wait(1, 1)


def test_a_drained_allocation_gives_all_and_ends(directory, program):
    """What it runs ends by itself, what is ready or waits goes to the other one, and nothing of it has failed."""
    flow = independent(120, 0.1) + ('[[task]]\nname = "long{i}"\neach = { i = "0-1" }\npriority = 9\n'
                                    'command = "touch began{i}; until test -e go; do sleep 0.05; done; echo long{i} >> ran"\n'
                                    '[[task]]\nname = "after"\nafter = ["t119"]\ncommand = "echo after >> ran"\n')
    with Run(directory, program, flow, 3) as run:
        wait_for(lambda: os.path.exists(f"{directory}/began0") and os.path.exists(f"{directory}/began1"))
        check("one allocation alone" in run.harrow("drain", "--run-dir", "r", code=2).err)
        run.join(2)
        said = run.harrow("drain", "--run-dir", "r", code=2).err
        check("name the allocation" in said and "0, 1" in said, said)
        check("no allocation 7" in run.harrow("drain", "--run-dir", "r", "7", code=2).err)
        check("allocation 0: its tasks go" in run.harrow("drain", "--run-dir", "r", "0", code=0).out)
        ran = len(lines_of(f"{directory}/ran"))
        check(ran < 100, ran)
        look = lambda: json.loads(run.harrow("status", "--json", "--run-dir", "r", code=0).out)["allocations"]
        wait_for(lambda: len(lines_of(f"{directory}/ran")) == 121)  # all but the long ones
        same(look()[0]["state"], "draining")
        check("draining" in run.harrow("status", "--run-dir", "r", code=0).out)
        check(run.keepers[0].poll() is None, "it does not wait for what it runs")
        write(f"{directory}/go", "")
        run.wait(0, 0)
        run.check_each_once(names(120) + ["long0", "long1", "after"])
        same(run.rows("SELECT count(*) FROM attempt WHERE outcome NOT IN (1)"), [(0,), (0,)])
        here = len(query(run, 0, "SELECT 1 FROM attempt"))
        check(here < 60, "tasks that it ran:", here)


def test_the_last_that_does_not_drain_is_not_drained(directory, program):
    with Run(directory, program, independent(300, 0.1)) as run:
        run.join(2)
        run.harrow("drain", "--run-dir", "r", "0", code=0)
        said = run.harrow("drain", "--run-dir", "r", "1", code=2).err
        check("all others drain" in said, said)
        run.harrow("drain", "--run-dir", "r", "0")  # told twice: as once, or it has ended
        run.wait(0, 0)
        run.check_each_once(names(300))


def test_a_drained_allocation_that_is_left_alone_fails_no_task(directory, program):
    """Those who were to take its tasks are killed: all stay open, and a resume runs them."""
    with Run(directory, program, HELD + independent(300, 0.1)) as run:
        run.join(1)
        wait_for(lambda: len(lines_of(f"{directory}/ran")) > 5)
        run.harrow("drain", "--run-dir", "r", "0", code=0)
        kill(run.keepers[1].pid)
        run.keepers[1].wait()
        time.sleep(2 * FENCE)  # by then it is known to be over
        write(f"{directory}/go", "")
        same(run.keepers[0].wait(60), 4)
        said = "\n".join(lines_of(f"{directory}/harrow.out"))
        check("drained: " in said and "go on with: harrow run --resume" in said, said)
        tasks = json.loads(run.harrow("status", "--json", "--run-dir", "r", code=0).out)["tasks"]
        same((tasks["failed"], tasks["skipped"]), (0, 0), tasks)
        run.harrow("run", "--resume", "--run-dir", "r", "--slots", "8", code=0)
        same(sorted(set(lines_of(f"{directory}/ran"))), sorted(names(300) + ["held"]))


def test_a_server_that_is_started_again_drains_on(directory, program):
    """What it runs ends by itself, though its agent is late to come back."""
    with Run(directory, program, HELD + independent(200, 0.1)) as run:
        run.join(2)
        wait_for(lambda: len(lines_of(f"{directory}/ran")) > 5)
        run.harrow("drain", "--run-dir", "r", "0", code=0)
        agents = of_run(run.part(0), "inner")
        for agent in agents:
            kill(agent, signal.SIGSTOP)
        for server in of_run(run.part(0), "server"):
            kill(server)
        time.sleep(FENCE / 2)
        for agent in agents:
            kill(agent, signal.SIGCONT)
        wait_for(lambda: len(lines_of(f"{directory}/ran")) == 200)
        look = json.loads(run.harrow("status", "--json", "--run-dir", "r", code=0).out)["allocations"][0]
        same((look["state"], look["running"]), ("draining", 1))
        write(f"{directory}/go", "")
        run.wait(0, 0)
        run.check_each_once(names(200) + ["held"])


def test_an_allocation_that_ends_gives_its_tasks_back(directory, program):
    """The first one, by SIGTERM as at a job's time limit: the other one goes on with all of it."""
    with Run(directory, program, independent(200, 0.1)) as run:
        run.join(2)
        wait_for(lambda: len(lines_of(f"{directory}/ran")) > 20)
        run.keepers[0].terminate()
        same(run.keepers[0].wait(60), 128 + signal.SIGTERM)
        said = "\n".join(lines_of(f"{directory}/harrow.out"))
        check("the run goes on in another allocation" in said, said)
        check("harrow join" in run.harrow("run", "--resume", "--run-dir", "r", code=2).err)
        run.join(2)
        same([keeper.wait(120) for keeper in run.keepers[1:]], [0, 0])
        run.check_each_once(names(200))


def test_a_killed_allocation_is_replaced(directory, program):
    """kill -9 of the keeper, with which all of its processes end, and which nobody reaps: after the fence the other one takes over."""
    with Run(directory, program, independent(120, 0.1)) as run:
        run.join(3)
        wait_for(lambda: len(lines_of(f"{directory}/ran")) > 20)
        kill(run.keepers[1].pid)
        wait_for(lambda: not of_run(run.part(1), "server") and not of_run(run.part(1), "agent"))
        same(run.keepers[0].wait(120), 0)
        run.keepers[1].wait()
        run_by = collections.Counter(lines_of(f"{directory}/ran"))
        same(sorted(run_by), sorted(names(120)), "what ran")


def test_a_run_is_over_whoever_was_killed_last(directory, program):
    """An allocation that has nothing to do is killed, and before that is known the other one ends the run."""
    with Run(directory, program, HELD) as run:
        run.join(2)
        kill(run.keepers[1].pid)
        run.keepers[1].wait()
        write(f"{directory}/go", "")
        same(run.keepers[0].wait(60), 0)
        same(json.loads(run.harrow("status", "--json", "--run-dir", "r", code=0).out)["state"], "ended")
        said = run.harrow("status", "--run-dir", "r", code=0).out
        check("0 tasks open" not in said and "resume" not in said, said)


def test_the_time_of_all_allocations_counts(directory, program):
    """Also in a session before, in which the first one ended long before the last."""
    with Run(directory, program, independent(40, 0.2)) as run:
        run.join(2)
        wait_for(lambda: len(lines_of(f"{directory}/ran")) > 4)
        kill(run.keepers[0].pid)
        run.keepers[0].wait()
        wait_for(lambda: len(lines_of(f"{directory}/ran")) > 24)
        run.keepers[1].terminate()
        run.keepers[1].wait(60)
        look = lambda: json.loads(run.harrow("status", "--json", "--run-dir", "r", code=0).out)["makespan_s"]
        before = look()
        run.harrow("run", "--resume", "--run-dir", "r", "--slots", "2", code=0)
        check(look() > before, look(), before)


def test_all_ended_and_resumed(directory, program):
    with Run(directory, program, independent(200, 0.1)) as run:
        run.join(2)
        wait_for(lambda: len(lines_of(f"{directory}/ran")) > 40)
        same(run.stop(), [128 + signal.SIGTERM] * 2)
        before = len(lines_of(f"{directory}/ran"))
        check(before < 200, before)
        said = run.harrow("run", "--resume", "--run-dir", "r", "--slots", "4", code=0)
        done = len(run.rows("SELECT DISTINCT task FROM attempt WHERE outcome = 1 AND code = 0"))
        same(done, 200, said)
        ran = collections.Counter(lines_of(f"{directory}/ran"))
        same(len(ran), 200)
        # What was interrupted after its last word may say it again; nothing else does.
        interrupted = len(run.rows("SELECT task FROM attempt WHERE outcome = 6"))
        check(sum(ran.values()) - 200 <= interrupted, ran.most_common(3), interrupted)
        same(json.loads(run.harrow("status", "--json", "--run-dir", "r", code=0).out)["tasks"]["done"], 200)


def test_cancelled_wherever_they_are(directory, program):
    with Run(directory, program, independent(200, 0.1)) as run:
        run.join(2)
        wait_for(lambda: len(lines_of(f"{directory}/ran")) > 10)
        said = run.harrow("cancel", "--run-dir", "r", "--all", code=0)
        check("cancelled" in said.out + said.err, said)
        run.wait(1, 1)
        ran = lines_of(f"{directory}/ran")
        check(len(ran) < 60 and len(set(ran)) == len(ran), len(ran))
        tasks = json.loads(run.harrow("status", "--json", "--run-dir", "r").out)["tasks"]
        same(tasks["done"] + tasks["cancelled"], 200, tasks)
        check(tasks["cancelled"] > 130, tasks)


def test_retried_as_often_as_asked(directory, program):
    flow = independent(60, 0.05) + ('[[task]]\nname = "bad{i}"\neach = { i = "0-4" }\nretries = 2\n'
                                    'command = "sleep 0.05; echo bad{i} >> tried; false"\n')
    with Run(directory, program, flow) as run:
        run.join(2)
        run.wait(1, 1)
        tried = collections.Counter(lines_of(f"{directory}/tried"))
        same(dict(tried), {f"bad{i}": 3 for i in range(5)})


def test_what_fits_only_elsewhere_is_run_there(directory, program):
    """Also where it is submitted when the first allocation has all of its nodes, and a moment in which that is alone has passed."""
    with Run(directory, program, HELD) as run:
        run.join(4)
        wide = "".join(f'[[task]]\nname = "w{i}"\ncores = 4\ncommand = "echo w{i} >> ran"\n' for i in range(10))
        write(f"{directory}/wide.toml", wide)
        run.harrow("submit", "--run-dir", "r", "--file", "wide.toml", code=0)
        wait_for(lambda: len(lines_of(f"{directory}/ran")) == 10)
        same(json.loads(run.harrow("status", "--json", "--run-dir", "r", code=0).out)["state"], "running")
        for server in of_run(run.part(0), "server"):
            kill(server)
        run.harrow("submit", "--run-dir", "r", "--file", "-", stdin="#HARROW cores=3\necho x >> ran\n", code=0)
        wait_for(lambda: len(lines_of(f"{directory}/ran")) == 11)
        write(f"{directory}/go", "")
        run.wait(0, 0)


def test_a_run_goes_on_while_the_first_allocation_has_nothing(directory, program):
    with Run(directory, program, "".join(f'[[task]]\nname = "t{i}"\ncommand = "sleep 2; echo t{i} >> ran"\ncores = 4\n' for i in range(2)),
             4) as run:
        run.join(4)
        wait_for(lambda: len(lines_of(f"{directory}/ran")) >= 1)
        run.wait(0, 0)
        same(json.loads(run.harrow("status", "--json", "--run-dir", "r", code=0).out)["state"], "ended")


def test_joined_and_resumed_at_once(directory, program):
    """Whoever is first: there is one run, with each task in one allocation."""
    with Run(directory, program, independent(100, 0.1)) as run:
        run.join(2)
        wait_for(lambda: len(lines_of(f"{directory}/ran")) > 10)
        run.stop()
        again = [run.harrow.start("run", "--resume", "--run-dir", "r", "--slots", "2")]
        again += [run.harrow.start("join", "r", "--slots", "2") for _ in range(2)]
        run.keepers += again
        codes = [keeper.wait(120) for keeper in again]
        # A resume that finds somebody at it leaves the run to them.
        check(codes[0] in (0, 2) and set(codes[1:]) == {0}, codes, *lines_of(f"{directory}/harrow.out"))
        succeeded = collections.Counter()
        for part in (name for name in os.listdir(run.path) if name.isdigit() and os.path.exists(f"{run.path}/{name}/journal.db")):
            succeeded.update(query(run, part, "SELECT task FROM attempt WHERE outcome = 1 AND code = 0"))
        same(len(succeeded), 100)
        same([task for task, n in succeeded.items() if n > 1], [])
        status = json.loads(run.harrow("status", "--json", "--run-dir", "r", code=0).out)
        same((status["state"], status["tasks"]["done"]), ("ended", 100))


def test_a_refused_resume_leaves_the_fence(directory, program):
    with Run(directory, program, independent(60, 0.1)) as run:
        run.join(2)
        wait_for(lambda: len(lines_of(f"{directory}/ran")) > 10)
        kill(run.keepers[0].pid)
        run.keepers[0].wait()
        owner = lines_of(f"{run.path}/0/owner")
        check("harrow join" in run.harrow("run", "--resume", "--run-dir", "r", code=2).err)
        same(lines_of(f"{run.path}/0/owner"), owner)
        same(run.keepers[1].wait(120), 0)
        same(json.loads(run.harrow("status", "--json", "--run-dir", "r", code=0).out)["state"], "ended")


def test_what_cannot_be_taken_over_is_told(directory, program):
    with Run(directory, program, independent(40, 0.1)) as run:
        run.join(2)
        wait_for(lambda: len(lines_of(f"{directory}/ran")) > 10)
        kill(run.keepers[1].pid)
        run.keepers[1].wait()
        wait_for(lambda: not of_run(run.part(1), "server"))
        for name in os.listdir(f"{run.path}/1"):
            if name.startswith("journal.db"):
                write(f"{run.path}/1/{name}", "garbage" * 1000, 0o600)
        wait_for(lambda: "cannot be taken over: part 1" in "\n".join(lines_of(f"{directory}/harrow.out")))


def test_servers_are_killed_at_any_moment(directory, program):
    """kill -9 of the servers of both allocations, again and again: each task is run once, by the record and by its own word."""
    seed = int(os.environ.get("HARROW_TEST_SEED") or random.randrange(1 << 30))
    print("seed", seed)
    rng = random.Random(seed)
    kills = 40 if LONG else 8
    count = 100 * kills
    with Run(directory, program, independent(count, 0.02)) as run:
        run.join(2)
        kill_now_and_then(run, rng, kills, 0.6, "server")
        run.wait(0, 0)
        run.check_each_once(names(count))


def test_what_cannot_join_is_told(directory, program):
    harrow = Harrow(program, directory)
    check("no run" in harrow("join", "nowhere", code=2).err)
    write(f"{directory}/tasks.txt", "true\n")
    harrow("run", "tasks.txt", "--run-dir", "r", code=0)
    check("nothing of it is left to do" in harrow("join", "r", code=0).err)


if __name__ == "__main__":
    run_support.tell(lambda: run_support.tests_of(sys.modules[__name__], sys.argv[1]))
