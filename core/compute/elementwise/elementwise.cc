// Broadcasting: matching two shapes and merging the dimensions that both walk alike.
#include "compute/elementwise/elementwise.h"

namespace thalweg {

bool Broadcast::possible(const Shape& a, const Shape& b) {
  for (int i = 1; i <= std::min(a.rank(), b.rank()); ++i) {
    int64_t x = a[a.rank() - i], y = b[b.rank() - i];
    if (x != y && x != 1 && y != 1) return false;
  }
  return true;
}

Broadcast::Broadcast(const Shape& a, const Shape& b) {
  int rank = std::max(a.rank(), b.rank());
  std::vector<int64_t> dims(rank), dims_a(rank), dims_b(rank);
  for (int i = 0; i < rank; ++i) {
    int ia = i - (rank - a.rank()), ib = i - (rank - b.rank());
    dims_a[i] = ia < 0 ? 1 : a[ia];
    dims_b[i] = ib < 0 ? 1 : b[ib];
    require(dims_a[i] == dims_b[i] || dims_a[i] == 1 || dims_b[i] == 1, "Incompatible shapes: ", a, " vs. ", b);
    dims[i] = dims_a[i] == 1 ? dims_b[i] : dims_a[i];
  }
  shape_ = Shape(dims);
  int64_t stride_a = 1, stride_b = 1;
  for (int i = rank - 1; i >= 0; --i) {
    int64_t sa = dims_a[i] == 1 ? 0 : stride_a, sb = dims_b[i] == 1 ? 0 : stride_b;
    stride_a *= dims_a[i];
    stride_b *= dims_b[i];
    if (dims[i] == 1) continue;
    // An outer dimension continues the previous one if both operands step over exactly that one's extent.
    if (!sizes_.empty() && sa == strides_a_.back() * sizes_.back() && sb == strides_b_.back() * sizes_.back()) {
      sizes_.back() *= dims[i];
    } else {
      sizes_.push_back(dims[i]);
      strides_a_.push_back(sa);
      strides_b_.push_back(sb);
    }
  }
  if (sizes_.empty()) {
    sizes_.push_back(1);
    strides_a_.push_back(0);
    strides_b_.push_back(0);
  }
  std::reverse(sizes_.begin(), sizes_.end());
  std::reverse(strides_a_.begin(), strides_a_.end());
  std::reverse(strides_b_.begin(), strides_b_.end());
}

}  // namespace thalweg
