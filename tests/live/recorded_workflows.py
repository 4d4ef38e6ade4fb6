#!/usr/bin/env python3
"""`harrow check --json` on every recorded workflow of DATA against an oracle that shares no code with it: tasks, edges, files,
bytes, core seconds, critical path, levels, width. One instance in WfFormat 1.0 to 1.5 gives the same statistics in each.

usage: recorded_workflows.py HARROW SHARED        (without SHARED/data: skipped, exit status 77)
"""
import glob
import json
import lzma
import os
import subprocess
import sys
import tempfile

harrow, shared = os.path.abspath(sys.argv[1]), sys.argv[2]
data = os.path.join(shared, "data")
oracle = os.path.join(shared, "oracle", "oracle.py")
if not os.path.isdir(data) or not os.path.exists(oracle):
    print(f"skipped: {data} or {oracle} is not at hand (needs data)")
    sys.exit(77)

failures = []
versions = {}


def same(what, got, want):
    close = abs(got - want) <= 1e-4 * max(1, abs(want)) if isinstance(want, float) else got == want
    if not close:
        failures.append(f"{what}: {got}, the oracle says {want}")


with tempfile.TemporaryDirectory(prefix="harrow-workflows-") as work:
    sources = sorted(glob.glob(os.path.join(data, "wf", "*.json.xz")) + glob.glob(os.path.join(data, "schema-versions", "*.json.xz")))
    for source in sources:
        name = os.path.basename(source).removesuffix(".xz")
        path = os.path.join(work, name)
        with lzma.open(source) as packed, open(path, "wb") as plain:
            plain.write(packed.read())
        said = subprocess.run([sys.executable, oracle, "--json", "--cores", "8", source], capture_output=True, text=True, check=True, timeout=300)
        answer = json.loads(said.stdout)
        want = answer[0] if isinstance(answer, list) else answer
        run = subprocess.run([harrow, "check", "--json", path], capture_output=True, text=True, timeout=300)
        if run.returncode != 0:
            failures.append(f"{name}: exit status {run.returncode}: {run.stderr[:300]}")
            continue
        got = json.loads(run.stdout)
        for key, theirs in [("tasks", "tasks"), ("edges", "edges"), ("files", "files"), ("bytes", "bytes"), ("input_files", "in_files"),
                            ("input_bytes", "in_bytes"), ("levels", "hops"), ("width", "width"), ("run_time_s", "core_s"), ("critical_path_s", "cp")]:
            same(f"{name}: {key}", got[key], want[theirs])
        if "2mass-005d" in name:
            # Before 1.1 a trace has no commands, which is all that may differ.
            versions[name] = {k: v for k, v in got.items() if k not in ("without_command",)}

if len(versions) < 5:
    failures.append(f"the instance is there in {len(versions)} versions only: {sorted(versions)}")
first = next(iter(versions.values()), None)
for name, statistics in versions.items():
    if statistics != first:
        failures.append(f"{name}: other statistics than {next(iter(versions))}: {statistics}")
for failure in failures:
    print(failure)
print(f"{len(sources)} workflows, {len(failures)} disagreements")
sys.exit(1 if failures else 0)
