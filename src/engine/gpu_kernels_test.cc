// SPDX-License-Identifier: Apache-2.0
#include "engine/gpu_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "headrace/engine.h"

namespace headrace::engine {
namespace {

using ::testing::HasSubstr;

TEST(GpuKernels, CodeRunsOnItsOwnGeneration) {
  const std::vector<std::string> all = {"80", "89", "90a"};
  EXPECT_EQ(kernel_fit(all, 7, 5), KernelFit::kNone);
  EXPECT_EQ(kernel_fit(all, 8, 0), KernelFit::kSome);
  EXPECT_EQ(kernel_fit(all, 8, 6), KernelFit::kSome);
  EXPECT_EQ(kernel_fit(all, 8, 9), KernelFit::kSome);
  EXPECT_EQ(kernel_fit(all, 9, 0), KernelFit::kAll);
  EXPECT_EQ(kernel_fit(all, 10, 0), KernelFit::kNone);
  EXPECT_EQ(kernel_fit({"89"}, 8, 0), KernelFit::kNone);
  EXPECT_EQ(kernel_fit({"80"}, 9, 0), KernelFit::kNone);
  EXPECT_EQ(kernel_fit({}, 9, 0), KernelFit::kNone);
}

TEST(GpuKernels, SaysWhatIsMissingForCuda) {
  DeviceReport report;
  EXPECT_THAT(why_not_cuda(report), HasSubstr("no GPU kernels"));
  report.built_with_cuda = true;
  report.kernel_architectures = {"80", "90a"};
  EXPECT_THAT(why_not_cuda(report), HasSubstr("no NVIDIA GPU"));
  report.gpus = {{"Some GPU", 0, 12, 0, KernelFit::kNone}};
  EXPECT_THAT(why_not_cuda(report),
              HasSubstr("Some GPU has compute capability 12.0, and the kernels of this build are "
                        "for 80, 90a"));
  report.gpus.push_back({"Other GPU", 0, 9, 0, KernelFit::kAll});
  EXPECT_THAT(why_not_cuda(report), HasSubstr("not behind its models yet"));
}

// Before the model is read, so it need not exist.
TEST(GpuKernels, NoModelRunsOnAGpuYet) {
  const auto engine = Engine::load({.model = "nowhere", .device = DeviceChoice::kCuda});
  EXPECT_EQ(engine.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(engine.status().message(), HasSubstr("leave --device out"));
}

TEST(GpuKernels, KnowsWhatItWasCompiledFor) {
#ifdef HEADRACE_CUDA
  EXPECT_FALSE(kernel_architectures().empty());
#else
  EXPECT_TRUE(kernel_architectures().empty());
#endif
}

}  // namespace
}  // namespace headrace::engine
