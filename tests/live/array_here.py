#!/usr/bin/env python3
"""`harrow array` on this machine: what lies where the script goes, runs that are moved and resumed, what options ask for.
usage: array_here.py HARROW [TEST...]"""
import os
import pwd
import re
import shutil
import socket
import subprocess
import sys

import run_support
from run_support import Harrow, Skipped, check, lines_of, same, write

RETRIED = """#!/bin/sh
#SBATCH --array=1-2
echo "element $SLURM_ARRAY_TASK_ID of ${SECRET-nobody}" >>said
test -e go
"""


def began(directory, program, *options):
    """A run that failed, and would be done when it is resumed."""
    harrow = Harrow(program, directory, {"SECRET": "me"})
    write(f"{directory}/job.sh", RETRIED)
    harrow("array", "--progress", "none", "--run-dir", "r", *options, "job.sh", code=1)
    write(f"{directory}/go", "")
    return harrow


def test_a_moved_run_goes_on_with_its_own_script(directory, program):
    harrow = began(directory, program)
    os.rename(f"{directory}/r", f"{directory}/moved")
    os.mkdir(f"{directory}/r")
    write(f"{directory}/r/script", "#!/bin/sh\ntouch another\n", 0o755)
    harrow("run", "--resume", "--progress", "none", "--run-dir", "moved", code=0)
    check(not os.path.exists(f"{directory}/another"), "another run's script was executed")
    same(sorted(lines_of(f"{directory}/said")), sorted(2 * ["element 1 of me", "element 2 of me"]))
    check(f"{directory}/moved/script" in harrow("explain", "1", "--run-dir", "moved", code=0).out, "explain tells where it was")


def test_a_copied_array_goes_on_beside_its_copy(directory, program):
    """Asked for from there; the original, which still is where it was, is left alone. Elsewhere it is told how."""
    os.mkdir(f"{directory}/p1")
    write(f"{directory}/p1/job.sh", '#!/bin/sh\n#SBATCH --array=1-2\npwd >>said; test -e go && touch "$SLURM_SUBMIT_DIR/up"\n')
    harrow = Harrow(program, directory)
    harrow("array", "--progress", "none", "--run-dir", "r", "job.sh", code=1, cwd=f"{directory}/p1")
    subprocess.run(["cp", "-a", f"{directory}/p1", f"{directory}/p2"], check=True)
    write(f"{directory}/p2/go", "")
    refused = harrow("run", "--resume", "--run-dir", "p2/r", code=2)
    check(f"change to {directory}/p2 and resume it from there: harrow run --resume --run-dir {directory}/p2/r\n" in refused.err, refused)
    told = harrow("run", "--resume", "--progress", "none", "--run-dir", "r", code=0, cwd=f"{directory}/p2")
    check(f"goes on in {directory}/p2" in told.err, told)
    same(lines_of(f"{directory}/p2/said"), 2 * [f"{directory}/p1"] + 2 * [f"{directory}/p2"])
    same((lines_of(f"{directory}/p1/said"), sorted(os.listdir(f"{directory}/p1"))), (2 * [f"{directory}/p1"], ["job.sh", "r", "said"]))
    check(os.path.exists(f"{directory}/p2/up"), "an element was told another submit directory")


