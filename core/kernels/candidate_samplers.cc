// Candidate samplers: classes drawn for losses over many classes, with how often each was to be expected.
//
// The streams are TensorFlow's: the same seeds draw the same classes. Sampling without replacement ("unique") rejects
// classes drawn before; the expected counts then follow from the number of tries.
#include <cstdlib>
#include <fstream>
#include <limits>
#include <numeric>
#include <unordered_map>

#include "compute/random/random_state.h"
#include "kernel/registry.h"
#include "random/distributions.h"

namespace thalweg {
namespace {

constexpr int64_t kMaxInt32 = std::numeric_limits<int32_t>::max();

uint64_t next_word(PhiloxWords& words, uint32_t) { return words(); }
uint64_t next_word(PhiloxWords& words, uint64_t) {
  const uint64_t low = words();
  return low | static_cast<uint64_t>(words()) << 32;
}

// A number in [0, n), n > 0, every one equally likely: the first (2^bits mod n) words are drawn again.
template <typename U>
U uniform_below(PhiloxWords& words, U n) {
  if ((n & (n - 1)) == 0) return static_cast<U>(next_word(words, n)) & (n - 1);
  constexpr U largest = std::numeric_limits<U>::max();
  const U rejected = largest % n + 1;
  U bits;
  do {
    bits = static_cast<U>(next_word(words, n));
  } while (bits < rejected);
  return bits % n;
}

struct Uniform {
  explicit Uniform(const Construction& c) : range(c.attr<int64_t>("range_max")) {}
  int64_t sample(PhiloxWords& words) const {
    return static_cast<int64_t>(uniform_below(words, static_cast<uint64_t>(range)));
  }
  float probability(int64_t) const { return 1.0f / static_cast<float>(range); }
  int64_t drawable() const { return range; }
  int64_t range;
};

// P(k) = log((k + 2) / (k + 1)) / log(range + 1): Zipf's law, for classes sorted by frequency.
struct LogUniform {
  explicit LogUniform(const Construction& c)
      : range(c.attr<int64_t>("range_max")), log_range(std::log1p(static_cast<double>(range))) {}
  int64_t sample(PhiloxWords& words) const {
    const uint32_t high = words(), low = words();
    return (static_cast<int64_t>(std::exp(uniform_double(high, low) * log_range)) - 1) % range;
  }
  float probability(int64_t k) const {
    const double x = static_cast<double>(k);
    return static_cast<float>(std::log((x + 2.0) / (x + 1.0)) / log_range);
  }
  int64_t drawable() const { return range; }
  int64_t range;
  double log_range;
};

// Weights from a file or an attribute, drawn by the alias method (Walker 1977, Vose 1991): one float, one column.
struct FixedUnigram {
  explicit FixedUnigram(const Construction& c) : range(c.attr<int64_t>("range_max")) {
    const auto file = c.attr<std::string>("vocab_file", "");
    const auto unigrams = c.attr<std::vector<double>>("unigrams", {});
    require(file.empty() != unigrams.empty(), "exactly one of vocab_file and unigrams must be given, got vocab_file '",
            file, "' and ", unigrams.size(), " unigrams");
    shards_ = c.attr<int64_t>("num_shards", 1);
    shard_ = c.attr<int64_t>("shard", 0);
    distortion_ = c.attr<float>("distortion", 1.0f);
    require(shards_ > 0 && shard_ >= 0 && shard_ < shards_, "shard must be in [0, num_shards), got shard ", shard_,
            " of ", shards_);
    const auto reserved = c.attr<int64_t>("num_reserved_ids", 0);
    require(reserved >= 0 && reserved <= kMaxInt32, "num_reserved_ids must be in [0, 2^31), got ", reserved);
    for (; seen_ < reserved; ++seen_)
      if (seen_ % shards_ == shard_) weights_.push_back(0.0f);
    if (file.empty())
      for (double weight : unigrams) add(static_cast<float>(weight));
    else
      load(file);
    require(static_cast<int64_t>(weights_.size()) == range, "range_max is ", range, ", but there are ", weights_.size(),
            " weights, reserved ids included");
    require(total_ > 0 && std::isfinite(total_), "the weights must have a positive, finite sum, got ", total_);
    for (float weight : weights_) drawable_ += weight > total_ * 1e-8f;
    build_columns();
  }
  int64_t sample(PhiloxWords& words) const {
    const float r = uniform_float(words());
    const uint32_t column = uniform_below(words, static_cast<uint32_t>(columns_.size()));
    return r < columns_[column].share ? column : columns_[column].other;
  }
  float probability(int64_t k) const { return weights_[k] / total_; }
  // The classes that can be drawn; those whose share is hopelessly small do not count.
  int64_t drawable() const { return drawable_; }
  int64_t range;

