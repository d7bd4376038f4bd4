// ClipByValue: elements limited to an interval whose ends are scalars or tensors of the same shape.
#include "compute/elementwise/elementwise.h"

namespace thalweg {
namespace {

using Clippable = Join<Reals, Quantized>;

void clip_by_value(Context& ctx) {
  const Tensor& t = ctx.input(0);
  const Shape shape = t.shape();
  static const char* names[] = {"t", "clip_value_min", "clip_value_max"};
  for (int i : {1, 2})
    require(ctx.input(i).num_elements() == 1 || ctx.input(i).shape() == shape, names[i],
            " must be a scalar or of the shape of t, got ", ctx.input(i).shape(), " and t of shape ", shape);
  Tensor& out = ctx.forward_or_allocate({0}, 0, shape);
  dispatch(t.dtype(), Clippable{}, [&]<typename T>() {
    using C = Compute<T>;
    const T* in = ctx.input(0).flat<T>();
    const T* low = ctx.input(1).flat<T>();
    const T* high = ctx.input(2).flat<T>();
    T* to = out.flat<T>();
    bool one_low = ctx.input(1).num_elements() == 1, one_high = ctx.input(2).num_elements() == 1;
    auto clip = [](C x, C a, C b) {
      C limited = x > b ? b : x;
      return T(limited < a ? a : limited);
    };
    parallel_for(shape.num_elements(), kElementGrain, [&](int64_t begin, int64_t end) {
      if (one_low && one_high) {
        const C a = *low, b = *high;
#pragma GCC ivdep
        for (int64_t i = begin; i < end; ++i) to[i] = clip(in[i], a, b);
      } else {
        for (int64_t i = begin; i < end; ++i) to[i] = clip(in[i], low[one_low ? 0 : i], high[one_high ? 0 : i]);
      }
    });
  });
}

REGISTER(kernel("ClipByValue").types("T", Clippable{}).function<clip_by_value>());

}  // namespace
}  // namespace thalweg
