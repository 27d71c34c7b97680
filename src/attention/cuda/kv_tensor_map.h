// SPDX-License-Identifier: Apache-2.0
// The paged cache of a layer as the copy engine addresses it. Knows strides; knows nothing of rows.
#pragma once

#include "attention/attention_params.h"
#include "attention/cuda/decode_params.h"
#include "headrace/status.h"

namespace headrace::attention {

// Boxes of one key head, `box_tokens` tokens of one page (page_size is a multiple of it) and all D:
// they land as [D in lines of up to 128 bytes, box_tokens, line], swizzled over the line.
// kInvalidArgument when strides or alignment do not allow it.
Result<KvTensorMaps> kv_tensor_maps(const KvCache& cache, const HeadShape& heads,
                                    int32_t box_tokens);

}  // namespace headrace::attention
