"""A molecular dynamics run that writes restart files by itself (Debian's LAMMPS), and what its end looks like undisturbed.

Atoms are not sorted: LAMMPS does that each thousand steps after its start, so that a restart would add forces up in another order."""
import shutil
import subprocess

from run_support import Skipped, write

REST = """pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 20 delay 0 check no
fix 1 all nve
thermo 1000
restart 50 ${dir}/restart.*
run %d upto
write_dump all custom ${out} id x y z vx vy vz modify sort id format float %%20.15g
"""
FIRST = """units lj
atom_style atomic
atom_modify sort 0 0.0
lattice fcc 0.8442
region box block 0 6 0 6 0 6
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 1.44 87287 loop geom
include in.rest
"""


def prepare(directory, steps):
    if not shutil.which("lmp"):
        raise Skipped("there is no LAMMPS", "LAMMPS")
    write(f"{directory}/in.rest", REST % steps)
    write(f"{directory}/in.first", FIRST)
    write(f"{directory}/in.again", "atom_modify sort 0 0.0\nread_restart ${from}\ninclude in.rest\n")


def task(ranks=2):
    lmp = "exec lmp -log none -screen none -var out md.dump -var dir $HARROW_CHECKPOINT_DIR"
    return (f'[[task]]\nname = "md"\nranks = {ranks}\ncommand = "{lmp} -in in.first"\nout = ["md.dump"]\ncheckpoint = "app"\n'
            f'checkpoint_ask = "none"\ncheckpoint_files = ["restart.*"]\nrestart_command = "{lmp} -var from $HARROW_RESTART -in in.again"\n')


def undisturbed(directory, ranks, env):
    """The end, with restart files at the same steps: each makes the neighbours be sought anew."""
    subprocess.run(["mkdir", "-p", f"{directory}/alone"], check=True)
    root = ["--allow-run-as-root"] if subprocess.run(["id", "-u"], capture_output=True, text=True, check=True).stdout == "0\n" else []
    subprocess.run(["mpirun", *root, "--oversubscribe", "-n", str(ranks), "lmp", "-log", "none", "-screen", "none", "-var", "out", "alone.dump", "-var", "dir",
                    "alone", "-in", "in.first"], cwd=directory, env=env, check=True, timeout=300)
    with open(f"{directory}/alone.dump", encoding="utf-8") as f:
        return f.read()
