// How the axes of a reduction divide a tensor into kept and reduced runs.
#include "compute/reduction/reduction.h"

namespace thalweg {

ReductionLayout::ReductionLayout(const Shape& input, const Tensor& axes, bool keep_dims) {
  const int rank = input.rank();
  std::vector<bool> is_reduced(rank, false);
  for (int64_t axis : to_int64s(axes)) {
    require(axis >= -rank && axis < rank, "Invalid reduction dimension (", axis, " for input with ", rank,
            " dimension(s)): expected a value in [", -rank, ", ", rank, ")");
    int d = static_cast<int>(axis < 0 ? axis + rank : axis);
    require(!is_reduced[d], "Invalid reduction arguments: Axes contains duplicate dimension: ", d);
    is_reduced[d] = true;
  }
  std::vector<int64_t> dims;
  struct Run {
    int64_t size;
    bool reduced;
  };
  std::vector<Run> runs;
  trivial = true;
  for (int d = 0; d < rank; ++d) {
    int64_t size = input[d];
    if (!is_reduced[d])
      dims.push_back(size);
    else if (keep_dims)
      dims.push_back(1);
    if (is_reduced[d]) {
      count *= size;
      trivial = trivial && size == 1;
    }
    if (size == 1) continue;
    if (!runs.empty() && runs.back().reduced == is_reduced[d])
      runs.back().size *= size;
    else
      runs.push_back({size, is_reduced[d]});
  }
  shape = Shape(dims);
  if (runs.empty()) return;
  inner = runs.back().size;
  inner_reduced = runs.back().reduced;
  int64_t stride = inner;
  for (size_t i = runs.size() - 1; i-- > 0;) {
    (runs[i].reduced ? reduced : kept).insert((runs[i].reduced ? reduced : kept).begin(), {runs[i].size, stride});
    (runs[i].reduced ? num_reduced : num_kept) *= runs[i].size;
    stride *= runs[i].size;
  }
}

}  // namespace thalweg
