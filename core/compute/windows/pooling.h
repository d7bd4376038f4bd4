// The base of the pooling kernels: the places of the windows, and parallel loops over them.
//
// A tensor is seen as [batch, three spatial dimensions, channels], for every data format: two spatial dimensions are
// followed by one of size 1, and with channels before space every channel is an image of its own. Windows are numbered
// in row-major order; a window is cut off at the edges, so that padding never takes part.
#pragma once

#include <array>
#include <optional>

#include "compute/elementwise/elementwise.h"

namespace thalweg {

struct Windows {
  int64_t batch = 1, channels = 1;
  std::array<int64_t, 3> in{1, 1, 1}, out{1, 1, 1}, window{1, 1, 1}, stride{1, 1, 1}, before{0, 0, 0};
  Shape in_shape, out_shape;

  int64_t in_size() const { return in[0] * in[1] * in[2] * channels; }
  int64_t out_size() const { return out[0] * out[1] * out[2] * channels; }
  int64_t in_row() const { return in[1] * in[2] * channels; }
  int64_t out_row() const { return out[1] * out[2] * channels; }

  struct Range {
    int64_t begin, end;
    int64_t size() const { return end - begin; }
  };
  // The part of a dimension that window number `at` covers.
  Range covered(int d, int64_t at) const {
    int64_t start = at * stride[d] - before[d];
    return {std::max<int64_t>(start, 0), std::min(start + window[d], in[d])};
  }
  // The windows that touch [begin, end) of a dimension.
  Range touching(int d, int64_t begin, int64_t end) const {
    int64_t first = begin + before[d] - window[d] + 1;
    first = first <= 0 ? 0 : (first + stride[d] - 1) / stride[d];
    return {first, std::min(out[d], (end - 1 + before[d]) / stride[d] + 1)};
  }
};

// The attributes of a pooling node. `ksize` and `strides` may come as inputs instead (MaxPoolV2).
class Pooling {
 public:
  // `spatial` is 2 or 3.
  Pooling(const Construction& c, int spatial);
  // The windows over an input of this shape; throws for shapes that do not fit.
  Windows windows(const Shape& in) const;
  Windows windows(const Shape& in, const Tensor& ksize, const Tensor& strides) const;

 private:
  Windows make(const Shape& in, const std::vector<int64_t>& ksize, const std::vector<int64_t>& strides) const;

  int spatial_;
  bool channels_first_ = false;
  std::string padding_;
  std::vector<int64_t> ksize_, strides_, explicit_;
};

// The type that elements are computed in: float32 for floats of 16 bits, int32 for integers of 8 and 16 bits.
DType wide_type(DType dtype);
using WideTypes = Types<DType::float32, DType::float64, DType::int32, DType::int64, DType::uint32, DType::uint64>;
// A tensor converted to its wide_type; the tensor itself if it has that type.
Tensor widened(const Tensor& t);
// Converts elements of a wide_type back to the type of `to`; integers keep their lower bits.
void narrow_into(const Tensor& from, Tensor& to);

inline int64_t pooling_grain(int64_t work_per_row) {
  return std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, work_per_row));
}

// Calls body(image, out_row) for each row of windows (first spatial dimension), in parallel.
template <typename Body>
void for_each_window_row(const Windows& w, const Body& body) {
  int64_t cost = w.out_row() * std::min<int64_t>(w.window[0] * w.window[1] * w.window[2], w.in[0] * w.in[1] * w.in[2]);
  parallel_for(w.batch * w.out[0], pooling_grain(cost), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) body(r / w.out[0], r % w.out[0]);
  });
}

// Calls body(image, begin, end) for bands of input rows, in parallel: only the thread of a band writes to it.
template <typename Body>
void for_each_band(const Windows& w, const Body& body) {
  // A window that reaches into two bands is computed twice, so bands are not too narrow.
  int64_t grain = std::max(pooling_grain(w.in_row() * 4), std::min(w.in[0], 4 * w.window[0]));
  parallel_for(w.batch * w.in[0], grain, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      int64_t image = begin / w.in[0], row = begin % w.in[0];
      int64_t stop = std::min(w.in[0], row + (end - begin));
      body(image, row, stop);
      begin += stop - row;
    }
  });
}

