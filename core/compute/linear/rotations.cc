// Rotations run over the lines of a panel of four vectors; the last panel has as many vectors as are left.
#include "compute/linear/rotations.h"

#include "compute/lanes/vectors.h"
#include "thread/parallel.h"

namespace thalweg::linear {
namespace {

template <typename R>
constexpr int64_t kPanel = 4 * lanes::kLanes<R>;
// So many numbers are kept before they are applied.
constexpr size_t kKept = 1 << 14;

template <int vectors, typename R>
void sweep(R* panel, int64_t width, int64_t first, bool up, const R* numbers, int64_t count) {
  using V = lanes::Vector<R>;
  constexpr int64_t W = lanes::kLanes<R>;
  V carried[vectors];
  const int64_t step = up ? width : -width;
  R* line = panel + (up ? first : first + 1) * width;
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v) carried[v] = lanes::load<R>(line + v * W);
  for (int64_t k = 0; k < count; ++k, line += step) {
    // Downwards, the line that is carried is the second one: its sine has the other sign.
    const R c = numbers[2 * k], s = up ? numbers[2 * k + 1] : -numbers[2 * k + 1];
#pragma GCC unroll 4
    for (int v = 0; v < vectors; ++v) {
      // Written first, the product with what is carried is the one that the compiler fuses: the shorter way.
      const V turned = s * carried[v], next = lanes::load<R>(line + step + v * W);
      lanes::store<R>(c * carried[v] + s * next, line + v * W);
      carried[v] = c * next - turned;
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < vectors; ++v) lanes::store<R>(carried[v], line + v * W);
}

}  // namespace

template <typename R>
Rotations<R>::Rotations(R* y, int64_t count, int64_t length, bool parallel)
    : y_(y), count_(count), length_(length), panels_((length + kPanel<R> - 1) / kPanel<R>), parallel_(parallel) {
  constexpr int64_t W = lanes::kLanes<R>;
  packed_.resize(count * ((length + W - 1) / W * W));
  for (int64_t p = 0; p < panels_; ++p) {
    const int64_t first = p * kPanel<R>, columns = std::min(kPanel<R>, length - first),
                  width = (columns + W - 1) / W * W;
    R* panel = packed_.data() + first * count;
    for (int64_t i = 0; i < count; ++i) std::copy_n(y + i * length + first, columns, panel + i * width);
  }
}

template <typename R>
void Rotations<R>::begin_sweep(int64_t first, bool up) {
  if (cosines_and_sines_.size() > kKept) apply();
  sweeps_.push_back({first, up, static_cast<int64_t>(cosines_and_sines_.size())});
}

template <typename R>
void Rotations<R>::apply() {
  constexpr int64_t W = lanes::kLanes<R>;
  parallel_for(panels_, parallel_ ? 1 : panels_, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t first = p * kPanel<R>, vectors = std::min<int64_t>(4, (length_ - first + W - 1) / W);
      R* panel = packed_.data() + first * count_;
      for (size_t i = 0; i < sweeps_.size(); ++i) {
        const Sweep& s = sweeps_[i];
        const int64_t last = i + 1 < sweeps_.size() ? sweeps_[i + 1].begin : cosines_and_sines_.size();
        const int64_t rotations = (last - s.begin) / 2;
        const R* numbers = cosines_and_sines_.data() + s.begin;
        if (rotations == 0) continue;
        switch (vectors) {
          case 1:
            sweep<1>(panel, W, s.first, s.up, numbers, rotations);
            break;
          case 2:
            sweep<2>(panel, 2 * W, s.first, s.up, numbers, rotations);
            break;
          case 3:
            sweep<3>(panel, 3 * W, s.first, s.up, numbers, rotations);
            break;
          default:
            sweep<4>(panel, 4 * W, s.first, s.up, numbers, rotations);
        }
      }
    }
  });
  sweeps_.clear();
  cosines_and_sines_.clear();
}

template <typename R>
void Rotations<R>::finish(const std::vector<int64_t>& order) {
  constexpr int64_t W = lanes::kLanes<R>;
  apply();
  std::vector<bool> negative(count_);
  for (int64_t i : negated_) negative[i] = !negative[i];
  for (int64_t p = 0; p < panels_; ++p) {
    const int64_t first = p * kPanel<R>, columns = std::min(kPanel<R>, length_ - first);
    const int64_t width = (columns + W - 1) / W * W;
    const R* panel = packed_.data() + first * count_;
    for (int64_t i = 0; i < count_; ++i) {
      const R* from = panel + order[i] * width;
      R* to = y_ + i * length_ + first;
      for (int64_t k = 0; k < columns; ++k) to[k] = negative[order[i]] ? -from[k] : from[k];
    }
  }
}

template class Rotations<float>;
template class Rotations<double>;

}  // namespace thalweg::linear
