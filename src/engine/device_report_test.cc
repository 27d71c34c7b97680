// SPDX-License-Identifier: Apache-2.0
#include "headrace/device_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "engine/gpu_probe.h"
#include "headrace/version.h"
#include "tests/support/paths.h"

namespace headrace {
namespace {

using engine::parse_driver_version;
using engine::probe_gpus;
using ::testing::HasSubstr;

TEST(EngineDeviceReportTest, SaysWhatThisMachineIs) {
  const DeviceReport report = device_report();
  EXPECT_FALSE(report.cpu.model_name.empty());
  EXPECT_GE(report.cpu.num_logical_cores, 1);
  EXPECT_TRUE(report.cpu.isa_in_use == "avx2" || report.cpu.isa_in_use == "scalar");
  EXPECT_GT(report.cpu.memory_total_bytes, 0);
  EXPECT_GE(report.cpu.memory_total_bytes, report.cpu.memory_available_bytes);
  if (!report.driver_found) {
    EXPECT_TRUE(report.gpus.empty());
    EXPECT_THAT(report.advice, ::testing::Contains(HasSubstr("no NVIDIA driver")));
  }
}

TEST(EngineDeviceReportTest, ParsesTheDriverVersion) {
  EXPECT_EQ(parse_driver_version("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun "
                                 "Jul 27 07:08:36 UTC 2025\nGCC version:  gcc 12.2.0\n"),
            "580.65.06");
  EXPECT_EQ(parse_driver_version("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86  "
                                 "Release Build\n"),
            "570.86");
  EXPECT_EQ(parse_driver_version(""), "");
  EXPECT_EQ(parse_driver_version("no version here\n1.2.3"), "");
}

TEST(EngineDeviceReportTest, WithoutADriverThereIsNothingAndNoProblem) {
  const auto probe =
      probe_gpus({.driver_library = "libnone-of-this-name.so", .version_file = "/nowhere"});
  EXPECT_FALSE(probe.driver_found);
  EXPECT_TRUE(probe.gpus.empty());
  EXPECT_EQ(probe.problem, "");
}

TEST(EngineDeviceReportTest, AKernelDriverWithoutItsLibraryIsAProblem) {
  const auto path = std::filesystem::path(::testing::TempDir()) / "nvidia_version";
  std::ofstream(path) << "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun\n";
  const auto probe =
      probe_gpus({.driver_library = "libnone-of-this-name.so", .version_file = path.string()});
  std::filesystem::remove(path);
  EXPECT_TRUE(probe.driver_found);
  EXPECT_EQ(probe.driver_version, "580.65.06");
  EXPECT_THAT(probe.problem, HasSubstr("install"));
}

TEST(EngineDeviceReportTest, ALibraryThatIsNoDriverIsAProblem) {
  const auto probe = probe_gpus({.driver_library = "libm.so.6", .version_file = "/nowhere"});
  EXPECT_TRUE(probe.driver_found);
  EXPECT_THAT(probe.problem, HasSubstr("lacks functions"));
}

TEST(EngineDeviceReportTest, AsksTheDriverForEveryGpu) {
  const auto probe = probe_gpus({.driver_library = test::binary_dir() + "/libfake_cuda_driver.so",
                                 .version_file = "/nowhere"});
  EXPECT_TRUE(probe.driver_found);
  EXPECT_EQ(probe.driver_version, "");
  EXPECT_EQ(probe.cuda_version, 13000);
  EXPECT_EQ(probe.problem, "");
  ASSERT_EQ(probe.gpus.size(), 2u);
  EXPECT_EQ(probe.gpus[0].name, "Fake GPU 0");
  EXPECT_EQ(probe.gpus[0].memory_total_bytes, int64_t{139} << 30);
  EXPECT_EQ(probe.gpus[0].compute_capability_major, 9);
  EXPECT_EQ(probe.gpus[1].name, "Fake GPU 1");
  EXPECT_EQ(probe.gpus[1].compute_capability_major, 8);
  EXPECT_EQ(probe.gpus[1].compute_capability_minor, 9);
}

TEST(EngineVersionTest, IsTheProjectsVersion) {
  std::ifstream file(test::source_dir() + "/CMakeLists.txt");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const std::string before = "project(headrace VERSION ";
  const size_t found = text.find(before);
  ASSERT_NE(found, std::string::npos);
  const size_t begin = found + before.size();
  EXPECT_EQ(text.substr(begin, text.find(' ', begin) - begin), version());
}

}  // namespace
}  // namespace headrace
