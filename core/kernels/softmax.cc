// Softmax, its logarithm, and the cross entropies that are computed together with it, row by row.
#include "compute/elementwise/broadcast_rows.h"
#include "compute/reduction/softmax_rows.h"

namespace thalweg {
namespace {

using namespace softmax_rows;

// Runs over rows of n logits in parallel: several short ones at a time, or one long one. `work` has
//   several(const C* x, C* out, first row, rows)   and   one(const C* x, C* out, row)
// where x holds the logits and out takes n results per row, both converted from and to T where needed.
template <typename T, typename Work>
void for_rows(const T* in, T* out, int64_t rows, int64_t n, const Work& work) {
  using C = Compute<T>;
  const int64_t step = n <= kShort ? kSide : 1;
  const int64_t grain = std::max<int64_t>(1, kElementGrain / 8 / (n * step));
  parallel_for((rows + step - 1) / step, grain, [&](int64_t begin, int64_t end) {
    std::vector<C> buffer(is_reduced_float<T> ? 2 * step * n : 0);
    for (int64_t b = begin; b < end; ++b) {
      const int64_t first = b * step, count = std::min(step, rows - first), size = count * n;
      const C* x = widened_row(in + first * n, buffer.data(), size);
      C* to = nullptr;
      if constexpr (is_reduced_float<T>)
        to = buffer.data() + step * n;
      else
        to = out + first * n;
      if (n <= kShort)
        work.several(x, to, first, count);
      else
        work.one(x, to, first);
      if constexpr (is_reduced_float<T>) narrow_row(to, out + first * n, size);
    }
  });
}

template <typename C, bool logarithm>
struct Softmax {
  int64_t n;
  void several(const C* x, C* out, int64_t, int64_t rows) const {
    ShortRows<C> side;
    side.load(x, rows, n);
    C per_row[kSide];
    for (int r = 0; r < kSide; ++r) per_row[r] = logarithm ? functors::Log::apply(side.sum[r]) : C(1) / side.sum[r];
    for (int64_t j = 0; j < n; ++j)
      for (int r = 0; r < kSide; ++r) {
        const int64_t at = j * kSide + r;
        side.e[at] = logarithm ? side.x[at] - per_row[r] : side.e[at] * per_row[r];
      }
    ShortRows<C>::gather(side.e, out, rows, n);
  }
  void one(const C* x, C* out, int64_t) const {
    const C top = row_max(x, n);
    if constexpr (logarithm) {
      const C log_sum = std::log(row_exp_sum(x, top, n, [](auto...) {}));
      for (int64_t i = 0; i < n; ++i) out[i] = (x[i] - top) - log_sum;
    } else {
      const C scale = C(1) / row_exp_sum(x, top, n, [&](int64_t i, auto count, const C* e) {
                        for (int64_t k = 0; k < count; ++k) out[i + k] = e[k];
                      });
      for (int64_t i = 0; i < n; ++i) out[i] *= scale;
    }
  }
};

template <bool logarithm>
void softmax(Context& ctx) {
  const Shape shape = ctx.input(0).shape();
  require(shape.rank() >= 1, "logits must have >= 1 dimension, got ", shape);
  Tensor& out = ctx.forward_or_allocate({0}, 0, shape);
  int64_t n = shape[shape.rank() - 1];
  if (out.num_elements() == 0) return;
  dispatch(out.dtype(), Floats{}, [&]<typename T>() {
    for_rows(ctx.input(0).flat<T>(), out.flat<T>(), shape.num_elements() / n, n, Softmax<Compute<T>, logarithm>{n});
  });
}

// loss = -sum(labels * log_softmax(features)), backprop = softmax(features) - labels, both [batch, classes].
template <typename T>
struct CrossEntropy {
  using C = Compute<T>;
  int64_t n;
  const T* labels;
  T* losses;

  // A class with label 0 and probability 0 costs nothing.
  static C term(C label, C cost) { return label == C(0) ? C(0) : label * cost; }

