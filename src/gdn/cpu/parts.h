// SPDX-License-Identifier: Apache-2.0
// The parts of gdn_mix as plain functions over a thread pool and a table of inner loops. The public
// ops submit these with the machine's own table; tests run them with either.
#pragma once

#include "base/thread_pool.h"
#include "gdn/cpu/kernels.h"
#include "gdn/parts_params.h"

namespace headrace::gdn {

void causal_conv(ThreadPool& pool, const CpuKernels& kernels, const ConvParams& params);
void post_conv(ThreadPool& pool, const CpuKernels& kernels, const PostConvParams& params);
void delta_rule(ThreadPool& pool, const CpuKernels& kernels, const DeltaRuleParams& params);
void gated_norm(ThreadPool& pool, const CpuKernels& kernels, const GatedNormParams& params);

void gdn_mix(ThreadPool& pool, const CpuKernels& kernels, const GdnMixParams& params);

}  // namespace headrace::gdn
