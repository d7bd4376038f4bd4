// Softmax, its logarithm, and the cross entropies that are computed together with it, row by row.
#include "kernels/broadcast_rows.h"
#include "kernels/functors.h"

namespace thalweg {
namespace {

// Sixteen partial results let the compiler keep them in vector registers, which one running result would not.
constexpr int kLanes = 16;

template <typename C, typename T>
C row_max(const T* x, int64_t n) {
  C lanes[kLanes];
  std::fill(lanes, lanes + kLanes, -std::numeric_limits<C>::infinity());
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int k = 0; k < kLanes; ++k) {
      C v = x[i + k];
      lanes[k] = lanes[k] < v || v != v ? v : lanes[k];
    }
  for (int k = 0; i < n; ++i, ++k) {
    C v = x[i];
    lanes[k] = lanes[k] < v || v != v ? v : lanes[k];
  }
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int k = 0; k < half; ++k) {
      C v = lanes[k + half];
      lanes[k] = lanes[k] < v || v != v ? v : lanes[k];
    }
  return lanes[0];
}

// Writes exp(x - shift), if asked to, and returns the sum.
template <typename C, typename T, typename Out>
C row_exp_sum(const T* x, C shift, Out* out, int64_t n) {
  C lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    C e[kLanes];
    for (int k = 0; k < kLanes; ++k) e[k] = functors::Exp::apply(static_cast<C>(x[i + k]) - shift);
    for (int k = 0; k < kLanes; ++k) lanes[k] += e[k];
    if (out)
      for (int k = 0; k < kLanes; ++k) out[i + k] = static_cast<Out>(e[k]);
  }
  if (i < n) {
    // The rest at once, filled up with elements that count nothing: rows are often shorter than a block.
    C e[kLanes];
    for (int k = 0; k < kLanes; ++k) e[k] = -std::numeric_limits<C>::infinity();
    for (int k = 0; k < n - i; ++k) e[k] = static_cast<C>(x[i + k]) - shift;
    for (int k = 0; k < kLanes; ++k) e[k] = functors::Exp::apply(e[k]);
    for (int k = 0; k < kLanes; ++k) lanes[k] += e[k];
    if (out)
      for (int k = 0; k < n - i; ++k) out[i + k] = static_cast<Out>(e[k]);
  }
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int k = 0; k < half; ++k) lanes[k] += lanes[k + half];
  return lanes[0];
}

template <typename T, bool logarithm>
void softmax_row(const T* x, T* out, int64_t n) {
  using C = Compute<T>;
  C top = row_max<C>(x, n);
  if constexpr (logarithm) {
    C log_sum = std::log(row_exp_sum<C, T, T>(x, top, nullptr, n));
    for (int64_t i = 0; i < n; ++i) out[i] = T((static_cast<C>(x[i]) - top) - log_sum);
  } else if constexpr (std::is_same_v<C, T>) {
    C scale = C(1) / row_exp_sum<C>(x, top, out, n);
    for (int64_t i = 0; i < n; ++i) out[i] *= scale;
  } else {
    C scale = C(1) / row_exp_sum<C, T, T>(x, top, nullptr, n);
    for (int64_t i = 0; i < n; ++i) out[i] = T(functors::Exp::apply(static_cast<C>(x[i]) - top) * scale);
  }
}

template <bool logarithm>
void softmax(Context& ctx) {
  const Shape shape = ctx.input(0).shape();
  require(shape.rank() >= 1, "logits must have >= 1 dimension, got ", shape);
  Tensor& out = ctx.forward_or_allocate({0}, 0, shape);
  int64_t n = shape[shape.rank() - 1];
  if (out.num_elements() == 0) return;
  dispatch(out.dtype(), Floats{}, [&]<typename T>() {
    const T* in = ctx.input(0).flat<T>();
    T* to = out.flat<T>();
    parallel_for(shape.num_elements() / n, std::max<int64_t>(1, kElementGrain / 8 / n),
                 [=](int64_t begin, int64_t end) {
                   for (int64_t r = begin; r < end; ++r) softmax_row<T, logarithm>(in + r * n, to + r * n, n);
                 });
  });
}

// loss = -sum(labels * log_softmax(features)), backprop = softmax(features) - labels, both [batch, classes], broadcast.
void softmax_cross_entropy(Context& ctx) {
  const Tensor& features = ctx.input(0);
  const Tensor& labels = ctx.input(1);
  BroadcastRows<2> rows({&features.shape(), &labels.shape()});
  const Shape& shape = rows.shape();
  require(shape.rank() == 2, "logits and labels must be broadcastable to a matrix: logits_size=", features.shape(),
          " labels_size=", labels.shape());
  Tensor& loss = ctx.allocate(0, Shape{shape[0]});
  Tensor& backprop = ctx.allocate(1, shape);
  if (shape[1] == 0) {
    std::memset(loss.raw(), 0, loss.bytes());
    return;
  }
  dispatch(features.dtype(), Floats{}, [&]<typename T>() {
    using C = Compute<T>;
    const T* x = features.flat<T>();
    const T* y = labels.flat<T>();
    T* losses = loss.flat<T>();
    T* out = backprop.flat<T>();
    rows.run([&](int64_t o, const auto& at, const auto& step, int64_t n) {
      const T* logits = x + at[0];
      const T* wanted = y + at[1];
      int64_t count = step[0] ? n : 1;  // A single logit stands for all classes.
      C top = row_max<C>(logits, count);
      C sum = row_exp_sum<C, T, T>(logits, top, nullptr, count);
      if (!step[0]) sum *= static_cast<C>(n);
      C log_sum = std::log(sum), scale = C(1) / sum, total = 0;
      for (int64_t i = 0; i < n; ++i) {
        C shifted = static_cast<C>(logits[i * step[0]]) - top, label = wanted[i * step[1]];
        C term = label * (log_sum - shifted);
        total += label == C(0) ? C(0) : term;  // An impossible class that is not wanted costs nothing.
        out[o + i] = T(functors::Exp::apply(shifted) * scale - label);
      }
      losses[o / n] = T(total);
    });
  });
}

// The same with one wanted class per row. A label outside [0, classes) makes the step fail.
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
  dispatch(features.dtype(), Floats{}, [&]<typename T>() {
    using C = Compute<T>;
    const T* x = ctx.input(0).flat<T>();
    T* losses = loss.flat<T>();
    T* out = backprop.flat<T>();
    parallel_for(batch, std::max<int64_t>(1, kElementGrain / 8 / std::max<int64_t>(1, n)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t r = begin; r < end; ++r) {
                     const T* logits = x + r * n;
                     C top = row_max<C>(logits, n);
                     C chosen = static_cast<C>(logits[wanted[r]]) - top;
                     C sum = row_exp_sum<C, T, T>(logits, top, nullptr, n);
                     C scale = C(1) / sum;
                     losses[r] = T(std::log(sum) - chosen);
                     T* row = out + r * n;
#pragma GCC ivdep
                     for (int64_t i = 0; i < n; ++i)
                       row[i] = T(functors::Exp::apply(static_cast<C>(logits[i]) - top) * scale);
                     row[wanted[r]] = T(functors::Exp::apply(chosen) * scale - C(1));
                   }
                 });
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
