// EditDistance: how many insertions, deletions and replacements turn one sequence into another.
#include "kernel/registry.h"

namespace thalweg {
namespace {

using Compared = Join<Reals, Types<DType::string, DType::boolean>>;

// Sequences are the innermost dimension of a sparse value. Collects, for every index of the outer dimensions, the
// positions of its elements.
struct Sequences {
  Shape outer;
  std::vector<int64_t> group;  // Of each element: its sequence, as a row-major number in the shape of the output.

  Sequences(const Tensor& indices, const Tensor& values, const Tensor& shape, const char* what) {
    require(indices.rank() == 2, what, "_indices must be a matrix, got shape ", indices.shape());
    require(values.rank() == 1, what, "_values must be a vector, got shape ", values.shape());
    require(shape.rank() == 1, what, "_shape must be a vector, got shape ", shape.shape());
    require(indices.dim(0) == values.dim(0), what, ": ", indices.dim(0), " indices for ", values.dim(0), " values");
    require(indices.dim(1) == shape.dim(0), what, ": indices have ", indices.dim(1), " columns, the shape has ",
            shape.dim(0), " dimensions");
    require(shape.dim(0) >= 1, what, "_shape must have at least one dimension");
    const Shape full(to_int64s(shape));
    const int64_t rank = full.rank();
    const int64_t* at = indices.flat<int64_t>();
    for (int64_t i = 0; i < indices.dim(0); ++i)
      for (int64_t d = 0; d < rank; ++d)
        require(at[i * rank + d] >= 0 && at[i * rank + d] < full[static_cast<int>(d)], what, "_indices[", i, ",", d,
                "] = ", at[i * rank + d], " is out of bounds for shape ", full);
    outer = full.removed(static_cast<int>(rank) - 1);
  }

  void number(const Tensor& indices, const Shape& output) {
    const int64_t rank = indices.dim(1);
    group.resize(indices.dim(0));
    for (int64_t i = 0; i < indices.dim(0); ++i) {
      int64_t n = 0;
      for (int64_t d = 0; d + 1 < rank; ++d)
        n = n * output[static_cast<int>(d)] + indices.flat<int64_t>()[i * rank + d];
      group[i] = n;
    }
  }
  // The positions of the elements of each sequence, one sequence after the other.
  void deal(int64_t count, std::vector<int64_t>& starts, std::vector<int64_t>& order) const {
    starts.assign(count + 1, 0);
    for (int64_t g : group) ++starts[g + 1];
    std::partial_sum(starts.begin(), starts.end(), starts.begin());
    std::vector<int64_t> next(starts.begin(), starts.end() - 1);
    order.resize(group.size());
    for (size_t i = 0; i < group.size(); ++i) order[next[group[i]]++] = static_cast<int64_t>(i);
  }
};

template <typename T>
int64_t distance(const T* x, std::span<const int64_t> a, const T* y, std::span<const int64_t> b) {
  std::vector<int64_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i < a.size(); ++i) {
    int64_t diagonal = row[0];
    row[0] = static_cast<int64_t>(i) + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const int64_t replaced = diagonal + (x[a[i]] == y[b[j]] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

struct EditDistance : Kernel {
  explicit EditDistance(const Construction& c) : normalize_(c.attr<bool>("normalize", true)) {}
  void compute(Context& ctx) override {
    Sequences hypothesis(ctx.input(0), ctx.input(1), ctx.input(2), "hypothesis");
    Sequences truth(ctx.input(3), ctx.input(4), ctx.input(5), "truth");
    require(hypothesis.outer.rank() == truth.outer.rank(), "hypothesis has rank ", hypothesis.outer.rank() + 1,
            ", truth has rank ", truth.outer.rank() + 1);
    std::vector<int64_t> dims;
    for (int d = 0; d < truth.outer.rank(); ++d) dims.push_back(std::max(hypothesis.outer[d], truth.outer[d]));
    Tensor& out = ctx.allocate(0, Shape(dims));
    const int64_t count = out.num_elements();
    std::vector<int64_t> starts_h, order_h, starts_t, order_t;
    hypothesis.number(ctx.input(0), out.shape());
    truth.number(ctx.input(3), out.shape());
    if (count == 0) return;
    hypothesis.deal(count, starts_h, order_h);
    truth.deal(count, starts_t, order_t);
    dispatch(ctx.input(1).dtype(), Compared{}, [&]<typename T>() {
      for (int64_t g = 0; g < count; ++g) {
        std::span<const int64_t> a(order_h.data() + starts_h[g], starts_h[g + 1] - starts_h[g]);
        std::span<const int64_t> b(order_t.data() + starts_t[g], starts_t[g + 1] - starts_t[g]);
        float result = static_cast<float>(distance(ctx.input(1).flat<T>(), a, ctx.input(4).flat<T>(), b));
        // Against an empty truth, the normalized distance is infinite, and 0 for an empty hypothesis.
        if (normalize_ && !b.empty()) result /= static_cast<float>(b.size());
        if (normalize_ && b.empty() && result > 0) result = std::numeric_limits<float>::infinity();
        out.flat<float>()[g] = result;
      }
    });
  }
  bool normalize_;
};
REGISTER(kernel("EditDistance").types("T", Compared{}).make<EditDistance>());

}  // namespace
}  // namespace thalweg
