#!/usr/bin/env python3
"""`harrow sbatch` and the jobs that --then-resume makes, without a cluster: sbatch, squeue and scancel are played, and a job's script is
run here.

usage: chain_cli.py HARROW"""
import glob
import os
import shutil
import signal
import subprocess
import sys

from run_support import Harrow, check, lines_of, same, tell, tests_of, wait_for, write

# Each call leaves its words, its SBATCH_WAIT and its script.
SBATCH = """#!/bin/sh
n=$(($(ls script-* 2>/dev/null | wc -l) + 1))
cat > script-$n
printf '%s\\n' "$@" "SBATCH_WAIT=$SBATCH_WAIT" > words-$n
case " $* " in *" --parsable "*) echo $n ;; *) echo "Submitted batch job $n" ;; esac
exit ${PLAYED_EXIT:-0}
"""
# What waits in the queue is job 2; what it says of a job's time lies in a file, or it does not answer.
SQUEUE = """#!/bin/sh
case "$*" in *"-t PD"*) echo '2|afternotok:1(unfulfilled)|harrow: goes on with it' ;; *) cat times ;; esac
"""
SCANCEL = """#!/bin/sh
echo "$@" >> cancelled
"""


def played(directory, program, **env):
    os.mkdir(f"{directory}/bin")
    for name, script in (("sbatch", SBATCH), ("squeue", SQUEUE), ("scancel", SCANCEL)):
        write(f"{directory}/bin/{name}", script, 0o755)
    return Harrow(program, directory, env={"PATH": f"{directory}/bin:{os.environ['PATH']}", **env})


def job(harrow, number, **env):
    """Its script, as Slurm runs it."""
    return subprocess.Popen(["sh", f"script-{number}"], cwd=harrow.cwd, env={**harrow.env, "SLURM_JOB_ID": str(number), **env}, text=True,
                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


def test_what_a_follow_on_is_asked_for(directory, program):
    """It is not waited for by the job that it waits for, and held by nobody; the run is where the user says."""
    harrow = played(directory, program, SBATCH_WAIT="1")
    write(f"{directory}/tasks.txt", "touch done\n")
    harrow("sbatch", "--then-resume", "-H", "-N1", "--", "run", "--local-nodes", "2", "--run-dir=here", "tasks.txt", code=0)
    first, second = lines_of(f"{directory}/words-1"), lines_of(f"{directory}/words-2")
    check("-H" in first and "SBATCH_WAIT=1" in first, first)
    check("-H" not in second and "SBATCH_WAIT=" in second and "--dependency=afternotok:1" in second, second)
    run = job(harrow, 1)
    _, said = run.communicate(timeout=180)
    same((run.returncode, os.path.exists(f"{directory}/done")), (0, True), said)
    check(os.path.isdir(f"{directory}/here/0"))
    harrow.env["SBATCH_ARRAY_INX"] = "1-3"
    check("leave out --array" in harrow("sbatch", "--then-resume", "--", "run", "tasks.txt", code=2).err)


def test_a_job_that_is_begun_again_goes_on(directory, program):
    harrow = played(directory, program)
    write(f"{directory}/tasks.txt", "echo x >> once\ntest -e ready\n")
    harrow("sbatch", "--then-resume", "--requeue", "-N1", "--", "run", "--local-nodes", "2", "--run-dir", "r", "tasks.txt", code=0)
    run = job(harrow, 1)
    _, said = run.communicate(timeout=180)
    same(run.returncode, 1, said)
    same(lines_of(f"{directory}/cancelled"), ["2"])
    write(f"{directory}/ready", "")
    run = job(harrow, 1, SLURM_RESTART_COUNT="1")
    _, said = run.communicate(timeout=180)
    same((run.returncode, lines_of(f"{directory}/once")), (0, ["x"]), said)
    # Its follow-on of before is gone, and there is one.
    same(lines_of(f"{directory}/cancelled")[1:2], ["2"])
    check("--dependency=afternotok:1" in lines_of(f"{directory}/words-3"))
    check(not os.path.exists(f"{directory}/words-4"))


def test_who_waits_for_another_job_asks_less_and_less_often(directory, program):
    harrow = played(directory, program)
    harrow.program = shutil.copy(program, f"{directory}/bin/harrow")
    write(f"{directory}/bin/harrow-slurm-query", "#!/bin/sh\ndate +%s%N >>asked\n"
          "if test $(wc -l <asked) -lt 4; then printf 'job\\t1\\t0\\tall\\tx\\nend\\n'; else printf 'gone\\t1\\nend\\n'; fi\n", 0o755)
    write(f"{directory}/tasks.txt", "touch began; until test -e go; do sleep 0.05; done\n")
    harrow.env.update(SLURM_JOB_ID="1", SLURM_JOB_NODELIST="node1")
    run = harrow.start("run", "--local-nodes", "2", "--run-dir", "r", "tasks.txt")
    wait_for(lambda: os.path.exists(f"{directory}/began"))
    with open(f"{directory}/r/0/owner", encoding="utf-8") as f:
        owner = f.read()
    write(f"{directory}/go", "")
    same(run.wait(180), 0, lines_of(f"{directory}/harrow.out"))
    write(f"{directory}/r/0/owner", owner, 0o600)  # as if it still worked there
    harrow.env["SLURM_JOB_ID"] = "2"
    told = harrow("link", "--run-dir", f"{directory}/r", "--after", "1", code=0)
    check("job 1 still works in" in told.err and "no task of the run is open" in told.err, told)
    asked = [int(line) for line in lines_of(f"{directory}/asked")]
    gaps = [(after - before) / 1e9 for before, after in zip(asked, asked[1:])]
    same(len(gaps), 3, gaps)
    check(all(gap >= least for gap, least in zip(gaps, (0.9, 1.9, 3.9))), gaps)


def test_a_signal_at_the_limit_is_no_cancel(directory, program):
    """Also where Slurm does not say that it was the limit: the follow-on finds out what it was."""
    harrow = played(directory, program)
    write(f"{directory}/tasks.txt", "touch done\necho x >> began; test -e go || sleep 600\n")
    for number, (times, cancelled) in enumerate(((None, []), ("1:00|0:59", []), ("1:00|0:20", ["2"]), ("UNLIMITED|0:20", ["2", "2"]))):
        for left in ("times", "began"):
            if os.path.exists(f"{directory}/{left}"):
                os.remove(f"{directory}/{left}")
        if times:
            write(f"{directory}/times", times + "\n")
        for left in glob.glob(f"{directory}/script-*"):
            os.remove(left)
        harrow("sbatch", "--then-resume", "-N1", "--", "run", "--local-nodes", "2", "--run-dir", f"r{number}", "tasks.txt", code=0)
        run = job(harrow, 1)
        wait_for(lambda: os.path.exists(f"{directory}/began") and os.path.exists(f"{directory}/done"))
        run.send_signal(signal.SIGTERM)
        _, said = run.communicate(timeout=180)
        same(lines_of(f"{directory}/cancelled"), cancelled, times, said)


def test_standard_input_stays_where_the_job_may_be(directory, program):
    harrow = played(directory, program, PLAYED_EXIT="1")
    harrow("sbatch", "-N1", "--", "run", "-", stdin="true\n", code=1)
    same(glob.glob(f"{directory}/harrow-stdin-*"), [], "nothing was submitted")
    harrow("sbatch", "-N1", "--wait", "--", "run", "-", stdin="true\n", code=1)
    (kept,) = glob.glob(f"{directory}/harrow-stdin-*")
    same(lines_of(kept), ["true"])


def main():
    tests_of(sys.modules[__name__], sys.argv[1])


tell(main)
