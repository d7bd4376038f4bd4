// The loops of scattering.
#include "compute/copies/scatter.h"

#include "compute/copies/elements.h"
#include "compute/elementwise/elementwise.h"
#include "compute/elementwise/functors.h"

namespace thalweg {
namespace {

struct Assign {
  template <typename T>
  static T apply(const T&, const T& b) {
    return b;
  }
};
struct Div {
  template <typename T>
  static T apply(T a, T b) {
    // The one quotient that does not fit traps on x86; it wraps around here, as in NumPy.
    if constexpr (std::is_signed_v<T> && std::is_integral_v<T>)
      if (b == T(-1)) return static_cast<T>(std::make_unsigned_t<T>(0) - static_cast<std::make_unsigned_t<T>>(a));
    return a / b;
  }
};
struct Min {
  template <typename T>
  static T apply(T a, T b) {
    return b < a ? b : a;
  }
};
struct Max {
  template <typename T>
  static T apply(T a, T b) {
    return a < b ? b : a;
  }
};

BinaryLoop assigning_loop(DType dtype) {
  BinaryLoop loop;
  dispatch_width(dtype, [&]<typename T>() { loop = {&binary_row<Assign, T, T>, kRowTypes<T, T>}; });
  return loop;
}

BinaryLoop loop_of(Combine how, DType dtype) {
  switch (how) {
    case Combine::assign:
      return assigning_loop(dtype);
    case Combine::add:
      // For truth values a sum is a logical or: the bytes of a bool are 0 or 1, so the maximum is the same.
      if (dtype == DType::boolean) return binary_loop<Max, Types<DType::uint8>>(DType::uint8);
      return binary_loop<functors::Add, Numbers>(dtype);
    case Combine::sub:
      return binary_loop<functors::Sub, Numbers>(dtype);
    case Combine::mul:
      return binary_loop<functors::Mul, Numbers>(dtype);
    case Combine::div:
      return binary_loop<Div, Numbers>(dtype);
    case Combine::min:
      return binary_loop<Min, Reals>(dtype);
    case Combine::max:
      return binary_loop<Max, Reals>(dtype);
  }
  fail(Code::internal, "an unknown way to combine rows");
}

// Every thread merges the rows in order, each within columns or rows of its own: the result does not depend on their
// number.
void merge_rows(const BinaryLoop& loop, Tensor& target, std::span<const int64_t> offsets, const Tensor& updates,
                int64_t row) {
  const DType dtype = target.dtype();
  const int64_t n = static_cast<int64_t>(offsets.size()), step = updates.rank() == 0 ? 0 : 1;
  void* const to = target.raw();
  const void* const from = updates.raw();
  // Columns [begin, end) of update i.
  auto merge = [&](int64_t i, int64_t begin, int64_t end) {
    void* const run = element_at(dtype, to, offsets[i] + begin);
    loop(run, 1, element_at(dtype, from, (i * row + begin) * step), step, run, end - begin);
  };
  // Copies of strings allocate, and may throw.
  if (n * row <= kElementGrain || !is_plain(dtype)) {
    for (int64_t i = 0; i < n; ++i) merge(i, 0, row);
  } else if (row >= 256) {
    parallel_for(row, std::max<int64_t>(128, kElementGrain / n), [&](int64_t begin, int64_t end) {
      for (int64_t i = 0; i < n; ++i) merge(i, begin, end);
    });
  } else {
    const int64_t rows = target.num_elements() / row;
    parallel_for(rows, std::max<int64_t>(1, rows / (n * row / kElementGrain + 1)), [&](int64_t begin, int64_t end) {
      for (int64_t i = 0; i < n; ++i)
        if (offsets[i] >= begin * row && offsets[i] < end * row) merge(i, 0, row);
    });
  }
}

void check_divisors(const Tensor& updates) {
  dispatch(updates.dtype(), Numbers{}, [&]<typename T>() {
    if constexpr (std::is_integral_v<T>) {
      const T* values = updates.flat<T>();
      int64_t n = updates.num_elements();
      require(std::find(values, values + n, T(0)) == values + n, "integer division by zero: updates hold a 0");
    }
  });
}

}  // namespace

void combine_rows(Combine how, Tensor& target, std::span<const int64_t> offsets, const Tensor& updates,
                  int64_t row_size) {
  require(updates.dtype() == target.dtype(), "updates have type ", updates.dtype(), ", what they update has type ",
          target.dtype());
  if (offsets.empty() || row_size == 0) return;
  if (how == Combine::div) check_divisors(updates);
  merge_rows(loop_of(how, target.dtype()), target, offsets, updates, row_size);
}

void scatter_rows(Combine how, Tensor& target, const Tensor& indices, const Tensor& updates) {
  require(target.rank() >= 1, "what a scatter updates must be at least 1-D, got shape ", target.shape());
  if (updates.rank() != 0) {
    std::vector<int64_t> dims = indices.shape().to_vector();
    dims.insert(dims.end(), target.shape().begin() + 1, target.shape().end());
    require(updates.shape() == Shape(dims),
            "Must have updates.shape = indices.shape + params.shape[1:] or updates.shape = [], got updates.shape ",
            updates.shape(), ", indices.shape ", indices.shape(), ", params.shape ", target.shape(), ": expected ",
            Shape(dims));
  }
  int64_t row = target.shape().product(1, target.rank());
  combine_rows(how, target, row_offsets(indices, target.dim(0), row), updates, row);
}

void scatter_nd(Combine how, Tensor& target, const Tensor& indices, const Tensor& updates) {
  require(indices.rank() >= 1, "indices must be at least a vector, got shape ", indices.shape());
  std::vector<int64_t> offsets = tuple_offsets(indices, target.shape(), "shape");
  int depth = static_cast<int>(indices.dim(indices.rank() - 1));
  std::vector<int64_t> dims(indices.shape().begin(), indices.shape().end() - 1);
  dims.insert(dims.end(), target.shape().begin() + depth, target.shape().end());
  require(updates.shape() == Shape(dims),
          "updates must have the shape indices.shape[:-1] + shape[indices.shape[-1]:], which is ", Shape(dims),
          " for indices.shape ", indices.shape(), " and shape ", target.shape(), ", but updates.shape is ",
          updates.shape());
  // A scalar here is one row, not a value for all rows.
  const Tensor rows = updates.rank() == 0 ? updates.reshaped(Shape{1}) : updates;
  combine_rows(how, target, offsets, rows, target.shape().product(depth, target.rank()));
}

}  // namespace thalweg
