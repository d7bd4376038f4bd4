// SparseCross: all combinations of the features of several columns, row by row, as strings or as hash buckets.
//
// Inputs, lists one after the other: indices, values and shapes of N sparse matrices, then dense matrices. Bucket
// numbers are part of saved models: they must stay TensorFlow's.
#include <limits>
#include <numeric>

#include "kernel/registry.h"
#include "strings/hash.h"

namespace thalweg {
namespace {

constexpr int64_t kMostCrosses = int64_t{1} << 31;

uint64_t mixed(uint64_t x) { return x ^ (x >> 47); }

// Two fingerprints as one; their order matters.
uint64_t joined(uint64_t a, uint64_t b) {
  constexpr uint64_t factor = 0xc6a4a7935bd1e995u;
  uint64_t result = a ^ factor;
  result ^= mixed(b * factor) * factor;
  result *= factor;
  return mixed(mixed(result) * factor);
}

// The features of one column. Rows are visited in ascending order: `move_to` finds the features of the next one, so
// that a sparse column with a huge number of empty rows costs nothing.
class Column {
 public:
  // Dense if `indices` is null.
  Column(const Tensor& values, const Tensor* indices) : values_(&values), indices_(indices) {}

  void move_to(int64_t row) {
    if (indices_ == nullptr) {
      begin_ = row * values_->dim(1);
      end_ = begin_ + values_->dim(1);
      return;
    }
    const int64_t n = values_->dim(0);
    const auto* at = indices_->flat<int64_t>();
    begin_ = end_;
    while (begin_ < n && at[2 * begin_] < row) ++begin_;
    end_ = begin_;
    while (end_ < n && at[2 * end_] == row) ++end_;
  }
  void rewind() { begin_ = end_ = 0; }
  int64_t count() const { return end_ - begin_; }
  uint64_t hash(int64_t i) const {
    return values_->dtype() == DType::string ? fingerprint64(values_->strings()[begin_ + i])
                                             : static_cast<uint64_t>(values_->flat<int64_t>()[begin_ + i]);
  }
  std::string text(int64_t i) const {
    return values_->dtype() == DType::string ? values_->strings()[begin_ + i]
                                             : std::to_string(values_->flat<int64_t>()[begin_ + i]);
  }

 private:
  const Tensor* values_;
  const Tensor* indices_;
  int64_t begin_ = 0, end_ = 0;
};

Column sparse_column(const Tensor& indices, const Tensor& values, const Tensor& shape, int which, int64_t rows) {
  require(indices.rank() == 2 && indices.dim(1) == 2, "indices[", which, "] must have shape [n, 2], got ",
          indices.shape());
  require(values.rank() == 1 && values.dim(0) == indices.dim(0), "values[", which, "] must have ", indices.dim(0),
          " elements, one for each row of indices, got shape ", values.shape());
  require(shape.flat<int64_t>()[0] == rows, "all inputs must have the same batch size: shapes[", which, "] says ",
          shape.flat<int64_t>()[0], ", the first input ", rows);
  const auto* at = indices.flat<int64_t>();
  for (int64_t i = 0; i < values.dim(0); ++i) {
    const int64_t row = at[2 * i];
    require(row >= 0 && row < rows, "indices[", which, "][", i, "] has row ", row, ", which is not in [0, ", rows, ")");
    require(i == 0 || at[2 * i - 2] <= row, "indices[", which, "] must be sorted by row: ", row, " comes after ",
            i == 0 ? 0 : at[2 * i - 2]);
  }
  return Column(values, &indices);
}

Column dense_column(const Tensor& values, int which, int64_t rows) {
  require(values.dim(0) == rows, "all inputs must have the same batch size: dense_inputs[", which, "] has ",
          values.dim(0), " rows, the first input ", rows);
  return Column(values, nullptr);
}

struct SparseCross : Kernel {
  explicit SparseCross(const Construction& c)
      : n(c.attr<int>("N")),
        hashed(c.attr<bool>("hashed_output")),
        buckets(static_cast<uint64_t>(c.attr<int64_t>("num_buckets"))),
        key(static_cast<uint64_t>(c.attr<int64_t>("hash_key"))) {
    require(hashed == (c.output_dtype(1) == DType::int64), "out_type must be int64 if hashed_output, else string; got ",
            c.output_dtype(1));
  }

