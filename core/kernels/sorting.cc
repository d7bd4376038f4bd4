// The largest elements of each row: TopK, NthElement, and whether a class is among the most probable ones.
//
// An element and its position become one unsigned number, such that smaller numbers come first: larger elements before
// smaller ones, equal ones by position, NaN behind everything. So every algorithm below sorts plain integers, and the
// order is total for all values.
#include <random>
#include <utility>

#include "executor/interruptible.h"
#include "kernel/registry.h"
#include "thread/parallel.h"

namespace thalweg {
namespace {

template <typename T>
using Key = std::conditional_t<sizeof(T) == 8, unsigned __int128, uint64_t>;
template <typename K>
constexpr int kPositionBits = sizeof(K) * 4;

template <typename U>
inline U order_of_float(U bits, bool is_nan) {
  constexpr U sign = U(1) << (sizeof(U) * 8 - 1);
  U ascending = (bits & sign) ? ~bits : bits | sign;
  return is_nan ? ~U(0) : ~ascending;
}

// Descending order as an unsigned number of at most half the key's width.
template <typename T>
inline auto descending(T x) {
  if constexpr (std::is_same_v<T, double>) {
    return order_of_float(__builtin_bit_cast(uint64_t, x + 0.0), x != x);
  } else if constexpr (is_real_float<T>) {
    float wide = static_cast<float>(x) + 0.0f;  // -0 becomes 0.
    return order_of_float(__builtin_bit_cast(uint32_t, wide), wide != wide);
  } else if constexpr (sizeof(T) == 8) {
    uint64_t ascending = static_cast<uint64_t>(x) ^ (std::is_signed_v<T> ? uint64_t(1) << 63 : 0);
    return ~ascending;
  } else {
    uint32_t ascending = static_cast<uint32_t>(static_cast<int64_t>(x)) ^ (std::is_signed_v<T> ? 1u << 31 : 0);
    return ~ascending;
  }
}

template <typename T>
inline Key<T> key(const T* row, int64_t i) {
  using K = Key<T>;
  return (static_cast<K>(descending(row[i])) << kPositionBits<K>) | static_cast<K>(i);
}

template <typename K>
inline int64_t position(K key) {
  return static_cast<int64_t>(static_cast<uint64_t>(key & ((K(1) << kPositionBits<K>)-1)));
}

// Work on one element of a row, about, in multiplications.
constexpr double kWorkOfElement = 200;
// So many elements of a row are handled between two looks at the step.
constexpr int64_t kBlock = int64_t{1} << 20;
constexpr int64_t kSortedByDigits = int64_t{1} << 26;

// Ends the kernel if its step has ended. Outside of parallel loops only: these look at the step themselves, and their
// bodies must not throw.
void stop_if_ended(Interruption* interruption) {
  if (interruption != nullptr && interruption->is_due()) fail(Code::cancelled, "the step has ended");
}

// body(begin, end) over [0, n) in blocks.
template <typename Body>
inline void in_blocks(int64_t begin, int64_t n, Interruption* interruption, const Body& body) {
  for (; begin < n; begin += kBlock) {
    stop_if_ended(interruption);
    body(begin, std::min(n, begin + kBlock));
  }
}

// Puts the key that belongs at `place` there, smaller ones before it and larger ones behind it. Keys are distinct.
template <typename K>
void put_in_place(K* keys, int64_t n, int64_t place, Interruption* interruption) {
  int64_t begin = 0, end = n;
  std::minstd_rand random;  // No input can be made for which all pivots are bad.
  while (interruption != nullptr && end - begin > kBlock) {
    stop_if_ended(interruption);
    std::uniform_int_distribution<int64_t> any(begin, end - 1);
    const K a = keys[any(random)], b = keys[any(random)], c = keys[any(random)];
    const K pivot = std::max(std::min(a, b), std::min(std::max(a, b), c));
    const int64_t middle = std::partition(keys + begin, keys + end, [=](K key) { return key < pivot; }) - keys;
    (place < middle ? end : begin) = middle;
  }
  std::nth_element(keys + begin, keys + place, keys + end);
}

// Leaves the k smallest of keys[0, n) in front, sorted if asked.
template <typename K>
void select(K* keys, int64_t n, int64_t k, bool sorted, Interruption* interruption) {
  if (k < n) put_in_place(keys, n, k, interruption);
  if (sorted) std::sort(keys, keys + k);
}

// The same for a small k, without storing all keys: a heap of the best so far, the worst of them on top.
template <typename T>
void select_few(const T* row, int64_t n, Key<T>* heap, int64_t k, Interruption* interruption) {
  for (int64_t i = 0; i < k; ++i) heap[i] = key(row, i);
  std::make_heap(heap, heap + k);
  in_blocks(k, n, interruption, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      Key<T> candidate = key(row, i);
      if (candidate >= heap[0]) continue;
      std::pop_heap(heap, heap + k);
      heap[k - 1] = candidate;
      std::push_heap(heap, heap + k);
    }
  });
  std::sort_heap(heap, heap + k);
}

