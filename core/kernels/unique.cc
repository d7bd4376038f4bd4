// Distinct elements in the order of their first appearance, with counts; and the elements of one list not in another.
#include "compute/elementwise/elementwise.h"
#include "executor/interruptible.h"

namespace thalweg {
namespace {

using Hashed = Join<Join<Reals, Complexes>, Join<Quantized, Types<DType::boolean, DType::string>>>;

// Integers of one width are equal if their bits are: loops over unsigned ones do for all.
using Compared = Join<UnsignedInts, Join<Join<Floats, Complexes>, Types<DType::string>>>;
DType compared_as(DType dtype) { return dtype == DType::boolean ? DType::uint8 : unsigned_of(dtype); }

// Equality is that of the element type: each NaN is a value of its own, and -0 equals 0.
template <typename T>
inline bool equal(const T& a, const T& b) {
  if constexpr (is_reduced_float<T>)
    return static_cast<float>(a) == static_cast<float>(b);
  else
    return a == b;
}

inline uint64_t mix(uint64_t h) {
  h ^= h >> 33;
  h *= 0xff51afd7ed558ccdULL;
  h ^= h >> 33;
  return h;
}

template <typename T>
inline uint64_t hash(const T& x) {
  if constexpr (std::is_same_v<T, std::string>) {
    return std::hash<std::string>{}(x);
  } else if constexpr (is_complex<T>) {
    return mix(hash(x.real())) * 31 + hash(x.imag());
  } else if constexpr (is_real_float<T>) {
    double wide = static_cast<double>(x) + 0.0;  // -0 becomes 0.
    return mix(__builtin_bit_cast(uint64_t, wide));
  } else {
    return mix(static_cast<uint64_t>(x));
  }
}

// A tensor seen as `n` slices along one axis: slice j holds x[o, j, i] for all o and i.
template <typename T>
struct Slices {
  const T* x;
  int64_t outer, n, inner;

  const T& at(int64_t o, int64_t j, int64_t i) const { return x[(o * n + j) * inner + i]; }
  uint64_t hash_of(int64_t j) const {
    uint64_t h = 0;
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < inner; ++i) h = h * 0x9e3779b97f4a7c15ULL + hash(at(o, j, i));
    return h;
  }
  bool same(int64_t a, const Slices& other, int64_t b) const {
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t i = 0; i < inner; ++i)
        if (!equal(at(o, a, i), other.at(o, b, i))) return false;
    return true;
  }
};

// Work on one element, about, in multiplications: a look-up in a table that does not fit a cache.
constexpr double kWorkOfElement = 1000;

// body(begin, end) over [0, n) in blocks, as long as the step has not ended.
template <typename Body>
inline void in_blocks(int64_t n, const Body& body) {
  Interruption* const interruption = Interruption::current();
  const int64_t block = interruption != nullptr ? 16384 : std::max<int64_t>(n, 1);
  for (int64_t begin = 0; begin < n; begin += block) {
    if (interruption != nullptr && interruption->is_due()) fail(Code::cancelled, "the step has ended");
    body(begin, std::min(n, begin + block));
  }
}

// An open-addressing table of slice numbers.
template <typename T>
class SliceTable {
 public:
  explicit SliceTable(const Slices<T>& slices) : slices_(slices) {
    size_t size = 16;
    while (size < 2 * static_cast<size_t>(slices.n)) size *= 2;
    entries_.assign(size, -1);
  }
  // The place of a slice of `of` that equals slice j, or of a free entry.
  int64_t& find(const Slices<T>& of, int64_t j) {
    size_t mask = entries_.size() - 1, place = of.hash_of(j) & mask;
    while (entries_[place] >= 0 && !slices_.same(entries_[place], of, j)) place = (place + 1) & mask;
    return entries_[place];
  }

 private:
  const Slices<T>& slices_;
  std::vector<int64_t> entries_;
};

void require_index_type(Context& ctx, int output, int64_t n) {
  require(ctx.output_dtype(output) == DType::int64 || n <= std::numeric_limits<int32_t>::max(), "positions among ", n,
          " elements do not fit int32: ask for int64");
}

// The slices of a tensor by their first appearance: the group of slice j; the first slice, and the size, of a group.
struct Groups {
  std::vector<int64_t> group, first, counts;

  template <typename T>
  explicit Groups(const Slices<T>& slices) : group(slices.n) {
    SliceTable<T> table(slices);
    std::vector<int64_t> group_of_first(slices.n);
    in_blocks(slices.n, [&](int64_t begin, int64_t end) {
      for (int64_t j = begin; j < end; ++j) {
        int64_t& entry = table.find(slices, j);
        if (entry < 0) {
          entry = j;
          group_of_first[j] = static_cast<int64_t>(first.size());
          first.push_back(j);
          counts.push_back(0);
        }
        group[j] = group_of_first[entry];
        ++counts[group[j]];
      }
    });
  }
};

// The numbers as a vector of the type that the node declares.
void set_indices(Context& ctx, int output, const std::vector<int64_t>& numbers) {
  Tensor& out = ctx.allocate(output, Shape{static_cast<int64_t>(numbers.size())});
  dispatch(out.dtype(), Indices{}, [&]<typename I>() { std::copy(numbers.begin(), numbers.end(), out.flat<I>()); });
}

// A table of values that grows with their number, so that few distinct ones stay in the nearest cache.
template <typename T>
class ValueTable {
 public:
  ValueTable() : entries_(64) {}
  // The group of a value; a new one gets the next number.
  int64_t group_of(T value, std::vector<T>& values) {
    if (value != value) {  // Each NaN is a value of its own.
      values.push_back(value);
      return static_cast<int64_t>(values.size()) - 1;
    }
    Entry& entry = find(value);
    if (entry.group >= 0) return entry.group;
    const int64_t group = static_cast<int64_t>(values.size());
    entry = {value, group};
    values.push_back(value);
    if (2 * ++used_ > entries_.size()) grow();
    return group;
  }

