"""MPI tasks that go wrong, drawn from a seed, on nodes of this machine: a rank that is killed whenever it comes, calls MPI_Abort, leaves without
MPI_Finalize, or hangs, which a limit ends; and agents, nodes, servers and helpers (harrow-pmix) that are killed or stand still under ranks
that talk. Every task fails once, for the reason that it had, the rank and its node named; what else runs is not touched; what the run's
processes hold is the same before and afterwards; and nothing is left.

usage: mpi_faults.py HARROW [test_...] [COUNT]

COUNT: percent of the full counts (300 kills, 300 aborts, 100 exits, 50 that hang, 10 of each that befalls processes), which HARROW_LONG=1
has. HARROW_SEED runs one seed again."""
import collections
import contextlib
import os
import random
import re
import signal
import sys
import time

import mpi_support
import run_support
from mpi_support import gate, mpi_task
from run_support import check, kill, lines_of, of_run, query, recorded, same, wait_for, write

PERCENT = next((int(word) for word in sys.argv[2:] if word.isdigit()), 100 if os.environ.get("HARROW_LONG") == "1" else 0)
SEED = int(os.environ.get("HARROW_SEED") or time.time_ns() % 10**9)
FULL = {"killed": 300, "abort": 300, "leave": 100, "hang": 50}
LIMIT = 4  # seconds, of ranks that hang
AT_LAST = 60  # seconds: what has failed is over by then


