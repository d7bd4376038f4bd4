// Sums and maxima of sparse values along axes, with dense or sparse results.
#include "compute/elementwise/elementwise.h"
#include "compute/sparse/sparse_input.h"

namespace thalweg {
namespace {

// The type that many elements are added up in.
template <typename T>
using Sum = std::conditional_t<std::is_same_v<Compute<T>, float>, double, Compute<T>>;

template <bool kLargest, bool kSparse>
struct SparseReduction : Kernel {
  using Accepted = std::conditional_t<kLargest, Reals, Numbers>;
  explicit SparseReduction(const Construction& c) : keep_(c.attr<bool>("keep_dims", false)) {}

  void compute(Context& ctx) override {
    const SparseInput x(ctx, 0);
    const Tensor& axes = ctx.input(3);
    require(axes.rank() <= 1, "reduction_axes must be a scalar or a vector, got shape ", axes.shape());
    std::vector<bool> reduced(x.rank, false);
    for (int64_t axis : to_int64s(axes.rank() == 1 ? axes : axes.reshaped(Shape{1}))) {
      require(axis >= -x.rank && axis < x.rank, "reduction axis ", axis, " is out of range for rank ", x.rank);
      reduced[axis < 0 ? axis + x.rank : axis] = true;
    }
    std::vector<int64_t> kept, sizes;
    for (int64_t d = 0; d < x.rank; ++d) {
      if (!reduced[d]) kept.push_back(d);
      if (!reduced[d] || keep_) sizes.push_back(reduced[d] ? 1 : x.sizes[d]);
    }
    const std::vector<int64_t> at = x.positions(kept);
    if constexpr (kSparse) {
      reduce_to_sparse(ctx, x, at, reduced, sizes);
    } else {
      Tensor& out = ctx.allocate(0, Shape(sizes));
      dispatch(out.dtype(), Accepted{}, [&]<typename T>() {
        std::vector<Sum<T>> sums(out.num_elements(), Sum<T>(0));
        std::vector<bool> seen(kLargest ? out.num_elements() : 0, false);
        const T* from = x.values.template flat<T>();
        for (int64_t i = 0; i < x.count; ++i) {
          const Sum<T> value = static_cast<Sum<T>>(static_cast<Compute<T>>(from[i]));
          if constexpr (kLargest) {
            add<Sum<T>>(sums[at[i]], value, !seen[at[i]]);
            seen[at[i]] = true;
          } else {
            add<Sum<T>>(sums[at[i]], value, false);
          }
        }
        round<T>(sums, out);
      });
    }
  }

 private:
  template <typename C>
  static void add(C& sum, C value, bool first) {
    if constexpr (kLargest)
      sum = !first && (sum >= value || sum != sum) ? sum : value;
    else
      sum = static_cast<C>(sum + value);
  }
  template <typename T>
  static void round(const std::vector<Sum<T>>& sums, Tensor& out) {
    T* to = out.flat<T>();
    for (size_t i = 0; i < sums.size(); ++i) to[i] = static_cast<T>(static_cast<Compute<T>>(sums[i]));
  }

  // One element for each group of elements with the same indices along the axes that are kept, in row-major order.
  void reduce_to_sparse(Context& ctx, const SparseInput& x, const std::vector<int64_t>& at,
                        const std::vector<bool>& reduced, const std::vector<int64_t>& sizes) const {
    const std::vector<uint32_t> order = sorting_order(at);
    auto element = [&](int64_t k) -> int64_t { return order.empty() ? k : order[k]; };
    std::vector<int64_t> starts;
    for (int64_t k = 0; k < x.count; ++k)
      if (k == 0 || at[element(k)] != at[element(k - 1)]) starts.push_back(k);
    const int64_t n = static_cast<int64_t>(starts.size());
    starts.push_back(x.count);
    int64_t* indices = ctx.allocate(0, Shape{n, static_cast<int64_t>(sizes.size())}).flat<int64_t>();
    for (int64_t group = 0; group < n; ++group) {
      const int64_t* row = x.row(element(starts[group]));
      for (int64_t d = 0; d < x.rank; ++d)
        if (!reduced[d] || keep_) *indices++ = reduced[d] ? 0 : row[d];
    }
    Tensor& out = ctx.allocate(1, Shape{n});
    dispatch(out.dtype(), Accepted{}, [&]<typename T>() {
      std::vector<Sum<T>> sums(n, Sum<T>(0));
      const T* from = x.values.template flat<T>();
      for (int64_t group = 0; group < n; ++group)
        for (int64_t k = starts[group]; k < starts[group + 1]; ++k)
          add<Sum<T>>(sums[group], static_cast<Sum<T>>(static_cast<Compute<T>>(from[element(k)])), k == starts[group]);
      round<T>(sums, out);
    });
    ctx.set_output(2, Tensor::vector<int64_t>(sizes));
  }
  const bool keep_;
};

using DenseSum = SparseReduction<false, false>;
using SparseSum = SparseReduction<false, true>;
using DenseMax = SparseReduction<true, false>;
using SparseMax = SparseReduction<true, true>;
REGISTER(kernel("SparseReduceSum").types("T", Numbers{}).make<DenseSum>());
REGISTER(kernel("SparseReduceSumSparse").types("T", Numbers{}).make<SparseSum>());
REGISTER(kernel("SparseReduceMax").types("T", Reals{}).make<DenseMax>());
REGISTER(kernel("SparseReduceMaxSparse").types("T", Reals{}).make<SparseMax>());

}  // namespace
}  // namespace thalweg
