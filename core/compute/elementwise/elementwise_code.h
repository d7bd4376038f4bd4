// ElementwiseCode: machine code for a chain of element-wise ops, one loop with all values in registers.
//
// Contract: computes the same bits as the ops' own loops, whose functors it records (compute/elementwise/record_op.h).
// `compile` returns null for ops that cannot be recorded, and where no code can be made. Immutable, so any number of
// threads may run it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "code/stream_code.h"
#include "tensor/dtype.h"

namespace thalweg {

// The widest vectors that work on this machine. Takes the GIL when first called: no lock may be held.
code::Vectors best_vectors();

class ElementwiseCode {
 public:
  static constexpr int kMostOperands = 3;
  using Record = int (*)(code::Recording& recording, code::Lane lane, const int* operands);

  // Values are numbered: first the inputs, then the results of the ops, in their order. Only the last result is stored.
  struct Op {
    std::string name;
    std::array<int, kMostOperands> operands;  // values; -1 behind the last
    DType dtype = DType::float32;             // of the result
    Record record = nullptr;                  // the registered one if null
  };
  // `scalar[v]` says that value v is a scalar: it is given to `run`, also where it is the result of an op.
  static std::unique_ptr<ElementwiseCode> compile(std::span<const DType> inputs, std::span<const Op> ops,
                                                  std::span<const char> scalar, code::Vectors vectors);

  // Elements of a vector.
  int64_t width() const { return width_; }
  // Computes n elements. inputs[v] are the elements of input v, scalars[v] is a pointer to the value of scalar v; the
  // others are not read. `out` may be one of the inputs.
  void run(const void* const* inputs, const void* const* scalars, void* out, int64_t n) const;

 private:
  void run_rest(const void* const* streams, std::span<const uint64_t> splats, char* out, int64_t n) const;
  std::unique_ptr<code::StreamCode> code_;
  std::vector<int> streams_, splats_;  // the values that are its parameters
  std::vector<DType> types_;           // of these
  std::vector<size_t> sizes_;          // bytes of the streams' elements
  size_t out_size_ = 0;
  int64_t width_ = 0;
};

}  // namespace thalweg
