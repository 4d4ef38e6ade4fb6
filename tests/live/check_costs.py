#!/usr/bin/env python3
"""`harrow check --costs`: formulas and what they come to, as text and JSON; commands that do not join tasks by streams refuse them before
anything starts.

usage: check_costs.py HARROW"""
import json
import os
import sys

from run_support import Harrow, check, same, tell, tests_of, write

FLOW = """[[task]]
name = "make"
command = "make 0 10 5"
to = ["s1"]
model = "compute(20 * @arg[1]) output(@arg[2])"

[[task]]
name = "map-{i}"
each = { i = "1-4" }
command = "map {i}"
from = ["s1"]
to = ["s2-{i}"]
model = "WHILE input(1) FOR @arg[0] compute(100) END output(10) END"

[[task]]
name = "reduce-{i}-{k}"
each = { i = "1-4", k = "1-2" }
command = "reduce {k}"
from = ["s2-{i}"]
model = "WHILE input(1) compute(50 * @arg[0]) END"
"""


def test_formulas_and_values(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/f.toml", FLOW)
    told = json.loads(harrow("check", "--costs", "--json", "f.toml", code=0).out)
    same(told["streams"], 5)
    costs = told["costs"]
    same([p["compute"] for p in costs["programs"]], ["20 * a1", "100 * a0 * C_i", "50 * a0 * C_i"])
    same([p["in"] for p in costs["programs"]], ["0", "C_i", "C_i"])
    same([(t["first"], t["count"], t["rank"]) for t in costs["tasks"]], [("make", 1, 0), ("map-1", 4, 1), ("reduce-1-1", 8, 2)])
    same([t["compute"] for t in costs["tasks"]], [[200, 200], [500, 2000], [2500, 5000]])
    same([(s["first"], s["count"], s["amount"]) for s in costs["streams"]], [("s1", 1, [5, 5]), ("s2-1", 4, [50, 50])])
    text = harrow("check", "--costs", "f.toml", code=0).out
    for part in ("100 * a0 * C_i", "map-1 .. map-4", "500..2000", "s2-1 .. s2-4"):
        check(part in text, part, text)
    check("C_i" not in harrow("check", "f.toml", code=0).out, "costs are told unasked")


def test_what_is_not_known_stays_a_formula(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/f.toml", '[[task]]\nname = "a"\ncommand = "x 3"\nmodel = "WHILE input(1) compute(@arg[0]) END"\n')
    check("3 * C_i" in harrow("check", "--costs", "f.toml", code=0).out, "3 * C_i")
    same(json.loads(harrow("check", "--costs", "--json", "f.toml", code=0).out)["costs"]["tasks"][0]["compute"], [None, None])
    write(f"{directory}/g.toml", '[[task]]\nname = "a"\ncommand = "x 0"\nmodel = "compute(1 / @arg[0])"\n')
    done = harrow("check", "g.toml", code=2)
    check(done.err.startswith("g.toml:2:8: ") and "divides by 0" in done.err, done)


def test_streams_are_refused_before_anything_starts(directory, program):
    harrow = Harrow(program, directory)
    write(f"{directory}/f.toml", FLOW)
    done = harrow("replay", "f.toml", code=2)
    check(done.err.startswith("f.toml:8:8: ") and "does not join tasks by streams yet" in done.err, done)
    same(sorted(os.listdir(directory)), ["f.toml", "harrow.conf"])


if __name__ == "__main__":
    tell(lambda: tests_of(sys.modules[__name__], os.path.abspath(sys.argv[1])))