 private:
  struct Column {
    float share;
    int32_t other;
  };

  void add(float weight) {
    if (seen_++ % shards_ != shard_) return;
    const float distorted = std::pow(weight, distortion_);
    require(distorted >= 0 && std::isfinite(distorted), "weights must be finite and not negative, got ", weight);
    require(static_cast<int64_t>(weights_.size()) < kMaxInt32, "more than 2^31 weights");
    total_ += distorted;
    weights_.push_back(distorted);
  }

  void load(const std::string& file) {
    std::ifstream in(file);
    if (!in) fail(Code::not_found, "cannot open the vocabulary file '", file, "'");
    for (std::string line; std::getline(in, line);) {
      const size_t comma = line.rfind(',');
      const char* text = line.c_str() + (comma == std::string::npos ? 0 : comma + 1);
      char* end = nullptr;
      const float weight = std::strtof(text, &end);
      while (*end == ' ' || *end == '\r' || *end == '\t') ++end;
      require(end != text && *end == '\0', "wrong format of vocabulary file '", file, "' at line: ", line);
      add(weight);
    }
  }

  // Columns of equal height, each shared by at most two classes.
  void build_columns() {
    const size_t n = weights_.size();
    columns_.resize(n);
    std::vector<double> height(n);
    std::vector<int32_t> low, high;
    double sum = 0;
    for (float weight : weights_) sum += weight;
    for (size_t i = 0; i < n; ++i) {
      height[i] = static_cast<double>(weights_[i] * static_cast<float>(n)) / sum;
      (height[i] < 1.0 ? low : high).push_back(static_cast<int32_t>(i));
    }
    while (!high.empty() && !low.empty()) {
      const int32_t l = low.back(), h = high.back();
      low.pop_back();
      high.pop_back();
      columns_[l].other = h;
      height[h] -= 1.0 - height[l];
      (height[h] < 1.0 ? low : high).push_back(h);
    }
    for (size_t i = 0; i < n; ++i) columns_[i].share = static_cast<float>(height[i]);
    // The remaining columns are full, but for rounding.
    for (const auto* rest : {&high, &low})
      for (int32_t i : *rest) columns_[i] = {1.0f, i};
  }

  int64_t shards_, shard_, seen_ = 0, drawable_ = 0;
  float distortion_, total_ = 0;
  std::vector<float> weights_;
  std::vector<Column> columns_;
};

// Every class starts with the weight 1 and gains one whenever it is among the true classes: the distribution follows
// the data. Prefix sums of the gains are kept in a Fenwick tree, whose zero pages cost nothing until touched.
struct LearnedUnigram {
  explicit LearnedUnigram(const Construction& c) : range(c.attr<int64_t>("range_max")), total_(range) {
    require(range < kMaxInt32, "range_max must be below 2^31-1, got ", range);
    tree_.reset(static_cast<int32_t*>(std::calloc(static_cast<size_t>(range) + 1, sizeof(int32_t))));
    if (tree_ == nullptr) fail(Code::resource_exhausted, "no memory for the weights of ", range, " classes");
    while (top_ * 2 <= range) top_ *= 2;
  }
  int64_t sample(PhiloxWords& words) const {
    int64_t left = uniform_below(words, static_cast<uint32_t>(total_)), at = 0;
    for (int64_t step = top_; step > 0; step /= 2) {
      if (at + step > range || tree_[at + step] + step > left) continue;
      at += step;
      left -= tree_[at] + step;
    }
    return at;
  }
  float probability(int64_t k) const {
    return static_cast<float>(1 + gained(k + 1) - gained(k)) / static_cast<float>(total_);
  }
  int64_t drawable() const { return range; }
  void update(const int64_t* classes, int64_t count) {
    count = std::min(count, kMaxInt32 - total_);
    for (int64_t i = 0; i < count; ++i)
      for (int64_t at = classes[i] + 1; at <= range; at += at & -at) ++tree_[at];
    total_ += count;
  }
  int64_t range;
  std::mutex mutex;

