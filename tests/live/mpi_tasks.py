"""MPI tasks that agents start themselves: real Open MPI, one node.

usage: mpi_tasks.py HARROW [test_...]"""
import contextlib
import os
import shutil
import signal
import subprocess
import sys

import mpi_support
import run_support
from run_support import Harrow, Skipped, check, lines_of, processes, same, wait_for, with_word, write

SLOTS = ("--slots", "4")


def prepare(directory, program):
    return mpi_support.prepare(directory, program, "ranks")


def flow(directory, *tasks):
    mpi_support.flow(directory, tasks)


def shared_memory():
    return {name for name in os.listdir("/dev/shm") if name.startswith(("harrow-", "ranks-harrow-", "vader_segment", "ompi"))}


def helpers(harrow_pid=None):
    """pids of harrow-pmix below a process."""
    all_of = processes()
    found = []
    for pid, (parent, words) in all_of.items():
        if os.path.basename(words[0]) != "harrow-pmix":
            continue
        while parent not in (harrow_pid, 0, None) and parent in all_of:
            parent = all_of[parent][0]
        if parent == harrow_pid:
            found.append(pid)
    return found


@contextlib.contextmanager
def nothing_left(directory):
    before = shared_memory()
    yield
    new = shared_memory() - before
    wait_for(lambda: not new & shared_memory())  # some may be of other tests, which end
    same(with_word(f"{directory}/ranks"), [], "ranks still there")
    same([pid for pid, (_, words) in processes().items() if os.path.basename(words[0]) == "harrow-pmix" and directory in " ".join(words)], [])


def test_ring(directory, program):
    harrow = prepare(directory, program)
    flow(directory, {"name": "ring", "command": [f"{directory}/ranks", "ring"], "ranks": 4, "stdout": "ring.%t"})
    with nothing_left(directory):
        result = harrow("run", "--run-dir", "r", *SLOTS, "flow.toml", code=0)
    check("done 1 of 1" in result.out, result)
    for rank in range(4):
        same(lines_of(f"{directory}/ring.{rank}"), [f"rank {rank} of 4: token 6, wrong 0, half {2 if rank % 2 == 0 else 4}"])


def test_mpich(directory, program):
    """By PMI-1, on four nodes. These are of one machine: where UCX has only TCP, from 4 ranks on MPICH 4.0 hangs in MPI_Finalize, with
    mpiexec too."""
    found = shutil.which("mpicc.mpich")
    if not found:
        raise Skipped("there is no MPICH", "MPICH")
    subprocess.run([found, os.path.join(mpi_support.HERE, "mpi_suite.c"), "-o", f"{directory}/ranks"], check=True)
    harrow = Harrow(program, directory)
    counts = {8: [2] * 8, 6: [2, 2, 2, 2, 1, 1]}
    flow(directory, *({"name": f"of{ranks}", "command": [f"{directory}/ranks"], "ranks": ranks, "nodes": 4, "mpi": "pmi1", "time": "2m"}
                      for ranks in counts))
    harrow("run", "--run-dir", "r", "--local-nodes", "4", "--slots", "2", "flow.toml", code=0)
    for ranks, of_node in counts.items():
        said = harrow("logs", "--run-dir", "r", f"of{ranks}", code=0).out
        same(sorted(said.splitlines()), [f"rank {rank} of {ranks}, {here} on its node: wrong 0 0 0 0" for rank, here in enumerate(of_node)])


def test_line_file(directory, program):
    """Output of all ranks is the task's."""
    harrow = prepare(directory, program)
    write(f"{directory}/lines.txt", f"#HARROW ranks=3\n{directory}/ranks ring\n#HARROW\necho serial\n")
    harrow("run", "--run-dir", "r", *SLOTS, "lines.txt", code=0)
    same(sorted(harrow("logs", "--run-dir", "r", "#1", code=0).out.splitlines()),
         [f"rank {rank} of 3: token 3, wrong 0, half {2 if rank % 2 == 0 else 1}" for rank in range(3)])
    same(harrow("logs", "--run-dir", "r", "#2", code=0).out, "serial\n")


def test_failures_name_the_rank(directory, program):
    """Each task fails once, whatever its other ranks do when they hear of it."""
    harrow = prepare(directory, program)
    wanted = {"abort": "called MPI_Abort with 7", "abort0": "called MPI_Abort with 0", "killed": "was killed by signal 9 (Killed)",
              "leave": "exited with 0 before MPI_Finalize", "early": "exit 3: rank 2 of 4", "fail": "exit 5: rank 2 of 4"}
    flow(directory, *({"name": what, "command": [f"{directory}/ranks", what, "2"], "ranks": 4} for what in wanted))
    with nothing_left(directory):
        result = harrow("run", "--run-dir", "r", *SLOTS, "flow.toml", code=1)
    for what, text in wanted.items():
        said = harrow("explain", "--run-dir", "r", what, code=0).out
        check(text in said and ("rank 2 of 4" in said), what, said, result)
    check("failed 6" in result.out, result)


