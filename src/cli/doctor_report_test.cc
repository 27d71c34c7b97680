// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headrace::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

DeviceReport laptop() {
  DeviceReport report;
  report.cpu = {"Some CPU",      4, {"avx2", "fma", "f16c"}, "avx2", int64_t{16} << 30,
                int64_t{9} << 30};
  report.advice = {"no GPU driver: install one to use a GPU"};
  return report;
}

TEST(Doctor, AMachineWithoutGpuIsReady) {
  const DeviceReport report = laptop();
  EXPECT_THAT(essential_failures(report), IsEmpty());
  const std::string text = doctor_text(report, {});
  EXPECT_THAT(text, HasSubstr("CPU      Some CPU, 4 cores usable\n"));
  EXPECT_THAT(text, HasSubstr("kernels  avx2 in use; the CPU has avx2 fma f16c\n"));
  EXPECT_THAT(text, HasSubstr("memory   16.0 GiB, 9.0 GiB available\n"));
  EXPECT_THAT(text, HasSubstr("GPU      none\n"));
  EXPECT_THAT(text, HasSubstr("driver   none\n"));
  EXPECT_THAT(text, HasSubstr("CUDA     not in this build\n"));
  EXPECT_THAT(text, HasSubstr("advice   no GPU driver: install one to use a GPU\n"));
  EXPECT_THAT(text, HasSubstr("ready to generate\n"));
}

TEST(Doctor, ListsGpus) {
  DeviceReport report = laptop();
  report.driver_found = true;
  report.driver_version = "580.65.06";
  report.driver_cuda_version = 13000;
  report.built_with_cuda = true;
  report.kernel_architectures = {"80", "90a"};
  report.gpus = {{"Some GPU", int64_t{139} << 30, 9, 0, KernelFit::kAll},
                 {"Older GPU", int64_t{40} << 30, 8, 0, KernelFit::kSome},
                 {"Other GPU", int64_t{8} << 30, 7, 5, KernelFit::kNone}};
  const std::string text = doctor_text(report, {});
  EXPECT_THAT(text,
              HasSubstr("GPU      Some GPU, 139.0 GiB, compute capability 9.0, all kernels fit\n"));
  EXPECT_THAT(text, HasSubstr("compute capability 8.0, some kernels fit\n"));
  EXPECT_THAT(text, HasSubstr("compute capability 7.5, no kernels fit\n"));
  EXPECT_THAT(text, HasSubstr("driver   580.65.06, serves CUDA 13.0\n"));
  EXPECT_THAT(text, HasSubstr("CUDA     in this build, kernels for 80, 90a\n"));
  EXPECT_THAT(text, Not(HasSubstr("none")));
}

TEST(Doctor, SaysWhyNothingCanRun) {
  DeviceReport report = laptop();
  report.cpu.num_logical_cores = 0;
  report.cpu.memory_available_bytes = int64_t{10} << 20;
  const std::vector<std::string> failures = essential_failures(report);
  EXPECT_THAT(failures, ElementsAre(HasSubstr("core"), HasSubstr("10 MiB of memory available")));
  const std::string text = doctor_text(report, failures);
  EXPECT_THAT(text, HasSubstr("broken   10 MiB of memory"));
  EXPECT_THAT(text, HasSubstr("cannot generate here\n"));
}

}  // namespace
}  // namespace headrace::cli
