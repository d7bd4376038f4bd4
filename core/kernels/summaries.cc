// ScalarSummary, HistogramSummary and MergeSummary: Summary messages, written field by field.
#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_set>

#include "io/wire.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

// Fields of Summary, Summary.Value and HistogramProto.
constexpr int kValue = 1, kTag = 1, kSimpleValue = 2, kHistogram = 5;
constexpr int kMin = 1, kMax = 2, kCount = 3, kSum = 4, kSumOfSquares = 5, kLimits = 6, kBuckets = 7;

void put_value(std::string& summary, const std::string& tag, std::string_view content) {
  std::string value;
  if (!tag.empty()) wire::put_bytes(value, kTag, tag);
  value.append(content);
  wire::put_bytes(summary, kValue, value);
}

void scalar_summary(Context& ctx) {
  const Tensor& tags = ctx.input(0);
  const Tensor& values = ctx.input(1);
  bool fits = tags.shape() == values.shape() || (tags.num_elements() == 1 && values.num_elements() == 1);
  if (!fits && tags.num_elements() == 1)
    fail(Code::invalid_argument, "tags and values are not the same shape: ", tags.shape(), " != ", values.shape(),
         " (tag '", tags.strings()[0], "')");
  require(fits, "tags and values are not the same shape: ", tags.shape(), " != ", values.shape());
  std::string summary;
  dispatch(values.dtype(), Reals{}, [&]<typename T>() {
    const T* data = values.flat<T>();
    std::string content;
    for (int64_t i = 0; i < values.num_elements(); ++i) {
      content.clear();
      wire::put_float(content, kSimpleValue, static_cast<float>(data[i]));
      put_value(summary, tags.strings()[i], content);
    }
  });
  ctx.set_output(0, Tensor::scalar<std::string>(std::move(summary)));
}

REGISTER(kernel("ScalarSummary").types("T", Reals{}).function<scalar_summary>());

// The buckets of TensorFlow's histograms: limits grow by a tenth from 1e-12 to 1e20, mirrored around zero.
class Buckets {
 public:
  static const Buckets& shared() {
    static const Buckets buckets;
    return buckets;
  }
  const std::vector<double>& limits() const { return limits_; }
  // The first bucket whose limit is greater than x; the last one if none is. x must not be NaN.
  size_t find(double x) const {
    // A table by sign, exponent and the first four bits behind the point: at most two limits share an entry.
    auto bits = __builtin_bit_cast(uint64_t, x);
    size_t at = first_[bits >> kShift];
    while (at + 1 < limits_.size() && limits_[at] <= x) ++at;
    return at;
  }

 private:
  static constexpr int kShift = 48;

  Buckets() {
    std::vector<double> positive;
    for (double v = 1.0e-12; v < 1.0e20; v *= 1.1) positive.push_back(v);
    positive.push_back(std::numeric_limits<double>::max());
    for (size_t i = positive.size(); i > 0; --i) limits_.push_back(-positive[i - 1]);
    limits_.push_back(0.0);
    limits_.insert(limits_.end(), positive.begin(), positive.end());
    first_.resize(size_t{1} << (64 - kShift));
    for (uint64_t entry = 0; entry < first_.size(); ++entry) {
      // The smallest value with these leading bits: among negative numbers that is the one with all others set.
      bool negative = entry >> 15;
      double least = __builtin_bit_cast(double, entry << kShift | (negative ? (uint64_t{1} << kShift) - 1 : 0));
      size_t at = std::isnan(least) ? 0 : std::upper_bound(limits_.begin(), limits_.end(), least) - limits_.begin();
      first_[entry] = static_cast<uint16_t>(std::min(at, limits_.size() - 1));
    }
  }

  std::vector<double> limits_;
  std::vector<uint16_t> first_;
};

