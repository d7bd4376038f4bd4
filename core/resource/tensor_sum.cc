// zeros and sum of tensors.
#include "resource/tensor_sum.h"

#include <cstring>

#include "thread/parallel.h"

namespace thalweg {

Tensor zeros(DType dtype, const Shape& shape) {
  Tensor out(dtype, shape);
  if (is_plain(dtype) && out.bytes() > 0) std::memset(out.raw(), 0, out.bytes());
  return out;
}

Tensor sum(Tensor a, const Tensor& b) {
  constexpr int64_t kGrain = 1 << 15;
  Tensor out = a.writable() ? std::move(a) : a.clone();
  dispatch(out.dtype(), Numbers{}, [&]<typename T>() {
    T* to = out.flat<T>();
    const T* from = b.flat<T>();
    parallel_for(out.num_elements(), kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) to[i] = static_cast<T>(to[i] + from[i]);
    });
  });
  return out;
}

}  // namespace thalweg
