// CTCLoss: the negative log probability of label sequences under connectionist temporal classification, and its
// gradient (Graves et al., "Connectionist temporal classification", ICML 2006).
//
// Inputs are logits [time, batch, classes]; the last class is the blank. All probabilities are kept as logarithms.
#include <atomic>
#include <limits>
#include <new>

#include "kernel/registry.h"
#include "thread/parallel.h"

namespace thalweg {
namespace {

template <typename T>
constexpr T kLogZero = -std::numeric_limits<T>::infinity();

template <typename T>
inline T log_sum(T a, T b) {
  if (a == kLogZero<T>) return b;
  if (b == kLogZero<T>) return a;
  return a > b ? a + std::log1p(std::exp(b - a)) : b + std::log1p(std::exp(a - b));
}

struct Settings {
  bool collapse;       // Merge equal neighbours among the labels first.
  bool merge;          // Equal neighbours in time are one label; else a label stands for one moment only.
  bool skip_too_long;  // Labels that need more time than there is give a loss of zero instead of an error.
};

// Checks the labels and deals them to the examples.
std::vector<std::vector<int32_t>> labels_of(const Tensor& indices, const Tensor& values, int64_t batch, int64_t classes,
                                            const Settings& settings) {
  require(indices.rank() == 2 && indices.dim(1) == 2, "labels_indices must be a matrix with 2 columns, got shape ",
          indices.shape());
  require(values.rank() == 1, "labels_values must be a vector, got shape ", values.shape());
  require(indices.dim(0) == values.dim(0), "labels_indices and labels_values must contain the same number of rows, ",
          "but saw shapes ", indices.shape(), " and ", values.shape());
  const auto* at = indices.flat<int64_t>();
  const auto* value = values.flat<int32_t>();
  std::vector<std::vector<int32_t>> labels(static_cast<size_t>(batch));
  std::vector<bool> ended(static_cast<size_t>(batch));
  std::vector<int32_t> previous(static_cast<size_t>(batch), -1);
  for (int64_t i = 0; i < values.dim(0); ++i) {
    const int64_t b = at[2 * i];
    const int32_t label = value[i];
    require(b >= 0 && b < batch, "labels batch index must be between 0 and ", batch, " but saw: ", b);
    require(i == 0 || at[2 * i - 2] < b || (at[2 * i - 2] == b && at[2 * i - 1] < at[2 * i + 1]),
            "labels must be sorted by example and time: row ", i, " is [", b, ",", at[2 * i + 1], "] after [",
            i == 0 ? 0 : at[2 * i - 2], ",", i == 0 ? 0 : at[2 * i - 1], "]");
    require(label >= 0, "All labels must be nonnegative integers, batch: ", b, " label: ", label);
    require(label < classes, "No label may be greater than num_classes. num_classes: ", classes, ". batch: ", b,
            " label: ", label);
    const bool repeated = settings.collapse && label == previous[b];
    previous[b] = label;
    if (label == classes - 1) {
      ended[b] = true;
      continue;
    }
    require(!ended[b], "Saw a non-null label (index >= num_classes - 1) following a null label, batch: ", b,
            " num_classes: ", classes, " labels: ", label);
    if (!repeated) labels[b].push_back(label);
  }
  return labels;
}

// One example. `logits` and `gradient` are its first row; the next moment is `stride` elements further.
template <typename T>
class Example {
 public:
  Example(const std::vector<int32_t>& labels, int64_t time, int64_t classes, const Settings& settings)
      : time_(time), classes_(classes), merge_(settings.merge), path_(2 * labels.size() + 1) {
    for (size_t i = 0; i < path_.size(); ++i) path_[i] = i % 2 == 1 ? labels[i / 2] : static_cast<int32_t>(classes - 1);
    states_ = static_cast<int64_t>(path_.size());
  }

  T run(const T* logits, T* gradient, int64_t stride) {
    log_softmax(logits, stride);
    std::vector<T> alpha(static_cast<size_t>(time_ * states_), kLogZero<T>);
    forward(alpha.data());
    const T* last = alpha.data() + (time_ - 1) * states_;
    const T total = states_ > 1 ? log_sum(last[states_ - 1], last[states_ - 2]) : last[0];
    // Where no path exists, the gradient is that of the softmax alone.
    const bool possible = total != kLogZero<T>;
    std::vector<T> beta(static_cast<size_t>(states_), kLogZero<T>), next(static_cast<size_t>(states_));
    std::vector<T> seen(static_cast<size_t>(classes_));
    beta[states_ - 1] = 0;
    if (states_ > 1) beta[states_ - 2] = 0;
    for (int64_t t = time_ - 1; t >= 0; --t) {
      const T* y = logs_.data() + t * classes_;
      T* out = gradient + t * stride;
      for (int64_t k = 0; k < classes_; ++k) out[k] = std::exp(y[k]);
      if (!possible) continue;
      std::fill(seen.begin(), seen.end(), kLogZero<T>);
      for (int64_t s = 0; s < states_; ++s) seen[path_[s]] = log_sum(seen[path_[s]], alpha[t * states_ + s] + beta[s]);
      for (int64_t k = 0; k < classes_; ++k)
        if (seen[k] != kLogZero<T>) out[k] -= std::exp(seen[k] - total);
      if (t > 0) backward(y, beta, next);
    }
    return -total;
  }

