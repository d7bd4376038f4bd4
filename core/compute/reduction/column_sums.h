// Sums over the rows of a matrix, several at a time: gradients of biases, of scales, and batch statistics.
//
// The rows are cut into pieces of a fixed size, for any number of threads, and the pieces' sums are added in order:
// equal input gives equal sums. At most `kPieces` partial sums are kept.
#pragma once

#include "compute/elementwise/elementwise.h"

namespace thalweg {

struct RowPieces {
  static constexpr int64_t kPieces = 64;
  RowPieces(int64_t rows, int64_t columns) : rows(rows) {
    size = std::max<int64_t>({1, kElementGrain / std::max<int64_t>(1, columns), (rows + kPieces - 1) / kPieces});
    count = (rows + size - 1) / size;
  }
  // Calls body(piece, begin, end), in parallel.
  template <typename Body>
  void run(const Body& body) const {
    parallel_for(count, 1, [&](int64_t first, int64_t last) {
      for (int64_t p = first; p < last; ++p) body(p, p * size, std::min(rows, (p + 1) * size));
    });
  }
  int64_t rows, size, count;
};

// out[0, width) = the total of the sums of all pieces, where add(begin, end, sums) adds rows [begin, end) to zeroed
// sums.
template <typename C, typename Add>
void sum_pieces(int64_t rows, int64_t columns, int64_t width, C* out, const Add& add) {
  const RowPieces pieces(rows, columns);
  std::fill(out, out + width, C(0));
  if (pieces.count <= 1) {
    if (rows > 0) add(0, rows, out);
    return;
  }
  std::vector<C> sums(pieces.count * width);
  pieces.run([&](int64_t p, int64_t begin, int64_t end) { add(begin, end, sums.data() + p * width); });
  for (int64_t p = 0; p < pieces.count; ++p) {
    const C* from = sums.data() + p * width;
    for (int64_t i = 0; i < width; ++i) out[i] += from[i];
  }
}

// The sum of f(i) over [0, n), in several lanes so that it vectorizes.
template <typename C, typename F>
inline C lane_sum(int64_t n, const F& f) {
  C lanes[32] = {};
  int64_t i = 0;
  for (; i + 32 <= n; i += 32)
    for (int k = 0; k < 32; ++k) lanes[k] += f(i + k);
  for (int k = 0; i < n; ++i, ++k) lanes[k] += f(i);
  for (int half = 16; half > 0; half /= 2)
    for (int k = 0; k < half; ++k) lanes[k] += lanes[k + half];
  return lanes[0];
}

}  // namespace thalweg
