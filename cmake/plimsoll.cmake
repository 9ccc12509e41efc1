# The rules that turn a folder of src/ into targets.

# plimsoll_folder(name DEPS a b ... [PRIVATE_DEPS library ...]): library plimsoll_<name> of all sources below the current
# folder but main.cc, and, when tests are on, the programs <name>_test (label unit) of *_test.cc and <name>_law (label law)
# of *_law.cc. Every test file is in one of them.
function(plimsoll_folder name)
  cmake_parse_arguments(ARG "" "" "DEPS;PRIVATE_DEPS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  set(tests ${sources})
  set(laws ${sources})
  list(FILTER sources EXCLUDE REGEX "_(test|law)\\.cc$")
  list(FILTER sources EXCLUDE REGEX "/main\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER laws INCLUDE REGEX "_law\\.cc$")
  list(TRANSFORM ARG_DEPS PREPEND plimsoll_ OUTPUT_VARIABLE deps)
  if(sources)
    add_library(plimsoll_${name} STATIC ${sources})
    target_link_libraries(plimsoll_${name} PUBLIC ${deps} fmt::fmt tl::expected PRIVATE ${ARG_PRIVATE_DEPS})
    target_include_directories(plimsoll_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
  else()
    add_library(plimsoll_${name} INTERFACE)
    target_link_libraries(plimsoll_${name} INTERFACE ${deps} fmt::fmt tl::expected ${ARG_PRIVATE_DEPS})
    target_include_directories(plimsoll_${name} INTERFACE ${PROJECT_SOURCE_DIR}/src)
  endif()
  set_property(GLOBAL APPEND PROPERTY PLIMSOLL_LIBRARIES plimsoll_${name})
  if(PLIMSOLL_TESTS)
    plimsoll_test_program(${name} test unit "GTest::gmock_main" "${tests}" "${ARG_PRIVATE_DEPS}")
    plimsoll_test_program(${name} law law "rapidcheck;GTest::gmock_main" "${laws}" "${ARG_PRIVATE_DEPS}")
  endif()
endfunction()

function(plimsoll_test_program name suffix label libraries files private_deps)
  if(files)
    string(REPLACE "/" "_" program "${name}_${suffix}")
    add_executable(${program} ${files})
    target_link_libraries(${program} PRIVATE plimsoll_${name} ${libraries} ${private_deps})
    target_compile_definitions(${program} PRIVATE PLIMSOLL_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    target_compile_options(${program} PRIVATE -O0)  # what they call is optimized; a test compiles in half the time
    # Tests are listed when ctest starts, so a build runs nothing of its own.
    gtest_discover_tests(${program} TEST_PREFIX "${name}/" DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
                         PROPERTIES LABELS ${label} TIMEOUT 300)
  endif()
endfunction()

# plimsoll_program(name folder): the program build/<preset>/<name> of the current folder's main.cc and the library of src/<folder>.
function(plimsoll_program name folder)
  add_executable(${name} main.cc)
  target_link_libraries(${name} PRIVATE plimsoll_${folder})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
endfunction()

# plimsoll_programs_of(suffix target_list [library ...]): one program <name>_<suffix> for each <name>_<suffix>.cc of the current
# folder, with every library of src/ but the runtime at hand; their names go to the variable target_list.
function(plimsoll_programs_of suffix target_list)
  get_property(folders GLOBAL PROPERTY PLIMSOLL_LIBRARIES)
  list(REMOVE_ITEM folders plimsoll_runtime plimsoll_train)  # they bring LibTorch along
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_${suffix}.cc)
  set(targets)
  foreach(file ${files})
    get_filename_component(target ${file} NAME_WE)
    add_executable(${target} ${file})
    target_link_libraries(${target} PRIVATE ${folders} ${ARGN})
    target_compile_definitions(${target} PRIVATE PLIMSOLL_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
    list(APPEND targets ${target})
  endforeach()
  set(${target_list} ${targets} PARENT_SCOPE)
endfunction()
