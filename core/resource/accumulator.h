// Accumulators: gradients from many steps, summed until a step takes their mean or sum.
//
// A gradient carries the step for which it was computed; one for a step before the accumulator's own is stale, and is
// dropped silently. Taking waits until enough gradients have come, starts anew, and moves the accumulator's step on by
// one: gradients still being computed for the old step will be stale. Takers are served in the order of their arrival.
//
// A gradient may also name its contributor. Of several gradients of one contributor since the last take only the first
// counts, so that a worker that is not sure whether its gradient has arrived can give it again; they are summed in the
// order of the contributors' numbers, whatever the order of arrival, so that the bits of the result do not depend on
// it; and `set_global_step` drops those for steps before the new one. Gradients with and without a contributor do not
// mix. A gradient that has come before one of a lower number is kept apart until the sum gets to it.
// Thread-safe; nothing blocks.
#pragma once

#include <map>
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

  // `contributor`: a number from 0, or none.
  void apply(int64_t local_step, Gradient gradient, std::optional<int64_t> contributor = std::nullopt);
  void take(int64_t required, Cancellation& cancellation, Taken taken);
  int64_t count();
  // `ends_takers`: takers that wait get AbortedError; they belong to a chief that has been replaced.
  void set_global_step(int64_t step, bool ends_takers = false);

 protected:
  // Under the lock. Throws if a gradient does not fit, to the sum so far unless it would be the `first`.
  virtual void check(const Gradient& gradient, bool first) const = 0;
  virtual void add(Gradient gradient, bool first) = 0;
  // The mean or sum of `count` gradients; the accumulator forgets them.
  virtual Gradient finish(int64_t count) = 0;

  const Options options_;

 private:
  void sum_up(Gradient gradient);
  // Adds the gradients of contributors to the sum, in their order: `all`, or those before the first one missing.
  void sum_up_contributions(bool all);
  // Forgets all gradients; the mean or sum of those that were in the sum.
  Gradient start_anew();

  int64_t count_ = 0;   // gradients since the last take
  int64_t summed_ = 0;  // those of them that are in the sum
  int64_t global_step_ = 0;
  struct Contribution {
    int64_t step;
    Gradient gradient;  // empty once it is in the sum
  };
  std::map<int64_t, Contribution> contributions_;  // since the last take, by contributor
};

// Gradients are tensors of one shape.
class DenseAccumulator : public Accumulator {
 public:
  using Accumulator::Accumulator;
  const char* kind() const override { return "a conditional accumulator"; }

 protected:
  void check(const Gradient& gradient, bool first) const override;
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
  void check(const Gradient& gradient, bool first) const override;
  void add(Gradient gradient, bool first) override;
  Gradient finish(int64_t count) override;

 private:
  struct Row {
    int64_t at = 0;       // its place among the sums
    int64_t count = 0;    // gradients that had it
    int64_t newest = -1;  // the last of them
  };

  std::unordered_map<int64_t, Row> rows_;
  Shape row_shape_;
  std::vector<char> sums_;
  int64_t added_ = 0;
};

}  // namespace thalweg
