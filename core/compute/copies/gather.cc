// The loops of gathering, and the checks of its indices.
#include "compute/copies/gather.h"

#include "compute/copies/elements.h"
#include "compute/copies/rows_ahead.h"

namespace thalweg {
namespace {

using IndexTypes = Types<DType::int32, DType::int64, DType::int16, DType::uint16>;

// The first index outside [0, limit), or -1. The loop without a branch is what vectorizes.
template <typename I>
int64_t first_bad(const I* indices, int64_t n, int64_t limit) {
  using U = std::make_unsigned_t<I>;
  bool fits = limit > static_cast<int64_t>(std::numeric_limits<I>::max());
  const U bound = fits ? static_cast<U>(std::numeric_limits<I>::max()) : static_cast<U>(limit);
  bool bad = false;
  for (int64_t i = 0; i < n; ++i)
    bad |= fits ? static_cast<U>(indices[i]) > bound : static_cast<U>(indices[i]) >= bound;
  if (!bad) return -1;
  for (int64_t i = 0; i < n; ++i)
    if (indices[i] < I{0} || static_cast<int64_t>(indices[i]) >= limit) return i;
  return -1;
}

void check_indices(const Tensor& indices, int64_t limit) {
  dispatch(indices.dtype(), IndexTypes{}, [&]<typename I>() {
    int64_t at = first_bad(indices.flat<I>(), indices.num_elements(), limit);
    require(at < 0, "indices", position_of(indices.shape(), at < 0 ? 0 : at), " = ",
            at < 0 ? 0 : static_cast<int64_t>(indices.flat<I>()[at]), " is not in [0, ", limit, ")");
  });
}

struct GatherSizes {
  int64_t batch, outer, limit, inner, count;  // count: indices per batch entry.
};

// T has the width of an element; a row is `inner` of them.
template <typename T, typename I>
void gather_rows(const T* from, const I* indices, T* to, const GatherSizes& s) {
  int64_t rows = s.batch * s.outer * s.count;
  int64_t grain = std::max<int64_t>(1, kMoveGrain / static_cast<int64_t>(sizeof(T) * std::max<int64_t>(1, s.inner)));
  if constexpr (!std::is_trivially_copyable_v<T>) grain = rows;  // Copies allocate, and may throw.
  parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
    int64_t block = begin / s.count, i = begin % s.count;
    while (begin < end) {
      const T* source = from + block * s.limit * s.inner;
      const I* index = indices + (block / s.outer) * s.count;
      int64_t n = std::min(s.count - i, end - begin);
      T* out = to + begin * s.inner;
      if (s.inner == 1) {
        for (int64_t k = 0; k < n; ++k) out[k] = source[index[i + k]];
      } else if constexpr (std::is_trivially_copyable_v<T>) {
        size_t bytes = static_cast<size_t>(s.inner) * sizeof(T);
        const RowsAhead ahead(bytes);
        auto fetch = [&](int64_t k) { ahead.fetch(source + static_cast<int64_t>(index[i + k]) * s.inner); };
        for (int64_t k = 0; k < std::min(ahead.rows(), n); ++k) fetch(k);
        for (int64_t k = 0; k < n; ++k) {
          if (k + ahead.rows() < n) fetch(k + ahead.rows());
          std::memcpy(out + k * s.inner, source + static_cast<int64_t>(index[i + k]) * s.inner, bytes);
        }
      } else {
        for (int64_t k = 0; k < n; ++k)
          std::copy_n(source + static_cast<int64_t>(index[i + k]) * s.inner, s.inner, out + k * s.inner);
      }
      begin += n;
      i = 0;
      ++block;
    }
  });
}

template <typename T>
void copy_slices(const T* from, std::span<const int64_t> offsets, T* to, int64_t size) {
  int64_t n = static_cast<int64_t>(offsets.size());
  int64_t grain = std::max<int64_t>(1, kMoveGrain / static_cast<int64_t>(sizeof(T) * std::max<int64_t>(1, size)));
  if constexpr (!std::is_trivially_copyable_v<T>) grain = n;
  parallel_for(n, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      if (size == 1)
        to[i] = from[offsets[i]];
      else
        std::copy_n(from + offsets[i], size, to + i * size);
    }
  });
}

}  // namespace

std::string position_of(const Shape& shape, int64_t flat) {
  if (shape.rank() == 0) return "";
  std::string text = "]";
  for (int i = shape.rank() - 1; i >= 0; --i) {
    int64_t size = std::max<int64_t>(1, shape[i]);
    text = (i == 0 ? "[" : ",") + std::to_string(flat % size) + text;
    flat /= size;
  }
  return text;
}