 private:
  void log_softmax(const T* logits, int64_t stride) {
    logs_.resize(static_cast<size_t>(time_ * classes_));
    for (int64_t t = 0; t < time_; ++t) {
      const T* row = logits + t * stride;
      T* out = logs_.data() + t * classes_;
      const T top = *std::max_element(row, row + classes_);
      T sum = 0;
      for (int64_t k = 0; k < classes_; ++k) sum += std::exp(row[k] - top);
      const T shift = top + std::log(sum);
      for (int64_t k = 0; k < classes_; ++k) out[k] = row[k] - shift;
    }
  }
  bool may_stay(int64_t s) const { return merge_ || s % 2 == 0; }
  // Whether a path may go from state s - 2 to state s without the blank between.
  bool may_skip(int64_t s) const { return s >= 2 && s % 2 == 1 && !(merge_ && path_[s] == path_[s - 2]); }

  void forward(T* alpha) const {
    alpha[0] = logs_[path_[0]];
    if (states_ > 1) alpha[1] = logs_[path_[1]];
    for (int64_t t = 1; t < time_; ++t) {
      const T* before = alpha + (t - 1) * states_;
      T* now = alpha + t * states_;
      const T* y = logs_.data() + t * classes_;
      // States that cannot be reached yet, or from which the end is too far, stay at zero.
      const int64_t first = std::max<int64_t>(0, states_ - 2 * (time_ - t)), end = std::min(states_, 2 * (t + 1));
      for (int64_t s = first; s < end; ++s) {
        T sum = may_stay(s) ? before[s] : kLogZero<T>;
        if (s >= 1) sum = log_sum(sum, before[s - 1]);
        if (may_skip(s)) sum = log_sum(sum, before[s - 2]);
        now[s] = sum + y[path_[s]];
      }
    }
  }
  // beta: the log probability of the rest of the path after a moment, from each state. Moves one moment back.
  void backward(const T* y, std::vector<T>& beta, std::vector<T>& next) const {
    next.swap(beta);
    for (int64_t s = 0; s < states_; ++s) next[s] += y[path_[s]];
    for (int64_t s = 0; s < states_; ++s) {
      T sum = may_stay(s) ? next[s] : kLogZero<T>;
      if (s + 1 < states_) sum = log_sum(sum, next[s + 1]);
      if (s + 2 < states_ && may_skip(s + 2)) sum = log_sum(sum, next[s + 2]);
      beta[s] = sum;
    }
  }

  int64_t time_, classes_, states_;
  bool merge_;
  std::vector<int32_t> path_;  // The labels with blanks around and between.
  std::vector<T> logs_;
};

struct CTCLoss : Kernel {
  explicit CTCLoss(const Construction& c)
      : settings{c.attr<bool>("preprocess_collapse_repeated", false), c.attr<bool>("ctc_merge_repeated", true),
                 c.attr<bool>("ignore_longer_outputs_than_inputs", false)} {}

  void compute(Context& ctx) override {
    const Tensor &inputs = ctx.input(0), &lengths = ctx.input(3);
    require(inputs.rank() == 3, "inputs is not a 3-Tensor: got shape ", inputs.shape());
    require(lengths.rank() == 1, "sequence_length is not a vector: got shape ", lengths.shape());
    const int64_t time = inputs.dim(0), batch = inputs.dim(1), classes = inputs.dim(2);
    require(batch != 0 && time != 0, "inputs must have a batch and a time dimension that are not 0, got shape ",
            inputs.shape());
    require(classes != 0 && classes <= std::numeric_limits<int32_t>::max(), "inputs must have from 1 to 2^31-1 classes",
            ", got shape ", inputs.shape());
    require(lengths.dim(0) == batch, "len(sequence_length) != batch_size. len(sequence_length): ", lengths.dim(0),
            " batch_size: ", batch);
    const auto labels = labels_of(ctx.input(1), ctx.input(2), batch, classes, settings);
    const auto* length = lengths.flat<int32_t>();
    std::vector<bool> skipped(static_cast<size_t>(batch));
    for (int64_t b = 0; b < batch; ++b) {
      require(length[b] >= 0 && length[b] <= time, "sequence_length(", b, ") must be in [0, ", time, "], got ",
              length[b]);
      // Repetitions may need more than that, for blanks between them: then no path exists, and the loss is infinite.
      const int64_t needed = static_cast<int64_t>(labels[b].size());
      skipped[b] = needed > length[b] && settings.skip_too_long;
      require(needed <= length[b] || skipped[b], "Not enough time for target transition sequence (required: ", needed,
              ", available: ", length[b], ") in batch ", b,
              ". You can skip such examples with ignore_longer_outputs_than_inputs");
    }
    Tensor& loss = ctx.allocate(0, Shape{batch});
    Tensor& gradient = ctx.allocate(1, inputs.shape());
    dispatch(inputs.dtype(), WideFloats{}, [&]<typename T>() {
      const T* x = inputs.flat<T>();
      T *out = loss.flat<T>(), *grad = gradient.flat<T>();
      const int64_t stride = batch * classes;
      std::fill_n(grad, gradient.num_elements(), T(0));
      std::fill_n(out, batch, T(0));
      for_examples(batch, [&](int64_t b) {
        if (skipped[b] || length[b] == 0) return;
        Example<T> example(labels[b], length[b], classes, settings);
        out[b] = example.run(x + b * classes, grad + b * classes, stride);
      });
    });
  }

  // Examples may run out of memory, which must not leave the parallel loop as an exception.
  template <typename Body>
  static void for_examples(int64_t batch, const Body& body) {
    std::atomic<bool> failed{false};
    parallel_for(batch, 1, [&](int64_t begin, int64_t end) {
      try {
        for (int64_t b = begin; b < end; ++b) body(b);
      } catch (const std::bad_alloc&) {
        failed = true;
      }
    });
    if (failed) fail(Code::resource_exhausted, "no memory for the paths of an example");
  }

  Settings settings;
};
REGISTER(kernel("CTCLoss").types("T", WideFloats{}).make<CTCLoss>());

}  // namespace
}  // namespace thalweg
