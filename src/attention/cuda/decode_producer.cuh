// SPDX-License-Identifier: Apache-2.0
// The half of the decode kernel that fills the ring: looks pages up and starts the copies of keys
// and values, tile after tile, as slots come free. Knows nothing of what is computed from them.
#pragma once

#include "attention/cuda/decode_params.h"
#include "attention/cuda/decode_traits.h"
#include "metadata/index.h"
#include "metadata/split.h"
#include "tensor/cuda/ptx.cuh"

namespace headrace::attention {

// Slots in use order. Producers and consumers walk it alike.
template <int kSlots>
struct RingPosition {
  int32_t slot = 0;
  uint32_t phase = 0;
  __device__ void advance() {
    if (++slot == kSlots) {
      slot = 0;
      phase ^= 1;
    }
  }
};

template <typename Traits>
struct Ring {
  char* slots;      // [kSlots, kSlotBytes]
  uint64_t* full;   // [kSlots] the copies into the slot have landed
  uint64_t* empty;  // [kSlots] the consumers are done with it
  __device__ char* slot(int32_t i) const { return slots + i * Traits::kSlotBytes; }
};

// A piece of the plan as the producer hands it to the consumers, with what they need of its row.
struct PieceTask {
  int32_t key_begin;
  int32_t key_end;  // 0: there are no more
  int32_t context_len;
  int32_t query_len;
  int32_t query_start;  // first token of the row in the step
  int32_t partial;
  int32_t whole;  // the row has no other piece
};
inline constexpr int kTasks = 2;

struct TaskQueue {
  PieceTask* tasks;  // [kTasks]
  uint64_t* full;    // [kTasks] the task is there
  uint64_t* empty;   // [kTasks] every consumer thread has read it
};

// Keys of one piece of the plan, in tiles from the 16-key boundary at or below its first key.
struct TileRange {
  int32_t first_piece;  // in pieces of 16 keys of the row
  int32_t num_pieces;
  __device__ TileRange(int32_t key_begin, int32_t key_end)
      : first_piece(static_cast<int32_t>(static_cast<uint32_t>(key_begin) / kPieceKeys)),
        num_pieces(
            static_cast<int32_t>(static_cast<uint32_t>(key_end + kPieceKeys - 1) / kPieceKeys) -
            first_piece) {}
};

// Byte offset of a 16-byte chunk inside a piece, swizzled as the copy engine does it: the address
// bits above the line number are XORed into the chunk number.
template <typename Traits>
__device__ __forceinline__ uint32_t chunk_offset(int key, int chunk) {
  constexpr int kChunksPerLine = Traits::kLineBytes / 16;
  const uint32_t linear =
      static_cast<uint32_t>((chunk / kChunksPerLine) * Traits::kSliceBytes +
                            key * Traits::kLineBytes + (chunk % kChunksPerLine) * 16);
  return linear ^ (((linear >> 7) & (kChunksPerLine - 1)) << 4);
}

// Waits for the kernel's dependencies once, when the first key that they may have written is
// needed.
class DependencyGate {
 public:
  __device__ explicit DependencyGate(bool passed) : passed_(passed) {}
  __device__ void pass() {
    if (!passed_) ptx::wait_for_dependencies();
    passed_ = true;
  }

 private:
  bool passed_;
};

// The task of a worker's first piece.
__device__ __forceinline__ PieceTask first_task(const metadata::SplitWorker& begin) {
  return {.key_begin = begin.key_begin,
          .key_end = begin.key_end,
          .context_len = begin.context_len,
          .query_len = begin.query_len,
          .query_start = begin.query_start,
          .partial = begin.partial,
          .whole = begin.row_partials == 1 ? 1 : 0};
}

// The task of a piece. All loads are independent of one another.
__device__ __forceinline__ PieceTask task_of(const DecodeParams& params,
                                             const metadata::SplitPiece& piece) {
  return {.key_begin = piece.key_begin,
          .key_end = piece.key_end,
          .context_len = params.split.context_len[piece.row],
          .query_len = params.split.query_len[piece.row],
          .query_start = params.split.query_start[piece.row],
          .partial = piece.partial,
          .whole = piece.whole ? 1 : 0};
}

// One thread of the block hands a task over.
__device__ __forceinline__ void push_task(const TaskQueue& queue, RingPosition<kTasks>& position,
                                          const PieceTask& task) {
  ptx::mbarrier_wait(&queue.empty[position.slot], position.phase ^ 1);
  queue.tasks[position.slot] = task;
  ptx::mbarrier_arrive(&queue.full[position.slot]);
  position.advance();
}

// One warp: lanes hold the pages of the next 32 pieces; a lane starts the copy of a piece.
template <typename Traits>
class TensorCopyProducer {
  static constexpr int32_t kLanes = 32;
  static constexpr int32_t kTilePieces = kTileKeys / kPieceKeys;

