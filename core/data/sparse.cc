// Sparse values on their way through datasets: rows of three variants, slices of them, dense rows as sparse batches.
#include "data/boxed_tensor.h"
#include "data/dataset.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

void put(Tensor& row, int64_t i, Tensor value) {
  row.flat<ResourceHandle>()[i].resource = std::make_shared<BoxedTensor>(std::move(value));
}

const Tensor& box(const Tensor& rows, int64_t i) {
  auto* boxed = dynamic_cast<BoxedTensor*>(rows.flat<ResourceHandle>()[i].resource.get());
  require(boxed != nullptr, "expected the variants of a sparse tensor, got something else");
  return boxed->value();
}

void check_sparse(const Tensor& indices, const Tensor& values, const Tensor& shape) {
  require(indices.dtype() == DType::int64 && indices.rank() == 2, "Input indices should be a matrix but received ",
          "shape ", indices.shape());
  require(values.rank() == 1, "Input values should be a vector but received shape ", values.shape());
  require(shape.dtype() == DType::int64 && shape.rank() == 1, "Input shape should be a vector but received shape ",
          shape.shape());
  require(indices.dim(0) == values.dim(0) && indices.dim(1) == shape.dim(0), "indices of shape ", indices.shape(),
          " do not fit ", values.dim(0), " values of rank ", shape.dim(0));
}

void serialize_sparse(Context& ctx) {
  Tensor indices = ctx.input(0).owned(), values = ctx.input(1).owned(), shape = ctx.input(2).owned();
  check_sparse(indices, values, shape);
  Tensor& out = ctx.allocate(0, Shape{3});
  put(out, 0, std::move(indices));
  put(out, 1, std::move(values));
  put(out, 2, std::move(shape));
}

// One row [3] for each slice along the first dimension; the indices must be in order.
Tensor slices_of(const Tensor& indices, const Tensor& values, const Tensor& shape) {
  check_sparse(indices, values, shape);
  const int64_t rank = shape.dim(0), count = indices.dim(0);
  require(rank >= 1, "a sparse scalar has no slices");
  const int64_t* sizes = shape.flat<int64_t>();
  const int64_t* index = indices.flat<int64_t>();
  for (int64_t d = 0; d < rank; ++d) require(sizes[d] >= 0, "a sparse tensor with the size ", sizes[d]);
  Tensor out(DType::variant, Shape{sizes[0], 3});
  int64_t at = 0;
  for (int64_t row = 0; row < sizes[0]; ++row) {
    int64_t end = at;
    while (end < count && index[end * rank] == row) ++end;
    Tensor part(DType::int64, Shape{end - at, rank - 1}), size(DType::int64, Shape{rank - 1});
    for (int64_t k = at; k < end; ++k)
      std::copy_n(index + k * rank + 1, rank - 1, part.flat<int64_t>() + (k - at) * (rank - 1));
    std::copy_n(sizes + 1, rank - 1, size.flat<int64_t>());
    put(out, row * 3, std::move(part));
    put(out, row * 3 + 1, values.rows(at, end - at).clone());
    put(out, row * 3 + 2, std::move(size));
    at = end;
  }
  require(at == count, "the indices of a sparse tensor must be in order and inside its shape: entry ", at,
          " is in row ", at < count ? index[at * rank] : 0, " of ", sizes[0]);
  return out;
}

void serialize_many(Context& ctx) { ctx.set_output(0, slices_of(ctx.input(0), ctx.input(1), ctx.input(2))); }

