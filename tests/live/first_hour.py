#!/usr/bin/env python3
"""What the READMEs show is what their reader sees: the commands of each example are run in a copy of its directory, those of the README
of all where that says, and every line that they print is compared. Times, shares and sizes differ from run to run: of them only the unit is.

usage: first_hour.py HARROW SOURCE [NAME...] [--update]     --update: writes what is printed into the READMEs
       first_hour.py --slurm HARROW SOURCE [NAME...]        all of it as an ordinary user of a test cluster: in an allocation, or where an
                                                            example has an sbatch script on the login node; and what README says of Slurm
"""
import os
import re
import shutil
import subprocess
import sys

from cluster_support import Cluster
from run_support import Skipped, check, query, same, tell, work_dir

NEEDS = {"parallel": "parallel"}
BUILT = {"ensemble"}  # by a program of the same name, where there are Multi-View and LAPACK
NODES = {"mandelbrot": 2, "mosaic": 2, "parallel": 2}  # of the allocation that it is run in; the others show figures of one
OF_SEVERAL = r", [\d.]+ % of input bytes local$|, [^,]+ of input were on the node$"  # is said only there
FIRST_JOB = 1234  # as README has it
VARIES = [
    (r"harrow-\d{8}-\d{6}(-\d+)?", "harrow-RUN"),
    (r"harrow-\d+(-\d+)?\b", "harrow-RUN"),
    (r"\b\d+(\.\d+)? (h \d+ min|min|ms|us|s)\b", "TIME"),
    (r"\b\d+(\.\d+)? %", "SHARE"),
    (r"<?\b\d+(\.\d+)? [KMG]?i?B\b", "SIZE"),
    (r"\+\d+\.\d{3}\b", "START"),
    (r" \(PU [\d,-]+\)", ""),
    (r"\b(on|node) (node\d+|laptop)\b", "\\1 NODE"),
    (r"^(node\d+|laptop) ", "NODE "),
    (r"\bbatch job \d+\b", "batch job N"),
    (r"\bstarted \d\d:\d\d:\d\d\b", "started TIME"),
    (r"\bof (\d+|their) slots?\b", "of N slots"),  # a short session may be over before the second node is there
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


def printed(commands, directory, harrow, cluster=None, nodes=0):
    """What each command prints, by one shell; of a cluster: in an allocation of so many nodes, 0: on the login node."""
    mark = "=== the next command ==="
    script = "exec 2>&1\n" + "".join(f"{command}\necho; echo '{mark}'\n" for command in commands)
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "HARROW_"))}
    if not cluster:
        environment["HARROW_SLOTS"] = "2"
    environment.update(PATH=os.path.dirname(harrow) + ":" + environment["PATH"], LC_ALL="C.UTF-8", TERM="dumb", HARROW_CONF="/dev/null",
                       SALLOC_PARTITION="all", SBATCH_PARTITION="all")
    shell = ["bash", "-c", script]
    if nodes:
        shell = ["salloc", "--quiet", f"-N{nodes}", "--exclusive", "-t", "60", *shell]
    done = subprocess.run(cluster.command(*shell) if cluster else shell, cwd=directory, env=environment, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, encoding="utf-8", timeout=600)
    parts = done.stdout.split(f"\n{mark}\n")
    same(len(parts), len(commands) + 1, done.stdout)
    return [part.rstrip("\n").split("\n") if part.strip("\n") else [] for part in parts[:-1]]


def without_progress(lines):
    """Lines as they are compared; a run tells how far it is only where it takes some seconds."""
    return [steady(line) for line in lines if not re.match(r"done \d+/\d+ ", line)]


def steady(line):
    for pattern, word in VARIES:
        line = re.sub(pattern, word, line)
    return line.strip()


def is_job(source):
    return os.path.exists(os.path.join(source, "job.sh"))


def own(path, cluster):
    if cluster and cluster.prefix:
        subprocess.run(["chown", "-R", "65534:65534", path], check=True)


def as_told(lines, scratch):
    """As it would be on the laptop of somebody who has copied the example."""
    node = re.escape(os.uname().nodename)
    node = re.compile(rf"(?<=\bon ){node}(?=\W|$)|^{node}(?=  )")
    for line in lines:
        if "tasks are not pinned" in line:  # where cores are few, or their time is limited
            continue
        for here in (os.path.realpath(scratch), scratch):
            line = line.replace(here, "/home/ada")
        yield node.sub("laptop", line)


def tell_page(harrow, readme, directory, scratch, update, cluster=None, nodes=0):
    """Runs the commands of a README in `directory`, and compares what they print."""
    page = blocks(readme)
    expected = [(command, lines) for _, command, lines in page if command]
    check(expected, f"{readme} shows nothing")
    got = [[re.sub(OF_SEVERAL, "", line) if nodes > 1 else line for line in as_told(lines, scratch)]
           for lines in printed([command for command, _ in expected], directory, harrow, cluster, nodes)]
    if update:
        said = iter(got)
        with open(readme, "w", encoding="utf-8") as f:
            for text, command, _ in page:
                lines = [text] if command is None else [f"    $ {command}"] + [f"    {line}" if line else "" for line in next(said)]
                f.write("".join(line + "\n" for line in lines))
        return
    for (command, wanted), lines in zip(expected, got):
        same(without_progress(lines), without_progress(wanted), f"{readme}: $ {command}\n" + "\n".join(lines))


