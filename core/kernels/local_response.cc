// LRN and its gradient: every element is divided by a power of the sum of squares of its neighbours in depth.
//
// With n_i = bias + alpha * (sum of x_j^2 over |i - j| <= radius): y_i = x_i * n_i^-beta. Sums of neighbours are made
// by adding shifted rows, which vectorizes; pixels are independent of each other.
#include "compute/elementwise/vector_math.h"
#include "compute/windows/pooling.h"

namespace thalweg {
namespace {

using Elements = Types<DType::float32, DType::float16, DType::bfloat16>;

struct Response {
  explicit Response(const Construction& c)
      : radius(c.attr<int64_t>("depth_radius", 5)),
        bias(c.attr<float>("bias", 1.0f)),
        alpha(c.attr<float>("alpha", 1.0f)),
        beta(c.attr<float>("beta", 0.5f)) {
    require(radius >= 0 && radius < (int64_t{1} << 31), "depth_radius must not be negative, got ", radius);
  }
  int64_t radius;
  float bias, alpha, beta;
};

// One pixel's rows, each with `radius` zeros before and after the channels.
class Rows {
 public:
  Rows(const Response& r, int64_t channels)
      : response_(r),
        channels_(channels),
        radius_(std::min(r.radius, channels)),
        padded_(channels + 2 * radius_),
        sums_(channels),
        powers_(channels) {}

  // Makes norms() and powers() of a pixel.
  void normalize(const float* x) {
    float* squares = padded_.data() + radius_;
    for (int64_t i = 0; i < channels_; ++i) squares[i] = x[i] * x[i];
    add_neighbours();
    for (int64_t i = 0; i < channels_; ++i) sums_[i] = response_.bias + response_.alpha * sums_[i];
    raise();
  }
  // sums() of the rows that `fill` writes.
  template <typename Fill>
  const float* neighbours(const Fill& fill) {
    fill(padded_.data() + radius_);
    add_neighbours();
    return sums_.data();
  }
  const float* norms() const { return sums_.data(); }
  const float* powers() const { return powers_.data(); }  // norm^-beta

 private:
  void add_neighbours() {
    const float* in = padded_.data();
    if (radius_ > 16) {  // A running sum, in double so that errors do not pile up.
      double sum = 0;
      for (int64_t i = 0; i < 2 * radius_; ++i) sum += in[i];
      for (int64_t i = 0; i < channels_; ++i) {
        sum += in[i + 2 * radius_];
        sums_[i] = static_cast<float>(sum);
        sum -= in[i];
      }
      return;
    }
    float* out = sums_.data();
    int64_t i = 0;
    constexpr int64_t kBlock = 16;
    for (; i + kBlock <= channels_; i += kBlock) {
      Pack<float>::type a{}, b{};
      for (int64_t k = 0; k <= 2 * radius_; ++k) {
        a += Pack<float>::load(in + i + k);
        b += Pack<float>::load(in + i + k + 8);
      }
      Pack<float>::store(out + i, a);
      Pack<float>::store(out + i + 8, b);
    }
    for (; i < channels_; ++i) {
      float sum = 0;
      for (int64_t k = 0; k <= 2 * radius_; ++k) sum += in[i + k];
      out[i] = sum;
    }
  }
  void raise() {
    const float* n = sums_.data();
    float* out = powers_.data();
    const float exponent = -response_.beta;
    if (response_.beta == 0.5f) {
      for (int64_t i = 0; i < channels_; ++i) out[i] = 1.0f / std::sqrt(n[i]);
    } else if (response_.beta == 0.75f) {
      for (int64_t i = 0; i < channels_; ++i) {
        float root = std::sqrt(n[i]);
        out[i] = 1.0f / (root * std::sqrt(root));
      }
    } else if (response_.beta == 1.0f) {
      for (int64_t i = 0; i < channels_; ++i) out[i] = 1.0f / n[i];
    } else {
      for (int64_t i = 0; i < channels_; ++i) out[i] = vector_math::exp(exponent * vector_math::log(n[i]));
    }
  }

  const Response& response_;
  int64_t channels_, radius_;
  std::vector<float> padded_, sums_, powers_;
};

void check_image(const Tensor& in) { require(in.rank() == 4, "in must be 4-dimensional, got shape ", in.shape()); }

struct LocalResponse : Kernel {
  explicit LocalResponse(const Construction& c) : response(c) {}
  void compute(Context& ctx) override {
    check_image(ctx.input(0));
    const Tensor in = widened(ctx.input(0));
    const bool narrow = in.dtype() != ctx.input(0).dtype();
    Tensor out = narrow ? Tensor(DType::float32, in.shape()) : ctx.forward_or_allocate({0}, 0, in.shape());
    const int64_t channels = in.dim(3);
    const float* from = in.flat<float>();
    float* to = out.flat<float>();
    parallel_for(in.shape().product(0, 3), pooling_grain(channels * 8), [&](int64_t begin, int64_t end) {
      Rows rows(response, channels);
      for (int64_t p = begin; p < end; ++p) {
        const float* x = from + p * channels;
        rows.normalize(x);
        const float* power = rows.powers();
        for (int64_t i = 0; i < channels; ++i) to[p * channels + i] = x[i] * power[i];
      }
    });
    if (narrow) narrow_into(out, ctx.allocate(0, in.shape()));
  }
  Response response;
};

// dx_j = dy_j n_j^-beta - 2 alpha beta x_j sum(dy_i y_i / n_i over the neighbours i of j)
struct LocalResponseGrad : Kernel {
  explicit LocalResponseGrad(const Construction& c) : response(c) {}
  void compute(Context& ctx) override {
    for (int i = 0; i < 3; ++i) {
      check_image(ctx.input(i));
      require(ctx.input(i).shape() == ctx.input(0).shape(), "input_grads, input_image and out_image must have one ",
              "shape, got ", ctx.input(0).shape(), ", ", ctx.input(1).shape(), " and ", ctx.input(2).shape());
    }
    const Tensor grad = widened(ctx.input(0)), in = widened(ctx.input(1)), result = widened(ctx.input(2));
    const bool narrow = in.dtype() != ctx.input(0).dtype();
    Tensor out = narrow ? Tensor(DType::float32, in.shape()) : ctx.allocate(0, in.shape());
    const int64_t channels = in.dim(3);
    const float* dy = grad.flat<float>();
    const float* from = in.flat<float>();
    const float* y = result.flat<float>();
    float* to = out.flat<float>();
    const float factor = 2 * response.alpha * response.beta;
    parallel_for(in.shape().product(0, 3), pooling_grain(channels * 16), [&](int64_t begin, int64_t end) {
      Rows rows(response, channels);
      for (int64_t p = begin; p < end; ++p) {
        const int64_t at = p * channels;
        rows.normalize(from + at);
        const float* power = rows.powers();
        for (int64_t i = 0; i < channels; ++i) to[at + i] = dy[at + i] * power[i];
        const float* n = rows.norms();
        const float* sums = rows.neighbours([&](float* shares) {
          for (int64_t i = 0; i < channels; ++i) shares[i] = dy[at + i] * y[at + i] / n[i];
        });
        for (int64_t i = 0; i < channels; ++i) to[at + i] -= factor * from[at + i] * sums[i];
      }
    });
    if (narrow) narrow_into(out, ctx.allocate(0, in.shape()));
  }
  Response response;
};

REGISTER(kernel("LRN").types("T", Elements{}).make<LocalResponse>());
REGISTER(kernel("LRNGrad").types("T", Elements{}).make<LocalResponseGrad>());

}  // namespace
}  // namespace thalweg
