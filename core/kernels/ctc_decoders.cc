// CTCGreedyDecoder and CTCBeamSearchDecoder: from the outputs of a network over time to label sequences.
#include <limits>
#include <memory>
#include <new>

#include "kernel/registry.h"
#include "thread/parallel.h"

namespace thalweg {
namespace {

struct Inputs {
  int64_t time, batch, classes;
  const int32_t* length;

  explicit Inputs(Context& ctx) {
    const Tensor &inputs = ctx.input(0), &lengths = ctx.input(1);
    require(inputs.rank() == 3, "inputs is not a 3-Tensor: got shape ", inputs.shape());
    time = inputs.dim(0), batch = inputs.dim(1), classes = inputs.dim(2);
    require(time > 0, "max_time is 0: got shape ", inputs.shape());
    require(classes > 0 && classes <= std::numeric_limits<int32_t>::max(),
            "inputs must have from 1 to 2^31-1 classes, got shape ", inputs.shape());
    require(lengths.rank() == 1 && lengths.dim(0) == batch, "len(sequence_length) != batch_size: got shape ",
            lengths.shape(), " for inputs of shape ", inputs.shape());
    length = lengths.flat<int32_t>();
    for (int64_t b = 0; b < batch; ++b)
      require(length[b] >= 0 && length[b] <= time, "sequence_length[", b, "] must be in [0, max_time = ", time,
              "], got ", length[b]);
  }
};

using Sequences = std::vector<std::vector<int64_t>>;

// One sequence per example as a sparse matrix.
void store(Context& ctx, int indices_at, int values_at, int shape_at, const Sequences& sequences) {
  int64_t count = 0, longest = 0;
  for (const auto& sequence : sequences) {
    count += static_cast<int64_t>(sequence.size());
    longest = std::max(longest, static_cast<int64_t>(sequence.size()));
  }
  auto* at = ctx.allocate(indices_at, Shape{count, 2}).flat<int64_t>();
  auto* value = ctx.allocate(values_at, Shape{count}).flat<int64_t>();
  for (size_t b = 0; b < sequences.size(); ++b)
    for (size_t i = 0; i < sequences[b].size(); ++i) {
      *at++ = static_cast<int64_t>(b);
      *at++ = static_cast<int64_t>(i);
      *value++ = sequences[b][i];
    }
  auto* shape = ctx.allocate(shape_at, Shape{2}).flat<int64_t>();
  shape[0] = static_cast<int64_t>(sequences.size());
  shape[1] = longest;
}

// The most probable class at each moment, without blanks.
struct CTCGreedyDecoder : Kernel {
  explicit CTCGreedyDecoder(const Construction& c)
      : merge(c.attr<bool>("merge_repeated", false)), blank(c.attr<int64_t>("blank_index", -1)) {}
  void compute(Context& ctx) override {
    const Inputs in(ctx);
    const int64_t null = blank < 0 ? blank + in.classes : blank;
    require(null >= 0 && null < in.classes, "blank_index must be in [", -in.classes, ", ", in.classes, "), got ",
            blank);
    Sequences decoded(static_cast<size_t>(in.batch));
    Tensor& score = ctx.allocate(3, Shape{in.batch, 1});
    dispatch(score.dtype(), WideFloats{}, [&]<typename T>() {
      const T* x = ctx.input(0).flat<T>();
      for (int64_t b = 0; b < in.batch; ++b) {
        T sum = 0;
        int64_t previous = -1;
        for (int64_t t = 0; t < in.length[b]; ++t) {
          const T* row = x + (t * in.batch + b) * in.classes;
          const int64_t best = std::max_element(row, row + in.classes) - row;
          sum -= row[best];
          if (best != null && !(merge && best == previous)) decoded[b].push_back(best);
          previous = best;
        }
        score.flat<T>()[b] = sum;
      }
    });
    store(ctx, 0, 1, 2, decoded);
  }
  bool merge;
  int64_t blank;
};
REGISTER(kernel("CTCGreedyDecoder").types("T", WideFloats{}).make<CTCGreedyDecoder>());

// A beam of label prefixes, which form a tree. For each prefix: the log probability of all paths so far that end in its
// last label, and of those that end in a blank.
template <typename T>
class Beam {
 public:
  Beam(int64_t classes, int64_t width) : classes_(classes), blank_(classes - 1), width_(width) {
    nodes_.push_back({});
    nodes_[0].now = {.total = 0, .blank = 0, .label = kZero};
    beam_.push_back(0);
  }

