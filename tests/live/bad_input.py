#!/usr/bin/env python3
"""Every file of tests/data/bad_input.table, and files that cannot be read: `harrow check` and `harrow run` end with 2, name
FILE:LINE:COLUMN, say what is wrong and what would be right, and start nothing.

usage: bad_input.py HARROW TABLE [COMMAND...]      (commands: default check run)
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile


def unescape(text):
    """Bytes of a case's content: repetitions, then escapes."""
    text = re.sub(r"<<(\d+)\*(.*?)>>", lambda m: m[2] * int(m[1]), text)
    out = bytearray()
    position = 0
    for m in re.finditer(r"\\(x[0-9a-f]{2}|r|\\)", text):
        out += text[position:m.start()].encode()
        out += bytes([int(m[1][1:], 16)]) if m[1][0] == "x" else {"r": b"\r", "\\": b"\\"}[m[1]]
        position = m.end()
    return bytes(out + text[position:].encode())


def read_table(path):
    text = open(path, encoding="utf-8").read()
    for block in re.split(r"^### ", text, flags=re.M)[1:]:
        head, _, content = block.partition(">>>\n")
        first, *rest = head.split("\n")
        name, *arguments = first.split()
        case = {"name": name, "arguments": arguments, "content": unescape(content.removesuffix("\n"))}
        for line in filter(None, rest):
            key, _, value = line.partition(" ")
            case[key] = value
        yield case


def main():
    harrow, table = os.path.abspath(sys.argv[1]), sys.argv[2]
    commands = sys.argv[3:] or ["check", "run"]
    failures = 0
    count = 0
    with tempfile.TemporaryDirectory(prefix="harrow-bad-input-") as work:
        cases = list(read_table(table))
        for case in cases:
            with open(os.path.join(work, case["name"]), "wb") as f:
                f.write(case["content"])
        os.mkdir(os.path.join(work, "directory.txt"))
        os.symlink("nowhere", os.path.join(work, "broken-link.txt"))
        os.symlink("loop.txt", os.path.join(work, "loop.txt"))
        unreadable = os.path.join(work, "unreadable.txt")
        with open(unreadable, "w") as f:
            f.write("true\n")
        os.chmod(unreadable, 0)
        os.chmod(work, 0o777)
        for name, wrong in [("directory.txt", "directory"), ("broken-link.txt", "No such file"), ("loop.txt", "Too many levels"),
                            ("missing.txt", "No such file"), ("unreadable.txt", "Permission denied")]:
            cases.append({"name": name, "arguments": [], "at": "1:1", "wrong": wrong, "right": "name a readable file",
                          "unprivileged": name == "unreadable.txt"})
        for command in commands:
            for case in cases:
                argv = [harrow, command, *case["arguments"], case["name"]]
                if case.get("unprivileged") and os.geteuid() == 0:
                    # Root reads everything; somebody else does not. Without the tool there is nothing to show.
                    if not shutil.which("setpriv"):
                        print("note: no setpriv, unreadable.txt left out")
                        continue
                    reachable = subprocess.run(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "test", "-x", harrow])
                    if reachable.returncode != 0:
                        print("note: the program is not reachable without privileges, unreadable.txt left out")
                        continue
                    argv = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", *argv]
                count += 1
                before = sorted(os.listdir(work))
                done = subprocess.run(argv, cwd=work, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
                error = done.stderr.decode(errors="replace")
                place = f'{case["name"]}:{case["at"]}: '
                lines = [l for l in error.splitlines() if place in l]
                line = next((l for l in lines if case["wrong"] in l), lines[0] if lines else "")
                message = line[line.find(place) + len(place):]
                what, _, hint = message.partition("; ")
                said = [
                    (done.returncode == 2, f"exit status {done.returncode}, not 2"),
                    (bool(line), f'no line "{place}..."'),
                    (case["wrong"] in message, f'does not say what is wrong: {case["wrong"]}'),
                    (case.get("right", "") in message and bool(hint or message.count(";")), f'does not say what would be right: {case.get("right", "")}'),
                    (len(error) < 20000, f"{len(error)} bytes of messages"),
                    ("Traceback" not in error and "terminate" not in error, "crashed"),
                    (sorted(os.listdir(work)) == before, "left something behind"),
                ]
                wrong = [why for good, why in said if not good]
                if wrong:
                    failures += 1
                    print(f'{command} {case["name"]}: {"; ".join(wrong)}\n    {error[:600]!r}')
    print(f"{count} runs of {', '.join(commands)}, {failures} not as they should be")
    return 1 if failures else 0


sys.exit(main())
