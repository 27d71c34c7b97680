// SPDX-License-Identifier: Apache-2.0
// Writes safetensors files for tests, good ones and broken ones.
#pragma once

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

namespace headrace::model {

// The eight bytes of length, little-endian.
inline std::string length_bytes(uint64_t length) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(length >> (8 * i) & 0xffu);
  return bytes;
}

// A file with this header text and this many zero bytes of data.
inline std::string file_with_header(const std::string& header, size_t data_bytes = 0) {
  return length_bytes(header.size()) + header + std::string(data_bytes, '\0');
}

struct TestTensor {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::string bytes;
};

// `header_padding` spaces after the header move the data off its alignment.
inline std::string safetensors_bytes(const std::vector<TestTensor>& tensors,
                                     size_t header_padding = 0) {
  nlohmann::json header = {{"__metadata__", {{"format", "pt"}}}};
  std::string data;
  for (const TestTensor& tensor : tensors) {
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  const std::string text = header.dump() + std::string(header_padding, ' ');
  return length_bytes(text.size()) + text + data;
}

inline std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span<const char>(text.data(), text.size()));
}

}  // namespace headrace::model
