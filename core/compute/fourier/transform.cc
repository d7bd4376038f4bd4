// Fourier transforms of rows and columns: which way a transform takes, and how it is spread over threads.
#include "compute/fourier/transform.h"

#include <algorithm>
#include <memory>

#include "compute/fourier/blocks.h"
#include "thread/parallel.h"

namespace thalweg::fourier {
namespace {

// Rows up to this length go through the lanes side by side; longer ones, one by one, stay in a nearer cache.
constexpr int64_t kLongestBesideOthers = 4096;
// So many elements are worth a thread of their own.
constexpr int64_t kGrain = 8192;

// Room for `count` complex numbers of each lane, twice.
template <typename V>
struct Scratch {
  explicit Scratch(int64_t count)
      : memory(std::make_unique_for_overwrite<Complex<V>[]>(2 * count)), x(memory.get()), y(memory.get() + count) {}
  std::unique_ptr<Complex<V>[]> memory;
  Complex<V>*x, *y;
};

int64_t blocks_of(int64_t count, int64_t size) { return (count + size - 1) / size; }

// Cut in two: columns of an array [first, second], then its rows.
template <typename T>
void split_row(const Plan<T>& plan, const std::complex<T>* in, std::complex<T>* out, bool inverse, T scale) {
  constexpr int64_t W = kLanes<T>;
  const auto& split = *plan.split;
  const int64_t first = split.first->length, second = split.second->length;
  const auto middle = std::make_unique_for_overwrite<T[]>(2 * plan.length);
  T *const re = middle.get(), *const im = re + plan.length;
  auto columns = [&](int64_t begin, int64_t end) {
    Scratch<Vector<T>> scratch(first);
    for (int64_t block = begin; block < end; ++block) {
      const int64_t j = block * W, count = std::min(W, second - j);
      load_columns<T>(in + j, second, count, first, inverse, scratch.x);
      const Complex<Vector<T>>* x = run_passes<T>(*split.first, scratch.x, scratch.y);
      for (int64_t k = 0; k < first; ++k) {
        const int64_t at = k * second + j;
        if (count == W) {
          const Vector<T> c = load<T>(&split.re[at]), s = load<T>(&split.im[at]);
          store<T>(x[k].re * c - x[k].im * s, re + at);
          store<T>(x[k].re * s + x[k].im * c, im + at);
          continue;
        }
        for (int64_t l = 0; l < count; ++l) {
          const T c = split.re[at + l], s = split.im[at + l];
          re[at + l] = x[k].re[l] * c - x[k].im[l] * s;
          im[at + l] = x[k].re[l] * s + x[k].im[l] * c;
        }
      }
    }
  };
  auto rows = [&](int64_t begin, int64_t end) {
    Scratch<Vector<T>> scratch(second);
    for (int64_t block = begin; block < end; ++block) {
      const int64_t k = block * W, count = std::min(W, first - k);
      int64_t j = 0;
      for (; count == W && j + W <= second; j += W) {
        Vector<T> a[W], b[W];
        for (int64_t l = 0; l < W; ++l) {
          a[l] = load<T>(re + (k + l) * second + j);
          b[l] = load<T>(im + (k + l) * second + j);
        }
        transpose<T>(a);
        transpose<T>(b);
        for (int64_t l = 0; l < W; ++l) scratch.x[j + l] = {a[l], b[l]};
      }
      for (; j < second; ++j) {
        Complex<Vector<T>> value{};
        for (int64_t l = 0; l < count; ++l) {
          value.re[l] = re[(k + l) * second + j];
          value.im[l] = im[(k + l) * second + j];
        }
        scratch.x[j] = value;
      }
      const Complex<Vector<T>>* x = run_passes<T>(*split.second, scratch.x, scratch.y);
      store_columns<T>(x, first, count, second, inverse, scale, out + k);
    }
  };
  parallel_for(blocks_of(second, W), std::max<int64_t>(1, kGrain / (W * first)), columns);
  parallel_for(blocks_of(first, W), std::max<int64_t>(1, kGrain / (W * second)), rows);
}

// As a convolution with a chirp.
template <typename T>
void chirp_row(const Plan<T>& plan, const std::complex<T>* in, std::complex<T>* out, bool inverse, T scale) {
  const auto& chirp = *plan.chirp;
  const int64_t n = plan.length, longer = chirp.longer->length;
  auto times = [](std::complex<T> a, std::complex<T> b) {
    return std::complex<T>(a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real());
  };
  auto turned = [&](std::complex<T> a) { return inverse ? std::complex<T>(a.imag(), a.real()) : a; };
  std::vector<std::complex<T>> work(longer);
  for (int64_t k = 0; k < n; ++k) work[k] = times(turned(in[k]), chirp.factors[k]);
  transform_row<T>(*chirp.longer, work.data(), work.data(), false);
  for (int64_t k = 0; k < longer; ++k) work[k] = times(work[k], chirp.spectrum[k]);
  transform_row<T>(*chirp.longer, work.data(), work.data(), true);
  for (int64_t k = 0; k < n; ++k) out[k] = turned(times(work[k], chirp.factors[k])) * scale;
}

// Whether rows or columns of this length go through the lanes.
template <typename T>
bool is_taken_apart(const Plan<T>& plan) {
  return plan.chirp == nullptr;
}

// The transform of 2n real numbers from that of n complex ones made of pairs of them; and the way back, unscaled.
template <typename T, typename V>
void unfold(const Plan<T>& half, const Complex<V>* z, Complex<V>* x) {
  const int64_t n = half.length;
  x[0] = {z[0].re + z[0].im, V{}};
  x[n] = {z[0].re - z[0].im, V{}};
  for (int64_t k = 1; k < n; ++k) {
    const Complex<V> mirrored{z[n - k].re, -z[n - k].im};
    const Complex<V> even = (z[k] + mirrored).scaled(T(0.5)), odd = (z[k] - mirrored).scaled(T(0.5)).turned();
    x[k] = even + odd.times(half.doubled[k]);
  }
}
template <typename T, typename V>
void fold(const Plan<T>& half, const Complex<V>* x, Complex<V>* z) {
  const int64_t n = half.length;
  z[0] = {x[0].re + x[n].re, x[0].re - x[n].re};
  for (int64_t k = 1; k < n; ++k) {
    const Complex<V> mirrored{x[n - k].re, -x[n - k].im};
    const Complex<V> even = x[k] + mirrored, odd = (x[k] - mirrored).times(std::conj(half.doubled[k]));
    z[k] = {even.re - odd.im, even.im + odd.re};
  }
}

template <typename T>
bool goes_beside_others(const Plan<T>& plan, int64_t rows) {
  return is_taken_apart(plan) && plan.length <= kLongestBesideOthers && 2 * rows >= kLanes<T>;
}

// body(first row, count) for blocks of rows that fill the lanes.
template <typename T, typename Body>
void for_each_block(int64_t rows, int64_t n, const Body& body) {
  constexpr int64_t W = kLanes<T>;
  parallel_for(blocks_of(rows, W), std::max<int64_t>(1, kGrain / (W * n)),
               [&](int64_t begin, int64_t end) { body(begin * W, std::min(rows, end * W)); });
}

}  // namespace

template <typename T>
void transform_row(const Plan<T>& plan, const std::complex<T>* in, std::complex<T>* out, bool inverse, T scale) {
  if (plan.chirp) return chirp_row(plan, in, out, inverse, scale);
  if (plan.split) return split_row(plan, in, out, inverse, scale);
  const int64_t n = plan.length;
  Scratch<T> scratch(n);
  for (int64_t i = 0; i < n; ++i) scratch.x[i] = swapped(Complex<T>{in[i].real(), in[i].imag()}, inverse);
  const Complex<T>* x = run_passes<T>(plan, scratch.x, scratch.y);
  for (int64_t i = 0; i < n; ++i) {
    const Complex<T> value = swapped(x[i], inverse).scaled(scale);
    out[i] = {value.re, value.im};
  }
}

template <typename T>
void transform_axis(const std::complex<T>* in, std::complex<T>* out, int64_t outer, int64_t n, int64_t inner,
                    bool inverse, T scale) {
  constexpr int64_t W = kLanes<T>;
  const auto plan = Plan<T>::of(n);
  if (inner == 1 && goes_beside_others(*plan, outer)) {
    for_each_block<T>(outer, n, [&](int64_t row, int64_t end) {
      Scratch<Vector<T>> scratch(n);
      for (; row < end; row += W) {
        const int64_t count = std::min(W, end - row);
        load_rows<T>(in + row * n, n, count, n, inverse, scratch.x);
        store_rows<T>(run_passes<T>(*plan, scratch.x, scratch.y), n, count, n, inverse, scale, out + row * n);
      }
    });
  } else if (inner == 1) {
    parallel_for(outer, std::max<int64_t>(1, kGrain / n), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) transform_row(*plan, in + row * n, out + row * n, inverse, scale);
    });
  } else if (is_taken_apart(*plan)) {
    const int64_t blocks = blocks_of(inner, W);
    parallel_for(outer * blocks, std::max<int64_t>(1, kGrain / (W * n)), [&](int64_t begin, int64_t end) {
      Scratch<Vector<T>> scratch(n);
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t column = unit % blocks * W, at = unit / blocks * n * inner + column;
        const int64_t count = std::min(W, inner - column);
        load_columns<T>(in + at, inner, count, n, inverse, scratch.x);
        store_columns<T>(run_passes<T>(*plan, scratch.x, scratch.y), inner, count, n, inverse, scale, out + at);
      }
    });
  } else {
    parallel_for(outer * inner, std::max<int64_t>(1, kGrain / n), [&](int64_t begin, int64_t end) {
      std::vector<std::complex<T>> line(n);
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t at = unit / inner * n * inner + unit % inner;
        for (int64_t i = 0; i < n; ++i) line[i] = in[at + i * inner];
        transform_row(*plan, line.data(), line.data(), inverse, scale);
        for (int64_t i = 0; i < n; ++i) out[at + i * inner] = line[i];
      }
    });
  }
}