// Sorts the keys of a whole row into `keys` or `spare`, which have room for n each, and says into which. Digits of
// eight bits of the elements, the lowest first, leave equal ones in their order, which is that of their positions at
// first.
template <typename T>
Key<T>* sort_row(const T* row, int64_t n, Key<T>* keys, Key<T>* spare, Interruption* interruption) {
  constexpr int kDigits = sizeof(Key<T>) / 2;
  int32_t counts[kDigits][256] = {};
  in_blocks(0, n, interruption, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      keys[i] = key(row, i);
      const auto order = descending(row[i]);
      for (int d = 0; d < kDigits; ++d) ++counts[d][(order >> (8 * d)) & 255];
    }
  });
  for (int d = 0; d < kDigits; ++d) {
    const int shift = kPositionBits<Key<T>> + 8 * d;
    auto digit = [shift](Key<T> key) { return static_cast<uint8_t>(key >> shift); };
    if (counts[d][digit(keys[0])] == n) continue;  // all equal
    int32_t next = 0;
    for (int32_t& count : counts[d]) next += std::exchange(count, next);
    in_blocks(0, n, interruption, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) spare[counts[d][digit(keys[i])]++] = keys[i];
    });
    std::swap(keys, spare);
  }
  return keys;
}

// Runs row(r, scratch, interruption) for all rows of n elements, on several threads; scratch is room for `size` keys of
// a thread's own. The last argument is null within the loop over rows, which looks at the step itself.
template <typename K, typename Row>
void for_rows(Context& ctx, int64_t rows, int64_t n, int64_t size, const Row& row) {
  if (rows == 0) return;
  const Interruptible interruptible(ctx, kWorkOfElement * static_cast<double>(rows) * static_cast<double>(n));
  if (rows == 1) {
    std::vector<K> scratch(static_cast<size_t>(size));
    return row(0, scratch.data(), Interruption::current());
  }
  if (Interruption::current() != nullptr) {  // Pieces of a loop that is looked at, each with its memory.
    return parallel_for(rows, 1, [&](int64_t begin, int64_t end) {
      std::vector<K> scratch(static_cast<size_t>(size));
      for (int64_t r = begin; r < end; ++r) row(r, scratch.data(), nullptr);
    });
  }
  int64_t chunks = std::clamp<int64_t>(rows * n / 16384, 1, std::min<int64_t>(rows, intra_op_threads()));
  std::vector<K> scratch(static_cast<size_t>(chunks * size));
  parallel_for(chunks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c)
      for (int64_t r = rows * c / chunks; r < rows * (c + 1) / chunks; ++r) row(r, scratch.data() + c * size, nullptr);
  });
}

