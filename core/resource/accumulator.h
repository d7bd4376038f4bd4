// Accumulators: gradients from many steps, summed until a step takes their mean or sum.
//
// A gradient carries the step for which it was computed; one for a step before the accumulator's own is stale, and is
// dropped silently. Taking waits until enough gradients have come, starts anew, and moves the accumulator's step on by
// one: gradients still being computed for the old step will be stale. Takers are served in the order of their arrival.
// Thread-safe; nothing blocks.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "resource/waitable.h"
#include "tensor/tensor.h"

namespace thalweg {

class Accumulator : public Waitable {
 public:
  using Gradient = std::vector<Tensor>;
  using Taken = std::function<void(std::optional<Error>, Gradient)>;
  struct Options {
    std::string name;
    DType dtype = DType::float32;
    PartialShape shape;
    bool mean = true;
  };
  explicit Accumulator(Options options)
      : Waitable({{"TakeGrad operation was cancelled"}}), options_(std::move(options)) {}
  const Options& options() const { return options_; }

  void apply(int64_t local_step, Gradient gradient);
  void take(int64_t required, Cancellation& cancellation, Taken taken);
  int64_t count();
  void set_global_step(int64_t step);

 protected:
  // Under the lock. Whether the gradient fits is checked before anything changes.
  virtual void add(Gradient gradient, bool first) = 0;
  // The mean or sum of `count` gradients; the accumulator forgets them.
  virtual Gradient finish(int64_t count) = 0;

  const Options options_;

 private:
  int64_t count_ = 0;
  int64_t global_step_ = 0;
};

// Gradients are tensors of one shape.
class DenseAccumulator : public Accumulator {
 public:
  using Accumulator::Accumulator;
  const char* kind() const override { return "a conditional accumulator"; }

 protected:
  void add(Gradient gradient, bool first) override;
  Gradient finish(int64_t count) override;

 private:
  Tensor sum_;
};

// Gradients are rows of a large tensor: indices, values, and its shape if that is known. The mean of a row is over the
// gradients that had it.
class SparseAccumulator : public Accumulator {
 public:
  using Accumulator::Accumulator;
  const char* kind() const override { return "a sparse conditional accumulator"; }

 protected:
  void add(Gradient gradient, bool first) override;
  Gradient finish(int64_t count) override;

 private:
  struct Row {
    int64_t at = 0;       // its place among the sums
    int64_t count = 0;    // gradients that had it
    int64_t newest = -1;  // the last of them
  };
  void check(const Gradient& gradient, bool first) const;

  std::unordered_map<int64_t, Row> rows_;
  Shape row_shape_;
  std::vector<char> sums_;
  int64_t added_ = 0;
};

}  // namespace thalweg
