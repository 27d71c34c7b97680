// SPDX-License-Identifier: Apache-2.0
// Renders a parsed template. Bounded in steps and in output, since a template comes with a model
// and its input from a client. Reads nothing but the variables it is given.
#pragma once

#include <cstdint>
#include <string>

#include "headrace/status.h"
#include "text/jinja/ast.h"

namespace headrace::text::jinja {

struct RenderLimits {
  int64_t max_steps = 10'000'000;  // statements and expressions evaluated
  size_t max_output_bytes = size_t{256} << 20;
};

Result<std::string> render(const Block& block, Map variables, const RenderLimits& limits = {});

}  // namespace headrace::text::jinja
