// SPDX-License-Identifier: Apache-2.0
#include "engine/host_memory.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>

namespace headrace::engine {
namespace {

std::optional<int64_t> parse_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

// The whole file is one number. "max", a missing file and nonsense are nullopt.
std::optional<int64_t> read_number(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  if (!(file >> word)) return std::nullopt;
  return parse_number(word);
}

// The number after `key` at the start of a line: "MemTotal:   123 kB", "inactive_file 123".
std::optional<int64_t> read_field(const std::string& path, std::string_view key) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string name;
    std::string value;
    if (words >> name >> value && name == key) return parse_number(value);
  }
  return std::nullopt;
}

// Names of one control group version's files.
struct GroupFiles {
  const char* mount;
  const char* limit;
  const char* usage;
  const char* cache;  // field of memory.stat: file cache that the kernel drops when asked
};
constexpr GroupFiles kVersion1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                                  "memory.usage_in_bytes", "total_inactive_file"};
constexpr GroupFiles kVersion2 = {"/sys/fs/cgroup", "memory.max", "memory.current",
                                  "inactive_file"};

struct GroupRoom {
  std::optional<int64_t> limit_bytes;
  std::optional<int64_t> room_bytes;
};

void take_less(std::optional<int64_t>& least, int64_t value) {
  least = least ? std::min(*least, value) : value;
}

// The tightest of the group and its parents. Inside a container the path may name a folder that
// only the host sees; the walk then still meets the mount itself.
void visit_groups(const std::string& root, const GroupFiles& files, std::string group,
                  GroupRoom& room) {
  while (true) {
    std::string folder = root + files.mount;
    folder.append(group).append("/");
    const auto limit = read_number(folder + files.limit);
    const auto usage = read_number(folder + files.usage);
    if (limit && usage) {
      const int64_t cache = read_field(folder + "memory.stat", files.cache).value_or(0);
      take_less(room.limit_bytes, *limit);
      take_less(room.room_bytes, std::max<int64_t>(*limit - *usage + cache, 0));
    }
    if (group.empty()) return;
    group.resize(group.find_last_of('/'));
  }
}

// Lines "4:memory:/path" (version 1) and "0::/path" (version 2).
GroupRoom group_room(const std::string& root) {
  GroupRoom room;
  std::ifstream file(root + "/proc/self/cgroup");
  std::string line;
  while (std::getline(file, line)) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    std::string group = line.substr(second + 1);
    if (group.empty() || group[0] != '/') continue;
    if (group == "/") group.clear();
    if (controllers == ",,") {
      visit_groups(root, kVersion2, group, room);
    } else if (controllers.find(",memory,") != std::string::npos) {
      visit_groups(root, kVersion1, group, room);
    }
  }
  return room;
}

}  // namespace

HostMemory host_memory(const std::string& root) {
  const std::string meminfo = root + "/proc/meminfo";
  HostMemory memory;
  memory.total_bytes = read_field(meminfo, "MemTotal:").value_or(0) * 1024;
  memory.available_bytes = read_field(meminfo, "MemAvailable:").value_or(0) * 1024;
  const GroupRoom room = group_room(root);
  if (room.limit_bytes && *room.limit_bytes < memory.total_bytes) {
    memory.total_bytes = *room.limit_bytes;
  }
  if (room.room_bytes) memory.available_bytes = std::min(memory.available_bytes, *room.room_bytes);
  return memory;
}

}  // namespace headrace::engine