def test_of_two_options_for_one_thing_the_later_counts(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/job.sh", "#!/bin/sh\n#SBATCH --array=1 --mem=11\necho ${SLURM_MEM_PER_NODE-none} ${SLURM_MEM_PER_CPU-none} >>said\n")
    for words in (["--mem-per-cpu=20", "--mem=30"], ["--mem=30", "--mem-per-cpu=20"], ["--mem-per-cpu=20"], ["--mem=1", "--mem=40"], []):
        harrow("array", "--progress", "none", *words, "--", "job.sh", code=0)
    same(lines_of(f"{directory}/said"), ["30 none", "none 20", "none 20", "40 none", "11 none"])


def test_a_script_that_is_called_as_a_command(directory, program):
    """What follows the options is the script and what is its own."""
    harrow = Harrow(program, directory)
    write(f"{directory}/status", "#!/bin/sh\n#SBATCH --array=7\necho \"$SLURM_ARRAY_TASK_ID $*\" >>said\n")
    for words in (["status", "run", "--help"], ["--", "status", "-x"], ["-Hc", "1", "status", "--", "-n"]):
        harrow("array", "--progress", "none", *words, code=0)
    same(lines_of(f"{directory}/said"), ["7 run --help", "7 -x", "7 -- -n"])
    refused = harrow("array", "--progres", "none", "status", code=2)
    check("unknown option '--progres'; did you mean '--progress'?" in refused.err, refused)


def test_a_number_alone_is_no_other_element(directory, program):
    """Of elements 11 to 14, 12 is not the twelfth, and 2 is not the second."""
    harrow = Harrow(program, directory)
    write(f"{directory}/job.sh", "#!/bin/sh\necho element $SLURM_ARRAY_TASK_ID\n")
    harrow("array", "--array=11-14", "--run-dir", "r", "job.sh", code=0)
    for command in ("logs", "explain"):
        for number in ("2", "12"):
            told = harrow(command, "--run-dir", "r", number, code=2)
            check(f"no task '{number}'" in told.err and not told.out, told)
        check(re.search(r"did you mean '\w+_12'", told.err), told)
    same(harrow("logs", "--run-dir", "r", "#2", code=0).out, "element 12\n")


def test_an_empty_value_takes_no_other_word(directory, program):
    """As `--run-dir=$D` gives it where D is not set."""
    harrow = Harrow(program, directory)
    write(f"{directory}/job.sh", "#!/bin/sh\necho ran >> ran\n")
    write(f"{directory}/tasks.txt", "echo ran >> ran\n")
    before = sorted(os.listdir(directory))
    for words in (["array", "--array=1-2", "--output=", "--dry-run", "job.sh"], ["run", "--run-dir=", "--dry-run", "tasks.txt"],
                  ["run", "--time=", "tasks.txt"], ["status", "--run-dir="]):
        option = next(word for word in words if word.endswith("="))
        told = harrow(*words, code=2)
        check(f"{option} has no value" in told.err, told)
    same(sorted(os.listdir(directory)), before)


def test_what_nobody_writes_to_is_not_waited_for(directory, program):
    harrow = Harrow(program, directory)
    os.mkfifo(f"{directory}/fifo")
    refused = harrow("array", "--array=1", "fifo", code=2)
    check("fifo is a FIFO; name a file, or give the script on standard input" in refused.err, refused)
    write(f"{directory}/tasks.txt", "true\n")
    harrow.env["HARROW_CONF"] = f"{directory}/fifo"
    refused = harrow("run", "tasks.txt", code=2)
    check("fifo: it is a FIFO; HARROW_CONF has to name a readable file" in refused.err, refused)
    # A pipe has somebody at its other end.
    harrow.env["HARROW_CONF"] = "/dev/null"
    done = subprocess.run(["bash", "-c", f'"{program}" array --array=1 --progress none <(sleep 0.3; echo "#!/bin/sh")'], cwd=directory, env=harrow.env, capture_output=True,
                          text=True, timeout=60)
    check(done.returncode == 0 and "done 1 of 1" in done.stdout, done)


def test_logs_say_where_elements_have_written_to(directory, program):
    harrow = Harrow(program, directory)
    harrow("array", "--array=3-4", "--progress", "none", "--run-dir", "r", "-o", "out/%A_%a.txt", "--wrap", "echo hello", code=0)
    (first, second) = sorted(os.listdir(f"{directory}/out"))
    told = harrow("logs", code=0)
    same((told.out, told.err), ("", f"harrow: nothing is kept here: tasks write to files, {first[:-4]} to out/{first}\n"))
    told = harrow("logs", second[:-4], code=0)
    check(f"writes its stdout to the file out/{second}" in told.err, told)


def test_what_is_not_exported_is_not_when_it_is_resumed(directory, program):
    harrow = began(directory, program, "--export=NONE")
    harrow("run", "--resume", "--progress", "none", "--run-dir", "r", code=0)
    same(set(lines_of(f"{directory}/said")), {"element 1 of nobody", "element 2 of nobody"})


def test_without_the_submit_environment_there_is_that_of_a_login(directory, program):
    """As sbatch --export=NONE has it, so that `module` is there; by NIL not even that."""
    user = pwd.getpwuid(os.getuid())
    if os.path.basename(user.pw_shell) not in ("bash", "dash", "ksh", "sh", "zsh"):
        return  # it is not asked
    login = subprocess.run(["env", "-i", f"HOME={user.pw_dir}", f"USER={user.pw_name}", "PATH=/usr/local/bin:/usr/bin:/bin", user.pw_shell, "-l", "-c",
                            "echo; echo $PATH"], capture_output=True, text=True, timeout=60, check=True, stdin=subprocess.DEVNULL).stdout.splitlines()[-1]
    harrow = Harrow(program, directory, {"PATH": f"/own:{os.environ['PATH']}", "FOO": "1", "BAR": "2"})
    write(f"{directory}/job.sh", "#!/bin/sh\n#SBATCH --array=1\necho $PATH ${FOO-none} ${BAR-none} ${USER-none}\n")
    for export, said in (("NONE", f"{login} none none {user.pw_name}"), ("FOO,PATH", f"{harrow.env['PATH']} 1 none {user.pw_name}"),
                         ("NIL", f"{harrow.env['PATH']} none none {os.environ.get('USER', 'none')}")):
        harrow("array", "--progress", "none", "--export", export, "--run-dir", export, "job.sh", code=0)
        same(harrow("logs", "-q", "--run-dir", export, code=0).out, said + "\n")


def test_a_file_called_script_stays(directory, program):
    harrow = Harrow(program, directory)
    os.mkdir(f"{directory}/mine")
    write(f"{directory}/mine/script", "precious\n")
    refused = harrow("array", "--array=1", "--run-dir", "mine", "--wrap", "touch ran")
    check(refused.code != 0 and "a file script lies there already" in refused.err, refused)
    same(lines_of(f"{directory}/mine/script"), ["precious"])
    check(not os.path.exists(f"{directory}/ran"), "it ran")
    os.unlink(f"{directory}/mine/script")
    harrow("array", "--array=1", "--run-dir", "mine", "--wrap", "touch ran", code=0)


def test_storage_that_executes_nothing_is_named(directory, program):
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
        raise Skipped("a file system of its own", "mounting")
    harrow = Harrow(program, directory)
    os.mkdir(f"{directory}/storage")
    script = f'mount -t tmpfs -o noexec none storage && exec "{program}" array --array=1 --run-dir storage/r --wrap "touch ran"'
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], cwd=directory, env=harrow.env, capture_output=True, text=True, timeout=120)
    check(done.returncode not in (0, 1) and "noexec" in done.stderr, done)


