#!/usr/bin/env python3
"""What the README of each example shows is what its reader sees: its commands are run in a copy of its directory, and every line that
they print is compared. Times, shares and sizes differ from run to run: of them only the unit is.

usage: first_hour.py HARROW EXAMPLES [NAME...] [--update]     --update: writes what is printed into the READMEs
       first_hour.py --slurm HARROW EXAMPLES [--update]       those with an sbatch script, as an ordinary user of a test cluster
"""
import os
import re
import shutil
import subprocess
import sys

from cluster_support import Cluster
from run_support import Skipped, check, same, tell, work_dir

NEEDS = {"parallel": "parallel"}
VARIES = [
    (r"harrow-\d{8}-\d{6}(-\d+)?", "harrow-DATE"),
    (r"\b\d+(\.\d+)? (h \d+ min|min|ms|us|s)\b", "TIME"),
    (r"\b\d+(\.\d+)? %", "SHARE"),
    (r"<?\b\d+(\.\d+)? [KMG]?i?B\b", "SIZE"),
    (r"\+\d+\.\d{3}\b", "START"),
    (r" \(PU [\d,-]+\)", ""),
    (r"\b(on|node) node\d+\b", "\\1 NODE"),
    (r"\bbatch job \d+\b", "batch job N"),
    (r"\bstarted \d\d:\d\d:\d\d\b", "started TIME"),
    (r"\bof \d+ slots?\b", "of N slots"),
    (r" +", " "),
]


def blocks(readme):
    """(text line or None, command, [line, ...]): text between commands as it is; what is indented by four below a command, with the
    blank lines in it, is what that prints."""
    found, blanks, command = [], [], None
    for line in open(readme, encoding="utf-8"):
        line = line.rstrip("\n")
        if line.startswith("    $ "):
            found += [(blank, None, None) for blank in blanks]
            command = (None, line[6:], [])
            found.append(command)
            blanks = []
        elif command and not line:
            blanks.append(line)
        elif command and line.startswith("    "):
            command[2].extend(blanks + [line[4:]])
            blanks = []
        else:
            found += [(text, None, None) for text in blanks + [line]]
            blanks, command = [], None
    return found + [(blank, None, None) for blank in blanks]


def printed(commands, directory, harrow, cluster=None):
    """What each command prints, by one shell, on the login node of `cluster` if there is one."""
    mark = "=== the next command ==="
    script = "exec 2>&1\n" + "".join(f"{command}\necho; echo '{mark}'\n" for command in commands)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "HARROW_"))}
    if not cluster:
        environment["HARROW_SLOTS"] = "2"
    environment.update(PATH=os.path.dirname(harrow) + ":" + environment["PATH"], LC_ALL="C.UTF-8", TERM="dumb")
    shell = ["bash", "-c", script]
    done = subprocess.run(cluster.command(*shell) if cluster else shell, cwd=directory, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          encoding="utf-8", timeout=600)
    parts = done.stdout.split(f"\n{mark}\n")
    same(len(parts), len(commands) + 1, done.stdout)
    return [part.rstrip("\n").split("\n") if part.strip("\n") else [] for part in parts[:-1]]


def steady(line):
    for pattern, word in VARIES:
        line = re.sub(pattern, word, line)
    return line.strip()


def is_job(source):
    return os.path.exists(os.path.join(source, "job.sh"))


def tell_example(harrow, source, update, cluster=None):
    readme = os.path.join(source, "README.md")
    page = blocks(readme)
    expected = [(command, lines) for _, command, lines in page if command]
    check(expected, f"{readme} shows nothing")
    with work_dir() as own:
        scratch = cluster.home if cluster else own
        directory = os.path.join(scratch, os.path.basename(source))
        shutil.copytree(source, directory)
        if cluster and cluster.prefix:
            subprocess.run(["chown", "-R", "65534:65534", directory], check=True)
        got = printed([command for command, _ in expected], directory, harrow, cluster)
        # As it would be on the laptop of somebody who has copied the example.
        node = re.escape(os.uname().nodename)
        node = re.compile(rf"(?<=\bon ){node}(?=\W|$)|^{node}(?=  )")
        for lines in got:
            # Where cores are few, or their time is limited.
            lines[:] = [line for line in lines if "tasks are not pinned" not in line]
            for at, line in enumerate(lines):
                for here in (os.path.realpath(scratch), scratch):
                    line = line.replace(here, "/home/ada")
                lines[at] = node.sub("laptop", line)
    if update:
        said = iter(got)
        with open(readme, "w", encoding="utf-8") as f:
            for text, command, _ in page:
                lines = [text] if command is None else [f"    $ {command}"] + [f"    {line}" if line else "" for line in next(said)]
                f.write("".join(line + "\n" for line in lines))
        return
    for (command, wanted), lines in zip(expected, got):
        same([steady(line) for line in lines], [steady(line) for line in wanted], f"{readme}: $ {command}\n" + "\n".join(lines))


def main():
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    harrow, examples, names = os.path.abspath(words[0]), words[1], words[2:]
    update = "--update" in sys.argv
    if "--slurm" in sys.argv:
        jobs = [name for name in sorted(os.listdir(examples)) if is_job(os.path.join(examples, name))]
        check(jobs, f"no example in {examples} has a job.sh")
        with Cluster("--share", os.path.dirname(harrow), ordinary=True) as cluster:
            for name in jobs:
                tell_example(harrow, os.path.join(examples, name), update, cluster)
                print(f"{name}: ok")
        return
    lacking = []
    for name in names or sorted(os.listdir(examples)):
        if not os.path.exists(os.path.join(examples, name, "README.md")):
            raise AssertionError(f"contrib/examples/{name} has no README.md")
        if os.path.exists(os.path.join(examples, name, "CMakeLists.txt")):
            continue  # programs to be built; multiview_slurm.py runs them
        if is_job(os.path.join(examples, name)):
            continue  # run with --slurm
        if name in NEEDS and shutil.which(NEEDS[name]) is None:
            lacking.append(name)
            continue
        tell_example(harrow, os.path.join(examples, name), update)
        print(f"{name}: ok")
    if lacking and not names:
        raise Skipped(f"not run: {', '.join(lacking)}", [NEEDS[name] for name in lacking])


if __name__ == "__main__":
    tell(main)
