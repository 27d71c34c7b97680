// SPDX-License-Identifier: Apache-2.0
#include "cli/json_reports.h"

#include <nlohmann/json.hpp>

#include "headrace/version.h"

namespace headrace::cli {
namespace {

using Json = nlohmann::ordered_json;

const char* fit_name(KernelFit fit) {
  return fit == KernelFit::kAll ? "all" : fit == KernelFit::kSome ? "some" : "none";
}

// One line; bytes that are no UTF-8 (a token may be half a code point) become U+FFFD.
std::string line_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string generation_json(const GenerateOptions& options,
                            const std::vector<int32_t>& prompt_token_ids,
                            const Generation& generation, double load_s) {
  const RequestTimings& timings = generation.statistics.timings;
  return line_of({{"model", options.engine.model},
                  {"text", generation.text},
                  {"prompt_token_ids", prompt_token_ids},
                  {"token_ids", generation.token_ids},
                  {"finish_reason", finish_reason_name(generation.statistics.finish)},
                  {"seed", options.sampling.seed},
                  {"timings",
                   {{"load_s", load_s},
                    {"queued_s", timings.queued_s},
                    {"first_token_s", timings.first_token_s},
                    {"total_s", timings.total_s},
                    {"tokens_per_s", tokens_per_second(generation.statistics)}}}});
}

std::string tokens_json(const std::string& text, const std::vector<int32_t>& token_ids,
                        const Tokenizer& tokenizer) {
  Json tokens = Json::array();
  for (int32_t id : token_ids) {
    tokens.push_back(
        {{"id", id}, {"text", tokenizer.token_bytes(id)}, {"special", tokenizer.is_special(id)}});
  }
  return line_of({{"text", text}, {"token_ids", token_ids}, {"tokens", tokens}});
}

std::string device_json(const DeviceReport& report, const std::vector<std::string>& failures) {
  Json gpus = Json::array();
  for (const GpuReport& gpu : report.gpus) {
    gpus.push_back({{"name", gpu.name},
                    {"memory_total_bytes", gpu.memory_total_bytes},
                    {"compute_capability_major", gpu.compute_capability_major},
                    {"compute_capability_minor", gpu.compute_capability_minor},
                    {"kernels", fit_name(gpu.kernels)}});
  }
  return line_of({{"version", version()},
                  {"cpu",
                   {{"model_name", report.cpu.model_name},
                    {"num_logical_cores", report.cpu.num_logical_cores},
                    {"isa", report.cpu.isa},
                    {"isa_in_use", report.cpu.isa_in_use},
                    {"memory_total_bytes", report.cpu.memory_total_bytes},
                    {"memory_available_bytes", report.cpu.memory_available_bytes}}},
                  {"driver_found", report.driver_found},
                  {"driver_version", report.driver_version},
                  {"driver_cuda_version", report.driver_cuda_version},
                  {"built_with_cuda", report.built_with_cuda},
                  {"kernel_architectures", report.kernel_architectures},
                  {"gpus", gpus},
                  {"advice", report.advice},
                  {"failures", failures}});
}

}  // namespace headrace::cli
