// SPDX-License-Identifier: Apache-2.0
// Matrix products of a warpgroup (wgmma): c [64, N] += a [64, 16] · b [16, N] with fp32 sums, b in
// shared memory, a in shared memory or registers. Knows nothing of what is computed. Needs sm_90a.
//
// Layout of c: thread t of the warpgroup holds, of rows 16·(t / 32) + (t % 32) / 4 and 8 below it,
// columns 8·j + 2·(t % 4) and the next one: c[4·j + 0, 1] of the upper row, c[4·j + 2, 3] of the
// lower. A 64 × 16 block of it, rounded and packed in pairs, is `a` in registers.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace headrace::wgmma {

// --- order ------------------------------------------------------------------------------------

// Before the first product that reads registers or accumulators written by other instructions.
__device__ __forceinline__ void fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Waits until at most kPending of the committed groups are unfinished.
template <int kPending>
__device__ __forceinline__ void wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// Products write these registers behind the compiler's back: no access to them moves across this.
template <int kCount>
__device__ __forceinline__ void pin(float (&words)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(words[i])::"memory");
}

// Registers a thread may use from here on; the whole warpgroup calls it.
template <int kRegisters>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ __forceinline__ void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// Barrier 1…15 of `num_threads` threads: wait for all, or only be counted.
__device__ __forceinline__ void named_barrier_sync(int number, int num_threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(num_threads) : "memory");
}
__device__ __forceinline__ void named_barrier_arrive(int number, int num_threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(num_threads) : "memory");
}

// --- matrices in shared memory ------------------------------------------------------------------

// Matrices lie in atoms of 8 rows × 128 bytes, 1024-byte aligned, 16-byte units swizzled as the
// copy engine does it (unit index xor row). Rows are contiguous along K for a K-major operand and
// along N for an N-major one.
//   K-major: atoms `stride_bytes` apart along M or N.
//   N-major: atoms `stride_bytes` apart along K, `leading_bytes` apart along N.
__device__ __forceinline__ uint64_t descriptor(uint32_t address, uint32_t leading_bytes,
                                               uint32_t stride_bytes) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
  return kSwizzle128 | (uint64_t{stride_bytes >> 4} << 32) | (uint64_t{leading_bytes >> 4} << 16) |
         ((address & 0x3FFFF) >> 4);
}
// What to add to a descriptor for an address so many bytes further on.
constexpr uint64_t descriptor_offset(uint32_t bytes) { return bytes >> 4; }

// --- products -----------------------------------------------------------------------------------

enum class Major { kK = 0, kN = 1 };  // along which a row of b is contiguous

// from_shared: a and b K-major. With `accumulate` 0, c is overwritten.
template <typename T, int kN>
struct Product;

#define HEADRACE_C0 "%0, %1, %2, %3, %4, %5, %6, %7"
#define HEADRACE_C8 "%8, %9, %10, %11, %12, %13, %14, %15"
#define HEADRACE_C16 "%16, %17, %18, %19, %20, %21, %22, %23"
#define HEADRACE_C24 "%24, %25, %26, %27, %28, %29, %30, %31"
#define HEADRACE_C32 "%32, %33, %34, %35, %36, %37, %38, %39"
#define HEADRACE_C40 "%40, %41, %42, %43, %44, %45, %46, %47"
#define HEADRACE_C48 "%48, %49, %50, %51, %52, %53, %54, %55"
#define HEADRACE_C56 "%56, %57, %58, %59, %60, %61, %62, %63"
#define HEADRACE_C64 "%64, %65, %66, %67, %68, %69, %70, %71"
#define HEADRACE_C72 "%72, %73, %74, %75, %76, %77, %78, %79"
#define HEADRACE_C80 "%80, %81, %82, %83, %84, %85, %86, %87"
#define HEADRACE_C88 "%88, %89, %90, %91, %92, %93, %94, %95"
#define HEADRACE_C96 "%96, %97, %98, %99, %100, %101, %102, %103"
#define HEADRACE_C104 "%104, %105, %106, %107, %108, %109, %110, %111"
#define HEADRACE_C112 "%112, %113, %114, %115, %116, %117, %118, %119"
#define HEADRACE_C120 "%120, %121, %122, %123, %124, %125, %126, %127"
#define HEADRACE_F8(i)                                                                        \
  "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3]), "+f"(c[i + 4]), "+f"(c[i + 5]), \
      "+f"(c[i + 6]), "+f"(c[i + 7])
#define HEADRACE_LIST64 HEADRACE_C0 ", " HEADRACE_C8 ", " HEADRACE_C16 ", " HEADRACE_C24
#define HEADRACE_OPERANDS64 HEADRACE_F8(0), HEADRACE_F8(8), HEADRACE_F8(16), HEADRACE_F8(24)
#define HEADRACE_LIST80 \
  HEADRACE_C0 ", " HEADRACE_C8 ", " HEADRACE_C16 ", " HEADRACE_C24 ", " HEADRACE_C32
#define HEADRACE_OPERANDS80 \
  HEADRACE_F8(0), HEADRACE_F8(8), HEADRACE_F8(16), HEADRACE_F8(24), HEADRACE_F8(32)
#define HEADRACE_LIST96                                                              \
  HEADRACE_C0 ", " HEADRACE_C8 ", " HEADRACE_C16 ", " HEADRACE_C24 ", " HEADRACE_C32 \
              ", " HEADRACE_C40