void deserialize_sparse(Context& ctx) {
  const Tensor& rows = ctx.input(0);
  require(rows.dtype() == DType::variant && rows.rank() >= 1 && rows.dim(rows.rank() - 1) == 3,
          "Serialized sparse should have non-zero rank and a last dimension of 3, got shape ", rows.shape());
  const int leading = rows.rank() - 1;
  const int64_t n = rows.num_elements() / 3;
  int64_t total = 0, rank = 0;
  DType dtype = ctx.output_dtype(1);
  for (int64_t i = 0; i < n; ++i) {
    const Tensor &indices = box(rows, 3 * i), &values = box(rows, 3 * i + 1), &shape = box(rows, 3 * i + 2);
    check_sparse(indices, values, shape);
    require(values.dtype() == dtype, "Requested SparseTensor of type ", dtype, " but got values of type ",
            values.dtype());
    require(i == 0 || shape.dim(0) == rank, "Inconsistent rank across SparseTensors: rank prior to SparseTensor[", i,
            "] was: ", rank, " but rank of SparseTensor[", i, "] is: ", shape.dim(0));
    rank = shape.dim(0);
    total += values.dim(0);
  }
  Tensor indices(DType::int64, Shape{total, leading + rank}), values(dtype, Shape{total});
  Tensor shape(DType::int64, Shape{leading + rank});
  int64_t* sizes = shape.flat<int64_t>();
  std::fill_n(sizes, leading + rank, int64_t{0});
  for (int d = 0; d < leading; ++d) sizes[d] = rows.dim(d);
  int64_t* index = indices.flat<int64_t>();
  int64_t at = 0;
  std::vector<int64_t> place(static_cast<size_t>(leading), 0);
  for (int64_t i = 0; i < n; ++i) {
    const Tensor& from = box(rows, 3 * i);
    const Tensor& from_values = box(rows, 3 * i + 1);
    const int64_t* from_sizes = box(rows, 3 * i + 2).flat<int64_t>();
    for (int64_t d = 0; d < rank; ++d) sizes[leading + d] = std::max(sizes[leading + d], from_sizes[d]);
    for (int64_t k = 0; k < from.dim(0); ++k) {
      index = std::copy(place.begin(), place.end(), index);
      index = std::copy_n(from.flat<int64_t>() + k * rank, rank, index);
    }
    copy_elements(dtype, static_cast<char*>(values.raw()) + static_cast<size_t>(at) * size_of(dtype), from_values.raw(),
                  from_values.num_elements());
    at += from_values.num_elements();
    for (int d = leading - 1; d >= 0; --d) {
      if (++place[static_cast<size_t>(d)] < rows.dim(d)) break;
      place[static_cast<size_t>(d)] = 0;
    }
  }
  ctx.set_output(0, std::move(indices));
  ctx.set_output(1, std::move(values));
  ctx.set_output(2, std::move(shape));
}

class Rows final : public Dataset {
 public:
  explicit Rows(Tensor rows) : Dataset({{DType::variant}, {PartialShape{true, {3}}}}), rows_(std::move(rows)) {}
  int64_t cardinality() const override { return rows_.dim(0); }
  std::unique_ptr<DatasetIterator> iterate(const Making&) const override { return std::make_unique<Walk>(rows_); }

 private:
  struct Walk final : DatasetIterator {
    explicit Walk(Tensor rows) : rows(std::move(rows)) {}
    Pulled next(Pull&, Element& out) override {
      if (at >= rows.dim(0)) return Pulled::end;
      out.resize(1);
      out[0] = rows.rows(at++, 1).reshaped(Shape{3}).clone();
      return Pulled::element;
    }
    void save(StateWriter& out) override {
      out.tag("SparseTensorSliceDataset");
      out.integer(at);
    }
    void restore(StateReader& in) override {
      in.tag("SparseTensorSliceDataset");
      at = std::max<int64_t>(0, in.integer());
    }
    const Tensor rows;
    int64_t at = 0;
  };
  const Tensor rows_;
};

void sparse_slices(Context& ctx) { set_dataset<Rows>(ctx, slices_of(ctx.input(0), ctx.input(1), ctx.input(2))); }

// Dense rows of different sizes as one sparse tensor.
class SparseBatch final : public UnaryDataset {
 public:
  SparseBatch(Signature signature, DatasetPtr input, int64_t size, std::vector<int64_t> shape)
      : UnaryDataset(std::move(signature), std::move(input)), size_(size), shape_(std::move(shape)) {
    require(size > 0, "Batch size must be greater than zero.");
    for (int64_t d : shape_) require(d >= -1, "Dimensions of row_shape must be at least -1 (any size), got ", d);
    require(this->input()->width() == 1, "DenseToSparseBatchDataset only supports inputs with a single component.");
  }
  int64_t cardinality() const override {
    int64_t n = input()->cardinality();
    return n < 0 ? n : n / size_ + (n % size_ != 0);
  }
  std::unique_ptr<DatasetIterator> iterate(const Making& making) const override {
    return std::make_unique<Walk>(input()->iterate(making), size_, shape_);
  }

