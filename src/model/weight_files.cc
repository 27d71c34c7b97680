// SPDX-License-Identifier: Apache-2.0
#include "model/weight_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

namespace headrace::model {
namespace {

constexpr size_t kMaxIndexBytes = size_t{64} << 20;

bool exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

// Tensor name → shard file, as the index says.
Result<std::map<std::string, std::string>> read_index(const std::string& path) {
  HEADRACE_ASSIGN_OR_RETURN(const std::string text, read_text_file(path, kMaxIndexBytes));
  const nlohmann::json index = nlohmann::json::parse(text, nullptr, false);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    return invalid_data(path + ": is not JSON with an object \"weight_map\"");
  }
  std::map<std::string, std::string> weight_map;
  for (const auto& [name, file] : index["weight_map"].items()) {
    if (!file.is_string()) {
      return invalid_data(fmt::format("{}: the file of \"{}\" is not a string", path, name));
    }
    const std::string shard = file.get<std::string>();
    // A shard is a file of the same folder; anything else would let an index read elsewhere.
    if (shard.empty() || shard == "." || shard == ".." ||
        shard.find_first_of(std::string_view("/\\\0", 3)) != std::string::npos) {
      return invalid_data(
          fmt::format("{}: \"{}\" is said to be in a file outside the folder", path, name));
    }
    weight_map[name] = shard;
  }
  return weight_map;
}

}  // namespace

Result<std::shared_ptr<const WeightFiles>> WeightFiles::open(const std::string& folder) {
  auto files = std::make_shared<WeightFiles>();
  const std::string single = folder + "/model.safetensors";
  const std::string index = folder + "/model.safetensors.index.json";
  if (exists(single)) {
    files->path_ = single;
    HEADRACE_RETURN_IF_ERROR(files->add_file(single));
  } else if (exists(index)) {
    files->path_ = index;
    HEADRACE_RETURN_IF_ERROR(files->add_shards(folder, index));
  } else {
    return not_found(
        fmt::format("{}: has neither model.safetensors nor model.safetensors.index.json; other "
                    "weight formats are not read (random weights: --load-format dummy)",
                    folder));
  }
  return std::shared_ptr<const WeightFiles>(std::move(files));
}

const WeightFiles::Tensor* WeightFiles::find(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &tensors_[found->second];
}

Status WeightFiles::add_file(const std::string& path) {
  HEADRACE_ASSIGN_OR_RETURN(auto file, MappedFile::open(path));
  auto entries = parse_safetensors(file->bytes());
  if (!entries.ok()) return entries.status().with_context(path);
  for (TensorEntry& entry : *entries) {
    const auto [place, inserted] = by_name_.emplace(entry.name, tensors_.size());
    if (!inserted) {
      return invalid_data(fmt::format("{}: tensor \"{}\" is also in {}", path, entry.name,
                                      tensors_[place->second].file));
    }
    const std::byte* data = file->bytes().data() + entry.begin_bytes;
    tensors_.push_back({std::move(entry), data, path});
  }
  files_.push_back(std::move(file));
  return {};
}

Status WeightFiles::add_shards(const std::string& folder, const std::string& index_path) {
  HEADRACE_ASSIGN_OR_RETURN(const auto weight_map, read_index(index_path));
  std::set<std::string> shards;
  for (const auto& [name, shard] : weight_map) shards.insert(shard);
  std::vector<std::string> missing;
  for (const std::string& shard : shards) {
    if (!exists(folder + "/" + shard)) missing.push_back(shard);
  }
  if (!missing.empty()) {
    return invalid_data(fmt::format("{}: {} of {} weight files are missing: {}; fetch them again",
                                    index_path, missing.size(), shards.size(),
                                    fmt::join(missing, ", ")));
  }
  for (const std::string& shard : shards) {
    HEADRACE_RETURN_IF_ERROR(add_file(folder + "/" + shard));
  }
  for (const auto& [name, shard] : weight_map) {
    const Tensor* tensor = find(name);
    if (tensor == nullptr || tensor->file != folder + "/" + shard) {
      return invalid_data(fmt::format("{}: tensor \"{}\" is said to be in {}, but it is not",
                                      index_path, name, shard));
    }
  }
  return {};
}

}  // namespace headrace::model