 public:
  __device__ TensorCopyProducer(const DecodeParams& params, const KvTensorMaps& maps,
                                const Ring<Traits>& ring, int32_t kv_head)
      : params_(params),
        maps_(maps),
        ring_(ring),
        kv_head_(kv_head),
        lane_(static_cast<int32_t>(threadIdx.x % kLanes)),
        policy_(ptx::streaming_policy()) {}

  // Begins to look up the pages of a piece, before its lengths are known.
  __device__ void start(int32_t row, int32_t key_begin) {
    table_ = params_.page_table + static_cast<int64_t>(row) * params_.max_pages_per_row;
    first_piece_ = key_begin / kPieceKeys;
    next_page_ = page_of(lane_);
  }

  __device__ void run(const PieceTask& task, DependencyGate& gate) {
    const TileRange range(task.key_begin, task.key_end);
    int32_t page = metadata::kNullPage;
    for (int32_t base = 0; base < range.num_pieces; base += kTilePieces) {
      if (base % kLanes == 0) {
        page = next_page_;
        next_page_ = page_of(base + kLanes + lane_);
      }
      const int32_t in_tile = metadata::min_i32(kTilePieces, range.num_pieces - base);
      if ((range.first_piece + base + in_tile) * kPieceKeys > task.context_len) gate.pass();
#pragma unroll 1
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int part = 0; part < Traits::kSlotsPerTile; ++part) {
          const int32_t first = part * Traits::kSlotPieces;
          const int32_t in_slot = metadata::min_i32(Traits::kSlotPieces, in_tile - first);
          if (in_slot > 0)
            fill_slot(half == 0 ? &maps_.keys : &maps_.values, base + first, in_slot, page);
        }
      }
    }
    // Another pass over the same keys begins where this one did.
    next_page_ = page_of(lane_);
  }

 private:
  // Bounded by the table and not by the row's length, which may still be on its way.
  __device__ int32_t page_of(int32_t nth) const {
    const int32_t in_table = params_.by_page_size.quotient((first_piece_ + nth) * kPieceKeys);
    return in_table < params_.max_pages_per_row ? table_[in_table] : metadata::kNullPage;
  }

  __device__ void fill_slot(const CUtensorMap* map, int32_t first, int32_t in_slot, int32_t page) {
    ptx::mbarrier_wait(&ring_.empty[position_.slot], position_.phase ^ 1);
    uint64_t* full = &ring_.full[position_.slot];
    if (lane_ == 0) {
      ptx::mbarrier_arrive_expect_bytes(full, static_cast<uint32_t>(in_slot * Traits::kPieceBytes));
    }
    const int32_t nth = first + lane_;
    const int32_t my_page = __shfl_sync(0xffffffffu, page, nth % kLanes);
    if (lane_ < in_slot) {
      const int32_t token = params_.by_page_size.remainder((first_piece_ + nth) * kPieceKeys);
      ptx::tensor_copy_5d(ring_.slot(position_.slot) + lane_ * Traits::kPieceBytes, map, full,
                          policy_, 0, token, 0, kv_head_, my_page);
    }
    position_.advance();
  }

  const DecodeParams& params_;
  const KvTensorMaps& maps_;
  const Ring<Traits>& ring_;
  int32_t kv_head_;
  int32_t lane_;
  uint64_t policy_;  // keys and values are read once a step
  RingPosition<Traits::kSlots> position_;
  const int32_t* table_ = nullptr;
  int32_t first_piece_ = 0;
  int32_t next_page_ = 0;
};

// All producer threads: 16 bytes each, from wherever the token's page lies.
template <typename Traits>
class GatherProducer {
  using Kv = typename Traits::Kv;
  static constexpr int32_t kTilePieces = kTileKeys / kPieceKeys;
  static constexpr int32_t kChunks = Traits::kHeadBytes / 16;  // of one key
  static constexpr int32_t kKeysAtOnce = Traits::kProducers / kChunks;
  static_assert(Traits::kProducers % kChunks == 0);

