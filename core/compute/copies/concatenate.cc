// concatenate: the copies.
#include "compute/copies/concatenate.h"

#include "compute/copies/elements.h"

namespace thalweg {

void place(std::span<const Tensor> values, std::span<const int64_t> starts, Tensor& out) {
  if (values.empty()) return;
  const auto count = static_cast<int64_t>(values.size());
  const int64_t grain =
      std::max<int64_t>(1, kMoveGrain / std::max<int64_t>(1, static_cast<int64_t>(out.bytes()) / count));
  parallel_for(count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      if (values[i].defined())
        copy_elements(out.dtype(), element_at(out.dtype(), out.raw(), starts[i]), values[i].raw(),
                      values[i].num_elements());
  });
}

void concatenate(std::span<const Tensor> values, Tensor& out) {
  std::vector<int64_t> starts;
  starts.reserve(values.size());
  int64_t next = 0;
  for (const Tensor& value : values) {
    starts.push_back(next);
    next += value.num_elements();
  }
  place(values, starts, out);
}

}  // namespace thalweg
