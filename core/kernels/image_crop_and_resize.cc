// CropAndResize and its gradients with respect to the image and to the boxes.
#include "compute/images/resize.h"

namespace thalweg {
namespace {

// Boxes [n, 4] with the image that each is cut out of, checked.
struct Boxes {
  int64_t count;
  const float* corners;
  const int32_t* image;
  Boxes(const Tensor& boxes, const Tensor& box_ind, int64_t batch) {
    require(boxes.rank() == 2 && boxes.dim(1) == 4, "boxes must have shape [num_boxes, 4], got ", boxes.shape());
    require(box_ind.rank() == 1 && box_ind.dim(0) == boxes.dim(0),
            "box_index must be a vector with one entry per box, got shape ", box_ind.shape(), " for boxes ",
            boxes.shape());
    count = boxes.dim(0);
    corners = boxes.flat<float>();
    image = box_ind.flat<int32_t>();
    for (int64_t i = 0; i < count; ++i)
      if (image[i] < 0 || image[i] >= batch)
        fail(Code::out_of_range, "box_index has values outside [0, batch_size): ", image[i], " for ", batch, " images");
  }
};

// One axis of one box: which input positions each position of the crop is between.
struct Axis {
  struct Place {
    bool inside;
    int64_t lower, upper;
    float lerp, at;
  };
  std::vector<Place> places;
  int64_t first = 0, last = -1;  // The input positions that are read at all.
  Axis(float from, float to, int64_t in, int64_t out) : places(static_cast<size_t>(out)) {
    auto end = static_cast<float>(in - 1);
    float step = out > 1 ? (to - from) * end / static_cast<float>(out - 1) : 0.0f;
    for (int64_t i = 0; i < out; ++i) {
      Place& p = places[i];
      p.at = out > 1 ? from * end + static_cast<float>(i) * step : 0.5f * (from + to) * end;
      p.inside = p.at >= 0 && p.at <= end;  // Not for NaN either.
      if (!p.inside) continue;
      p.lower = std::min<int64_t>(static_cast<int64_t>(std::floor(p.at)), in - 1);
      p.upper = std::min<int64_t>(static_cast<int64_t>(std::ceil(p.at)), in - 1);
      p.lerp = p.at - static_cast<float>(p.lower);
      first = last < 0 ? p.lower : std::min(first, p.lower);
      last = std::max(last, p.upper);
    }
  }
  int64_t nearest(size_t i, int64_t in) const {
    return std::min<int64_t>(static_cast<int64_t>(std::round(places[i].at)), in - 1);
  }
};

// Throws unless there is memory for the two axes of a crop, and two rows of `width` floats, of one thread.
void require_axes(int64_t rows, int64_t columns, int64_t width) {
  require_scratch(static_cast<double>(sizeof(Axis::Place)) * static_cast<double>(rows + columns) +
                  8.0 * static_cast<double>(width));
}

bool is_nearest(const Construction& c) {
  auto method = c.attr<std::string>("method", "bilinear");
  require(method == "bilinear" || method == "nearest", "method must be 'bilinear' or 'nearest', got '", method, "'");
  return method == "nearest";
}

// One row of a crop, between the two rows of the image above and below it. Both begin at `across.first`.
template <int C>
void crop_row(const float* top, const float* bottom, const Axis& across, float down, float outside, int64_t channels,
              float* __restrict to) {
  const int64_t depth = C > 0 ? C : channels;
  for (const Axis::Place& p : across.places) {
    if (!p.inside) {
      for (int64_t c = 0; c < depth; ++c) to[c] = outside;
    } else {
      const int64_t left = (p.lower - across.first) * depth, right = (p.upper - across.first) * depth;
      for (int64_t c = 0; c < depth; ++c) {
        float upper = top[left + c] + (top[right + c] - top[left + c]) * p.lerp;
        float lower = bottom[left + c] + (bottom[right + c] - bottom[left + c]) * p.lerp;
        to[c] = upper + (lower - upper) * down;
      }
    }
    to += depth;
  }
}

struct CropAndResize : Kernel {
  explicit CropAndResize(const Construction& c)
      : nearest(is_nearest(c)), outside(c.attr<float>("extrapolation_value", 0.0f)) {}
  void compute(Context& ctx) override {
    const Tensor& images = ctx.input(0);
    Extent in = image_extent(images, "image");
    Boxes boxes(ctx.input(1), ctx.input(2), in.batch);
    auto [rows, columns] = image_size(ctx.input(3));
    Tensor& out = ctx.allocate(0, Shape{boxes.count, rows, columns, in.channels});
    if (out.num_elements() == 0) return;
    require_axes(rows, columns, in.columns * in.channels);
    const int64_t area = rows * columns * in.channels;
    parallel_for(boxes.count, std::max<int64_t>(1, kElementGrain / area),
                 [&, rows = rows, columns = columns](int64_t begin, int64_t end) {
                   // Pixels of other types are converted row by row, the two rows of a place at a time.
                   const bool convert = images.dtype() != DType::float32;
                   std::vector<float> buffers(convert ? static_cast<size_t>(2 * in.columns * in.channels) : 0);
                   for (int64_t b = begin; b < end; ++b) {
                     const float* box = boxes.corners + b * 4;
                     Axis down(box[0], box[2], in.rows, rows), across(box[1], box[3], in.columns, columns);
                     crop(images, in, boxes.image[b], down, across, buffers.data(), out.flat<float>() + b * area);
                   }
                 });
  }

