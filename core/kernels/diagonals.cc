// Diagonals and bands of matrices: taking them out, putting them in, and clearing everything else.
//
// Diagonal d of an M x N matrix starts at row max(0, -d) and column max(0, d). A band is the diagonals from `lower` to
// `upper`; as a tensor it has one row per diagonal, the uppermost first, padded to the longest of them on the side that
// `align` says (first word: diagonals above the main one; second word: those below).
#include "compute/copies/elements.h"
#include "kernel/registry.h"
#include "thread/parallel.h"

namespace thalweg {
namespace {

struct Band {
  int64_t lower = 0, upper = 0;
  int64_t rows = 0, columns = 0;  // Of a matrix.
  int64_t longest = 0;
  bool left_above = true, left_below = true;

  int64_t count() const { return upper - lower + 1; }
  int64_t length(int64_t d) const {
    return std::min(rows + std::min<int64_t>(d, 0), columns - std::max<int64_t>(d, 0));
  }
  // How far the elements of diagonal d are shifted to the right within its row of the band.
  int64_t offset(int64_t d) const {
    bool left = (d >= 0 && left_above) || (d <= 0 && left_below);
    return left ? 0 : longest - length(d);
  }
  int64_t matrix_index(int64_t d, int64_t i) const {
    return (std::max<int64_t>(0, -d) + i) * columns + std::max<int64_t>(0, d) + i;
  }
  void set_longest() { longest = std::min(rows + std::min<int64_t>(upper, 0), columns + std::min<int64_t>(-lower, 0)); }
};

void read_k(const Tensor& k, Band& band) {
  require(k.rank() <= 1 && (k.num_elements() == 1 || k.num_elements() == 2),
          "k must be a scalar or a vector with one or two elements, got shape ", k.shape());
  std::vector<int64_t> given = to_int64s(k);
  band.lower = given.front();
  band.upper = given.back();
  require(band.lower <= band.upper, "k[0] must not be larger than k[1], got ", band.lower, " and ", band.upper);
}

int64_t read_scalar(const Tensor& t, const char* what) {
  require(t.num_elements() == 1 && t.rank() <= 1, what, " must be a scalar, got shape ", t.shape());
  return to_int64(t);
}

// Reads the diagonals that a band of the matrices in `shape` can have.
void fit_to_matrix(const Shape& shape, Band& band) {
  require(shape.rank() >= 2, "the input must be at least a matrix, got shape ", shape);
  band.rows = shape[shape.rank() - 2];
  band.columns = shape[shape.rank() - 1];
  for (int64_t d : {band.lower, band.upper})
    require((d > -band.rows && d < band.columns) || d == 0, "diagonal ", d, " is out of range for matrices of ",
            band.rows, " x ", band.columns, ": it must lie between ", -band.rows, " and ", band.columns, ", exclusive");
  band.set_longest();
}

Shape band_shape(const Shape& matrices, const Band& band) {
  std::vector<int64_t> dims(matrices.begin(), matrices.end() - 2);
  if (band.count() > 1) dims.push_back(band.count());
  dims.push_back(band.longest);
  return Shape(dims);
}

// The attribute `align`; version 2 of these ops always aligned to the left.
struct BandKernel : Kernel {
  explicit BandKernel(const Construction& c) {
    std::string align = c.attr<std::string>("align", "LEFT_LEFT");
    left_above_ = align.starts_with("LEFT_");
    left_below_ = align.ends_with("_LEFT");
  }
  Band band() const {
    Band band;
    band.left_above = left_above_;
    band.left_below = left_below_;
    return band;
  }

 private:
  bool left_above_, left_below_;
};

// Copies between `batches` matrices and their bands, in the direction of `To`: void to(T* matrix_element, T*
// band_element).
template <typename Move>
void for_band(const Band& band, int64_t batches, const Move& move) {
  const int64_t band_size = band.count() * band.longest, matrix_size = band.rows * band.columns;
  parallel_for(batches, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, band_size)), [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b)
      for (int64_t d = band.upper; d >= band.lower; --d) {
        const int64_t length = band.length(d), in_matrix = b * matrix_size + band.matrix_index(d, 0);
        const int64_t in_band = b * band_size + (band.upper - d) * band.longest + band.offset(d);
        for (int64_t i = 0; i < length; ++i) move(in_matrix + i * (band.columns + 1), in_band + i);
      }
  });
}

