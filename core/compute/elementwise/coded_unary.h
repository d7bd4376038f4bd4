// CodedUnary: an op on one operand that runs as generated machine code where there is enough to compute.
//
// The code computes several vectors in turns and keeps constants in registers (code/stream_code.h), which compilers do
// not do with long polynomials: exponentials take two thirds of the time. It is recorded from the functor, so its bits
// are those of the loop. It is made once for a process, op and element type, when it is first needed.
#pragma once

#include "compute/elementwise/elementwise.h"

namespace thalweg {

// Output 0 = the op on input 0. False, with nothing done, if there can be no code for it, or it is not worth it.
bool compute_coded(Context& ctx, const std::string& op);

template <typename F, typename TypeList>
struct CodedUnary : Unary<F, TypeList> {
  explicit CodedUnary(const Construction& c) : Unary<F, TypeList>(c), op(c.def().op) {}
  void compute(Context& ctx) override {
    if (!compute_coded(ctx, op)) Unary<F, TypeList>::compute(ctx);
  }
  const std::string op;
};

}  // namespace thalweg