class Histogram {
 public:
  Histogram() : counts_(Buckets::shared().limits().size()) {}
  void add(double x) {
    ++counts_[Buckets::shared().find(x)];
    if (x < min_) min_ = x;
    if (x > max_) max_ = x;
    ++count_;
    sum_ += x;
    sum_of_squares_ += x * x;
  }
  std::string encode() const {
    std::string out;
    auto put = [&](int field, double value) {
      if (__builtin_bit_cast(uint64_t, value) != 0) wire::put_double(out, field, value);
    };
    put(kMin, min_);
    put(kMax, max_);
    put(kCount, static_cast<double>(count_));
    put(kSum, sum_);
    put(kSumOfSquares, sum_of_squares_);
    // A run of empty buckets becomes one with the limit of the last.
    const std::vector<double>& limits = Buckets::shared().limits();
    std::vector<double> ends, counts;
    for (size_t i = 0; i < limits.size(); ++i) {
      bool empty_run = counts_[i] == 0 && i + 1 < limits.size() && counts_[i + 1] == 0;
      if (empty_run) continue;
      ends.push_back(limits[i]);
      counts.push_back(static_cast<double>(counts_[i]));
    }
    auto bytes = [](const std::vector<double>& values) {
      return std::string_view(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double));
    };
    wire::put_bytes(out, kLimits, bytes(ends));
    wire::put_bytes(out, kBuckets, bytes(counts));
    return out;
  }

 private:
  std::vector<int64_t> counts_;
  double min_ = std::numeric_limits<double>::max();
  double max_ = std::numeric_limits<double>::lowest();
  int64_t count_ = 0;
  double sum_ = 0;
  double sum_of_squares_ = 0;
};

void histogram_summary(Context& ctx) {
  const Tensor& tag = ctx.input(0);
  const Tensor& values = ctx.input(1);
  require(tag.num_elements() == 1, "tags must be a scalar, got shape ", tag.shape());
  const std::string& name = tag.strings()[0];
  Histogram histogram;
  dispatch(values.dtype(), Reals{}, [&]<typename T>() {
    const T* data = values.flat<T>();
    for (int64_t i = 0; i < values.num_elements(); ++i) {
      auto x = static_cast<double>(data[i]);
      if constexpr (is_real_float<T>) {
        if (std::isnan(x)) fail(Code::invalid_argument, "Nan in summary histogram for: ", name);
        if (std::isinf(x)) fail(Code::invalid_argument, "Infinity in summary histogram for: ", name);
      }
      histogram.add(x);
    }
  });
  std::string content, summary;
  wire::put_bytes(content, kHistogram, histogram.encode());
  put_value(summary, name, content);
  ctx.set_output(0, Tensor::scalar<std::string>(std::move(summary)));
}

REGISTER(kernel("HistogramSummary").types("T", Reals{}).function<histogram_summary>());

// The tag of a Summary.Value; false if the bytes are no such message.
bool find_tag(std::string_view value, std::string_view* tag) {
  wire::Reader reader(value);
  while (reader.next())
    if (reader.field() == kTag && reader.kind() == wire::Kind::bytes) *tag = reader.value();
  return reader.ok();
}

void merge_summary(Context& ctx) {
  std::string merged;
  // Views into the inputs, which stay alive while the kernel runs.
  std::unordered_set<std::string_view> tags;
  for (int i = 0; i < ctx.num_inputs(); ++i) {
    const Tensor& input = ctx.input(i);
    for (int64_t j = 0; j < input.num_elements(); ++j) {
      const std::string& bytes = input.strings()[j];
      wire::Reader reader(bytes);
      while (reader.next()) {
        std::string_view tag;
        if (reader.field() != kValue || reader.kind() != wire::Kind::bytes) continue;
        if (!find_tag(reader.value(), &tag))
          fail(Code::invalid_argument, "Could not parse one of the summary inputs: input ", i);
        if (!tag.empty() && !tags.insert(tag).second)
          fail(Code::invalid_argument, "Duplicate tag ", tag, " found in summary inputs");
        wire::put_bytes(merged, kValue, reader.value());
      }
      require(reader.ok(), "Could not parse one of the summary inputs: input ", i);
    }
  }
  ctx.set_output(0, Tensor::scalar<std::string>(std::move(merged)));
}

REGISTER(kernel("MergeSummary").function<merge_summary>());

}  // namespace
}  // namespace thalweg
