# One GoogleTest binary per folder of tests/, each test case registered with ctest.
find_package(GTest REQUIRED)
find_package(rapidcheck REQUIRED)
include(GoogleTest)

lagom_sources(helper_sources tests/testing)
add_library(lagom_testing INTERFACE)
if(helper_sources)
  add_library(lagom_testing_objects STATIC ${helper_sources})
  set_source_files_properties("${PROJECT_SOURCE_DIR}/tests/testing/data.cpp" PROPERTIES
    COMPILE_DEFINITIONS LAGOM_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_link_libraries(lagom_testing_objects
    PUBLIC lagom_core GTest::gtest PRIVATE lagom_json lagom_fmt lagom_protozero)
  target_link_libraries(lagom_testing INTERFACE lagom_testing_objects)
endif()

file(GLOB test_folders CONFIGURE_DEPENDS LIST_DIRECTORIES true "${PROJECT_SOURCE_DIR}/tests/*")
foreach(folder IN LISTS test_folders)
  get_filename_component(name "${folder}" NAME)
  file(GLOB sources CONFIGURE_DEPENDS "${folder}/*.cpp")
  if(name STREQUAL "testing")  # helpers: a library of their own
    set(sources)
  endif()
  # Folders of the library with tensors have tests only where LibTorch is.
  if(name MATCHES "^(tensor|dist|train|cost_model|lm|learn)$" AND NOT TARGET lagom_torch)
    set(sources)
  endif()
  if(sources)
    add_executable(${name}_tests ${sources})
    target_link_libraries(${name}_tests PRIVATE
      lagom_core lagom_testing lagom_json lagom_fmt lagom_protozero
      rapidcheck GTest::gmock GTest::gtest GTest::gtest_main)
    if(name MATCHES "^(tensor|dist|train|cost_model|lm)$")
      target_link_libraries(${name}_tests PRIVATE lagom_torch)
    endif()
    if(name STREQUAL "lm")
      target_link_libraries(${name}_tests PRIVATE lagom_httplib)
    endif()
    # Tests that load a compiler or take times would disturb each other.
    set(properties LABELS ${name} TIMEOUT 300)
    if(name MATCHES "^(xla|measure|rewrite|tune|cli|worker)$")
      list(APPEND properties RESOURCE_LOCK device)
    endif()
    if(name STREQUAL "measure")
      list(APPEND properties RUN_SERIAL TRUE)
    endif()
    if(TARGET lagom_worker)
      add_dependencies(${name}_tests lagom_worker)
    endif()
    if(TARGET lagom_cli AND name MATCHES "^(cli|learn)$")
      add_dependencies(${name}_tests lagom_cli)
    endif()
    if(TARGET lagom_learn AND name STREQUAL "learn")
      add_dependencies(${name}_tests lagom_learn)
    endif()
    gtest_discover_tests(${name}_tests
      TEST_PREFIX "${name}/" NO_PRETTY_VALUES DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
      WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}" PROPERTIES ${properties})
  endif()
endforeach()
