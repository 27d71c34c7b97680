// SPDX-License-Identifier: Apache-2.0
#include "base/cpu_features.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <cstdlib>
#include <cstring>

#include "base/log.h"

namespace headrace {
namespace {

// clang 14 does not know __builtin_cpu_supports("f16c"): leaf 1, ECX bit 29.
bool has_f16c() {
#if defined(__x86_64__)
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx >> 29 & 1u) != 0;
#else
  return false;
#endif
}

bool has_avx2() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
#else
  return false;
#endif
}

Isa choose_isa() {
  const Isa best = has_avx2() ? Isa::kAvx2 : Isa::kScalar;
  const char* wanted = std::getenv("HEADRACE_CPU_ISA");
  if (wanted == nullptr || std::strcmp(wanted, isa_name(best)) == 0) return best;
  if (std::strcmp(wanted, "scalar") == 0) return Isa::kScalar;
  log(LogLevel::kWarning,
      "HEADRACE_CPU_ISA={} is unknown or not offered by this processor; using {} (scalar and avx2 "
      "exist)",
      wanted, isa_name(best));
  return best;
}

}  // namespace

Isa cpu_isa() {
  static const Isa isa = choose_isa();
  return isa;
}

const char* isa_name(Isa isa) { return isa == Isa::kAvx2 ? "avx2" : "scalar"; }

std::vector<std::string> cpu_isa_list() {
  std::vector<std::string> names;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2")) names.emplace_back("avx2");
  if (__builtin_cpu_supports("fma")) names.emplace_back("fma");
  if (has_f16c()) names.emplace_back("f16c");
  if (__builtin_cpu_supports("avx512f")) names.emplace_back("avx512f");
  if (__builtin_cpu_supports("avx512bw")) names.emplace_back("avx512bw");
  if (__builtin_cpu_supports("avx512vnni")) names.emplace_back("avx512vnni");
  if (__builtin_cpu_supports("avx512bf16")) names.emplace_back("avx512bf16");
#endif
  return names;
}

}  // namespace headrace
