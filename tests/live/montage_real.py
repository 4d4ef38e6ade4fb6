#!/usr/bin/env python3
"""Real Montage runs as flow files: t3 in every order, on one node, on four or on twelve with local files, m25 in one order on twelve
(HARROW_LONG: both in every order on all of these); each output equal to its recorded checksum.

usage: montage_real.py HARROW SHARED_DATA_DIR [t3 m25 ...]
SHARED_DATA_DIR holds tools/gen_montage_inputs.py, tools/mk_montage_tasks.py and montage-real/*; where it or the Montage
programs are absent, says so and ends with 77."""
import hashlib
import json
import lzma
import os
import shutil
import subprocess
import sys
import tempfile
import time

LONG = bool(os.environ.get("HARROW_LONG"))
NODES = ("1", "4", "12 with local files")
ORDERS = ["fifo", "lifo", "hrf", "lifo+hrf", "rank+hrf"]
M25_ORDER = "hrf"
PARAMETERS = {"t3": (["3", "3", "300", "250", "1"], ["2", "2", "5"]), "m25": (["5", "5", "600", "500", "7"], ["3", "3", "8"])}


def toml_string(text):
    return json.dumps(text, ensure_ascii=False)


def write_flow(tasks, path, keep=False):
    """tasks.tsv (id, kind, inputs, outputs, command) as a flow file. `keep`: every output comes to the submit directory, also with
    files on the nodes' own disks."""
    with open(path, "w", encoding="utf-8") as out:
        out.write('[flow]\nname = "montage"\n')
        for line in tasks:
            name, kind, ins, outs, command = line.rstrip("\n").split("\t")
            braces = command.replace("{", "{{").replace("}", "}}")
            out.write(f"\n[[task]]\nname = {toml_string(name)}\nkind = {toml_string(kind)}\ncommand = {toml_string(braces)}\n"
                      f"in = {json.dumps(ins.split(','))}\nout = {json.dumps(outs.split(','))}\n" + ("keep = true\n" if keep else ""))


def read_sums(path):
    with lzma.open(path, "rt") as text:
        return [line.rstrip("\n").split("  ", 1) for line in text]


def mismatches(work, sums):
    bad = []
    for digest, name in sums:
        try:
            with open(os.path.join(work, name), "rb") as f:
                if hashlib.sha256(f.read()).hexdigest() != digest:
                    bad.append(name + " differs")
        except OSError:
            bad.append(name + " is missing")
    return bad


def prepare(data, work, name):
    """The inputs of a set and its flow files, shared.toml and local.toml, in a directory. Returns what its outputs must be."""
    generate, tasks = PARAMETERS[name]
    for tool, args in (("gen_montage_inputs.py", generate), ("mk_montage_tasks.py", tasks)):
        subprocess.run([sys.executable, os.path.join(data, "tools", tool), work, *args], check=True, stdout=subprocess.DEVNULL)
    reference = os.path.join(data, "montage-real", name)
    inputs = os.path.join(reference, "inputs.sha256.xz")
    if os.path.exists(inputs):
        bad = mismatches(work, read_sums(inputs))
        assert not bad, f"the generated inputs are not those of the reference: {bad[:3]}"
    for files in ("shared", "local"):
        with open(os.path.join(work, "tasks.tsv"), encoding="utf-8") as lines:
            write_flow(lines, os.path.join(work, f"{files}.toml"), keep=files == "local")
    return read_sums(os.path.join(reference, "outputs.sha256.xz"))


def remove_outputs(work, sums):
    for _, output in sums:
        if os.path.exists(os.path.join(work, output)):
            os.unlink(os.path.join(work, output))


def missing(data):
    """What a run of Montage lacks here, and what would bring it; none: nothing."""
    if not os.path.isdir(os.path.join(data, "montage-real")):
        return f"no montage-real below {data}", "data"
    return None if shutil.which("mProjectPP") else ("the Montage programs are not installed", "montage")


def main():
    harrow, data = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    sets = sys.argv[3:] or ["t3", "m25"]
    if lacks := missing(data):
        print(f"skipped: {lacks[0]} (needs {lacks[1]})")
        return 77
    failures = 0
    with tempfile.TemporaryDirectory(prefix="harrow-montage-") as top:
        for name in sets:
            work = os.path.join(top, name)
            sums = prepare(data, work, name)
            for i, order in enumerate(ORDERS):
                if name == "m25" and order != M25_ORDER and not LONG:
                    continue
                for nodes in NODES if LONG else (NODES[i % len(NODES)],):
                    local = nodes.endswith("files")
                    how = ["local.toml", "--files", "local", "--slots", "1"] if local else ["shared.toml"]
                    remove_outputs(work, sums)
                    run_dir = os.path.join(top, f"run-{name}-{order}-{nodes.split()[0]}")
                    began = time.monotonic()
                    run = subprocess.run([harrow, "run", *how, "--order", order, "--local-nodes", nodes.split()[0], "--run-dir", run_dir],
                                         cwd=work, capture_output=True, text=True, timeout=600)
                    took = time.monotonic() - began
                    bad = mismatches(work, sums)
                    ok = run.returncode == 0 and not bad
                    failures += not ok
                    print(f"{'ok  ' if ok else 'FAIL'} {name} {order} on {nodes}: exit {run.returncode}, {len(sums) - len(bad)} of {len(sums)}"
                          f" outputs equal, {took:.2f} s")
                    if not ok:
                        print("\n".join(bad[:5]), run.stdout[-1000:], run.stderr[-3000:], sep="\n")
    print(f"{failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
