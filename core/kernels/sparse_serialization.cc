// Sparse values as strings, byte for byte as TensorFlow writes them: three serialized TensorProtos each.
#include "compute/copies/elements.h"
#include "compute/parsing/parsed_tensor.h"
#include "compute/sparse/sparse_input.h"
#include "io/tensor_proto.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

using Serializable = Join<Join<NumbersAndBool, Quantized>, Types<DType::string>>;

std::string serialized(const int64_t* numbers, std::initializer_list<int64_t> dims) {
  std::string out;
  int64_t count = 1;
  for (const int64_t d : dims) count *= d;
  out.reserve(static_cast<size_t>(count) * sizeof(int64_t) + 32);
  tensor_proto::put_head(out, DType::int64, dims);
  tensor_proto::put_content(out,
                            {reinterpret_cast<const char*>(numbers), static_cast<size_t>(count) * sizeof(int64_t)});
  return out;
}

// Elements [begin, end) of a vector.
std::string serialized(const Tensor& values, int64_t begin, int64_t end) {
  std::string out;
  const int64_t dims[] = {end - begin};
  const size_t width = values.dtype() == DType::string ? 0 : size_of(values.dtype());
  out.reserve(static_cast<size_t>(end - begin) * width + 16);
  tensor_proto::put_head(out, values.dtype(), dims);
  if (values.dtype() == DType::string)
    for (int64_t i = begin; i < end; ++i) tensor_proto::put_string(out, values.strings()[i]);
  else
    tensor_proto::put_content(out, {static_cast<const char*>(values.raw()) + begin * static_cast<int64_t>(width),
                                    static_cast<size_t>(end - begin) * width});
  return out;
}

void require_strings(Context& ctx) {
  require(ctx.output_dtype(0) == DType::string, "sparse values are serialized to strings only, not to ",
          ctx.output_dtype(0));
}

void serialize_sparse(Context& ctx) {
  require_strings(ctx);
  const SparseInput x(ctx, 0);
  std::string* to = ctx.allocate(0, Shape{3}).strings();
  to[0] = serialized(x.indices, {x.count, x.rank});
  to[1] = serialized(x.values, 0, x.count);
  to[2] = serialized(x.sizes.data(), {x.rank});
}
REGISTER(kernel("SerializeSparse").types("T", Serializable{}).function<serialize_sparse>());

// Each row of the first dimension by itself.
void serialize_many_sparse(Context& ctx) {
  require_strings(ctx);
  const SparseInput x(ctx, 0);
  if (x.rank < 2) fail(Code::invalid_argument, "a minibatch must have rank 2 or more, got shape ", listed(x.sizes));
  std::string* to = ctx.allocate(0, Shape{x.sizes[0], 3}).strings();
  // Without the first dimension, row after row.
  const int64_t rank = x.rank - 1;
  std::vector<int64_t> rows(x.count), indices(x.count * rank);
  for (int64_t i = 0; i < x.count; ++i) rows[i] = x.row(i)[0];
  const std::vector<uint32_t> order = sorting_order(rows);
  Tensor values = x.values;
  if (!order.empty()) {
    values = Tensor(x.values.dtype(), x.values.shape());
    dispatch_width(values.dtype(), [&]<typename T>() {
      for (int64_t i = 0; i < x.count; ++i) values.flat<T>()[i] = x.values.template flat<T>()[order[i]];
    });
  }
  for (int64_t i = 0; i < x.count; ++i)
    std::copy_n(x.row(order.empty() ? i : order[i]) + 1, rank, indices.data() + i * rank);
  if (!order.empty()) std::sort(rows.begin(), rows.end());
  const std::string rest = serialized(x.sizes.data() + 1, {rank});
  for (int64_t row = 0, begin = 0; row < x.sizes[0]; ++row, to += 3) {
    int64_t end = begin;
    while (end < x.count && rows[end] == row) ++end;
    to[0] = serialized(indices.data() + begin * rank, {end - begin, rank});
    to[1] = serialized(values, begin, end);
    to[2] = rest;
    begin = end;
  }
}
REGISTER(kernel("SerializeManySparse").types("T", Serializable{}).function<serialize_many_sparse>());

// One sparse value that was serialized, and the indices in front of its own.
struct Part {
  Tensor indices, values, shape;
};

Tensor parsed(const std::string& message, DType dtype, int rank, std::string_view what) {
  Tensor out = parsed_tensor(message, dtype, what);
  require(out.rank() == rank, what, " must have rank ", rank, ", got shape ", out.shape());
  return out;
}

// A tensor [..., 3] of strings as one sparse value; the shapes of its parts are made as large as the largest.
template <bool kMany>
void deserialize_sparse(Context& ctx) {
  const Tensor& in = ctx.input(0);
  require(in.dtype() == DType::string, "sparse values are read from strings only, not from ", in.dtype());
  const int outer = in.rank() - 1;
  require(outer >= 0 && in.dim(outer) == 3 && (!kMany || outer == 1), "serialized_sparse must have ",
          kMany ? "shape [N, 3]" : "a last dimension of 3", ", got shape ", in.shape());
  const int64_t count = in.num_elements() / 3;
  require(count > 0, "cannot tell the rank of a sparse value from none at all");
  std::vector<Part> parts(count);
  std::vector<int64_t> largest;
  int64_t elements = 0;
  for (int64_t i = 0; i < count; ++i) {
    const std::string* texts = in.strings() + 3 * i;
    Part& part = parts[i];
    part = {parsed(texts[0], DType::int64, 2, "the serialized indices"),
            parsed(texts[1], ctx.output_dtype(1), 1, "the serialized values"),
            parsed(texts[2], DType::int64, 1, "the serialized shape")};
    const SparseInput x(part.indices, part.values, part.shape, "a serialized value");
    require(i == 0 || largest.size() == x.sizes.size(), "element ", i, " has rank ", x.rank, ", others ",
            largest.size());
    largest.resize(x.sizes.size());
    for (size_t d = 0; d < largest.size(); ++d) largest[d] = std::max(largest[d], x.sizes[d]);
    elements += x.count;
  }
  std::vector<int64_t> whole(in.shape().begin(), in.shape().end() - 1);
  whole.insert(whole.end(), largest.begin(), largest.end());
  Tensor shape = Tensor::vector<int64_t>(whole);
  checked_dense_shape(shape, "the whole");
  const int64_t inner = static_cast<int64_t>(largest.size()), rank = outer + inner;
  int64_t* index = ctx.allocate(0, Shape{elements, rank}).flat<int64_t>();
  Tensor& values = ctx.allocate(1, Shape{elements});
  int64_t first = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t* from = parts[i].indices.template flat<int64_t>();
    const int64_t n = parts[i].values.num_elements();
    for (int64_t k = 0; k < n; ++k, from += inner, index += rank) {
      int64_t rest = i;
      for (int d = outer; d-- > 0; rest /= whole[d]) index[d] = rest % whole[d];
      std::copy_n(from, inner, index + outer);
    }
    copy_elements(values.dtype(), element_at(values.dtype(), values.raw(), first), parts[i].values.raw(), n);
    first += n;
  }
  ctx.set_output(2, std::move(shape));
}
REGISTER(kernel("DeserializeSparse").types("dtype", Serializable{}).function<deserialize_sparse<false>>());
REGISTER(kernel("DeserializeManySparse").types("dtype", Serializable{}).function<deserialize_sparse<true>>());

}  // namespace
}  // namespace thalweg
