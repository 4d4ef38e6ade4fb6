#!/usr/bin/env python3
"""One program, now (harrow exec): what it prints and when, its exit status, that nothing is left of it, and that it runs beside a run.

usage: exec.py HARROW [test ...]"""
import contextlib
import glob
import hashlib
import os
import re
import signal
import subprocess
import sys

import mpi_support
import mpi_tasks
import run_support
from run_support import Harrow, check, lines_of, same, wait_for, with_word, write

HERE = "--mpi", "none", "-j", "4"
SHELL = "sh", "-c"


def of_program(err):
    """Without what is said of this machine: it may have fewer cores than there are ranks."""
    return "".join(line for line in err.splitlines(True) if "tasks are not pinned" not in line)


class Place(Harrow):
    def exec(self, *args, code=0, **options):
        """One that ends, and leaves nothing."""
        done = self("exec", *args, code=code, **options)
        done.err = of_program(done.err)
        same(self.directories(), [])
        return done

    def directories(self):
        return glob.glob(f"{self.cwd}/.harrow-*")

    def begin(self, *args, **options):
        """One in the background, with pipes."""
        return subprocess.Popen([self.program, "exec", *args], cwd=self.cwd, env=self.env, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, **options)


@contextlib.contextmanager
def killed_at_last(process):
    """A test that fails leaves nothing."""
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)
            process.communicate(timeout=300)


def ended(process, timeout=300):
    out, err = process.communicate(timeout=timeout)
    return process.returncode, out.decode(), of_program(err.decode())


def test_exit_status(directory, program):
    place = Place(program, directory)
    node = os.uname().nodename
    for command, code, says in (("true", 0, ""), ("exit 5", 5, f"harrow: exit 5, on {node}\n"), ("exit 255", 255, "exit 255"),
                                ("kill -9 $$", 128 + 9, "signal 9 (SIGKILL)"), ("kill -TERM $$", 128 + 15, "signal 15")):
        done = place.exec(*HERE, *SHELL, command, code=code)
        same(done.out, "", command)
        check(says in done.err if says else not done.err, command, done)
    done = place.exec(*HERE, "-n", "3", *SHELL, "test $HARROW_RANK != 1 || exit 7; test $HARROW_RANK = 1 || sleep 300", code=7)
    check("rank 1 of 3" in done.err and node in done.err, done)
    done = place.exec(*HERE, "-n", "3", *SHELL, "test $HARROW_RANK != 2 || kill -SEGV $$; sleep 300", code=128 + 11)
    check("rank 2 of 3 was killed by signal 11" in done.err, done)


def test_what_cannot_be_run(directory, program):
    place = Place(program, directory)
    write(f"{directory}/text", "no program\n")
    done = place.exec(*HERE, "./nosuch", code=127)
    check("nosuch" in done.err and "not started" in done.err, done)
    check("text" in place.exec(*HERE, "./text", code=126).err)
    done = place.exec("-n", "5", *HERE, "true", code=3)
    check("not started" in done.err and "nor can several that share its ranks: 5 cores; the largest has 4, unless --slots" in done.err, done)


def test_time_limit(directory, program):
    place = Place(program, directory)
    length = run_support.long_sleep()
    done = place.exec(*HERE, "-n", "2", "--time", "1s", "sleep", length, code=124)
    check("timed out" in done.err, done)
    same(with_word(length), [])


def test_command_as_it_stands(directory, program):
    """No shell; options of harrow end where the command begins, whatever follows, and whatever it is called."""
    place = Place(program, directory)
    words = ["-n", "4", "--help", "", "a b", "$HOME", "`x`;", "'\"", "--", "-j", "status", "\u00e9", "new\nline"]
    for mark in ([], ["--"]):
        done = place.exec(*HERE, *mark, "printf", "<%s>", *words)
        same(done.out, "".join(f"<{word}>" for word in words))
    write(f"{directory}/status", "#!/bin/sh\necho mine \"$@\"\n", 0o755)
    place.env["PATH"] = f"{directory}:{place.env['PATH']}"
    for spelt in ("status", "./status"):
        same(place.exec("-n2", "--mpi=none", "--slots=4", spelt, "run", "-h").out, "mine run -h\n" * 2)


def test_where_it_runs(directory, program):
    place = Place(program, directory)
    place.env["ANY"] = "thing"
    done = place.exec(*HERE, *SHELL, 'pwd; echo $ANY; cat; echo "$HARROW_RANK of $HARROW_RANKS"', stdin="not for it")
    same(done.out, f"{os.path.realpath(directory)}\nthing\n0 of 1\n")
    same(done.err, "")


