// Where the windows of a pooling op lie, from its attributes and the shape of its input.
#include "compute/windows/pooling.h"

#include "tensor/reduced_floats.h"

namespace thalweg {
namespace {

constexpr int64_t kLimit = int64_t{1} << 31;

// Sets sizes and padding of one spatial dimension.
void place(Windows& w, int d, int64_t size, int64_t window, int64_t stride, const std::string& padding, int64_t before,
           int64_t after) {
  w.in[d] = size;
  w.window[d] = window;
  w.stride[d] = stride;
  if (padding == "SAME") {
    w.out[d] = (size + stride - 1) / stride;
    w.before[d] = std::max<int64_t>(0, (w.out[d] - 1) * stride + window - size) / 2;
    return;
  }
  int64_t padded = size + before + after;
  require(padded >= window, "Computed output size would be negative: the window of ", window,
          " is larger than the input of ", padded, " (dimension ", d, " of the spatial ones, padding included)");
  w.out[d] = (padded - window) / stride + 1;
  w.before[d] = before;
}

}  // namespace

Pooling::Pooling(const Construction& c, int spatial) : spatial_(spatial) {
  const std::string format = c.attr<std::string>("data_format", spatial == 2 ? "NHWC" : "NDHWC");
  require(format == "NHWC" || format == "NDHWC" || format == "NCHW" || format == "NCDHW", "data_format ", format,
          " is not supported: use channels last or channels first");
  channels_first_ = format[1] == 'C';
  padding_ = c.attr<std::string>("padding");
  require(padding_ == "SAME" || padding_ == "VALID" || padding_ == "EXPLICIT", "Invalid padding ", padding_);
  ksize_ = c.attr<std::vector<int64_t>>("ksize", {});
  strides_ = c.attr<std::vector<int64_t>>("strides", {});
  explicit_ = c.attr<std::vector<int64_t>>("explicit_paddings", {});
  require(padding_ == "EXPLICIT" ? explicit_.size() == 2 * (spatial_ + size_t{2}) : explicit_.empty(),
          "explicit_paddings has ", explicit_.size(), " entries, which does not go with padding ", padding_);
}

Windows Pooling::windows(const Shape& in) const { return make(in, ksize_, strides_); }

Windows Pooling::windows(const Shape& in, const Tensor& ksize, const Tensor& strides) const {
  require(ksize.rank() == 1 && strides.rank() == 1, "ksize and strides must be vectors, got shapes ", ksize.shape(),
          " and ", strides.shape());
  return make(in, to_int64s(ksize), to_int64s(strides));
}

Windows Pooling::make(const Shape& in, const std::vector<int64_t>& ksize, const std::vector<int64_t>& strides) const {
  const int rank = spatial_ + 2;
  require(in.rank() == rank, "tensor_in must be ", rank, "-dimensional, got shape ", in);
  require(ksize.size() == size_t(rank), "Sliding window ksize field must specify ", rank, " dimensions, got ",
          ksize.size());
  require(strides.size() == size_t(rank), "Sliding window stride field must specify ", rank, " dimensions, got ",
          strides.size());
  for (int i = 0; i < rank; ++i) {
    require(ksize[i] > 0 && ksize[i] < kLimit, "ksize must be positive, got ", ksize[i], " for dimension ", i);
    require(strides[i] > 0 && strides[i] < kLimit, "strides must be positive, got ", strides[i], " for dimension ", i);
  }
  const int depth = channels_first_ ? 1 : rank - 1, first = channels_first_ ? 2 : 1;
  if (ksize[0] != 1 || strides[0] != 1)
    fail(Code::unimplemented, "Pooling is not yet supported on the batch dimension.");
  for (int i : {0, depth})
    require(explicit_.empty() || (explicit_[2 * i] == 0 && explicit_[2 * i + 1] == 0),
            "explicit_paddings must be zero for batch and channels");
  Windows w;
  w.in_shape = in;
  if (ksize[depth] != 1 || strides[depth] != 1) {
    // The maximum over groups of channels: each group is a little image.
    int64_t group = ksize[depth];
    bool alone = !channels_first_ && spatial_ == 2 && ksize[1] == 1 && ksize[2] == 1 && strides[1] == 1 &&
                 strides[2] == 1 && explicit_.empty();
    if (!alone || strides[depth] != group || in[depth] % group != 0)
      fail(Code::unimplemented, "Pooling over channels needs windows of 1 elsewhere, and a window that divides the ",
           in[depth], " channels and equals its stride, got window ", group, " and stride ", strides[depth]);
    w.batch = in.product(0, depth) * (in[depth] / group);
    w.in[0] = w.window[0] = w.stride[0] = group;
    w.out_shape = in.with_dim(depth, in[depth] / group);
    return w;
  }
  std::vector<int64_t> out = in.to_vector();
  for (int d = 0; d < spatial_; ++d) {
    int i = first + d;
    int64_t before = explicit_.empty() ? 0 : explicit_[2 * i], after = explicit_.empty() ? 0 : explicit_[2 * i + 1];
    require(before >= 0 && after >= 0 && before < ksize[i] && after < ksize[i], "explicit_paddings ", before, " and ",
            after, " must not be negative, and be smaller than the window of ", ksize[i]);
    place(w, d, in[i], ksize[i], strides[i], padding_, before, after);
    out[i] = w.out[d];
  }
  w.batch = channels_first_ ? in[0] * in[1] : in[0];
  w.channels = channels_first_ ? 1 : in[depth];
  w.out_shape = Shape(out);
  return w;
}

namespace {

using SmallInts = Types<DType::int8, DType::int16, DType::uint8, DType::uint16, DType::qint8>;

template <typename To, typename From, typename Row>
void convert(const Tensor& from, Tensor& to, const Row& row) {
  const From* x = from.flat<From>();
  To* y = to.flat<To>();
  parallel_for(from.num_elements(), kElementGrain,
               [&](int64_t begin, int64_t end) { row(x + begin, y + begin, end - begin); });
}

}  // namespace

DType wide_type(DType dtype) {
  if (dtype == DType::float16 || dtype == DType::bfloat16) return DType::float32;
  return size_of(dtype) < 4 ? DType::int32 : dtype;
}

Tensor widened(const Tensor& t) {
  const DType wide = wide_type(t.dtype());
  if (wide == t.dtype()) return t;
  Tensor out(wide, t.shape());
  if (wide == DType::float32)
    dispatch(t.dtype(), Types<DType::float16, DType::bfloat16>{}, [&]<typename T>() {
      convert<float, T>(t, out, [](const T* from, float* to, int64_t n) { widen_row(from, to, n); });
    });
  else
    dispatch(t.dtype(), SmallInts{}, [&]<typename T>() {
      convert<int32_t, T>(t, out, [](const T* from, int32_t* to, int64_t n) { std::copy_n(from, n, to); });
    });
  return out;
}

void narrow_into(const Tensor& from, Tensor& to) {
  if (from.dtype() == DType::float32)
    dispatch(to.dtype(), Types<DType::float16, DType::bfloat16>{}, [&]<typename T>() {
      convert<T, float>(from, to, [](const float* x, T* y, int64_t n) { narrow_row(x, y, n); });
    });
  else
    dispatch(to.dtype(), SmallInts{}, [&]<typename T>() {
      convert<T, int32_t>(from, to, [](const int32_t* x, T* y, int64_t n) {
        for (int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(x[i]);
      });
    });
}

}  // namespace thalweg