// MatrixDiag*: a band becomes matrices.
struct MatrixDiag : BandKernel {
  using BandKernel::BandKernel;
  void compute(Context& ctx) override {
    const Tensor& diagonal = ctx.input(0);
    Band band = this->band();
    if (ctx.num_inputs() > 1) read_k(ctx.input(1), band);
    const int from = band.count() > 1 ? 2 : 1;
    require(diagonal.rank() >= from, "diagonal must have at least rank ", from, ", got shape ", diagonal.shape());
    if (from == 2)
      require(diagonal.dim(diagonal.rank() - 2) == band.count(), "k names ", band.count(),
              " diagonals, but diagonal has shape ", diagonal.shape());
    const int64_t longest = diagonal.dim(diagonal.rank() - 1);
    const int64_t min_rows = longest - std::min<int64_t>(band.upper, 0);
    const int64_t min_columns = longest + std::max<int64_t>(band.lower, 0);
    int64_t rows = -1, columns = -1;
    if (ctx.num_inputs() > 1) {
      rows = read_scalar(ctx.input(2), "num_rows");
      columns = read_scalar(ctx.input(3), "num_cols");
      require(ctx.input(4).num_elements() == 1, "padding_value must be a scalar, got shape ", ctx.input(4).shape());
    }
    if (rows == -1 && columns == -1) {
      rows = columns = std::max(min_rows, min_columns);
    } else {
      if (rows == -1) rows = min_rows;
      if (columns == -1) columns = min_columns;
    }
    require(rows >= min_rows && columns >= min_columns, "matrices of ", rows, " x ", columns,
            " are too small for diagonals of length ", longest, ": they need at least ", min_rows, " x ", min_columns);
    require(rows == min_rows || columns == min_columns, "matrices of ", rows, " x ", columns,
            " have longer diagonals than the ", longest, " elements given");
    std::vector<int64_t> dims(diagonal.shape().begin(), diagonal.shape().end() - from);
    const int64_t batches = Shape(dims).num_elements();
    dims.push_back(rows);
    dims.push_back(columns);
    band.rows = rows;
    band.columns = columns;
    require(band.lower > -rows || band.lower == 0, "diagonal ", band.lower, " is out of range for ", rows, " rows");
    require(band.upper < columns || band.upper == 0, "diagonal ", band.upper, " is out of range for ", columns,
            " columns");
    band.longest = longest;
    Tensor& out = ctx.allocate(0, Shape(dims));
    dispatch_width(out.dtype(), [&]<typename T>() {
      const T padding = ctx.num_inputs() > 1 ? ctx.input(4).flat<T>()[0] : T{};
      T* to = out.flat<T>();
      std::fill(to, to + out.num_elements(), padding);
      const T* x = diagonal.flat<T>();
      if (diagonal.num_elements() > 0) for_band(band, batches, [=](int64_t m, int64_t b) { to[m] = x[b]; });
    });
  }
};
REGISTER(kernel("MatrixDiag").make<MatrixDiag>());
REGISTER(kernel("MatrixDiagV2").make<MatrixDiag>());
REGISTER(kernel("MatrixDiagV3").make<MatrixDiag>());

// MatrixDiagPart*: matrices become a band.
struct MatrixDiagPart : BandKernel {
  using BandKernel::BandKernel;
  void compute(Context& ctx) override {
    const Tensor& in = ctx.input(0);
    Band band = this->band();
    if (ctx.num_inputs() > 1) {
      read_k(ctx.input(1), band);
      require(ctx.input(2).num_elements() == 1, "padding_value must be a scalar, got shape ", ctx.input(2).shape());
    }
    fit_to_matrix(in.shape(), band);
    Tensor& out = ctx.allocate(0, band_shape(in.shape(), band));
    if (out.num_elements() == 0) return;
    dispatch_width(out.dtype(), [&]<typename T>() {
      const T* x = in.flat<T>();
      T* to = out.flat<T>();
      if (band.count() > 1) std::fill(to, to + out.num_elements(), ctx.input(2).flat<T>()[0]);
      for_band(band, in.shape().product(0, in.rank() - 2), [=](int64_t m, int64_t b) { to[b] = x[m]; });
    });
  }
};
REGISTER(kernel("MatrixDiagPart").make<MatrixDiagPart>());
REGISTER(kernel("MatrixDiagPartV2").make<MatrixDiagPart>());
REGISTER(kernel("MatrixDiagPartV3").make<MatrixDiagPart>());

