"""Multi-View in a real Slurm with nodes of their own: its tests over several nodes, the example, a killed process.

usage: multiview_slurm.py MULTIVIEW_MPI_TEST MULTIVIEW_RANDOM MULTIVIEW_KILLED QCD_MULTIVIEW MPI_CXX_COMPILER"""
import os
import sys

from cluster_support import LONG, Cluster, skip

tests, random, killed, qcd, compiler = sys.argv[1:]
if "mpich" in os.path.basename(os.path.realpath(compiler)):
    skip("this MPI does not speak PMIx", "Open MPI")

# No fabric here: without these Open MPI looks for one for a while. Slurm 22.05 meets in a tree when there is nothing to exchange,
# and lets some processes go on before the first has come: in one start of thirty their first message finds it without its
# handlers, and it calls a null pointer. Its ring does not.
MPI = {"SLURM_PMIX_FENCE": "ring", "OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,tcp", "OMPI_MCA_btl_tcp_if_include": "10.77.0.0/24",
       "OMPI_MCA_mpi_yield_when_idle": "1", "ASAN_OPTIONS": "detect_leaks=0", "HARROW_LONG": ""}


def check(ok, what):
    if not ok:
        raise AssertionError(what)


with Cluster("--nodes", "4", "--cpus", "4", "--share", os.path.dirname(os.path.dirname(os.path.abspath(tests)))) as cluster:  # the build, below /tmp or not
    def srun(*arguments, check=True):
        done = cluster.run("srun", "--quiet", "-p", "all", "--mpi=pmix", *arguments, env=MPI, timeout=300, merge=True, check=False)
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(arguments)}: status {done.returncode}\n{done.stdout}")
        return done

    if "pmix" not in cluster.run("srun", "--mpi=list", merge=True).stdout:
        skip("this Slurm has no PMIx plugin", "slurm")

    done = srun("-N4", "-n12", "--ntasks-per-node=3", tests, "--processes", "12")
    check("[  PASSED  ]" in done.stdout and "FAILED" not in done.stdout, done.stdout)
    print("its tests, 3 processes on each of 4 nodes: passed", flush=True)

    done = srun("-N3", "-n8", random, "--processes", "8", "--layouts", "2000" if LONG else "200")
    check("redistributions equal the reference" in done.stdout, done.stdout)
    print(done.stdout.strip().splitlines()[-1], "on 3 nodes", flush=True)

    said = [srun(f"-N{nodes}", "-n8", qcd).stdout.strip() for nodes in (2, 4)]
    check(said[0] == said[1] and "below 1e-9" in said[0], said)
    print(said[0], flush=True)

    for arguments in ([], ["alone"]):
        done = srun("-N2", "-n4", killed, *arguments, check=False)
        check(done.returncode != 0 and "process 1 dies" in done.stdout and "has ended" not in done.stdout, done.stdout)
    print("a killed process ends the step", flush=True)
