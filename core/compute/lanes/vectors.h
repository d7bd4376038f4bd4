// Vectors of 32 bytes of float or double: loads, stores, shuffles, and the transposition of a square of them.
#pragma once

#include <cstdint>
#include <cstring>

namespace thalweg::lanes {

template <typename T>
struct VectorOf;
template <>
struct VectorOf<float> {
  typedef float type __attribute__((vector_size(32)));
};
template <>
struct VectorOf<double> {
  typedef double type __attribute__((vector_size(32)));
};
template <typename T>
using Vector = typename VectorOf<T>::type;
template <typename T>
inline constexpr int64_t kLanes = 32 / sizeof(T);

template <typename T>
struct Shuffles;
template <>
struct Shuffles<float> {
  typedef int Mask __attribute__((vector_size(32)));
  static constexpr Mask even = {0, 2, 4, 6, 8, 10, 12, 14}, odd = {1, 3, 5, 7, 9, 11, 13, 15};
  static constexpr Mask low = {0, 8, 1, 9, 2, 10, 3, 11}, high = {4, 12, 5, 13, 6, 14, 7, 15};
  static constexpr Mask upper[] = {{0, 8, 2, 10, 4, 12, 6, 14}, {0, 1, 8, 9, 4, 5, 12, 13}, {0, 1, 2, 3, 8, 9, 10, 11}};
  static constexpr Mask lower[] = {
      {1, 9, 3, 11, 5, 13, 7, 15}, {2, 3, 10, 11, 6, 7, 14, 15}, {4, 5, 6, 7, 12, 13, 14, 15}};
};
template <>
struct Shuffles<double> {
  typedef long Mask __attribute__((vector_size(32)));
  static constexpr Mask even = {0, 2, 4, 6}, odd = {1, 3, 5, 7}, low = {0, 4, 1, 5}, high = {2, 6, 3, 7};
  static constexpr Mask upper[] = {{0, 4, 2, 6}, {0, 1, 4, 5}};
  static constexpr Mask lower[] = {{1, 5, 3, 7}, {2, 3, 6, 7}};
};

// A square of vectors: element j of vector i and element i of vector j change places.
template <typename T>
[[gnu::always_inline]] inline void transpose(Vector<T>* v) {
  constexpr int kCount = kLanes<T>;
#pragma GCC unroll 4
  for (int level = 0; (1 << level) < kCount; ++level) {
    const int step = 1 << level;
#pragma GCC unroll 8
    for (int i = 0; i < kCount; ++i) {
      if (i & step) continue;
      const Vector<T> a = v[i], b = v[i + step];
      v[i] = __builtin_shuffle(a, b, Shuffles<T>::upper[level]);
      v[i + step] = __builtin_shuffle(a, b, Shuffles<T>::lower[level]);
    }
  }
}

template <typename T>
[[gnu::always_inline]] inline Vector<T> load(const T* from) {
  Vector<T> v;
  std::memcpy(&v, from, sizeof v);
  return v;
}
template <typename T>
[[gnu::always_inline]] inline void store(Vector<T> v, T* to) {
  std::memcpy(to, &v, sizeof v);
}

}  // namespace thalweg::lanes
