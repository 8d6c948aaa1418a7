# SPDX-License-Identifier: Apache-2.0
# A package for Debian, of a build with Debian's libraries: cpack --config build/release/CPackConfig.cmake -B FOLDER
# It lies in /opt, as several programs have names that Debian's packages might want; /usr/bin has
# deep-optimizer-states, which runs them.
include_guard()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME deep-optimizer-states)
set(CPACK_PACKAGE_CONTACT "deep_optimizer_states <deep-optimizer-states@example.org>" CACHE STRING
    "Maintainer of packages: name and address")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "trainer of language models with optimizer states off the GPU")
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION
    "Trains GPT-style language models whose optimizer state does not fit into
GPU memory, as one graph of tasks on the StarPU runtime. A cost model
decides which parts of the state CPU and GPU update, with the results of
the all-CPU update.")
set(CPACK_PACKAGING_INSTALL_PREFIX /opt/deep-optimizer-states)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# Programs name the folder of this OpenBLAS.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libopenblas0-pthread, python3")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "mpich, python3-matplotlib")
set(CPACK_STRIP_FILES OFF) # done: cmake/DosInstall.cmake
set(CPACK_THREADS 1)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/FinishPackage.cmake)
set(CPACK_PROJECT_SOURCE ${PROJECT_SOURCE_DIR})
set(CPACK_VERBATIM_VARIABLES ON)
include(CPack)