 private:
  struct Walk final : UnaryIterator {
    Walk(std::unique_ptr<DatasetIterator> input, int64_t size, std::vector<int64_t> shape)
        : UnaryIterator(std::move(input)), size(size), shape(std::move(shape)) {}
    Pulled next(Pull& pull, Element& out) override {
      while (!ended && static_cast<int64_t>(elements.size()) < size) {
        Pulled pulled = input_->next(pull, element);
        if (pulled == Pulled::later) return pulled;
        if (pulled == Pulled::end)
          ended = true;
        else
          elements.push_back(std::move(element.at(0)));
      }
      if (elements.empty()) return Pulled::end;
      std::vector<Tensor> batch = std::move(elements);
      elements.clear();
      out.resize(1);
      out[0] = joined(batch);
      return Pulled::element;
    }
    Tensor joined(const std::vector<Tensor>& batch) const {
      const auto rank = static_cast<int64_t>(shape.size());
      std::vector<int64_t> sizes = shape;
      int64_t total = 0;
      for (const Tensor& row : batch) {
        require(row.rank() == rank, "Input element had shape ", row.shape(), " that is incompatible with the row ",
                "shape of rank ", rank, ".");
        for (int d = 0; d < row.rank(); ++d) {
          int64_t& limit = sizes[static_cast<size_t>(d)];
          if (shape[static_cast<size_t>(d)] < 0)
            limit = std::max(limit, row.dim(d));
          else if (row.dim(d) > limit)
            fail(Code::data_loss, "Input element had shape ", row.shape(), " that exceeds the row shape in dimension ",
                 d, ": ", limit, ".");
        }
        total += row.num_elements();
      }
      DType dtype = batch[0].dtype();
      Tensor indices(DType::int64, Shape{total, rank + 1}), values(dtype, Shape{total});
      Tensor dense(DType::int64, Shape{rank + 1});
      dense.flat<int64_t>()[0] = static_cast<int64_t>(batch.size());
      for (int64_t d = 0; d < rank; ++d)
        dense.flat<int64_t>()[d + 1] = std::max<int64_t>(0, sizes[static_cast<size_t>(d)]);
      int64_t* index = indices.flat<int64_t>();
      char* to = static_cast<char*>(values.raw());
      for (size_t b = 0; b < batch.size(); ++b) {
        const Tensor& row = batch[b];
        copy_elements(dtype, to, row.raw(), row.num_elements());
        to += row.bytes();
        for (int64_t k = 0; k < row.num_elements(); ++k, index += rank + 1) {
          index[0] = static_cast<int64_t>(b);
          int64_t rest = k;
          for (int d = row.rank() - 1; d >= 0; --d) {
            index[d + 1] = rest % row.dim(d);
            rest /= row.dim(d);
          }
        }
      }
      Tensor out(DType::variant, Shape{3});
      put(out, 0, std::move(indices));
      put(out, 1, std::move(values));
      put(out, 2, std::move(dense));
      return out;
    }
    void save(StateWriter& out) override {
      out.tag("DenseToSparseBatchDataset");
      out.integer(ended);
      out.element(elements);
      input_->save(out);
    }
    void restore(StateReader& in) override {
      in.tag("DenseToSparseBatchDataset");
      ended = in.integer() != 0;
      elements = in.element();
      input_->restore(in);
    }
    const int64_t size;
    const std::vector<int64_t> shape;
    Element element;
    std::vector<Tensor> elements;
    bool ended = false;
  };
  const int64_t size_;
  const std::vector<int64_t> shape_;
};

void sparse_batch(Context& ctx) {
  const Tensor& shape = ctx.input(2);
  require(shape.rank() == 1, "row_shape must be a vector, got shape ", shape.shape());
  set_dataset<SparseBatch>(ctx, declared_signature(ctx.def()), dataset_input(ctx, 0), int_input(ctx, 1, "batch_size"),
                           to_int64s(shape));
}

using Variant = Types<DType::variant>;
REGISTER(kernel("SerializeSparse").types("out_type", Variant{}).function<serialize_sparse>());
REGISTER(kernel("SerializeManySparse").types("out_type", Variant{}).function<serialize_many>());
REGISTER(kernel("DeserializeSparse").types("Tserialized", Variant{}).function<deserialize_sparse>());
REGISTER(kernel("SparseTensorSliceDataset").function<sparse_slices>());
REGISTER(kernel("DenseToSparseBatchDataset").function<sparse_batch>());
REGISTER(kernel("ExperimentalDenseToSparseBatchDataset").function<sparse_batch>());

}  // namespace
}  // namespace thalweg
