// SPDX-License-Identifier: Apache-2.0
// Memory of the patch ring and of the queue, and the drivers of patch_rules.h on the CPU: plain
// loops. No rule lives here.
#include "metadata/patch.h"

#include <fmt/format.h>

#include <new>

#include "base/check.h"
#include "metadata/patch_rules.h"

namespace headrace::metadata {
namespace {

bool is_power_of_two(int32_t value) { return value > 0 && (value & (value - 1)) == 0; }

Status check_shape(const Limits& limits, const PatchShape& shape) {
  if (!is_power_of_two(shape.record_capacity)) {
    return invalid_argument(
        fmt::format("record_capacity {} is no power of two", shape.record_capacity));
  }
  if (!is_power_of_two(shape.word_capacity) || shape.word_capacity < kPatchWordGrain) {
    return invalid_argument(fmt::format("word_capacity {} is no power of two from {} up",
                                        shape.word_capacity, kPatchWordGrain));
  }
  if (shape.blob_words < 0 || shape.blob_words > shape.word_capacity) {
    return invalid_argument(fmt::format("blob_words {} is not between 0 and word_capacity {}",
                                        shape.blob_words, shape.word_capacity));
  }
  if (shape.max_set_tokens < 1 || shape.max_set_tokens > limits.max_tokens - limits.max_rows) {
    return invalid_argument(fmt::format(
        "max_set_tokens {} is not between 1 and max_tokens {} less one for each of {} rows: raise "
        "max_tokens",
        shape.max_set_tokens, limits.max_tokens, limits.max_rows));
  }
  return {};
}

// Run twice: without memory it measures, with memory it gives out the addresses.
class Layout {
 public:
  explicit Layout(void* base) : base_(static_cast<std::byte*>(base)) {}

  template <typename T>
  T* take(int64_t count) {
    T* array = base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + size_bytes_);
    constexpr size_t kAlignBytes = 128;
    const size_t bytes = static_cast<size_t>(count) * sizeof(T);
    size_bytes_ += (bytes + kAlignBytes - 1) / kAlignBytes * kAlignBytes;
    return array;
  }
  size_t size_bytes() const { return size_bytes_; }

 private:
  std::byte* base_;
  size_t size_bytes_ = 0;
};

PatchRing lay_out_ring(Layout& layout, const PatchShape& shape) {
  PatchRing ring;
  ring.control = layout.take<PatchControl>(1);
  ring.records = layout.take<PatchRecord>(shape.record_capacity);
  ring.words = layout.take<int32_t>(shape.word_capacity);
  return ring;
}

PatchQueue lay_out_queue(Layout& layout, const Limits& limits, const PatchShape& shape) {
  PatchQueue queue;
  queue.state = layout.take<PatchState>(1);
  queue.records = layout.take<PatchRecord>(shape.record_capacity);
  queue.next = layout.take<uint64_t>(shape.record_capacity);
  queue.words = layout.take<int32_t>(shape.word_capacity);
  queue.first_pending = layout.take<uint64_t>(limits.max_rows);
  queue.tokens_at = layout.take<uint64_t>(limits.max_rows);
  queue.generation = layout.take<uint32_t>(limits.max_rows);
  queue.blobs = layout.take<int32_t>(int64_t{limits.max_rows} * shape.blob_words);
  return queue;
}

CpuStream& cpu_stream(Stream& stream) {
  HEADRACE_CHECK(stream.device() == Device::kCpu, "CPU driver of the patch ring");
  return static_cast<CpuStream&>(stream);
}

void fetch(const PatchParams& params) {
  const PatchFetch fetch = begin_fetch(params);
  for (uint64_t n = fetch.records_before + 1; n <= fetch.records_end; ++n) {
    for (int32_t i = 0; i < kPatchRecordPieces; ++i) fetch_record_piece(params, n, i);
  }
  for (uint64_t w = fetch.words_before; w < fetch.words_end; w += kPatchWordGrain) {
    fetch_words(params, w);
  }
  for (uint64_t n = fetch.records_before + 1; n <= fetch.records_end; ++n) {
    link_record(params, fetch, n);
  }
  uint64_t least = 0;
  for (int32_t r = 0; r < params.limits.max_rows; ++r) {
    const uint64_t first = params.queue.first_pending[r];
    if (first != 0 && (least == 0 || first < least)) least = first;
  }
  end_fetch(params, fetch, least);
}

}  // namespace

size_t patch_ring_bytes(const PatchShape& shape) {
  Layout layout(nullptr);
  lay_out_ring(layout, shape);
  return layout.size_bytes();
}

PatchRing patch_ring_at(void* memory, const PatchShape& shape) {
  Layout layout(memory);
  return lay_out_ring(layout, shape);
}

Result<PatchArena> PatchArena::create(Device device, const Limits& limits,
                                      const PatchShape& shape) {
  HEADRACE_RETURN_IF_ERROR(check_shape(limits, shape).with_context("patch ring"));
  PatchArena arena;
  Layout measure(nullptr);
  lay_out_queue(measure, limits, shape);
  auto buffer = Buffer::allocate_zeroed(device, measure.size_bytes());
  if (!buffer.ok()) return buffer.status().with_context("patch queue");
  arena.buffer_ = std::move(buffer).value();
  arena.shape_ = shape;
  arena.limits_ = limits;
  Layout layout(arena.buffer_.data());
  arena.queue_ = lay_out_queue(layout, limits, shape);
  return arena;
}

void advance_and_apply(Stream& stream, const AdvanceParams& advance, const PatchParams& patch) {
  cpu_stream(stream).run([advance, patch](ThreadPool&) {
    advance_step(advance);
    const uint64_t step = patch.queue.state->step + 1;
    for (int32_t r = 0; r < patch.limits.max_rows; ++r) {
      PatchedRow row = load_patched_row(advance, patch.queue, r);
      uint64_t first = patch.queue.first_pending[r];
      patch_row(advance, patch, r, 0, 1, step, first, row);
      store_patched_row(advance, patch.queue, r, first, row);
    }
  });
}

void fetch_patches(Stream& stream, const PatchParams& params) {
  cpu_stream(stream).run([params](ThreadPool&) { fetch(params); });
}

}  // namespace headrace::metadata
