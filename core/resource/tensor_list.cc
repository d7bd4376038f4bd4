// TensorList: storage of the elements, and the shapes that they share.
#include "resource/tensor_list.h"

#include <algorithm>

namespace thalweg {

void TensorList::set(int64_t index, Tensor value) {
  if (index >= kMostElements)
    fail(Code::resource_exhausted, "index ", index, " is beyond the ", kMostElements, " elements that a list can hold");
  if (value.dtype() == DType::variant) {
    for (int64_t i = 0; i < value.num_elements(); ++i) {
      auto* inner = dynamic_cast<TensorList*>(value.flat<ResourceHandle>()[i].resource.get());
      if (inner != nullptr) depth_ = std::max(depth_, inner->depth_ + 1);
    }
    if (depth_ > kDeepest)
      fail(Code::resource_exhausted, "lists inside of lists can be nested ", kDeepest, " deep, not deeper");
  }
  if (index >= static_cast<int64_t>(values_.size())) {
    if (index >= static_cast<int64_t>(values_.capacity()))
      values_.reserve(static_cast<size_t>(std::max(index + 1, 2 * static_cast<int64_t>(values_.size()))));
    values_.resize(static_cast<size_t>(index + 1));
  }
  values_[static_cast<size_t>(index)] = value.owned();
}

Tensor TensorList::pop() {
  --length_;
  if (static_cast<int64_t>(values_.size()) <= length_) return {};
  Tensor last = std::move(values_.back());
  values_.pop_back();
  return last;
}

void TensorList::resize(int64_t length) {
  length_ = length;
  if (static_cast<int64_t>(values_.size()) > length) values_.resize(static_cast<size_t>(length));
}

PartialShape merged(const PartialShape& a, const PartialShape& b) {
  if (!a.known_rank) return b;
  if (!b.known_rank) return a;
  require(a.dims.size() == b.dims.size(), "Incompatible ranks during merge: ", a.dims.size(), " vs. ", b.dims.size(),
          " (shapes ", a, " and ", b, ")");
  PartialShape out = a;
  for (size_t i = 0; i < a.dims.size(); ++i) {
    require(a.dims[i] < 0 || b.dims[i] < 0 || a.dims[i] == b.dims[i], "Incompatible shapes during merge: ", a, " vs. ",
            b);
    if (a.dims[i] < 0) out.dims[i] = b.dims[i];
  }
  return out;
}

}  // namespace thalweg
