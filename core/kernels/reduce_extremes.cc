// Max, Min, Any, All and Prod.
#include <immintrin.h>

#include "compute/reduction/reduction.h"

namespace thalweg {
namespace {

template <typename T>
struct ProdOf {
  using Block = typename Accumulators<T>::Block;
  using Total = typename Accumulators<T>::Total;
  static constexpr bool kIdentityOnOne = true, modular = true;
  static Block block_identity() { return Block(1); }
  static Total total_identity() { return Total(1); }
  template <typename V>
  static V map(V x) {
    return x;
  }
  template <typename V>
  static V combine(V a, V b) {
    return static_cast<V>(a * b);
  }
  static Total merge(Total a, Total b) { return static_cast<Total>(a * b); }
  static T finish(Total total, int64_t, int) { return static_cast<T>(total); }
};

template <typename T, bool kMax>
struct ExtremeOf {
  using Block = std::conditional_t<is_reduced_float<T>, float, T>;
  using Total = Block;
  using Limits = std::numeric_limits<Block>;
  static constexpr bool kIdentityOnOne = true, modular = false, kRowsInLanes = true;
  static Block block_identity() {
    if constexpr (Limits::has_infinity)
      return kMax ? -Limits::infinity() : Limits::infinity();
    else
      return kMax ? Limits::lowest() : Limits::max();
  }
  static Total total_identity() { return block_identity(); }
  template <typename V>
  static V map(V x) {
    return x;
  }
  // A NaN on either side wins.
  template <typename V>
  static V combine(V a, V b) {
    if constexpr (std::is_floating_point_v<Block>)
      return kMax ? ((a > b) | (a != a) ? a : b) : ((a < b) | (a != a) ? a : b);
    else
      return kMax ? (a > b ? a : b) : (a < b ? a : b);
  }
  // Without a NaN, a comparison and a choice are one instruction; pairs of vectors are searched for NaN at once.
  template <typename E>
    requires(std::is_same_v<E, Block> && std::is_floating_point_v<Block>)
  static bool reduce_quickly(const E* p, int64_t n, Block& out) {
    using Vector = typename VectorOf<Block>::type;
    constexpr int kLanes = VectorOf<Block>::kLanes;
    const Vector identity = Vector{} + block_identity();
    Vector a = identity, b = identity, c = identity, d = identity;
    __m256i unordered = _mm256_setzero_si256();
    for (const E* const end = p + n; p < end; p += 4 * kLanes) {
      const Vector w = load_lanes<E, Block>(p), x = load_lanes<E, Block>(p + kLanes);
      const Vector y = load_lanes<E, Block>(p + 2 * kLanes), z = load_lanes<E, Block>(p + 3 * kLanes);
      a = extreme(a, w);
      b = extreme(b, x);
      c = extreme(c, y);
      d = extreme(d, z);
      unordered = _mm256_or_si256(unordered, _mm256_or_si256(is_unordered(w, x), is_unordered(y, z)));
    }
    if (!_mm256_testz_si256(unordered, unordered)) return false;
    out = fold_lanes<ExtremeOf, Block>(extreme(extreme(a, b), extreme(c, d)));
    return true;
  }
  static Total merge(Total a, Total b) { return combine(a, b); }
  static T finish(Total total, int64_t, int) { return static_cast<T>(total); }

 private:
  // a > b ? a : b, or a < b ? a : b.
  [[gnu::always_inline]] static __m256 extreme(__m256 a, __m256 b) {
    return kMax ? _mm256_max_ps(a, b) : _mm256_min_ps(a, b);
  }
  [[gnu::always_inline]] static __m256d extreme(__m256d a, __m256d b) {
    return kMax ? _mm256_max_pd(a, b) : _mm256_min_pd(a, b);
  }
  [[gnu::always_inline]] static __m256i is_unordered(__m256 a, __m256 b) {
    return _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_UNORD_Q));
  }
  [[gnu::always_inline]] static __m256i is_unordered(__m256d a, __m256d b) {
    return _mm256_castpd_si256(_mm256_cmp_pd(a, b, _CMP_UNORD_Q));
  }
};
template <typename T>
struct MaxOf : ExtremeOf<T, true> {};
template <typename T>
struct MinOf : ExtremeOf<T, false> {};

template <bool kAll>
struct LogicalOf {
  using Block = uint8_t;
  using Total = uint8_t;
  static constexpr bool kIdentityOnOne = true, modular = false;
  static Block block_identity() { return kAll; }
  static Total total_identity() { return kAll; }
  template <typename V>
  static V map(V x) {
    return x;
  }
  template <typename V>
  static V combine(V a, V b) {
    return kAll ? static_cast<V>(a & b) : static_cast<V>(a | b);
  }
  static Total merge(Total a, Total b) { return combine(a, b); }
  static bool finish(Total total, int64_t, int) { return total != 0; }
};
template <typename>
struct AnyOf : LogicalOf<false> {};
template <typename>
struct AllOf : LogicalOf<true> {};

REGISTER(kernel("Prod").types("T", Numbers{}).make<Reduction<ProdOf, Numbers>>());
REGISTER(kernel("Max").types("T", Reals{}).make<Reduction<MaxOf, Reals>>());
REGISTER(kernel("Min").types("T", Reals{}).make<Reduction<MinOf, Reals>>());
REGISTER(kernel("Any").make<Reduction<AnyOf, Types<DType::boolean>>>());
REGISTER(kernel("All").make<Reduction<AllOf, Types<DType::boolean>>>());

}  // namespace
}  // namespace thalweg
