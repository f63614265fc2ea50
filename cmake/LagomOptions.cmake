# Options, the default build type, and one interface target with the compiler's switches.
option(LAGOM_TESTS "Build the tests" ON)
option(LAGOM_BENCHMARKS "Build the benchmarks" ON)
option(LAGOM_FUZZ "Build the libFuzzer targets (clang only)" OFF)
set(LAGOM_SANITIZE "" CACHE STRING "Sanitizers, for instance address,undefined")

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()
# -g1 keeps function names and lines for back traces at a third of the build's size.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1 -DNDEBUG")
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")

find_program(LAGOM_CCACHE ccache)
if(LAGOM_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Paths relative to the sources, so that another checkout's build is a hit too.
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env
    "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros "${LAGOM_CCACHE}")
endif()

# Floats stay strict: measured programs are compared bit by bit in places.
add_library(lagom_options INTERFACE)
# Designated initialisers leave fields to their defaults: that is no reason to warn.
target_compile_options(lagom_options INTERFACE
  -Wall -Wextra -Wno-missing-field-initializers -fno-fast-math -ffp-contract=off)

if(LAGOM_SANITIZE)
  # Assertions stay on: a sanitized build is there to find mistakes.
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1 -fno-omit-frame-pointer")
  add_compile_options(-fsanitize=${LAGOM_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${LAGOM_SANITIZE})
endif()
if(LAGOM_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "LAGOM_FUZZ needs clang: configure with -DCMAKE_CXX_COMPILER=clang++-19")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()
