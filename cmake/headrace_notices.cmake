# Compiles THIRD_PARTY_NOTICES into the library, for third_party_notices().
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS THIRD_PARTY_NOTICES)
file(READ THIRD_PARTY_NOTICES headrace_notices_text)
file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/generated/third_party_notices.cc @ONLY CONTENT
[==[// Generated from THIRD_PARTY_NOTICES.
#include "headrace/version.h"

namespace headrace {

const char* third_party_notices() {
  return R"notices(@headrace_notices_text@)notices";
}

}  // namespace headrace
]==])
target_sources(headrace PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/generated/third_party_notices.cc)
