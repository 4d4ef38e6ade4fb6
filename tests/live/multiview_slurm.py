"""Multi-View in a real Slurm with nodes of their own: its tests over several nodes, the example, a killed process.

usage: multiview_slurm.py MULTIVIEW_MPI_TEST MULTIVIEW_RANDOM MULTIVIEW_KILLED QCD_MULTIVIEW MPI_CXX_COMPILER"""
import glob
import os
import resource
import shutil
import subprocess
import sys

from cluster_support import LONG, Cluster, skip

tests, random, killed, qcd, compiler = sys.argv[1:]
if "mpich" in os.path.basename(os.path.realpath(compiler)):
    skip("this MPI does not speak PMIx")

# No fabric here: without these Open MPI looks for one for a while. Nor its own shared memory, which it sometimes does not
# find when it starts here: then it calls a null pointer.
MPI = {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "self,tcp", "OMPI_MCA_btl_tcp_if_include": "10.77.0.0/24",
       "OMPI_MCA_mpi_yield_when_idle": "1", "ASAN_OPTIONS": "detect_leaks=0", "HARROW_LONG": ""}
AT_FAULT = ("A system call failed during shared memory initialization", "Open MPI failed to TCP connect")  # by its own word


def check(ok, what):
    if not ok:
        raise AssertionError(what)


resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)  # srun hands it on

with Cluster("--nodes", "4", "--cpus", "4") as cluster:
    def srun(*arguments, check=True, tries=3):
        done = cluster.run("srun", "-p", "all", "--mpi=pmix", *arguments, env=MPI, timeout=300, merge=True, check=False)
        if check and done.returncode in (128 + 11, 128 + 9) and any(text in done.stdout for text in AT_FAULT):
            print(f"a process died by SIGSEGV\n{done.stdout}", flush=True)
            for core in glob.glob(os.path.join(cluster.home, "core*")):
                if shutil.which("gdb"):
                    subprocess.run(["gdb", "-batch", "-ex", "thread apply all bt", next(a for a in arguments if a.startswith("/")), core])
                os.unlink(core)
            if tries > 1:
                return srun(*arguments, tries=tries - 1)
            skip("Open MPI does not start here; what it says is above")
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(arguments)}: status {done.returncode}\n{done.stdout}")
        return done

    if "pmix" not in cluster.run("srun", "--mpi=list", merge=True).stdout:
        skip("this Slurm has no PMIx plugin")

    done = srun("-N4", "-n12", "--ntasks-per-node=3", tests)
    check("[  PASSED  ]" in done.stdout and "FAILED" not in done.stdout, done.stdout)
    print("its tests, 3 processes on each of 4 nodes: passed", flush=True)

    done = srun("-N3", "-n8", random, "--layouts", "2000" if LONG else "200")
    check("redistributions equal the reference" in done.stdout, done.stdout)
    print(done.stdout.strip().splitlines()[-1], "on 3 nodes", flush=True)

    said = [srun(f"-N{nodes}", "-n8", qcd).stdout.strip() for nodes in (2, 4)]
    check(said[0] == said[1] and "below 1e-9" in said[0], said)
    print(said[0], flush=True)

    for arguments in ([], ["alone"]):
        done = srun("-N2", "-n4", killed, *arguments, check=False)
        check(done.returncode != 0 and "process 1 dies" in done.stdout and "has ended" not in done.stdout, done.stdout)
    print("a killed process ends the step", flush=True)
