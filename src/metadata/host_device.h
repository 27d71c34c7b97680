// SPDX-License-Identifier: Apache-2.0
// Marks a function that is compiled for the host and, under nvcc, for the device as well. Index
// functions are written once with it, so that a test on the CPU runs the code the kernel runs.
// Such functions use plain C++ only: no standard library, no allocation, no exception.
#pragma once

#if defined(__CUDACC__)
#define HEADRACE_HOST_DEVICE __host__ __device__
#else
#define HEADRACE_HOST_DEVICE
#endif
