// Padding: a batch is as large, in each dimension of unknown size, as the largest of its elements.
#include "resource/queue_padding.h"

#include <cstring>

#include "resource/queue_batch.h"

namespace thalweg {
namespace {

void fill_with_zeros(Tensor& tensor) {
  // Strings are constructed empty.
  if (is_plain(tensor.dtype())) std::memset(tensor.raw(), 0, tensor.bytes());
}

// Copies `from`, of shape `inner`, to the corner of `to`, of shape `outer` and the same rank.
void copy_corner(DType dtype, char* to, std::span<const int64_t> outer, const char* from,
                 std::span<const int64_t> inner) {
  const size_t width = size_of(dtype);
  const int rank = static_cast<int>(inner.size());
  const int64_t run = rank == 0 ? 1 : inner[rank - 1];
  int64_t runs = 1;
  for (int i = 0; i + 1 < rank; ++i) runs *= inner[i];
  std::vector<int64_t> index(static_cast<size_t>(std::max(rank - 1, 0)), 0);
  for (int64_t k = 0; k < runs; ++k) {
    int64_t offset = 0;
    for (int i = 0; i + 1 < rank; ++i) offset = (offset + index[i]) * outer[i + 1];
    copy_elements(dtype, to + static_cast<size_t>(offset) * width, from + static_cast<size_t>(k * run) * width, run);
    for (int i = rank - 2; i >= 0; --i) {
      if (++index[i] < inner[i]) break;
      index[i] = 0;
    }
  }
}

}  // namespace

Queue::Tuple PaddingFifoQueue::stack(std::vector<Tuple> tuples) const {
  Tuple out;
  for (size_t c = 0; c < options_.dtypes.size(); ++c) {
    const PartialShape& declared = options_.shapes[c];
    std::vector<int64_t> dims = declared.dims;
    for (size_t d = 0; d < dims.size(); ++d)
      for (const Tuple& tuple : tuples) dims[d] = std::max(dims[d], tuple[c].dim(static_cast<int>(d)));
    Shape element(dims);
    Tensor batch = new_batch(options_.dtypes[c], static_cast<int64_t>(tuples.size()), element);
    if (!declared.fully_defined()) fill_with_zeros(batch);
    const size_t bytes = static_cast<size_t>(element.num_elements()) * size_of(batch.dtype());
    for (size_t row = 0; row < tuples.size(); ++row) {
      Tensor& value = tuples[row][c];
      if (value.shape() == element)
        put_row(batch, static_cast<int64_t>(row), value);
      else if (value.num_elements() > 0)
        copy_corner(batch.dtype(), static_cast<char*>(batch.raw()) + row * bytes, element.dims(),
                    static_cast<const char*>(value.raw()), value.shape().dims());
    }
    out.push_back(std::move(batch));
  }
  return out;
}

}  // namespace thalweg
