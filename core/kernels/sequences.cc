// Tensors of evenly spaced numbers: Range and LinSpace.
#include "compute/elementwise/elementwise.h"

namespace thalweg {
namespace {

using RangeTypes = Reals;

void range(Context& ctx) {
  static const char* names[] = {"start", "limit", "delta"};
  for (int i = 0; i < 3; ++i)
    require(ctx.input(i).rank() == 0, names[i], " must be a scalar, not shape ", ctx.input(i).shape());
  dispatch(ctx.output_dtype(0), RangeTypes{}, [&]<typename T>() {
    using C = Compute<T>;
    C start = ctx.input(0).flat<T>()[0], limit = ctx.input(1).flat<T>()[0], delta = ctx.input(2).flat<T>()[0];
    require(delta != C(0), "Requires delta != 0: ", +delta);
    int64_t size = 0;
    if constexpr (std::is_integral_v<T>) {
      // In 128 bits the difference of any two limits fits.
      __int128 distance = static_cast<__int128>(limit) - start, step = delta;
      require(step > 0 ? distance >= 0 : distance <= 0, "Requires start ", step > 0 ? "<=" : ">=", " limit when delta ",
              step > 0 ? ">" : "<", " 0: ", +start, "/", +limit);
      __int128 count = (distance + step + (step > 0 ? -1 : 1)) / step;
      require(count <= std::numeric_limits<int64_t>::max() / 16, "the range has too many elements");
      size = static_cast<int64_t>(count);
    } else {
      require(!(delta > 0 ? start > limit : start < limit), "Requires start ",
              delta > 0 ? "<=" : ">=", " limit when delta ", delta > 0 ? ">" : "<", " 0: ", start, "/", limit);
      double count = std::ceil(std::fabs((static_cast<double>(limit) - start) / delta));
      require(count < 5e17, "Requires ((limit - start) / delta) to be a number of elements: ", start, "/", limit, "/",
              delta);
      size = static_cast<int64_t>(count);
    }
    T* out = ctx.allocate(0, Shape{size}).flat<T>();
    parallel_for(size, kElementGrain, [=](int64_t begin, int64_t end) {
      if constexpr (std::is_integral_v<T>) {
        using U = std::conditional_t<sizeof(T) <= 4, uint32_t, uint64_t>;
        U from = static_cast<U>(start), step = static_cast<U>(delta);
        for (int64_t i = begin; i < end; ++i) out[i] = static_cast<T>(from + static_cast<U>(i) * step);
      } else {
        for (int64_t i = begin; i < end; ++i) out[i] = static_cast<T>(start + static_cast<C>(i) * delta);
      }
    });
  });
}

void lin_space(Context& ctx) {
  require(ctx.input(0).rank() == 0, "start must be a scalar, not shape ", ctx.input(0).shape());
  require(ctx.input(1).rank() == 0, "stop must be a scalar, not shape ", ctx.input(1).shape());
  require(ctx.input(2).rank() == 0, "num must be a scalar, not shape ", ctx.input(2).shape());
  int64_t num = to_int64(ctx.input(2));
  require(num > 0, "Requires num > 0: ", num);
  dispatch(ctx.output_dtype(0), Floats{}, [&]<typename T>() {
    double start = static_cast<Compute<T>>(ctx.input(0).flat<T>()[0]);
    double stop = static_cast<Compute<T>>(ctx.input(1).flat<T>()[0]);
    T* out = ctx.allocate(0, Shape{num}).flat<T>();
    double step = num > 1 ? (stop - start) / static_cast<double>(num - 1) : 0.0;
    parallel_for(num, kElementGrain, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        out[i] = static_cast<T>(static_cast<Compute<T>>(start + step * static_cast<double>(i)));
    });
    if (num > 1) out[num - 1] = static_cast<T>(static_cast<Compute<T>>(stop));  // Exactly.
  });
}

REGISTER(kernel("Range").types("Tidx", RangeTypes{}).function<range>());
REGISTER(kernel("LinSpace").types("T", Floats{}).function<lin_space>());

}  // namespace
}  // namespace thalweg
