// AddN: the sum of any number of tensors of one shape, in one pass over the memory.
#include "compute/elementwise/elementwise.h"
#include "compute/elementwise/functors.h"

namespace thalweg {
namespace {

using Summable = Join<Numbers, Quantized>;

void add_n(Context& ctx) {
  int count = ctx.num_inputs();
  const Shape shape = ctx.input(0).shape();
  for (int i = 1; i < count; ++i)
    require(ctx.input(i).shape() == shape, "Inputs to AddN must have the same size and shape. Input 0: ", shape,
            " != input ", i, ": ", ctx.input(i).shape());
  if (count == 1) return ctx.set_output(0, ctx.take_input(0));
  Tensor& out = ctx.forward_or_allocate({0, 1}, 0, shape);
  dispatch_for<functors::Add, Summable>(out.dtype(), [&]<typename T>() {
    std::vector<const T*> in(count);
    for (int i = 0; i < count; ++i) in[i] = ctx.input(i).template flat<T>();
    T* to = out.template flat<T>();
    using C = Compute<T>;
    parallel_for(shape.num_elements(), kElementGrain, [&](int64_t begin, int64_t end) {
      // Sums stay in the cache, and in the wider type, until all inputs of a block are in.
      constexpr int64_t kBlock = 1024;
      C sum[kBlock];
      for (int64_t start = begin; start < end; start += kBlock) {
        int64_t n = std::min(kBlock, end - start);
        const T *a = in[0] + start, *b = in[1] + start;
        for (int64_t i = 0; i < n; ++i) sum[i] = functors::Add::apply(static_cast<C>(a[i]), static_cast<C>(b[i]));
        for (int k = 2; k < count; ++k) {
          const T* c = in[k] + start;
          for (int64_t i = 0; i < n; ++i) sum[i] = functors::Add::apply(sum[i], static_cast<C>(c[i]));
        }
        for (int64_t i = 0; i < n; ++i) to[start + i] = static_cast<T>(sum[i]);
      }
    });
  });
}

// A sum whose shape is declared.
void accumulate_n(Context& ctx) {
  const auto declared = ctx.def().attr<PartialShape>("shape", PartialShape{});
  require(declared.accepts(ctx.input(0).shape()), "the inputs have shape ", ctx.input(0).shape(),
          ", but the attribute 'shape' is ", declared);
  add_n(ctx);
}

REGISTER(kernel("AddN").types("T", Summable{}).function<add_n>());
REGISTER(kernel("AccumulateNV2").types("T", Summable{}).function<accumulate_n>());

}  // namespace
}  // namespace thalweg