template <typename T>
void transform_real_rows(const T* in, std::complex<T>* out, int64_t rows, int64_t n) {
  constexpr int64_t W = kLanes<T>;
  const int64_t half = n / 2, kept = half + 1;
  if (n % 2 == 0 && n > 0) {
    const auto plan = Plan<T>::of(half);
    const auto* pairs = reinterpret_cast<const std::complex<T>*>(in);
    if (goes_beside_others(*plan, rows)) {
      for_each_block<T>(rows, half, [&](int64_t row, int64_t end) {
        Scratch<Vector<T>> scratch(half);
        const auto whole = std::make_unique_for_overwrite<Complex<Vector<T>>[]>(kept);
        for (; row < end; row += W) {
          const int64_t count = std::min(W, end - row);
          load_rows<T>(pairs + row * half, half, count, half, false, scratch.x);
          unfold<T>(*plan, run_passes<T>(*plan, scratch.x, scratch.y), whole.get());
          store_rows<T>(whole.get(), kept, count, kept, false, T(1), out + row * kept);
        }
      });
      return;
    }
    parallel_for(rows, std::max<int64_t>(1, kGrain / n), [&](int64_t begin, int64_t end) {
      const auto z = std::make_unique_for_overwrite<Complex<T>[]>(half);
      for (int64_t row = begin; row < end; ++row) {
        transform_row<T>(*plan, pairs + row * half, reinterpret_cast<std::complex<T>*>(z.get()), false);
        unfold<T>(*plan, z.get(), reinterpret_cast<Complex<T>*>(out + row * kept));
      }
    });
    return;
  }
  const auto plan = Plan<T>::of(n);
  parallel_for(rows, std::max<int64_t>(1, kGrain / n), [&](int64_t begin, int64_t end) {
    std::vector<std::complex<T>> line(n);
    for (int64_t row = begin; row < end; ++row) {
      std::copy_n(in + row * n, n, line.begin());
      transform_row<T>(*plan, line.data(), line.data(), false);
      std::copy_n(line.begin(), kept, out + row * kept);
    }
  });
}

