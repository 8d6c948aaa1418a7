# SPDX-License-Identifier: Apache-2.0
# Writes OUTPUT from TEMPLATE with VERSION and the git revision of SOURCE_DIR ("unknown" outside a
# checkout or without git); leaves the file alone when nothing has changed.
set(REVISION unknown)
if(GIT_EXECUTABLE)
  execute_process(
    COMMAND ${GIT_EXECUTABLE} describe --always --dirty --tags
    WORKING_DIRECTORY ${SOURCE_DIR}
    OUTPUT_VARIABLE described
    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(described)
    set(REVISION ${described})
  endif()
endif()
configure_file(${TEMPLATE} ${OUTPUT} @ONLY)