def test_no_safe_place_for_temporary_files_is_told(directory, program):
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
        raise Skipped("a /tmp that all may write to", "mounting")
    harrow = Harrow(program, directory)
    harrow.env.pop("TMPDIR", None)
    script = f'mount --bind . /mnt && mount -t tmpfs -o mode=0777 none /tmp && mkdir -p {directory} && mount --bind /mnt {directory} && ' \
             f'cd {directory} && exec "$0" array --array=1 --run-dir r --wrap "echo ${{TMPDIR-none}} >said"'
    done = subprocess.run(["unshare", "-m", "sh", "-c", script, shutil.copy(program, f"{directory}/harrow")], cwd=directory, env=harrow.env,
                          capture_output=True, text=True, timeout=120)
    check(done.returncode == 0 and "no directory for temporary files is safe (TMPDIR, /tmp): tasks have none of their own" in done.stderr, done)
    same(lines_of(f"{directory}/said"), ["none"])


def test_the_smaller_of_two_limits_holds(directory, program):
    harrow = Harrow(program, directory)
    write(harrow.env["HARROW_CONF"], "max_running = 2\n")
    harrow("array", "--array=1-3%1", "--slots", "3", "--progress", "none", "--wrap",
           "echo begin >>said; sleep 0.3; echo end >>said", code=0)
    same(lines_of(f"{directory}/said"), 3 * ["begin", "end"])


