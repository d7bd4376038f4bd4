// Sparse values under other shapes: reshaped, cut out, and with an element in every row.
#include "compute/copies/divisor.h"
#include "compute/copies/elements.h"
#include "compute/elementwise/elementwise.h"
#include "compute/sparse/sparse_input.h"

namespace thalweg {
namespace {

// The sizes that new_shape asks for, its -1 replaced. Throws unless they hold as many elements as before.
std::vector<int64_t> reshaped_sizes(const Tensor& new_shape, const std::vector<int64_t>& sizes) {
  require(new_shape.rank() == 1, "new_shape must be a vector, got shape ", new_shape.shape());
  const std::vector<int64_t> given = to_int64s(new_shape);
  auto product = [](const std::vector<int64_t>& of) {
    // Beyond int64 no two numbers of elements can be compared: refused below.
    int64_t result = 1;
    for (int64_t size : of)
      if (size != -1 && __builtin_mul_overflow(result, size, &result)) return int64_t{-1};
    return result;
  };
  const int64_t total = product(sizes), known = product(given);
  std::vector<int64_t> wanted = given;
  int64_t open = -1;
  for (size_t d = 0; d < wanted.size(); ++d) {
    if (wanted[d] < -1)
      fail(Code::invalid_argument, "new_shape ", listed(given), " has a negative dimension other than -1");
    if (wanted[d] != -1) continue;
    if (open >= 0) fail(Code::invalid_argument, "new_shape ", listed(given), " has more than one -1");
    open = static_cast<int64_t>(d);
  }
  if (open >= 0) {
    if (known <= 0)
      fail(Code::invalid_argument, "cannot infer the -1 in new_shape ", listed(given), " beside a dimension of 0");
    if (total % known == 0) wanted[open] = total / known;
  }
  if (open >= 0 ? total % known != 0 : total != known)
    fail(Code::invalid_argument, "cannot reshape ", listed(sizes), " (", total, " elements) to ", listed(given), " (",
         known, " elements)");
  return wanted;
}

void sparse_reshape(Context& ctx) {
  const Tensor& indices = ctx.input(0);
  require(indices.rank() == 2, "input: indices must be a matrix, got shape ", indices.shape());
  const std::vector<int64_t> sizes = checked_dense_shape(ctx.input(1), "input");
  const std::vector<int64_t> wanted = reshaped_sizes(ctx.input(2), sizes);
  const int64_t n = indices.dim(0), rank = indices.dim(1), new_rank = static_cast<int64_t>(wanted.size());
  require(rank == static_cast<int64_t>(sizes.size()), "input: indices have ", rank, " columns, dense_shape has ",
          sizes.size(), " elements");
  const int64_t* from = indices.flat<int64_t>();
  check_indices(from, n, sizes, "input");
  int64_t* to = ctx.allocate(0, Shape{n, new_rank}).flat<int64_t>();
  ctx.set_output(1, Tensor::vector<int64_t>(wanted));
  if (n == 0 || new_rank == 0) return;
  const std::vector<Divisor> divisors(wanted.begin(), wanted.end());  // None is 0: there is an element.
  parallel_for(n, kElementGrain / 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      int64_t at = 0;
      for (int64_t d = 0; d < rank; ++d) at = at * sizes[d] + from[i * rank + d];
      for (int64_t d = new_rank - 1; d > 0; --d) {
        const int64_t rest = divisors[d].quotient(at);
        to[i * new_rank + d] = at - rest * divisors[d].value();
        at = rest;
      }
      to[i * new_rank] = at;
    }
  });
}
REGISTER(kernel("SparseReshape").function<sparse_reshape>());

