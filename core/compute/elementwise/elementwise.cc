// Broadcasting, and the part of element-wise kernels that does not depend on the functor.
#include "compute/elementwise/elementwise.h"

#include "tensor/reduced_floats.h"

namespace thalweg {

bool Broadcast::possible(const Shape& a, const Shape& b) {
  for (int i = 1; i <= std::min(a.rank(), b.rank()); ++i) {
    int64_t x = a[a.rank() - i], y = b[b.rank() - i];
    if (x != y && x != 1 && y != 1) return false;
  }
  return true;
}

Broadcast::Broadcast(const Shape& a, const Shape& b) {
  int rank = std::max(a.rank(), b.rank());
  std::vector<int64_t> dims(rank), dims_a(rank), dims_b(rank);
  for (int i = 0; i < rank; ++i) {
    int ia = i - (rank - a.rank()), ib = i - (rank - b.rank());
    dims_a[i] = ia < 0 ? 1 : a[ia];
    dims_b[i] = ib < 0 ? 1 : b[ib];
    require(dims_a[i] == dims_b[i] || dims_a[i] == 1 || dims_b[i] == 1, "Incompatible shapes: ", a, " vs. ", b);
    dims[i] = dims_a[i] == 1 ? dims_b[i] : dims_a[i];
  }
  shape_ = Shape(dims);
  int64_t stride_a = 1, stride_b = 1;
  for (int i = rank - 1; i >= 0; --i) {
    int64_t sa = dims_a[i] == 1 ? 0 : stride_a, sb = dims_b[i] == 1 ? 0 : stride_b;
    stride_a *= dims_a[i];
    stride_b *= dims_b[i];
    if (dims[i] == 1) continue;
    // An outer dimension continues the previous one if both operands step over exactly that one's extent.
    if (!sizes_.empty() && sa == strides_a_.back() * sizes_.back() && sb == strides_b_.back() * sizes_.back()) {
      sizes_.back() *= dims[i];
    } else {
      sizes_.push_back(dims[i]);
      strides_a_.push_back(sa);
      strides_b_.push_back(sb);
    }
  }
  if (sizes_.empty()) {
    sizes_.push_back(1);
    strides_a_.push_back(0);
    strides_b_.push_back(0);
  }
  std::reverse(sizes_.begin(), sizes_.end());
  std::reverse(strides_a_.begin(), strides_a_.end());
  std::reverse(strides_b_.begin(), strides_b_.end());
}

namespace {

template <typename Row>
void visit_rows(const Broadcast& broadcast, const Row& row) {
  int last = broadcast.rank() - 1;
  int64_t inner = broadcast.size(last);
  int64_t rows = inner == 0 ? 0 : broadcast.shape().num_elements() / inner;
  parallel_for(rows, std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, inner)),
               [&](int64_t begin, int64_t end) {
                 int64_t index[Shape::kMaxRank], left = begin, a = 0, b = 0;
                 for (int d = last - 1; d >= 0; --d) {
                   index[d] = left % broadcast.size(d);
                   left /= broadcast.size(d);
                   a += index[d] * broadcast.stride_a(d);
                   b += index[d] * broadcast.stride_b(d);
                 }
                 for (int64_t r = begin; r < end; ++r) {
                   row(r * inner, a, b, inner);
                   for (int d = last - 1; d >= 0; --d) {
                     a += broadcast.stride_a(d);
                     b += broadcast.stride_b(d);
                     if (++index[d] < broadcast.size(d)) break;
                     a -= index[d] * broadcast.stride_a(d);
                     b -= index[d] * broadcast.stride_b(d);
                     index[d] = 0;
                   }
                 }
               });
}

constexpr int64_t kConvertedBlock = 512;  // elements that are converted at a time

void widen(DType reduced, const void* from, float* to, int64_t n) {
  if (reduced == DType::float16)
    widen_row(static_cast<const half*>(from), to, n);
  else
    widen_row(static_cast<const bfloat16*>(from), to, n);
}
void narrow(DType reduced, const float* from, void* to, int64_t n) {
  if (reduced == DType::float16)
    narrow_row(from, static_cast<half*>(to), n);
  else
    narrow_row(from, static_cast<bfloat16*>(to), n);
}

const char* bytes_at(const void* data, int64_t index, size_t width) {
  return static_cast<const char*>(data) + index * static_cast<int64_t>(width);
}
char* bytes_at(void* data, int64_t index, size_t width) {
  return static_cast<char*>(data) + index * static_cast<int64_t>(width);
}

// Where the result's type is an attribute of its own (Real's Tout), it must be the one that the loops write.
void require_result(const Context& ctx, const RowTypes& types) {
  require(size_of(ctx.output_dtype(0)) == types.out_width, "the result of type ", ctx.output_dtype(0),
          " does not go with an input of type ", ctx.input(0).dtype());
}

}  // namespace