def test_options_whose_value_may_be_left_out_and_a_dry_run_that_is_pasted(directory, program):
    harrow = Harrow(program, directory)
    told = harrow("array", "--array=1", "--exclusive=user", "--propagate=NONE", "-k", "--dry-run", "--wrap", "true", code=0)
    check(all(name in told.err for name in ("--exclusive", "--propagate", "--no-kill", "are matters of the allocation")), told)
    write(f"{directory}/job.sh", "#!/bin/sh\ntrue\n", 0o755)
    (line,) = harrow("array", "--array=1", "--dry-run", "job.sh", code=0).out.splitlines()
    subprocess.run(line.split("\t")[1], shell=True, cwd=directory, check=True)
    harrow("array", "--array=1", "--exclusive", "--slots", "3", "--progress", "none", "--wrap", "echo $SLURM_CPUS_ON_NODE", code=0)
    same(harrow("logs", "-q", code=0).out, "3\n")


def test_elements_that_would_share_a_directory_are_told_so(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/job.sh", "#!/bin/sh\nmkdir -p $SLURM_JOB_ID; echo $SLURM_JOB_ID >>said\n")
    told = harrow("array", "--array=1-2", "--progress", "none", "job.sh", code=0)
    same(len(set(lines_of(f"{directory}/said"))), 1)
    check("it uses SLURM_JOB_ID, here one number for all elements" in told.err, told)


def test_a_step_is_told_that_there_is_no_run(directory, program):
    harrow = Harrow(program, directory)
    harrow.env.update(PMIX_RANK="0", SLURM_STEP_ID="0", SLURMD_NODENAME="n", SLURM_STEP_NUM_TASKS="2")
    told = harrow("array", "--array=1", "nosuch.sh")
    check(told.code != 0 and "the other ranks of this step" in told.err, told)
    # Where they cannot be told, the others do not do it all over again.
    del harrow.env["PMIX_RANK"]
    write(f"{directory}/job.sh", "#!/bin/sh\necho ran >>ran\n")
    write(f"{directory}/tasks.txt", "echo ran >>ran\n")
    for process, code in (("0", 0), ("1", 2)):
        harrow.env["SLURM_PROCID"] = process
        for words in (["array", "--array=1", "--dry-run", "job.sh"], ["run", "--dry-run", "tasks.txt"]):
            told = harrow(*words, code=code)
            check(("process 1 of 2 of a step" in told.err and "srun --mpi=pmix" in told.err) == (code == 2), told)


def test_a_script_that_comes_by_a_socket(directory, program):
    harrow = Harrow(program, directory)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(b"#!/bin/sh\n#SBATCH --array=1-2\ntrue\n")
        ours.shutdown(socket.SHUT_WR)
        done = subprocess.run([program, "array", "--dry-run"], cwd=directory, env=harrow.env, stdin=theirs, capture_output=True, text=True, timeout=60)
    check(done.returncode == 0 and "2 of 2 tasks" in done.stderr, done)


if __name__ == "__main__":
    PROGRAM = os.path.abspath(sys.argv[1])
    run_support.tell(lambda: run_support.tests_of(sys.modules[__name__], PROGRAM))