def drawn_tasks(directory, rng):
    """One a fault, between others that do well."""
    tasks, wanted = [], {}
    for kind, full in FULL.items():
        for i in range(max(1, full * PERCENT // 100)):
            name = f"{kind}-{i}"
            nodes = rng.choice([0, 1, 2, 2, 3])
            ranks = rng.randint(2, 3) if nodes < 2 else rng.randint(nodes, 4)
            who, more = rng.randrange(ranks), {}
            word, microseconds, code = kind, rng.randrange(300_000), 0
            if kind == "killed":  # while it is loaded, in MPI_Init, or later
                microseconds = rng.choice([rng.randrange(20_000), rng.randrange(500_000), rng.randrange(2_000_000)])
            elif kind == "abort":
                code = rng.choice([0, 1, 7, 7, 127, 255])
            elif kind == "leave":
                word = rng.choice(["leave", "exit"])
            else:
                word, more = rng.choice(["absent", "unfinished", "stopped"]), {"time": f"{LIMIT}s"}
            tasks.append(mpi_task(name, directory, ranks, nodes, word, who, microseconds, code, **more))
            wanted[name] = (kind, ranks, who, code)
    for i in range(len(wanted) // 2):
        tasks.append(mpi_task(f"well-{i}", directory, rng.randint(1, 3), 0, "well", 0, rng.randrange(50)))
        tasks.append({"name": f"serial-{i}", "command": f"sleep 0.{rng.randrange(3)}"})
    rng.shuffle(tasks)
    return tasks, wanted


def complaint(attempt, kind, ranks, who, code, node):
    """What is wrong with what was said of a task that failed; empty: nothing. `node`: where its rank was, which it could not say before it
    was killed."""
    outcome, said_code, message, lead, seconds = attempt
    if kind == "hang":
        return "" if outcome == "timed_out" and seconds < LIMIT + AT_LAST else "no limit"
    rank, says = f"rank {who} of {ranks}", {"killed": "was killed by signal 9 (Killed)", "abort": f"called MPI_Abort with {code}",
                                            "leave": "exited with 0 before MPI_Finalize, for which the others wait"}[kind]
    found = re.fullmatch(rf"{rank}(?: on (\S+))? {re.escape(says)}", message)
    if not found:
        return f"not '{rank} ... {says}'"
    if node is not None and (found[1] or lead) != node:
        return f"it was on {node}"
    wanted = {"killed": ("signaled", 9), "abort": ("exited", code or 1), "leave": ("exited", 1)}[kind]
    return "" if (outcome, said_code) == wanted and seconds < AT_LAST else f"not {wanted}"


def test_ranks_that_fail(directory, program):
    # Does not hold each time: once in a hundred such faults or a few hundred a helper gets stuck in libpmix and is replaced, and what
    # else it served is lost and begins again.
    if PERCENT == 0:
        print("only with HARROW_LONG=1 or a COUNT")
        return
    print(f"HARROW_SEED={SEED}, {PERCENT} percent", flush=True)
    rng = random.Random(SEED)
    harrow = mpi_support.prepare(directory, program)
    write(f"{directory}/harrow.conf", "bad_node_failures = 0\n")  # no node is to blame for what half of the tasks do
    tasks, wanted = drawn_tasks(directory, rng)
    steady = {"steady-one": mpi_support.NODES, "steady-two": 2}
    mpi_support.flow(directory, [*(mpi_task(name, directory, ranks, ranks, "steady", 0, 0) for name, ranks in steady.items()), gate("gate", "go"),
                                 *({**task, "after": ["gate"]} for task in tasks)])
    held = mpi_support.Held(directory)
    with mpi_support.nothing_left(directory), mpi_support.begun(harrow) as run:
        wait_for(lambda: len(mpi_support.where(directory, "talks")) == sum(steady.values()))
        before, watched = held.now(), mpi_support.Watched(directory)
        write(f"{directory}/go", "")
        wait_for(lambda: over(harrow) >= len(tasks) + 1, 120 + 4 * len(tasks), 1)
        watched.end()
        same_again(held, before)
        write(f"{directory}/enough", "")
        same(run.wait(timeout=120), 1, lines_of(f"{directory}/harrow.out")[-20:])
    attempts = query(f"{directory}/r", "SELECT task, outcome, code, message, node, run_s, attempt FROM attempts WHERE outcome != 'lost'")
    print(f"{mpi_support.lost_by_silence(directory)} attempts were lost with a silent node", flush=True)
    same(collections.Counter(attempt[0] for attempt in attempts).most_common(1)[0][1], 1, "attempts of a task")
    same(len(attempts), len(tasks) + 3)
    places = mpi_support.where(directory)
    bad, slowest = [], collections.Counter()
    for task, *attempt, _ in attempts:
        if task not in wanted:
            what = "" if attempt[:2] == ["exited", 0] else "it was not to fail"
        else:
            kind, ranks, who, code = wanted[task]
            what = complaint(attempt, kind, ranks, who, code, places.get((task, who), [None])[0])
            slowest[kind] = max(slowest[kind], attempt[4])
        if what:
            bad.append(f"{task}: {what}: {attempt}")
    print(f"{dict(collections.Counter(kind for kind, *_ in wanted.values()))} beside {len(tasks) - len(wanted)} that do well; "
          f"the longest {', '.join(f'{kind} {seconds:.1f} s' for kind, seconds in slowest.items())}; "
          f"helpers: {len(watched.seen)}, of {watched.most / 1024:.0f} MiB at most", flush=True)
    check(not bad, f"{len(bad)} of {len(wanted)}:", *("\n  " + line for line in sorted(bad)[:40]))


def over(harrow):
    states = recorded(harrow, "r")
    return sum(states[state] for state in ("done", "failed", "skipped", "cancelled") if state in states)


def same_again(held, before):
    """A helper that has served its share is followed by another one, and an agent has a connection to each other one, once they have had
    something to say; whatever else there is, there was before."""
    def more():
        now, extra = held.now(), []
        most = max(before["descriptors"].values())
        new_helpers = [name for name in now["descriptors"] if name not in before["descriptors"]]
        for name, count in now["descriptors"].items():
            free = mpi_support.NODES - 1 + len(new_helpers) if name.startswith("inner") else 0
            if count > before["descriptors"].get(name, most) + free:
                extra.append((name, count, before["descriptors"].get(name)))
        extra += [name for name in new_helpers if not name.startswith("helper")]
        ranks = [name for name in now["processes"] if name not in ("harrow", "harrow-pmix")]
        if ranks != [name for name in before["processes"] if name not in ("harrow", "harrow-pmix")]:
            extra.append(ranks)
        # A task whose node was lost has another attempt, on other nodes perhaps.
        left = collections.Counter(re.sub(r"ranks-harrow-\w+/\d+-\d+", "ATTEMPT", path) for path in now["files"])
        left -= collections.Counter(re.sub(r"ranks-harrow-\w+/\d+-\d+", "ATTEMPT", path) for path in before["files"])
        extra += [path for path in left.elements() if not re.search(r"/pmix-\d+(/hwloc\.sm)?$", path)]
        return extra
    end = time.monotonic() + 30
    while more() and time.monotonic() < end:
        time.sleep(0.2)
    same(more(), [], before)


def test_ranks_that_meet_and_all_die(directory, program):
    """The helper finds them gone at once, the one first that the others were waiting for: what else it serves goes on."""
    harrow = mpi_support.prepare(directory, program)
    count = 4
    mpi_support.flow(directory, [mpi_task("steady", directory, 2, 1, "steady", 0, 0, retries=0),
                                 *(mpi_task(f"all-{i}", directory, 4, 1, "unfinished", i % 4, 0, time="2m") for i in range(count))])
    with mpi_support.nothing_left(directory), mpi_support.begun(harrow, slots=6, nodes=1) as run:
        wait_for(lambda: len(mpi_support.where(directory, "talks")) == 2)
        for i in range(count):
            ranks = wait_for(lambda name=f"all-{i}": all_there(directory, name))
            time.sleep(3)  # until they are in MPI_Finalize
            ((helper,),) = mpi_support.helpers(directory).values()
            kill(helper, signal.SIGSTOP)
            for pid in sorted(ranks, key=lambda pid, who=i % 4: ranks[pid] != who):
                kill(pid)
            time.sleep(0.5)
            kill(helper, signal.SIGCONT)
            wait_for(lambda ended=i + 1: recorded(harrow, "r")["failed"] == ended, 60)
        write(f"{directory}/enough", "")
        same(run.wait(timeout=120), 1, lines_of(f"{directory}/harrow.out")[-20:])
    outcomes = query(f"{directory}/r", "SELECT task, outcome, message FROM attempts ORDER BY task")
    same([(task, outcome) for task, outcome, _ in outcomes], [(f"all-{i}", "signaled") for i in range(count)] + [("steady", "exited")], outcomes)


def test_a_rank_that_ends_before_mpi_init(directory, program):
    """The others wait for it, whether they have begun when it ends or begin later. What it leaves behind is ended at once."""
    harrow = mpi_support.prepare(directory, program)
    leaves = "if [ $HARROW_RANK = 1 ]; then (sleep 2; touch left) & else sleep 3; fi"
    mpi_support.flow(directory, [mpi_task("at-once", directory, 3, 1, "early", 1, 0), mpi_task("later", directory, 2, 1, "early", 0, 1_500_000),
                                 {"name": "alone", "command": "true", "ranks": 3, "nodes": 1}, {"name": "leaves", "command": leaves, "ranks": 2, "nodes": 1}])
    with mpi_support.nothing_left(directory), mpi_support.begun(harrow, nodes=1) as run:
        same(run.wait(timeout=120), 1, lines_of(f"{directory}/harrow.out")[-20:])
    outcomes = {task: (outcome, code, message) for task, outcome, code, message in query(f"{directory}/r", "SELECT task, outcome, code, message FROM attempts")}
    same(outcomes["at-once"], ("exited", 1, "rank 1 of 3 exited with 0 before MPI_Init, for which the others wait"))
    same(outcomes["later"], ("exited", 1, "rank 0 of 2 exited with 0 before MPI_Init, for which the others wait"))
    for task in ("alone", "leaves"):
        same(outcomes[task][2].split(" called")[0], "none of its ranks")
    check(not os.path.exists(f"{directory}/left"), "what a rank has left behind goes on")


def all_there(directory, name):
    """pid -> rank of a task of four ranks, when all of them run; the task runs alone of its sort."""
    found = {}
    for pid in run_support.with_word("unfinished"):
        with contextlib.suppress(OSError):
            with open(f"/proc/{pid}/environ", encoding="utf-8", errors="replace") as f:
                words = dict(word.split("=", 1) for word in f.read().split("\0") if "=" in word)
            if words.get("HARROW_TASK_NAME") == name and words.get("HARROW_SUBMIT_DIR") == os.path.realpath(directory):
                found[pid] = int(words["HARROW_RANK"])
    return found if len(found) == 4 else None


# --- processes of Harrow's

FAULTS = {  # name: how long until what it took is at work again, in seconds; what is said of it
    "agent": (30, ""), "node": (60, ""), "helper": (30, "harrow-pmix"), "helper stopped": (60, "harrow-pmix"), "server": (0, "")}


def strike(directory, fault, node):
    """Whether there was something to strike."""
    if fault == "server":
        pids = of_run(f"{directory}/r", "server")
    elif fault.startswith("helper"):
        pids = mpi_support.helpers(directory).get(node, [])
    else:
        pids = [pid for role in (["agent", "inner"] if fault == "node" else ["inner"]) for pid in [mpi_support.agents(directory, role).get(node)] if pid]
    for pid in pids:
        kill(pid, signal.SIGSTOP if fault == "helper stopped" else signal.SIGKILL)
    return bool(pids)


def struck(directory, program, rng, fault, early):
    """Two tasks of two nodes each, one of which is struck; `early`: maybe before its ranks have met. How long until it is at work again."""
    harrow = mpi_support.prepare(directory, program)
    names = ["one", "two"]
    mpi_support.flow(directory, [mpi_task(name, directory, 4, 2, "steady", 0, 0, retries=0) for name in names])
    with mpi_support.nothing_left(directory), mpi_support.begun(harrow, slots=2) as run:
        def times(name, word):
            """How often all ranks of the task have said it."""
            said = mpi_support.where(directory, word)
            return min(len(said[name, rank]) for rank in range(4))
        wait_for(lambda: all(times(name, "begins" if early else "talks") >= 1 for name in names))
        if early:
            time.sleep(rng.uniform(0, 0.5))
        nodes = {name: {at for (task, _), ats in mpi_support.where(directory).items() for at in ats if task == name} for name in names}
        same(len(nodes["one"] | nodes["two"]), 4, nodes)
        victim, other = rng.sample(names, 2)
        node = rng.choice(sorted(nodes[victim]))
        check(strike(directory, fault, node), "nothing to strike", fault, node)
        began = time.monotonic()
        tries = 1 if fault == "server" else 2
        wait_for(lambda: times(victim, "begins") >= tries and times(victim, "talks") >= (tries - 1 if early else tries) and times(other, "talks") >= 1)
        seconds = time.monotonic() - began
        write(f"{directory}/enough", "")
        same(run.wait(timeout=180), 0, lines_of(f"{directory}/harrow.out")[-20:])
    attempts = query(f"{directory}/r", "SELECT task, outcome, message FROM attempts ORDER BY id")
    same([attempt[1] for attempt in attempts if attempt[0] == other], ["exited"], "what was not touched", attempts)
    same([attempt[1] for attempt in attempts if attempt[0] == victim], ["lost"] * (tries - 1) + ["exited"], attempts)
    limit, says = FAULTS[fault]
    for _, outcome, message in attempts:
        check(outcome == "exited" or (says in message and node in message), "not told of", node, message)
    check(tries == 1 or seconds < limit, fault, f"took {seconds:.1f} s, not {limit}")
    return seconds


def strikes(directory, program, fault):
    rng = random.Random(f"{SEED} {fault}")
    seconds = []
    for i in range(max(1, 10 * PERCENT // 100)):
        os.mkdir(f"{directory}/{i}")
        seconds.append(struck(f"{directory}/{i}", program, rng, fault, early=i % 2 == 1))
    print(f"HARROW_SEED={SEED}: {fault}: {len(seconds)} times, at work again after {max(seconds):.1f} s at most", flush=True)


def test_agent_killed(directory, program):
    strikes(directory, program, "agent")


def test_node_killed(directory, program):
    strikes(directory, program, "node")


def test_server_killed(directory, program):
    strikes(directory, program, "server")


def test_helper_killed(directory, program):
    strikes(directory, program, "helper")


def test_helper_stands_still(directory, program):
    strikes(directory, program, "helper stopped")


def main():
    run_support.tests_of(sys.modules[__name__], sys.argv[1])


if __name__ == "__main__":
    run_support.tell(main)
