// Transpose and ConjugateTranspose.
#include "compute/copies/elements.h"
#include "compute/copies/strided_copy.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

Tensor permuted(const Tensor& in, const Tensor& perm_tensor) {
  require(perm_tensor.rank() == 1, "perm must be rank 1, got shape ", perm_tensor.shape());
  require(perm_tensor.num_elements() == in.rank(), "transpose expects a vector of size ", in.rank(),
          ". But input(1) is a vector of size ", perm_tensor.num_elements());
  std::vector<int64_t> perm = to_int64s(perm_tensor), sizes(in.rank());
  std::vector<char> seen(in.rank(), 0);
  bool is_view = true;  // Whether only dimensions of one element change places.
  int64_t last = -1;
  for (int i = 0; i < in.rank(); ++i) {
    if (perm[i] < 0) perm[i] += in.rank();
    require(perm[i] >= 0 && perm[i] < in.rank(), perm[i], " is out of range [0 .. ", in.rank(), ")");
    require(!seen[perm[i]], "perm names dimension ", perm[i], " twice");
    seen[perm[i]] = 1;
    sizes[i] = in.dim(static_cast<int>(perm[i]));
    if (sizes[i] == 1) continue;
    is_view = is_view && perm[i] > last;
    last = perm[i];
  }
  Shape shape(sizes);
  if (is_view) return in.reshaped(shape);
  Tensor out(in.dtype(), shape);
  std::vector<int64_t> from = strides_of(in.shape()), to = strides_of(shape);
  std::vector<CopyDim> dims;
  for (int i = 0; i < in.rank(); ++i) dims.push_back({sizes[i], from[perm[i]], to[i]});
  strided_copy(in.dtype(), in.raw(), out.raw(), dims);
  return out;
}

void transpose(Context& ctx) { ctx.set_output(0, permuted(ctx.input(0), ctx.input(1))); }

template <typename T>
void conjugate(const Tensor& in, Tensor& out) {
  const T* from = in.flat<T>();
  T* to = out.flat<T>();
  parallel_for(in.num_elements(), move_grain(in.dtype()), [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] = std::conj(from[i]);
  });
}

void conjugate_transpose(Context& ctx) {
  Tensor moved = permuted(ctx.input(0), ctx.input(1));
  if (moved.dtype() != DType::complex64 && moved.dtype() != DType::complex128)
    return ctx.set_output(0, std::move(moved));
  Tensor& out = ctx.allocate(0, moved.shape());
  if (moved.dtype() == DType::complex64)
    conjugate<complex64>(moved, out);
  else
    conjugate<complex128>(moved, out);
}

REGISTER(kernel("Transpose").function<transpose>());
REGISTER(kernel("ConjugateTranspose").function<conjugate_transpose>());

}  // namespace
}  // namespace thalweg