def test_threads(directory, program):
    """As many as a rank has cores, unless the caller has said so; in a task of a run Harrow has."""
    place = Place(program, directory)
    command = [*SHELL, "echo $OMP_NUM_THREADS"]
    same(place.exec(*HERE, "-c", "2", *command).out, "2\n")
    place.env["OMP_NUM_THREADS"] = "7"
    same(place.exec(*HERE, "-c", "2", *command).out, "7\n")
    place.env["HARROW_TASK_ID"] = "1"
    same(place.exec(*HERE, "-c", "2", *command).out, "2\n")


def test_a_launcher_of_ranks(directory, program):
    """Each rank would start all of them."""
    place = Place(program, directory)
    write(f"{directory}/mpirun", "#!/bin/sh\necho started\n", 0o755)
    done = place.exec(*HERE, "-n", "2", "./mpirun", "-n", "2", "x")
    check("each of its 2 ranks would start it" in done.err and done.out == "started\nstarted\n", done)
    done = place.exec(*HERE, "./mpirun", "-n", "2", "x")
    check("would start it" not in done.err and done.out == "started\n", done)


def test_settings_of_flows_are_not_for_it(directory, program):
    """One try, all of its output, nothing that is for nodes and ends of runs."""
    place = Place(program, directory)
    place.env.update(HARROW_ON_END=f"touch {directory}/ended", HARROW_NODE_SETUP=f"touch {directory}/begun", HARROW_FILES="local",
                     HARROW_NODE_TEARDOWN=f"touch {directory}/left", HARROW_RETRIES="3", HARROW_OUTPUT_LIMIT="1K", HARROW_PROGRESS="plain",
                     HARROW_RUN_DIR=f"{directory}/elsewhere")
    done = place.exec(*HERE, *SHELL, "echo once >> tries; seq 10000; exit 1", code=1)
    same(done.out.split(), [str(n) for n in range(1, 10001)])
    same(len(done.err.splitlines()), 1, done.err)
    same(lines_of(f"{directory}/tries"), ["once"])
    same([name for name in ("ended", "begun", "left", "elsewhere") if os.path.exists(f"{directory}/{name}")], [])


def test_streams(directory, program):
    place = Place(program, directory)
    done = place.exec(*HERE, "-n", "2", *SHELL, 'echo "out $HARROW_RANK"; echo "err $HARROW_RANK" >&2')
    same((sorted(done.out.splitlines()), sorted(done.err.splitlines())), (["out 0", "out 1"], ["err 0", "err 1"]))
    # Any bytes, and no end of a line.
    script = write(f"{directory}/bytes.py", "import os\nos.write(1, bytes(range(256)) * 3)\n")
    raw = subprocess.run([program, "exec", *HERE, sys.executable, script], cwd=directory, env=place.env, capture_output=True, timeout=300)
    same((raw.returncode, raw.stdout), (0, bytes(range(256)) * 3))


def test_whole_lines(directory, program):
    """Of several ranks that print at once, each line as it was, and each rank's in their order."""
    place = Place(program, directory)
    done = place.exec(*HERE, "-n", "4", *SHELL, 'for n in $(seq 300); do echo "$HARROW_RANK $n the rest of the line"; done')
    seen = {str(rank): [] for rank in range(4)}
    for line in done.out.splitlines():
        found = re.fullmatch(r"(\d) (\d+) the rest of the line", line)
        check(found, repr(line))
        seen[found[1]].append(int(found[2]))
    same(seen, {str(rank): list(range(1, 301)) for rank in range(4)})


def test_output_while_it_runs(directory, program):
    """It goes on only when what it has printed so far has been seen."""
    place = Place(program, directory)
    command = ('echo first; while [ ! -e go1 ]; do sleep 0.05; done; printf "no end" >&2; while [ ! -e go2 ]; do sleep 0.05; done; '
               'echo last; exit 4')
    with killed_at_last(place.begin(*HERE, *SHELL, command)) as running:
        same(running.stdout.readline(), b"first\n")
        write(f"{directory}/go1", "")
        seen = b""
        while not seen.endswith(b"no end"):
            seen += os.read(running.stderr.fileno(), 100)
        same(running.poll(), None)
        write(f"{directory}/go2", "")
        code, out, err = ended(running)
    same((code, out), (4, "last\n"))
    check("exit 4" in err, err)
    same(place.directories(), [])


def test_a_lot_for_a_slow_reader(directory, program):
    place = Place(program, directory)
    count = 400_007
    wanted = hashlib.sha256("".join(f"{n}\n" for n in range(1, count + 1)).encode())
    with killed_at_last(place.begin(*HERE, "seq", str(count))) as running:
        got, size = hashlib.sha256(), 0
        while piece := running.stdout.read1(1 << 16):
            if size == 0:
                wait_for(lambda: not with_word(str(count)))
            got.update(piece)
            size += len(piece)
        same((ended(running)[0], got.hexdigest()), (0, wanted.hexdigest()))
    same(place.directories(), [])