 private:
  int64_t gained(int64_t end) const {
    int64_t sum = 0;
    for (int64_t at = end; at > 0; at -= at & -at) sum += tree_[at];
    return sum;
  }
  struct Free {
    void operator()(int32_t* p) const { std::free(p); }
  };
  int64_t total_, top_ = 1;
  std::unique_ptr<int32_t[], Free> tree_;
};

// The classes drawn so far: open addressing, at most half full.
class Drawn {
 public:
  explicit Drawn(int64_t count) {
    size_t size = 16;
    while (size < 2 * static_cast<size_t>(count)) size *= 2;
    slots_.assign(size, -1);
  }
  // Whether it is new.
  bool insert(int64_t value) {
    const size_t mask = slots_.size() - 1;
    size_t at = (static_cast<uint64_t>(value) * 0x9E3779B97F4A7C15u >> 20) & mask;
    while (slots_[at] != -1) {
      if (slots_[at] == value) return false;
      at = (at + 1) & mask;
    }
    slots_[at] = value;
    return true;
  }

 private:
  std::vector<int64_t> slots_;
};

template <typename S>
struct CandidateSampler : Kernel {
  explicit CandidateSampler(const Construction& c)
      : state(c),
        sampler(c),
        num_true(c.attr<int64_t>("num_true")),
        num_sampled(c.attr<int64_t>("num_sampled")),
        unique(c.attr<bool>("unique")) {
    require(num_sampled > 0 && num_true > 0 && sampler.range > 0, "num_sampled, num_true and range_max must be ",
            "positive, got ", num_sampled, ", ", num_true, " and ", sampler.range);
  }

  void compute(Context& ctx) override {
    const Tensor& classes = ctx.input(0);
    require(classes.rank() == 2, "true_classes must be a matrix, got shape ", classes.shape());
    require(classes.dim(1) == num_true, "true_classes must have num_true = ", num_true, " columns, got shape ",
            classes.shape());
    require(!unique || num_sampled <= sampler.drawable(),
            "Sampler's range is too small: cannot draw num_sampled = ", num_sampled, " different classes from ",
            sampler.drawable());
    constexpr bool learns = requires(S s) { s.update(nullptr, 0); };
    const auto* truth = classes.flat<int64_t>();
    for (int64_t i = 0; i < classes.num_elements(); ++i)
      require(truth[i] >= 0 && truth[i] < sampler.range, "true_classes has ", truth[i], ", which is not in [0, ",
              sampler.range, ")");
    auto* drawn = ctx.allocate(0, Shape{num_sampled}).template flat<int64_t>();
    auto* expected_truth = ctx.allocate(1, classes.shape()).template flat<float>();
    auto* expected_drawn = ctx.allocate(2, Shape{num_sampled}).template flat<float>();
    // TensorFlow's estimate of how many words rejection takes, so that later steps agree too.
    PhiloxWords words(state.reserve(ctx, static_cast<uint64_t>(num_sampled) * 512));
    std::unique_lock<std::mutex> lock;
    if constexpr (learns) lock = std::unique_lock(sampler.mutex);
    const int64_t tries = draw(words, drawn);
    for (int64_t i = 0; i < num_sampled; ++i) expected_drawn[i] = expected(drawn[i], tries);
    for (int64_t i = 0; i < classes.num_elements(); ++i) expected_truth[i] = expected(truth[i], tries);
    if constexpr (learns) sampler.update(truth, classes.num_elements());
  }

