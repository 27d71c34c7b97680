// SPDX-License-Identifier: Apache-2.0
// The import of page lists on the device against the CPU, byte for byte: rows, page tables, rows
// without keys, errors; lists longer than a block looks up at once.
#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "metadata/arena.h"
#include "metadata/cuda/import_kernel.h"
#include "tensor/cuda/cuda_error.h"
#include "tests/gpu/attention_problem.h"
#include "tests/support/random_steps.h"

namespace headrace::metadata {
namespace {

using attention::check_status;
using attention::value_of;
using test::Random;

constexpr int32_t kNumPages = 1000;

Buffer on_device(const void* values, size_t bytes) {
  Buffer buffer = value_of(Buffer::allocate(Device::kCuda, bytes));
  check_status(
      cuda_status(cudaMemcpy(buffer.data(), values, bytes, cudaMemcpyHostToDevice), "cudaMemcpy"));
  return buffer;
}
std::vector<char> on_host(const void* from, size_t bytes) {
  std::vector<char> values(bytes);
  check_status(
      cuda_status(cudaMemcpy(values.data(), from, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy"));
  return values;
}

void import_random_lists(Random& random) {
  const Limits limits{.max_rows = random.in(1, 40),
                      .max_tokens = 400,
                      .max_pages_per_row = random.pick({1, 30, 2049, 9000}),
                      .page_size = random.pick({1, 16})};
  const int32_t num_rows = random.in(1, limits.max_rows);
  std::vector<int32_t> query_indptr{0}, page_indptr{0}, last_page_len;
  for (int32_t r = 0; r < num_rows; ++r) {
    query_indptr.push_back(query_indptr.back() + random.pick({0, 1, 1, 1, 4, 10}));
    const int32_t pages = random.one_in(3) ? random.in(0, limits.max_pages_per_row)
                                           : random.in(0, min_i32(limits.max_pages_per_row, 40));
    page_indptr.push_back(page_indptr.back() + pages);
    last_page_len.push_back(random.in(random.one_in(9) ? 0 : 1, limits.page_size));
  }
  std::vector<int32_t> indices(static_cast<size_t>(page_indptr.back()) + 1);
  for (int32_t& page : indices) page = random.in(0, kNumPages - 1);
  if (random.one_in(2)) {
    indices[static_cast<size_t>(random.in(0, page_indptr.back()))] = random.pick({-1, kNumPages});
  }
  if (random.one_in(8)) page_indptr.back() = INT32_MAX;
  if (random.one_in(8)) query_indptr.back() = 500;

  const StepArena host = value_of(StepArena::create(Device::kCpu, limits));
  const StepArena device = value_of(StepArena::create(Device::kCuda, limits));
  const auto rows = static_cast<size_t>(limits.max_rows);
  std::vector<uint8_t> keyless(rows, 7);
  ImportErrors errors;
  ImportParams params{.query_indptr = query_indptr.data(),
                      .page_indptr = page_indptr.data(),
                      .page_indices = indices.data(),
                      .last_page_len = last_page_len.data(),
                      .num_page_indices = static_cast<int64_t>(indices.size()),
                      .num_rows = num_rows,
                      .num_pages = kNumPages,
                      .max_decode_query_len = 4,
                      .limits = limits,
                      .input = host.input(),
                      .keyless = keyless.data(),
                      .errors = &errors};
  Buffer device_keyless = on_device(keyless.data(), rows);
  Buffer device_errors = on_device(&errors, sizeof(errors));
  ThreadPool pool(1);
  CpuStream cpu(pool);
  import_batch(cpu, params);

  const auto ints = [](const std::vector<int32_t>& values) {
    return on_device(values.data(), values.size() * sizeof(int32_t));
  };
  const Buffer queries = ints(query_indptr);
  const Buffer lists = ints(page_indptr);
  const Buffer pages = ints(indices);
  const Buffer last = ints(last_page_len);
  params.query_indptr = queries.as<int32_t>();
  params.page_indptr = lists.as<int32_t>();
  params.page_indices = pages.as<int32_t>();
  params.last_page_len = last.as<int32_t>();
  params.input = device.input();
  params.keyless = device_keyless.as<uint8_t>();
  params.errors = device_errors.as<ImportErrors>();
  check_status(launch_import(nullptr, params));
  check_status(cuda_status(cudaDeviceSynchronize(), "cudaDeviceSynchronize"));

  // A broken row's pages past those that it counts may differ: nobody reads them.
  const std::vector<char> got_rows = on_host(device.input().rows, rows * sizeof(Row));
  ASSERT_EQ(std::memcmp(got_rows.data(), host.input().rows, rows * sizeof(Row)), 0);
  const std::vector<char> got_keyless = on_host(device_keyless.data(), rows);
  ASSERT_EQ(std::memcmp(got_keyless.data(), keyless.data(), rows), 0);
  for (int32_t r = 0; r < *host.input().num_rows; ++r) {
    const int64_t first = int64_t{r} * limits.max_pages_per_row;
    const auto bytes = static_cast<size_t>(host.input().rows[r].num_pages) * sizeof(int32_t);
    const std::vector<char> got = on_host(device.input().page_table + first, bytes);
    ASSERT_EQ(std::memcmp(got.data(), host.input().page_table + first, bytes), 0) << "row " << r;
  }
  int32_t counts[2];
  const std::vector<char> got_errors = on_host(device_errors.data(), sizeof(errors));
  std::memcpy(counts, got_errors.data(), sizeof(counts));
  ASSERT_EQ(counts[0], errors.broken_rows);
  ASSERT_EQ(counts[1], errors.broken_batches);
}

TEST(ImportGpu, EqualsTheCpu) {
  Random random(23);
  for (int batch = 0; batch < 300; ++batch) {
    import_random_lists(random);
    if (testing::Test::HasFatalFailure()) FAIL() << "batch " << batch;
  }
}

}  // namespace
}  // namespace headrace::metadata
