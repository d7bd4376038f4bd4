// ArgMax and ArgMin: the index of the first extreme along one axis.
#include "kernel/registry.h"
#include "thread/parallel.h"

namespace thalweg {
namespace {

template <bool kMax, typename T>
inline bool beats(T a, T b) {
  return kMax ? a > b : a < b;
}

template <bool kMax, typename C>
constexpr C worst() {
  using Limits = std::numeric_limits<C>;
  if constexpr (Limits::has_infinity)
    return kMax ? -Limits::infinity() : Limits::infinity();
  else
    return kMax ? Limits::lowest() : Limits::max();
}

// out[o, i] = index of the extreme of in[o, :, i]. A NaN never beats anything, as in TensorFlow.
template <bool kMax, typename T, typename Index>
void arg_extreme(const T* in, int64_t outer, int64_t length, int64_t inner, Index* out) {
  using C = std::conditional_t<is_reduced_float<T>, float, std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>>;
  const int64_t grain = std::max<int64_t>(1, 32 * 1024 / std::max<int64_t>(1, length * inner));
  parallel_for(outer, grain, [=](int64_t begin, int64_t end) {
    constexpr int64_t kTile = 256;
    for (int64_t o = begin; o < end; ++o) {
      const T* base = in + o * length * inner;
      if (inner == 1) {
        int64_t best = 0;
        C value = worst<kMax, C>();
        for (int64_t k = 0; k < length; ++k)
          if (beats<kMax, C>(static_cast<C>(base[k]), value)) {
            value = static_cast<C>(base[k]);
            best = k;
          }
        out[o] = static_cast<Index>(best);
        continue;
      }
      for (int64_t first = 0; first < inner; first += kTile) {
        const int64_t width = std::min(kTile, inner - first);
        C values[kTile];
        int64_t indices[kTile];
        for (int64_t i = 0; i < width; ++i) {
          values[i] = worst<kMax, C>();
          indices[i] = 0;
        }
        for (int64_t k = 0; k < length; ++k) {
          const T* row = base + k * inner + first;
          for (int64_t i = 0; i < width; ++i) {
            const C x = static_cast<C>(row[i]);
            const bool better = beats<kMax, C>(x, values[i]);
            values[i] = better ? x : values[i];
            indices[i] = better ? k : indices[i];
          }
        }
        for (int64_t i = 0; i < width; ++i) out[o * inner + first + i] = static_cast<Index>(indices[i]);
      }
    }
  });
}

using Comparable = Join<Reals, Types<DType::boolean>>;
using IndexTypes = Types<DType::int64, DType::int32, DType::int16, DType::uint16>;

template <bool kMax>
void arg_kernel(Context& ctx) {
  const Tensor& input = ctx.input(0);
  const Tensor& dimension = ctx.input(1);
  require(dimension.num_elements() == 1 && dimension.rank() <= 1,
          "dim must be a scalar, but received tensor of shape: ", dimension.shape());
  const int64_t axis = dimension.dtype() == DType::int16 ? *dimension.flat<int16_t>() : to_int64s(dimension)[0];
  const int rank = input.rank();
  require(axis >= -rank && axis < rank, "Expected dimension in the range [", -rank, ", ", rank, "), but got ", axis);
  const int d = static_cast<int>(axis < 0 ? axis + rank : axis);
  const int64_t length = input.dim(d);
  require(length > 0, "Reduction axis ", axis, " is empty in shape ", input.shape());
  Tensor& out = ctx.allocate(0, input.shape().removed(d));
  if (out.num_elements() == 0) return;
  const int64_t outer = input.shape().product(0, d), inner = input.shape().product(d + 1, rank);
  Tensor wide = out.dtype() == DType::int64 ? out : Tensor(DType::int64, out.shape());
  dispatch(input.dtype(), Comparable{}, [&]<typename T>() {
    arg_extreme<kMax>(input.template flat<T>(), outer, length, inner, wide.template flat<int64_t>());
  });
  if (out.dtype() == DType::int64) return;
  dispatch(out.dtype(), IndexTypes{}, [&]<typename Index>() {
    if constexpr (!std::is_same_v<Index, int64_t>) {
      require(length - 1 <= std::numeric_limits<Index>::max(), "an axis of size ", length,
              " has indices that do not fit into ", out.dtype());
      std::copy_n(wide.template flat<int64_t>(), out.num_elements(), out.template flat<Index>());
    }
  });
}

REGISTER(kernel("ArgMax").types("T", Comparable{}).function<arg_kernel<true>>());
REGISTER(kernel("ArgMin").types("T", Comparable{}).function<arg_kernel<false>>());

}  // namespace
}  // namespace thalweg
