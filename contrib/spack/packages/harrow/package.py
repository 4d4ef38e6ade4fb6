# Harrow for Spack. `spack repo add contrib/spack`, then `spack install harrow`, or `spack dev-build harrow@main` in a source tree.
from spack.package import *


class Harrow(CMakePackage):
    """Runs an ensemble of many tasks inside one batch allocation."""

    homepage = "https://harrow.example.org"
    git = "https://harrow.example.org/harrow.git"

    license("Apache-2.0")

    version("main", branch="main")

    variant("slurm", default=True, description="Ask slurmctld, and build the SPANK plugin")
    variant("pmix", default=False, description="Start by srun --mpi=pmix")
    variant("multiview", default=False, description="Multi-View, the library for MPI programs")
    variant("man", default=True, description="Build the manual")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("fortran", type="build", when="+multiview")

    depends_on("cmake@3.25:", type="build")
    depends_on("ninja", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("scdoc", type="build", when="+man")

    depends_on("asio@1.22:", type="build")
    depends_on("cli11@2.3:", type="build")
    depends_on("tomlplusplus@3.3:", type="build")
    depends_on("hwloc@2.9:")
    depends_on("openssl@3:")
    depends_on("protobuf@3.21:")
    depends_on("pugixml@1.13:")
    depends_on("simdjson@2:")
    depends_on("spdlog@1.10:")
    depends_on("sqlite@3.40:")
    depends_on("xxhash@0.8:")
    depends_on("zstd@1.5:")
    depends_on("slurm@22.05:", when="+slurm")
    depends_on("pmix@4.2:", when="+pmix")
    depends_on("mpi", when="+multiview")

    generator("ninja")
    conflicts("%gcc@:11", msg="Harrow is C++20 as gcc 12 knows it")

    def cmake_args(self):
        return [
            self.define("HARROW_TESTS", False),
            self.define("HARROW_PERF", False),
            self.define("HARROW_WERROR", False),
            self.define_from_variant("HARROW_MULTIVIEW", "multiview"),
        ]
