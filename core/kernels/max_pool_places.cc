// MaxPoolWithArgmax and the ops that use its places: a place counts elements, of the image or of the whole batch.
#include "compute/windows/pooling.h"

namespace thalweg {
namespace {

using Elements = Join<WideFloats, Ints>;
using All = Join<Elements, Types<DType::float16, DType::bfloat16>>;

struct MaxPoolWithArgmax : Kernel {
  explicit MaxPoolWithArgmax(const Construction& c)
      : pooling(c, 2), whole_batch(c.attr<bool>("include_batch_in_index", false)) {}
  void compute(Context& ctx) override {
    const Tensor& in = ctx.input(0);
    const Windows w = pooling.windows(in.shape());
    require(w.batch == in.dim(0), "places of maxima over channels are not supported");
    Tensor& out = ctx.allocate(0, w.out_shape);
    Tensor& places = ctx.allocate(1, w.out_shape);
    if (out.num_elements() == 0) return;
    require(places.dtype() == DType::int64 || in.num_elements() < (int64_t{1} << 31), "places in a tensor of shape ",
            in.shape(), " do not fit into int32: use Targmax=int64");
    const DType wide = wide_type(in.dtype());
    const Tensor elements = widened(in);
    Tensor result = wide == in.dtype() ? out : Tensor(wide, w.out_shape);
    Tensor found = places.dtype() == DType::int64 ? places : Tensor(DType::int64, w.out_shape);
    dispatch(wide, WideTypes{},
             [&]<typename T>() { find(w, elements.flat<T>(), result.flat<T>(), found.flat<int64_t>()); });
    if (wide != in.dtype()) narrow_into(result, out);
    if (places.dtype() == DType::int32)
      std::copy_n(found.flat<int64_t>(), found.num_elements(), places.flat<int32_t>());
  }
  template <typename T>
  void find(const Windows& w, const T* in, T* out, int64_t* places) const {
    for_each_window_row(w, [&](int64_t image, int64_t row) {
      const T* from = in + image * w.in_size();
      const int64_t start = whole_batch ? image * w.in_size() : 0;
      for_each_window(w, row, [&](int64_t pixel, const Box& box) {
        const int64_t first = ((box.a.begin * w.in[1] + box.b.begin) * w.in[2] + box.c.begin) * w.channels;
        for (int64_t c = 0; c < w.channels; ++c) {
          int64_t best = first + c;
          for_each_pixel(w, box, [&](int64_t at) {
            const int64_t here = at * w.channels + c;
            const T value = from[here], largest = from[best];
            // Anything is larger than NaN, as for MaxPool.
            if (value > largest || (largest != largest && value == value)) best = here;
          });
          const int64_t to = image * w.out_size() + pixel * w.channels + c;
          out[to] = from[best];
          places[to] = start + best;
        }
      });
    });
  }
  Pooling pooling;
  bool whole_batch;
};

// Inputs: the original input, the gradient, the places. The gradient of the pooling adds each element of `grad` at its
// place; the gradient of that takes the elements from there.
template <bool second>
struct MaxPoolGradWithArgmax : Kernel {
  explicit MaxPoolGradWithArgmax(const Construction& c)
      : pooling(c, 2), whole_batch(c.attr<bool>("include_batch_in_index", false)) {}
  void compute(Context& ctx) override {
    const Shape shape = ctx.input(0).shape();
    const Windows w = pooling.windows(shape);
    require(w.batch == shape[0], "places of maxima over channels are not supported");
    const Tensor grad = widened(ctx.input(1));
    const Tensor& places = ctx.input(2);
    require(grad.shape() == (second ? shape : w.out_shape), "Expected grad shape to be ", second ? shape : w.out_shape,
            ", but got ", grad.shape());
    require(places.shape() == w.out_shape, "Expected argmax shape to be ", w.out_shape, ", but got ", places.shape());
    const std::vector<int64_t> at = checked_places(w, places);
    Tensor& out = ctx.allocate(0, second ? w.out_shape : shape);
    if (out.num_elements() == 0) return;
    const bool narrow = grad.dtype() != out.dtype();
    Tensor result = narrow ? Tensor(grad.dtype(), out.shape()) : out;
    dispatch(grad.dtype(), WideTypes{}, [&]<typename T>() {
      const T* from = grad.flat<T>();
      T* to = result.flat<T>();
      const int64_t n = static_cast<int64_t>(at.size());
      if constexpr (second) {
        for (int64_t i = 0; i < n; ++i) to[i] = from[at[i]];
      } else {
        std::fill(to, to + result.num_elements(), T(0));
        for (int64_t i = 0; i < n; ++i) to[at[i]] = static_cast<T>(to[at[i]] + from[i]);
      }
    });
    if (narrow) narrow_into(result, out);
  }
  // The places, counted in the whole batch; each lies in the image of its window.
  std::vector<int64_t> checked_places(const Windows& w, const Tensor& places) const {
    std::vector<int64_t> at = to_int64s(places);
    const int64_t per_image = w.out_size();
    for (size_t i = 0; i < at.size(); ++i) {
      const int64_t start = static_cast<int64_t>(i) / per_image * w.in_size();
      const int64_t place = at[i] - (whole_batch ? start : 0);
      require(place >= 0 && place < w.in_size(), "argmax holds ", at[i], ", which is outside of its image: expected [",
              whole_batch ? start : 0, ", ", (whole_batch ? start : 0) + w.in_size(), ")");
      at[i] = start + place;
    }
    return at;
  }
  Pooling pooling;
  bool whole_batch;
};

REGISTER(kernel("MaxPoolWithArgmax").types("T", All{}).make<MaxPoolWithArgmax>());
REGISTER(kernel("MaxPoolGradWithArgmax").types("T", All{}).make<MaxPoolGradWithArgmax<false>>());
REGISTER(kernel("MaxPoolGradGradWithArgmax").types("T", All{}).make<MaxPoolGradWithArgmax<true>>());

}  // namespace
}  // namespace thalweg
