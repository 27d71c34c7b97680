// SPDX-License-Identifier: Apache-2.0
#include "engine/host_memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace headrace::engine {
namespace {

namespace fs = std::filesystem;

// A machine made of files.
class EngineHostMemoryTest : public ::testing::Test {
 protected:
  EngineHostMemoryTest()
      : root_(fs::path(::testing::TempDir()) /
              ::testing::UnitTest::GetInstance()->current_test_info()->name()) {
    fs::remove_all(root_);
    write("proc/meminfo", "MemTotal:        1000 kB\nMemFree: 1 kB\nMemAvailable:     800 kB\n");
  }
  ~EngineHostMemoryTest() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  HostMemory memory() const { return host_memory(root_.string()); }

  fs::path root_;
};

TEST_F(EngineHostMemoryTest, WithoutGroupsItIsTheMachines) {
  EXPECT_EQ(memory().total_bytes, 1000 * 1024);
  EXPECT_EQ(memory().available_bytes, 800 * 1024);
}

TEST_F(EngineHostMemoryTest, Version2TakesTheTightestOfTheGroupAndItsParents) {
  write("proc/self/cgroup", "0::/a/b\n");
  write("sys/fs/cgroup/a/b/memory.max", "max\n");
  write("sys/fs/cgroup/a/b/memory.current", "100\n");
  write("sys/fs/cgroup/a/memory.max", "500000\n");
  write("sys/fs/cgroup/a/memory.current", "200000\n");
  write("sys/fs/cgroup/a/memory.stat", "anon 5\nfile 9\ninactive_file 50000\n");
  EXPECT_EQ(memory().total_bytes, 500000);
  EXPECT_EQ(memory().available_bytes, 350000) << "the kernel gives file cache back";
}

TEST_F(EngineHostMemoryTest, Version1CountsTheMemoryController) {
  write("proc/self/cgroup", "9:cpu:/x\n4:hugetlb,memory:/job\n0::/\n");
  write("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "300000\n");
  write("sys/fs/cgroup/memory/job/memory.usage_in_bytes", "250000\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/memory.usage_in_bytes", "260000\n");
  EXPECT_EQ(memory().total_bytes, 300000);
  EXPECT_EQ(memory().available_bytes, 50000);
}

TEST_F(EngineHostMemoryTest, AGroupThatOnlyTheHostSeesFallsBackToTheMount) {
  write("proc/self/cgroup", "0::/docker/0123\n");
  write("sys/fs/cgroup/memory.max", "400000\n");
  write("sys/fs/cgroup/memory.current", "500000\n");
  EXPECT_EQ(memory().available_bytes, 0) << "more used than allowed is no room, not a negative one";
}

TEST_F(EngineHostMemoryTest, NonsenseIsNoLimit) {
  write("proc/self/cgroup", "garbage\n:\n0::\n0::relative\n4:memory:/a\n");
  write("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "many\n");
  write("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "\n");
  EXPECT_EQ(memory().available_bytes, 800 * 1024);
  write("proc/meminfo", "");
  EXPECT_EQ(memory().total_bytes, 0);
  EXPECT_EQ(memory().available_bytes, 0);
}

TEST(EngineHostMemoryRealTest, ThisMachineHasMemory) {
  const HostMemory memory = host_memory();
  EXPECT_GT(memory.available_bytes, int64_t{1} << 20);
  EXPECT_GE(memory.total_bytes, memory.available_bytes);
}

}  // namespace
}  // namespace headrace::engine