void require_short_rows(int64_t n) {
  require(n <= std::numeric_limits<int32_t>::max(), "rows of ", n, " elements are longer than 2^31-1");
}

struct TopK : Kernel {
  explicit TopK(const Construction& c)
      : k_(c.num_inputs() == 1 ? c.attr<int64_t>("k") : -1), sorted_(c.attr<bool>("sorted", true)) {}

  void compute(Context& ctx) override {
    const Tensor& in = ctx.input(0);
    int64_t k = k_;
    if (ctx.num_inputs() == 2) {
      const Tensor& given = ctx.input(1);
      require(given.rank() == 0, "k must be a scalar, got shape ", given.shape());
      k = given.dtype() == DType::int16 ? given.item<int16_t>() : to_int64(given);
    }
    require(k >= 0, "need k >= 0, got ", k);
    require(in.rank() >= 1, "input must be at least a vector, got a scalar");
    const int64_t n = in.dim(in.rank() - 1);
    require(n >= k, "input must have at least k columns: it has ", n, ", k is ", k);
    require_short_rows(n);
    require(ctx.output_dtype(1) != DType::int16 || n <= std::numeric_limits<int16_t>::max(), "positions in rows of ", n,
            " elements do not fit int16");
    const Shape shape = in.shape().with_dim(in.rank() - 1, k);
    Tensor& values = ctx.allocate(0, shape);
    Tensor& indices = ctx.allocate(1, shape);
    if (shape.num_elements() == 0) return;
    Tensor positions = indices.dtype() == DType::int32 ? indices : Tensor(DType::int32, shape);
    dispatch(in.dtype(), Reals{}, [&]<typename T>() {
      run(ctx, in.flat<T>(), shape.num_elements() / k, n, k, values.flat<T>(), positions.flat<int32_t>());
    });
    const int32_t* found = positions.flat<int32_t>();
    if (indices.dtype() == DType::int64) std::copy_n(found, shape.num_elements(), indices.flat<int64_t>());
    if (indices.dtype() == DType::int16) std::copy_n(found, shape.num_elements(), indices.flat<int16_t>());
  }

 private:
  template <typename T>
  void run(Context& ctx, const T* in, int64_t rows, int64_t n, int64_t k, T* values, int32_t* indices) {
    const bool few = k <= n / 16;
    // By digits all of the row is sorted: worth it if most of it is wanted, and rows are longer than tables of digits.
    // Of a very long row, too: the end of the step is noticed meanwhile.
    const bool by_digits =
        sorted_ && n >= 256 && (k >= n / (sizeof(Key<T>) == 8 ? 8 : 2) || (!few && n >= kSortedByDigits));
    for_rows<Key<T>>(ctx, rows, n,
                     few         ? k
                     : by_digits ? 2 * n
                                 : n,
                     [&](int64_t r, Key<T>* keys, Interruption* interruption) {
                       const T* row = in + r * n;
                       if (few) {
                         select_few(row, n, keys, k, interruption);
                       } else if (by_digits) {
                         keys = sort_row(row, n, keys, keys + n, interruption);
                       } else {
                         for (int64_t i = 0; i < n; ++i) keys[i] = key(row, i);
                         select(keys, n, k, sorted_, interruption);
                       }
                       for (int64_t i = 0; i < k; ++i) {
                         int64_t at = position(keys[i]);
                         values[r * k + i] = row[at];
                         indices[r * k + i] = static_cast<int32_t>(at);
                       }
                     });
  }

  int64_t k_;
  bool sorted_;
};
REGISTER(kernel("TopK").types("T", Reals{}).make<TopK>());
REGISTER(kernel("TopKV2").types("T", Reals{}).make<TopK>());

