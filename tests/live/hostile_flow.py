#!/usr/bin/env python3
"""What a flow and the names in it must never do: run as commands, reach a terminal as they are, hang, or take the machine down.
Hostile values in commands (against a real /bin/sh), hostile names, hostile recorded files, hostile files as FILE and as matches
of patterns. All is refused with its place, or harmless. A line a case; ends with 1 when one fails.

usage: hostile_flow.py HARROW [SEED]"""
import json
import os
import random
import re
import resource
import subprocess
import sys
import threading
import time

from run_support import Harrow, check, same, tell, tests_of, write

SEED = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(1 << 32)
PLACE = re.compile(r"^[^\n:]+:\d+:\d+: [^\n]+; [^\n]+$")
# What a terminal acts on: C0 but for newline and tab, DEL, and C1 in UTF-8.
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f\x80-\x9f]")
HOSTILE = ["'", '"', "it's", "a b", " ", "", "$(touch pwned)", "`touch pwned`", "; touch pwned;", "x\ntouch pwned\n", "| touch pwned", "&& touch pwned",
           "> pwned", "# a", "-rf", "--", "~", "~root", "*", "?", "[a]", "\\", "\\'", "!!", "!", "{a,b}", "${HOME}", "$HOME", "$'\\n'", "%s%n", "A=1", "=x",
           "../../x", "2", "if", "\t", "\x1b[2J", "\x7f", "\u009b31m", "\u202e", "é", "EOF", "EOF\ntouch pwned\n", "')\"; touch pwned; #", "\"`touch pwned`\"", "a\\",
           "0x10", "1e9", "x" * 5000, ")", "))", "}", "]]", ";;", "<<E", "<(touch pwned)"]
PLAIN = re.compile(r"[A-Za-z0-9_./:=@%+,-]+\Z")


