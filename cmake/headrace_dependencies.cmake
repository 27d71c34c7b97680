# Third-party libraries, all from Debian packages (scripts/packages.txt lists them).
find_package(Threads REQUIRED)
find_package(fmt 9 REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(simdjson 3 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)

# What the library is linked with, also by those who use the installed package…
add_library(headrace_third_party INTERFACE)
target_link_libraries(headrace_third_party INTERFACE
  fmt::fmt simdjson::simdjson PkgConfig::PCRE2 PkgConfig::UTF8PROC ${CMAKE_DL_LIBS}
  # …and what only compiling it needs.
  $<BUILD_INTERFACE:nlohmann_json::nlohmann_json>)