def interrupted(place, number, seen, *args):
    """One that prints `begun` and sleeps, which is then ended by a signal."""
    length = run_support.long_sleep()
    with killed_at_last(place.begin(*HERE, "-n", "2", *args, *SHELL, f"echo begun; sleep {length} & wait")) as running:
        if seen:
            same([running.stdout.readline() for _ in range(2)], [b"begun\n"] * 2)
        else:
            wait_for(place.directories)
        os.killpg(running.pid, number)
        code, out, err = ended(running)
    same((code, place.directories()), (128 + number, []), out, err)
    wait_for(lambda: not with_word(length) and not with_word(place.cwd), 30)
    return err


def test_interrupted(directory, program):
    place = Place(program, directory)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        err = interrupted(place, number, True)
        check("what runs is being ended" in err and "resume" not in err, err)


def test_interrupted_as_it_begins(directory, program):
    place = Place(program, directory)
    for _ in range(3):
        interrupted(place, signal.SIGINT, False)


def test_interrupted_while_nobody_reads(directory, program):
    """More than a pipe holds, for a reader who reads nothing."""
    place = Place(program, directory)
    for command in ("echo begun >> begun; seq 100000; sleep 300", "seq 100000; echo begun >> begun"):
        with killed_at_last(place.begin(*HERE, *SHELL, command)) as running:
            wait_for(lambda: lines_of(f"{directory}/begun"))
            # One that comes between the end of the program and that of its run is for the run.
            while running.poll() is None:
                running.send_signal(signal.SIGINT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    running.wait(timeout=2)
            same((running.returncode, place.directories()), (128 + signal.SIGINT, []))
            running.communicate()
        os.unlink(f"{directory}/begun")


def test_nobody_reads_on(directory, program):
    """As of any program before a pipe: it ends."""
    place = Place(program, directory)
    with killed_at_last(place.begin(*HERE, "yes", directory)) as running:
        running.stdout.readline()
        running.stdout.close()
        wait_for(lambda: running.poll() is not None)
        same((running.returncode, of_program(running.stderr.read().decode()), place.directories()), (128 + signal.SIGPIPE, "", []))
    same(with_word(directory), [])


def test_full_disk(directory, program):
    place = Place(program, directory)
    with open("/dev/full", "wb") as full:
        done = subprocess.run([program, "exec", *HERE, "echo", "x"], cwd=directory, env=place.env, stdout=full, stderr=subprocess.PIPE, text=True,
                              timeout=300)
    same((done.returncode, place.directories()), (3, []), done.stderr)
    check("cannot write the output" in done.stderr, done.stderr)


def test_several_nodes(directory, program):
    """As evenly as can be; where nothing is said of nodes, as few as can hold them."""
    place = Place(program, directory)
    who = [*SHELL, 'echo "$HARROW_RANK/$HARROW_RANKS $HARROW_NODE $HARROW_NODELIST"']
    for args, counts in ((["-n", "3", "-N", "2"], [2, 1]), (["-n", "4"], [2, 2])):
        done = place.exec("-j", "2", "--local-nodes", "3", *args, "--mpi", "none", *who)
        lines = sorted(line.split() for line in done.out.splitlines())
        same([line[0] for line in lines], [f"{rank}/{sum(counts)}" for rank in range(sum(counts))])
        nodes = lines[0][2].split(",")
        same([[line[1] for line in lines].count(node) for node in nodes], counts, lines)
        same({line[2] for line in lines}, {",".join(nodes)})
    done = place.exec("-j", "2", "--local-nodes", "2", "-n", "2", "-N", "2", *SHELL, "test $HARROW_RANK = 0 || exit 5; sleep 300", code=5)
    check("rank 1 of 2" in done.err, done.err)
    done = place.exec("-n", "2", "-N", "3", "true", code=2)
    check("only 2 ranks" in done.err, done.err)


def test_bad_usage(directory, program):
    place = Place(program, directory)
    for args, says in (([], "no command"), (["-n", "4"], "no command"), (["-n", "0", "true"], "--ranks cannot be"), (["-n", "x", "true"], "--ranks"),
                       (["-c", "-1", "true"], "--cores"), (["--mpi", "yes", "true"], "--mpi cannot be"), (["-t", "soon", "true"], "--time"),
                       (["--memory", "1", "true"], "--memory"), (["--rank", "4", "true"], "did you mean '--ranks'"), (["-x", "true"], "unknown option"),
                       (["-N", "0", "true"], "--nodes"), (["-n", "40000", "-c", "4", "true"], "40000 ranks of 4 cores"), (["-j", "many", "true"], "slots"),
                       (["--local-nodes", "0", "true"], "local_nodes"), (["-n"], "--ranks")):
        done = place.exec(*args, code=2)
        check(says in done.err and not done.out, args, done)


def test_server_and_agent_that_die(directory, program):
    """With another server it goes on; with its agent it is gone, and is not begun again."""
    place = Place(program, directory)
    command = "echo begun; echo x >> tries; while [ ! -e go ]; do sleep 0.05; done; echo last"
    with killed_at_last(place.begin(*HERE, *SHELL, command)) as running:
        same(running.stdout.readline(), b"begun\n")
        server = run_support.of_run(place.directories()[0], "server")[0]
        run_support.kill(server)
        wait_for(lambda: [pid for pid in run_support.of_run(place.directories()[0], "server") if pid != server])
        write(f"{directory}/go", "")
        same(ended(running)[:2], (0, "last\n"))
    os.unlink(f"{directory}/go")
    with killed_at_last(place.begin(*HERE, *SHELL, command)) as running:
        same(running.stdout.readline(), b"begun\n")
        run_support.kill(run_support.of_run(place.directories()[0], "agent")[0])
        code, out, err = ended(running)
    same((code, out, place.directories()), (3, "", []), err)
    check("lost" in err, err)
    same(lines_of(f"{directory}/tries"), ["x"] * 2)


def test_beside_a_run(directory, program):
    """They share the place, and neither is taken for the other."""
    place = Place(program, directory)
    write(f"{directory}/tasks.txt", "while [ ! -e go ]; do sleep 0.05; done\n" * 2)
    run = place.start("run", "--run-dir", "r", "--slots", "2", "tasks.txt")
    wait_for(lambda: len(with_word("[ ! -e go ]")) >= 2)
    same(place.exec(*HERE, "-n", "3", *SHELL, "echo hi").out, "hi\n" * 3)
    with killed_at_last(place.begin(*HERE, *SHELL, "echo begun; while [ ! -e stop ]; do sleep 0.05; done")) as running:
        same(running.stdout.readline(), b"begun\n")
        check("running 2" in place("status", code=0).out, "the run is the one here")
        write(f"{directory}/go", "")
        same(run.wait(timeout=300), 0)
        same(running.poll(), None)
        write(f"{directory}/stop", "")
        same(ended(running), (0, "", ""))
    same(place.directories(), [])
    check("done 2 of 2" in "\n".join(lines_of(f"{directory}/harrow.out")))


def test_mpi(directory, program):
    mpi_tasks.prepare(directory, program)
    place = Place(program, directory, mpi_support.MPI)
    with mpi_tasks.nothing_left(directory):
        done = place.exec("-n", "4", "-j", "4", f"{directory}/ranks", "ring")
    same((sorted(done.out.splitlines()), done.err),
         ([f"rank {rank} of 4: token 6, wrong 0, half {2 if rank % 2 == 0 else 4}" for rank in range(4)], ""))
    for what, code, says in (("abort", 7, "rank 2 of 4 called MPI_Abort with 7"), ("killed", 128 + 9, "rank 2 of 4 was killed by signal 9"),
                             ("fail", 5, "rank 2 of 4"), ("leave", 1, "rank 2 of 4 exited with 0 before MPI_Finalize")):
        with mpi_tasks.nothing_left(directory):
            done = place.exec("-n", "4", "-j", "4", f"{directory}/ranks", what, "2", code=code)
        check(says in done.err and os.uname().nodename in done.err, what, done)
    # What is no MPI program says what would be right.
    done = place.exec("-n", "2", "-j", "4", "true", code=1)
    check("--mpi none" in done.err and "--mpi pmi1" in done.err and "mpi =" not in done.err, done)


def test_mpi_interrupted(directory, program):
    mpi_tasks.prepare(directory, program)
    place = Place(program, directory, mpi_support.MPI)
    with mpi_tasks.nothing_left(directory):
        with killed_at_last(place.begin("-n", "4", "-j", "4", f"{directory}/ranks", "hang", "1")) as running:
            same(sorted(running.stdout.readline()[:6] for _ in range(4)), [b"rank %d" % rank for rank in range(4)])
            os.killpg(running.pid, signal.SIGINT)
            same((ended(running)[0], place.directories()), (128 + signal.SIGINT, []))


def main():
    run_support.tests_of(sys.modules[__name__], os.path.abspath(sys.argv[1]))


if __name__ == "__main__":
    run_support.tell(main)