void sparse_slice(Context& ctx) {
  const SparseInput x(ctx, 0);
  for (int i : {3, 4})
    require(ctx.input(i).rank() == 1 && ctx.input(i).dim(0) == x.rank, "start and size must have ", x.rank,
            " elements, got shapes ", ctx.input(3).shape(), " and ", ctx.input(4).shape());
  const std::vector<int64_t> start = to_int64s(ctx.input(3)), size = to_int64s(ctx.input(4));
  std::vector<int64_t> end(x.rank), sizes(x.rank);
  for (int64_t d = 0; d < x.rank; ++d) {
    if (start[d] < 0 || size[d] < 0)
      fail(Code::invalid_argument, "start ", listed(start), " or size ", listed(size), " is negative");
    int64_t sum = 0;
    end[d] = __builtin_add_overflow(start[d], size[d], &sum) ? x.sizes[d] : std::min(sum, x.sizes[d]);
    sizes[d] = std::max<int64_t>(end[d] - start[d], 0);
  }
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < x.count; ++i) {
    bool inside = true;
    for (int64_t d = 0; d < x.rank; ++d) inside &= x.row(i)[d] >= start[d] && x.row(i)[d] < end[d];
    if (inside) kept.push_back(i);
  }
  const int64_t n = static_cast<int64_t>(kept.size());
  int64_t* to = ctx.allocate(0, Shape{n, x.rank}).flat<int64_t>();
  for (int64_t i : kept)
    for (int64_t d = 0; d < x.rank; ++d) *to++ = x.row(i)[d] - start[d];
  Tensor& values = ctx.allocate(1, Shape{n});
  dispatch_width(values.dtype(), [&]<typename T>() {
    for (int64_t i = 0; i < n; ++i) values.flat<T>()[i] = x.values.template flat<T>()[kept[i]];
  });
  ctx.set_output(2, Tensor::vector<int64_t>(sizes));
}
REGISTER(kernel("SparseSlice").function<sparse_slice>());

// Rows in their order, the elements of each in theirs; a row without any gets the default at its first position.
void sparse_fill_empty_rows(Context& ctx) {
  const Tensor &shape = ctx.input(2), &otherwise = ctx.input(3);
  require(otherwise.rank() == 0, "default_value must be a scalar, got shape ", otherwise.shape());
  require(shape.rank() == 1 && shape.num_elements() > 0, "dense_shape must be a vector of 1 or more, got shape ",
          shape.shape());
  const SparseInput x(ctx, 0);
  const int64_t rows = x.sizes[0];
  Tensor empty = ctx.allocate(2, Shape{rows});
  Tensor memory(DType::int64, Shape{rows + 1});
  int64_t* const next = memory.flat<int64_t>();  // where the next element of each row goes
  std::fill_n(next, rows + 1, 0);
  bool sorted = true;
  for (int64_t i = 0, before = 0; i < x.count;) {
    const int64_t row = x.row(i)[0], first = i;
    sorted &= row >= before;
    before = row;
    while (++i < x.count && x.row(i)[0] == row) continue;
    next[row + 1] += i - first;
  }
  for (int64_t row = 0; row < rows; ++row) {
    empty.flat<bool>()[row] = next[row + 1] == 0;
    next[row + 1] = next[row] + std::max<int64_t>(1, next[row + 1]);
  }
  const int64_t n = next[rows];
  if (sorted && n == x.count) {  // nothing to fill, nothing to move
    int64_t* places = ctx.allocate(3, Shape{n}).flat<int64_t>();
    std::iota(places, places + n, 0);
    ctx.set_output(0, ctx.input(0));
    ctx.set_output(1, ctx.input(1));
    return;
  }
  int64_t* indices = ctx.allocate(0, Shape{n, x.rank}).flat<int64_t>();
  int64_t* places = ctx.allocate(3, Shape{x.count}).flat<int64_t>();
  Tensor& values = ctx.allocate(1, Shape{n});
  dispatch_width(values.dtype(), [&]<typename T>() {
    T* to = values.flat<T>();
    for (int64_t row = 0; row < rows; ++row) {
      if (!empty.flat<bool>()[row]) continue;
      int64_t* index = indices + next[row] * x.rank;
      std::fill_n(index, x.rank, 0);
      index[0] = row;
      to[next[row]] = otherwise.flat<T>()[0];
    }
    for (int64_t i = 0; i < x.count; ++i) {
      const int64_t place = next[x.row(i)[0]]++;
      places[i] = place;
      std::copy_n(x.row(i), x.rank, indices + place * x.rank);
      to[place] = x.values.template flat<T>()[i];
    }
  });
}
REGISTER(kernel("SparseFillEmptyRows").function<sparse_fill_empty_rows>());

}  // namespace
}  // namespace thalweg