template <typename T>
void transform_to_real_rows(const std::complex<T>* in, T* out, int64_t rows, int64_t n, T scale) {
  constexpr int64_t W = kLanes<T>;
  const int64_t half = n / 2, kept = half + 1;
  if (n % 2 == 0) {
    const auto plan = Plan<T>::of(half);
    auto* pairs = reinterpret_cast<std::complex<T>*>(out);
    if (goes_beside_others(*plan, rows)) {
      for_each_block<T>(rows, half, [&](int64_t row, int64_t end) {
        Scratch<Vector<T>> scratch(half);
        const auto whole = std::make_unique_for_overwrite<Complex<Vector<T>>[]>(kept);
        for (; row < end; row += W) {
          const int64_t count = std::min(W, end - row);
          load_rows<T>(in + row * kept, kept, count, kept, false, whole.get());
          fold<T>(*plan, whole.get(), scratch.x);
          for (int64_t k = 0; k < half; ++k) scratch.x[k] = swapped(scratch.x[k], true);
          store_rows<T>(run_passes<T>(*plan, scratch.x, scratch.y), half, count, half, true, scale, pairs + row * half);
        }
      });
      return;
    }
    parallel_for(rows, std::max<int64_t>(1, kGrain / n), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        std::complex<T>* z = pairs + row * half;
        fold<T>(*plan, reinterpret_cast<const Complex<T>*>(in + row * kept), reinterpret_cast<Complex<T>*>(z));
        transform_row<T>(*plan, z, z, true, scale);
      }
    });
    return;
  }
  const auto plan = Plan<T>::of(n);
  parallel_for(rows, std::max<int64_t>(1, kGrain / n), [&](int64_t begin, int64_t end) {
    std::vector<std::complex<T>> line(n);
    for (int64_t row = begin; row < end; ++row) {
      const std::complex<T>* from = in + row * kept;
      line[0] = from[0].real();
      for (int64_t k = 1; k < kept; ++k) line[n - k] = std::conj(line[k] = from[k]);
      transform_row<T>(*plan, line.data(), line.data(), true, scale);
      for (int64_t i = 0; i < n; ++i) out[row * n + i] = line[i].real();
    }
  });
}

#define THALWEG_INSTANTIATE(T)                                                                                   \
  template void transform_row<T>(const Plan<T>&, const std::complex<T>*, std::complex<T>*, bool, T);             \
  template void transform_axis<T>(const std::complex<T>*, std::complex<T>*, int64_t, int64_t, int64_t, bool, T); \
  template void transform_real_rows<T>(const T*, std::complex<T>*, int64_t, int64_t);                            \
  template void transform_to_real_rows<T>(const std::complex<T>*, T*, int64_t, int64_t, T);
THALWEG_INSTANTIATE(float)
THALWEG_INSTANTIATE(double)
#undef THALWEG_INSTANTIATE

}  // namespace thalweg::fourier
