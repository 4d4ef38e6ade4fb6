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


def test_what_sbatch_is_given(directory, program):
    """What it prints and how it ends comes through; what is added is said, and stands before what was given."""
    harrow = played(directory, program)
    os.mkdir(f"{directory}/there")
    write(f"{directory}/tasks.txt", "true\n")
    write(f"{directory}/there/flow.toml", '[[task]]\nname = "t-{i}"\neach = { i = "1-8" }\ncommand = "true"\n')
    told = harrow("sbatch", "-N2", "-J", "it's mine", "--", "run", "--order", "fifo", "tasks.txt", code=0)
    same((told.out, told.err), ("Submitted batch job 1\n", "harrow: added for sbatch: --no-kill --no-requeue --exclusive --output=harrow-%j.out\n"))
    added = ["--no-kill", "--no-requeue", "--exclusive", "--output=harrow-%j.out"]
    same(lines_of(f"{directory}/words-1"), [*added, "-N2", "-J", "it's mine", "SBATCH_WAIT="])
    same(lines_of(f"{directory}/script-1"),
         ["#!/bin/sh", "# harrow run --order fifo tasks.txt", f"exec {harrow.program} run --order fifo tasks.txt"])
    told = harrow("sbatch", "-D", "there", "--", "run", "flow.toml", code=0)
    same(told.err, "harrow: added for sbatch: --no-kill --no-requeue --exclusive --nodes=1 --job-name=flow --output=harrow-%j.out\n"
         "harrow: 1 node, as the run times are not known; -N says another count\n")
    same(lines_of(f"{directory}/words-2")[-3:], ["-D", "there", "SBATCH_WAIT="])
    same(harrow("sbatch", "-Q", "--", "run", "tasks.txt", code=0).err, "")
    same(harrow("sbatch", "-k", "--requeue", "-n8", "-Jx", "-o", "y", "--", "run", "tasks.txt", code=0).err, "")
    for played_exit in (7, 200):
        harrow.env["PLAYED_EXIT"] = str(played_exit)
        harrow("sbatch", "-N1", "--", "run", "tasks.txt", code=played_exit)
        harrow("sbatch", "--then-resume", "-N1", "--", "run", "tasks.txt", code=played_exit)
    write(f"{directory}/bin/sbatch", "#!/bin/sh\nkill -9 $$\n", 0o755)
    harrow("sbatch", "-N1", "--", "run", "tasks.txt", code=128 + 9)
    write(f"{directory}/bin/sbatch", "#!/nowhere/sh\n", 0o755)
    harrow.env["PATH"] = f"{directory}/bin"
    check("sbatch cannot be started" in harrow("sbatch", "-N1", "--", "run", "tasks.txt", code=3).err)


def test_an_array_takes_its_script_along(directory, program):
    harrow = played(directory, program)
    script = "#!/bin/bash\n#SBATCH --array=1-3\necho $1\n"
    write(f"{directory}/sweep.sh", script, 0o755)
    for words in (["sweep.sh", "it's", "-"], ["--array=2", "sweep.sh"]):
        for script_of in glob.glob(f"{directory}/script-*"):
            os.remove(script_of)
        told = harrow("sbatch", "--", "array", *words, code=0)
        check("harrow: 1 node, as nothing else was said; -N says another count" in told.err, told)
        lines = lines_of(f"{directory}/script-1")
        same(lines[3:-1], script.splitlines(), words)
        ran = subprocess.run(["sh", "-c", lines[2].replace("exec " + harrow.program, "printf '%s|'").split(" <<")[0]], capture_output=True, text=True, check=True)
        same(ran.stdout.split("|")[:-1], ["array", "--job-name=sweep.sh", "--called=sweep.sh", *["-" if word == "sweep.sh" else word for word in words]])
    for wrap in (["--wrap=echo"], ["--wrap", "echo"]):
        harrow("sbatch", "--", "array", "--array=1", *wrap, code=0)
        told = max(glob.glob(f"{directory}/script-*"))
        same(len(lines_of(told)), 3, lines_of(told))


