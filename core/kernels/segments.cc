// Segment reductions: rows of the data that carry the same id are combined into one row of the result.
#include "compute/copies/elements.h"
#include "compute/elementwise/elementwise.h"
#include "compute/elementwise/functors.h"

namespace thalweg {
namespace {

enum class Combine { sum, mean, product, minimum, maximum };

// Sums of longer rows, and of more rows for each segment, are divided among threads by columns.
constexpr int64_t kLongRow = 256, kManyRows = 16;

struct Smaller {
  template <typename T>
  static T apply(T a, T b) {
    return a < b ? a : b;
  }
};
struct Larger {
  template <typename T>
  static T apply(T a, T b) {
    return a > b ? a : b;
  }
};

BinaryLoop loop_of(Combine how, DType dtype) {
  switch (how) {
    case Combine::product:
      return binary_loop<functors::Mul, Numbers>(dtype);
    case Combine::minimum:
      return binary_loop<Smaller, Reals>(dtype);
    case Combine::maximum:
      return binary_loop<Larger, Reals>(dtype);
    default:
      return binary_loop<functors::Add, Numbers>(dtype);
  }
}

// The largest finite number of a type of 16 bits, whose totals are float; of other types, that of the totals.
template <typename T>
T largest_of(DType elements) {
  if constexpr (std::is_same_v<T, float>) {
    if (elements == DType::float16) return 65504.0f;
    if (elements == DType::bfloat16) return 0x1.fep127f;
  }
  return std::numeric_limits<T>::max();
}

// The value of a segment without rows: one element of the totals' type, for data of type `elements`.
Tensor initial_value(Combine how, DType dtype, DType elements) {
  Tensor out(dtype, Shape{});
  dispatch(dtype, Numbers{}, [&]<typename T>() {
    T& value = *out.flat<T>();
    value = T(how == Combine::product ? 1 : 0);
    if constexpr (std::is_floating_point_v<T>) {
      if (how == Combine::maximum) value = -largest_of<T>(elements);
      if (how == Combine::minimum) value = largest_of<T>(elements);
    } else if constexpr (std::is_arithmetic_v<T>) {
      if (how == Combine::maximum) value = std::numeric_limits<T>::lowest();
      if (how == Combine::minimum) value = std::numeric_limits<T>::max();
    }
  });
  return out;
}

// Clears the segments without rows, and divides the totals of means by the numbers of rows.
void finish_segments(Combine how, const std::vector<int64_t>& counts, int64_t inner, Tensor& totals) {
  const DType dtype = totals.dtype();
  for (size_t s = 0; s < counts.size(); ++s)
    if (counts[s] == 0) zero_elements(dtype, element_at(dtype, totals.raw(), static_cast<int64_t>(s) * inner), inner);
  if (how != Combine::mean) return;
  dispatch(dtype, Numbers{}, [&]<typename T>() {
    T* total = totals.flat<T>();
    for (size_t s = 0; s < counts.size(); ++s, total += inner)
      for (int64_t i = 0; counts[s] > 0 && i < inner; ++i)
        total[i] = static_cast<T>(total[i] / static_cast<T>(counts[s]));
  });
}

// A copy in another element type.
template <typename To, typename From>
void convert(const Tensor& from, Tensor& to) {
  std::copy_n(from.flat<From>(), from.num_elements(), to.flat<To>());
}

// Scalars: one pass, without a call for each element.
template <typename F, typename T, typename I>
void combine_scalars(const T* data, const I* ids, int64_t rows, T* out) {
  for (int64_t row = 0; row < rows; ++row)
    if (ids[row] >= 0) out[ids[row]] = F::apply(out[ids[row]], data[row]);
}
// One segment of sorted scalars: lanes, whose number depends on nothing but the length, so that sums keep their bits.
template <typename F, typename T>
T combine_run(const T* data, int64_t n, T total) {
  constexpr int kLanes = 32;
  int64_t i = 0;
  if (n >= 2 * kLanes) {
    T lanes[kLanes];
    for (; i < kLanes; ++i) lanes[i] = data[i];
    for (; i + kLanes <= n; i += kLanes)
      for (int k = 0; k < kLanes; ++k) lanes[k] = F::apply(lanes[k], data[i + k]);
    for (int half = kLanes / 2; half > 0; half /= 2)
      for (int k = 0; k < half; ++k) lanes[k] = F::apply(lanes[k], lanes[k + half]);
    total = F::apply(total, lanes[0]);
  }
  for (; i < n; ++i) total = F::apply(total, data[i]);
  return total;
}
// One segment of sorted rows, for up to 16 columns: its totals stay in registers.
template <typename F, typename T>
void combine_rows(const T* data, int64_t rows, int64_t inner, int64_t width, T* out) {
  constexpr int kWidth = 16;
  T totals[kWidth];
  if (width < kWidth) {
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t i = 0; i < width; ++i) out[i] = F::apply(out[i], data[row * inner + i]);
    return;
  }
  std::copy_n(out, kWidth, totals);
  for (int64_t row = 0; row < rows; ++row)
    for (int i = 0; i < kWidth; ++i) totals[i] = F::apply(totals[i], data[row * inner + i]);
  std::copy_n(totals, kWidth, out);
}
template <typename F, typename T>
void combine_sorted(const T* data, const std::vector<int64_t>& ids, int64_t inner, T* out) {
  const int64_t rows = static_cast<int64_t>(ids.size());
  for (int64_t row = 0, end; row < rows; row = end) {
    for (end = row + 1; end < rows && ids[end] == ids[row];) ++end;
    T* to = out + ids[row] * inner;
    if (inner == 1) *to = combine_run<F>(data + row, end - row, *to);
    for (int64_t i = 0; inner > 1 && i < inner; i += 16)
      combine_rows<F>(data + row * inner + i, end - row, inner, std::min<int64_t>(16, inner - i), to + i);
  }
}

template <typename F, typename List>
void combine_narrow_of(const Tensor& data, const std::vector<int64_t>& ids, int64_t inner, bool sorted, Tensor& out) {
  dispatch_for<F, List>(data.dtype(), [&]<typename T>() {
    if constexpr (!is_reduced_float<T>) {
      if (sorted)
        combine_sorted<F>(data.flat<T>(), ids, inner, out.flat<T>());
      else
        combine_scalars<F, T>(data.flat<T>(), ids.data(), static_cast<int64_t>(ids.size()), out.flat<T>());
    }
  });
}
// Scalars, or sorted rows of a few columns.
void combine_narrow(Combine how, const Tensor& data, const std::vector<int64_t>& ids, int64_t inner, bool sorted,
                    Tensor& out) {
  switch (how) {
    case Combine::product:
      return combine_narrow_of<functors::Mul, Numbers>(data, ids, inner, sorted, out);
    case Combine::minimum:
      return combine_narrow_of<Smaller, Reals>(data, ids, inner, sorted, out);
    case Combine::maximum:
      return combine_narrow_of<Larger, Reals>(data, ids, inner, sorted, out);
    default:
      return combine_narrow_of<functors::Add, Numbers>(data, ids, inner, sorted, out);
  }
}

// Sums of rows, with one pass over the data: the first row of a segment is added to zero where it is, so that zeros
// need not be written before. Threads divide the segments among themselves, and each goes through the rows in order.
template <typename T>
void sum_rows(const T* data, const std::vector<int64_t>& ids, int64_t segments, int64_t inner, T* out) {
  constexpr int64_t kGrainBytes = 1 << 20;
  const int64_t grain = std::max<int64_t>(1, kGrainBytes / (inner * static_cast<int64_t>(sizeof(T))));
  parallel_for(segments, grain, [&](int64_t begin, int64_t end) {
    std::vector<uint8_t> started(static_cast<size_t>(end - begin), 0);
    const T* from = data;
    for (const int64_t id : ids) {
      if (id >= begin && id < end) {
        T* const to = out + id * inner;
        uint8_t& again = started[static_cast<size_t>(id - begin)];
        if (again != 0)
          for (int64_t i = 0; i < inner; ++i) to[i] = functors::Add::apply(to[i], from[i]);
        else
          for (int64_t i = 0; i < inner; ++i) to[i] = functors::Add::apply(T(0), from[i]);
        again = 1;
      }
      from += inner;
    }
    for (int64_t id = begin; id < end; ++id)
      if (started[static_cast<size_t>(id - begin)] == 0) std::fill_n(out + id * inner, inner, T(0));
  });
}

// Combines data[row] into out[ids[row]]; negative ids are left out. Threads divide the columns among themselves. Sorted
// reductions turn empty segments of extremes into zeros, and divide means.
void reduce_segments(Combine how, const Tensor& data, const std::vector<int64_t>& ids, int64_t segments, bool sorted,
                     Tensor& out, DType elements) {
  const DType dtype = data.dtype();
  if (dtype == DType::float16 || dtype == DType::bfloat16) {  // Totals are float.
    Tensor wide(DType::float32, data.shape()), totals(DType::float32, out.shape());
    dtype == DType::float16 ? convert<float, half>(data, wide) : convert<float, bfloat16>(data, wide);
    reduce_segments(how, wide, ids, segments, sorted, totals, dtype);
    dtype == DType::float16 ? convert<half, float>(totals, out) : convert<bfloat16, float>(totals, out);
    return;
  }
  const int64_t rows = static_cast<int64_t>(ids.size()), inner = out.num_elements() / segments;
  if (how == Combine::sum && inner > 1 && inner <= kLongRow && rows <= kManyRows * segments)
    return dispatch_for<functors::Add, Numbers>(dtype, [&]<typename T>() {
      if constexpr (!is_reduced_float<T>) sum_rows<T>(data.flat<T>(), ids, segments, inner, out.flat<T>());
    });
  const int64_t per_column = std::max<int64_t>(1, std::max(rows, segments));
  const BinaryLoop combine = loop_of(how, dtype);
  fill_elements(dtype, out.raw(), initial_value(how, dtype, elements).raw(), out.num_elements());
  const bool narrow = inner == 1 || (sorted && inner <= 16);
  if (narrow) combine_narrow(how, data, ids, inner, sorted, out);
  parallel_for(narrow ? 0 : inner, std::max<int64_t>(16, kElementGrain / per_column), [&](int64_t begin, int64_t end) {
    for (int64_t row = 0; row < rows; ++row) {
      if (ids[row] < 0) continue;
      void* to = element_at(dtype, out.raw(), ids[row] * inner + begin);
      combine(to, 1, element_at(dtype, data.raw(), row * inner + begin), 1, to, end - begin);
    }
  });
  if (!sorted || how == Combine::sum || how == Combine::product) return;
  std::vector<int64_t> counts(segments, 0);
  for (int64_t id : ids) ++counts[id];
  finish_segments(how, counts, inner, out);
}

template <Combine kCombine>
void segment_reduction(Context& ctx) {
  const Tensor& data = ctx.input(0);
  const Tensor& id_tensor = ctx.input(1);
  require(data.rank() >= 1, "input must be at least rank 1, got shape ", data.shape());
  require(id_tensor.rank() == 1, "segment_ids should be a vector, got shape ", id_tensor.shape());
  require(id_tensor.dim(0) == data.dim(0), "segment_ids should be the same size as dimension 0 of input. Expected ",
          data.dim(0), " got ", id_tensor.dim(0));
  const std::vector<int64_t> ids = to_int64s(id_tensor);
  const auto negative = std::find_if(ids.begin(), ids.end(), [](int64_t id) { return id < 0; });
  if (negative != ids.end())
    fail(Code::invalid_argument, "segment ids must be >= 0, got ", *negative, " at position ", negative - ids.begin());
  if (!std::is_sorted(ids.begin(), ids.end())) {
    const auto after = std::is_sorted_until(ids.begin(), ids.end());
    fail(Code::invalid_argument, "segment ids are not increasing: ", *after, " follows ", *(after - 1), " at position ",
         after - ids.begin());
  }
  require(ids.empty() || ids.back() < std::numeric_limits<int64_t>::max(), "the segment id ",
          ids.empty() ? 0 : ids.back(), " is out of range");
  const int64_t segments = ids.empty() ? 0 : ids.back() + 1;
  Tensor& out = ctx.allocate(0, data.shape().with_dim(0, segments));
  if (out.num_elements() == 0) return;
  reduce_segments(kCombine, data, ids, segments, true, out, data.dtype());
}

template <Combine kCombine>
void unsorted_segment_reduction(Context& ctx) {
  const Tensor& data = ctx.input(0);
  const Tensor& id_tensor = ctx.input(1);
  const Tensor& number = ctx.input(2);
  require(number.rank() == 0, "num_segments should be a scalar, not shape ", number.shape());
  const int64_t segments = to_int64(number);
  require(segments >= 0, "Input num_segments == ", segments, " must not be negative.");
  const int prefix = id_tensor.rank();
  bool fits = prefix <= data.rank();
  for (int d = 0; fits && d < prefix; ++d) fits = id_tensor.dim(d) == data.dim(d);
  require(fits, "data.shape = ", data.shape(), " does not start with segment_ids.shape = ", id_tensor.shape());
  const std::vector<int64_t> ids = to_int64s(id_tensor);
  const auto outside = std::find_if(ids.begin(), ids.end(), [=](int64_t id) { return id >= segments; });
  if (outside != ids.end())
    fail(Code::invalid_argument, "segment_ids[", outside - ids.begin(), "] = ", *outside, " is out of range [0, ",
         segments, ")");
  std::vector<int64_t> dims = {segments};
  dims.insert(dims.end(), data.shape().begin() + prefix, data.shape().end());
  Tensor& out = ctx.allocate(0, Shape(dims));
  if (out.num_elements() == 0) return;
  reduce_segments(kCombine, data, ids, segments, false, out, data.dtype());
}

REGISTER(kernel("SegmentSum").types("T", Numbers{}).function<segment_reduction<Combine::sum>>());
REGISTER(kernel("SegmentMean").types("T", Numbers{}).function<segment_reduction<Combine::mean>>());
REGISTER(kernel("SegmentProd").types("T", Numbers{}).function<segment_reduction<Combine::product>>());
REGISTER(kernel("SegmentMin").types("T", Reals{}).function<segment_reduction<Combine::minimum>>());
REGISTER(kernel("SegmentMax").types("T", Reals{}).function<segment_reduction<Combine::maximum>>());
REGISTER(kernel("UnsortedSegmentSum").types("T", Numbers{}).function<unsorted_segment_reduction<Combine::sum>>());
REGISTER(kernel("UnsortedSegmentProd").types("T", Numbers{}).function<unsorted_segment_reduction<Combine::product>>());
REGISTER(kernel("UnsortedSegmentMin").types("T", Reals{}).function<unsorted_segment_reduction<Combine::minimum>>());
REGISTER(kernel("UnsortedSegmentMax").types("T", Reals{}).function<unsorted_segment_reduction<Combine::maximum>>());

}  // namespace
}  // namespace thalweg