  void compute(Context& ctx) override {
    int64_t batch = 0;
    std::vector<Column> columns = columns_of(ctx, batch);
    // Only rows that have a feature in the first column have combinations.
    std::vector<int64_t> rows;
    if (n > 0) {
      const auto* at = ctx.input(0).flat<int64_t>();
      for (int64_t i = 0; i < ctx.input(0).dim(0); ++i)
        if (rows.empty() || rows.back() != at[2 * i]) rows.push_back(at[2 * i]);
    } else {
      rows.resize(static_cast<size_t>(batch));
      std::iota(rows.begin(), rows.end(), int64_t{0});
    }
    int64_t total = 0, widest = 0;
    for (int64_t row : rows) {
      int64_t count = 1;
      for (Column& column : columns) {
        column.move_to(row);
        const int64_t features = column.count();
        require(features == 0 || count <= kMostCrosses / features, "row ", row, " has more than 2^31 combinations");
        count *= features;
      }
      total += count;
      widest = std::max(widest, count);
      require(total <= kMostCrosses, "there are more than 2^31 combinations");
    }
    auto* at = ctx.allocate(0, Shape{total, 2}).flat<int64_t>();
    Tensor& values = ctx.allocate(1, Shape{total});
    auto* shape = ctx.allocate(2, Shape{2}).flat<int64_t>();
    shape[0] = batch;
    shape[1] = widest;
    for (Column& column : columns) column.rewind();
    std::vector<int64_t> place(columns.size());
    int64_t out = 0;
    for (int64_t row : rows) {
      int64_t count = 1;
      for (Column& column : columns) {
        column.move_to(row);
        count *= column.count();
      }
      std::fill(place.begin(), place.end(), 0);
      for (int64_t k = 0; k < count; ++k, ++out) {
        *at++ = row;
        *at++ = k;
        if (hashed)
          values.flat<int64_t>()[out] = bucket(columns, place);
        else
          values.strings()[out] = text(columns, place);
        // The last column changes fastest.
        for (size_t c = columns.size(); c-- > 0;) {
          if (++place[c] < columns[c].count()) break;
          place[c] = 0;
        }
      }
    }
  }

 private:
  std::vector<Column> columns_of(Context& ctx, int64_t& rows) const {
    const int dense = ctx.num_inputs() - 3 * n;
    require(n + dense > 0, "SparseCross needs at least one input");
    for (int i = 0; i < n; ++i)
      require(ctx.input(2 * n + i).rank() == 1 && ctx.input(2 * n + i).dim(0) == 2, "shapes[", i,
              "] must be a vector of 2 sizes, got shape ", ctx.input(2 * n + i).shape());
    for (int i = 0; i < dense; ++i)
      require(ctx.input(3 * n + i).rank() == 2, "dense_inputs[", i, "] must be a matrix, got shape ",
              ctx.input(3 * n + i).shape());
    rows = n > 0 ? ctx.input(2 * n).flat<int64_t>()[0] : ctx.input(0).dim(0);
    require(rows >= 0, "the batch size must not be negative, got ", rows);
    std::vector<Column> columns;
    for (int i = 0; i < n; ++i)
      columns.push_back(sparse_column(ctx.input(i), ctx.input(n + i), ctx.input(2 * n + i), i, rows));
    for (int i = 0; i < dense; ++i) columns.push_back(dense_column(ctx.input(3 * n + i), i, rows));
    return columns;
  }

  int64_t bucket(const std::vector<Column>& columns, const std::vector<int64_t>& place) const {
    uint64_t hash = key;
    for (size_t c = 0; c < columns.size(); ++c) hash = joined(hash, columns[c].hash(place[c]));
    const uint64_t limit = buckets > 0 ? buckets : static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    return static_cast<int64_t>(hash % limit);
  }

  static std::string text(const std::vector<Column>& columns, const std::vector<int64_t>& place) {
    std::string all;
    for (size_t c = 0; c < columns.size(); ++c) {
      if (c > 0) all += "_X_";
      all += columns[c].text(place[c]);
    }
    return all;
  }

  int n;
  bool hashed;
  uint64_t buckets, key;
};
REGISTER(kernel("SparseCross").make<SparseCross>());

}  // namespace
}  // namespace thalweg
