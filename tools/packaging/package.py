# SPDX-License-Identifier: Apache-2.0
"""A recipe for Spack: copy it to packages/deep-optimizer-states/ of a repository of packages, with the checksum that
tools/release has written for the tarball."""

from spack.package import *


class DeepOptimizerStates(CMakePackage):
    """Trainer for GPT-style language models on the StarPU task runtime, with optimizer states off the GPU."""

    license("Apache-2.0")

    variant("cuda", default=False, description="Kernels for NVIDIA GPUs")
    variant("mpi", default=True, description="Several ranks, through MPICH")
    variant("onednn", default=True, description="BF16 products on CPUs by oneDNN")

    generator("ninja")
    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("python@3.9:", type=("build", "run"))
    # StarPU's own MPI layer is not used: two MPI libraries must not meet in one program.
    depends_on("starpu@1.4:~mpi~openmp~examples")
    depends_on("starpu+cuda", when="+cuda")
    depends_on("cuda@12", when="+cuda")
    depends_on("mpich@4:", when="+mpi")
    depends_on("openblas threads=pthreads")
    depends_on("onednn cpu_runtime=omp", when="+onednn")
    depends_on("hwloc")
    depends_on("fmt")
    depends_on("spdlog")
    depends_on("tomlplusplus")
    depends_on("cli11")
    depends_on("nlohmann-json")
    depends_on("xxhash")
    depends_on("isa-l")
    depends_on("pcre2+jit")
    depends_on("utf8proc")
    depends_on("sentencepiece")
    depends_on("liburing")

    def cmake_args(self):
        return [
            self.define("DOS_BUILD_TESTS", False),
            self.define("DOS_BUILD_BENCH", False),
            self.define("DOS_CUDA", "ON" if self.spec.satisfies("+cuda") else "OFF"),
            self.define("DOS_MPI", "ON" if self.spec.satisfies("+mpi") else "OFF"),
            self.define("DOS_ONEDNN", "ON" if self.spec.satisfies("+onednn") else "OFF"),
        ]