  void crop(const Tensor& images, const Extent& in, int64_t image, const Axis& down, const Axis& across, float* buffers,
            float* to) const {
    const int64_t depth = in.channels, in_width = in.columns * depth;
    const auto width = static_cast<int64_t>(across.places.size()) * depth;
    const float* rows[2] = {};
    int64_t held[2] = {-1, -1};  // Row r lives in rows[r % 2].
    auto row = [&](int64_t y) {
      if (held[y % 2] != y) {
        int64_t first = (image * in.rows + y) * in_width + across.first * depth;
        rows[y % 2] = floats_at(images, first, (across.last - across.first + 1) * depth, buffers + y % 2 * in_width);
        held[y % 2] = y;
      }
      return rows[y % 2];
    };
    for (size_t y = 0; y < down.places.size(); ++y, to += width) {
      const Axis::Place& p = down.places[y];
      if (!p.inside || across.last < 0) {
        std::fill_n(to, width, outside);
      } else if (nearest) {
        const float* from = row(down.nearest(y, in.rows));
        for (size_t x = 0; x < across.places.size(); ++x)
          for (int64_t c = 0; c < depth; ++c)
            to[static_cast<int64_t>(x) * depth + c] =
                across.places[x].inside ? from[(across.nearest(x, in.columns) - across.first) * depth + c] : outside;
      } else {
        const float *top = row(p.lower), *bottom = row(p.upper);
        if (depth == 3)
          crop_row<3>(top, bottom, across, p.lerp, outside, depth, to);
        else if (depth == 1)
          crop_row<1>(top, bottom, across, p.lerp, outside, depth, to);
        else
          crop_row<0>(top, bottom, across, p.lerp, outside, depth, to);
      }
    }
  }
  bool nearest;
  float outside;
};

Extent gradient_extent(const Tensor& grads, const Tensor& boxes) {
  Extent from = image_extent(grads, "grads");
  require(boxes.rank() == 2 && boxes.dim(0) == from.batch, "boxes and grads have incompatible shapes: ", boxes.shape(),
          " and ", grads.shape());
  require_axes(from.rows, from.columns, 0);
  return from;
}

struct CropAndResizeGradImage : Kernel {
  explicit CropAndResizeGradImage(const Construction& c) : nearest(is_nearest(c)) {}
  void compute(Context& ctx) override {
    const Tensor &grads = ctx.input(0), &size = ctx.input(3);
    Extent from = gradient_extent(grads, ctx.input(1));
    require(size.rank() == 1 && size.num_elements() == 4,
            "image_size must have the form [batch, height, width, depth], got shape ", size.shape());
    std::vector<int64_t> dims = to_int64s(size);
    require(dims[1] > 0 && dims[2] > 0, "image dimensions must be positive, got ", dims[1], " x ", dims[2]);
    require(dims[3] == from.channels, "image_size and grads must have the same depth, got ", dims[3], " and ",
            from.channels);
    Shape shape(dims);
    Extent in{dims[0], dims[1], dims[2], dims[3]};
    Boxes boxes(ctx.input(1), ctx.input(2), in.batch);
    Tensor& out = ctx.allocate(0, std::move(shape));
    dispatch(out.dtype(), Types<DType::float32, DType::float16, DType::float64>{}, [&]<typename T>() {
      using A = Compute<T>;
      Tensor sums = is_reduced_float<T> ? Tensor(DType::float32, out.shape()) : out;
      std::fill_n(sums.flat<A>(), sums.num_elements(), A{0});
      int64_t image_elements = in.rows * in.columns * in.channels;
      int64_t elements = from.rows * from.columns * from.channels;
      // One thread to an image: boxes may overlap.
      parallel_for(in.batch, 1, [&](int64_t begin, int64_t end) {
        for (int64_t b = 0; b < boxes.count; ++b)
          if (boxes.image[b] >= begin && boxes.image[b] < end)
            add(grads.flat<float>() + b * elements, boxes.corners + b * 4, from, in,
                sums.flat<A>() + boxes.image[b] * image_elements);
      });
      if constexpr (is_reduced_float<T>) std::copy_n(sums.flat<A>(), out.num_elements(), out.flat<T>());
    });
  }
  template <typename A>
  void add(const float* grad, const float* box, const Extent& from, const Extent& in, A* image) const {
    Axis down(box[0], box[2], in.rows, from.rows), across(box[1], box[3], in.columns, from.columns);
    const int64_t depth = in.channels;
    auto at = [&](int64_t y, int64_t x) { return image + (y * in.columns + x) * depth; };
    for (size_t y = 0; y < down.places.size(); ++y) {
      const Axis::Place& p = down.places[y];
      for (size_t x = 0; x < across.places.size(); ++x, grad += depth) {
        const Axis::Place& q = across.places[x];
        if (!p.inside || !q.inside) continue;
        if (nearest) {
          A* to = at(down.nearest(y, in.rows), across.nearest(x, in.columns));
          for (int64_t c = 0; c < depth; ++c) to[c] += grad[c];
          continue;
        }
        A *a = at(p.lower, q.lower), *b = at(p.lower, q.upper), *d = at(p.upper, q.lower), *e = at(p.upper, q.upper);
        for (int64_t c = 0; c < depth; ++c) {
          float upper = (1 - p.lerp) * grad[c], lower = p.lerp * grad[c];
          a[c] += (1 - q.lerp) * upper;
          b[c] += q.lerp * upper;
          d[c] += (1 - q.lerp) * lower;
          e[c] += q.lerp * lower;
        }
      }
    }
  }
  bool nearest;
};

struct CropAndResizeGradBoxes : Kernel {
  explicit CropAndResizeGradBoxes(const Construction& c) {
    require(!is_nearest(c), "the gradient with respect to boxes exists only for the method 'bilinear'");
  }
  void compute(Context& ctx) override {
    const Tensor &grads = ctx.input(0), &images = ctx.input(1);
    Extent from = gradient_extent(grads, ctx.input(2)), in = image_extent(images, "image");
    require(in.channels == from.channels, "image and grads must have the same depth, got ", images.shape(), " and ",
            grads.shape());
    Boxes boxes(ctx.input(2), ctx.input(3), in.batch);
    Tensor& out = ctx.allocate(0, Shape{boxes.count, 4});
    dispatch(images.dtype(), Pixels{}, [&]<typename T>() {
      int64_t elements = from.rows * from.columns * from.channels;
      parallel_for(boxes.count, std::max<int64_t>(1, kElementGrain / elements), [&](int64_t begin, int64_t end) {
        for (int64_t b = begin; b < end; ++b) {
          const T* image = images.flat<T>() + boxes.image[b] * in.rows * in.columns * in.channels;
          differentiate(grads.flat<float>() + b * elements, image, boxes.corners + b * 4, from, in,
                        out.flat<float>() + b * 4);
        }
      });
    });
  }
  template <typename T>
  static void differentiate(const float* grad, const T* image, const float* box, const Extent& from, const Extent& in,
                            float* out) {
    Axis down(box[0], box[2], in.rows, from.rows), across(box[1], box[3], in.columns, from.columns);
    const int64_t depth = in.channels;
    // How far an edge of the box moves a position: a share that grows along the crop from one edge to the other.
    auto share = [](size_t i, int64_t out, int64_t in) {
      auto last = static_cast<float>(in - 1);
      float part = out > 1 ? static_cast<float>(i) / static_cast<float>(out - 1) : 0.5f;
      return std::pair((1 - part) * last, part * last);
    };
    float sums[4] = {};
    auto at = [&](int64_t y, int64_t x) { return image + (y * in.columns + x) * depth; };
    for (size_t y = 0; y < down.places.size(); ++y) {
      const Axis::Place& p = down.places[y];
      auto [near_y, far_y] = share(y, from.rows, in.rows);
      for (size_t x = 0; x < across.places.size(); ++x, grad += depth) {
        const Axis::Place& q = across.places[x];
        if (!p.inside || !q.inside) continue;
        const T *a = at(p.lower, q.lower), *b = at(p.lower, q.upper), *d = at(p.upper, q.lower),
                *e = at(p.upper, q.upper);
        float by_y = 0, by_x = 0;
        for (int64_t c = 0; c < depth; ++c) {
          auto tl = static_cast<float>(a[c]), tr = static_cast<float>(b[c]);
          auto bl = static_cast<float>(d[c]), br = static_cast<float>(e[c]);
          by_y += grad[c] * ((1 - q.lerp) * (bl - tl) + q.lerp * (br - tr));
          by_x += grad[c] * ((1 - p.lerp) * (tr - tl) + p.lerp * (br - bl));
        }
        auto [near_x, far_x] = share(x, from.columns, in.columns);
        sums[0] += by_y * near_y;
        sums[1] += by_x * near_x;
        sums[2] += by_y * far_y;
        sums[3] += by_x * far_x;
      }
    }
    std::copy_n(sums, 4, out);
  }
};

REGISTER(kernel("CropAndResize").make<CropAndResize>());
REGISTER(kernel("CropAndResizeGradImage").make<CropAndResizeGradImage>());
REGISTER(kernel("CropAndResizeGradBoxes").make<CropAndResizeGradBoxes>());

}  // namespace
}  // namespace thalweg
