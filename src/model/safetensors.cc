// SPDX-License-Identifier: Apache-2.0
#include "model/safetensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <simdjson.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_set>

namespace headrace::model {
namespace {

constexpr size_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = 100'000'000;  // the format's own limit
constexpr size_t kMaxRank = 16;

struct DTypeBits {
  std::string_view name;
  uint64_t bits;
};
// Types whose size is checked. One that is not listed is an error only if it is needed.
constexpr std::array kDTypes = {
    DTypeBits{"F64", 64},    DTypeBits{"F32", 32},    DTypeBits{"F16", 16}, DTypeBits{"BF16", 16},
    DTypeBits{"I64", 64},    DTypeBits{"I32", 32},    DTypeBits{"I16", 16}, DTypeBits{"I8", 8},
    DTypeBits{"U64", 64},    DTypeBits{"U32", 32},    DTypeBits{"U16", 16}, DTypeBits{"U8", 8},
    DTypeBits{"F8_E4M3", 8}, DTypeBits{"F8_E5M2", 8}, DTypeBits{"BOOL", 8}, DTypeBits{"C64", 64},
};

// A name from the file, made fit to be printed in one line.
std::string printable(std::string_view name) {
  constexpr size_t kShown = 120;
  std::string text;
  for (const char c : name.substr(0, kShown)) {
    text += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  }
  return name.size() > kShown ? text + "…" : text;
}

Result<std::vector<int64_t>> read_shape(simdjson::dom::element element) {
  simdjson::dom::array dims;
  if (element.get(dims) != simdjson::SUCCESS) return invalid_data("\"shape\" is not a list");
  std::vector<int64_t> shape;
  for (simdjson::dom::element dim : dims) {
    int64_t value = 0;
    if (dim.get(value) != simdjson::SUCCESS || value < 0) {
      return invalid_data("\"shape\" holds what is not a whole number from 0 to 2^63 - 1");
    }
    if (shape.size() == kMaxRank) {
      return invalid_data(fmt::format("\"shape\" has more than {} dimensions", kMaxRank));
    }
    shape.push_back(value);
  }
  return shape;
}

Status read_offsets(simdjson::dom::element element, uint64_t data_bytes, uint64_t* begin,
                    uint64_t* end) {
  simdjson::dom::array offsets;
  if (element.get(offsets) != simdjson::SUCCESS || offsets.size() != 2 ||
      offsets.at(0).get(*begin) != simdjson::SUCCESS ||
      offsets.at(1).get(*end) != simdjson::SUCCESS) {
    return invalid_data("\"data_offsets\" is not a list of two whole numbers");
  }
  if (*begin > *end) {
    return invalid_data(
        fmt::format("\"data_offsets\" [{}, {}] end before they begin", *begin, *end));
  }
  if (*end > data_bytes) {
    return invalid_data(
        fmt::format("\"data_offsets\" [{}, {}] lie outside the {} bytes of data in the file; the "
                    "file is cut short or damaged: fetch it again",
                    *begin, *end, data_bytes));
  }
  return {};
}

// Bytes that the shape asks for; checks the product for overflow.
Status check_size(const TensorEntry& entry, uint64_t num_bytes) {
  uint64_t elements = 1;
  bool overflow = false;
  for (const int64_t dim : entry.shape) {
    overflow = __builtin_mul_overflow(elements, static_cast<uint64_t>(dim), &elements) || overflow;
  }
  const auto* known = std::find_if(kDTypes.begin(), kDTypes.end(),
                                   [&](const DTypeBits& d) { return d.name == entry.dtype; });
  uint64_t bits = 0;
  if (known != kDTypes.end()) {
    overflow = overflow || __builtin_mul_overflow(elements, known->bits, &bits);
  }
  if (overflow) {
    return invalid_data(
        fmt::format("shape {} has more elements than can be counted", shape_text(entry.shape)));
  }
  if (known != kDTypes.end() && bits / 8 != num_bytes) {
    return invalid_data(fmt::format("{} {} needs {} bytes, but \"data_offsets\" span {}",
                                    entry.dtype, shape_text(entry.shape), bits / 8, num_bytes));
  }
  return {};
}

Result<TensorEntry> read_entry(simdjson::dom::element element, uint64_t data_start,
                               uint64_t data_bytes) {
  simdjson::dom::object fields;
  if (element.get(fields) != simdjson::SUCCESS) return invalid_data("is not an object");
  TensorEntry entry;
  uint64_t begin = 0;
  uint64_t end = 0;
  bool has_dtype = false;
  bool has_shape = false;
  bool has_offsets = false;
  for (const auto& [key, value] : fields) {
    bool* seen = key == "dtype"          ? &has_dtype
                 : key == "shape"        ? &has_shape
                 : key == "data_offsets" ? &has_offsets
                                         : nullptr;
    if (seen == nullptr) return invalid_data(fmt::format("unknown key \"{}\"", printable(key)));
    if (*seen) return invalid_data(fmt::format("\"{}\" stands twice", key));
    *seen = true;
    if (key == "dtype") {
      std::string_view dtype;
      if (value.get(dtype) != simdjson::SUCCESS) return invalid_data("\"dtype\" is not a string");
      entry.dtype = printable(dtype);
    } else if (key == "shape") {
      HEADRACE_ASSIGN_OR_RETURN(entry.shape, read_shape(value));
    } else {
      HEADRACE_RETURN_IF_ERROR(read_offsets(value, data_bytes, &begin, &end));
    }
  }
  if (!has_dtype) return invalid_data("\"dtype\" is missing");
  if (!has_shape) return invalid_data("\"shape\" is missing");
  if (!has_offsets) return invalid_data("\"data_offsets\" is missing");
  HEADRACE_RETURN_IF_ERROR(check_size(entry, end - begin));
  entry.begin_bytes = static_cast<size_t>(data_start + begin);
  entry.end_bytes = static_cast<size_t>(data_start + end);
  return entry;
}

// The tensors must tile the data: bytes that two of them claim, or none, mean a damaged header.
Status check_tiling(const std::vector<TensorEntry>& entries, size_t data_start, size_t file_bytes) {
  std::vector<const TensorEntry*> order;
  order.reserve(entries.size());
  for (const TensorEntry& entry : entries) order.push_back(&entry);
  std::sort(order.begin(), order.end(), [](const TensorEntry* a, const TensorEntry* b) {
    return a->begin_bytes != b->begin_bytes ? a->begin_bytes < b->begin_bytes
                                            : a->end_bytes < b->end_bytes;
  });
  size_t covered = data_start;
  const TensorEntry* previous = nullptr;
  for (const TensorEntry* entry : order) {
    if (entry->begin_bytes < covered) {
      return invalid_data(fmt::format("tensor \"{}\" overlaps tensor \"{}\"",
                                      printable(entry->name), printable(previous->name)));
    }
    if (entry->begin_bytes > covered) {
      return invalid_data(fmt::format("{} bytes before tensor \"{}\" belong to no tensor",
                                      entry->begin_bytes - covered, printable(entry->name)));
    }
    covered = entry->end_bytes;
    previous = entry;
  }
  if (covered != file_bytes) {
    return invalid_data(fmt::format(
        "{} bytes after the last tensor belong to no tensor; the file is damaged: fetch it again",
        file_bytes - covered));
  }
  return {};
}

// Splits off the header. The length is checked before anything is read or allocated.
Result<std::string_view> header_text(std::span<const std::byte> file) {
  if (file.size() < kLengthBytes) {
    return invalid_data(
        fmt::format("has {} bytes, too few for a safetensors header; fetch it again", file.size()));
  }
  uint64_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) {
    length |= static_cast<uint64_t>(file[i]) << (8 * i);
  }
  if (length > kMaxHeaderBytes) {
    return invalid_data(fmt::format(
        "says that its header has {} bytes, but at most {} are allowed; is it a safetensors file?",
        length, kMaxHeaderBytes));
  }
  if (length > file.size() - kLengthBytes) {
    return invalid_data(fmt::format(
        "is cut short inside its header: {} bytes of header, but only {} in the file; fetch it "
        "again",
        length, file.size() - kLengthBytes));
  }
  return std::string_view(reinterpret_cast<const char*>(file.data()) + kLengthBytes,
                          static_cast<size_t>(length));
}

}  // namespace

