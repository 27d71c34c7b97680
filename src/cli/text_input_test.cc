// SPDX-License-Identifier: Apache-2.0
#include "cli/text_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

namespace headrace::cli {
namespace {

using ::testing::HasSubstr;
using Kind = TextSource::Kind;

TEST(ReadText, LiteralIsItself) {
  EXPECT_EQ(*read_text({Kind::kLiteral, "a\n"}, "prompt"), "a\n");
  EXPECT_EQ(*read_text({}, "prompt"), "");
}

TEST(ReadText, FilesByteForByte) {
  const std::string path = ::testing::TempDir() + "/text_input_test_" + std::to_string(getpid());
  const std::string bytes = std::string("a\r\n\0\xFF b", 7) + std::string(200'000, 'x') + "\n";
  std::ofstream(path, std::ios::binary) << bytes;
  EXPECT_EQ(*read_text({Kind::kFile, path}, "prompt"), bytes);
  std::ofstream(path, std::ios::trunc).flush();
  EXPECT_EQ(*read_text({Kind::kFile, path}, "prompt"), "");
  unlink(path.c_str());
}

TEST(ReadText, ErrorsNameTheFile) {
  const auto missing = read_text({Kind::kFile, "/no/such/file"}, "prompt");
  EXPECT_EQ(missing.status().code(), StatusCode::kNotFound);
  EXPECT_EQ(missing.status().message(),
            "cannot open the prompt file /no/such/file: No such file or directory");
  const auto folder = read_text({Kind::kFile, "/"}, "prompt");
  EXPECT_EQ(folder.status().message(), "cannot read /: Is a directory");
  const auto endless = read_text({Kind::kFile, "/dev/zero"}, "prompt");
  EXPECT_THAT(endless.status().message(), HasSubstr("/dev/zero holds more than 64 MiB"));
}

}  // namespace
}  // namespace headrace::cli