struct NthElement : Kernel {
  explicit NthElement(const Construction& c) : reverse_(c.attr<bool>("reverse", false)) {}
  void compute(Context& ctx) override {
    const Tensor& in = ctx.input(0);
    require(ctx.input(1).rank() == 0, "n must be a scalar, got shape ", ctx.input(1).shape());
    const int64_t wanted = to_int64(ctx.input(1));
    require(in.rank() >= 1, "input must be at least a vector, got a scalar");
    require(wanted >= 0, "n must not be negative, got ", wanted);
    const int64_t n = in.dim(in.rank() - 1);
    require(n > wanted, "input must have more than n columns: it has ", n, ", n is ", wanted);
    require_short_rows(n);
    Tensor& out = ctx.allocate(0, in.shape().removed(in.rank() - 1));
    dispatch(in.dtype(), Reals{}, [&]<typename T>() {
      // Keys ascend where the elements descend.
      const int64_t place = reverse_ ? wanted : n - 1 - wanted;
      const T* x = in.flat<T>();
      T* to = out.flat<T>();
      for_rows<Key<T>>(ctx, out.num_elements(), n, n, [&](int64_t r, Key<T>* keys, Interruption* interruption) {
        for (int64_t i = 0; i < n; ++i) keys[i] = key(x + r * n, i);
        put_in_place(keys, n, place, interruption);
        to[r] = x[r * n + position(keys[place])];
      });
    });
  }
  bool reverse_;
};
REGISTER(kernel("NthElement").types("T", Reals{}).make<NthElement>());

// For a row with a prediction that is not finite, the result is false.
struct InTopK : Kernel {
  explicit InTopK(const Construction& c) : k_(c.num_inputs() == 2 ? c.attr<int64_t>("k") : 0) {}
  void compute(Context& ctx) override {
    const Tensor& predictions = ctx.input(0);
    const Tensor& targets = ctx.input(1);
    int64_t k = k_;
    if (ctx.num_inputs() == 3) {
      require(ctx.input(2).rank() == 0, "k must be a scalar, got shape ", ctx.input(2).shape());
      k = to_int64(ctx.input(2));
    }
    require(predictions.rank() == 2, "predictions must be a matrix, got shape ", predictions.shape());
    require(targets.rank() == 1, "targets must be a vector, got shape ", targets.shape());
    require(predictions.dim(0) == targets.dim(0), "the first dimension of predictions, ", predictions.shape(),
            ", must equal the length of targets, ", targets.shape());
    const int64_t classes = predictions.dim(1);
    const float* p = predictions.flat<float>();
    bool* out = ctx.allocate(0, targets.shape()).flat<bool>();
    dispatch(targets.dtype(), Indices{}, [&]<typename I>() {
      const I* target = targets.flat<I>();
      parallel_for(targets.num_elements(), std::max<int64_t>(1, 16384 / std::max<int64_t>(1, classes)),
                   [=](int64_t begin, int64_t end) {
                     for (int64_t r = begin; r < end; ++r) out[r] = is_in(p + r * classes, classes, target[r], k);
                   });
    });
  }

 private:
  static bool is_in(const float* row, int64_t classes, int64_t target, int64_t k) {
    if (target < 0 || target >= classes) return false;
    // One pass without branches: vector code, in blocks whose counts fit 32 bits.
    constexpr float largest = std::numeric_limits<float>::max();
    constexpr int64_t kBlock = int64_t{1} << 20;
    const float of_target = row[target];
    int64_t larger = 0;
    for (int64_t begin = 0; begin < classes; begin += kBlock) {
      const int64_t end = std::min(classes, begin + kBlock);
      int32_t count = 0, odd = 0;
      for (int64_t i = begin; i < end; ++i) {
        count += row[i] > of_target;
        odd += !(std::fabs(row[i]) <= largest);
      }
      if (odd > 0) return false;
      larger += count;
    }
    return larger < k;
  }
  int64_t k_;
};
REGISTER(kernel("InTopK").types("T", Indices{}).make<InTopK>());
REGISTER(kernel("InTopKV2").types("T", Indices{}).make<InTopK>());

}  // namespace
}  // namespace thalweg
