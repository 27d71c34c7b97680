// SPDX-License-Identifier: Apache-2.0
#include "engine/slot_pool.h"

namespace headrace::engine {

void SlotPool::release(int32_t slot) {
  ids_.give_back(slot);
  if (freed_hook_) freed_hook_(slot);
}

}  // namespace headrace::engine
