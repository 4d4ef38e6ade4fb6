# The project's own target functions: one library a folder of sched/, one test program a folder of tests/unit/.

find_package(Threads REQUIRED)

add_library(harrow_flags INTERFACE)
target_compile_options(harrow_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Werror -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor
  -Woverloaded-virtual -fno-omit-frame-pointer>)
target_include_directories(harrow_flags INTERFACE ${PROJECT_SOURCE_DIR}/sched)
target_link_libraries(harrow_flags INTERFACE Threads::Threads)
if(HARROW_SANITIZE)
  target_compile_options(harrow_flags INTERFACE -fsanitize=${HARROW_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(harrow_flags INTERFACE -fsanitize=${HARROW_SANITIZE})
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
  if(NOT TARGET unit_tests)
    add_custom_target(unit_tests)  # all of them, and nothing else: what the sanitizer builds build
  endif()
  add_dependencies(unit_tests ${folder}_test)
  add_test(NAME unit.${folder} COMMAND ${folder}_test)
  set_tests_properties(unit.${folder} PROPERTIES LABELS unit TIMEOUT 300)
endfunction()