Tensor gather(const Tensor& params, const Tensor& indices, int64_t axis, int64_t batch_dims) {
  require(params.rank() > 0, "params must be at least 1 dimensional");
  require(batch_dims >= -indices.rank() && batch_dims <= indices.rank(), "Expected batch_dims in the range [",
          -indices.rank(), ", ", indices.rank(), "], but got ", batch_dims);
  if (batch_dims < 0) batch_dims += indices.rank();
  require(axis >= -params.rank() && axis < params.rank(), "Expected axis in the range [", -params.rank(), ", ",
          params.rank(), "), but got ", axis);
  if (axis < 0) axis += params.rank();
  require(batch_dims < params.rank(), "batch_dims (", batch_dims, ") must be less than rank(params) (", params.rank(),
          ").");
  require(axis >= batch_dims, "batch_dims (", batch_dims, ") must be less than or equal to axis (", axis, ").");
  int a = static_cast<int>(axis), b = static_cast<int>(batch_dims);
  std::vector<int64_t> dims(params.shape().begin(), params.shape().begin() + a);
  for (int i = 0; i < b; ++i)
    require(params.dim(i) == indices.dim(i), "params.shape[", i, "]: ", params.dim(i),
            " should be equal to indices.shape[", i, "]: ", indices.dim(i));
  dims.insert(dims.end(), indices.shape().begin() + b, indices.shape().end());
  dims.insert(dims.end(), params.shape().begin() + a + 1, params.shape().end());
  check_indices(indices, params.dim(a));
  Tensor out(params.dtype(), Shape(dims));
  if (out.num_elements() == 0) return out;
  GatherSizes sizes{params.shape().product(0, b), params.shape().product(b, a), params.dim(a),
                    params.shape().product(a + 1, params.rank()), indices.shape().product(b, indices.rank())};
  dispatch(indices.dtype(), IndexTypes{}, [&]<typename I>() {
    if constexpr (sizeof(I) >= 4) {
      dispatch_width(params.dtype(),
                     [&]<typename T>() { gather_rows(params.flat<T>(), indices.flat<I>(), out.flat<T>(), sizes); });
    } else {  // Rare: not worth instances of their own.
      std::vector<int64_t> wide = to_int64s(indices);
      dispatch_width(params.dtype(),
                     [&]<typename T>() { gather_rows(params.flat<T>(), wide.data(), out.flat<T>(), sizes); });
    }
  });
  return out;
}

std::vector<int64_t> row_offsets(const Tensor& indices, int64_t rows, int64_t row_size) {
  check_indices(indices, rows);
  std::vector<int64_t> offsets = to_int64s(indices);
  for (int64_t& offset : offsets) offset *= row_size;
  return offsets;
}

std::vector<int64_t> tuple_offsets(const Tensor& indices, const Shape& shape, const char* what) {
  require(indices.rank() >= 1, "indices must be at least a vector, got shape ", indices.shape());
  int depth_rank = indices.rank() - 1;
  int64_t depth = indices.dim(depth_rank);
  require(depth <= shape.rank(), "index innermost dimension length must be <= ", what, " rank; saw: ", depth, " vs. ",
          shape.rank());
  int64_t count = indices.shape().product(0, depth_rank);
  std::vector<int64_t> offsets(count, 0), values = to_int64s(indices);
  std::vector<int64_t> strides(depth);
  int64_t stride = shape.product(static_cast<int>(depth), shape.rank());
  for (int64_t d = depth - 1; d >= 0; --d) {
    strides[d] = stride;
    stride *= shape[static_cast<int>(d)];
  }
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t d = 0; d < depth; ++d) {
      int64_t index = values[i * depth + d];
      if (index < 0 || index >= shape[static_cast<int>(d)]) [[unlikely]] {
        std::string tuple;
        for (int64_t k = 0; k < depth; ++k) tuple += (k ? ", " : "") + std::to_string(values[i * depth + k]);
        fail(Code::invalid_argument, "indices", position_of(indices.shape().removed(depth_rank), i), " = [", tuple,
             "] does not index into ", what, " ", shape);
      }
      offsets[i] += index * strides[d];
    }
  }
  return offsets;
}

Tensor gather_nd(const Tensor& params, const Tensor& indices) {
  require(params.rank() > 0, "params must be at least a vector");
  std::vector<int64_t> offsets = tuple_offsets(indices, params.shape(), "param shape");
  int depth = static_cast<int>(indices.dim(indices.rank() - 1));
  std::vector<int64_t> dims(indices.shape().begin(), indices.shape().end() - 1);
  dims.insert(dims.end(), params.shape().begin() + depth, params.shape().end());
  Tensor out(params.dtype(), Shape(dims));
  require(depth > 0 || params.num_elements() > 0 || offsets.empty() || out.num_elements() == 0,
          "Requested more than 0 entries, but params is empty.  Params shape: ", params.shape());
  if (out.num_elements() == 0) return out;
  int64_t size = params.shape().product(depth, params.rank());
  dispatch_width(params.dtype(), [&]<typename T>() { copy_slices(params.flat<T>(), offsets, out.flat<T>(), size); });
  return out;
}

}  // namespace thalweg
