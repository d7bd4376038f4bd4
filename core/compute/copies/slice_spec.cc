// Resolving a NumPy-style index against a shape.
#include "compute/copies/slice_spec.h"

#include "compute/copies/elements.h"

namespace thalweg {
namespace {

constexpr int kMostIndices = 32;

// One dimension's [begin, end) in the direction of the stride, clamped as Python clamps slices.
int64_t clamped(int64_t index, bool masked, bool is_begin, int64_t size, int64_t stride) {
  int64_t low = stride > 0 ? 0 : -1, high = stride > 0 ? size : size - 1;
  if (masked) return is_begin == (stride > 0) ? low : high;
  if (index < 0) index += size;  // Cannot overflow: the signs differ.
  return std::clamp(index, low, high);
}

int64_t interval(int64_t begin, int64_t end, int64_t stride) {
  int64_t length = end - begin;
  if (length == 0 || (length < 0) != (stride < 0)) return 0;
  return length / stride + (length % stride != 0 ? 1 : 0);
}

}  // namespace

SliceMasks::SliceMasks(const Construction& c)
    : begin(c.attr<int64_t>("begin_mask", 0)),
      end(c.attr<int64_t>("end_mask", 0)),
      ellipsis(c.attr<int64_t>("ellipsis_mask", 0)),
      new_axis(c.attr<int64_t>("new_axis_mask", 0)),
      shrink_axis(c.attr<int64_t>("shrink_axis_mask", 0)) {
  require((ellipsis & (ellipsis - 1)) == 0, "Multiple ellipses in slice spec not allowed");
}

SliceBox resolve_slice(const Shape& shape, const Tensor& begin, const Tensor& end, const Tensor& strides,
                       const SliceMasks& masks) {
  require(begin.rank() == 1 && begin.shape() == end.shape() && begin.shape() == strides.shape() &&
              begin.num_elements() < kMostIndices,
          "Expected begin, end, and strides to be 1D equal size tensors with fewer than 32 elements, but got shapes ",
          begin.shape(), ", ", end.shape(), ", and ", strides.shape(), " instead.");
  std::vector<int64_t> first = to_int64s(begin), last = to_int64s(end), step = to_int64s(strides);
  int count = static_cast<int>(first.size()), rank = shape.rank();
  auto has = [](int64_t mask, int i) { return (mask >> i & 1) != 0; };

  int taken = 0;  // Dimensions of the input that an index names.
  for (int i = 0; i < count; ++i) taken += !has(masks.ellipsis, i) && !has(masks.new_axis, i);
  require(taken <= rank, "Index out of range using input dim ", rank, "; input has only ", rank, " dims");

  SliceBox box;
  std::vector<int64_t> dims, source = strides_of(shape);
  int axis = 0;
  bool ellipsis_seen = false;
  auto take_all = [&](int until) {
    for (; axis < until; ++axis) {
      box.sizes.push_back(shape[axis]);
      box.stride.push_back(source[axis]);
      dims.push_back(shape[axis]);
    }
  };
  for (int i = 0; i < count; ++i) {
    if (has(masks.ellipsis, i)) {
      ellipsis_seen = true;
      take_all(axis + rank - taken);
    } else if (has(masks.new_axis, i)) {
      dims.push_back(1);
    } else {
      int64_t size = shape[axis];
      require(step[i] != 0, "strides[", i, "] must be non-zero");
      int64_t from;
      if (has(masks.shrink_axis, i)) {
        require(step[i] > 0, "only stride 1 allowed on non-range indexing.");
        from = first[i] < 0 ? first[i] + size : first[i];
        require(from >= 0 && from < size, "slice index ", first[i], " of dimension ", axis, " out of bounds.");
        box.sizes.push_back(1);
        box.stride.push_back(source[axis]);
      } else {
        // Any stride beyond the size selects at most one element.
        int64_t stride = std::clamp(step[i], -size - 1, size + 1);
        from = clamped(first[i], has(masks.begin, i), true, size, stride);
        int64_t to = clamped(last[i], has(masks.end, i), false, size, stride);
        int64_t n = interval(from, to, stride);
        box.sizes.push_back(n);
        box.stride.push_back(n > 1 ? stride * source[axis] : source[axis]);
        dims.push_back(n);
        if (n == 0) from = 0;
      }
      box.offset += from * source[axis];
      ++axis;
    }
  }
  if (!ellipsis_seen) take_all(rank);
  box.shape = Shape(dims);
  box.count = box.shape.num_elements();
  if (box.count == 0) box.offset = 0;
  return box;
}

std::vector<CopyDim> SliceBox::copy_dims(bool into) const {
  std::vector<CopyDim> dims(sizes.size());
  int64_t flat = 1;
  for (int i = static_cast<int>(sizes.size()) - 1; i >= 0; --i) {
    dims[i] = into ? CopyDim{sizes[i], flat, stride[i]} : CopyDim{sizes[i], stride[i], flat};
    flat *= sizes[i];
  }
  return dims;
}

bool SliceBox::contiguous() const {
  int64_t flat = 1;
  for (int i = static_cast<int>(sizes.size()) - 1; i >= 0; --i) {
    if (sizes[i] != 1 && stride[i] != flat) return false;
    flat *= sizes[i];
  }
  return true;
}

Tensor elements_of(const Tensor& in, int64_t offset, int64_t count, const Shape& shape) {
  // A small part is copied, because a view would keep all of the memory alive.
  bool small = count < in.num_elements() / 64;
  if (count > 0 && !small) return in.reshaped(Shape{in.num_elements()}).rows(offset, count).reshaped(shape);
  Tensor out(in.dtype(), shape);
  if (count > 0) copy_large(in.dtype(), out.raw(), element_at(in.dtype(), std::as_const(in).raw(), offset), count);
  return out;
}

Tensor read_slice(const Tensor& in, const SliceBox& box) {
  if (box.contiguous()) return elements_of(in, box.offset, box.count, box.shape);
  Tensor out(in.dtype(), box.shape);
  if (box.count > 0)
    strided_copy(in.dtype(), element_at(in.dtype(), in.raw(), box.offset), out.raw(), box.copy_dims(false));
  return out;
}

void write_slice(Tensor& target, const SliceBox& box, const Tensor& value) {
  require(value.dtype() == target.dtype(), "cannot assign elements of type ", value.dtype(), " to a slice of type ",
          target.dtype());
  int leading = box.shape.rank() - value.rank();
  bool fits = leading >= 0;
  for (int i = 0; fits && i < value.rank(); ++i) fits = value.dim(i) == 1 || value.dim(i) == box.shape[leading + i];
  require(fits, "cannot assign a value of shape ", value.shape(), " to a slice of shape ", box.shape);
  if (box.count == 0) return;
  std::vector<CopyDim> dims = box.copy_dims(true);
  if (value.num_elements() != box.count) {
    Tensor whole(value.dtype(), box.shape);
    std::vector<int64_t> from = strides_of(value.shape()), to = strides_of(box.shape);
    std::vector<CopyDim> repeat;
    for (int i = 0; i < box.shape.rank(); ++i) {
      bool repeats = i < leading || value.dim(i - leading) == 1;
      repeat.push_back({box.shape[i], repeats ? 0 : from[i - leading], to[i]});
    }
    strided_copy(value.dtype(), value.raw(), whole.raw(), repeat);
    strided_copy(target.dtype(), whole.raw(), element_at(target.dtype(), target.raw(), box.offset), dims);
    return;
  }
  strided_copy(target.dtype(), value.raw(), element_at(target.dtype(), target.raw(), box.offset), dims);
}

}  // namespace thalweg