def tell_example(harrow, source, update, cluster=None):
    with work_dir() as temporary:
        scratch = cluster.home if cluster else temporary
        directory = os.path.join(scratch, os.path.basename(source))
        shutil.copytree(source, directory)
        own(directory, cluster)
        nodes = NODES.get(os.path.basename(source), 1) if cluster and not is_job(source) else 0
        tell_page(harrow, os.path.join(source, "README.md"), directory, scratch, update, cluster, nodes)


def section(readme, title):
    with open(readme, encoding="utf-8") as f:
        return re.search(rf"^## {title}\n(.*?)(?=^## )", f.read(), re.DOTALL | re.MULTILINE)[1]


def listed(text):
    """The lines that a user may type, without what is told of them."""
    return [re.sub(" +# .*", "", line) for line in re.findall(r"^    (harrow .*)$", text, re.MULTILINE)]


def tell_readme(harrow, source, update, cluster=None):
    """README: what it shows first, then the lines that it lists, which end well."""
    readme = os.path.join(source, "README.md")
    with work_dir() as temporary:
        scratch = os.path.join(cluster.home if cluster else temporary, "harrow")
        shutil.copytree(os.path.join(source, "contrib", "examples", "sweep"), os.path.join(scratch, "contrib", "examples", "sweep"))
        own(scratch, cluster)
        tell_page(harrow, readme, scratch, scratch, update, cluster, 1 if cluster else 0)
        lines = listed(section(readme, "Use it"))
        check(len(lines) > 8, lines)
        first = os.path.join(scratch, "first")
        said = printed([f"{line} && echo ended well" for line in lines], first, harrow, cluster, 1 if cluster else 0)
        for line, told in zip(lines, said):
            check(told and told[-1] == "ended well", f"{readme}: {line}\n" + "\n".join(told))
        # The flow that it shows is one.
        flow = re.search(r"^    \[\[task\]\]\n(?:    .*\n|\n)+", section(readme, "In Slurm"), re.MULTILINE)[0]
        shown = os.path.join(temporary, "shown")
        os.makedirs(os.path.join(shown, "raw"))
        for name in ["flow.toml", "region.hdr", "images.tbl", *[f"raw/{i}.fits" for i in range(421)]]:
            with open(os.path.join(shown, name), "w", encoding="utf-8") as f:
                f.write(flow if name == "flow.toml" else "")
        (told,) = printed(["harrow check flow.toml"], shown, harrow)
        check("no problem found" in told[0] and "422" in told[1], told)
    return first


def tell_slurm(harrow, source, directory, cluster):
    """What README says of Slurm, in its order, where the story before has been: the numbers of jobs are its, too."""
    text = section(os.path.join(source, "README.md"), "In Slurm")
    script = re.search(r"^    #!/bin/bash\n(?:    .+\n)+", text, re.MULTILINE)[0]
    with open(os.path.join(directory, "ensemble.sh"), "w", encoding="utf-8") as f:
        f.write(re.sub("^    ", "", script, flags=re.MULTILINE))
    lines = listed(text.replace(script, ""))
    submitted = [line for line in lines if line.startswith("harrow sbatch ")]
    same(len(submitted), 2, lines)
    said = printed([submitted[0], "sbatch --parsable ensemble.sh", submitted[1]], directory, harrow, cluster)
    check(f"Submitted batch job {FIRST_JOB}" in said[0], said)
    jobs = [str(FIRST_JOB), said[1][-1], said[2][-1].split()[-1]]
    for job in jobs:
        state = cluster.wait_job(job)
        same((state, query(os.path.join(directory, f"harrow-{job}"), "SELECT state, count(*) FROM tasks GROUP BY state")),
             ("COMPLETED", [("done", 30)]), said)
    resumed = [line for line in lines if line.startswith("harrow run ")]
    (srun,) = re.findall(r"`(srun -N[^`]+)`", text)
    same(len(resumed), 2, lines)
    said = printed([f"{line} && echo ended well" for line in [*resumed, srun]], directory, harrow, cluster, 4)
    check(all(told[-1] == "ended well" and told[-2].startswith("done 30 of 30") for told in said), said)


def main():
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    harrow, source, names = os.path.abspath(words[0]), words[1], words[2:]
    update = "--update" in sys.argv
    cluster = None
    examples = os.path.join(source, "contrib", "examples")

    def tell_all():
        lacking = []
        if not names or "README" in names:
            directory = tell_readme(harrow, source, update, cluster)
            if cluster:
                tell_slurm(harrow, source, directory, cluster)
            print("README: ok", flush=True)
        for name in names or sorted(os.listdir(examples)):
            if name == "README":
                continue
            if not os.path.exists(os.path.join(examples, name, "README.md")):
                raise AssertionError(f"contrib/examples/{name} has no README.md")
            if os.path.exists(os.path.join(examples, name, "CMakeLists.txt")):
                continue  # programs to be built; multiview_slurm.py runs them
            if is_job(os.path.join(examples, name)) and not cluster:
                continue
            if name in BUILT and not os.path.exists(os.path.join(os.path.dirname(harrow), name)):
                continue
            if name in NEEDS and shutil.which(NEEDS[name]) is None:
                lacking.append(name)
                continue
            tell_example(harrow, os.path.join(examples, name), update, cluster)
            print(f"{name}: ok", flush=True)
        if lacking and not names:
            raise Skipped(f"not run: {', '.join(lacking)}", [NEEDS[name] for name in lacking])

    if "--slurm" not in sys.argv:
        tell_all()
        return
    with Cluster("--share", os.path.dirname(harrow), "--cpus", "2", "--conf", f"FirstJobId={FIRST_JOB - 2}", ordinary=True) as cluster:
        tell_all()


if __name__ == "__main__":
    tell(main)
