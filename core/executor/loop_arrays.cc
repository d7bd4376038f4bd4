// Opening arrays for a run, and telling them what was done.
#include "executor/loop_arrays.h"

#include <algorithm>

namespace thalweg {
namespace {

// Larger arrays are written element by element.
constexpr int64_t kMostBytes = int64_t{1} << 30;

}  // namespace

TensorArray* array_of_handle(const Tensor& handle) {
  if (handle.dtype() != DType::resource || handle.num_elements() != 1) return nullptr;
  return dynamic_cast<TensorArray*>(handle.flat<ResourceHandle>()->resource.get());
}

std::optional<std::vector<LoopArray>> open_arrays(std::span<const LoopArrayUse> uses,
                                                  std::span<const Tensor* const> handles) {
  std::vector<LoopArray> opened;
  for (size_t k = 0; k < uses.size(); ++k) {
    const LoopArrayUse& use = uses[k];
    LoopArray made;
    made.array = array_of_handle(*handles[k]);
    const bool is_known =
        std::any_of(opened.begin(), opened.end(), [&](const LoopArray& other) { return other.array == made.array; });
    if (made.array == nullptr || made.array->dtype() != use.dtype || is_known) return std::nullopt;
    made.view.bytes = use.element.num_elements() * static_cast<int64_t>(size_of(use.dtype));
    if (use.writes) {
      if (!made.array->awaits(use.dtype, use.element)) return std::nullopt;
      const int64_t size = made.array->size();
      if (size == 0 || size > kMostBytes / std::max<int64_t>(made.view.bytes, 1)) return std::nullopt;
      made.rows = Tensor(use.dtype, use.element.inserted(0, size));
    } else {
      std::optional<Tensor> rows = made.array->unread_rows();
      if (!rows || !(rows->shape().removed(0) == use.element)) return std::nullopt;
      made.rows = std::move(*rows);
    }
    made.view.once = static_cast<char>(use.writes || made.array->clears_after_read());
    made.view.base = static_cast<char*>(made.rows.raw());
    made.view.count = made.rows.dim(0);
    made.used.assign(static_cast<size_t>(made.view.count), 0);
    made.indices.resize(made.used.size());
    made.view.used = made.used.data();
    made.view.indices = made.indices.data();
    opened.push_back(std::move(made));
  }
  return opened;
}

void close_arrays(std::span<const LoopArrayUse> uses, std::span<LoopArray> arrays, int64_t iterations) {
  for (size_t k = 0; k < uses.size(); ++k) {
    LoopArray& each = arrays[k];
    // The iteration that failed may have got as far as this array; the nodes repeat it. Elements that may be read again
    // can stay noted.
    const auto done = static_cast<size_t>(iterations * uses[k].per_iteration);
    const auto num_used = static_cast<size_t>(each.view.num_used);
    each.indices.resize(each.view.once != 0 ? std::min(num_used, done) : num_used);
    const Tensor rows = std::move(each.rows);
    if (uses[k].writes && !each.indices.empty())
      each.array->write_rows(each.indices, rows);
    else if (!uses[k].writes)
      each.array->mark_read(each.indices);
  }
}

}  // namespace thalweg
