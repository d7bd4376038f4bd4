// Non-maximum suppression: the best boxes (or rows of an overlap matrix), without those that overlap a better one.
#include <limits>
#include <queue>

#include "compute/elementwise/elementwise.h"

namespace thalweg {
namespace {

using Scored = Types<DType::float16, DType::float32>;

struct Limits {
  int64_t most;           // How many may be selected.
  float overlap;          // More of it suppresses.
  float score;            // Candidates must exceed it.
  float softness = 0.0f;  // Sigma of soft suppression (Bodla et al., 2017), which drops nothing; 0 for none.
};

struct Selection {
  std::vector<int32_t> indices;
  std::vector<float> scores;
};

// Intersection over union; corners may come in any order, and boxes without area overlap nothing.
float overlap_of(const float* a, const float* b) {
  float top_a = std::min(a[0], a[2]), bottom_a = std::max(a[0], a[2]);
  float left_a = std::min(a[1], a[3]), right_a = std::max(a[1], a[3]);
  float top_b = std::min(b[0], b[2]), bottom_b = std::max(b[0], b[2]);
  float left_b = std::min(b[1], b[3]), right_b = std::max(b[1], b[3]);
  float area_a = (bottom_a - top_a) * (right_a - left_a), area_b = (bottom_b - top_b) * (right_b - left_b);
  if (!(area_a > 0) || !(area_b > 0)) return 0.0f;
  float height = std::max(std::min(bottom_a, bottom_b) - std::max(top_a, top_b), 0.0f);
  float width = std::max(std::min(right_a, right_b) - std::max(left_a, left_b), 0.0f);
  float shared = height * width;
  return shared / (area_a + area_b - shared);
}

// `overlap(i, j)` tells how much candidate i overlaps the selected j. NaN scores are never selected.
template <typename Overlap>
Selection select(const float* scores, int64_t n, const Limits& limits, const Overlap& overlap) {
  struct Candidate {
    float score;
    int32_t index;
    size_t compared;  // So many of the selected have lowered the score already.
    bool operator<(const Candidate& other) const {
      return score < other.score || (score == other.score && index > other.index);
    }
  };
  std::vector<Candidate> candidates;
  for (int64_t i = 0; i < n; ++i)
    if (scores[i] > limits.score) candidates.push_back({scores[i], static_cast<int32_t>(i), 0});
  std::priority_queue<Candidate> queue(std::less<Candidate>{}, std::move(candidates));
  Selection selected;
  const bool soft = limits.softness > 0;
  const float scale = soft ? -0.5f / limits.softness : 0.0f;
  while (static_cast<int64_t>(selected.indices.size()) < limits.most && !queue.empty()) {
    Candidate next = queue.top();
    queue.pop();
    const float before = next.score;
    bool dropped = false;
    for (size_t j = selected.indices.size(); j-- > next.compared;) {
      float shared = overlap(next.index, selected.indices[j]);
      if (soft) next.score *= std::exp(scale * shared * shared);
      dropped = (!soft && shared > limits.overlap) || !(next.score > limits.score);
      if (dropped) break;
    }
    if (dropped) continue;
    next.compared = selected.indices.size();
    if (next.score == before) {
      selected.indices.push_back(next.index);
      selected.scores.push_back(next.score);
    } else {
      queue.push(next);
    }
  }
  return selected;
}

std::vector<float> floats_of(const Tensor& t) {
  std::vector<float> values(static_cast<size_t>(t.num_elements()));
  dispatch(t.dtype(), Scored{}, [&]<typename T>() {
    const T* from = t.flat<T>();
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(from[i]);
  });
  return values;
}

float scalar_of(const Tensor& t, const char* what) {
  require(t.rank() == 0, what, " must be 0-D, got shape ", t.shape());
  return floats_of(t)[0];
}

int64_t checked_count(const Tensor& t, const char* what) {
  require(t.rank() == 0, what, " must be 0-D, got shape ", t.shape());
  int64_t count = to_int64(t);
  require(count >= 0, what, " must be non-negative, got ", count);
  return count;
}

void check_fraction(float value) { require(value >= 0 && value <= 1, "iou_threshold must be in [0, 1], got ", value); }

int64_t checked_boxes(const Tensor& boxes, const Tensor& scores) {
  require(boxes.rank() == 2 && boxes.dim(1) == 4, "boxes must have shape [num_boxes, 4], got ", boxes.shape());
  require(scores.rank() == 1 && scores.dim(0) == boxes.dim(0),
          "scores has incompatible shape: expected one per box, got ", scores.shape(), " for boxes ", boxes.shape());
  require(boxes.dim(0) < std::numeric_limits<int32_t>::max(), "too many boxes: ", boxes.dim(0));
  return boxes.dim(0);
}

// The indices of the selection, followed by zeros up to `size`.
void set_indices(Context& ctx, const Selection& selected, int64_t size) {
  Tensor& out = ctx.allocate(0, Shape{size});
  std::fill(std::copy(selected.indices.begin(), selected.indices.end(), out.flat<int32_t>()),
            out.flat<int32_t>() + size, 0);
}

Selection select_boxes(Context& ctx, const Limits& limits) {
  int64_t n = checked_boxes(ctx.input(0), ctx.input(1));
  check_fraction(limits.overlap);
  std::vector<float> boxes = floats_of(ctx.input(0)), scores = floats_of(ctx.input(1));
  return select(scores.data(), n, limits,
                [&](int64_t i, int64_t j) { return overlap_of(&boxes[i * 4], &boxes[j * 4]); });
}

constexpr float kAnyScore = std::numeric_limits<float>::lowest();

// Versions 1 to 3: the threshold as an attribute, as an input, and with one for the score.
struct NonMaxSuppression : Kernel {
  explicit NonMaxSuppression(const Construction& c) : threshold(c.attr<float>("iou_threshold", 0.5f)) {}
  void compute(Context& ctx) override {
    Limits limits{checked_count(ctx.input(2), "max_output_size"), threshold, kAnyScore};
    if (ctx.num_inputs() > 3) limits.overlap = scalar_of(ctx.input(3), "iou_threshold");
    if (ctx.num_inputs() > 4) limits.score = scalar_of(ctx.input(4), "score_threshold");
    Selection selected = select_boxes(ctx, limits);
    set_indices(ctx, selected, static_cast<int64_t>(selected.indices.size()));
  }
  float threshold;
};

// Versions 4 and 5: also how many are valid, and in version 5 their scores after soft suppression.
struct PaddedNonMaxSuppression : Kernel {
  explicit PaddedNonMaxSuppression(const Construction& c) : padded(c.attr<bool>("pad_to_max_output_size", false)) {}
  void compute(Context& ctx) override {
    Limits limits{checked_count(ctx.input(2), "max_output_size"), scalar_of(ctx.input(3), "iou_threshold"),
                  scalar_of(ctx.input(4), "score_threshold")};
    const bool scores = ctx.num_inputs() > 5;
    if (scores) limits.softness = scalar_of(ctx.input(5), "soft_nms_sigma");
    require(limits.softness >= 0, "soft_nms_sigma must be non-negative, got ", limits.softness);
    Selection selected = select_boxes(ctx, limits);
    auto count = static_cast<int64_t>(selected.indices.size()), size = padded ? limits.most : count;
    set_indices(ctx, selected, size);
    if (scores) {
      Tensor& out = ctx.allocate(1, Shape{size});
      dispatch(out.dtype(), Scored{}, [&]<typename T>() {
        std::fill(std::copy(selected.scores.begin(), selected.scores.end(), out.flat<T>()), out.flat<T>() + size,
                  T(0.0f));
      });
    }
    ctx.set_output(scores ? 2 : 1, Tensor::scalar<int32_t>(static_cast<int32_t>(count)));
  }
  bool padded;
};

void with_overlaps(Context& ctx) {
  const Tensor &overlaps = ctx.input(0), &scores = ctx.input(1);
  require(overlaps.rank() == 2 && overlaps.dim(0) == overlaps.dim(1), "overlaps must be square, got ",
          overlaps.shape());
  int64_t n = overlaps.dim(0);
  require(scores.rank() == 1 && scores.dim(0) == n, "scores has incompatible shape ", scores.shape(), " for overlaps ",
          overlaps.shape());
  Limits limits{checked_count(ctx.input(2), "max_output_size"), scalar_of(ctx.input(3), "overlap_threshold"),
                scalar_of(ctx.input(4), "score_threshold")};
  const float* shared = overlaps.flat<float>();
  Selection selected = select(scores.flat<float>(), n, limits, [&](int64_t i, int64_t j) { return shared[i * n + j]; });
  set_indices(ctx, selected, static_cast<int64_t>(selected.indices.size()));
}

struct CombinedNonMaxSuppression : Kernel {
  explicit CombinedNonMaxSuppression(const Construction& c)
      : pad_per_class(c.attr<bool>("pad_per_class", false)), clip(c.attr<bool>("clip_boxes", true)) {}
  struct Found {
    float score;
    int64_t box, kind;
  };
  void compute(Context& ctx) override {
    const Tensor &boxes = ctx.input(0), &scores = ctx.input(1);
    require(boxes.rank() == 4 && boxes.dim(3) == 4, "boxes must have shape [batch, num_boxes, q, 4], got ",
            boxes.shape());
    require(scores.rank() == 3 && scores.dim(0) == boxes.dim(0) && scores.dim(1) == boxes.dim(1),
            "scores must have shape [batch, num_boxes, num_classes], got ", scores.shape(), " for boxes ",
            boxes.shape());
    const int64_t batch = boxes.dim(0), n = boxes.dim(1), q = boxes.dim(2), classes = scores.dim(2);
    require(q == 1 || q == classes, "third dimension of boxes must be either 1 or num_classes (", classes, "), got ",
            q);
    require(n < std::numeric_limits<int32_t>::max(), "too many boxes: ", n);
    int64_t per_class = checked_count(ctx.input(2), "max_size_per_class"),
            total = checked_count(ctx.input(3), "max_total_size");
    require(per_class > 0, "max_size_per_class must be positive, got ", per_class);
    require(total > 0, "max_total_size must be positive, got ", total);
    Limits limits{per_class, scalar_of(ctx.input(4), "iou_threshold"), scalar_of(ctx.input(5), "score_threshold")};
    check_fraction(limits.overlap);
    int64_t size = total, most;
    if (pad_per_class && !__builtin_mul_overflow(per_class, classes, &most)) size = std::min(total, most);
    Tensor out_boxes(DType::float32, Shape{batch, size, 4}), out_scores(DType::float32, Shape{batch, size});
    Tensor out_classes(DType::float32, Shape{batch, size}), valid(DType::int32, Shape{batch});
    std::fill_n(out_boxes.flat<float>(), out_boxes.num_elements(), 0.0f);
    std::fill_n(out_scores.flat<float>(), out_scores.num_elements(), 0.0f);
    std::fill_n(out_classes.flat<float>(), out_classes.num_elements(), 0.0f);
    for (int64_t b = 0; b < batch; ++b) {
      const float* corners = boxes.flat<float>() + b * n * q * 4;
      std::vector<Found> found = find(corners, scores.flat<float>() + b * n * classes, n, q, classes, limits);
      std::stable_sort(found.begin(), found.end(), [](const Found& x, const Found& y) { return x.score > y.score; });
      auto count = std::min(size, static_cast<int64_t>(found.size()));
      for (int64_t i = 0; i < count; ++i) {
        const float* box = corners + (found[i].box * q + (q > 1 ? found[i].kind : 0)) * 4;
        for (int k = 0; k < 4; ++k)
          out_boxes.flat<float>()[(b * size + i) * 4 + k] = clip ? std::clamp(box[k], 0.0f, 1.0f) : box[k];
        out_scores.flat<float>()[b * size + i] = found[i].score;
        out_classes.flat<float>()[b * size + i] = static_cast<float>(found[i].kind);
      }
      valid.flat<int32_t>()[b] = static_cast<int32_t>(count);
    }
    ctx.set_output(0, std::move(out_boxes));
    ctx.set_output(1, std::move(out_scores));
    ctx.set_output(2, std::move(out_classes));
    ctx.set_output(3, std::move(valid));
  }
  static std::vector<Found> find(const float* boxes, const float* scores, int64_t n, int64_t q, int64_t classes,
                                 const Limits& limits) {
    std::vector<Found> found;
    std::vector<float> of_class(static_cast<size_t>(n));
    for (int64_t kind = 0; kind < classes; ++kind) {
      for (int64_t i = 0; i < n; ++i) of_class[i] = scores[i * classes + kind];
      const float* first = boxes + (q > 1 ? kind : 0) * 4;
      Selection selected = select(of_class.data(), n, limits, [&](int64_t i, int64_t j) {
        return overlap_of(first + i * q * 4, first + j * q * 4);
      });
      for (size_t i = 0; i < selected.indices.size(); ++i)
        found.push_back({selected.scores[i], selected.indices[i], kind});
    }
    return found;
  }
  bool pad_per_class, clip;
};

REGISTER(kernel("NonMaxSuppression").make<NonMaxSuppression>());
REGISTER(kernel("NonMaxSuppressionV2").types("T", Scored{}).types("T_threshold", Scored{}).make<NonMaxSuppression>());
REGISTER(kernel("NonMaxSuppressionV3").types("T", Scored{}).types("T_threshold", Scored{}).make<NonMaxSuppression>());
REGISTER(
    kernel("NonMaxSuppressionV4").types("T", Scored{}).types("T_threshold", Scored{}).make<PaddedNonMaxSuppression>());
REGISTER(kernel("NonMaxSuppressionV5").types("T", Scored{}).make<PaddedNonMaxSuppression>());
REGISTER(kernel("NonMaxSuppressionWithOverlaps").function<with_overlaps>());
REGISTER(kernel("CombinedNonMaxSuppression").make<CombinedNonMaxSuppression>());

}  // namespace
}  // namespace thalweg
