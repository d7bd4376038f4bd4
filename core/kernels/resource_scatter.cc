// Reading and updating rows of a variable: ResourceGather, ResourceScatter*, and their Nd forms.
#include "kernels/elementwise.h"
#include "resource/variable.h"

namespace thalweg {
namespace {

struct Add {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(a + b);
  }
};
struct Sub {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(a - b);
  }
};
struct Mul {
  template <typename T>
  static T apply(T a, T b) {
    return static_cast<T>(a * b);
  }
};
struct Div {
  template <typename T>
  static T apply(T a, T b) {
    if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
      if (b == T(-1))
        return static_cast<T>(T(0) - static_cast<std::make_unsigned_t<T>>(a));  // The smallest / -1 traps.
    }
    return static_cast<T>(a / b);
  }
};
struct Min {
  template <typename T>
  static T apply(T a, T b) {
    return b < a ? b : a;
  }
};
struct Max {
  template <typename T>
  static T apply(T a, T b) {
    return a < b ? b : a;
  }
};

// Which rows of a tensor are meant: the tensor seen as [rows, width], and one row number per update.
struct Rows {
  int64_t rows = 1;
  int64_t width = 1;
  std::vector<int64_t> numbers;
  Shape update_shape;
};

std::string position(const Shape& shape, int64_t flat) {
  std::string out;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    out = cat(flat % shape[i], out.empty() ? "" : ",", out);
    flat /= shape[i];
  }
  return cat("indices[", out, "]");
}

// Indices along dimension 0.
Rows rows_of(const Shape& shape, const Tensor& indices, const std::string& variable) {
  require(shape.rank() >= 1, "variable '", variable, "' is a scalar: it has no rows to index");
  Rows out;
  out.rows = shape[0];
  out.width = shape.product(1, shape.rank());
  out.numbers = to_int64s(indices);
  for (size_t i = 0; i < out.numbers.size(); ++i)
    require(out.numbers[i] >= 0 && out.numbers[i] < out.rows, position(indices.shape(), i), " = ", out.numbers[i],
            " is not in [0, ", out.rows, ") for variable '", variable, "'");
  std::vector<int64_t> dims = indices.shape().to_vector();
  dims.insert(dims.end(), shape.begin() + 1, shape.end());
  out.update_shape = Shape(dims);
  return out;
}

// The last dimension of the indices holds positions in the first dimensions of the variable.
Rows rows_of_nd(const Shape& shape, const Tensor& indices, const std::string& variable) {
  require(indices.rank() >= 1, "indices must be at least a vector, got shape ", indices.shape());
  const int64_t depth = indices.dim(indices.rank() - 1);
  require(depth <= shape.rank(), "indices of shape ", indices.shape(), " index ", depth, " dimensions, but variable '",
          variable, "' has shape ", shape);
  Rows out;
  out.rows = shape.product(0, static_cast<int>(depth));
  out.width = shape.product(static_cast<int>(depth), shape.rank());
  std::vector<int64_t> outer(indices.shape().begin(), indices.shape().end() - 1);
  Shape outer_shape(outer);
  std::vector<int64_t> values = to_int64s(indices);
  out.numbers.assign(outer_shape.num_elements(), 0);
  for (size_t i = 0; i < out.numbers.size(); ++i) {
    for (int64_t d = 0; d < depth; ++d) {
      int64_t at = values[i * depth + d], size = shape[static_cast<int>(d)];
      require(at >= 0 && at < size, position(outer_shape, i), " = ", at, " in dimension ", d, " is not in [0, ", size,
              ") for variable '", variable, "' of shape ", shape);
      out.numbers[i] = out.numbers[i] * size + at;
    }
  }
  outer.insert(outer.end(), shape.begin() + depth, shape.end());
  out.update_shape = Shape(outer);
  return out;
}

using RowsOf = Rows (*)(const Shape&, const Tensor&, const std::string&);

