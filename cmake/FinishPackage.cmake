# SPDX-License-Identifier: Apache-2.0
# CPack runs it over the files of a package: adds what lies outside of /opt, and gives every file the time of the
# revision, so that the same sources and compiler make the same package.
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
link_page(man/man1/${name}.1)
link_page(bash-completion/completions/${name})
link_page(zsh/site-functions/_${name} zsh/vendor-completions)
link_page(fish/vendor_completions.d/${name}.fish)
file(COPY_FILE ${CPACK_PROJECT_SOURCE}/LICENSE ${root}/usr/share/doc/${name}/copyright)
file(CHMOD ${root}/usr/share/doc/${name}/copyright PERMISSIONS OWNER_READ OWNER_WRITE GROUP_READ WORLD_READ)

find_program(TOUCH NAMES touch REQUIRED)
file(GLOB_RECURSE files LIST_DIRECTORIES true ${root}/*)
foreach(file IN LISTS files)
  # Whatever the umask was.
  if(IS_DIRECTORY ${file} AND NOT IS_SYMLINK ${file})
    file(CHMOD ${file} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
  endif()
  execute_process(COMMAND ${TOUCH} --no-dereference --date=@$ENV{SOURCE_DATE_EPOCH} ${file} COMMAND_ERROR_IS_FATAL ANY)
endforeach()
