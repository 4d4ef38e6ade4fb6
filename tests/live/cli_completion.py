#!/usr/bin/env python3
"""Completion: the words of a run, and what bash makes of them; zsh and fish read their files without complaint.

usage: cli_completion.py HARROW SOURCE_DIR"""
import os
import shutil
import subprocess
import sys

from run_support import Harrow, check, same, tests_of, tell, write

FLOW = """[[task]]
name = "alpha:{i}"
each = { i = "1-3" }
command = "true"
kind = "alpha"
[[task]]
name = "beta:{i}"
each = { i = "1-3" }
command = "true"
kind = "beta"
[[task]]
name = "with blank"
command = "true"
"""


def words(harrow, *args):
    return harrow("complete", *args, code=0).out.splitlines()


def prepared(directory, program):
    harrow = Harrow(program, directory)
    write(os.path.join(directory, "flow.toml"), FLOW)
    harrow("run", "flow.toml", "--run-dir", "harrow-1", code=0)
    return harrow


def test_words_of_a_run(directory, program, _):
    harrow = Harrow(program, directory)
    same(words(harrow, "tasks"), [], "without a run")
    harrow = prepared(directory, program)
    same(words(harrow, "tasks", "--", "alpha"), ["alpha:1", "alpha:2", "alpha:3"])
    same(len(words(harrow, "tasks")), 7)
    same(words(harrow, "tasks", "--", "#"), [f"#{i}" for i in range(1, 8)])
    same(words(harrow, "kinds"), ["alpha", "beta", "true"])
    same(len(words(harrow, "nodes")), 1)
    same(words(harrow, "tasks", "--", "x"), [])
    same(harrow("complete", "others").code, 2)


def bash(harrow, source, line):
    """What bash would offer at the end of `line`."""
    script = f"""
source {source}/contrib/completion/harrow.bash
compopt() {{ :; }}
COMP_LINE=$1 COMP_POINT=${{#1}}
# As readline breaks words, : and = among the breaks.
mapfile -t COMP_WORDS < <(printf '%s' "$1" | sed 's/[:=]/\\n&\\n/g' | tr ' ' '\\n')
[[ $1 == *' ' ]] && COMP_WORDS+=('')
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
cur=${{COMP_WORDS[COMP_CWORD]}}
_harrow harrow "$cur" "${{COMP_WORDS[COMP_CWORD - 1]}}"
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    env = dict(harrow.env, PATH=os.path.dirname(harrow.program) + ":" + harrow.env["PATH"])
    done = subprocess.run(["bash", "-c", script, "bash", line], cwd=harrow.cwd, env=env, capture_output=True, text=True, timeout=300)
    same((done.returncode, done.stderr), (0, ""), line)
    return [word for word in done.stdout.split("\n") if word]


def test_bash(directory, program, source):
    harrow = prepared(directory, program)
    check(set(bash(harrow, source, "harrow ")) >= {"run", "status", "logs", "report", "help"})
    same(bash(harrow, source, "harrow exp"), ["explain"])
    same(bash(harrow, source, "harrow exec --mp"), ["--mpi"])
    same(bash(harrow, source, "harrow exec --mpi "), ["pmix", "pmi1", "none"])
    same(bash(harrow, source, "harrow logs --fo"), ["--follow"])
    same(sorted(bash(harrow, source, "harrow status --")),
         sorted(["--run-dir", "--failed", "--nodes", "--watch", "--json", "--help"]))
    same(bash(harrow, source, "harrow run --order l"), ["lifo", "lifo+hrf"])
    same(bash(harrow, source, "harrow logs bet"), ["beta:1", "beta:2", "beta:3"])
    same(bash(harrow, source, "harrow logs beta:"), ["1", "2", "3"], "after a colon")
    same(bash(harrow, source, "harrow explain wi"), ["with\\ blank"])
    same(bash(harrow, source, "harrow cancel \\#7"), ["\\#7"])
    same(bash(harrow, source, "harrow report --kind al"), ["alpha"])
    write(os.path.join(directory, "sub.toml"), "")
    same(bash(harrow, source, "harrow run su"), ["sub.toml"])
    check(set(bash(harrow, source, "harrow exec su")) >= {"sub.toml", "su"}, "files and commands")
    os.mkdir(os.path.join(directory, "there"))
    os.rename(os.path.join(directory, "harrow-1"), os.path.join(directory, "there/elsewhere"))
    same(bash(harrow, source, "harrow logs bet"), [])
    same(bash(harrow, source, "harrow logs --run-dir there/elsewhere bet"), ["beta:1", "beta:2", "beta:3"])


def test_files_are_well_formed(_, __, source):
    for shell, name, words_ in (("bash", "harrow.bash", ["-n"]), ("zsh", "_harrow", ["-n"]), ("fish", "harrow.fish", ["-n"]),
                                ("shellcheck", "harrow.bash", ["-s", "bash"])):
        if not shutil.which(shell):
            print(f"{shell} is not installed: {name} was not checked with it")
            continue
        done = subprocess.run([shell, *words_, os.path.join(source, "contrib/completion", name)], capture_output=True, text=True, timeout=300)
        same((done.returncode, done.stdout, done.stderr), (0, "", ""), shell, name)


if __name__ == "__main__":
    tell(lambda: tests_of(sys.modules[__name__], sys.argv[1], sys.argv[2]))
