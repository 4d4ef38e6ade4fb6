"""Search trees recorded by bmi-serial (contrib/examples/bmi): a line a node, number, parent, seconds, bound, children."""
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def build_serial(serial, work):
    """The program that records: that one, or the one in PATH, or one that is built below `work`."""
    program = serial or shutil.which("bmi-serial")
    if program is not None:
        return program
    program = os.path.join(work, "bmi", "bmi-serial")
    for command in (["cmake", "-S", os.path.join(ROOT, "contrib", "examples", "bmi"), "-B", os.path.dirname(program)],
                    ["cmake", "--build", os.path.dirname(program), "--target", "bmi-serial"]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"bmi-serial cannot be built (libdsdp-dev, liblapack-dev):\n{done.stderr[-2000:]}")
    return program


def record(instance, path, program):
    """Whole, or not at all."""
    print(f"records {instance}", flush=True)
    print(subprocess.run([program, instance, "--record", path + ".part"], stdout=subprocess.PIPE, text=True, check=True).stdout, end="", flush=True)
    os.rename(path + ".part", path)


def read(path, most=0):
    """Parent and seconds of each node, or of the first so many, in the order in which they were looked at."""
    with open(path, encoding="utf-8") as f:
        rows = [line.split("\t") for line in f][:most or None]
    for number, row in enumerate(rows):
        if len(row) < 5 or int(row[0]) != number or int(row[1]) >= number or (int(row[1]) < 0) != (number == 0):
            sys.exit(f"{path}: line {number + 1}: nodes are not in order")
    return [(int(row[1]), float(row[2])) for row in rows]
