// SPDX-License-Identifier: Apache-2.0
// Engine::load: from a folder to a running engine. Reads, sizes, starts; decides nothing itself.
#include "headrace/engine.h"

#include <exception>
#include <utility>

#include "base/log.h"
#include "engine/engine_impl.h"
#include "engine/gpu_kernels.h"
#include "engine/host_memory.h"
#include "engine/sizing.h"
#include "headrace/device_report.h"
#include "model/model.h"
#include "ops/backend.h"

namespace headrace {
namespace {

model::LoadOptions load_options(const EngineOptions& options) {
  model::LoadOptions load;
  load.folder = options.model;
  load.source = options.load_format == LoadFormat::kDummy ? model::WeightSource::kDummy
                                                          : model::WeightSource::kSafetensors;
  load.dummy_seed = options.dummy_seed;
  load.keep_dtype = !options.dtype.has_value();
  load.dtype = options.dtype.value_or(load.dtype);
  return load;
}

// A folder for dummy weights may have no tokenizer; any other must.
Result<std::shared_ptr<const Tokenizer>> load_tokenizer(const EngineOptions& options) {
  auto tokenizer = Tokenizer::load(options.model);
  if (!tokenizer.ok() && tokenizer.status().code() == StatusCode::kNotFound &&
      options.load_format == LoadFormat::kDummy) {
    return std::shared_ptr<const Tokenizer>();
  }
  return tokenizer;
}

Result<engine::EngineSizes> choose_sizes(const EngineOptions& options, const model::Model& loaded) {
  model::CacheSpec spec;
  spec.page_size = options.page_size;
  spec.kv_dtype = options.dtype.value_or(DType::kF32);
  const engine::ModelSizes model_sizes = {
      .max_position_embeddings = loaded.config().max_position_embeddings,
      .page_bytes = loaded.page_bytes(spec),
      .slot_bytes = loaded.slot_bytes(spec)};
  HEADRACE_ASSIGN_OR_RETURN(
      engine::EngineSizes sizes,
      engine::resolve_sizes(options, model_sizes, engine::host_memory().available_bytes));
  if (sizes.is_context_cut) {
    log(LogLevel::kWarning,
        "max_model_len is {} instead of the model's {}: more does not fit into {} pages of {} "
        "tokens; --max-model-len sets it, --num-pages and --memory-bytes make room",
        sizes.options.max_model_len, model_sizes.max_position_embeddings, sizes.options.num_pages,
        sizes.options.page_size);
  }
  log(LogLevel::kInfo, "max_model_len {}, {} pages of {} tokens, {} slots, {} threads",
      sizes.options.max_model_len, sizes.options.num_pages, sizes.options.page_size,
      sizes.num_slots, sizes.options.num_threads);
  return sizes;
}

Result<std::unique_ptr<Engine>> load_engine(const EngineOptions& options) {
  HEADRACE_RETURN_IF_ERROR(engine::check_options(options));
  if (options.device == DeviceChoice::kCuda) {
    return invalid_argument("device cuda: " + engine::why_not_cuda(device_report()));
  }
  engine::EngineParts parts;
  HEADRACE_ASSIGN_OR_RETURN(parts.model,
                            model::load_model(load_options(options), ops::cpu_backend()));
  HEADRACE_ASSIGN_OR_RETURN(parts.model_info, inspect_model(options.model));
  HEADRACE_ASSIGN_OR_RETURN(parts.tokenizer, load_tokenizer(options));
  parts.chat_template = ChatTemplate::load(options.model);
  HEADRACE_ASSIGN_OR_RETURN(engine::EngineSizes sizes, choose_sizes(options, *parts.model));
  parts.options = std::move(sizes.options);
  parts.num_slots = sizes.num_slots;
  return engine::start_engine(std::move(parts));
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::load(const EngineOptions& options) {
  try {
    return load_engine(options);
  } catch (const std::bad_alloc&) {
    return resource_exhausted("no memory to load " + options.model +
                              ": close other programs, or use a smaller model");
  } catch (const std::exception& error) {
    return internal_error("loading " + options.model + " failed: " + error.what());
  }
}

}  // namespace headrace
