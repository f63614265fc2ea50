# Debian's packages, each as an imported or interface target.
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(CLI11 REQUIRED)

add_library(lagom_json INTERFACE)
target_link_libraries(lagom_json INTERFACE nlohmann_json::nlohmann_json)
add_library(lagom_fmt INTERFACE)
target_link_libraries(lagom_fmt INTERFACE fmt::fmt spdlog::spdlog)

find_path(LAGOM_PROTOZERO_INCLUDE protozero/pbf_reader.hpp REQUIRED)
add_library(lagom_protozero INTERFACE)
target_include_directories(lagom_protozero SYSTEM INTERFACE "${LAGOM_PROTOZERO_INCLUDE}")

find_path(LAGOM_LIBDEFLATE_INCLUDE libdeflate.h REQUIRED)
find_library(LAGOM_LIBDEFLATE_LIBRARY deflate REQUIRED)
add_library(lagom_libdeflate INTERFACE)
target_include_directories(lagom_libdeflate SYSTEM INTERFACE "${LAGOM_LIBDEFLATE_INCLUDE}")
target_link_libraries(lagom_libdeflate INTERFACE "${LAGOM_LIBDEFLATE_LIBRARY}")

find_path(LAGOM_TOML_INCLUDE toml++/toml.h REQUIRED)
add_library(lagom_toml INTERFACE)
target_include_directories(lagom_toml SYSTEM INTERFACE "${LAGOM_TOML_INCLUDE}")

find_path(LAGOM_METIS_INCLUDE metis.h REQUIRED)
find_library(LAGOM_METIS_LIBRARY metis REQUIRED)
add_library(lagom_metis INTERFACE)
target_include_directories(lagom_metis SYSTEM INTERFACE "${LAGOM_METIS_INCLUDE}")
target_link_libraries(lagom_metis INTERFACE "${LAGOM_METIS_LIBRARY}")

find_path(LAGOM_PCRE2_INCLUDE pcre2.h REQUIRED)
find_library(LAGOM_PCRE2_LIBRARY pcre2-8 REQUIRED)
add_library(lagom_pcre2 INTERFACE)
target_include_directories(lagom_pcre2 SYSTEM INTERFACE "${LAGOM_PCRE2_INCLUDE}")
target_link_libraries(lagom_pcre2 INTERFACE "${LAGOM_PCRE2_LIBRARY}")

# Debian's httplib is compiled with these, which change the size of its types.
find_path(LAGOM_HTTPLIB_INCLUDE httplib.h REQUIRED)
find_library(LAGOM_HTTPLIB_LIBRARY cpp-httplib REQUIRED)
add_library(lagom_httplib INTERFACE)
target_include_directories(lagom_httplib SYSTEM INTERFACE "${LAGOM_HTTPLIB_INCLUDE}")
target_compile_definitions(lagom_httplib INTERFACE
  CPPHTTPLIB_OPENSSL_SUPPORT CPPHTTPLIB_ZLIB_SUPPORT CPPHTTPLIB_BROTLI_SUPPORT)
target_link_libraries(lagom_httplib INTERFACE "${LAGOM_HTTPLIB_LIBRARY}")

# Takes malloc's place in programs that link it. A process that runs measured programs must not:
# their times are to be those they have in their users' processes.
add_library(lagom_allocator INTERFACE)
if(NOT LAGOM_SANITIZE AND NOT LAGOM_FUZZ)
  find_package(mimalloc REQUIRED)
  target_link_libraries(lagom_allocator INTERFACE
    -Wl,--push-state,--no-as-needed mimalloc -Wl,--pop-state)
endif()
