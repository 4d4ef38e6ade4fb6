"""Several allocations of one run, all on this machine, with a delay between their servers."""
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "live"))
from relay import before_server  # pylint: disable=wrong-import-position


def wait_for(what):
    end = time.monotonic() + 60
    while not what():
        if time.monotonic() > end:
            raise SystemExit("an allocation does not come")
        time.sleep(0.01)


def environment():
    env = {k: v for k, v in os.environ.items() if not k.startswith(("HARROW_", "SLURM_"))}
    return env | {"HARROW_CONF": os.devnull}


def begin(harrow, directory, env, slots, *words):
    with open(f"{directory}/out", "ab") as log:
        return subprocess.Popen([harrow, *words, "--slots", str(slots), "--progress", "none"], cwd=directory, env=env, stdout=log, stderr=log)


def begin_all(harrow, directory, environments, slots, delay, *words, begun=lambda part: None):
    """Keepers of a run `r` whose allocations have these environments and slots, when all are connected, and the relays between them, through
    which a message takes `delay` ms. words: what `harrow run` is told. begun(part): called when the server of a part is there, before
    its relay is."""
    keepers, relays = [begin(harrow, directory, environments[0], slots[0], "run", *words, "--run-dir", "r")], []
    for part, env in enumerate(environments):
        if part > 0:
            keepers.append(begin(harrow, directory, env, slots[part], "join", "r"))
        server = f"{directory}/r/{part}/server"
        wait_for(lambda: os.path.exists(server))  # pylint: disable=cell-var-from-loop  # called at once
        begun(part)
        if delay and part + 1 < len(environments):
            time.sleep(1)  # its own agents have come by now
            relays.append(before_server(server, delay / 1000))
    time.sleep(1.5)  # connected
    return keepers, relays


def fail(directory, codes):
    with open(f"{directory}/out", encoding="utf-8") as f:
        raise SystemExit(f"exit {codes}\n{f.read()[-2000:]}")
