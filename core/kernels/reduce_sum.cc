// Sum, Mean and EuclideanNorm.
#include "compute/reduction/reduction.h"

namespace thalweg {
namespace {

enum { kSum, kMean };

template <typename T>
struct SumOf {
  using Block = typename Accumulators<T>::Block;
  using Total = typename Accumulators<T>::Total;
  static constexpr bool kIdentityOnOne = true, modular = true;
  static Block block_identity() { return Block(0); }
  static Total total_identity() { return Total(0); }
  template <typename V>
  static V map(V x) {
    return x;
  }
  template <typename V>
  static V combine(V a, V b) {
    return a + b;
  }
  static Total merge(Total a, Total b) { return a + b; }
  static T finish(Total total, int64_t count, int variant) {
    if (variant == kSum) return static_cast<T>(total);
    if constexpr (is_complex<T>) {
      return static_cast<T>(total / static_cast<typename Total::value_type>(count));
    } else if constexpr (is_real_float<T>) {
      return static_cast<T>(total / static_cast<Total>(count));
    } else {
      // Of nothing: zero, since integers have no NaN.
      return count == 0 ? T(0) : static_cast<T>(static_cast<__int128>(static_cast<T>(total)) / count);
    }
  }
};

template <typename T>
struct MeanOf : SumOf<T> {};

// The sum of integers of up to 32 bits, which must not wrap around before it is divided.
struct WideSum {
  WideSum() = default;
  explicit WideSum(int64_t number) : value(number) {}
  WideSum operator+(WideSum other) const { return WideSum(value + other.value); }
  int64_t value = 0;
};

template <typename T>
  requires(std::is_integral_v<T> && sizeof(T) < sizeof(int64_t))
struct MeanOf<T> {
  using Block = WideSum;
  using Total = WideSum;
  static constexpr bool kIdentityOnOne = true, modular = false;
  static Block block_identity() { return {}; }
  static Total total_identity() { return {}; }
  static Block map(Block x) { return x; }
  static Block combine(Block a, Block b) { return a + b; }
  static Total merge(Total a, Total b) { return a + b; }
  // Of nothing: zero, since integers have no NaN.
  static T finish(Total total, int64_t count, int) { return count == 0 ? T(0) : static_cast<T>(total.value / count); }
};

template <typename T>
struct EuclideanNormOf : SumOf<T> {
  using typename SumOf<T>::Total;
  static constexpr bool kIdentityOnOne = false;
  template <typename V>
  static V map(V x) {
    if constexpr (is_complex<V>)
      return V(std::norm(x));
    else
      return x * x;
  }
  static T finish(Total total, int64_t, int) {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(std::sqrt(static_cast<double>(static_cast<T>(total))));
    else
      return static_cast<T>(std::sqrt(total));
  }
};

REGISTER(kernel("Sum").types("T", Numbers{}).make<Reduction<SumOf, Numbers, kSum>>());
REGISTER(kernel("Mean").types("T", Numbers{}).make<Reduction<MeanOf, Numbers, kMean>>());
REGISTER(kernel("EuclideanNorm").types("T", Numbers{}).make<Reduction<EuclideanNormOf, Numbers>>());

}  // namespace
}  // namespace thalweg