 private:
  int64_t draw(PhiloxWords& words, int64_t* out) const {
    if (!unique) {
      for (int64_t i = 0; i < num_sampled; ++i) out[i] = sampler.sample(words);
      return num_sampled;
    }
    Drawn seen(num_sampled);
    int64_t tries = 0;
    for (int64_t found = 0; found < num_sampled;) {
      if (++tries > kMaxInt32)
        fail(Code::resource_exhausted, "found only ", found, " of ", num_sampled, " different classes in ", tries - 1,
             " tries");
      const int64_t value = sampler.sample(words);
      if (seen.insert(value)) out[found++] = value;
    }
    return tries;
  }

  float expected(int64_t value, int64_t tries) const {
    const float p = sampler.probability(value);
    if (tries == num_sampled) return p * static_cast<float>(num_sampled);
    return -std::expm1(static_cast<float>(tries) * std::log1p(-p));
  }

  RandomState state;
  S sampler;
  int64_t num_true, num_sampled;
  bool unique;
};
REGISTER(kernel("UniformCandidateSampler").make<CandidateSampler<Uniform>>());
REGISTER(kernel("LogUniformCandidateSampler").make<CandidateSampler<LogUniform>>());
REGISTER(kernel("FixedUnigramCandidateSampler").make<CandidateSampler<FixedUnigram>>());
REGISTER(kernel("LearnedUnigramCandidateSampler").make<CandidateSampler<LearnedUnigram>>());
REGISTER(kernel("ThreadUnsafeUnigramCandidateSampler").make<CandidateSampler<LearnedUnigram>>());

// All classes, once each: for tests and for few classes.
void all_candidates(Context& ctx) {
  const Tensor& classes = ctx.input(0);
  const auto num_true = ctx.def().attr<int64_t>("num_true");
  const auto count = ctx.def().attr<int64_t>("num_sampled");
  require(classes.rank() == 2 && classes.dim(1) == num_true, "true_classes must be a matrix with num_true = ", num_true,
          " columns, got shape ", classes.shape());
  auto* drawn = ctx.allocate(0, Shape{count}).flat<int64_t>();
  auto* expected_truth = ctx.allocate(1, classes.shape()).flat<float>();
  auto* expected_drawn = ctx.allocate(2, Shape{count}).flat<float>();
  std::iota(drawn, drawn + count, int64_t{0});
  std::fill_n(expected_drawn, count, 1.0f);
  std::fill_n(expected_truth, classes.num_elements(), 1.0f);
}
REGISTER(kernel("AllCandidateSampler").function<all_candidates>());

// Where a sampled class is one of the true classes of a row: (row, place among the samples), and the number that makes
// its probability zero when added to the logit.
void accidental_hits(Context& ctx) {
  const Tensor &classes = ctx.input(0), &sampled = ctx.input(1);
  const auto num_true = ctx.def().attr<int64_t>("num_true");
  require(classes.rank() == 2 && classes.dim(1) == num_true, "true_classes must be a matrix with num_true = ", num_true,
          " columns, got shape ", classes.shape());
  require(sampled.rank() == 1, "sampled_candidates must be a vector, got shape ", sampled.shape());
  require(classes.dim(0) <= kMaxInt32, "true_classes has ", classes.dim(0), " rows, more than 2^31-1");
  const auto* value = sampled.flat<int64_t>();
  // Of equal samples the last one counts.
  std::unordered_map<int64_t, int64_t> place(static_cast<size_t>(sampled.num_elements()));
  for (int64_t i = 0; i < sampled.num_elements(); ++i) place[value[i]] = i;
  std::vector<int32_t> rows;
  std::vector<int64_t> ids;
  const auto* truth = classes.flat<int64_t>();
  for (int64_t i = 0; i < classes.num_elements(); ++i)
    if (auto found = place.find(truth[i]); found != place.end()) {
      rows.push_back(static_cast<int32_t>(i / num_true));
      ids.push_back(found->second);
    }
  ctx.set_output(0, Tensor::vector<int32_t>(rows));
  ctx.set_output(1, Tensor::vector<int64_t>(ids));
  Tensor& weights = ctx.allocate(2, Shape{static_cast<int64_t>(ids.size())});
  std::fill_n(weights.flat<float>(), ids.size(), std::numeric_limits<float>::lowest());
}
REGISTER(kernel("ComputeAccidentalHits").function<accidental_hits>());

}  // namespace
}  // namespace thalweg
