"""What the comparisons of when and how many tasks move share: means, intervals, and which orders can be claimed."""
import math
import statistics

# Figure 3 of the paper: the fastest first.
PAPER_ORDER = ["(3)", "(2) 0.5", "(1)", "(2) 0.2"]
STUDENT = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26}  # 95 %, by degrees of freedom


def half_interval(values):
    """Half the 95 % interval of the mean."""
    if len(values) < 2:
        return math.inf
    free = len(values) - 1
    return STUDENT.get(free, 1.96 + 2.6 / free) * statistics.stdev(values) / math.sqrt(len(values))


def mean(runs, of):
    return statistics.mean(getattr(run, of) for run in runs)


def difference(a, b, of):
    """Mean of b - a pair by pair (of one seed or round), and half its 95 % interval."""
    pairs = [getattr(y, of) - getattr(x, of) for x, y in zip(a, b)]
    return statistics.mean(pairs), half_interval(pairs)


def chain(found, of):
    """The orders that can be claimed, as "a < b ~ c"; ~: within the interval."""
    names = sorted(found, key=lambda name: mean(found[name], of))
    text = names[0]
    for a, b in zip(names, names[1:]):
        off, half = difference(found[a], found[b], of)
        text += (" < " if off > half else " ~ ") + b
    return text


def claimed(found, of):
    """All pairs whose order can be claimed."""
    names = sorted(found, key=lambda name: mean(found[name], of))
    out = []
    for i, a in enumerate(names):
        for b in names[i + 1:]:
            off, half = difference(found[a], found[b], of)
            if off > half:
                out.append(f"{a} < {b}")
    return out


def contradicted(found, of, order):
    """Pairs of the paper's order that are the other way round, outside of the interval."""
    order = [name for name in order if name in found]
    out = []
    for i, a in enumerate(order):
        for b in order[i + 1:]:
            off, half = difference(found[a], found[b], of)
            if off < -half:
                out.append(f"{b} < {a}")
    return out
