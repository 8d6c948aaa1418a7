# SPDX-License-Identifier: Apache-2.0
# What a prefix gets beside programs and plug-in, and what all of it needs to be moved elsewhere:
#   bin/                              programs, and links to the tools that belong to them
#   lib/                              the schedulers for other programs on StarPU 1.4 (src/sched_starpu)
#   share/deep-optimizer-states/      what programs and tools read: src/base/data_folder.hpp
#   share/doc, share/man, completions
# docs/install.md describes it for users.
include_guard()
include(GNUInstallDirs)

set(DOS_DATA_FOLDER ${CMAKE_INSTALL_DATADIR}/deep-optimizer-states)
set(DOS_INSTALLED_TOOLS check_machine corpus deep-optimizer-states plot_metrics quickstart to_tensorboard)
# Folders of libraries that are not the system's (Spack, modules) are known to installed programs, too.
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)

# Line tables name the folders of sources and build: installed programs have none.
install(CODE "set(CMAKE_INSTALL_DO_STRIP TRUE)")

# Programs of a build folder find their files as installed ones do.
set(dos_build_data ${PROJECT_BINARY_DIR}/share/deep-optimizer-states)
file(MAKE_DIRECTORY ${dos_build_data})
file(CREATE_LINK ${PROJECT_SOURCE_DIR}/perfmodels/machines ${dos_build_data}/machines SYMBOLIC)

# dos_install_programs(target...)
function(dos_install_programs)
  install(TARGETS ${ARGN} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  set_property(GLOBAL APPEND PROPERTY DOS_INSTALLED_PROGRAMS ${ARGN})
endfunction()

# dos_install_tool(NAME): a script of tools/, which finds its neighbours behind the link in bin.
function(dos_install_tool name)
  install(PROGRAMS ${PROJECT_SOURCE_DIR}/tools/${name} DESTINATION ${DOS_DATA_FOLDER}/tools)
  set(from ${DOS_DATA_FOLDER})
  cmake_path(RELATIVE_PATH from BASE_DIRECTORY ${CMAKE_INSTALL_BINDIR} OUTPUT_VARIABLE up)
  file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/links)
  file(CREATE_LINK ${up}/tools/${name} ${PROJECT_BINARY_DIR}/links/${name} SYMBOLIC)
  install(FILES ${PROJECT_BINARY_DIR}/links/${name} DESTINATION ${CMAKE_INSTALL_BINDIR})
endfunction()

# Manual pages and completions, of what programs and tools say of themselves.
function(dos_install_pages)
  # Programs of other builds do not start as they are.
  if(NOT DOS_PYTHON3 OR DOS_SANITIZE OR DOS_STARPU_HAS_SIMGRID)
    return()
  endif()
  set(pages ${PROJECT_BINARY_DIR}/pages)
  set(command ${DOS_PYTHON3} -B ${PROJECT_SOURCE_DIR}/tools/program_pages.py --output ${pages})
  get_property(programs GLOBAL PROPERTY DOS_INSTALLED_PROGRAMS)
  set(tools ${DOS_INSTALLED_TOOLS})
  list(TRANSFORM tools PREPEND ${PROJECT_SOURCE_DIR}/tools/)
  foreach(tool IN LISTS tools)
    list(APPEND command --tool ${tool})
  endforeach()
  foreach(program IN LISTS programs)
    list(APPEND command $<TARGET_FILE:${program}>)
  endforeach()
  add_custom_command(
    OUTPUT ${pages}/stamp
    COMMAND ${CMAKE_COMMAND} -E make_directory ${pages}/man ${pages}/bash-completion ${pages}/zsh ${pages}/fish
    COMMAND ${command}
    COMMAND ${CMAKE_COMMAND} -E touch ${pages}/stamp
    DEPENDS ${programs} ${tools} ${PROJECT_SOURCE_DIR}/tools/program_pages.py
            ${PROJECT_SOURCE_DIR}/tools/shell_completions.py ${PROJECT_SOURCE_DIR}/VERSION
    VERBATIM)
  add_custom_target(pages ALL DEPENDS ${pages}/stamp)
  install(DIRECTORY ${pages}/man ${pages}/bash-completion ${pages}/zsh ${pages}/fish
          DESTINATION ${CMAKE_INSTALL_DATADIR})
endfunction()

function(dos_install_files)
  foreach(tool IN LISTS DOS_INSTALLED_TOOLS)
    dos_install_tool(${tool})
  endforeach()
  dos_install_pages()
  install(PROGRAMS ${PROJECT_SOURCE_DIR}/tools/corpus_text.py DESTINATION ${DOS_DATA_FOLDER}/tools)
  install(FILES ${PROJECT_SOURCE_DIR}/tools/version.py ${PROJECT_SOURCE_DIR}/tools/policy_losses.py
                ${PROJECT_SOURCE_DIR}/tools/run_metrics.py
          DESTINATION ${DOS_DATA_FOLDER}/tools)
  install(FILES ${PROJECT_SOURCE_DIR}/tools/packaging/modulefile.lua
          DESTINATION ${DOS_DATA_FOLDER}/modulefiles/deep-optimizer-states RENAME ${PROJECT_VERSION}.lua)
  install(FILES ${PROJECT_SOURCE_DIR}/VERSION ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${DOS_DATA_FOLDER})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/configs DESTINATION ${DOS_DATA_FOLDER})
  # Links would lead to them in a build folder.
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/perfmodels/machines ${PROJECT_SOURCE_DIR}/perfmodels/sampling
          DESTINATION ${DOS_DATA_FOLDER})
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/slurm DESTINATION ${DOS_DATA_FOLDER} PATTERN test_only EXCLUDE)
  install(PROGRAMS ${PROJECT_SOURCE_DIR}/slurm/test_only DESTINATION ${DOS_DATA_FOLDER}/slurm)
  install(FILES ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md ${PROJECT_SOURCE_DIR}/LICENSE
          DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/deep-optimizer-states)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/deep-optimizer-states)
endfunction()
