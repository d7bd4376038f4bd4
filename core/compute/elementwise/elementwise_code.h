// ElementwiseCode: machine code for a chain of element-wise ops over float32, one loop with all values in registers.
//
// Contract: computes the same bits as the ops' own loops. Made at run time, for x86-64 with AVX2; `compile` returns
// null elsewhere, for ops without a vector form, and where the system allows no new code. The memory that holds the
// code is never writable and executable at once. Immutable, so any number of threads may run it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

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

  ~ElementwiseCode();
  ElementwiseCode(const ElementwiseCode&) = delete;

  // Computes n elements, a multiple of kWidth. inputs[v] are the elements of input v, scalars[v] the value of scalar v;
  // the others are not read. `out` may be one of the inputs.
  void run(const float* const* inputs, const float* scalars, float* out, int64_t n) const;

 private:
  ElementwiseCode(void* memory, size_t bytes, int num_values)
      : memory_(memory), bytes_(bytes), num_values_(num_values) {}

  void* memory_;
  size_t bytes_;
  int num_values_;
};

}  // namespace thalweg