  void several(const C* x, C* out, int64_t first, int64_t rows) const {
    ShortRows<C> side;
    side.load(x, rows, n);
    C wanted[kShort * kSide], flat[is_reduced_float<T> ? kShort * kSide : 1];
    ShortRows<C>::spread(widened_row(labels + first * n, flat, rows * n), wanted, rows, n);
    C log_sum[kSide], scale[kSide], total[kSide] = {};
    for (int r = 0; r < kSide; ++r) log_sum[r] = functors::Log::apply(side.sum[r]), scale[r] = C(1) / side.sum[r];
    for (int64_t j = 0; j < n; ++j)
      for (int r = 0; r < kSide; ++r) {
        const int64_t at = j * kSide + r;
        total[r] += term(wanted[at], log_sum[r] - side.x[at]);
        side.e[at] = side.e[at] * scale[r] - wanted[at];
      }
    for (int64_t r = 0; r < rows; ++r) losses[first + r] = T(total[r]);
    ShortRows<C>::gather(side.e, out, rows, n);
  }
  void one(const C* x, C* out, int64_t row) const {
    std::vector<C> buffer(is_reduced_float<T> ? n : 0);
    const C* wanted = widened_row(labels + row * n, buffer.data(), n);
    const C top = row_max(x, n);
    const C sum = row_exp_sum(x, top, n, [&](int64_t i, auto count, const C* e) {
      for (int64_t k = 0; k < count; ++k) out[i + k] = e[k];
    });
    const C log_sum = std::log(sum), scale = C(1) / sum;
    C lanes[kLanes] = {};
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes)
      for (int k = 0; k < kLanes; ++k) lanes[k] += term(wanted[i + k], log_sum - (x[i + k] - top));
    for (int k = 0; i < n; ++i, ++k) lanes[k] += term(wanted[i], log_sum - (x[i] - top));
    for (int64_t k = 0; k < n; ++k) out[k] = out[k] * scale - wanted[k];
    C total = 0;
    for (C lane : lanes) total += lane;
    losses[row] = T(total);
  }
};

// The same where logits or labels are broadcast.
template <typename T>
void broadcast_cross_entropy(const BroadcastRows<2>& rows, const T* x, const T* y, T* losses, T* out) {
  using C = Compute<T>;
  rows.run([&](int64_t o, const auto& at, const auto& step, int64_t n) {
    std::vector<C> logits(step[0] ? n : 1);  // A single logit stands for all classes.
    for (size_t i = 0; i < logits.size(); ++i) logits[i] = x[at[0] + i];
    const C top = row_max(logits.data(), logits.size());
    C sum = row_exp_sum(logits.data(), top, logits.size(), [](auto...) {});
    if (!step[0]) sum *= static_cast<C>(n);
    const C log_sum = std::log(sum), scale = C(1) / sum;
    C total = 0;
    for (int64_t i = 0; i < n; ++i) {
      const C shifted = logits[i * step[0]] - top, label = y[at[1] + i * step[1]];
      total += CrossEntropy<T>::term(label, log_sum - shifted);
      out[o + i] = T(exp_below_zero(shifted) * scale - label);
    }
    losses[o / n] = T(total);
  });
}

void softmax_cross_entropy(Context& ctx) {
  const Tensor& features = ctx.input(0);
  const Tensor& labels = ctx.input(1);
  BroadcastRows<2> rows({&features.shape(), &labels.shape()});
  const Shape& shape = rows.shape();
  require(shape.rank() == 2, "logits and labels must be broadcastable to a matrix: logits_size=", features.shape(),
          " labels_size=", labels.shape());
  Tensor& loss = ctx.allocate(0, Shape{shape[0]});
  Tensor& backprop = ctx.allocate(1, shape);
  if (backprop.num_elements() == 0) {
    std::memset(loss.raw(), 0, loss.bytes());
    return;
  }
  dispatch(features.dtype(), Floats{}, [&]<typename T>() {
    const T* x = features.flat<T>();
    const T* y = labels.flat<T>();
    T* losses = loss.flat<T>();
    T* out = backprop.flat<T>();
    if (features.shape() == labels.shape())
      for_rows(x, out, shape[0], shape[1], CrossEntropy<T>{shape[1], y, losses});
    else
      broadcast_cross_entropy(rows, x, y, losses, out);
  });
}

// The same with one wanted class per row.
template <typename T>
struct SparseCrossEntropy {
  using C = Compute<T>;
  int64_t n;
  const std::vector<int64_t>& wanted;
  T* losses;

