// SPDX-License-Identifier: Apache-2.0
// Random steps against the naive reference: every replay of one captured node brings other lengths,
// kinds and counts into an arena whose derived arrays hold garbage.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "metadata/arena.h"
#include "metadata/build_split.h"
#include "metadata/split.h"
#include "tensor/buffer.h"
#include "tests/support/random_steps.h"
#include "tests/support/scale.h"
#include "tests/support/step_builder.h"
#include "tests/support/step_reference.h"

namespace headrace::metadata {
namespace {

using test::describe_step;
using test::Random;
using test::random_limits;
using test::random_step;

// Replays one graph of two nodes, the step and one more split of another shape, `steps` times.
void replay_random_steps(Random& random, const Limits& limits, int steps, Counts* seen) {
  auto created = StepArena::create(Device::kCpu, limits);
  ASSERT_TRUE(created.ok()) << created.status().message();
  const StepArena arena = std::move(created).value();
  const SplitShape shape{random.in(1, 20), random.pick({1, 16, 100}),
                         random.pick({0, 1, 2, 17, 64, 300}), random.one_in(2)};
  auto memory =
      Buffer::allocate(Device::kCpu, static_cast<size_t>(split_arrays_bytes(limits, shape)));
  ASSERT_TRUE(memory.ok());
  Buffer own = std::move(memory).value();
  const SplitArrays arrays = split_arrays_in(own.data(), limits, shape);
  const SplitView split = split_view(arena.view(), shape, arrays);

  ThreadPool pool(1);
  CpuStream stream(pool);
  stream.begin_capture();
  build(stream, arena);
  build_split(stream, arena.view(), shape, arrays);
  const CpuGraph graph = stream.end_capture();
  for (int i = 0; i < steps; ++i) {
    random_step(random, limits, arena.input());
    const Status status = check_rows(arena);
    ASSERT_TRUE(status.ok()) << status.message() << "\n" << describe_step(arena);
    test::poison_derived(arena);
    std::memset(own.data(), 0xA5, own.size_bytes());
    stream.launch(graph);
    seen->num_decode_rows += arena.view().counts->num_decode_rows;
    seen->num_verify_rows += arena.view().counts->num_verify_rows;
    seen->num_prefill_rows += arena.view().counts->num_prefill_rows;
    seen->num_padding_rows += arena.view().counts->num_padding_rows;
    const std::string step_mismatch = test::step_mismatch(arena);
    ASSERT_EQ(step_mismatch, "") << describe_step(arena);
    const std::string split_mismatch = test::split_mismatch(arena.view(), split);
    ASSERT_EQ(split_mismatch, "") << describe_step(arena) << "\nsplit: W " << shape.num_workers
                                  << " unit " << shape.unit_tokens << " window " << shape.window
                                  << " fixed " << shape.fixed;
  }
}

TEST(BuildProperty, RandomStepsEqualTheReference) {
  Random random(20240607);
  constexpr int kStepsPerArena = 250;
  Counts seen;
  for (int arena = 0; arena < test::scaled(480); ++arena) {
    replay_random_steps(random, random_limits(random), kStepsPerArena, &seen);
    if (HasFatalFailure()) FAIL() << "arena " << arena;
  }
  // The generator must not have shrunk to steps of one kind.
  const int32_t batches = test::scaled(480) * kStepsPerArena;
  EXPECT_GT(seen.num_decode_rows, batches / 2);
  EXPECT_GT(seen.num_verify_rows, batches / 2);
  EXPECT_GT(seen.num_prefill_rows, batches);
  EXPECT_GT(seen.num_padding_rows, batches);
}

TEST(BuildProperty, LargeRandomSteps) {
  Random random(7);
  Counts seen;
  for (const Limits& limits :
       {Limits{300, 1000, 65, 64, 0, 132, 64}, Limits{64, 4096, 2000, 16, 0, 264, 128},
        Limits{1000, 1000, 3, 256, 0, 7, 16}}) {
    replay_random_steps(random, limits, test::scaled(20), &seen);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(seen.num_decode_rows, 50 * test::scaled(20));
}

}  // namespace
}  // namespace headrace::metadata