// As many elements as one register holds, and their places in an image as integers of the same width.
template <typename T>
struct Pack {
  static constexpr int size = 32 / sizeof(T);
  using Int = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  typedef T type __attribute__((vector_size(32)));
  typedef Int places __attribute__((vector_size(32)));
  static type load(const T* from) {
    type v;
    std::memcpy(&v, from, sizeof(v));
    return v;
  }
  static void store(T* to, const type& v) { std::memcpy(to, &v, sizeof(v)); }
  static type fill(T value) { return type{} + value; }
  static places place(int64_t pixel) { return places{} + static_cast<Int>(pixel); }
};

// The same interface for one element.
template <typename T>
struct Single {
  static constexpr int size = 1;
  using type = T;
  using places = int64_t;
  static T load(const T* from) { return *from; }
  static void store(T* to, T v) { *to = v; }
  static T fill(T value) { return value; }
  static int64_t place(int64_t pixel) { return pixel; }
};

// Runs body.operator()<P, N>(channel) over the channels: N registers at once, then one, then element by element. Loops
// over the N are to be unrolled: an array that a loop runs over lies in memory.
template <typename T, int N, typename Body>
inline void for_channels(int64_t channels, const Body& body) {
  int64_t c = 0;
  if constexpr (sizeof(T) >= 4) {
    using P = Pack<T>;
    for (; c + N * P::size <= channels; c += N * P::size) body.template operator()<P, N>(c);
    for (; c + P::size <= channels; c += P::size) body.template operator()<P, 1>(c);
  }
  for (; c < channels; ++c) body.template operator()<Single<T>, 1>(c);
}

// The part of the three spatial dimensions that a window covers.
struct Box {
  Windows::Range a, b, c;
  int64_t size() const { return a.size() * b.size() * c.size(); }
  bool empty() const { return a.size() <= 0 || b.size() <= 0 || c.size() <= 0; }
};

// Calls visit(pixel) for each pixel of a window, in row-major order. Pixels are numbered within their image.
template <typename Visit>
inline void for_each_pixel(const Windows& w, const Box& box, const Visit& visit) {
  for (int64_t i = box.a.begin; i < box.a.end; ++i)
    for (int64_t j = box.b.begin; j < box.b.end; ++j) {
      int64_t row = (i * w.in[1] + j) * w.in[2];
      for (int64_t k = box.c.begin; k < box.c.end; ++k) visit(row + k);
    }
}

// Calls body(pixel of the output, box) for each window of row `i`; `rows` is the part of the first dimension that they
// cover.
template <typename Body>
inline void for_each_window(const Windows& w, int64_t i, Windows::Range rows, const Body& body) {
  Box box{rows, {}, {}};
  for (int64_t j = 0; j < w.out[1]; ++j) {
    box.b = w.covered(1, j);
    for (int64_t k = 0; k < w.out[2]; ++k) {
      box.c = w.covered(2, k);
      body((i * w.out[1] + j) * w.out[2] + k, box);
    }
  }
}
template <typename Body>
inline void for_each_window(const Windows& w, int64_t i, const Body& body) {
  for_each_window(w, i, w.covered(0, i), body);
}

// Combines the rows that window row `i` covers into `buffer` where neighbouring windows share columns, so that these
// are combined once; `combine(a, b)` works on registers. Returns whether it did.
template <typename T, typename Combine>
inline bool combine_rows(const Windows& w, const T* image, Windows::Range rows, std::vector<T>& buffer,
                         const Combine& combine) {
  const bool shared = w.stride[1] < w.window[1] || w.channels < Pack<T>::size;
  if (!shared || rows.size() < 2) return false;
  const int64_t width = w.in_row();
  buffer.resize(width);
  for_channels<T, 4>(width, [&]<typename P, int N>(int64_t at) {
    typename P::type total[N];
    const T* from = image + rows.begin * width + at;
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) total[n] = P::load(from + n * P::size);
    for (int64_t r = 1; r < rows.size(); ++r)
#pragma GCC unroll 8
      for (int n = 0; n < N; ++n) total[n] = combine(total[n], P::load(from + r * width + n * P::size));
#pragma GCC unroll 8
    for (int n = 0; n < N; ++n) P::store(buffer.data() + at + n * P::size, total[n]);
  });
  return true;
}

}  // namespace thalweg
