# Targets are found by file name, so that adding a file needs no edit here:
#   src/<folder>/**/*.cc         object library hr_<folder>
#   src/<folder>/**/*_avx2.cc    the same, compiled for AVX2 + FMA + F16C, called after a CPU check
#   src/<folder>/**/*_test.cc    test program <folder>_test      (label fast)
#   src/<folder>/**/*_slow_test.cc    test program <folder>_slow_test (label slow)
#   tests/*_test.cc              test program tests_test, tests/*_slow_test.cc likewise
#   src/<folder>/**/*_fuzz.cc    one libFuzzer program each (preset fuzz)
#   bench/*_bench.cc             one benchmark program each
#   src/<folder>/**/*.cu         object library hr_cuda, or hr_cuda_hopper for kernels that need
#                                Hopper (HEADRACE_CUDA)
#   tests/gpu/*.cu               test program gpu_test (HEADRACE_CUDA)
#   bench/gpu/*_bench.cu         one benchmark program each (HEADRACE_CUDA)
#   src/cli/*.cc                 library headrace_cli_parts, and with main.cc the program headrace

function(headrace_glob out)
  set(patterns "")
  foreach(pattern IN LISTS ARGN)
    list(APPEND patterns "${CMAKE_CURRENT_SOURCE_DIR}/${pattern}")
  endforeach()
  file(GLOB_RECURSE found CONFIGURE_DEPENDS ${patterns})
  set(${out} ${found} PARENT_SCOPE)
endfunction()

function(headrace_module folder)
  headrace_glob(sources "src/${folder}/*.cc")
  list(FILTER sources EXCLUDE REGEX "_(test|fuzz|bench)\\.cc$")
  foreach(source IN LISTS sources)
    if(source MATCHES "_avx2\\.cc$")
      set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c")
    endif()
  endforeach()
  if(sources)
    add_library(hr_${folder} OBJECT ${sources})
    target_include_directories(hr_${folder} PRIVATE
      ${CMAKE_CURRENT_SOURCE_DIR}/include ${CMAKE_CURRENT_SOURCE_DIR}/src
      ${CMAKE_CURRENT_BINARY_DIR}/generated)
    target_link_libraries(hr_${folder} PRIVATE headrace_flags headrace_third_party)
    set(headrace_objects ${headrace_objects} $<TARGET_OBJECTS:hr_${folder}> PARENT_SCOPE)
  endif()
endfunction()

# The program uses the public headers alone; what it lacks there is missing from the API. All but
# main.cc is a library of its own, so that cli_test can test its parts.
function(headrace_program)
  headrace_glob(sources "src/cli/*.cc")
  list(FILTER sources EXCLUDE REGEX "(_(test|fuzz)|/main)\\.cc$")
  add_library(headrace_cli_parts STATIC ${sources})
  target_include_directories(headrace_cli_parts PUBLIC ${CMAKE_CURRENT_SOURCE_DIR}/src)
  target_link_libraries(headrace_cli_parts PUBLIC headrace PRIVATE headrace_flags fmt::fmt
                                                  nlohmann_json::nlohmann_json)
  add_executable(headrace_cli src/cli/main.cc)
  set_target_properties(headrace_cli PROPERTIES OUTPUT_NAME headrace)
  target_link_libraries(headrace_cli PRIVATE headrace_cli_parts headrace_flags fmt::fmt)
endfunction()

function(headrace_test_program name label)
  if(NOT ARGN)
    return()
  endif()
  add_executable(${name} ${ARGN})
  target_include_directories(${name} PRIVATE
    ${CMAKE_CURRENT_SOURCE_DIR}/src ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE headrace headrace_flags headrace_third_party
                                        headrace_test_support
                                        GTest::gtest GTest::gmock GTest::gtest_main)
  if(name MATCHES "^cli_")
    target_link_libraries(${name} PRIVATE headrace_cli_parts)
  endif()
  if(name MATCHES "^engine_")
    add_dependencies(${name} fake_cuda_driver)
  endif()
  if(name MATCHES "^(cli|tests)_")  # their end-to-end tests run the program
    add_dependencies(${name} headrace_cli)
  endif()
  # In a sanitizer build the label names the sanitizer: fast tests are asan tests there, and the
  # tests of the pool and the engine are tsan tests.
  if(HEADRACE_SANITIZE STREQUAL "address" AND label STREQUAL "fast")
    set(label asan)
  elseif(HEADRACE_SANITIZE STREQUAL "thread" AND name MATCHES "^(base|engine)_test$")
    set(label tsan)
  endif()
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 120
    PROPERTIES LABELS "${label}" TIMEOUT 600)
endfunction()

