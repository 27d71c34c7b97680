// SPDX-License-Identifier: Apache-2.0
// From a folder to a model: config → family → weights → layers.
#include <fmt/format.h>

#include "base/check.h"
#include "model/architectures.h"
#include "model/family.h"
#include "model/model.h"
#include "model/tensor_source.h"
#include "model/weight_files.h"
#include "model/weight_loader.h"

namespace headrace::model {
namespace {

Result<std::unique_ptr<Model>> load_checkpoint(const ModelConfig& config, const Family& family,
                                               const LoadOptions& options,
                                               const ops::Backend& backend) {
  HEADRACE_ASSIGN_OR_RETURN(const auto files, WeightFiles::open(options.folder));
  const std::string prefix = find_prefix(family.weights, config, family.prefixes, *files);
  const auto expected = expected_weights(family.weights, config, prefix);
  HEADRACE_RETURN_IF_ERROR(check_weights(expected, *files));
  log_unused(expected, family.skipped_prefixes, *files);
  const auto source = checkpoint_source(files);
  WeightLoader loader(*source, expected, backend,
                      options.keep_dtype ? std::nullopt : std::optional(options.dtype));
  return family.create(config, loader);
}

Result<std::unique_ptr<Model>> load_dummy(const ModelConfig& config, const Family& family,
                                          const LoadOptions& options, const ops::Backend& backend) {
  const auto expected = expected_weights(family.weights, config);
  const DType dtype = options.keep_dtype ? config.dtype : options.dtype;
  const auto source = dummy_source(options.dummy_seed, dtype, family.norm_offset);
  WeightLoader loader(*source, expected, backend, std::nullopt);
  return family.create(config, loader);
}

}  // namespace

Result<std::unique_ptr<Model>> load_model(const LoadOptions& options, const ops::Backend& backend) {
  if (backend.device != Device::kCpu) {
    return unsupported(fmt::format("models do not load onto the {} backend yet", backend.name));
  }
  if (!options.keep_dtype && options.dtype != DType::kF32 && options.dtype != DType::kBF16 &&
      options.dtype != DType::kF16) {
    return invalid_argument(fmt::format("weights cannot be kept in {}; use fp32, bf16 or fp16",
                                        dtype_name(options.dtype)));
  }
  HEADRACE_ASSIGN_OR_RETURN(const ModelConfig config, load_config(options.folder));
  const Family& family = find_architecture(config.architecture)->family();
  return options.source == WeightSource::kDummy ? load_dummy(config, family, options, backend)
                                                : load_checkpoint(config, family, options, backend);
}

}  // namespace headrace::model
