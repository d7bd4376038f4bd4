// Dealing rows out to several tensors, and putting rows of several tensors back together.
#include "compute/copies/elements.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

bool starts_with(const Shape& shape, const Shape& prefix) {
  return prefix.rank() <= shape.rank() && std::equal(prefix.begin(), prefix.end(), shape.begin());
}

Shape suffix(const Shape& shape, int first, int64_t leading) {
  std::vector<int64_t> dims{leading};
  dims.insert(dims.end(), shape.begin() + first, shape.end());
  return Shape(dims);
}

// Copies a row of `size` elements; rows of one are common.
template <typename T>
inline void copy_row(const T* from, T* to, int64_t size) {
  if (size == 1)
    *to = *from;
  else
    std::copy(from, from + size, to);
}

void dynamic_partition(Context& ctx) {
  const Tensor& data = ctx.input(0);
  const Tensor& partitions = ctx.input(1);
  require(starts_with(data.shape(), partitions.shape()),
          "data.shape must start with partitions.shape, got data.shape = ", data.shape(),
          ", partitions.shape = ", partitions.shape());
  const int64_t rows = partitions.num_elements(), count = ctx.num_outputs();
  const int64_t row_size = data.shape().product(partitions.rank(), data.rank());
  const int32_t* to = partitions.flat<int32_t>();
  std::vector<int64_t> sizes(count, 0);
  for (int64_t i = 0; i < rows; ++i) {
    require(to[i] >= 0 && to[i] < count, "partitions[", i, "] = ", to[i], " is not in [0, ", count, ")");
    ++sizes[to[i]];
  }
  std::vector<Tensor*> outputs;
  for (int64_t p = 0; p < count; ++p)
    outputs.push_back(&ctx.allocate(p, suffix(data.shape(), partitions.rank(), sizes[p])));
  if (data.num_elements() == 0) return;
  dispatch_width(data.dtype(), [&]<typename T>() {
    std::vector<T*> next;
    for (Tensor* output : outputs) next.push_back(output->flat<T>());
    const T* from = data.flat<T>();
    for (int64_t i = 0; i < rows; ++i, from += row_size) {
      copy_row(from, next[to[i]], row_size);
      next[to[i]] += row_size;
    }
  });
}
REGISTER(kernel("DynamicPartition").function<dynamic_partition>());

// Where an index occurs twice, the later row wins. Rows that no index names are zero.
void dynamic_stitch(Context& ctx) {
  const int n = ctx.num_inputs() / 2;
  int64_t last = -1, row_size = 0;
  Shape shape;
  for (int i = 0; i < n; ++i) {
    const Tensor& indices = ctx.input(i);
    const Tensor& data = ctx.input(n + i);
    require(starts_with(data.shape(), indices.shape()), "data[", i, "].shape = ", data.shape(),
            " does not start with indices[", i, "].shape = ", indices.shape());
    const int32_t* at = indices.flat<int32_t>();
    for (int64_t j = 0; j < indices.num_elements(); ++j) {
      require(at[j] >= 0, "indices[", i, "] holds ", at[j], ", which is negative");
      last = std::max<int64_t>(last, at[j]);
    }
    Shape rest = suffix(data.shape(), indices.rank(), 0);
    if (i == 0) {
      shape = rest;
      row_size = data.shape().product(indices.rank(), data.rank());
    }
    require(rest == shape, "data[0].shape = ", ctx.input(n).shape(), " and data[", i, "].shape = ", data.shape(),
            " have rows of different shapes behind indices of shapes ", ctx.input(0).shape(), " and ", indices.shape());
  }
  Tensor& merged = ctx.allocate(0, shape.with_dim(0, last + 1));
  if (merged.num_elements() == 0) return;
  std::vector<bool> named(static_cast<size_t>(last) + 1, false);
  for (int i = 0; i < n; ++i)
    for (int32_t at : std::span(ctx.input(i).flat<int32_t>(), static_cast<size_t>(ctx.input(i).num_elements())))
      named[static_cast<size_t>(at)] = true;
  for (int64_t row = 0; row <= last; ++row)
    if (!named[static_cast<size_t>(row)])
      zero_elements(merged.dtype(), element_at(merged.dtype(), merged.raw(), row * row_size), row_size);
  dispatch_width(merged.dtype(), [&]<typename T>() {
    T* to = merged.flat<T>();
    for (int i = 0; i < n; ++i) {
      const int32_t* at = ctx.input(i).flat<int32_t>();
      const T* from = ctx.input(n + i).flat<T>();
      for (int64_t j = 0; j < ctx.input(i).num_elements(); ++j)
        copy_row(from + j * row_size, to + at[j] * row_size, row_size);
    }
  });
}
REGISTER(kernel("DynamicStitch").function<dynamic_stitch>());
REGISTER(kernel("ParallelDynamicStitch").function<dynamic_stitch>());

}  // namespace
}  // namespace thalweg
