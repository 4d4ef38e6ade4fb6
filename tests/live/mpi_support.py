"""What the tests of many MPI tasks share: runs over nodes of this machine whose parts can be counted while they go on.

Tasks wait for a gate, and some go on until they are told that it is enough: between the two all of a run is there, and what its processes
hold is the same before and after the tasks in between (Held)."""
import collections
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import threading

import run_support
from run_support import Harrow, Skipped, kill, of_run, processes, same, wait_for, write

HERE = os.path.dirname(os.path.abspath(__file__))
# No fabric here, and the nodes are of one machine. Ranks that yield while they wait take both CPUs from all else, agents too, for up to
# half a minute (Linux 6.18).
MPI = {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,vader,tcp", "OMPI_MCA_btl_tcp_if_include": "lo", "OMPI_MCA_mpi_yield_when_idle": "0"}
NODES, SLOTS = 4, 4


def find_open_mpi(name="mpicc"):
    for found in map(shutil.which, (f"{name}.openmpi", name)):
        if found and "mpich" not in os.path.realpath(found):
            return found
    return None


def open_mpi(name="mpicc"):
    if found := find_open_mpi(name):
        return found
    raise Skipped("there is no Open MPI", "Open MPI")


def prepare(directory, program, name="faults"):
    """Of mpi_NAME.c, NAME in the directory."""
    if not os.path.exists(os.path.join(os.path.dirname(os.path.abspath(program)), "harrow-pmix")):
        raise Skipped("harrow-pmix was not built", "libpmix")
    subprocess.run([open_mpi(), "-O1", os.path.join(HERE, f"mpi_{name}.c"), "-o", f"{directory}/{name}", "-lrt"], check=True)
    return Harrow(program, directory, env=MPI)


def flow(directory, tasks):
    write(f"{directory}/flow.toml", "".join("[[task]]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in task.items()) for task in tasks))


def mpi_task(name, directory, ranks, nodes, *words, **more):
    return {"name": name, "command": [f"{directory}/faults", *(str(word) for word in words)], "ranks": ranks, **({"nodes": nodes} if nodes else {}), **more}


def gate(name, file):
    """A task that waits for a file."""
    return {"name": name, "command": f"until [ -e {file} ]; do sleep 0.1; done"}


@contextlib.contextmanager
def begun(harrow, slots=SLOTS, nodes=NODES):
    """A run, which is ended with the block."""
    run = harrow.start("run", "--run-dir", "r", "--local-nodes", str(nodes), "--slots", str(slots), "--progress", "none", "flow.toml")
    try:
        yield run
    finally:
        for number in (signal.SIGTERM, signal.SIGTERM, signal.SIGKILL):
            if run.poll() is None:
                kill(run.pid, number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    run.wait(timeout=20)


def lost_by_silence(directory):
    """How many attempts were lost. On two cores ranks that wait for each other may leave nothing to whole nodes for half a minute, which
    takes them, and what they run, away: nothing else may."""
    (lost,), = run_support.query(f"{directory}/r", "SELECT COUNT(*) FROM attempts WHERE outcome = 'lost'")
    with open(f"{directory}/r/0/log/server.log", encoding="utf-8") as f:
        run_support.check(lost == 0 or "is silent: nothing is heard of its agent" in f.read(), f"{lost} were lost, and no node was silent")
    return lost


def where(directory, word=None):
    """(task, rank) -> nodes, in their order, as ranks have written them down."""
    found = collections.defaultdict(list)
    for line in run_support.lines_of(f"{directory}/where"):
        task, rank, node, said = line.split()
        if word in (None, said):
            found[task, int(rank)].append(node)
    return found


def helpers(directory):
    """node -> pids of its harrow-pmix."""
    found = collections.defaultdict(list)
    all_of = processes()
    agents = set(of_run(f"{directory}/r", "inner"))
    for pid, (parent, words) in all_of.items():
        if os.path.basename(words[0]) == "harrow-pmix" and parent in agents:
            found[words[2]].append(pid)
    return found


def agents(directory, role="inner"):
    """node -> pid of its agent, or warden."""
    all_of = processes()
    found = {}
    for pid in of_run(f"{directory}/r", role):
        words = all_of.get(pid, (0, []))[1]
        found.update({word: pid for word in words if re.fullmatch(r"local\d+", word)})
    return found


def descriptors(pid):
    with contextlib.suppress(OSError):
        return len(os.listdir(f"/proc/{pid}/fd"))
    return 0


def shared_memory():
    """What lies there of ranks, whoever's: other tests may run."""
    return {name for name in os.listdir("/dev/shm") if re.match(r"(ranks-)?harrow-(?!test-)|vader|ompi|psm", name)}


def roots(directory):
    """Where the helpers of a run have what they and their ranks share."""
    all_of = processes()
    return {os.path.dirname(all_of[pid][1][1]) for pids in helpers(directory).values() for pid in pids if pid in all_of}


class Held:
    """What a run's processes hold while only its long tasks run."""

    def __init__(self, directory):
        self.directory, self.roots = directory, set()

    def now(self):
        pids = {f"{role} of {node}": pid for role in ("inner", "agent") for node, pid in agents(self.directory, role).items()}
        pids.update({"server": pid for pid in of_run(f"{self.directory}/r", "server")})
        pids.update({f"helper {pid} of {node}": pid for node, all_of in helpers(self.directory).items() for pid in all_of})
        here = roots(self.directory)
        self.roots |= here
        tmp = [f"{self.directory}/r/0/log/{name}" for name in os.listdir(f"{self.directory}/r/0/log") if name.endswith(".tmp")]
        return {"descriptors": {name: descriptors(pid) for name, pid in pids.items()},
                "processes": sorted(os.path.basename(words[0]) for pid, (_, words) in processes().items() if any(self.directory in word for word in words)),
                "files": sorted(os.path.join(at, name) for root in [*here, *tmp] for at, below, files in os.walk(root) for name in below + files)}


class Watched(threading.Thread):
    """The largest resident set of any harrow-pmix of a run, and how many there have been."""

    def __init__(self, directory, pause=0.5):
        super().__init__(daemon=True)
        self.directory, self.pause, self.most, self.seen, self.over = directory, pause, 0, set(), threading.Event()
        self.start()

    def run(self):
        while not self.over.wait(self.pause):
            for pid in (pid for all_of in helpers(self.directory).values() for pid in all_of):
                with contextlib.suppress(OSError, StopIteration):
                    with open(f"/proc/{pid}/status", encoding="utf-8") as lines:
                        self.most = max(self.most, next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")))
                    self.seen.add(pid)

    def end(self):
        self.over.set()
        self.join()


@contextlib.contextmanager
def nothing_left(directory):
    """Of the run that ends meanwhile; other tests' things come and go, and are waited for."""
    before = shared_memory()
    temporary = set(os.listdir("/tmp"))
    yield
    same([pid for pid, (_, words) in processes().items() if any(directory in word for word in words)], [], "processes are left")
    wait_for(lambda: not shared_memory() - before)
    wait_for(lambda: not [name for name in set(os.listdir("/tmp")) - temporary if name.startswith(("ompi", "openmpi", "pmix", "harrow-agent"))])
    same([name for name in os.listdir(f"{directory}/r/0/log") if name.endswith(".tmp")], [], "temporary directories are left")
