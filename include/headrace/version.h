// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace headrace {

// "0.1.0"
const char* version();
// The text of THIRD_PARTY_NOTICES: libraries, demo weights and demo text with their licences.
const char* third_party_notices();

}  // namespace headrace