// Calls body(row, update) for each update. Several threads share the work by rows, so that updates of one row stay in
// order: the result does not depend on the number of threads.
template <typename Body>
void for_each_update(const Rows& rows, const Body& body) {
  const int64_t work = static_cast<int64_t>(rows.numbers.size()) * rows.width;
  const int64_t grain =
      work <= kElementGrain ? rows.rows : std::max<int64_t>(1, rows.rows / (work / kElementGrain + 1));
  parallel_for(rows.rows, grain, [&](int64_t begin, int64_t end) {
    for (size_t i = 0; i < rows.numbers.size(); ++i)
      if (int64_t row = rows.numbers[i]; row >= begin && row < end) body(row, static_cast<int64_t>(i));
  });
}

template <typename F, typename TypeList>
void scatter_with(Tensor& value, const Rows& rows, const Tensor& updates) {
  const int64_t step = updates.rank() == 0 && rows.update_shape.rank() != 0 ? 0 : 1;  // A scalar goes to every element.
  dispatch(value.dtype(), TypeList{}, [&]<typename T>() {
    if constexpr (std::is_same_v<F, Div> && std::is_integral_v<T>) {
      for (int64_t i = 0; i < updates.num_elements(); ++i)
        require(updates.flat<T>()[i] != T(0), "integer division by zero in a scatter update");
    }
    T* out = value.flat<T>();
    const T* in = updates.flat<T>();
    for_each_update(rows, [&](int64_t row, int64_t update) {
      T* at = out + row * rows.width;
      binary_row<F>(at, 1, in + (step ? update * rows.width : 0), step, at, rows.width);
    });
  });
}

void scatter_copy(Tensor& value, const Rows& rows, const Tensor& updates) {
  const bool scalar = updates.rank() == 0 && rows.update_shape.rank() != 0;
  const size_t size = size_of(value.dtype());
  char* out = static_cast<char*>(value.raw());
  const char* in = static_cast<const char*>(updates.raw());
  for_each_update(rows, [&](int64_t row, int64_t update) {
    char* at = out + static_cast<size_t>(row * rows.width) * size;
    if (scalar) {
      for (int64_t k = 0; k < rows.width; ++k) copy_elements(value.dtype(), at + k * size, in, 1);
    } else {
      copy_elements(value.dtype(), at, in + static_cast<size_t>(update * rows.width) * size, rows.width);
    }
  });
}

using Scatter = void (*)(Tensor&, const Rows&, const Tensor&);

template <RowsOf rows_of, Scatter scatter>
void scatter_op(Context& ctx) {
  Variable& variable = ctx.resource<Variable>(0);
  const Tensor& indices = ctx.input(1);
  const Tensor& updates = ctx.input(2);
  require(variable.dtype() == updates.dtype(), "variable '", variable.name(), "' has type ", variable.dtype(),
          ", the updates have type ", updates.dtype());
  variable.update([&](Tensor& value) {
    Rows rows = rows_of(value.shape(), indices, variable.name());
    require(updates.rank() == 0 || updates.shape() == rows.update_shape, "updates of shape ", updates.shape(),
            " do not fit indices of shape ", indices.shape(), " into variable '", variable.name(), "' of shape ",
            value.shape(), ": expected ", rows.update_shape);
    if (updates.rank() == 0 && rows.numbers.empty()) return;
    scatter(value, rows, updates);
  });
}

void copy_rows(const Tensor& params, const Rows& rows, Tensor& out) {
  const size_t size = size_of(params.dtype()), bytes = size * static_cast<size_t>(rows.width);
  const char* in = static_cast<const char*>(params.raw());
  char* to = static_cast<char*>(out.raw());
  parallel_for(static_cast<int64_t>(rows.numbers.size()),
               std::max<int64_t>(1, kElementGrain / std::max<int64_t>(1, rows.width)), [&](int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i)
                   copy_elements(params.dtype(), to + i * bytes, in + rows.numbers[i] * bytes, rows.width);
               });
}