 public:
  __device__ GatherProducer(const DecodeParams& params, const KvTensorMaps&,
                            const Ring<Traits>& ring, int32_t kv_head)
      : params_(params),
        ring_(ring),
        thread_(static_cast<int32_t>(threadIdx.x) - Traits::kConsumers),
        data_(static_cast<const Kv*>(params.cache) + kv_head * params.head_stride +
              thread_ % kChunks * (16 / static_cast<int32_t>(sizeof(Kv)))) {}

  __device__ void start(int32_t row, int32_t) {
    table_ = params_.page_table + static_cast<int64_t>(row) * params_.max_pages_per_row;
  }

  __device__ void run(const PieceTask& task, DependencyGate& gate) {
    const TileRange range(task.key_begin, task.key_end);
    for (int32_t base = 0; base < range.num_pieces; base += kTilePieces) {
      const int32_t in_tile = metadata::min_i32(kTilePieces, range.num_pieces - base);
      if ((range.first_piece + base + in_tile) * kPieceKeys > task.context_len) gate.pass();
#pragma unroll 1
      for (int half = 0; half < 2; ++half) {
        const Kv* data = half == 0 ? data_ : data_ + params_.value_offset;
#pragma unroll 1
        for (int part = 0; part < Traits::kSlotsPerTile; ++part) {
          const int32_t first = part * Traits::kSlotPieces;
          const int32_t in_slot = metadata::min_i32(Traits::kSlotPieces, in_tile - first);
          if (in_slot <= 0) break;
          fill_slot(data, (range.first_piece + base + first) * kPieceKeys, in_slot * kPieceKeys,
                    task.key_end);
        }
      }
    }
  }

 private:
  __device__ void fill_slot(const Kv* data, int32_t first_key, int32_t num_keys, int32_t key_end) {
    ptx::mbarrier_wait(&ring_.empty[position_.slot], position_.phase ^ 1);
    char* slot = ring_.slot(position_.slot);
#pragma unroll 4
    for (int32_t i = thread_ / kChunks; i < num_keys; i += kKeysAtOnce) {
      const int32_t key = first_key + i;
      // Keys past the piece's end are masked; zeros keep what is multiplied finite.
      const bool valid = key < key_end;
      const int32_t in_table = params_.by_page_size.quotient(key);
      const int64_t page = valid ? table_[in_table] : metadata::kNullPage;
      const Kv* from = data + page * params_.page_stride +
                       params_.by_page_size.remainder(key) * params_.token_stride;
      ptx::async_copy_16(slot + i / kPieceKeys * Traits::kPieceBytes +
                             chunk_offset<Traits>(static_cast<uint32_t>(i % kPieceKeys),
                                                  static_cast<uint32_t>(thread_ % kChunks)),
                         from, valid);
    }
    ptx::async_copies_arrive(&ring_.full[position_.slot]);
    position_.advance();
  }

  const DecodeParams& params_;
  const Ring<Traits>& ring_;
  int32_t thread_;
  const Kv* data_;
  RingPosition<Traits::kSlots> position_;
  const int32_t* table_ = nullptr;
};

template <typename Traits>
using KvProducer = std::conditional_t<Traits::kLoader == KvLoader::kTensorCopy,
                                      TensorCopyProducer<Traits>, GatherProducer<Traits>>;

// `producer` has been started on the first piece of a worker that begins so.
template <typename Traits>
__device__ void produce(const DecodeParams& params, KvProducer<Traits>& producer,
                        const TaskQueue& queue, int32_t worker,
                        const metadata::SplitWorker& begin) {
  const bool pushes = threadIdx.x == Traits::kConsumers;
  RingPosition<kTasks> position;
  DependencyGate gate(!params.early_pages);
  metadata::SplitWalk walk(params.split, worker, begin);
  PieceTask task = first_task(begin);
  for (bool more = begin.has_work(); more;) {
    if (pushes) push_task(queue, position, task);
    __syncwarp();
    for (int32_t done = 0; done < task.query_len * params.group; done += Traits::kQueries) {
      producer.run(task, gate);
    }
    metadata::SplitPiece piece;
    more = walk.next(&piece);
    if (more) {
      producer.start(piece.row, piece.key_begin);
      task = task_of(params, piece);
    }
  }
  if (pushes) push_task(queue, position, PieceTask{});
  gate.pass();
  // Copies must have landed before the block's shared memory is someone else's.
  if constexpr (Traits::kLoader == KvLoader::kGather) ptx::async_copies_wait_all();
}

}  // namespace headrace::attention