function(headrace_tests)
  find_package(GTest 1.12 REQUIRED)
  include(GoogleTest)
  # What tests share: tests/support/*.{h,cc}.
  headrace_glob(support "tests/support/*.cc")
  add_library(headrace_test_support STATIC ${support})
  target_include_directories(headrace_test_support PRIVATE
    ${CMAKE_CURRENT_SOURCE_DIR}/src ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(headrace_test_support PRIVATE headrace headrace_flags headrace_third_party)
  target_compile_definitions(headrace_test_support PRIVATE
    HEADRACE_SOURCE_DIR="${CMAKE_CURRENT_SOURCE_DIR}"
    HEADRACE_BINARY_DIR="${CMAKE_CURRENT_BINARY_DIR}")
  # Stands in for the GPU driver's library, which tests load by its path.
  add_library(fake_cuda_driver MODULE tests/fakes/cuda_driver.cc)
  target_link_libraries(fake_cuda_driver PRIVATE headrace_flags)
  foreach(folder IN LISTS HEADRACE_FOLDERS ITEMS cli tests)
    if(folder STREQUAL "tests")
      headrace_glob(sources "tests/*_test.cc")
    else()
      headrace_glob(sources "src/${folder}/*_test.cc")
    endif()
    set(slow ${sources})
    list(FILTER slow INCLUDE REGEX "_slow_test\\.cc$")
    list(FILTER sources EXCLUDE REGEX "_slow_test\\.cc$")
    headrace_test_program(${folder}_test fast ${sources})
    headrace_test_program(${folder}_slow_test slow ${slow})
  endforeach()
endfunction()

function(headrace_fuzzers)
  headrace_glob(sources "src/*_fuzz.cc")
  foreach(source IN LISTS sources)
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source})
    target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/src)
    target_link_libraries(${name} PRIVATE headrace headrace_flags headrace_third_party)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  endforeach()
endfunction()

function(headrace_benches)
  headrace_glob(sources "bench/*_bench.cc")
  foreach(source IN LISTS sources)
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source})
    target_include_directories(${name} PRIVATE
      ${CMAKE_CURRENT_SOURCE_DIR}/src ${CMAKE_CURRENT_SOURCE_DIR})
    target_link_libraries(${name} PRIVATE headrace headrace_flags headrace_third_party)
  endforeach()
endfunction()

# How every CUDA source is compiled; `architectures` as CMake's CUDA_ARCHITECTURES.
function(headrace_cuda_target target architectures)
  # 90a-real and not -arch=sm_90a, which compiles every kernel twice and breaks wgmma.
  set_target_properties(${target} PROPERTIES CUDA_ARCHITECTURES "${architectures}")
  target_include_directories(${target} PRIVATE
    ${CMAKE_CURRENT_SOURCE_DIR}/include ${CMAKE_CURRENT_SOURCE_DIR}/src)
  target_link_libraries(${target} PRIVATE CUDA::cudart_static)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr -Werror=all-warnings>)
  # CMake 3.25 knows CUDA dialects up to 17 and appends -std=c++17 after every option of ours; so
  # what it calls 17 is made to mean 20 (by headrace_cuda).
  set_target_properties(${target} PROPERTIES CUDA_STANDARD 17 CUDA_RUNTIME_LIBRARY Static)
endfunction()

# Instantiations of kernels made of Hopper's instructions (copy engine, wgmma). Launched on another
# GPU they fail with kUnsupported.
set(HEADRACE_HOPPER_SOURCES "/(attention|gdn)/cuda/(decode|prefill|verify)_(bf16|fp16)_[a-z0-9_]+\\.cu$")

# CUDA sources of all folders: two object libraries, for they are few and share their flags.
function(headrace_cuda)
  headrace_glob(sources "src/*.cu")
  set(hopper ${sources})
  list(FILTER hopper INCLUDE REGEX "${HEADRACE_HOPPER_SOURCES}")
  list(FILTER sources EXCLUDE REGEX "${HEADRACE_HOPPER_SOURCES}")
  add_library(hr_cuda OBJECT ${sources})
  headrace_cuda_target(hr_cuda "${HEADRACE_CUDA_ARCHS}")
  add_library(hr_cuda_hopper OBJECT ${hopper})
  headrace_cuda_target(hr_cuda_hopper 90a-real)
  # What doctor compares with the GPU.
  string(REPLACE ";" "," architectures "${HEADRACE_CUDA_ARCHS}")
  set_source_files_properties(src/engine/gpu_kernels.cc PROPERTIES
    COMPILE_DEFINITIONS "HEADRACE_CUDA_ARCHS=\"${architectures}\"")
  set(CMAKE_CUDA17_STANDARD_COMPILE_OPTION "-std=c++20" PARENT_SCOPE)
  set(CMAKE_CUDA17_EXTENSION_COMPILE_OPTION "-std=c++20" PARENT_SCOPE)
endfunction()

# Tests that need a GPU. Not known to ctest: scripts/test-gpu runs them, and they fail without one.
# For Hopper alone: some of them hold instantiations of its kernels.
function(headrace_gpu_tests)
  headrace_glob(sources "tests/gpu/*.cu")
  add_executable(gpu_test ${sources})
  headrace_cuda_target(gpu_test 90a-real)
  target_include_directories(gpu_test PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(gpu_test PRIVATE headrace headrace_third_party headrace_test_support
                                         GTest::gtest GTest::gtest_main)
endfunction()

function(headrace_gpu_benches)
  headrace_glob(sources "bench/gpu/*_bench.cu")
  foreach(source IN LISTS sources)
    get_filename_component(name ${source} NAME_WE)
    add_executable(${name} ${source})
    headrace_cuda_target(${name} 90a-real)
    target_include_directories(${name} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
    target_link_libraries(${name} PRIVATE headrace headrace_third_party)
  endforeach()
endfunction()