void for_each_row(const Broadcast& broadcast, const std::function<void(int64_t, int64_t, int64_t, int64_t)>& row) {
  visit_rows(broadcast, row);
}

void UnaryLoop::operator()(const void* in, void* out, int64_t n) const {
  if (types.reduced == DType::invalid) return row(in, out, n);
  float wide[kConvertedBlock], result[kConvertedBlock];
  for (int64_t i = 0; i < n; i += kConvertedBlock) {
    const int64_t count = std::min(kConvertedBlock, n - i);
    widen(types.reduced, bytes_at(in, i, types.width), wide, count);
    void* to = bytes_at(out, i, types.out_width);
    row(wide, types.narrows ? result : to, count);
    if (types.narrows) narrow(types.reduced, result, to, count);
  }
}

void BinaryLoop::operator()(const void* a, int64_t stride_a, const void* b, int64_t stride_b, void* out,
                            int64_t n) const {
  if (types.reduced == DType::invalid) return row(a, stride_a, b, stride_b, out, n);
  float wide_a[kConvertedBlock], wide_b[kConvertedBlock], result[kConvertedBlock];
  if (stride_a == 0) widen(types.reduced, a, wide_a, 1);
  if (stride_b == 0) widen(types.reduced, b, wide_b, 1);
  for (int64_t i = 0; i < n; i += kConvertedBlock) {
    const int64_t count = std::min(kConvertedBlock, n - i);
    if (stride_a != 0) widen(types.reduced, bytes_at(a, i, types.width), wide_a, count);
    if (stride_b != 0) widen(types.reduced, bytes_at(b, i, types.width), wide_b, count);
    void* to = bytes_at(out, i, types.out_width);
    row(wide_a, stride_a, wide_b, stride_b, types.narrows ? result : to, count);
    if (types.narrows) narrow(types.reduced, result, to, count);
  }
}

void require_same_types(const Tensor& a, const Tensor& b) {
  require(a.dtype() == b.dtype(), "the operands have types ", a.dtype(), " and ", b.dtype());
}

void compute_unary(Context& ctx, const UnaryLoop& loop) {
  Tensor& out = ctx.forward_or_allocate({0}, 0, ctx.input(0).shape());
  require_result(ctx, loop.types);
  const void* from = ctx.input(0).raw();
  void* to = out.raw();
  parallel_for(out.num_elements(), kElementGrain, [&](int64_t begin, int64_t end) {
    loop(bytes_at(from, begin, loop.types.width), bytes_at(to, begin, loop.types.out_width), end - begin);
  });
}

void compute_binary(Context& ctx, int i, int j, const BinaryLoop& loop) {
  const Tensor& a = ctx.input(i);
  const Tensor& b = ctx.input(j);
  require_result(ctx, loop.types);
  const size_t width = loop.types.width, out_width = loop.types.out_width;
  auto rows = [&](int64_t stride_a, int64_t stride_b, Tensor& out) {
    const void *from_a = a.raw(), *from_b = b.raw();
    void* to = out.raw();
    parallel_for(out.num_elements(), kElementGrain, [&](int64_t begin, int64_t end) {
      loop(bytes_at(from_a, begin * stride_a, width), stride_a, bytes_at(from_b, begin * stride_b, width), stride_b,
           bytes_at(to, begin, out_width), end - begin);
    });
  };
  if (a.shape() == b.shape()) return rows(1, 1, ctx.forward_or_allocate({i, j}, 0, a.shape()));
  if (b.num_elements() == 1 && b.rank() <= a.rank()) return rows(1, 0, ctx.forward_or_allocate({i}, 0, a.shape()));
  if (a.num_elements() == 1 && a.rank() <= b.rank()) return rows(0, 1, ctx.forward_or_allocate({j}, 0, b.shape()));
  // A refusal names the inputs in their own order.
  if (i > j && !Broadcast::possible(a.shape(), b.shape())) Broadcast(b.shape(), a.shape());
  Broadcast broadcast(a.shape(), b.shape());
  Tensor& out = ctx.allocate(0, broadcast.shape());
  if (out.num_elements() == 0) return;
  int last = broadcast.rank() - 1;
  const int64_t stride_a = broadcast.stride_a(last), stride_b = broadcast.stride_b(last);
  const void *from_a = a.raw(), *from_b = b.raw();
  void* to = out.raw();
  visit_rows(broadcast, [&](int64_t o, int64_t p, int64_t q, int64_t n) {
    loop(bytes_at(from_a, p, width), stride_a, bytes_at(from_b, q, width), stride_b, bytes_at(to, o, out_width), n);
  });
}

}  // namespace thalweg
