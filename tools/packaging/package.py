# SPDX-License-Identifier: Apache-2.0
"""A recipe for Spack 1.0 or later. tools/release writes it beside the tarball, with that version and its checksum; then

    spack repo create ~/recipes dos && spack repo add ~/recipes/spack_repo/dos
    mkdir ~/recipes/spack_repo/dos/packages/deep_optimizer_states
    cp package.py ~/recipes/spack_repo/dos/packages/deep_optimizer_states
    spack install deep-optimizer-states +cuda cuda_arch=90    # in the folder with the tarball"""

import os

from spack_repo.builtin.build_systems.cmake import CMakePackage, generator
from spack_repo.builtin.build_systems.cuda import CudaPackage

from spack.package import *


class DeepOptimizerStates(CMakePackage, CudaPackage):
    """Trainer for GPT-style language models on the StarPU task runtime, with optimizer states off the GPU. Spack looks for
    the tarball in the folder that it is called in, and in mirrors."""

    manual_download = True
    license("Apache-2.0")

    # A version for each release: tools/release writes its line here.

    variant("mpi", default=True, description="Several ranks, through MPICH")
    variant("onednn", default=True, description="BF16 products on CPUs by oneDNN")

    generator("ninja")
    depends_on("c", type="build")
    depends_on("cxx", type="build")
    conflicts("%[virtuals=cxx] gcc@:11", msg="g++ 12 or clang 14 is needed")
    conflicts("%[virtuals=cxx] llvm@:13", msg="g++ 12 or clang 14 is needed")
    depends_on("cmake@3.25:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("python@3.9:", type=("build", "run"))
    # StarPU's own MPI layer is not used: two MPI libraries must not meet in one program.
    depends_on("starpu@1.4:~mpi~openmp~examples")
    depends_on("starpu+cuda", when="+cuda")
    # StarPU 1.4.12 and before do not compile with CUDA 13.
    depends_on("cuda@12", when="+cuda")
    depends_on("mpich@4:", when="+mpi")
    depends_on("openblas threads=pthreads")
    depends_on("onednn@2.5: cpu_runtime=omp", when="+onednn")
    depends_on("hwloc")
    depends_on("fmt")
    depends_on("spdlog")
    depends_on("tomlplusplus")
    # 2.5 takes the table of keys in the help for a paragraph.
    depends_on("cli11@:2.4,2.6:")
    depends_on("nlohmann-json")
    depends_on("xxhash")
    depends_on("isa-l")
    depends_on("pcre2+jit")
    depends_on("utf8proc@2.7:")
    depends_on("sentencepiece")
    depends_on("liburing")

    def url_for_version(self, version):
        return f"file://{os.getcwd()}/deep-optimizer-states-{version}.tar.gz"

    def cmake_args(self):
        arguments = [
            self.define("DOS_BUILD_TESTS", False),
            self.define("DOS_BUILD_BENCH", False),
            # Compilers that nobody has tried the sources with warn of more.
            self.define("DOS_WERROR", False),
            # The system's may be older.
            self.define("DOS_PYTHON3", self.spec["python"].command.path),
            self.define("DOS_CUDA", "ON" if self.spec.satisfies("+cuda") else "OFF"),
            self.define("DOS_MPI", "ON" if self.spec.satisfies("+mpi") else "OFF"),
            self.define("DOS_ONEDNN", "ON" if self.spec.satisfies("+onednn") else "OFF"),
        ]
        if self.spec.satisfies("+cuda") and not self.spec.satisfies("cuda_arch=none"):
            arguments.append(self.define("CMAKE_CUDA_ARCHITECTURES", ";".join(self.spec.variants["cuda_arch"].value)))
        return arguments
