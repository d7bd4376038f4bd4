// Max, Min, Any, All and Prod.
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
  static Total merge(Total a, Total b) { return combine(a, b); }
  static T finish(Total total, int64_t, int) { return static_cast<T>(total); }
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
