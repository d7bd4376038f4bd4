// ExtractGlimpse: windows of one size around a point of each image; pixels outside of the image are noise or zero.
#include "compute/images/resize.h"
#include "compute/random/random_state.h"
#include "random/distributions.h"

namespace thalweg {
namespace {

// The second version of the op places windows differently unless offsets are both centered and normalized.
template <int kVersion>
struct ExtractGlimpse : Kernel {
  explicit ExtractGlimpse(const Construction& c)
      : state(c), centered(c.attr<bool>("centered", true)), normalized(c.attr<bool>("normalized", true)) {
    noise = c.attr<bool>("uniform_noise", true) ? "uniform" : c.attr<std::string>("noise", "uniform");
    // The older attribute says uniform or not; without it "uniform" meant normal noise.
    if (!c.attr<bool>("uniform_noise", true) && noise == "uniform") noise = "gaussian";
    require(noise == "uniform" || noise == "gaussian" || noise == "zero",
            "noise must be 'uniform', 'gaussian' or 'zero', got '", noise, "'");
  }

  int64_t start(float offset, int64_t size, int64_t window) const {
    auto whole = static_cast<float>(size), half_window = static_cast<float>(window) / 2;
    float at = normalized ? offset * whole : offset;
    if (kVersion == 1 || (centered && normalized))
      at = (centered ? at / 2 + whole / 2 : at) - half_window;
    else if (centered)
      at += whole / 2;
    // NaN and far away are outside of every image.
    return std::isnan(at) ? size : static_cast<int64_t>(std::clamp(at, -4e9f, 4e9f));
  }

  void compute(Context& ctx) override {
    const Tensor &images = ctx.input(0), &offsets = ctx.input(2);
    require(images.rank() == 4, "input must be a 4-D tensor, got shape ", images.shape());
    auto [rows, columns] = image_size(ctx.input(1));
    Extent in{images.dim(0), images.dim(1), images.dim(2), images.dim(3)};
    require(offsets.rank() == 2 && offsets.dim(0) == in.batch && offsets.dim(1) == 2,
            "offsets must have shape [batch, 2] = [", in.batch, ", 2], got ", offsets.shape());
    Tensor& out = ctx.allocate(0, Shape{in.batch, rows, columns, in.channels});
    if (out.num_elements() == 0) return;
    float low = 0, high = 0;
    if (noise == "uniform" && images.num_elements() > 0) {
      auto [least, most] = std::minmax_element(images.flat<float>(), images.flat<float>() + images.num_elements());
      low = *least;
      high = *most;
    }
    PhiloxWords words(state.reserve_outputs(ctx, noise == "zero" ? 0 : out.num_elements()));
    auto unit = [&] { return static_cast<float>(words() >> 8) * 0x1p-24f; };
    auto filler = [&]() -> float {
      if (noise == "zero") return 0.0f;
      if (noise == "uniform") return low + unit() * (high - low);
      // Box and Muller.
      return std::sqrt(-2.0f * std::log(1.0f - unit())) * std::cos(6.2831853f * unit());
    };
    float* to = out.flat<float>();
    for (int64_t b = 0; b < in.batch; ++b) {
      const float* image = images.flat<float>() + b * in.rows * in.columns * in.channels;
      int64_t top = start(offsets.flat<float>()[b * 2], in.rows, rows);
      int64_t left = start(offsets.flat<float>()[b * 2 + 1], in.columns, columns);
      for (int64_t y = top; y < top + rows; ++y) {
        for (int64_t x = left; x < left + columns; ++x) {
          bool inside = y >= 0 && y < in.rows && x >= 0 && x < in.columns;
          for (int64_t c = 0; c < in.channels; ++c)
            *to++ = inside ? image[(y * in.columns + x) * in.channels + c] : filler();
        }
      }
    }
  }
  RandomState state;
  bool centered, normalized;
  std::string noise;
};

REGISTER(kernel("ExtractGlimpse").make<ExtractGlimpse<1>>());
REGISTER(kernel("ExtractGlimpseV2").make<ExtractGlimpse<2>>());

}  // namespace
}  // namespace thalweg
