// SPDX-License-Identifier: Apache-2.0
// Gated DeltaNet on the CPU: the composite op and its parts. Each is submitted to the stream and
// reads all sizes of the step from the step's arrays when it runs.
//
// Slots in one step: a slot that is some row's final slot or a checkpoint's slot is named once in
// these roles, and is nobody else's initial slot. Initial slots may be shared.
#pragma once

#include "gdn/gdn_params.h"
#include "gdn/parts_params.h"
#include "tensor/stream.h"

namespace headrace::gdn {

void gdn_mix(Stream& stream, const GdnMixParams& params);

void causal_conv(Stream& stream, const ConvParams& params);
void post_conv(Stream& stream, const PostConvParams& params);
void delta_rule(Stream& stream, const DeltaRuleParams& params);
void gated_norm(Stream& stream, const GatedNormParams& params);

}  // namespace headrace::gdn