def test_standard_input_becomes_a_file(directory, program):
    harrow = played(directory, program)
    os.mkdir(f"{directory}/there")
    harrow("sbatch", "-N1", "--chdir=there", "--", "run", "--run-dir", "r", "-", stdin="echo a\necho b\n", code=0)
    (kept,) = glob.glob(f"{directory}/there/harrow-stdin-*.txt")
    same(lines_of(kept), ["echo a", "echo b"])
    check(f" run --run-dir r {kept}" in lines_of(f"{directory}/script-1")[2].replace("'", ""), lines_of(f"{directory}/script-1"))
    harrow("sbatch", "-N1", "--test-only", "--", "run", "-", stdin="true\n", code=0)
    check("standard input:1" in harrow("sbatch", "-N1", "--", "run", "-", stdin="#HARROW cores=none\n", code=2).err)
    harrow("sbatch", "-N1", "--", "run", "-", stdin="", code=2)
    same(glob.glob(f"{directory}/harrow-stdin-*"), [])
    harrow.env["SBATCH_WAIT"] = "1"
    harrow.env["PLAYED_EXIT"] = "1"
    harrow("sbatch", "-N1", "--", "run", "-", stdin="true\n", code=1)
    same(len(glob.glob(f"{directory}/harrow-stdin-*")), 1, "the job may be there")


def test_what_sbatch_is_not_given(directory, program):
    harrow = played(directory, program)
    write(f"{directory}/tasks.txt", "true\n")
    for words, said in (
            (["-N1", "run", "tasks.txt"], "what the job is to run comes after --; try: harrow sbatch -N1 -- run tasks.txt\n"),
            ([], "what the job is to run comes after --; try: harrow sbatch -- run tasks.txt\n"),
            (["array", "x"], "try: harrow sbatch -- array x\n"),
            (["--"], "nothing to run stands after --; try: harrow sbatch -- run tasks.txt\n"),
            (["-p", "a b", "--"], "try: harrow sbatch -p 'a b' -- run tasks.txt\n"),
            (["--", "status"], "a job is for harrow run or harrow array; harrow status needs none\n"),
            (["--", "rnu", "x"], "no command 'rnu' after --; did you mean 'run'?\n"),
            (["-N1", "--", "tasks.txt"], "after -- comes run or array, and not 'tasks.txt'; try: harrow sbatch -N1 -- run tasks.txt\n"),
            (["-D", "nowhere", "--", "run", "tasks.txt"], "the job's directory nowhere (--chdir) cannot be entered: No such file or directory\n"),
            (["--then-resume", "-Q", "--", "run", "tasks.txt"], "--then-resume is for one job whose number sbatch tells"),
            (["--then-resume", "-a1-2", "--", "run", "tasks.txt"], "--then-resume is for one job whose number sbatch tells"),
            (["--then-resume", "-N1", ":", "-N2", "--", "run", "tasks.txt"], "--then-resume is for one job whose number sbatch tells")):
        told = harrow("sbatch", *words, code=2)
        check(said in told.err, words, told)
    for path in ("/nowhere", "/nowhere:/also", ":/nowhere"):
        harrow.env["PATH"] = path
        check("there is no sbatch on this machine (in PATH)" in harrow("sbatch", "--", "run", "tasks.txt", code=2).err)
    same(glob.glob(f"{directory}/script-*"), [])
    # An empty word of PATH is the current directory.
    for path in (":/nowhere", "/nowhere:", "/nowhere::/also"):
        harrow.env["PATH"] = path
        shutil.copy(f"{directory}/bin/sbatch", f"{directory}/sbatch")
        check("there is no sbatch" not in harrow("sbatch", "-N1", "--", "run", "tasks.txt").err)


