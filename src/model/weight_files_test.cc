// SPDX-License-Identifier: Apache-2.0
#include "model/weight_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstring>

#include "model/safetensors_test_util.h"
#include "tests/support/temp_folder.h"

namespace headrace::model {
namespace {

using test::TempFolder;
using testing::AllOf;
using testing::HasSubstr;

std::string index_text(const std::vector<std::pair<std::string, std::string>>& weight_map) {
  nlohmann::json index = {{"metadata", {{"total_size", 1}}},
                          {"weight_map", nlohmann::json::object()}};
  for (const auto& [name, file] : weight_map) index["weight_map"][name] = file;
  return index.dump();
}

std::string error_of(const TempFolder& folder) {
  const auto files = WeightFiles::open(folder.path());
  EXPECT_FALSE(files.ok());
  return files.ok() ? "" : files.status().message();
}

constexpr char kIndex[] = "model.safetensors.index.json";

TEST(WeightFilesTest, FindsTensorsOfASingleFile) {
  TempFolder folder;
  folder.write("model.safetensors",
               safetensors_bytes({{"a", "F32", {1}, "1234"}, {"b", "U8", {2}, "xy"}}));
  const auto files = WeightFiles::open(folder.path());
  ASSERT_TRUE(files.ok()) << files.status().message();
  ASSERT_EQ((*files)->tensors().size(), 2u);
  const WeightFiles::Tensor* b = (*files)->find("b");
  ASSERT_NE(b, nullptr);
  EXPECT_EQ(std::memcmp(b->data, "xy", 2), 0);
  EXPECT_EQ(b->file, folder.file("model.safetensors"));
  EXPECT_EQ((*files)->find("c"), nullptr);
}

TEST(WeightFilesTest, FindsTensorsOfShards) {
  TempFolder folder;
  folder.write("one.safetensors", safetensors_bytes({{"a", "U8", {1}, "1"}}));
  folder.write("two.safetensors",
               safetensors_bytes({{"b", "U8", {1}, "2"}, {"extra", "U8", {1}, "3"}}));
  folder.write(kIndex, index_text({{"a", "one.safetensors"}, {"b", "two.safetensors"}}));
  const auto files = WeightFiles::open(folder.path());
  ASSERT_TRUE(files.ok()) << files.status().message();
  EXPECT_EQ(static_cast<char>(*(*files)->find("a")->data), '1');
  EXPECT_EQ(static_cast<char>(*(*files)->find("b")->data), '2');
}

TEST(WeightFilesTest, MissingShardsAreListedByName) {
  TempFolder folder;
  folder.write("model-2.safetensors", safetensors_bytes({{"b", "U8", {1}, "2"}}));
  folder.write(kIndex, index_text({{"a", "model-1.safetensors"},
                                   {"b", "model-2.safetensors"},
                                   {"c", "model-3.safetensors"}}));
  EXPECT_THAT(error_of(folder), AllOf(HasSubstr("2 of 3 weight files are missing"),
                                      HasSubstr("model-1.safetensors, model-3.safetensors")));
}

TEST(WeightFilesTest, AnIndexThatLies) {
  TempFolder folder;
  folder.write("one.safetensors", safetensors_bytes({{"a", "U8", {1}, "1"}}));
  folder.write("two.safetensors", safetensors_bytes({{"b", "U8", {1}, "2"}}));
  folder.write(kIndex, index_text({{"a", "two.safetensors"}, {"b", "one.safetensors"}}));
  EXPECT_THAT(error_of(folder), HasSubstr("\"a\" is said to be in two.safetensors, but it is not"));
  folder.write("two.safetensors", safetensors_bytes({{"a", "U8", {1}, "2"}}));
  folder.write(kIndex, index_text({{"a", "one.safetensors"}, {"b", "two.safetensors"}}));
  EXPECT_THAT(error_of(folder), HasSubstr("tensor \"a\" is also in"));
}

TEST(WeightFilesTest, AnIndexThatLeadsOutOfTheFolder) {
  for (const char* file : {"../x.safetensors", "/etc/passwd", "a/b", "..", ".", ""}) {
    TempFolder folder;
    folder.write(kIndex, index_text({{"a", file}}));
    EXPECT_THAT(error_of(folder), HasSubstr("outside the folder")) << file;
  }
}

TEST(WeightFilesTest, BrokenIndexes) {
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("{}"),
        std::string("{\"weight_map\": []}"), std::string(200000, '[')}) {
    TempFolder folder;
    folder.write(kIndex, text);
    EXPECT_THAT(error_of(folder), HasSubstr("weight_map"));
  }
  TempFolder folder;
  folder.write(kIndex, "{\"weight_map\": {\"a\": 5}}");
  EXPECT_THAT(error_of(folder), HasSubstr("not a string"));
}

TEST(WeightFilesTest, ErrorsNameTheFile) {
  TempFolder folder;
  EXPECT_THAT(error_of(folder), AllOf(HasSubstr(folder.path()), HasSubstr("model.safetensors")));
  folder.write("model.safetensors", "");
  EXPECT_THAT(error_of(folder), AllOf(HasSubstr("model.safetensors"), HasSubstr("too few")));
}

TEST(WeightFilesTest, WhatIsNoFileIsRefused) {
  TempFolder folder;
  std::filesystem::create_directory(folder.file("model.safetensors"));
  EXPECT_THAT(error_of(folder), HasSubstr("not a regular file"));
  std::filesystem::remove(folder.file("model.safetensors"));
  ASSERT_EQ(::mkfifo(folder.file("model.safetensors").c_str(), 0600), 0);  // must not block
  EXPECT_THAT(error_of(folder), HasSubstr("not a regular file"));
}

}  // namespace
}  // namespace headrace::model
