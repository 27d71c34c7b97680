// SPDX-License-Identifier: Apache-2.0
#include "tests/support/model_driver.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <stdexcept>

#include "base/float16.h"
#include "gdn/slot_layout.h"
#include "metadata/index.h"
#include "model/cache_layout.h"

namespace headrace::test {
namespace {

constexpr int32_t kGarbage = 0x5A5A5A5A;
constexpr int32_t kMaxCheckpoints = 8;  // of a step

template <typename T>
T unwrap(Result<T> result) {
  if (!result.ok()) throw std::runtime_error(result.status().message());
  return std::move(result).value();
}

metadata::Limits make_limits(const DriverOptions& options) {
  metadata::Limits limits;
  limits.max_rows = options.max_rows;
  limits.max_tokens = options.max_tokens;
  limits.page_size = options.page_size;
  limits.max_pages_per_row = metadata::pages_for(options.max_len, options.page_size);
  limits.max_checkpoints = kMaxCheckpoints;
  limits.num_workers = 4;
  return limits;
}

// Twice as many as the rows can use, so that some stay free.
model::CacheSpec make_spec(const DriverOptions& options) {
  model::CacheSpec spec;
  spec.page_size = options.page_size;
  spec.kv_dtype = options.kv_dtype;
  spec.num_pages =
      1 + 2 * options.max_rows * metadata::pages_for(options.max_len, options.page_size);
  spec.num_slots = 1 + 2 * options.max_rows + kMaxCheckpoints;
  spec.max_window = options.max_window;
  return spec;
}

// Ids from 1, in an order that no test relies on.
std::vector<int32_t> shuffled_ids(int32_t end, uint64_t seed) {
  std::vector<int32_t> ids;
  for (int32_t id = 1; id < end; ++id) ids.push_back(id);
  std::shuffle(ids.begin(), ids.end(), std::mt19937_64(seed));
  return ids;
}

// All bits set is a NaN in every float type.
void poison(void* data, int64_t bytes) { std::memset(data, 0xff, static_cast<size_t>(bytes)); }

float load(const void* data, DType dtype, int64_t index) {
  switch (dtype) {
    case DType::kBF16:
      return to_float(static_cast<const BF16*>(data)[index]);
    case DType::kF16:
      return to_float(static_cast<const F16*>(data)[index]);
    default:
      return static_cast<const float*>(data)[index];
  }
}

}  // namespace

ModelDriver::ModelDriver(const model::Model& model, const DriverOptions& options)
    : model_(model),
      options_(options),
      pool_(options.num_threads),
      stream_(pool_),
      arena_(unwrap(metadata::StepArena::create(Device::kCpu, make_limits(options)))),
      cache_(unwrap(model::allocate_cache(model, make_spec(options)))),
      workspace_(unwrap(Buffer::allocate(
          Device::kCpu, static_cast<size_t>(model.workspace_bytes(arena_.limits()))))),
      token_ids_(static_cast<size_t>(options.max_tokens), kGarbage),
      logits_(static_cast<size_t>(options.max_tokens) *
              static_cast<size_t>(model.config().vocab_size)),
      free_pages_(shuffled_ids(cache_.spec.num_pages, 7)),
      free_slots_(shuffled_ids(cache_.spec.num_slots, 8)) {
  poison(cache_.pages.data(), static_cast<int64_t>(cache_.pages.size_bytes()));
  if (cache_.slots.size_bytes() > 0) {
    poison(cache_.slots.data(), static_cast<int64_t>(cache_.slots.size_bytes()));
  }
  poison(workspace_.data(), static_cast<int64_t>(workspace_.size_bytes()));
  io_.token_ids = token_ids_.data();
  io_.logits = logits_.data();
  io_.step = arena_.view();
  io_.workspace = workspace_.data();
  if (options.replay) {
    stream_.begin_capture();
    submit();
    graph_ = stream_.end_capture();
  }
}

void ModelDriver::submit() {
  metadata::build(stream_, arena_);
  model_.forward(stream_, cache_, io_);
}

ModelDriver::Sequence& ModelDriver::live(int sequence) {
  if (sequence < 0 || static_cast<size_t>(sequence) >= sequences_.size() ||
      !sequences_[static_cast<size_t>(sequence)].live) {
    throw std::runtime_error("no such sequence");
  }
  return sequences_[static_cast<size_t>(sequence)];
}

int32_t ModelDriver::take_slot() {
  if (free_slots_.empty()) throw std::runtime_error("no free slot");
  const int32_t slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

int ModelDriver::add_sequence() {
  Sequence sequence;
  sequence.slot = take_slot();
  sequence.live = true;
  sequences_.push_back(std::move(sequence));
  return static_cast<int>(sequences_.size()) - 1;
}

void ModelDriver::poison_slot(int32_t slot) {
  const int64_t bytes = model_.slot_bytes(cache_.spec);
  if (bytes > 0) poison(cache_.slots.as<char>() + slot * bytes, bytes);
}

void ModelDriver::release(int id) {
  Sequence& sequence = live(id);
  const int64_t page_bytes = model_.page_bytes(cache_.spec);
  for (const int32_t page : sequence.pages) {
    poison(cache_.pages.as<char>() + page * page_bytes, page_bytes);
  }
  free_pages_.insert(free_pages_.begin(), sequence.pages.begin(), sequence.pages.end());
  std::vector<int32_t> slots = {sequence.slot};
  for (const auto& [position, slot] : sequence.checkpoints) slots.push_back(slot);
  for (const int32_t slot : slots) poison_slot(slot);
  free_slots_.insert(free_slots_.begin(), slots.begin(), slots.end());
  sequence = {};
}

void ModelDriver::copy_pages(const Sequence& from, Sequence& to, int32_t num_tokens) {
  grow(to, num_tokens);
  to.length = num_tokens;
  const int64_t bytes = model_.page_bytes(cache_.spec);
  for (size_t i = 0; i < to.pages.size(); ++i) {
    std::memcpy(cache_.pages.as<char>() + to.pages[i] * bytes,
                cache_.pages.as<char>() + from.pages[i] * bytes, static_cast<size_t>(bytes));
  }
}

int ModelDriver::fork(int id) {
  const int copy_id = add_sequence();
  const Sequence from = live(id);
  Sequence& to = live(copy_id);
  copy_pages(from, to, from.length);
  to.num_accepted = from.num_accepted;
  const int64_t bytes = model_.slot_bytes(cache_.spec);
  if (bytes > 0) {
    std::memcpy(cache_.slots.as<char>() + to.slot * bytes,
                cache_.slots.as<char>() + from.slot * bytes, static_cast<size_t>(bytes));
  }
  return copy_id;
}

int ModelDriver::resume(int id, int32_t position) {
  const int copy_id = add_sequence();
  const Sequence from = live(id);
  Sequence& to = live(copy_id);
  copy_pages(from, to, position);
  to.checkpoint = from.checkpoints.at(position);
  return copy_id;
}

void ModelDriver::grow(Sequence& sequence, int32_t num_tokens) {
  const auto needed = static_cast<size_t>(metadata::pages_for(num_tokens, cache_.spec.page_size));
  while (sequence.pages.size() < needed) {
    if (free_pages_.empty()) throw std::runtime_error("no free page");
    sequence.pages.push_back(free_pages_.back());
    free_pages_.pop_back();
  }
}

void ModelDriver::fill_input(const std::vector<DriverRow>& rows) {
  const metadata::StepInput& input = arena_.input();
  const metadata::Limits& limits = arena_.limits();
  if (rows.size() > static_cast<size_t>(limits.max_rows)) throw std::runtime_error("too many rows");
  *input.num_rows = static_cast<int32_t>(rows.size());
  *input.padded_rows = options_.replay ? limits.max_rows : *input.num_rows;
  std::fill(token_ids_.begin(), token_ids_.end(), kGarbage);
  std::fill_n(input.page_table, int64_t{limits.max_rows} * limits.max_pages_per_row, kGarbage);
  size_t num_tokens = 0;
  for (size_t r = 0; r < rows.size(); ++r) {
    metadata::Row& row = input.rows[r];
    row = {};
    if (rows[r].sequence < 0) continue;
    Sequence& sequence = live(rows[r].sequence);
    if (sequence.window > 0) throw std::runtime_error("a verify row waits for accept()");
    row.query_len = static_cast<int32_t>(rows[r].tokens.size());
    row.context_len = sequence.length;
    row.num_drafts = rows[r].num_drafts;
    row.flags = rows[r].emit ? metadata::kRowEmit : 0u;
    row.initial_slot = sequence.checkpoint != 0 ? sequence.checkpoint : sequence.slot;
    row.final_slot = sequence.slot;
    row.num_accepted = sequence.num_accepted;
    grow(sequence, sequence.length + row.query_len);
    row.num_pages = static_cast<int32_t>(sequence.pages.size());
    if (row.num_pages > limits.max_pages_per_row ||
        num_tokens + rows[r].tokens.size() > token_ids_.size()) {
      throw std::runtime_error("more tokens than the driver was made for");
    }
    std::copy(sequence.pages.begin(), sequence.pages.end(),
              input.page_table + static_cast<int64_t>(r) * limits.max_pages_per_row);
    std::copy(rows[r].tokens.begin(), rows[r].tokens.end(),
              token_ids_.begin() + static_cast<ptrdiff_t>(num_tokens));
    num_tokens += rows[r].tokens.size();
  }
  add_checkpoints(rows);
  const Status status = metadata::check_rows(arena_);
  if (!status.ok()) throw std::runtime_error(status.message());
}

void ModelDriver::add_checkpoints(const std::vector<DriverRow>& rows) {
  const metadata::StepInput& input = arena_.input();
  *input.num_checkpoints = 0;
  for (size_t r = 0; r < rows.size(); ++r) {
    for (const int32_t position : rows[r].checkpoints) {
      if (*input.num_checkpoints == kMaxCheckpoints) throw std::runtime_error("many checkpoints");
      const int32_t slot = take_slot();
      live(rows[r].sequence).checkpoints[position] = slot;
      input.checkpoints[(*input.num_checkpoints)++] = {static_cast<int32_t>(r), slot, position};
    }
  }
}

std::vector<std::vector<Logits>> ModelDriver::step(const std::vector<DriverRow>& rows) {
  fill_input(rows);
  std::fill(logits_.begin(), logits_.end(), std::numeric_limits<float>::quiet_NaN());
  if (options_.replay) {
    stream_.launch(graph_);
  } else {
    submit();
  }
  std::vector<std::vector<Logits>> result(rows.size());
  const int64_t vocab = model_.config().vocab_size;
  for (size_t r = 0; r < rows.size(); ++r) {
    const int32_t* start = io_.step.logit_start + r;
    for (int64_t i = start[0]; i < start[1]; ++i) {
      result[r].emplace_back(logits_.begin() + i * vocab, logits_.begin() + (i + 1) * vocab);
    }
    if (rows[r].sequence < 0 || rows[r].tokens.empty()) continue;
    Sequence& sequence = live(rows[r].sequence);
    sequence.num_accepted = 0;
    sequence.checkpoint = 0;
    if (rows[r].num_drafts > 0) {
      sequence.window = static_cast<int32_t>(rows[r].tokens.size());
    } else {
      sequence.length += static_cast<int32_t>(rows[r].tokens.size());
    }
  }
  return result;
}

void ModelDriver::accept(int id, int32_t num_tokens) {
  Sequence& sequence = live(id);
  if (num_tokens < 1 || num_tokens > sequence.window) {
    throw std::runtime_error("accept() of tokens that no verify row brought");
  }
  sequence.length += num_tokens;
  sequence.num_accepted = num_tokens;
  sequence.window = 0;
}

Logits ModelDriver::prefill(int sequence, const std::vector<int32_t>& tokens,
                            int32_t chunk_tokens) {
  Logits last;
  for (size_t begin = 0; begin < tokens.size(); begin += static_cast<size_t>(chunk_tokens)) {
    const size_t end = std::min(tokens.size(), begin + static_cast<size_t>(chunk_tokens));
    const bool final_chunk = end == tokens.size();
    auto logits = step({{.sequence = sequence,
                         .tokens = {tokens.begin() + static_cast<ptrdiff_t>(begin),
                                    tokens.begin() + static_cast<ptrdiff_t>(end)},
                         .emit = final_chunk}});
    if (final_chunk) last = std::move(logits.front().front());
  }
  return last;
}

std::vector<float> ModelDriver::kv(int id, int32_t index, bool value) const {
  const Sequence& sequence = sequences_.at(static_cast<size_t>(id));
  // kv_cache_of_layer() hands out a writable view; only read here.
  const attention::KvCache kv =
      model::kv_cache_of_layer(model_.config(), const_cast<model::Cache&>(cache_), index);
  const model::ModelConfig& config = model_.config();
  std::vector<float> out;
  for (int32_t t = 0; t < sequence.length; ++t) {
    const int64_t page = sequence.pages[static_cast<size_t>(t / kv.page_size)];
    for (int32_t head = 0; head < config.num_kv_heads; ++head) {
      const int64_t begin = page * kv.page_stride + (t % kv.page_size) * kv.token_stride +
                            head * kv.head_stride + (value ? kv.value_offset : 0);
      for (int32_t d = 0; d < config.head_dim; ++d)
        out.push_back(load(kv.data, kv.dtype, begin + d));
    }
  }
  return out;
}

std::vector<float> ModelDriver::keys(int sequence, int32_t index) const {
  return kv(sequence, index, false);
}

std::vector<float> ModelDriver::values(int sequence, int32_t index) const {
  return kv(sequence, index, true);
}

std::vector<float> ModelDriver::conv_window(int id, int32_t index) const {
  const gdn::GdnShape& shape = model_.config().gdn;
  const gdn::SlotPool pool =
      model::slot_pool_of_layer(model_.config(), const_cast<model::Cache&>(cache_), index);
  const float* begin = gdn::slot_data(pool, sequences_.at(static_cast<size_t>(id)).slot) +
                       gdn::slot_layout(shape, pool.max_window).conv;
  return {begin, begin + int64_t{shape.conv_width - 1} * shape.conv_dim()};
}

std::vector<float> ModelDriver::state(int id, int32_t index) const {
  const gdn::GdnShape& shape = model_.config().gdn;
  const gdn::SlotPool pool =
      model::slot_pool_of_layer(model_.config(), const_cast<model::Cache&>(cache_), index);
  const float* begin = gdn::slot_data(pool, sequences_.at(static_cast<size_t>(id)).slot) +
                       gdn::slot_layout(shape, pool.max_window).state;
  return {begin, begin + int64_t{shape.value_dim()} * shape.k_dim};
}

std::vector<float> ModelDriver::everything(int sequence) const {
  std::vector<float> all;
  const auto append = [&](const std::vector<float>& part) {
    all.insert(all.end(), part.begin(), part.end());
  };
  const model::ModelConfig& config = model_.config();
  for (int32_t i = 0; i < config.num_layers_of(model::LayerKind::kAttention); ++i) {
    append(keys(sequence, i));
    append(values(sequence, i));
  }
  for (int32_t i = 0; i < config.num_layers_of(model::LayerKind::kGdn); ++i) {
    append(conv_window(sequence, i));
    append(state(sequence, i));
  }
  return all;
}

int32_t argmax(const Logits& logits) {
  return static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

float gap(const Logits& logits) {
  const int32_t best = argmax(logits);
  float second = -std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (static_cast<int32_t>(i) != best) second = std::max(second, logits[i]);
  }
  return logits[static_cast<size_t>(best)] - second;
}

double max_abs_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(double{a[i]} - double{b[i]});
    if (!(difference <= worst)) worst = difference;  // a NaN sticks
  }
  return worst;
}

}  // namespace headrace::test