def test_a_follow_on_is_asked_for_once_its_job_is_known(directory, program):
    harrow = played(directory, program)
    os.mkdir(f"{directory}/there")
    write(f"{directory}/tasks.txt", "true\n")
    write(f"{directory}/there/tasks.txt", "true\n")
    told = harrow("sbatch", "--then-resume", "-N1", "-D", "there", "--wait", "--parsable", "--", "run", "tasks.txt", code=0)
    same(told.out, "1\n")
    check("harrow: job 2 goes on where the time limit ends job 1\n" in told.err, told)
    second = lines_of(f"{directory}/words-2")
    there = f"{directory}/there"
    same([word for word in second if word.startswith(("--comment", "--chdir", "--wait"))], [f"--comment=harrow: goes on with {there}/harrow-1", f"--chdir={there}"])
    same(lines_of(f"{directory}/script-2")[1], "# harrow run --resume, after job 1")
    link = lines_of(f"{directory}/script-2")[2].replace("'", "")
    check(link.startswith(f"exec {harrow.program} link --run-dir {there}/harrow-1 --after 1 --sbatch=--no-kill "), link)
    check(" --sbatch=--wait" in link, link)
    check(lines_of(f"{directory}/script-1")[2].endswith(" -- run tasks.txt"), lines_of(f"{directory}/script-1"))
    harrow("sbatch", "--then-resume", "-N1", "--test-only", "--", "run", "tasks.txt", code=0)
    same(len(glob.glob(f"{directory}/script-*")), 3, "a follow-on of a job that was not submitted")
    write(f"{directory}/bin/sbatch", '#!/bin/sh\ncat >/dev/null\ncase "$*" in *afternotok*) echo no >&2; exit 1 ;; esac\necho a greeting\necho 17\n', 0o755)
    told = harrow("sbatch", "--then-resume", "-N1", "--", "run", "--run-dir", "r r", "tasks.txt", code=0)
    same(told.out, "a greeting\n17\n")
    check(f"no follow-on of job 17 could be submitted; when its time limit ends it: harrow run --resume --run-dir '{directory}/r r'\n" in told.err, told)


def test_a_link_that_has_nothing_to_do(directory, program):
    harrow = played(directory, program)
    check("harrow link is the inside of a job" in harrow("link", "--", "run", "x", code=2).err)
    write(f"{directory}/tasks.txt", "true\nexit 3\n")
    harrow("run", "--run-dir", "done", "--max-failures", "1", write(f"{directory}/good.txt", "true\n") or "good.txt", code=0)
    harrow.env.update(SLURM_JOB_ID="2")
    for words, code, why in ((["--run-dir", f"{directory}/no ne", "--after", "1"], 3, f"there is no run in {directory}/no ne that could go on"),
                             (["--run-dir", f"{directory}/done", "--after", "1"], 0, "no task of the run is open")):
        told = harrow("link", *words, code=code)
        check(f"harrow: nothing is to be gone on with: {why}\n" in told.err, told)
        same(lines_of(f"{directory}/cancelled"), [], "job 2 has no follow-on in the queue: that is job 1's")
    # Open tasks: whoever cancelled the job before, or had none end in it, wants no other.
    del harrow.env["SLURM_JOB_ID"]
    for name, tasks in (("idle", "touch began; exec sleep 600\n"), ("some", "true\ntouch began; exec sleep 600\n")):
        write(f"{directory}/{name}.txt", tasks)
        run = harrow.start("run", "-j", "1", "--run-dir", name, f"{name}.txt")
        wait_for(lambda: os.path.exists(f"{directory}/began"))
        run.send_signal(signal.SIGTERM)
        same(run.wait(180), 128 + signal.SIGTERM, lines_of(f"{directory}/harrow.out"))
        os.remove(f"{directory}/began")
    harrow.env.update(SLURM_JOB_ID="2")
    told = harrow("link", "--run-dir", f"{directory}/idle", "--after", "1", code=4, timeout=60)
    check("no task ended in job 1, and what was interrupted would be again" in told.err, told)
    write(f"{directory}/times", "CANCELLED\n")
    told = harrow("link", "--run-dir", f"{directory}/some", "--after", "1", code=4, timeout=60)
    check("job 1 was cancelled" in told.err, told)


def test_why_a_job_is_the_last(directory, program):
    harrow = played(directory, program)
    harrow.env.update(SLURM_JOB_ID="1")
    write(f"{directory}/tasks.txt", "true\n")
    write(f"{directory}/fails.txt", "exit 3\n")
    for number, (words, code, why) in enumerate(((["tasks.txt"], 0, None), (["fails.txt"], 1, "no job goes on: tasks have failed"),
                                                 (["absent.txt"], 2, "no job goes on: the run could not go on"))):
        told = harrow("link", "--", "run", "--local-nodes", "2", "--run-dir", f"r{number}", *words, code=code) if number == 2 else harrow(
            "link", "--run-dir", f"{directory}/r{number}", "--", "run", "--local-nodes", "2", "--run-dir", f"r{number}", *words, code=code)
        same([line for line in told.err.splitlines() if "no job goes on" in line], [f"harrow: {why}"] if why else [], told)
        same(lines_of(f"{directory}/cancelled"), ["2"] * (number + 1), told)


def main():
    tests_of(sys.modules[__name__], sys.argv[1])


tell(main)
