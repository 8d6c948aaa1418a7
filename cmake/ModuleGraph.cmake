# SPDX-License-Identifier: Apache-2.0
# The module graph. A module may include headers of itself and of the modules on its right-hand side,
# nothing else. Checked when CMake configures (DosModules.cmake), and by tests/checks.
include_guard()

set(DOS_MODULES base shape platform perfmodels rt codelets tensor nn models optim sched sched_starpu planner
                calibration ranks data io storage hf trace config train fit launch generate)

set(DOS_MAY_USE_base "")
set(DOS_MAY_USE_shape base)
set(DOS_MAY_USE_platform base)
set(DOS_MAY_USE_perfmodels base)
set(DOS_MAY_USE_rt base platform)
set(DOS_MAY_USE_codelets base platform rt)
set(DOS_MAY_USE_tensor base shape rt)
set(DOS_MAY_USE_nn base shape tensor codelets)
set(DOS_MAY_USE_models base shape rt tensor nn)
set(DOS_MAY_USE_optim base shape rt tensor codelets)
set(DOS_MAY_USE_sched base perfmodels)
# Not rt: libstarpu_dos.so serves programs without it.
set(DOS_MAY_USE_sched_starpu base sched perfmodels)
set(DOS_MAY_USE_planner base shape perfmodels sched)
set(DOS_MAY_USE_calibration base platform perfmodels rt codelets)
set(DOS_MAY_USE_ranks base shape platform rt codelets tensor nn)
set(DOS_MAY_USE_data base)
set(DOS_MAY_USE_io base)
set(DOS_MAY_USE_storage base)
set(DOS_MAY_USE_hf base shape io)
set(DOS_MAY_USE_trace base rt)
set(DOS_MAY_USE_config base shape perfmodels rt data hf tensor models optim sched sched_starpu planner)
set(DOS_MAY_USE_train base shape platform rt codelets tensor nn models optim sched_starpu ranks data io storage hf trace config)
set(DOS_MAY_USE_fit base shape platform rt sched tensor models optim planner ranks config train)
set(DOS_MAY_USE_launch base shape platform perfmodels rt codelets tensor models optim sched sched_starpu planner ranks data io storage hf trace config train fit)
set(DOS_MAY_USE_generate base shape platform rt tensor models optim sched_starpu data io config train fit)

# Headers of C libraries that only some modules may see: header regex -> modules.
set(DOS_RESTRICTED_HEADERS starpu mpi cuda opencl hwloc uring)
set(DOS_HEADER_REGEX_starpu "^starpu.*[.]h$")
set(DOS_HEADER_MODULES_starpu rt sched_starpu)
set(DOS_HEADER_REGEX_mpi "^mpi[.]h$")
set(DOS_HEADER_MODULES_mpi platform)
set(DOS_HEADER_REGEX_cuda "^(cuda|cublas).*[.]h$")
set(DOS_HEADER_MODULES_cuda platform rt)
set(DOS_HEADER_REGEX_opencl "^CL/")
set(DOS_HEADER_MODULES_opencl rt)
set(DOS_HEADER_REGEX_hwloc "^hwloc.*[.]h$")
set(DOS_HEADER_MODULES_hwloc platform)
set(DOS_HEADER_REGEX_uring "^liburing[.]h$")
set(DOS_HEADER_MODULES_uring storage)
