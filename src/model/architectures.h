// SPDX-License-Identifier: Apache-2.0
// The architectures that load: what their config.json may leave out, and which family builds them.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace headrace::model {

struct Family;

struct Architecture {
  std::string_view name;  // as in config.json, "architectures"
  bool hybrid = false;    // has GDN layers
  // Where config.json is silent:
  int32_t default_head_dim = 0;  // 0 = hidden_size / heads
  double default_partial_rotary_factor = 1.0;
  int32_t default_num_experts = 0;
  const Family& (*family)() = nullptr;
};

// Sorted by name.
const std::vector<Architecture>& architectures();
// Null for a name that is not known.
const Architecture* find_architecture(std::string_view name);

}  // namespace headrace::model
