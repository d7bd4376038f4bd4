// CodedUnary: an op on one operand that runs as generated machine code where there is enough to compute.
//
// The code computes several vectors in turns, as wide as the processor has them, and keeps constants in registers
// (code/stream_code.h), which compilers do not do with long polynomials. It is recorded from the functor, so its bits
// are those of the loop. It is made once for a process, op and element type, when a node has computed enough elements.
//
// Where the functor holds only up to a magnitude (`near_limit`, what `is_near` compares with), blocks with larger
// arguments are computed by its loop.
#pragma once

#include <atomic>
#include <bit>
#include <limits>
#include <memory>
#include <string>

#include "compute/elementwise/elementwise.h"
#include "compute/elementwise/elementwise_code.h"

namespace thalweg {

// What the code of an op is made from, and where it holds.
struct CodeSource {
  std::string op;
  ElementwiseCode::Record record;
  // Whether it holds for all elements of a type; null if it always does.
  bool (*all_near)(DType dtype, const void* elements, int64_t n) = nullptr;
};

// The code of one node, made when it pays.
class UnaryCode {
 public:
  explicit UnaryCode(CodeSource source) : source_(std::move(source)) {}
  // Output 0 = the op on input 0. False, with nothing done, if there can be no code for it, or it is not worth it.
  // `loop` computes the same.
  bool compute(Context& ctx, const UnaryLoop& loop);

 private:
  struct Made {
    DType dtype;
    std::unique_ptr<ElementwiseCode> code;  // null if there can be none
  };
  const ElementwiseCode* code_for(DType dtype, int64_t n);
  const Made& make(DType dtype) const;

  const CodeSource source_;
  std::atomic<int64_t> num_computed_{0};  // elements, as long as there is no code
  std::atomic<const Made*> made_{nullptr};
};

// Whether |x| <= limit, or x is NaN, for all elements: told from their bits, so that it is the same for all types.
template <typename T>
bool all_within(const T* elements, int64_t n, T limit) {
  using Bits = std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>;
  constexpr Bits kMagnitude = std::numeric_limits<Bits>::max() >> 1;
  const auto most = std::bit_cast<Bits>(limit),
             infinity = std::bit_cast<Bits>(T(std::numeric_limits<float>::infinity()));
  using Aliased [[gnu::may_alias]] = Bits;
  const auto* const bits = reinterpret_cast<const Aliased*>(elements);
  Bits beyond = 0;
  for (int64_t i = 0; i < n; ++i) {
    const Bits x = bits[i] & kMagnitude;
    beyond |= static_cast<Bits>((x > most) & (x <= infinity));
  }
  return beyond == 0;
}

template <typename F, typename TypeList>
struct CodedUnary : Unary<F, TypeList> {
  explicit CodedUnary(const Construction& c)
      : Unary<F, TypeList>(c), code(CodeSource{c.def().op, record_alone, near()}) {}
  // A chain has no loop to go to for arguments that are not near.
  static int record(code::Recording& recording, code::Lane lane, const int* operands) {
    return needs_near ? code::kNone : record_alone(recording, lane, operands);
  }
  void compute(Context& ctx) override {
    const UnaryLoop loop = unary_loop<F, TypeList>(ctx.input(0).dtype());
    if (!code.compute(ctx, loop)) compute_unary(ctx, loop);
  }

 private:
  static constexpr bool needs_near = requires { F::far(0.0f); };
  static constexpr auto record_alone = record_functor<F, 1>;
  static auto near() -> decltype(CodeSource::all_near) {
    if constexpr (needs_near)
      return [](DType dtype, const void* elements, int64_t n) {
        bool all = false;
        dispatch(dtype, Floats{}, [&]<typename T>() {
          all = all_within(static_cast<const T*>(elements), n, T(F::template near_limit<Compute<T>>));
        });
        return all;
      };
    return nullptr;
  }
  UnaryCode code;
};

}  // namespace thalweg