  void step(const T* logits) {
    const T shift = log_sum_exp(logits);
    sort_beam();
    const std::vector<int32_t> branches = beam_;
    for (int32_t b : branches) nodes_[b].before = nodes_[b].now;
    for (int32_t b : branches) {
      Node& node = nodes_[b];
      if (node.parent >= 0) {
        const Node& parent = nodes_[node.parent];
        if (parent.active()) node.now.label = log_sum(node.now.label, from(parent, node.label));
        node.now.label += logits[node.label] - shift;
      }
      node.now.blank = node.before.total + logits[blank_] - shift;
      node.now.total = log_sum(node.now.blank, node.now.label);
    }
    std::make_heap(beam_.begin(), beam_.end(), better());
    for (int32_t b : branches) {
      if (!fits(nodes_[b].before.total)) continue;
      for (int64_t label = 0; label < classes_; ++label)
        if (label != blank_) grow(b, static_cast<int32_t>(label), logits[label] - shift);
    }
  }

  // The best prefixes and their log probabilities, at most `count`.
  void best(int64_t count, bool merge, std::vector<std::vector<int64_t>>* paths, std::vector<T>* scores) {
    sort_beam();
    for (int32_t b : beam_) {
      if (static_cast<int64_t>(paths->size()) == count) break;
      scores->push_back(nodes_[b].now.total);
      std::vector<int64_t> path;
      for (int32_t at = b; nodes_[at].parent >= 0; at = nodes_[at].parent)
        if (!(merge && !path.empty() && path.back() == nodes_[at].label)) path.push_back(nodes_[at].label);
      std::reverse(path.begin(), path.end());
      paths->push_back(std::move(path));
    }
  }

 private:
  static constexpr T kZero = -std::numeric_limits<T>::infinity();
  struct Probability {
    T total = kZero, blank = kZero, label = kZero;
  };
  struct Node {
    int32_t parent = -1, label = -1;
    Probability before, now;
    std::vector<std::pair<int32_t, int32_t>> children;  // (label, node), in order of label.
    bool active() const { return now.total != kZero; }
  };

  static T log_sum(T a, T b) {
    if (a == kZero) return b;
    if (b == kZero) return a;
    return std::max(a, b) + std::log1p(std::exp(-std::abs(a - b)));
  }
  T log_sum_exp(const T* x) const {
    const T top = *std::max_element(x, x + classes_);
    T sum = 0;
    for (int64_t k = 0; k < classes_; ++k) sum += std::exp(x[k] - top);
    return top + std::log(sum);
  }
  auto better() const {
    return [this](int32_t a, int32_t b) { return nodes_[a].now.total > nodes_[b].now.total; };
  }
  void sort_beam() { std::stable_sort(beam_.begin(), beam_.end(), better()); }
  // The probability that goes from a prefix into its extension: if that repeats the last label, a blank must lie
  // between.
  static T from(const Node& parent, int32_t label) {
    return parent.label == label ? parent.before.blank : parent.before.total;
  }
  bool fits(T total) const {
    return total > kZero && (static_cast<int64_t>(beam_.size()) < width_ || total > nodes_[beam_.front()].now.total);
  }