 private:
  struct Entry {
    T value{};
    int64_t group = -1;
  };
  Entry& find(T value) {
    const size_t mask = entries_.size() - 1;
    size_t place = hash(value) & mask;
    while (entries_[place].group >= 0 && entries_[place].value != value) place = (place + 1) & mask;
    return entries_[place];
  }
  void grow() {
    std::vector<Entry> old(4 * entries_.size());
    old.swap(entries_);
    for (const Entry& entry : old)
      if (entry.group >= 0) find(entry.value) = entry;
  }
  std::vector<Entry> entries_;
  size_t used_ = 0;
};

// A vector of numbers: groups go straight to the result.
template <typename T>
void unique_scalars(Context& ctx, const T* x, int64_t n, const Shape& shape, int axis) {
  ValueTable<T> table;
  std::vector<T> values;
  std::vector<int64_t> counts;
  const bool counting = ctx.num_outputs() == 3;
  Tensor& groups = ctx.allocate(1, Shape{n});
  dispatch(groups.dtype(), Indices{}, [&]<typename I>() {
    I* to = groups.flat<I>();
    in_blocks(n, [&](int64_t begin, int64_t end) {
      for (int64_t j = begin; j < end; ++j) {
        const int64_t group = table.group_of(x[j], values);
        to[j] = static_cast<I>(group);
        if (!counting) continue;
        if (group == static_cast<int64_t>(counts.size())) counts.push_back(0);
        ++counts[group];
      }
    });
  });
  Tensor& y = ctx.allocate(0, shape.with_dim(axis, static_cast<int64_t>(values.size())));
  std::copy(values.begin(), values.end(), y.flat<T>());
  if (counting) set_indices(ctx, 2, counts);
}

void unique_along(Context& ctx, int axis) {
  const Tensor& in = ctx.input(0);
  const int64_t n = in.dim(axis);
  require_index_type(ctx, 1, n);
  const Interruptible interruptible(ctx, kWorkOfElement * static_cast<double>(in.num_elements()));
  dispatch(compared_as(in.dtype()), Compared{}, [&]<typename T>() {
    const Slices<T> slices{in.flat<T>(), in.shape().product(0, axis), n, in.shape().product(axis + 1, in.rank())};
    if constexpr (std::is_arithmetic_v<T>)
      if (slices.outer == 1 && slices.inner == 1) return unique_scalars<T>(ctx, slices.x, n, in.shape(), axis);
    const Groups groups(slices);
    T* y = ctx.allocate(0, in.shape().with_dim(axis, static_cast<int64_t>(groups.first.size()))).flat<T>();
    for (int64_t o = 0; o < slices.outer; ++o)
      for (int64_t first : groups.first)
        for (int64_t i = 0; i < slices.inner; ++i) *y++ = slices.at(o, first, i);
    set_indices(ctx, 1, groups.group);
    if (ctx.num_outputs() == 3) set_indices(ctx, 2, groups.counts);
  });
}

template <bool kHasAxis>
void unique(Context& ctx) {
  const Tensor& in = ctx.input(0);
  int axis = 0;
  if (!kHasAxis || ctx.input(1).num_elements() == 0) {
    require(in.rank() == 1, "unique expects a vector unless an axis is given, got shape ", in.shape());
  } else {
    std::vector<int64_t> axes = to_int64s(ctx.input(1));
    require(axes.size() == 1, "unique takes one axis, got ", axes.size());
    axis = checked_axis(axes[0], in.rank());
  }
  if (kHasAxis) require(ctx.input(1).rank() == 1, "axis must be a vector, got shape ", ctx.input(1).shape());
  unique_along(ctx, axis);
}
REGISTER(kernel("Unique").types("T", Hashed{}).function<unique<false>>());
REGISTER(kernel("UniqueV2").types("T", Hashed{}).function<unique<true>>());
REGISTER(kernel("UniqueWithCounts").types("T", Hashed{}).function<unique<false>>());
REGISTER(kernel("UniqueWithCountsV2").types("T", Hashed{}).function<unique<true>>());

void list_diff(Context& ctx) {
  const Tensor& x = ctx.input(0);
  const Tensor& y = ctx.input(1);
  require(x.rank() == 1, "x must be a vector, got shape ", x.shape());
  require(y.rank() == 1, "y must be a vector, got shape ", y.shape());
  require_index_type(ctx, 1, x.num_elements());
  const double elements = static_cast<double>(x.num_elements()) + static_cast<double>(y.num_elements());
  const Interruptible interruptible(ctx, kWorkOfElement * elements);
  dispatch(compared_as(x.dtype()), Compared{}, [&]<typename T>() {
    Slices<T> of_x{x.flat<T>(), 1, x.num_elements(), 1}, of_y{y.flat<T>(), 1, y.num_elements(), 1};
    SliceTable<T> table(of_y);
    in_blocks(of_y.n, [&](int64_t begin, int64_t end) {
      for (int64_t j = begin; j < end; ++j) table.find(of_y, j) = j;
    });
    std::vector<int64_t> places;
    in_blocks(of_x.n, [&](int64_t begin, int64_t end) {
      for (int64_t j = begin; j < end; ++j)
        if (table.find(of_x, j) < 0) places.push_back(j);
    });
    T* out = ctx.allocate(0, Shape{static_cast<int64_t>(places.size())}).flat<T>();
    for (int64_t j : places) *out++ = of_x.x[j];
    set_indices(ctx, 1, places);
  });
}
REGISTER(kernel("ListDiff").types("T", Hashed{}).function<list_diff>());

}  // namespace
}  // namespace thalweg
