// RandomState: the place of one random op in its stream; kept by the kernel, and so per session and node.
//
// `reserve` hands a step its own copy of the generator and moves the shared one ahead by as much as the step may use,
// under a lock: concurrent steps get disjoint pieces of the stream. A seeded op that is called for a traversal of a
// dataset has a place of its own there (random/streams.h).
#pragma once

#include <atomic>
#include <mutex>
#include <random>

#include "executor/step.h"
#include "kernel/kernel.h"
#include "random/philox.h"

namespace thalweg {

// Each output may use so many blocks: room for rejection, and TensorFlow's figure, so that later steps agree too.
constexpr uint64_t kBlocksPerOutput = 256;

class RandomState {
 public:
  // Seeds (0, 0) ask for a stream that differs each time.
  explicit RandomState(const Construction& c) {
    auto seed = static_cast<uint64_t>(c.attr<int64_t>("seed", 0));
    auto seed2 = static_cast<uint64_t>(c.attr<int64_t>("seed2", 0));
    seeded_ = seed != 0 || seed2 != 0;
    if (!seeded_) {
      std::random_device device;
      seed = static_cast<uint64_t>(device()) << 32 | device();
      seed2 = static_cast<uint64_t>(device()) << 32 | device();
    }
    start_ = generator_ = Philox(seed, seed2);
  }

  Philox start() const { return start_; }
  Philox reserve(const Context& ctx, uint64_t blocks) {
    if (seeded_)
      if (RandomStreams* streams = ctx.step().random_streams().get()) return streams->reserve(id_, start_, blocks);
    std::lock_guard lock(mutex_);
    Philox copy = generator_;
    generator_.skip(blocks);
    return copy;
  }
  Philox reserve_outputs(const Context& ctx, int64_t count) {
    return reserve(ctx, static_cast<uint64_t>(count) * kBlocksPerOutput);
  }

 private:
  static uint64_t new_id() {
    static std::atomic<uint64_t> next{0};
    return next.fetch_add(1, std::memory_order_relaxed);
  }

  const uint64_t id_ = new_id();  // in traversals; an address may belong to a later kernel
  bool seeded_;
  Philox start_;
  std::mutex mutex_;  // guards the rest
  Philox generator_;
};

// The generator of a stateless op: the two seeds, mixed, so that neighbouring ones give unrelated streams.
inline Philox stateless_generator(const Tensor& seed) {
  require(seed.rank() == 1 && seed.num_elements() == 2, "seed must have shape [2], not ", seed.shape());
  std::vector<int64_t> seeds = to_int64s(seed);
  auto a = static_cast<uint64_t>(seeds[0]), b = static_cast<uint64_t>(seeds[1]);
  Philox::Block counter{static_cast<uint32_t>(a), static_cast<uint32_t>(a >> 32), static_cast<uint32_t>(b),
                        static_cast<uint32_t>(b >> 32)};
  Philox::Block mixed = Philox(counter, {0x3ec8f720u, 0x02461e29u}).next();
  return Philox({0, 0, mixed[2], mixed[3]}, {mixed[0], mixed[1]});
}

// The shape that an input tensor holds.
inline Shape shape_from(const Tensor& shape) {
  require(shape.rank() == 1, "shape must be a vector of {int32,int64}, got shape ", shape.shape());
  return Shape(to_int64s(shape));
}

}  // namespace thalweg