  void grow(int32_t b, int32_t label, T log_probability) {
    auto& children = nodes_[b].children;
    auto found = std::lower_bound(children.begin(), children.end(), std::pair(label, int32_t{0}));
    const bool known = found != children.end() && found->first == label;
    if (known && nodes_[found->second].active()) return;
    const T total = log_probability + from(nodes_[b], label);
    if (!fits(total)) {
      if (known) nodes_[found->second].now = nodes_[found->second].before = {};
      return;
    }
    int32_t child;
    if (known) {
      child = found->second;
    } else {
      child = static_cast<int32_t>(nodes_.size());
      children.insert(found, {label, child});
      nodes_.push_back({});
      nodes_[child].parent = b;
      nodes_[child].label = label;
    }
    nodes_[child].now = {.total = total, .blank = kZero, .label = total};
    if (static_cast<int64_t>(beam_.size()) == width_) {
      std::pop_heap(beam_.begin(), beam_.end(), better());
      nodes_[beam_.back()].now = {};
      beam_.pop_back();
    }
    beam_.push_back(child);
    std::push_heap(beam_.begin(), beam_.end(), better());
  }

  int64_t classes_, blank_, width_;
  std::vector<Node> nodes_;
  std::vector<int32_t> beam_;  // While growing: a heap with the worst in front.
};

struct CTCBeamSearchDecoder : Kernel {
  explicit CTCBeamSearchDecoder(const Construction& c)
      : width(c.attr<int64_t>("beam_width")),
        top_paths(c.attr<int64_t>("top_paths")),
        merge(c.attr<bool>("merge_repeated", true)) {
    require(width > 0 && width <= 1 << 20, "beam_width must be in [1, 2^20], got ", width);
    require(top_paths > 0 && top_paths <= width, "top_paths must be in [1, beam_width = ", width, "], got ", top_paths);
  }
  void compute(Context& ctx) override {
    const Inputs in(ctx);
    require(in.time <= (std::numeric_limits<int32_t>::max() - 1) / width, "a beam of ", width, " over ", in.time,
            " moments has too many prefixes");
    const int paths = static_cast<int>(top_paths);
    Tensor& score = ctx.allocate(3 * paths, Shape{in.batch, top_paths});
    std::vector<Sequences> decoded(static_cast<size_t>(paths), Sequences(static_cast<size_t>(in.batch)));
    std::vector<char> too_few(static_cast<size_t>(in.batch)), no_memory(too_few);
    dispatch(score.dtype(), WideFloats{}, [&]<typename T>() {
      const T* x = ctx.input(0).flat<T>();
      parallel_for(in.batch, 1, [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b) {
          try {
            Beam<T> beam(in.classes, width);
            for (int64_t t = 0; t < in.length[b]; ++t) beam.step(x + (t * in.batch + b) * in.classes);
            Sequences found;
            std::vector<T> scores;
            beam.best(top_paths, merge, &found, &scores);
            too_few[b] = static_cast<int64_t>(found.size()) < top_paths;
            for (size_t p = 0; p < found.size(); ++p) {
              decoded[p][b] = std::move(found[p]);
              score.flat<T>()[b * top_paths + static_cast<int64_t>(p)] = scores[p];
            }
          } catch (const std::bad_alloc&) {
            no_memory[b] = 1;
          }
        }
      });
    });
    for (int64_t b = 0; b < in.batch; ++b) {
      if (no_memory[b]) fail(Code::resource_exhausted, "no memory for the beam of example ", b);
      require(!too_few[b], "Less leaves in the beam search than requested: top_paths is ", top_paths, ", example ", b,
              " has fewer after ", in.length[b], " moments");
    }
    for (int p = 0; p < paths; ++p) store(ctx, p, paths + p, 2 * paths + p, decoded[p]);
  }
  int64_t width, top_paths;
  bool merge;
};
REGISTER(kernel("CTCBeamSearchDecoder").types("T", WideFloats{}).make<CTCBeamSearchDecoder>());

}  // namespace
}  // namespace thalweg