std::optional<DType> weight_dtype(const TensorEntry& entry) {
  if (entry.dtype == "F32") return DType::kF32;
  if (entry.dtype == "BF16") return DType::kBF16;
  if (entry.dtype == "F16") return DType::kF16;
  return std::nullopt;
}

std::string shape_text(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

Result<std::vector<TensorEntry>> parse_safetensors(std::span<const std::byte> file) {
  HEADRACE_ASSIGN_OR_RETURN(const std::string_view text, header_text(file));
  simdjson::dom::parser parser;
  simdjson::dom::element document;
  const simdjson::error_code error = parser.parse(simdjson::padded_string(text)).get(document);
  if (error != simdjson::SUCCESS) {
    return invalid_data(
        fmt::format("its header is not valid JSON: {}", simdjson::error_message(error)));
  }
  simdjson::dom::object tensors;
  if (document.get(tensors) != simdjson::SUCCESS) {
    return invalid_data("its header is not a JSON object");
  }
  const uint64_t data_start = kLengthBytes + text.size();
  std::vector<TensorEntry> entries;
  std::unordered_set<std::string_view> names;
  for (const auto& [name, value] : tensors) {
    if (!names.insert(name).second) {
      return invalid_data(fmt::format("tensor \"{}\" stands twice in the header", printable(name)));
    }
    if (name == "__metadata__") continue;  // free text, not used
    auto entry = read_entry(value, data_start, file.size() - data_start);
    if (!entry.ok()) {
      return entry.status().with_context(fmt::format("tensor \"{}\"", printable(name)));
    }
    entry->name = std::string(name);
    entries.push_back(std::move(*entry));
  }
  HEADRACE_RETURN_IF_ERROR(check_tiling(entries, static_cast<size_t>(data_start), file.size()));
  return entries;
}

}  // namespace headrace::model
