// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace headrace {

enum class Device { kCpu, kCuda };

}  // namespace headrace