// MatrixSetDiag*: a band replaces that of matrices.
struct MatrixSetDiag : BandKernel {
  using BandKernel::BandKernel;
  void compute(Context& ctx) override {
    const Tensor& in = ctx.input(0);
    const Tensor& diagonal = ctx.input(1);
    Band band = this->band();
    if (ctx.num_inputs() > 2) read_k(ctx.input(2), band);
    fit_to_matrix(in.shape(), band);
    const Shape expected = band_shape(in.shape(), band);
    require(diagonal.shape() == expected, "diagonal must have shape ", expected, " for an input of shape ", in.shape(),
            ", got ", diagonal.shape());
    Tensor& out = ctx.forward_or_allocate({0}, 0, in.shape());
    if (out.num_elements() == 0) return;
    if (out.raw() != in.raw()) copy_elements(in.dtype(), out.raw(), in.raw(), in.num_elements());
    dispatch_width(out.dtype(), [&]<typename T>() {
      const T* x = diagonal.flat<T>();
      T* to = out.flat<T>();
      for_band(band, in.shape().product(0, in.rank() - 2), [=](int64_t m, int64_t b) { to[m] = x[b]; });
    });
  }
};
REGISTER(kernel("MatrixSetDiag").make<MatrixSetDiag>());
REGISTER(kernel("MatrixSetDiagV2").make<MatrixSetDiag>());
REGISTER(kernel("MatrixSetDiagV3").make<MatrixSetDiag>());

// Keeps `num_lower` diagonals below the main one and `num_upper` above it (negative: all of them).
void matrix_band_part(Context& ctx) {
  const Tensor& in = ctx.input(0);
  require(in.rank() >= 2, "the input must be at least a matrix, got shape ", in.shape());
  const int64_t rows = in.dim(in.rank() - 2), columns = in.dim(in.rank() - 1);
  require(ctx.input(1).rank() == 0, "num_lower must be a scalar, got shape ", ctx.input(1).shape());
  require(ctx.input(2).rank() == 0, "num_upper must be a scalar, got shape ", ctx.input(2).shape());
  int64_t lower = to_int64(ctx.input(1)), upper = to_int64(ctx.input(2));
  require(lower <= rows, "num_lower must be negative or at most the number of rows, ", rows, ", got ", lower);
  require(upper <= columns, "num_upper must be negative or at most the number of columns, ", columns, ", got ", upper);
  if (lower < 0) lower = rows;
  if (upper < 0) upper = columns;
  Tensor& out = ctx.forward_or_allocate({0}, 0, in.shape());
  if (out.num_elements() == 0) return;
  dispatch_width(out.dtype(), [&]<typename T>() {
    const T* from = in.flat<T>();
    T* to = out.flat<T>();
    parallel_for(out.num_elements() / columns, std::max<int64_t>(1, 16384 / columns), [=](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const int64_t row = r % rows, first = std::clamp<int64_t>(row - lower, 0, columns);
        const int64_t last = std::clamp<int64_t>(row + upper + 1, first, columns);
        const T* x = from + r * columns;
        T* y = to + r * columns;
        std::fill(y, y + first, T{});
        if (x != y) std::copy(x + first, x + last, y + first);
        std::fill(y + last, y + columns, T{});
      }
    });
  });
}
REGISTER(kernel("MatrixBandPart").function<matrix_band_part>());

// A tensor of shape s becomes one of shape s + s that is zero off the diagonal.
void diag(Context& ctx) {
  const Tensor& in = ctx.input(0);
  require(in.rank() >= 1, "the input must be at least a vector, got a scalar");
  std::vector<int64_t> dims = in.shape().to_vector();
  dims.insert(dims.end(), in.shape().begin(), in.shape().end());
  Tensor& out = ctx.allocate(0, Shape(dims));
  zero_elements(out.dtype(), out.raw(), out.num_elements());
  const int64_t n = in.num_elements();
  dispatch_width(in.dtype(), [&]<typename T>() {
    for (int64_t i = 0; i < n; ++i) out.flat<T>()[i * (n + 1)] = in.flat<T>()[i];
  });
}
REGISTER(kernel("Diag").function<diag>());

void diag_part(Context& ctx) {
  const Tensor& in = ctx.input(0);
  const int half = in.rank() / 2;
  bool symmetric = in.rank() % 2 == 0 && in.rank() > 0;
  for (int i = 0; symmetric && i < half; ++i) symmetric = in.dim(i) == in.dim(half + i);
  require(symmetric, "the input must have a shape [d0, ..., dn, d0, ..., dn] of even and positive rank, got ",
          in.shape());
  Tensor& out = ctx.allocate(0, Shape(in.shape().dims().subspan(0, half)));
  const int64_t n = out.num_elements();
  dispatch_width(in.dtype(), [&]<typename T>() {
    for (int64_t i = 0; i < n; ++i) out.flat<T>()[i] = in.flat<T>()[i * (n + 1)];
  });
}
REGISTER(kernel("DiagPart").function<diag_part>());

}  // namespace
}  // namespace thalweg
