# The project's own target functions: one library a folder of sched/, one test program a folder of tests/unit/.

find_package(Threads REQUIRED)

set(HARROW_WARNINGS)
if(HARROW_WERROR)
  set(HARROW_WARNINGS -Werror)
endif()
add_library(harrow_flags INTERFACE)
target_compile_options(harrow_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra ${HARROW_WARNINGS} -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor
  -Woverloaded-virtual -fno-omit-frame-pointer>)
target_include_directories(harrow_flags INTERFACE ${CMAKE_CURRENT_LIST_DIR}/../../sched)
target_link_libraries(harrow_flags INTERFACE Threads::Threads)
if(HARROW_SANITIZE)
  target_compile_options(harrow_flags INTERFACE -fsanitize=${HARROW_SANITIZE} -fno-sanitize-recover=all)
  if(HARROW_SANITIZE_NOT)
    target_compile_options(harrow_flags INTERFACE -fno-sanitize=${HARROW_SANITIZE_NOT})
  endif()
  target_compile_definitions(harrow_flags INTERFACE _GLIBCXX_ASSERTIONS)
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)  # of a variant that is moved it takes what is not there for used
    target_compile_options(harrow_flags INTERFACE -Wno-maybe-uninitialized)
  endif()
  target_link_options(harrow_flags INTERFACE -fsanitize=${HARROW_SANITIZE})
endif()

if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  target_compile_options(harrow_flags INTERFACE -Wno-subobject-linkage)  # it takes a source for a header
endif()
if(HARROW_FUZZ)
  target_compile_options(harrow_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# harrow_library(NAME [DEPS folders...] [LIBS third-party targets...])
# The sources are all *.cc of the folder. DEPS are other folders; LIBS stay private to the folder.
function(harrow_library name)
  cmake_parse_arguments(arg "" "" "DEPS;LIBS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  list(TRANSFORM arg_DEPS PREPEND harrow_)
  if(sources)
    add_library(harrow_${name} STATIC ${sources})
    target_link_libraries(harrow_${name} PUBLIC harrow_flags ${arg_DEPS} PRIVATE ${arg_LIBS})
  else()
    add_library(harrow_${name} INTERFACE)
    target_link_libraries(harrow_${name} INTERFACE harrow_flags ${arg_DEPS})
  endif()
endfunction()

# harrow_quick_test(TARGET [GROUP]): where HARROW_QUICK_TESTS is on, a program of tests is not optimized, and those of a group, which
# have the same options, compile GoogleTest's headers once.
function(harrow_quick_test target)
  if(NOT HARROW_QUICK_TESTS)
    return()
  endif()
  target_compile_options(${target} PRIVATE -O0)
  set(group "HARROW_HEADERS_OF_${ARGN}")
  get_property(first GLOBAL PROPERTY ${group})
  if(first)
    target_precompile_headers(${target} REUSE_FROM ${first})
  else()
    target_precompile_headers(${target} PRIVATE <gmock/gmock.h> <gtest/gtest.h>)
    set_property(GLOBAL PROPERTY ${group} ${target})
  endif()
endfunction()

# harrow_unit_test(FOLDER [LIBS targets...]): one program of all *_test.cc of tests/unit/FOLDER.
function(harrow_unit_test folder)
  cmake_parse_arguments(arg "" "" "LIBS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/unit/${folder}/*_test.cc)
  if(NOT sources OR NOT TARGET harrow_${folder})
    return()
  endif()
  add_executable(${folder}_test ${sources})
  target_include_directories(${folder}_test PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_compile_definitions(${folder}_test PRIVATE HARROW_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_link_libraries(${folder}_test PRIVATE harrow_${folder} ${arg_LIBS} GTest::gtest_main GTest::gmock)
  harrow_quick_test(${folder}_test)
  if(NOT TARGET unit_tests)
    add_custom_target(unit_tests)  # all of them, and nothing else: what the sanitizer builds build
  endif()
  add_dependencies(unit_tests ${folder}_test)
  add_test(NAME unit.${folder} COMMAND ${folder}_test)
  # Under ASan, beside live tests and with the lowest priority, the scheduler's random events take minutes. They begin first.
  set_tests_properties(unit.${folder} PROPERTIES LABELS unit TIMEOUT 900)
  if(folder STREQUAL core)
    set_tests_properties(unit.core PROPERTIES COST 1000)
  endif()
endfunction()

# harrow_helper_program(NAME SOURCE LIBRARY): a program that `harrow` starts, beside it or in libexec, to speak with the
# library of ${LIBRARY}_INCLUDE_DIR and ${LIBRARY}_LIBRARY. Without these it is not built. Its target has _ for -.
function(harrow_helper_program name source library)
  string(REPLACE - _ target ${name})
  if(NOT ${library}_INCLUDE_DIR OR NOT ${library}_LIBRARY)
    message(STATUS "${library}'s header or library is not there: ${name} is not built")
    return()
  endif()
  add_executable(${target} ${source})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name})
  target_include_directories(${target} SYSTEM PRIVATE ${${library}_INCLUDE_DIR})
  target_link_libraries(${target} PRIVATE harrow_flags ${${library}_LIBRARY})
  install(TARGETS ${target} RUNTIME DESTINATION libexec/harrow)
endfunction()

# harrow_man_page(FILE.scd COMPONENT): builds and installs a page of the manual. The caller looks for HARROW_SCDOC before.
function(harrow_man_page page component)
  get_filename_component(name ${page} NAME)
  string(REGEX REPLACE "\\.scd$" "" name ${name})
  string(REGEX MATCH "[0-9]$" section ${name})
  set(built ${CMAKE_BINARY_DIR}/man/man${section}/${name})
  add_custom_command(
    OUTPUT ${built}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/man/man${section}
    COMMAND sh -c "\"$0\" < \"$1\" > \"$2\"" ${HARROW_SCDOC} ${page} ${built}
    DEPENDS ${page}
    VERBATIM)
  if(NOT TARGET man)
    add_custom_target(man ALL)
  endif()
  add_custom_target(man_${name} DEPENDS ${built})
  add_dependencies(man man_${name})
  install(FILES ${built} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section} COMPONENT ${component})
endfunction()

# harrow_install_text(FILE VARIABLE DESTINATION NAME COMPONENT): installs a file in which @VARIABLE@ becomes the prefix, which is known
# when it is installed only: `cmake --install BUILD --prefix X` need not name the configured one.
function(harrow_install_text file variable destination name component)
  install(CODE "
    get_filename_component(prefix \"\${CMAKE_INSTALL_PREFIX}\" ABSOLUTE)
    file(READ \"${file}\" text)
    string(REPLACE \"${variable}\" \"\${prefix}\" text \"\${text}\")
    file(WRITE \"${CMAKE_BINARY_DIR}/installed/${name}\" \"\${text}\")
    file(INSTALL DESTINATION \"\${prefix}/${destination}\" TYPE FILE FILES \"${CMAKE_BINARY_DIR}/installed/${name}\")
    " COMPONENT ${component})
endfunction()
