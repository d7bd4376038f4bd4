// OneHot, ExtractImagePatches and DeepCopy.
#include "compute/copies/elements.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

struct OneHot : Kernel {
  explicit OneHot(const Construction& c) : axis(c.attr<int64_t>("axis", -1)) {}
  void compute(Context& ctx) override {
    const Tensor& indices = ctx.input(0);
    for (int i = 1; i < 4; ++i)
      require(ctx.input(i).rank() == 0,
              i == 1   ? "depth"
              : i == 2 ? "on_value"
                       : "off_value",
              " must be a scalar, but got: ", ctx.input(i).shape());
    require(axis == -1 || (axis >= 0 && axis <= indices.rank()), "Expected axis to be -1 or between [0, ",
            indices.rank() + 1, ").  But received: ", axis);
    int64_t depth = to_int64(ctx.input(1));
    require(depth >= 0, "depth must be non-negative, got: ", depth);
    int at = static_cast<int>(axis == -1 ? indices.rank() : axis);
    Tensor& out = ctx.allocate(0, indices.shape().inserted(at, depth));
    fill_elements(out.dtype(), out.raw(), ctx.input(3).raw(), out.num_elements());
    if (out.num_elements() == 0) return;
    int64_t suffix = indices.shape().product(at, indices.rank());
    dispatch(indices.dtype(), Types<DType::uint8, DType::int8, DType::int32, DType::int64>{}, [&]<typename I>() {
      const I* index = indices.flat<I>();
      dispatch_width(out.dtype(), [&]<typename T>() {
        const T& on = *ctx.input(2).flat<T>();
        T* to = out.flat<T>();
        for (int64_t i = 0; i < indices.num_elements(); ++i) {
          int64_t value = static_cast<int64_t>(index[i]);
          if (value < 0 || value >= depth) continue;  // All off, as documented.
          to[(i / suffix * depth + value) * suffix + i % suffix] = on;
        }
      });
    });
  }
  int64_t axis;
};

struct ExtractImagePatches : Kernel {
  explicit ExtractImagePatches(const Construction& c)
      : kernel(two(c, "ksizes")), stride(two(c, "strides")), rate(two(c, "rates")) {
    std::string padding = c.attr<std::string>("padding");
    require(padding == "SAME" || padding == "VALID", "padding must be SAME or VALID, got ", padding);
    same = padding == "SAME";
    int64_t area;
    require(!__builtin_mul_overflow(kernel.rows, kernel.columns, &area) && area < (int64_t{1} << 31),
            "ksizes are too large");
  }
  struct Two {
    int64_t rows, columns;
  };
  static Two two(const Construction& c, const char* name) {
    std::vector<int64_t> v = c.attr<std::vector<int64_t>>(name);
    require(v.size() == 4 && v[0] == 1 && v[3] == 1, name, " must have the form [1, rows, columns, 1]");
    require(v[1] >= 1 && v[2] >= 1 && v[1] < (int64_t{1} << 31) && v[2] < (int64_t{1} << 31), name,
            " must be positive, got ", v[1], " and ", v[2]);
    return {v[1], v[2]};
  }
  struct Range {
    int64_t count, before;  // Patches along the dimension, and padding before the first.
  };
  Range range_of(int64_t size, int64_t k, int64_t s, int64_t r) const {
    int64_t extent = k + (k - 1) * (r - 1);
    if (!same) return {size < extent ? 0 : (size - extent) / s + 1, 0};
    int64_t count = (size + s - 1) / s;
    return {count, std::max<int64_t>(0, (count - 1) * s + extent - size) / 2};
  }
  void compute(Context& ctx) override {
    const Tensor& in = ctx.input(0);
    require(in.rank() == 4, "input must be 4-dimensional, got ", in.shape());
    Range rows = range_of(in.dim(1), kernel.rows, stride.rows, rate.rows);
    Range columns = range_of(in.dim(2), kernel.columns, stride.columns, rate.columns);
    int64_t channels = in.dim(3), depth;
    require(!__builtin_mul_overflow(kernel.rows * kernel.columns, channels, &depth), "the depth of a patch overflows");
    Tensor& out = ctx.allocate(0, Shape{in.dim(0), rows.count, columns.count, depth});
    if (out.num_elements() == 0) return;
    zero_elements(out.dtype(), out.raw(), out.num_elements());
    dispatch_width(in.dtype(), [&]<typename T>() {
      const T* from = in.flat<T>();
      T* to = out.flat<T>();
      int64_t grain = std::max<int64_t>(1, move_grain(in.dtype()) / (columns.count * depth));
      if constexpr (!std::is_trivially_copyable_v<T>) grain = in.dim(0) * rows.count;
      parallel_for(in.dim(0) * rows.count, grain, [&](int64_t begin, int64_t end) {
        for (int64_t line = begin; line < end; ++line) {
          int64_t image = line / rows.count, top = line % rows.count * stride.rows - rows.before;
          for (int64_t column = 0; column < columns.count; ++column) {
            int64_t left = column * stride.columns - columns.before;
            T* patch = to + (line * columns.count + column) * depth;
            for (int64_t r = 0; r < kernel.rows; ++r) {
              int64_t y = top + r * rate.rows;
              if (y < 0 || y >= in.dim(1)) continue;
              const T* row = from + (image * in.dim(1) + y) * in.dim(2) * channels;
              for (int64_t c = 0; c < kernel.columns; ++c) {
                int64_t x = left + c * rate.columns;
                if (x < 0 || x >= in.dim(2)) continue;
                std::copy_n(row + x * channels, channels, patch + (r * kernel.columns + c) * channels);
              }
            }
          }
        }
      });
    });
  }
  Two kernel, stride, rate;
  bool same;
};

void deep_copy(Context& ctx) { ctx.set_output(0, ctx.input(0).clone()); }

REGISTER(kernel("OneHot").make<OneHot>());
REGISTER(kernel("ExtractImagePatches").make<ExtractImagePatches>());
REGISTER(kernel("DeepCopy").function<deep_copy>());

}  // namespace
}  // namespace thalweg