  void several(const C* x, C* out, int64_t first, int64_t rows) const {
    ShortRows<C> side;
    side.load(x, rows, n);
    C scale[kSide], log_sum[kSide];
    for (int r = 0; r < kSide; ++r) log_sum[r] = functors::Log::apply(side.sum[r]), scale[r] = C(1) / side.sum[r];
    for (int64_t j = 0; j < n; ++j)
      for (int r = 0; r < kSide; ++r) side.e[j * kSide + r] *= scale[r];
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t at = wanted[first + r] * kSide + r;
      losses[first + r] = T(log_sum[r] - side.x[at]);
      side.e[at] -= C(1);
    }
    ShortRows<C>::gather(side.e, out, rows, n);
  }
  void one(const C* x, C* out, int64_t row) const {
    const C top = row_max(x, n);
    const C chosen = x[wanted[row]] - top;
    const C sum = row_exp_sum(x, top, n, [&](int64_t i, auto count, const C* e) {
      for (int64_t k = 0; k < count; ++k) out[i + k] = e[k];
    });
    const C scale = C(1) / sum;
    losses[row] = T(std::log(sum) - chosen);
    for (int64_t i = 0; i < n; ++i) out[i] *= scale;
    out[wanted[row]] -= C(1);
  }
};

// A label outside [0, classes) makes the step fail.
void sparse_softmax_cross_entropy(Context& ctx) {
  const Tensor& features = ctx.input(0);
  const Tensor& labels = ctx.input(1);
  require(features.rank() == 2, "logits must be 2-D, but got shape ", features.shape());
  require(labels.rank() == 1, "labels must be 1-D, but got shape ", labels.shape());
  require(features.dim(0) == labels.dim(0), "logits and labels must have the same first dimension, got logits shape ",
          features.shape(), " and labels shape ", labels.shape());
  int64_t batch = features.dim(0), n = features.dim(1);
  require(n > 0 || batch == 0, "Must have at least one class, but got logits shape ", features.shape());
  std::vector<int64_t> wanted = to_int64s(labels);
  for (int64_t label : wanted)
    require(label >= 0 && label < n, "Received a label value of ", label, " which is outside the valid range of [0, ",
            n, ")");
  Tensor& loss = ctx.allocate(0, labels.shape());
  Tensor& backprop = ctx.forward_or_allocate({0}, 1, features.shape());
  if (backprop.num_elements() == 0) return;
  dispatch(features.dtype(), Floats{}, [&]<typename T>() {
    for_rows(ctx.input(0).flat<T>(), backprop.flat<T>(), batch, n, SparseCrossEntropy<T>{n, wanted, loss.flat<T>()});
  });
}

REGISTER(kernel("Softmax").types("T", Floats{}).function<softmax<false>>());
REGISTER(kernel("LogSoftmax").types("T", Floats{}).function<softmax<true>>());
REGISTER(kernel("SoftmaxCrossEntropyWithLogits").types("T", Floats{}).function<softmax_cross_entropy>());
REGISTER(kernel("SparseSoftmaxCrossEntropyWithLogits")
             .types("T", Floats{})
             .types("Tlabels", Indices{})
             .function<sparse_softmax_cross_entropy>());

}  // namespace
}  // namespace thalweg
