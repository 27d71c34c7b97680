// SPDX-License-Identifier: Apache-2.0
#include "model/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "model/safetensors_test_util.h"
#include "tests/support/scale.h"

namespace headrace::model {
namespace {

using testing::HasSubstr;

std::string error_of(const std::string& file) {
  const auto entries = parse_safetensors(as_bytes(file));
  EXPECT_FALSE(entries.ok()) << file.substr(8, 200);
  EXPECT_EQ(entries.status().code(), StatusCode::kInvalidData);
  return entries.ok() ? "" : entries.status().message();
}

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

TEST(SafetensorsTest, ReadsEntriesInAnyOrder) {
  const std::string file = file_with_header("{" + entry("b", "BF16", "[2,3]", "[4,16]") + "," +
                                                entry("a", "F32", "[]", "[0,4]") +
                                                ",\"__metadata__\":{\"format\":\"pt\"}," +
                                                entry("empty", "F16", "[0,7]", "[16,16]") + "}  ",
                                            16);
  const auto entries = parse_safetensors(as_bytes(file));
  ASSERT_TRUE(entries.ok()) << entries.status().message();
  ASSERT_EQ(entries->size(), 3u);
  const size_t data = file.size() - 16;
  EXPECT_EQ((*entries)[0].name, "b");
  EXPECT_EQ((*entries)[0].shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ((*entries)[0].begin_bytes, data + 4);
  EXPECT_EQ((*entries)[0].end_bytes, data + 16);
  EXPECT_EQ(weight_dtype((*entries)[0]), DType::kBF16);
  EXPECT_EQ((*entries)[1].shape, std::vector<int64_t>{});
  EXPECT_EQ(weight_dtype((*entries)[1]), DType::kF32);
  EXPECT_EQ((*entries)[2].begin_bytes, (*entries)[2].end_bytes);
}

TEST(SafetensorsTest, AFileWithoutTensorsIsEmpty) {
  const auto entries = parse_safetensors(as_bytes(file_with_header("{}")));
  ASSERT_TRUE(entries.ok());
  EXPECT_TRUE(entries->empty());
}

// Its size is not known, so it is not checked; whoever needs the tensor says what is wrong.
TEST(SafetensorsTest, UnknownDtypesAreKept) {
  const auto entries = parse_safetensors(
      as_bytes(file_with_header("{" + entry("q", "F4", "[3]", "[0,2]") + "}", 2)));
  ASSERT_TRUE(entries.ok()) << entries.status().message();
  EXPECT_EQ((*entries)[0].dtype, "F4");
  EXPECT_EQ(weight_dtype((*entries)[0]), std::nullopt);
}

TEST(SafetensorsTest, TruncatedHeaders) {
  const std::string good = file_with_header("{" + entry("a", "F32", "[4]", "[0,16]") + "}", 16);
  ASSERT_TRUE(parse_safetensors(as_bytes(good)).ok());
  for (size_t size = 0; size < good.size(); ++size) {
    const std::string cut = good.substr(0, size);
    EXPECT_FALSE(parse_safetensors(as_bytes(cut)).ok()) << size << " bytes";
  }
  EXPECT_THAT(error_of(""), HasSubstr("too few"));
  EXPECT_THAT(error_of(good.substr(0, 7)), HasSubstr("too few"));
  EXPECT_THAT(error_of(good.substr(0, 20)), HasSubstr("cut short inside its header"));
  EXPECT_THAT(error_of(good.substr(0, good.size() - 1)), HasSubstr("lie outside"));
  EXPECT_THAT(error_of(good + "x"), HasSubstr("after the last tensor"));
}

TEST(SafetensorsTest, OversizedHeaderLengths) {
  for (const uint64_t length : {uint64_t{100'000'001}, uint64_t{1} << 40, uint64_t{1} << 63,
                                ~uint64_t{0}, ~uint64_t{0} - 7}) {
    EXPECT_THAT(error_of(length_bytes(length) + "{}"), HasSubstr("at most 100000000"));
  }
  EXPECT_THAT(error_of(length_bytes(3) + "{}"), HasSubstr("cut short"));
  EXPECT_THAT(error_of(length_bytes(0)), HasSubstr("not valid JSON"));
}

TEST(SafetensorsTest, Offsets) {
  const auto with_offsets = [](const std::string& offsets) {
    return error_of(file_with_header("{" + entry("w", "U8", "[4]", offsets) + "}", 8));
  };
  EXPECT_THAT(with_offsets("[4,0]"), HasSubstr("end before they begin"));
  EXPECT_THAT(with_offsets("[6,10]"), HasSubstr("lie outside the 8 bytes"));
  EXPECT_THAT(with_offsets("[18446744073709551612,18446744073709551615]"), HasSubstr("outside"));
  for (const char* offsets : {"[0]", "[]", "[0,4,8]", "[-4,0]", "[0,4.0]", "[0,\"4\"]", "4", "null",
                              "{}", "[0,18446744073709551616]"}) {
    EXPECT_FALSE(with_offsets(offsets).empty()) << offsets;
  }
}

TEST(SafetensorsTest, OverlapsAndHoles) {
  const auto two = [](const std::string& a, const std::string& b) {
    return error_of(file_with_header(
        "{" + entry("first", "U8", "[4]", a) + "," + entry("second", "U8", "[4]", b) + "}", 12));
  };
  EXPECT_THAT(two("[0,4]", "[2,6]"), HasSubstr("\"second\" overlaps tensor \"first\""));
  EXPECT_THAT(two("[0,4]", "[0,4]"), HasSubstr("overlaps"));
  EXPECT_THAT(two("[0,4]", "[8,12]"), HasSubstr("4 bytes before tensor \"second\""));
  EXPECT_THAT(two("[4,8]", "[8,12]"), HasSubstr("4 bytes before tensor \"first\""));
}

TEST(SafetensorsTest, ByteCountsAndShapes) {
  const auto with_shape = [](const std::string& dtype, const std::string& shape) {
    return error_of(file_with_header("{" + entry("w", dtype, shape, "[0,8]") + "}", 8));
  };
  EXPECT_THAT(with_shape("F32", "[3]"), HasSubstr("tensor \"w\": F32 [3] needs 12 bytes"));
  EXPECT_THAT(with_shape("BF16", "[2]"), HasSubstr("needs 4 bytes"));
  EXPECT_THAT(with_shape("F32", "[0]"), HasSubstr("needs 0 bytes"));
  // Products that wrap around to a small number.
  EXPECT_THAT(with_shape("F32", "[4294967296,4294967296,2]"), HasSubstr("more elements"));
  EXPECT_THAT(with_shape("F32", "[9223372036854775807,2]"), HasSubstr("more elements"));
  EXPECT_THAT(with_shape("F64", "[2305843009213693953]"), HasSubstr("more elements"));
  EXPECT_THAT(with_shape("NEW", "[4294967296,4294967296]"), HasSubstr("more elements"));
  EXPECT_THAT(with_shape("F32", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2]"), HasSubstr("dimensions"));
  for (const char* shape :
       {"[-1]", "[2.0]", "[\"2\"]", "2", "null", "[[2]]", "{}", "[18446744073709551615]"}) {
    EXPECT_THAT(with_shape("F32", shape), HasSubstr("\"shape\"")) << shape;
  }
}

TEST(SafetensorsTest, EntriesThatAreNoEntries) {
  const auto with_value = [](const std::string& value) {
    return error_of(file_with_header("{\"w\":" + value + "}", 4));
  };
  EXPECT_THAT(with_value("1"), HasSubstr("tensor \"w\": is not an object"));
  EXPECT_THAT(with_value("{}"), HasSubstr("\"dtype\" is missing"));
  EXPECT_THAT(with_value(R"({"dtype":"F32","data_offsets":[0,4]})"),
              HasSubstr("\"shape\" is missing"));
  EXPECT_THAT(with_value(R"({"dtype":"F32","shape":[1]})"), HasSubstr("\"data_offsets\" is missi"));
  EXPECT_THAT(with_value(R"({"dtype":5,"shape":[1],"data_offsets":[0,4]})"), HasSubstr("a string"));
  EXPECT_THAT(with_value(R"({"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]})"),
              HasSubstr("stands twice"));
  EXPECT_THAT(with_value(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1})"),
              HasSubstr("unknown key \"x\""));
  EXPECT_THAT(error_of(file_with_header("{" + entry("w", "U8", "[0]", "[0,0]") + "," +
                                        entry("w", "U8", "[0]", "[0,0]") + "}")),
              HasSubstr("\"w\" stands twice"));
}

TEST(SafetensorsTest, HeadersThatAreNoJsonObjects) {
  for (const char* header : {"", " ", "[]", "null", "1", "\"x\"", "{", "{\"a\"}", "{}{}", "{} x",
                             "{\"a\":}", "\xff\xfe", "{\"\xff\":1}", "{\"a\":1,}"}) {
    EXPECT_FALSE(error_of(file_with_header(header)).empty()) << header;
  }
}

TEST(SafetensorsTest, HostileNesting) {
  for (const size_t depth : {1000u, 100000u, 1000000u}) {
    error_of(file_with_header(std::string(depth, '[')));
    error_of(file_with_header("{\"a\":" + std::string(depth, '[') + std::string(depth, ']') + "}"));
    std::string objects;
    for (size_t i = 0; i < depth; ++i) objects += "{\"a\":";
    error_of(file_with_header(objects));
  }
}

// Names from the file reach the terminal: no control characters, no megabyte-long lines.
TEST(SafetensorsTest, NamesInMessagesArePrintable) {
  const std::string message =
      error_of(file_with_header(R"({"\u001b[31m\n)" + std::string(100000, 'x') + "\":1}"));
  EXPECT_LT(message.size(), 300u);
  EXPECT_EQ(message.find('\x1b'), std::string::npos);
  EXPECT_EQ(message.find('\n'), std::string::npos);
}

// Good files with bytes changed at random: an error or entries inside the file.
TEST(SafetensorsTest, DamagedBytes) {
  const std::string good = safetensors_bytes({{"model.a", "F32", {2, 2}, std::string(16, 'a')},
                                              {"model.b", "BF16", {4}, std::string(8, 'b')},
                                              {"model.c", "F16", {1, 3}, std::string(6, 'c')}});
  ASSERT_TRUE(parse_safetensors(as_bytes(good)).ok());
  std::mt19937_64 random(1);
  int refused = 0;
  for (int i = 0; i < test::scaled(20000); ++i) {
    std::string bad = good;
    for (uint64_t change = 0; change <= random() % 3; ++change) {
      bad[random() % bad.size()] = static_cast<char>(random());
    }
    bad.resize(bad.size() - random() % 3);
    const auto entries = parse_safetensors(as_bytes(bad));
    if (!entries.ok()) {
      ++refused;
      continue;
    }
    for (const TensorEntry& tensor : *entries) {
      ASSERT_LE(tensor.begin_bytes, tensor.end_bytes);
      ASSERT_LE(tensor.end_bytes, bad.size());
    }
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace headrace::model
