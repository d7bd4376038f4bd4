// FourierPlan: what all transforms of one length share: the factors of the length, and powers of its roots of unity.
//
// A length whose prime factors are small is taken apart into passes (`passes`). Long ones are also cut in two,
// n = first * second, so that each part is a row of short transforms that vector instructions work on side by side
// (`split`). Any other length is turned into a convolution of a length that can be taken apart (Bluestein's way:
// `chirp`). Plans are immutable and shared between threads.
#pragma once

#include <complex>
#include <cstdint>
#include <memory>
#include <vector>

namespace thalweg::fourier {

template <typename T>
struct Plan {
  // One pass of Stockham's algorithm: `radix` elements at a time, with the powers of the root that scale its results:
  // radix - 1 of them for each of `count` groups.
  struct Pass {
    int64_t radix = 0, count = 0;
    std::vector<std::complex<T>> powers;
    std::vector<std::complex<T>> roots;  // of order `radix`, where that has no butterfly of its own
  };
  // n = first * second, and the powers of the n-th root between the two: [first][second], parts apart.
  struct Split {
    std::shared_ptr<const Plan> first, second;
    std::vector<T> re, im;
  };
  // Bluestein: exp(-i pi k^2 / n), and the transform of its conjugate, which is what the input is convolved with.
  struct Chirp {
    std::shared_ptr<const Plan> longer;
    std::vector<std::complex<T>> factors, spectrum;
  };

  int64_t length = 0;
  std::vector<std::complex<T>> doubled;  // exp(-pi i k / length), for k < length: joins halves of real transforms
  std::vector<Pass> passes;              // empty if the length has a large prime factor
  std::unique_ptr<const Split> split;
  std::unique_ptr<const Chirp> chirp;

  // The plan of a length >= 1, from a cache of the process.
  static std::shared_ptr<const Plan> of(int64_t length);

 private:
  void take_apart();
  void cut_in_two();
  void make_chirp();
};

// exp(-2 pi i k / n), rounded once.
template <typename T>
std::complex<T> root_of_unity(int64_t k, int64_t n);

}  // namespace thalweg::fourier