def test_ranks_are_asked_to_end_before_they_are_killed(directory, program):
    """What ranks write stays what they wrote, too: who is told of another's end is another process' business."""
    harrow = Harrow(program, directory)
    write(f"{directory}/rank", """
exec 2>/dev/null  # where a shell says that its sleep was ended
if [ $HARROW_RANK = 0 ]; then
  until [ -e ready.1 -a -e ready.2 -a -e ready.3 ]; do sleep 0.05; done
  exit 3
fi
trap 'echo asked > asked.$HARROW_RANK; exit 0' TERM
touch ready.$HARROW_RANK
while :; do sleep 0.05; done
""")
    flow(directory, {"name": "t", "command": ["sh", "rank"], "ranks": 4, "mpi": "none", "stdout": "out.%t", "stderr": "err.%t"})
    result = harrow("run", "--run-dir", "r", *SLOTS, "flow.toml", code=1)
    check("rank 0 of 4" in harrow("explain", "--run-dir", "r", "t", code=0).out, result)
    for rank in (1, 2, 3):
        same(lines_of(f"{directory}/asked.{rank}"), ["asked"], result)
    for rank in range(4):
        same([os.path.getsize(f"{directory}/{name}.{rank}") for name in ("out", "err")], [0, 0], "nothing was written")


def test_time_limit(directory, program):
    harrow = prepare(directory, program)
    flow(directory, {"name": "hang", "command": [f"{directory}/ranks", "hang", "1"], "ranks": 3, "time": "4s"})
    with nothing_left(directory):
        result = harrow("run", "--run-dir", "r", *SLOTS, "flow.toml", code=1)
    check("failed: hang (timed out" in result.err, result)


def test_memory_is_of_all_ranks(directory, program):
    harrow = Harrow(program, directory)
    command = "python3 -c \"import time; held = b'x' * (150 << 20); time.sleep(60)\""
    flow(directory, {"name": "m", "command": command, "ranks": 2, "mpi": "none", "memory": "200M"})
    result = harrow("run", "--run-dir", "r", *SLOTS, "flow.toml", code=1)
    check("failed: m (out of memory" in result.err, result)


def test_warden_killed(directory, program):
    harrow = prepare(directory, program)
    flow(directory, {"name": "a", "command": [f"{directory}/ranks", "sleep", "3"], "ranks": 2, "retries": 0})
    with nothing_left(directory):
        run = harrow.start("run", "--run-dir", "r", *SLOTS, "flow.toml")
        wait_for(lambda: helpers(run.pid) and with_word(f"{directory}/ranks"))
        for pid in run_support.of_run(f"{directory}/r", "agent"):
            os.kill(pid, signal.SIGKILL)
        same(run.wait(timeout=300), 0)


def test_many(directory, program):
    """1 to 4 ranks, mixed with serial ones."""
    harrow = prepare(directory, program)
    tasks = []
    for i in range(50):
        tasks.append({"name": f"m-{i}", "command": [f"{directory}/ranks", "ring"], "ranks": 1 + i % 4})
        tasks.append({"name": f"s-{i}", "command": ["true"]})
    flow(directory, *tasks)
    with nothing_left(directory):
        result = harrow("run", "--run-dir", "r", *SLOTS, "flow.toml", code=0)
    check("done 100 of 100" in result.out, result)
    for i in range(50):
        said = harrow("logs", "--run-dir", "r", f"m-{i}", code=0).out.splitlines() if i % 7 == 0 else None
        if said is not None:
            same(len(said), 1 + i % 4, said)


def test_without_pmi(directory, program):
    harrow = Harrow(program, directory)
    command = 'echo "$HARROW_RANK/$HARROW_RANKS $OMP_NUM_THREADS $(sort -u "$HARROW_HOSTFILE") $(wc -l < "$HARROW_HOSTFILE") $HARROW_NODELIST ${PMIX_RANK-none}"'
    flow(directory, {"name": "n", "command": command, "ranks": 3, "mpi": "none", "stdout": "n.%t"})
    with nothing_left(directory):
        harrow("run", "--run-dir", "r", *SLOTS, "flow.toml", code=0)
    node = os.uname().nodename
    for rank in range(3):
        same(lines_of(f"{directory}/n.{rank}"), [f"{rank}/3 1 {node} 3 {node} none"])


