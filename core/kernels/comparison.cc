// Element-wise comparisons and logic.
#include "compute/elementwise/elementwise.h"
#include "compute/elementwise/functors.h"

namespace thalweg {
namespace {

using namespace functors;
using Comparable = Join<Join<NumbersAndBool, Quantized>, Types<DType::string>>;

// Equal and NotEqual may be asked to answer for shapes that do not fit: such tensors differ.
template <typename F, bool otherwise>
struct Equality : Kernel {
  explicit Equality(const Construction& c) : strict(c.attr<bool>("incompatible_shape_error", true)) {}
  void compute(Context& ctx) override {
    if (!strict && !Broadcast::possible(ctx.input(0).shape(), ctx.input(1).shape()))
      ctx.set_output(0, Tensor::scalar<bool>(otherwise));
    else
      compute_binary<F, Comparable>(ctx, 0, 1);
  }
  static constexpr auto record = &record_functor<F, 2>;
  bool strict;
};

struct ApproximateEqual : Kernel {
  explicit ApproximateEqual(const Construction& c) : tolerance(c.attr<float>("tolerance", 1e-5f)) {}
  void compute(Context& ctx) override {
    const Tensor& a = ctx.input(0);
    const Tensor& b = ctx.input(1);
    require(a.shape() == b.shape(), "x and y must be of the same shape. x shape: ", a.shape(),
            ", y shape: ", b.shape());
    bool* out = ctx.allocate(0, a.shape()).flat<bool>();
    dispatch(a.dtype(), Numbers{}, [&]<typename T>() {
      const T* pa = a.flat<T>();
      const T* pb = b.flat<T>();
      float limit = tolerance;
      parallel_for(a.num_elements(), kElementGrain, [=](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) {
          if constexpr (is_complex<T>)
            out[i] = std::abs(pa[i] - pb[i]) < limit;
          else if constexpr (is_integer<T>)
            out[i] = static_cast<double>(pa[i] > pb[i] ? Sub::apply(pa[i], pb[i]) : Sub::apply(pb[i], pa[i])) < limit;
          else
            out[i] = std::fabs(static_cast<Compute<T>>(pa[i]) - static_cast<Compute<T>>(pb[i])) < limit;
        }
      });
    });
  }
  float tolerance;
};

struct And {
  static constexpr RecordedTypes recorded = kTruth;
  template <typename T>
  static T apply(T a, T b) {
    return a & b;
  }
};
struct Or {
  static constexpr RecordedTypes recorded = kTruth;
  template <typename T>
  static T apply(T a, T b) {
    return a | b;
  }
};
struct Not {
  static constexpr RecordedTypes recorded = kTruth;
  template <typename T>
  static T apply(T a) {
    return !a;
  }
};
using Bool = Types<DType::boolean>;

REGISTER(kernel("Less").types("T", Reals{}).make<Binary<Less, Reals>>());
REGISTER(kernel("Greater").types("T", Reals{}).make<Swapped<Less, Reals>>());
REGISTER(kernel("LessEqual").types("T", Reals{}).make<Binary<LessEqual, Reals>>());
REGISTER(kernel("GreaterEqual").types("T", Reals{}).make<Swapped<LessEqual, Reals>>());
REGISTER(kernel("Equal").types("T", Comparable{}).make<Equality<Equal, false>>());
REGISTER(kernel("NotEqual").types("T", Comparable{}).make<Equality<NotEqual, true>>());
REGISTER(kernel("ApproximateEqual").types("T", Numbers{}).make<ApproximateEqual>());
REGISTER(kernel("LogicalAnd").make<Binary<And, Bool>>());
REGISTER(kernel("LogicalOr").make<Binary<Or, Bool>>());
REGISTER(kernel("LogicalNot").make<Unary<Not, Bool>>());

}  // namespace
}  // namespace thalweg
