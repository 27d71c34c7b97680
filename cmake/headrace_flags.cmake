# Compiler flags shared by every target. Never -march=native: build machines range from AVX2 to
# AVX-512, so the instruction set is chosen at run time (files named *_avx2.cc get their own flags).
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()
# Debug info of full size triples link time and disk for little gain; -g1 keeps backtraces.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")
set(CMAKE_CXX_FLAGS_RELEASE "-O2")

find_program(HEADRACE_CCACHE ccache)
if(HEADRACE_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${HEADRACE_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${HEADRACE_CCACHE})
endif()

add_library(headrace_flags INTERFACE)
target_compile_options(headrace_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor>
  # Results must not depend on whether the compiler fuses a multiply and an add.
  $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>)
if(HEADRACE_WERROR)
  target_compile_options(headrace_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()

if(HEADRACE_SANITIZE STREQUAL "address")
  set(sanitize -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
elseif(HEADRACE_SANITIZE STREQUAL "thread")
  set(sanitize -fsanitize=thread -fno-omit-frame-pointer)
elseif(HEADRACE_SANITIZE STREQUAL "fuzzer")
  set(sanitize -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all)
elseif(HEADRACE_SANITIZE)
  message(FATAL_ERROR "HEADRACE_SANITIZE is '${HEADRACE_SANITIZE}': use address, thread, fuzzer "
                      "or leave it empty")
endif()
if(HEADRACE_SANITIZE)
  # gcc's flow analysis sees instrumented code and warns of the standard library's own variables.
  target_compile_options(headrace_flags INTERFACE ${sanitize} -O1
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_compile_definitions(headrace_flags INTERFACE HEADRACE_SANITIZER=1)
  target_link_options(headrace_flags INTERFACE ${sanitize})
endif()
