// Makes the plans of Fourier transforms, and keeps those used last.
#include "compute/fourier/plan.h"

#include <algorithm>
#include <cmath>
#include <list>
#include <mutex>
#include <numbers>

#include "compute/fourier/transform.h"

namespace thalweg::fourier {
namespace {

constexpr int64_t kLargestRadix = 31;  // Beyond it a convolution is faster.
constexpr int64_t kShortestSplit = 64;
constexpr size_t kPlansKept = 64;

std::vector<int64_t> radices_of(int64_t n) {
  std::vector<int64_t> result;
  for (int64_t radix : {4, 2, 3, 5}) {
    while (n % radix == 0) {
      result.push_back(radix);
      n /= radix;
    }
  }
  for (int64_t radix = 7; n > 1 && radix <= kLargestRadix; radix += 2) {
    while (n % radix == 0) {
      result.push_back(radix);
      n /= radix;
    }
  }
  if (n > 1) return {};
  return result;
}

// The shortest length >= n without a prime factor above 5: products of such lengths are fast.
int64_t smooth_length(int64_t n) {
  int64_t best = 1;
  while (best < n) best *= 2;
  for (int64_t fives = 1; fives < best; fives *= 5)
    for (int64_t threes = fives; threes < best; threes *= 3) {
      int64_t length = threes;
      while (length < n) length *= 2;
      best = std::min(best, length);
    }
  return best;
}

}  // namespace

template <typename T>
std::complex<T> root_of_unity(int64_t k, int64_t n) {
  k %= n;
  // To within an eighth of a turn, where sine and cosine are exact to the last place.
  const int64_t eighth = 8 * k / n;
  const int64_t quarter = (eighth + 1) / 2;  // the nearest multiple of a quarter turn
  const double angle = 2 * std::numbers::pi * static_cast<double>(4 * k - quarter * n) / (4.0 * static_cast<double>(n));
  const double c = std::cos(angle), s = -std::sin(angle);
  switch (quarter & 3) {
    case 0:
      return {static_cast<T>(c), static_cast<T>(s)};
    case 1:  // times -i
      return {static_cast<T>(s), static_cast<T>(-c)};
    case 2:
      return {static_cast<T>(-c), static_cast<T>(-s)};
    default:
      return {static_cast<T>(-s), static_cast<T>(c)};
  }
}

template <typename T>
void Plan<T>::take_apart() {
  int64_t left = length;
  for (int64_t radix : radices_of(length)) {
    Pass pass{.radix = radix, .count = left / radix, .powers = {}, .roots = {}};
    for (int64_t p = 0; p < pass.count; ++p)
      for (int64_t k = 1; k < radix; ++k) pass.powers.push_back(root_of_unity<T>(p * k, left));
    for (int64_t k = 0; radix > 5 && k < radix; ++k) pass.roots.push_back(root_of_unity<T>(k, radix));
    left = pass.count;
    passes.push_back(std::move(pass));
  }
}

template <typename T>
void Plan<T>::cut_in_two() {
  int64_t first = static_cast<int64_t>(std::sqrt(static_cast<double>(length)));
  while (length % first != 0) --first;
  if (first < 4) return;
  auto parts = std::make_unique<Split>();
  parts->first = of(first);
  parts->second = of(length / first);
  parts->re.resize(length);
  parts->im.resize(length);
  for (int64_t k = 0, at = 0; k < first; ++k)
    for (int64_t j = 0; j < length / first; ++j, ++at) {
      const std::complex<T> root = root_of_unity<T>(k * j, length);
      parts->re[at] = root.real();
      parts->im[at] = root.imag();
    }
  split = std::move(parts);
}

template <typename T>
void Plan<T>::make_chirp() {
  auto made = std::make_unique<Chirp>();
  made->longer = of(smooth_length(2 * length - 1));
  const int64_t n = made->longer->length;
  std::vector<std::complex<T>> kernel(n);
  for (int64_t k = 0; k < length; ++k) {
    const std::complex<T> factor = root_of_unity<T>(k * k % (2 * length), 2 * length);
    made->factors.push_back(factor);
    kernel[k] = kernel[(n - k) % n] = std::conj(factor) / static_cast<T>(n);
  }
  made->spectrum.resize(n);
  transform_row(*made->longer, kernel.data(), made->spectrum.data(), false);
  chirp = std::move(made);
}

template <typename T>
std::shared_ptr<const Plan<T>> Plan<T>::of(int64_t length) {
  static std::mutex mutex;
  static std::list<std::shared_ptr<const Plan>>& kept = *new std::list<std::shared_ptr<const Plan>>;
  {
    std::lock_guard lock(mutex);
    for (auto it = kept.begin(); it != kept.end(); ++it) {
      if ((*it)->length != length) continue;
      kept.splice(kept.begin(), kept, it);
      return kept.front();
    }
  }
  auto plan = std::make_shared<Plan>();
  plan->length = length;
  for (int64_t k = 0; k < length; ++k) plan->doubled.push_back(root_of_unity<T>(k, 2 * length));
  plan->take_apart();
  if (length > 1 && plan->passes.empty()) {
    plan->make_chirp();
  } else if (length >= kShortestSplit) {
    plan->cut_in_two();
  }
  std::lock_guard lock(mutex);
  kept.push_front(plan);
  if (kept.size() > kPlansKept) kept.pop_back();
  return plan;
}

template struct Plan<float>;
template struct Plan<double>;
template std::complex<float> root_of_unity(int64_t, int64_t);
template std::complex<double> root_of_unity(int64_t, int64_t);

}  // namespace thalweg::fourier