#define HEADRACE_OPERANDS96 \
  HEADRACE_F8(0), HEADRACE_F8(8), HEADRACE_F8(16), HEADRACE_F8(24), HEADRACE_F8(32), HEADRACE_F8(40)
#define HEADRACE_LIST128                                                             \
  HEADRACE_C0 ", " HEADRACE_C8 ", " HEADRACE_C16 ", " HEADRACE_C24 ", " HEADRACE_C32 \
              ", " HEADRACE_C40 ", " HEADRACE_C48 ", " HEADRACE_C56
#define HEADRACE_OPERANDS128                                                         \
  HEADRACE_F8(0), HEADRACE_F8(8), HEADRACE_F8(16), HEADRACE_F8(24), HEADRACE_F8(32), \
      HEADRACE_F8(40), HEADRACE_F8(48), HEADRACE_F8(56)
#define HEADRACE_LIST176                                                              \
  HEADRACE_C0 ", " HEADRACE_C8 ", " HEADRACE_C16 ", " HEADRACE_C24 ", " HEADRACE_C32  \
              ", " HEADRACE_C40 ", " HEADRACE_C48 ", " HEADRACE_C56 ", " HEADRACE_C64 \
              ", " HEADRACE_C72 ", " HEADRACE_C80
#define HEADRACE_OPERANDS176                                                               \
  HEADRACE_F8(0), HEADRACE_F8(8), HEADRACE_F8(16), HEADRACE_F8(24), HEADRACE_F8(32),       \
      HEADRACE_F8(40), HEADRACE_F8(48), HEADRACE_F8(56), HEADRACE_F8(64), HEADRACE_F8(72), \
      HEADRACE_F8(80)
#define HEADRACE_LIST256                                                              \
  HEADRACE_C0 ", " HEADRACE_C8 ", " HEADRACE_C16 ", " HEADRACE_C24 ", " HEADRACE_C32  \
              ", " HEADRACE_C40 ", " HEADRACE_C48 ", " HEADRACE_C56 ", " HEADRACE_C64 \
              ", " HEADRACE_C72 ", " HEADRACE_C80 ", " HEADRACE_C88 ", " HEADRACE_C96 \
              ", " HEADRACE_C104 ", " HEADRACE_C112 ", " HEADRACE_C120
#define HEADRACE_OPERANDS256                                                                 \
  HEADRACE_F8(0), HEADRACE_F8(8), HEADRACE_F8(16), HEADRACE_F8(24), HEADRACE_F8(32),         \
      HEADRACE_F8(40), HEADRACE_F8(48), HEADRACE_F8(56), HEADRACE_F8(64), HEADRACE_F8(72),   \
      HEADRACE_F8(80), HEADRACE_F8(88), HEADRACE_F8(96), HEADRACE_F8(104), HEADRACE_F8(112), \
      HEADRACE_F8(120)

// p0…p6: numbers of the operands that follow the N / 2 accumulators.
#define HEADRACE_PRODUCT(T, TYPE, N, p0, p1, p2, p3, p4, p5, p6)                                  \
  template <>                                                                                     \
  struct Product<T, N> {                                                                          \
    static __device__ __forceinline__ void from_shared(float (&c)[N / 2], uint64_t a, uint64_t b, \
                                                       int accumulate) {                          \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #p2                                       \
                   ", 0;\n"                                                                       \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE                \
                   " {" HEADRACE_LIST##N "}, %" #p0 ", %" #p1 ", p, 1, 1, 0, 0;\n}"               \
                   : HEADRACE_OPERANDS##N                                                         \
                   : "l"(a), "l"(b), "r"(accumulate));                                            \
    }                                                                                             \
    template <Major kMajor>                                                                       \
    static __device__ __forceinline__ void from_registers(float (&c)[N / 2],                      \
                                                          const uint32_t (&a)[4], uint64_t b,     \
                                                          int accumulate) {                       \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #p5                                       \
                   ", 0;\n"                                                                       \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE                \
                   " {" HEADRACE_LIST##N "}, {%" #p0 ", %" #p1 ", %" #p2 ", %" #p3 "}, %" #p4     \
                                         ", p, 1, 1, %" #p6 ";\n}"                                \
                   : HEADRACE_OPERANDS##N                                                         \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate),         \
                     "n"(static_cast<int>(kMajor)));                                              \
    }                                                                                             \
  };
#define HEADRACE_PRODUCTS(N, ...)                         \
  HEADRACE_PRODUCT(__nv_bfloat16, "bf16", N, __VA_ARGS__) \
  HEADRACE_PRODUCT(__half, "f16", N, __VA_ARGS__)

HEADRACE_PRODUCTS(64, 32, 33, 34, 35, 36, 37, 38)
HEADRACE_PRODUCTS(80, 40, 41, 42, 43, 44, 45, 46)
HEADRACE_PRODUCTS(96, 48, 49, 50, 51, 52, 53, 54)
HEADRACE_PRODUCTS(128, 64, 65, 66, 67, 68, 69, 70)
HEADRACE_PRODUCTS(176, 88, 89, 90, 91, 92, 93, 94)
HEADRACE_PRODUCTS(256, 128, 129, 130, 131, 132, 133, 134)

#undef HEADRACE_PRODUCTS
#undef HEADRACE_PRODUCT

}  // namespace headrace::wgmma
