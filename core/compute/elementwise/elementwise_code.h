// ElementwiseCode: machine code for a chain of element-wise ops over float32, one loop with all values in registers.
//
// Contract: computes the same bits as the ops' own loops, whose functors it records (code/recorded.h). `compile`
// returns null for ops that cannot be recorded, and where no code can be made. Immutable, so any number of threads may
// run it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "code/stream_code.h"

namespace thalweg {

class ElementwiseCode {
 public:
  static constexpr int64_t kWidth = 8;  // elements of a vector

  // Values are numbered: first the inputs, then the results of the ops, in their order. Only the last result is stored.
  struct Op {
    std::string name;
    int left, right;  // values; right is -1 for a unary op
  };
  // `scalar[v]` says that value v is a scalar: it is given to `run`, also where it is the result of an op.
  static std::unique_ptr<ElementwiseCode> compile(int num_inputs, std::span<const Op> ops,
                                                  std::span<const char> scalar);

  // Computes n elements, a multiple of kWidth. inputs[v] are the elements of input v, scalars[v] the value of scalar v;
  // the others are not read. `out` may be one of the inputs.
  void run(const float* const* inputs, const float* scalars, float* out, int64_t n) const;

 private:
  std::unique_ptr<code::StreamCode> code_;
  std::vector<int> streams_, splats_;  // the values that are its parameters
};

}  // namespace thalweg
