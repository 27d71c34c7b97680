// SPDX-License-Identifier: Apache-2.0
// A library with the few functions of the CUDA driver that the GPU probe calls: two GPUs, one of
// compute capability 9.0 and one of 8.9.
#include <cstddef>
#include <cstdio>

extern "C" {
int cuInit(unsigned) { return 0; }
int cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = 2;
  return 0;
}
int cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return 0;
}
int cuDeviceGetName(char* name, int length, int device) {
  std::snprintf(name, static_cast<size_t>(length), "Fake GPU %d", device);
  return 0;
}
int cuDeviceTotalMem_v2(size_t* size_bytes, int) {
  *size_bytes = static_cast<size_t>(139) << 30;
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  constexpr int kMajor = 75;
  *value = attribute == kMajor ? 9 - device : 9 * device;
  return 0;
}
}