struct Gather : Kernel {
  explicit Gather(const Construction& c) : batch_dims(c.attr<int>("batch_dims", 0)) {}
  void compute(Context& ctx) override {
    Variable& variable = ctx.resource<Variable>(0);
    const Tensor& indices = ctx.input(1);
    require(variable.dtype() == ctx.output_dtype(0), "variable '", variable.name(), "' has type ", variable.dtype(),
            ", this op reads type ", ctx.output_dtype(0));
    Tensor params = variable.read();
    if (batch_dims == 0) {
      Rows rows = rows_of(params.shape(), indices, variable.name());
      copy_rows(params, rows, ctx.allocate(0, rows.update_shape));
      return;
    }
    const int batch = batch_dims < 0 ? batch_dims + indices.rank() : batch_dims;
    require(batch >= 0 && batch <= indices.rank() && batch < params.rank(), "batch_dims = ", batch_dims,
            " does not fit indices of shape ", indices.shape(), " and a variable of shape ", params.shape());
    for (int i = 0; i < batch; ++i)
      require(params.dim(i) == indices.dim(i), "batch dimension ", i, " of the variable is ", params.dim(i),
              ", that of the indices is ", indices.dim(i));
    Rows rows;
    rows.rows = params.dim(batch);
    rows.width = params.shape().product(batch + 1, params.rank());
    rows.numbers = to_int64s(indices);
    const int64_t per_batch = indices.shape().product(batch, indices.rank());
    for (size_t i = 0; i < rows.numbers.size(); ++i) {
      require(rows.numbers[i] >= 0 && rows.numbers[i] < rows.rows, position(indices.shape(), i), " = ", rows.numbers[i],
              " is not in [0, ", rows.rows, ")");
      rows.numbers[i] += static_cast<int64_t>(i) / per_batch * rows.rows;
    }
    std::vector<int64_t> dims = indices.shape().to_vector();
    dims.insert(dims.end(), params.shape().begin() + batch + 1, params.shape().end());
    copy_rows(params, rows, ctx.allocate(0, Shape(dims)));
  }
  int batch_dims;
};

void gather_nd(Context& ctx) {
  Variable& variable = ctx.resource<Variable>(0);
  require(variable.dtype() == ctx.output_dtype(0), "variable '", variable.name(), "' has type ", variable.dtype(),
          ", this op reads type ", ctx.output_dtype(0));
  Tensor params = variable.read();
  Rows rows = rows_of_nd(params.shape(), ctx.input(1), variable.name());
  copy_rows(params, rows, ctx.allocate(0, rows.update_shape));
}

REGISTER(kernel("ResourceGather").make<Gather>());
REGISTER(kernel("ResourceGatherNd").function<gather_nd>());
REGISTER(kernel("ResourceScatterUpdate").function<scatter_op<rows_of, scatter_copy>>());
REGISTER(kernel("ResourceScatterNdUpdate").function<scatter_op<rows_of_nd, scatter_copy>>());

#define REGISTER_SCATTER(Name, List)       \
  REGISTER(kernel("ResourceScatter" #Name) \
               .types("dtype", List{})     \
               .function<scatter_op<rows_of, scatter_with<Name, List>>>())
#define REGISTER_SCATTER_ND(Name, List)      \
  REGISTER(kernel("ResourceScatterNd" #Name) \
               .types("T", List{})           \
               .function<scatter_op<rows_of_nd, scatter_with<Name, List>>>())
REGISTER_SCATTER(Add, Numbers);
REGISTER_SCATTER(Sub, Numbers);
REGISTER_SCATTER(Mul, Numbers);
REGISTER_SCATTER(Div, Numbers);
REGISTER_SCATTER(Min, Reals);
REGISTER_SCATTER(Max, Reals);
REGISTER_SCATTER_ND(Add, Numbers);
REGISTER_SCATTER_ND(Sub, Numbers);
REGISTER_SCATTER_ND(Min, Reals);
REGISTER_SCATTER_ND(Max, Reals);

}  // namespace
}  // namespace thalweg