def test_how_the_machine_is_looked_at(directory, program):
    """Ranks find the user's variables for hwloc as they are, and no others."""
    for own in ({}, {"HWLOC_COMPONENTS": "-x86", "HWLOC_THISSYSTEM": "1"}):
        harrow = prepare(directory, program)
        harrow.env = {**harrow.env, **own}
        flow(directory, {"name": "h", "command": "env | grep ^HWLOC | sort; true", "ranks": 1})
        harrow("run", "--run-dir", f"r{len(own)}", *SLOTS, "flow.toml", code=0)
        same(harrow("logs", "--run-dir", f"r{len(own)}", "h", code=0).out.splitlines(), [f"{name}={own[name]}" for name in sorted(own)])


def test_without_a_fabric(directory, program):
    """Ranks are told that there is none, but what the user has said stays, and MPI works."""
    harrow = prepare(directory, program)
    harrow.env["OMPI_MCA_coll"] = "^hcoll"
    flow(directory, {"name": "told", "command": "echo $OMPI_MCA_pml/$OMPI_MCA_coll/$(ls $HWLOC_PLUGINS_PATH | grep -c hwloc)", "ranks": 1},
         {"name": "ring", "command": [f"{directory}/ranks", "ring"], "ranks": 4, "stdout": "ring.%t"})
    result = harrow("run", "--run-dir", "r", *SLOTS, "--mpi-profile", "no-fabric", "flow.toml", code=0)
    check("done 2 of 2" in result.out, result)
    fabric = any(os.listdir(f"/sys/class/{kind}") for kind in ("infiniband", "cxi", "usnic_verbs") if os.path.isdir(f"/sys/class/{kind}"))
    same(harrow("logs", "--run-dir", "r", "told", code=0).out.splitlines(), ["/^hcoll/0"] if fabric else ["ob1/^hcoll/0"])
    same(lines_of(f"{directory}/ring.3"), ["rank 3 of 4: token 6, wrong 0, half 4"])


def test_cores_of_a_rank(directory, program):
    """Each has its own."""
    harrow = Harrow(program, directory)
    flow(directory, {"name": "n", "command": "echo $OMP_NUM_THREADS; grep Cpus_allowed_list /proc/self/status", "ranks": 2, "cores": 2, "mpi": "none",
                     "stdout": "n.%t"})
    harrow("run", "--run-dir", "r", *SLOTS, "flow.toml", code=0)
    said = [lines_of(f"{directory}/n.{rank}") for rank in range(2)]
    same([lines[0] for lines in said], ["2", "2"])


def test_helper_killed(directory, program):
    """What it served is tried again, at no cost in retries; the next helper serves what comes."""
    harrow = prepare(directory, program)
    flow(directory, {"name": "a", "command": [f"{directory}/ranks", "sleep", "3"], "ranks": 2, "retries": 0},
         {"name": "b", "command": [f"{directory}/ranks", "ring"], "ranks": 2, "after": ["a"]})
    with nothing_left(directory):
        run = harrow.start("run", "--run-dir", "r", *SLOTS, "flow.toml")
        wait_for(lambda: len(with_word(f"{directory}/ranks")) >= 2)
        pid = wait_for(lambda: helpers(run.pid))[0]
        os.kill(pid, signal.SIGKILL)
        same(run.wait(timeout=120), 0)


def test_helper_that_hangs(directory, program):
    """It is ended when it has not answered for 20 s."""
    harrow = prepare(directory, program)
    flow(directory, {"name": "a", "command": [f"{directory}/ranks", "sleep", "2"], "ranks": 2, "retries": 0})
    with nothing_left(directory):
        run = harrow.start("run", "--run-dir", "r", *SLOTS, "flow.toml")
        wait_for(lambda: len(with_word(f"{directory}/ranks")) >= 2)
        os.kill(wait_for(lambda: helpers(run.pid))[0], signal.SIGSTOP)
        same(run.wait(timeout=300), 0)


def test_agent_killed(directory, program):
    harrow = prepare(directory, program)
    flow(directory, {"name": "a", "command": [f"{directory}/ranks", "sleep", "3"], "ranks": 2, "retries": 0})
    with nothing_left(directory):
        run = harrow.start("run", "--run-dir", "r", *SLOTS, "flow.toml")
        wait_for(lambda: helpers(run.pid) and with_word(f"{directory}/ranks"))
        for pid in run_support.of_run(f"{directory}/r", "inner"):
            os.kill(pid, signal.SIGKILL)
        same(run.wait(timeout=120), 0)


