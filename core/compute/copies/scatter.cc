// The loops of scattering.
#include "compute/copies/scatter.h"

#include "compute/copies/elements.h"
#include "compute/elementwise/elementwise.h"

namespace thalweg {
namespace {

struct Assign {
  template <typename T>
  static T apply(T, T b) {
    return b;
  }
};
struct Add {
  template <typename T>
  static T apply(T a, T b) {
    return a + b;
  }
};
struct Sub {
  template <typename T>
  static T apply(T a, T b) {
    return a - b;
  }
};
struct Mul {
  template <typename T>
  static T apply(T a, T b) {
    return a * b;
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

template <typename F, typename T>
inline void merge_run(T* to, const T* from, int64_t step, int64_t n) {
  if constexpr (std::is_same_v<F, Assign>) {
    for (int64_t k = 0; k < n; ++k) to[k] = from[k * step];
  } else {
    binary_row<F>(to, 1, from, step, to, n);
  }
}

// Every thread merges the rows in order, each within columns or rows of its own: the result does not depend on their
// number.
template <typename F, typename T>
void merge_rows(T* target, int64_t size, std::span<const int64_t> offsets, const T* updates, int64_t row, bool scalar) {
  int64_t n = static_cast<int64_t>(offsets.size()), step = scalar ? 0 : 1;
  auto from = [&](int64_t i) { return scalar ? updates : updates + i * row; };
  bool large = n * row > kElementGrain;
  if constexpr (!std::is_trivially_copyable_v<T>) large = false;  // Copies allocate, and may throw.
  if (!large) {
    for (int64_t i = 0; i < n; ++i) merge_run<F>(target + offsets[i], from(i), step, row);
  } else if (row >= 256) {
    parallel_for(row, std::max<int64_t>(128, kElementGrain / n), [&](int64_t begin, int64_t end) {
      for (int64_t i = 0; i < n; ++i)
        merge_run<F>(target + offsets[i] + begin, from(i) + begin * step, step, end - begin);
    });
  } else {
    int64_t rows = size / row;
    parallel_for(rows, std::max<int64_t>(1, rows / (n * row / kElementGrain + 1)), [&](int64_t begin, int64_t end) {
      for (int64_t i = 0; i < n; ++i)
        if (offsets[i] >= begin * row && offsets[i] < end * row) merge_run<F>(target + offsets[i], from(i), step, row);
    });
  }
}

template <typename F, typename List>
void merge_typed(List list, Tensor& target, std::span<const int64_t> offsets, const Tensor& updates, int64_t row) {
  bool scalar = updates.rank() == 0;
  dispatch(target.dtype(), list, [&]<typename T>() {
    merge_rows<F>(target.flat<T>(), target.num_elements(), offsets, updates.flat<T>(), row, scalar);
  });
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
  switch (how) {
    case Combine::assign:
      dispatch_width(target.dtype(), [&]<typename T>() {
        merge_rows<Assign>(target.flat<T>(), target.num_elements(), offsets, updates.flat<T>(), row_size,
                           updates.rank() == 0);
      });
      return;
    case Combine::add:
      // For truth values a sum is a logical or: the bytes of a bool are 0 or 1, so the maximum is the same.
      if (target.dtype() == DType::boolean)
        return merge_rows<Max>(target.flat<uint8_t>(), target.num_elements(), offsets, updates.flat<uint8_t>(),
                               row_size, updates.rank() == 0);
      return merge_typed<Add>(Numbers{}, target, offsets, updates, row_size);
    case Combine::sub:
      return merge_typed<Sub>(Numbers{}, target, offsets, updates, row_size);
    case Combine::mul:
      return merge_typed<Mul>(Numbers{}, target, offsets, updates, row_size);
    case Combine::div:
      check_divisors(updates);
      return merge_typed<Div>(Numbers{}, target, offsets, updates, row_size);
    case Combine::min:
      return merge_typed<Min>(Reals{}, target, offsets, updates, row_size);
    case Combine::max:
      return merge_typed<Max>(Reals{}, target, offsets, updates, row_size);
  }
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
