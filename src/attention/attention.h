// SPDX-License-Identifier: Apache-2.0
// The attention ops of the CPU backend. Both submit to a CpuStream and read all that may change
// between replays from params.step.
#pragma once

#include "attention/attention_params.h"
#include "tensor/stream.h"

namespace headrace::attention {

// Keys are visited in tiles of this many absolute positions, so that the order of accumulation is
// the same for every page size, batch, chunking and number of threads.
inline constexpr int32_t kKeyTile = 64;

void attention(Stream& stream, const AttentionParams& params);
void kv_write(Stream& stream, const KvWriteParams& params);

// Broken params (a group that does not divide, a head dim out of range, a missing array) throw
// InternalError. Called by both ops when they are submitted.
void check_heads(const HeadShape& heads);
void check_cache(const KvCache& cache, const HeadShape& heads);

}  // namespace headrace::attention