def test_cancelled(directory, program):
    harrow = prepare(directory, program)
    flow(directory, {"name": "a", "command": [f"{directory}/ranks", "hang", "1"], "ranks": 4})
    with nothing_left(directory):
        run = harrow.start("run", "--run-dir", "r", *SLOTS, "flow.toml")
        wait_for(lambda: len(with_word(f"{directory}/ranks")) == 4)
        harrow("cancel", "--run-dir", "r", "a", code=0)
        same(run.wait(timeout=120), 1)


def test_outputs_are_the_attempt_s(directory, program):
    """Removed before a second attempt, by one of its ranks before any begins; asked for after the last."""
    harrow = Harrow(program, directory)
    write(f"{directory}/ok.sh", "#!/bin/sh\n[ $HARROW_RANK = 0 ] || sleep 0.5\necho $HARROW_RANK >> all\n", 0o755)
    for files in ("shared", "local"):
        flow(directory, {"name": "w", "command": ["./ok.sh"], "ranks": 3, "mpi": "none", "out": ["all"], "in": ["ok.sh"]})
        harrow("run", "--run-dir", files, *SLOTS, "--files", files, "flow.toml", code=0)
        same(sorted(lines_of(f"{directory}/all")), ["0", "1", "2"], files)
        os.remove(f"{directory}/all")


def test_outputs_of_several_nodes(directory, program):
    """Asked for when the ranks of all nodes have ended, of which the lead node's may be the first."""
    harrow = Harrow(program, directory)
    flow(directory, {"name": "w", "command": "[ $HARROW_RANK = 0 ] || { sleep 1; echo $HARROW_RANK > late; }", "ranks": 2, "nodes": 2,
                     "mpi": "none", "out": ["late"], "time": "1m"},
         {"name": "r", "command": "cat late", "in": ["late"]})
    result = harrow("run", "--run-dir", "r", "--local-nodes", "2", "--slots", "2", "flow.toml", code=0)
    check("done 2 of 2" in result.out, result)


def test_several_nodes_without_ranks(directory, program):
    """The command runs on the lead node, and is told of the others."""
    harrow = Harrow(program, directory)
    flow(directory, {"name": "w", "command": "echo $HARROW_NODELIST > nodes", "nodes": 2, "out": ["nodes"], "time": "1m"})
    harrow("run", "--run-dir", "r", "--local-nodes", "2", "--slots", "2", "flow.toml", code=0)
    same(sorted(lines_of(f"{directory}/nodes")[0].split(",")), ["local0", "local1"])


def test_temporary_files_in_shared_memory(directory, program):
    """TMPDIR lies where ranks have their files, however it is spelt."""
    for tmp in ("/dev/shm", "/dev/shm/", "/dev/../dev/shm"):
        harrow = Harrow(program, directory, env={"TMPDIR": tmp})
        flow(directory, {"name": "m", "command": 'echo $HARROW_RANK > "$TMPDIR/x"; test -s "$HARROW_HOSTFILE"', "ranks": 2, "mpi": "none"},
             {"name": "s", "command": 'echo x > "$TMPDIR/x"', "after": ["m"]})
        with nothing_left(directory):
            harrow("run", "--run-dir", f"r{len(tmp)}", *SLOTS, "flow.toml", code=0)


def test_ranks_that_never_meet(directory, program):
    """Each would do all of the work, and they would overwrite each other's results."""
    harrow = prepare(directory, program)
    flow(directory, {"name": "a", "command": ["true"], "ranks": 2}, {"name": "b", "command": ["true"], "ranks": 1})
    result = harrow("run", "--run-dir", "r", *SLOTS, "flow.toml", code=1)
    check("done 1 of 2" in result.out and "MPICH" in harrow("explain", "--run-dir", "r", "a", code=0).out, result)


def test_not_installed(directory, program):
    """A build without libpmix says so, and runs all else."""
    lonely = shutil.copy(program, f"{directory}/harrow")
    harrow = Harrow(lonely, directory)
    flow(directory, {"name": "m", "command": ["true"], "ranks": 2}, {"name": "s", "command": ["true"]},
         {"name": "n", "command": ["true"], "ranks": 2, "mpi": "none"})
    result = harrow("run", "--run-dir", "r", *SLOTS, "flow.toml", code=1)
    check("harrow-pmix is not installed" in result.err + result.out and "done 2 of 3" in result.out, result)


def main():
    run_support.tests_of(sys.modules[__name__], sys.argv[1])


if __name__ == "__main__":
    run_support.tell(main)