def toml(text):
    """A TOML text; JSON's escapes are TOML's, but for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def refused(result, *words):
    """Exit 2, every line with its place and a way out."""
    same(result.code, 2, result)
    lines = result.err.rstrip("\n").split("\n")
    for line in lines:
        check(PLACE.match(line) or line.startswith("(reading stopped"), "no place or no way out:", line[:300])
    harmless(result)
    for word in words:
        check(word in result.err, word, "is not in", result)


def harmless(result):
    for text in (result.out, result.err):
        found = CONTROL.search(text)
        check(not found, "a control character reaches the terminal:", repr(text[max(0, found.start() - 80):found.end() + 20]) if found else "")
    check(len(result.err) < 200_000, "a flood of", len(result.err), "bytes")
    check(result.code in (0, 1, 2), result)


def flow(name, command, values, more=""):
    return f"[[task]]\nname = {toml(name + '-{n}')}\neach = {{ n = \"1\", v = [{', '.join(toml(v) for v in values)}] }}\ncommand = {command}\n{more}"


def witness(directory):
    """A program that writes down its arguments, each ended by NUL, under the number of its task."""
    path = write(os.path.join(directory, "witness"), '#!/bin/sh\n[ $# -gt 0 ] && printf \'%s\\0\' "$@" > "$SEEN/$HARROW_TASK_NAME"\n', 0o755)
    os.mkdir(os.path.join(directory, "seen"))
    return path


def seen(directory, name):
    try:
        with open(os.path.join(directory, "seen", name), "rb") as f:
            return f.read().decode().split("\0")[:-1]
    except FileNotFoundError:
        return None


TEMPLATES = ["W {v}", "W a {v} b", "W {v} | cat", "cat </dev/null | W {v}", "true; W {v}", "true && W {v} && true", "W {v}>out", "W {v} >out", "W >out {v}",
             "W $HOME {v}", "W '{v}'", 'W "{v}"', "# don't\nW {v}", "cat <<E\nit's\nE\nW {v}", 'W "$(printf %s "{v}")"', "W $(echo) {v}", "W `echo` {v}",
             "W x{v}", "W {v}x", "W --o={v}", "A=1 W {v}", "(W {v})", "{{ W {v}; }", "eval W {v}", "W \\\\{v}", "if true; then W {v}; fi",
             "for i in 1; do W {v}; done", "case x in x) W {v};; esac", "W ${HOME:-x} {v}", "W {v} # {v}", "W\t{v}", "W {v}\n\n", "W *.none {v}", "echo 'a' >out; W {v}",
             "true & W {v}; wait", "W $((1+1)) {v}", 'W "a" {v}', "W {v} 'a'", 'W {v} "$HOME"', "W {v} $(echo z)", "sh -c 'exec \"$@\"' x W {v}", "test -n {v} && W {v}"]
ALWAYS = {"W {v}", "W a {v} b", "W {v} | cat", "cat </dev/null | W {v}", "true; W {v}", "W {v}>out", "W $HOME {v}", "W {v} 'a'", "A=1 W {v}"}


def test_a_value_arrives_as_one_argument_or_is_refused(directory, harrow_program):
    print(f"seed {SEED}")
    draw = random.Random(SEED)
    program = witness(directory)
    harrow = Harrow(harrow_program, directory, {"SEEN": os.path.join(directory, "seen")})
    alphabet = [*HOSTILE, *"abcXYZ019_./:=@%+,-", " ", "'", '"', "$", "\\", "\n", "`", "(", ")", ";", "&"]
    cases = [(t, v) for t in TEMPLATES for v in draw.sample(HOSTILE, 4) + ["plain-1.x", "".join(draw.choices(alphabet, k=draw.randrange(1, 6)))]]
    cases += [(t, v) for t in ALWAYS for v in HOSTILE]
    taken, last = [], time.monotonic()
    for number, (template, value) in enumerate(cases):
        path = write(os.path.join(directory, "case.toml"), flow(f"c{number}", toml(template.replace("W", program)), [value]))
        result = harrow("check", path)
        if result.code == 0:
            taken.append((f"c{number}-1", template, value))
        else:
            refused(result, "env = { X = ")
            check(not PLAIN.match(value) or "{v}>" in template or "=" in value, "refused though plain:", template, repr(value), result)
            check(template not in ALWAYS, "refused where it stands alone:", template, repr(value), result)
    check(len(taken) > len(ALWAYS) * len(HOSTILE), "hardly anything is taken:", len(taken))
    parts = [flow(name[:-2], toml(template.replace("W", program)), [value]) for name, template, value in taken]
    write(os.path.join(directory, "all.toml"), "".join(parts))
    harrow("run", "--run-dir", "r", "--progress", "none", "--slots", "4", "all.toml", timeout=900)
    check(not os.path.exists(os.path.join(directory, "pwned")), "a value ran as a command")
    for name, template, value in taken:
        got = seen(directory, name)
        check(got is not None, "the program was not started:", template, repr(value))
        before = template[:template.index("{v}")].rsplit("W", 1)[-1].strip().rsplit(" ", 1)[-1]
        exact = value in got or any(value and value in word and PLAIN.match(value) for word in got)
        check(exact, "not what was meant:", template, repr(value), "arrived as", got, before)
        if template in ("W {v}", "W {v}>out", "W {v} | cat"):
            same(got, [value], template)
    print(f"  {len(cases)} cases, {len(taken)} taken, {len(cases) - len(taken)} refused")


def test_a_variable_and_a_list_take_every_value(directory, harrow_program):
    program = witness(directory)
    harrow = Harrow(harrow_program, directory, {"SEEN": os.path.join(directory, "seen")})
    text = ""
    for i, value in enumerate(HOSTILE):
        text += flow(f"v{i}", toml(f"# it's safe\n{program} \"$X\""), [value], 'env = { X = "{v}" }\n')
        text += flow(f"l{i}", f"[{toml(program)}, \"{{v}}\"]", [value])
    write(os.path.join(directory, "f.toml"), text)
    result = harrow("run", "--run-dir", "r", "--progress", "none", "f.toml", code=0, timeout=300)
    harmless(result)
    for i, value in enumerate(HOSTILE):
        for kind in "vl":
            same(seen(directory, f"{kind}{i}-1"), [value], kind)
    check(not os.path.exists(os.path.join(directory, "pwned")), "a value ran as a command")


def test_the_ways_in_that_were_found(directory, harrow_program):
    harrow = Harrow(harrow_program, directory)
    with open(os.path.join(directory, "names"), "w") as f:
        f.write("x; touch pwned #\n$(touch pwned)\n`touch pwned`\n\";touch pwned;\"\n")
    for command in ("\n# don't count this\nprintf '%s\\n' {i}\n", "cat <<EOF\n{i}\nEOF", 'echo "$(basename "{i}")"'):
        write(os.path.join(directory, "f.toml"), f"[[task]]\nname = \"a-{{i}}\"\neach = {{ i = \"@names\" }}\ncommand = {toml(command)}\n")
        refused(harrow("run", "--run-dir", "r", "f.toml"), "f.toml:4:11: {i} cannot be", "touch pwned")
    for command in ('["sh", "-c", "echo {i}"]', '["timeout", "5", "/bin/bash", "-ec", "echo \'{i}\'; true"]'):
        write(os.path.join(directory, "f.toml"), f"[[task]]\nname = \"a-{{i}}\"\neach = {{ i = [\"a; touch pwned #'\"] }}\ncommand = {command}\n")
        result = harrow("run", "--run-dir", f"r{len(command)}", "--progress", "none", "f.toml")
        check(result.code in (0, 2), result)
    write(os.path.join(directory, "f.toml"), "[[task]]\nname = \"a-{i}\"\neach = { i = [\"a b\"] }\nshell = \"python3\"\ncommand = \"print {i}\"\n")
    refused(harrow("check", "f.toml"), "f.toml:5:11:")
    check(not os.path.exists(os.path.join(directory, "pwned")), "a value ran as a command")


def test_names_reach_no_terminal_as_they_are(directory, harrow_program):
    harrow = Harrow(harrow_program, directory)
    bad = ["\x1b]0;pwn\x07", "\x1b[2J\x1b[31m", "\u009b2J", "\r\x08\x08", "a\x7f", "\x0e"]
    text = ""
    for i, name in enumerate(bad):
        text += f"[[task]]\nname = {toml(name + str(i))}\ncommand = [\"false\", {toml(name)}]\nkind = {toml(name)}\nout = [{toml('o' + name)}]\nrun_time = \"1s\"\n"
    write(os.path.join(directory, "f.toml"), text)
    for args in (["check", "f.toml"], ["sim", "--nodes", "1x2", "f.toml"], ["run", "--dry-run", "f.toml"], ["run", "--run-dir", "r", "--progress", "plain", "f.toml"],
                 ["status", "--run-dir", "r"], ["report", "--run-dir", "r"], ["logs", "--run-dir", "r"], ["explain", "--run-dir", "r", bad[0] + "0"],
                 ["run", "--resume", "--run-dir", "r", "--progress", "plain", "f.toml"]):
        result = harrow(*args)
        check(result.code in (0, 1, 2), args, result)
        try:
            harmless(result)
        except AssertionError as e:
            raise AssertionError(f"{args}: {e}") from e
    for args in (["check", "--json", "f.toml"], ["status", "--json", "--run-dir", "r"]):
        json.loads(harrow(*args).out)
    for args in (["check", "\x1b[2J.toml"], ["run", "\x1b[2J"], ["\x1b[2J"], ["check", "--\x1b[2J"], ["explain", "--run-dir", "\x1b[2J", "x"], ["status", "--run-dir", "\x1b[2J"]):
        harmless(harrow(*args))
    # An unknown word of each kind is shown in a message.
    for line in (f"{toml(bad[0])} = 1\n", f"[[task]]\nname = \"a\"\ncommand = \"x\"\n{toml(bad[1])} = 1\n", f"[[task]]\nname = \"a\"\ncommand = \"x\"\nafter = [{toml(bad[2])}]\n",
                 f"[[task]]\nname = \"a\"\ncommand = \"x\"\nin = [{toml(bad[0])}]\n", f"[[task]]\nname = \"a\"\ncommand = \"x\"\nmemory = {toml(bad[0])}\n",
                 f"[flow]\norder = {toml(bad[0])}\n[[task]]\nname = \"a\"\ncommand = \"x\"\n", f"[[task]]\nname = \"a\"\ncommand = \"x\"\nenv = {{ {toml('A=' + bad[0])} = \"\" }}\n",
                 f"[[task]]\nname = \"a\"\ncommand = \"x\"\neach = {{ i = {toml(bad[0])} }}\n", f"[[task]]\nname = {toml(bad[0] + '{x}')}\ncommand = \"x\"\n",
                 f"[[task]]\nname = {toml(bad[0])}\ncommand = \"x\"\n" * 2):
        write(os.path.join(directory, "g.toml"), line)
        refused(harrow("check", "g.toml"))
    write(os.path.join(directory, "t.txt"), "#HARROW \x1b[2J=1\n#HARROW cores=\x1b[2J\nx \x1b[2J\n")
    refused(harrow("check", "t.txt"))


def test_oversized_and_broken_text(directory, harrow_program):
    harrow = Harrow(harrow_program, directory)
    long = "n" * 1_000_000
    for text in (f"[[task]]\nname = \"{long}\"\ncommand = \"x\"\n", f"[[task]]\nname = \"a\"\ncommand = \"x\"\nout = [\"{long}\"]\n",
                 f"[[task]]\nname = \"a\"\ncommand = \"x {long}\"\n", f"[[task]]\nname = \"a\"\ncommand = \"x\"\ncwd = \"{long}\"\n",
                 f"[[task]]\nname = \"a\"\ncommand = \"x\"\n{long} = 1\n", f"[[task]]\nname = \"a-{{i}}\"\neach = {{ i = [\"{long}\"] }}\ncommand = \"x\"\n",
                 f"[[task]]\nname = \"a-{{i}}\"\neach = {{ i = [\"{long}'\"] }}\ncommand = \"x '{{i}}'\"\n"):
        write(os.path.join(directory, "f.toml"), text)
        refused(harrow("check", "f.toml"), "f.toml:")
    write(os.path.join(directory, "t.txt"), f"x {long}\n")
    refused(harrow("check", "t.txt"), "t.txt:1:1:")
    for name, data in (("u.toml", b"[[task]]\nname = \"\xff\"\ncommand = \"x\"\n"), ("u.txt", b"x \xc3\x28\n"), ("n.txt", b"x a\0b\n"), ("w.txt", "x\n".encode("utf-16")),
                       ("s.txt", b"x \xed\xa0\x80\n"), ("o.txt", b"x \xc0\xaf\n")):
        with open(os.path.join(directory, name), "wb") as f:
            f.write(data)
        refused(harrow("check", name), f"{name}:")
    for data in (b"a\xff\n", b"a\0b\n"):
        with open(os.path.join(directory, "list"), "wb") as f:
            f.write(data)
        write(os.path.join(directory, "f.toml"), "[[task]]\nname = \"a-{i}\"\neach = { i = \"@list\" }\ncommand = \"x {i}\"\n")
        refused(harrow("check", "f.toml"), "f.toml:3:14: each.i: line 1 of list holds")
    write(os.path.join(directory, "f.toml"), "[[task]]\nname = \"a\"\ncommand = \"x \\u0000\"\nenv = { A = \"\\u0000\" }\n")
    refused(harrow("check", "f.toml"), "NUL")


def test_recorded_files(directory, harrow_program):
    harrow = Harrow(harrow_program, directory)
    task = '{"name": "a", "runtime": %s, "cores": %s}'
    laugh = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 10))
    for name, text in {
            "deep.json": "[" * 1_000_000, "deep2.json": '{"workflow":' * 200_000, "deep3.json": '{"x":' + "[" * 100_000 + "]" * 100_000 + ',"workflow":{"tasks":[]}}',
            "deep.toml": "[[task]]\nname = \"a\"\ncommand = \"x\"\nin = " + "[" * 200_000, "deep2.toml": ".".join(["a"] * 20_000) + " = 1\n", "deep.xml": "<adag>" + "<a>" * 1_000_000,
            "laugh.xml": f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY l0 "ha">{laugh}]><adag><job id="&l9;" name="x"/></adag>',
            "outside.xml": '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]><adag><job id="&e;" name="x"/></adag>',
            "char.xml": '<adag><job id="&#0;&#x110000;" name="x"/></adag>', "cut.xml": '<adag><job id="a', "big.json": '{"workflow":{"tasks":[' + task % ("1e999", "1") + "]}}",
            "cores.json": '{"workflow":{"tasks":[' + task % ("1", "1e18") + "]}}", "minus.json": '{"workflow":{"tasks":[' + task % ("1", "-1") + "]}}",
            "cycle.json": '{"workflow":{"tasks":[{"name":"a","parents":["b"]},{"name":"b","parents":["a"]}]}}', "same.json": '{"workflow":{"tasks":[{"name":"a"},{"name":"a"}]}}',
            "big.stg": "99999999999999999999\n0 1 0\n", "links.stg": "1\n0 1 999999999 0\n", "far.stg": "1\n0 1e400 0\n1 1 0\n", "cycle.dag.tsv": "T\ta\tk\t1\nT\tb\tk\t1\nE\ta\tb\nE\tb\ta\n",
            "nan.dag.tsv": "T\ta\tk\tnan\n", "size.dag.tsv": "T\ta\tk\t1\nO\ta\tf\nF\tf\t1e300\n"}.items():
        write(os.path.join(directory, name), text)
        for command in ("check", "sim"):
            refused(harrow(command, *(["--nodes", "1x1"] if command == "sim" else []), name), f"{name}:")
    # Keys twice: taken as somebody may have meant them, never a crash.
    for text in ('{"workflow":{"tasks":[{"name":"a","name":"b","runtime":1,"runtime":2}],"tasks":[]}}', '{"workflow":{"tasks":[{"name":"a"}]},"workflow":{"tasks":[{"name":"b"}]}}'):
        write(os.path.join(directory, "twice.json"), text)
        harmless(harrow("check", "twice.json"))


def limited(harrow, *args, megabytes=1500, timeout=180):
    """With so much memory: what reads a device to its end has none."""
    done = subprocess.run([harrow.program, *args], cwd=harrow.cwd, env=harrow.env, text=True, capture_output=True, timeout=timeout, stdin=subprocess.DEVNULL,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20)))
    done.code, done.out, done.err = done.returncode, done.stdout, done.stderr
    return done


def test_what_is_no_file(directory, harrow_program):
    harrow = Harrow(harrow_program, directory)
    os.mkdir(os.path.join(directory, "d"))
    os.symlink("loop", os.path.join(directory, "loop"))
    for name in ("d", "absent", "loop", "/dev/zero", "/dev/urandom", "/dev/full", "d/absent/x", "", "a" * 5000, "/proc/self/mem"):
        result = limited(harrow, "check", name)
        same(result.code, 2, name, result.err)
        check(not CONTROL.search(result.err) and len(result.err) < 10_000, name, result.err[:500])
    # A list file and a cluster's model are read by the same rules.
    write(os.path.join(directory, "f.toml"), "[[task]]\nname = \"a-{i}\"\neach = { i = \"@/dev/zero\" }\ncommand = \"x {i}\"\n")
    refused(limited(harrow, "check", "f.toml"), "f.toml:3:14:")
    write(os.path.join(directory, "t.txt"), "x\n")
    same(limited(harrow, "sim", "--run-time", "1s", "--cluster", "/dev/zero", "t.txt").code, 2)
    # A pipe is read to its end, as long as somebody writes into it: <(...) and mkfifo.
    pipe = os.path.join(directory, "pipe")
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: write(pipe, "x\ny\n"), daemon=True)
    writer.start()
    check("tasks                  2" in harrow("check", "--lines", "pipe", code=0).out)
    writer.join()
    # A file that grows while it is read ends somewhere, at a line or within one.
    grows, stop = os.path.join(directory, "grows.txt"), threading.Event()

    def grow():
        with open(grows, "a", encoding="utf-8") as f:
            for _ in range(100_000):
                if stop.is_set():
                    return
                f.write("x a line\n" * 50)
                f.flush()
    write(grows, "x\n")
    writer = threading.Thread(target=grow, daemon=True)
    writer.start()
    for _ in range(3):
        harmless(harrow("check", "grows.txt", code=0))
    stop.set()
    writer.join()


def test_patterns_over_hostile_directories(directory, harrow_program):
    program = witness(directory)
    harrow = Harrow(harrow_program, directory, {"SEEN": os.path.join(directory, "seen")})
    names = [n for n in HOSTILE if n and "/" not in n and len(n) < 200 and n != "~"]
    os.mkdir(os.path.join(directory, "in"))
    for name in names:
        write(os.path.join(directory, "in", name), "")
    with open(os.path.join(directory.encode(), b"in", b"no-utf8-\xff"), "wb"):
        pass
    os.symlink("../in", os.path.join(directory, "in", "loop"))
    os.mkfifo(os.path.join(directory, "in", "pipe"))
    write(os.path.join(directory, "f.toml"), f"[[task]]\nname = \"a\"\ncommand = {toml(program + ' in/*')}\nin = [\"in/*\"]\n")
    result = harrow("check", "f.toml")
    harmless(result)
    result = harrow("run", "--run-dir", "r", "--progress", "none", "f.toml")
    harmless(result)
    if result.code == 0:
        check(set(f"in/{n}" for n in names) <= set(open(os.path.join(directory, "seen", "a"), "rb").read().decode("utf-8", "replace").split("\0")))
        json.loads(harrow("status", "--json", "--run-dir", "r").out)
    check(not os.path.exists(os.path.join(directory, "pwned")), "a name ran as a command")
    # Many stars over long names: no time at all.
    write(os.path.join(directory, "in", "a" * 250), "")
    write(os.path.join(directory, "g.toml"), f"[[task]]\nname = \"a\"\ncommand = \"x\"\nin = [\"in/{'a*' * 100}b\"]\n")
    refused(harrow("check", "g.toml", timeout=120), "matches no declared output")


def test_lines_are_what_they_say(directory, harrow_program):
    """A line is a shell's text of the user's own; what surrounds it must not change it."""
    program = witness(directory)
    harrow = Harrow(harrow_program, directory, {"SEEN": os.path.join(directory, "seen")})
    with open(os.path.join(directory, "t.txt"), "wb") as f:
        f.write(f"{program} 'a b' \"c  d\" e\\ f\r\n  {program} '--' -x \t\n#HARROW env.A=\"$(touch pwned)\" kind=\"; touch pwned\"\n{program} \"$A\"\n".encode())
    harmless(harrow("run", "--run-dir", "r", "--progress", "none", "t.txt", code=0))
    got = [seen(directory, name) for name in ("#1", "#2", "#3")]
    if got == [None] * 3:
        got = [seen(directory, name) for name in ("1", "2", "3")]
    same(got, [["a b", "c  d", "e f"], ["--", "-x"], ["$(touch pwned)"]])
    check(not os.path.exists(os.path.join(directory, "pwned")))


if __name__ == "__main__":
    tell(lambda: tests_of(sys.modules[__name__], sys.argv[1]))
