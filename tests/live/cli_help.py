#!/usr/bin/env python3
"""Help texts fit a screen, and the man pages tell every option, key and setting that there is.

usage: cli_help.py HARROW SOURCE_DIR"""
import os
import re
import shutil
import subprocess
import sys

from run_support import check, same, tell, work_dir

WIDTH, HEIGHT = 80, 24


def page(source, name):
    with open(os.path.join(source, "contrib", "man", name + ".scd"), encoding="utf-8") as f:
        return f.read()


def told_options(text):
    """Options that a page has an entry for: lines "*--name* _X_", also several on one line."""
    found = set()
    for line in text.splitlines():
        if re.match(r"(?:_[A-Z]+_, )?\*-", line):
            found.update(re.findall(r"\*(-[a-zA-Z]|--[a-z-]+)\*", line))
    return found


def told_keys(text):
    """Words that have an entry: "*key*", "*key*\\*", "*a*, *b*"."""
    found = set()
    for line in text.splitlines():
        if re.match(r"\*[a-z_]+\*", line) and "*(" not in line:
            found.update(re.findall(r"\*([a-z_]+)\*", line))
    return found


def help_of(harrow, *command):
    done = subprocess.run([harrow, *command, "--help"], capture_output=True, text=True, timeout=300)
    same(done.returncode, 0, command)
    same(done.stderr, "", command)
    return done.stdout


def opens_manuals(harrow):
    """`harrow help flow` is `man harrow-flow`, and says where the page is when there is no man."""
    with work_dir() as directory:
        def asked(topic):
            done = subprocess.run([harrow, "help", topic], capture_output=True, text=True, timeout=300, env={"PATH": directory})
            return done.returncode, done.stdout, done.stderr

        code, out, err = asked("flow")
        check(code == 2 and not out and "there is no man: see harrow-flow in contrib/man" in err, code, out, err)
        with open(os.path.join(directory, "man"), "w", encoding="utf-8") as man:
            man.write("#!/bin/sh\necho \"the manual: $*\"\n")
        os.chmod(os.path.join(directory, "man"), 0o755)
        for topic, manual in (("flow", "harrow-flow"), ("cluster", "harrow-cluster"), ("conf", "harrow.conf"), ("plugin", "harrow-plugin"),
                              ("harrow-flow", "harrow-flow")):
            same(asked(topic), (0, f"the manual: {manual}\n", ""), topic)
        code, out, err = asked("flwo")
        check(code == 2 and "no command 'flwo'" in err and "flow" in err.split("flwo", 1)[1], err)


def main():
    harrow, source = os.path.abspath(sys.argv[1]), sys.argv[2]
    listed = help_of(harrow)
    commands = re.findall(r"^  ([a-z]+)  ", listed, re.M)
    for name in ("run", "check", "status", "logs", "explain", "cancel", "report", "doctor"):
        check(name in commands, name, "is not listed by harrow --help")
    for command in [None, *commands]:
        text = listed if command is None else help_of(harrow, command)
        lines = text.splitlines()
        check(len(lines) <= HEIGHT, command, "has", len(lines), "lines of help")
        for line in lines:
            check(len(line) <= WIDTH, command, ":", len(line), "columns:", line)
        check("example: " in text, command, "has no example")
        if command is None:
            continue
        options = set(re.findall(r"^  (?:-[a-zA-Z] )?(--[a-z-]+)", text, re.M)) | set(re.findall(r"^  (-[a-zA-Z]) ", text, re.M))
        options |= {option for row in re.findall(r"^  (?:-[a-zA-Z] )?--.*, --.*", text, re.M) for option in re.findall(r"(--[a-z-]+)", row.split("   ")[0])}
        told = told_options(page(source, f"harrow-{command}.1"))
        same(sorted(options - told), [], "not in the man page of", command)
        same(sorted(told - options), [], "in the man page of", command, "and not in its help")
        check(f"*harrow-{command}*(1)" in page(source, "harrow.1"), command, "is not in harrow(1)")
        same(subprocess.run([harrow, "help", command], capture_output=True, text=True, timeout=300).stdout, text)

    opens_manuals(harrow)
    with open(os.path.join(source, "sched/formats/task_keys.cc"), encoding="utf-8") as f:
        keys = set(re.findall(r'"([a-z_]+)"', f.read().split("AttributeKeys() {")[1].split(";")[0]))
    with open(os.path.join(source, "sched/formats/flow_file.cc"), encoding="utf-8") as f:
        keys |= set(re.findall(r'key == "([a-z_]+)"', f.read()))
    check("cores" in keys and "command" in keys, keys)
    flow = page(source, "harrow-flow.5")
    same(sorted(keys - told_keys(flow) - set(re.findall(r"\*([a-z_]+)\*", flow))), [], "not in harrow-flow(5)")

    with open(os.path.join(source, "sched/config/run_options.cc"), encoding="utf-8") as f:
        text = f.read()
    settings = set(re.findall(r'Key(?:<[\w:]+>)?\(\s*"([a-z_]+)",\s*&RunOptions', text)) | set(re.findall(r'^\s*\{"([a-z_]+)",\s*"', text, re.M))
    check(len(settings) > 15, settings)
    same(sorted(settings ^ told_keys(page(source, "harrow.conf.5"))), [], "differs from harrow.conf(5)")

    if shutil.which("scdoc"):
        for name in sorted(os.listdir(os.path.join(source, "contrib/man"))):
            if not name.endswith(".scd"):
                continue
            done = subprocess.run(["scdoc"], input=page(source, name[:-4]), capture_output=True, text=True, timeout=300)
            same((done.returncode, done.stderr), (0, ""), name)
    else:
        print("scdoc is not installed: the pages were not built")


if __name__ == "__main__":
    tell(main)
