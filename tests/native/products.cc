// The float32 product: the bits of its definition, for all sizes, layouts, numbers of threads and ways to add to C.
#include <cmath>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "check.h"
#include "compute/products/matvec.h"
#include "compute/products/sgemm.h"
#include "thread/parallel.h"

namespace {

using namespace thalweg;
using namespace thalweg::products;

struct Operand {
  std::vector<float> data;
  Matrix matrix;
};

Operand random_matrix(std::mt19937& random, int64_t rows, int64_t columns, bool transposed) {
  std::uniform_real_distribution<float> values(-1, 1);
  Operand result{std::vector<float>(rows * columns), {}};
  for (float& each : result.data) each = values(random);
  const float* data = result.data.data();
  result.matrix = transposed ? Matrix{data, 1, rows} : Matrix{data, columns, 1};
  return result;
}

// Equal blocks of the inner dimension, each a chain of fused multiply-adds from zero, added in order.
void multiply_by_definition(const Product& x) {
  const int64_t blocks = (x.inner + kLongestWhole - 1) / kLongestWhole;
  const int64_t depth = ((x.inner + blocks - 1) / blocks + 7) / 8 * 8;
  for (int64_t i = 0; i < x.rows; ++i)
    for (int64_t j = 0; j < x.columns; ++j) {
      float& c = x.c[i * x.c_stride + j];
      for (int64_t first = 0; first < x.inner; first += depth) {
        float sum = 0;
        for (int64_t p = first; p < std::min(x.inner, first + depth); ++p)
          sum = std::fma(*x.a.at(i, p), *x.b.at(p, j), sum);
        c = x.accumulate || first > 0 ? c + sum * x.scale : sum;
      }
    }
}

void check_product(std::mt19937& random, int64_t rows, int64_t columns, int64_t inner) {
  const auto choice = random();
  const Operand a = random_matrix(random, rows, inner, choice & 1),
                b = random_matrix(random, inner, columns, choice & 2);
  const int64_t stride = columns + (choice & 4 ? 3 : 0);
  const bool accumulate = choice & 8 && inner <= kLongestWhole;
  const float scale = accumulate ? -0.3f : 1.0f;
  std::vector<float> expected(rows * stride, 0.5f);
  Product product{rows, columns, inner, a.matrix, b.matrix, expected.data(), stride, accumulate, scale};
  multiply_by_definition(product);
  for (const int threads : {1, 2, 5}) {
    set_intra_op_threads(threads);
    std::vector<float> found(rows * stride, 0.5f);
    product.c = found.data();
    sgemm(product);
    set_intra_op_threads(0);
    if (std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)) != 0)
      check::fail(__FILE__, __LINE__,
                  cat(rows, " x ", columns, " x ", inner, ", choice ", choice % 16, ", ", threads, " threads"));
  }
}

// Around the sizes of tiles, of pairs of tiles, and of packed blocks.
TEST(products_have_the_bits_of_their_definition) {
  std::mt19937 random(7);
  for (const int64_t rows : {1, 5, 6, 11, 12, 13, 24, 47, 49, 97})
    for (const int64_t columns : {1, 15, 16, 17, 31, 32, 33, 48, 257})
      for (const int64_t inner : {1, 8, 31, 385}) check_product(random, rows, columns, inner);
}

TEST(large_products_have_the_bits_of_their_definition) {
  std::mt19937 random(8);
  for (int i = 0; i < 3; ++i) {
    check_product(random, 200, 300, 800);
    check_product(random, 33, 40, 4100);
    check_product(random, 1031, 70, 64);
    check_product(random, 40, 1030, 64);
    check_product(random, 130, 40, 1024);
  }
}

// A B that was packed for many products; a stride of 1024 makes the rows of A compete for places in the cache.
TEST(products_with_a_packed_matrix_have_the_bits_of_their_definition) {
  std::mt19937 random(10);
  for (const int64_t rows : {1, 6, 11, 12, 16, 29, 205})
    for (const int64_t columns : {1, 16, 33, 257, 530})
      for (const auto& [inner, stride] :
           std::vector<std::pair<int64_t, int64_t>>{{8, 8}, {385, 400}, {700, 1024}, {64, 2048}}) {
        const Operand a = random_matrix(random, rows, stride, false),
                      b = random_matrix(random, inner, columns, random() & 1);
        const bool accumulate = random() & 1 && inner <= kLongestWhole;
        std::vector<float> packed(packed_b_size(columns, inner)), expected(rows * columns, 0.5f);
        pack_b(b.matrix, columns, inner, packed.data());
        multiply_by_definition({rows, columns, inner, a.matrix, b.matrix, expected.data(), columns, accumulate});
        for (const int threads : {1, 3}) {
          set_intra_op_threads(threads);
          std::vector<float> found(rows * columns, 0.5f);
          sgemm_packed(rows, columns, inner, a.data.data(), stride, packed.data(), found.data(), columns, accumulate);
          set_intra_op_threads(0);
          if (std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)) != 0)
            check::fail(__FILE__, __LINE__, cat(rows, " x ", columns, " x ", inner, " of ", stride));
        }
      }
}

// Vectors take another way, with the same bits.
TEST(products_with_vectors_have_the_bits_of_their_definition) {
  std::mt19937 random(9);
  for (const int64_t rows : {8, 9, 16, 31, 100, 2050, 8200})
    for (const int64_t inner : {1, 7, 8, 31, 384, 385, 1000})
      for (const bool transposed : {false, true}) {
        const Operand a = random_matrix(random, rows, inner, transposed), b = random_matrix(random, inner, 1, false);
        std::vector<float> expected(rows), found(rows);
        multiply_by_definition({rows, 1, inner, a.matrix, b.matrix, expected.data(), 1});
        const MatrixVector<float> x{rows,          inner, a.matrix.data, a.matrix.row_stride, a.matrix.column_stride,
                                    b.matrix.data, 1,     found.data()};
        CHECK(has_matvec(x));
        for (const int threads : {1, 3}) {
          set_intra_op_threads(threads);
          matvec(x, true);
          set_intra_op_threads(0);
          CHECK(found == expected);
        }
      }
}

}  // namespace
