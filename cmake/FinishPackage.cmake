# SPDX-License-Identifier: Apache-2.0
# CPack runs it over the files of a package: adds what lies outside of /opt, takes what is of this machine alone, and gives
# every file the time of the revision, so that the same sources and compiler make the same package.
set(root ${CPACK_TEMPORARY_INSTALL_DIRECTORY})
set(prefix ${CPACK_PACKAGING_INSTALL_PREFIX})
set(name ${CPACK_PACKAGE_NAME})

if(NOT DEFINED ENV{SOURCE_DATE_EPOCH})
  execute_process(COMMAND git log -1 --format=%ct WORKING_DIRECTORY ${CPACK_PROJECT_SOURCE} OUTPUT_VARIABLE seconds
                  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT seconds MATCHES "^[0-9]+$")
    file(TIMESTAMP ${CPACK_PROJECT_SOURCE}/CHANGELOG.md seconds "%s" UTC)
  endif()
  set(ENV{SOURCE_DATE_EPOCH} ${seconds})
endif()

file(MAKE_DIRECTORY ${root}/usr/bin ${root}/usr/share/doc/${name})
file(CREATE_LINK ${prefix}/bin/${name} ${root}/usr/bin/${name} SYMBOLIC)
# link_page(FILE [FOLDER]): a file of the prefix's share/ where the system looks for it, below /usr/share.
function(link_page file)
  cmake_path(GET file PARENT_PATH folder)
  cmake_path(GET file FILENAME base)
  if(ARGC GREATER 1)
    set(folder ${ARGV1})
  endif()
  if(EXISTS ${root}${prefix}/share/${file})
    file(MAKE_DIRECTORY ${root}/usr/share/${folder})
    file(CREATE_LINK ${prefix}/share/${file} ${root}/usr/share/${folder}/${base} SYMBOLIC)
  endif()
endfunction()
link_page(bash-completion/completions/${name})
link_page(zsh/site-functions/_${name} zsh/vendor-completions)
link_page(fish/vendor_completions.d/${name}.fish)

# place(SOURCE TARGET): a file outside of /opt; its pages of the manual and what it calls changelog are compressed.
find_program(GZIP NAMES gzip REQUIRED)
function(place source target)
  set(target ${root}/usr/share/${target})
  cmake_path(GET target PARENT_PATH folder)
  file(MAKE_DIRECTORY ${folder})
  file(COPY_FILE ${source} ${target})
  file(CHMOD ${target} PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)
  if(target MATCHES "/man/|/changelog$")
    execute_process(COMMAND ${GZIP} -9 --no-name --force ${target} COMMAND_ERROR_IS_FATAL ANY)
  endif()
endfunction()
if(EXISTS ${root}${prefix}/share/man/man1/${name}.1)
  place(${root}${prefix}/share/man/man1/${name}.1 man/man1/${name}.1)
endif()
# In Debian's form; CHANGELOG.md lies in the prefix.
string(TIMESTAMP day "%a, %d %b %Y %H:%M:%S +0000" UTC)
set(changelog ${CPACK_TOPLEVEL_DIRECTORY}/changelog)
file(WRITE ${changelog} "\
${name} (${CPACK_PACKAGE_VERSION}) unstable; urgency=medium

  * What is new stands in CHANGELOG.md, in share/doc of the prefix.

 -- ${CPACK_PACKAGE_CONTACT}  ${day}
")
place(${changelog} doc/${name}/changelog)
place(${CPACK_PROJECT_SOURCE}/tools/packaging/copyright doc/${name}/copyright)
place(${CPACK_PROJECT_SOURCE}/tools/packaging/lintian-overrides lintian/overrides/${name})

# Programs look for libraries in the system's folders alone: others were of the machine that built them, as those of a
# CUDA that Debian's StarPU has no use for.
find_program(OBJDUMP NAMES objdump REQUIRED)
file(GLOB programs ${root}${prefix}/bin/*)
foreach(program IN LISTS programs)
  if(IS_SYMLINK ${program})
    continue()
  endif()
  execute_process(COMMAND ${OBJDUMP} -p ${program} OUTPUT_VARIABLE headers COMMAND_ERROR_IS_FATAL ANY)
  if(NOT headers MATCHES "RUNPATH +([^\n]+)")
    continue()
  endif()
  set(before ${CMAKE_MATCH_1})
  string(REPLACE ":" ";" after ${before})
  list(FILTER after INCLUDE REGEX "^/usr/lib/")
  list(JOIN after ":" after)
  if(NOT after STREQUAL before)
    file(RPATH_CHANGE FILE ${program} OLD_RPATH ${before} NEW_RPATH "${after}")
  endif()
endforeach()

find_program(TOUCH NAMES touch REQUIRED)
file(GLOB_RECURSE files LIST_DIRECTORIES true ${root}/*)
foreach(file IN LISTS files)
  # Whatever the umask was.
  if(IS_DIRECTORY ${file} AND NOT IS_SYMLINK ${file})
    file(CHMOD ${file} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
  endif()
  execute_process(COMMAND ${TOUCH} --no-dereference --date=@$ENV{SOURCE_DATE_EPOCH} ${file} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
