// padded_batch: elements of different sizes, padded to one shape and stacked.
#include "data/batch_buffer.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

struct Padding {
  std::vector<std::vector<int64_t>> shapes;  // -1: the largest of the batch
  Element values;                            // scalars
};

// Fills `count` elements with the padding value.
void fill_with(const Tensor& value, void* to, int64_t count) {
  if (value.dtype() == DType::string) {
    std::fill_n(static_cast<std::string*>(to), count, *value.strings());
    return;
  }
  const size_t width = size_of(value.dtype());
  const char* from = static_cast<const char*>(value.raw());
  bool zero = std::all_of(from, from + width, [](char c) { return c == 0; });
  if (zero) {
    std::memset(to, 0, static_cast<size_t>(count) * width);
    return;
  }
  for (int64_t i = 0; i < count; ++i) std::memcpy(static_cast<char*>(to) + static_cast<size_t>(i) * width, from, width);
}

// Copies a block into the corner of a larger one of the same rank.
void place(const Tensor& from, const Shape& padded, char* to) {
  const size_t width = size_of(from.dtype());
  if (from.num_elements() == 0) return;
  if (from.rank() == 0 || from.shape() == padded) {
    put_elements(from, to);
    return;
  }
  const int last = from.rank() - 1;
  const int64_t run = from.dim(last);
  std::vector<int64_t> index(static_cast<size_t>(from.rank()), 0);
  const char* source = static_cast<const char*>(from.raw());
  for (int64_t rows = from.num_elements() / run; rows > 0; --rows, source += static_cast<size_t>(run) * width) {
    int64_t offset = 0;
    for (int d = 0; d <= last; ++d) offset = offset * padded[d] + index[static_cast<size_t>(d)];
    copy_elements(from.dtype(), to + static_cast<size_t>(offset) * width, source, run);
    for (int d = last - 1; d >= 0; --d) {
      if (++index[static_cast<size_t>(d)] < from.dim(d)) break;
      index[static_cast<size_t>(d)] = 0;
    }
  }
}

Tensor padded_rows(const std::vector<Element>& elements, size_t component, const std::vector<int64_t>& wanted,
                   const Tensor& value) {
  std::vector<int64_t> dims = wanted;
  for (const Element& element : elements) {
    const Shape& shape = element[component].shape();
    require(shape.rank() == static_cast<int>(wanted.size()),
            "All elements in a batch must have the same rank as the padded shape for component ", component,
            ": expected rank ", wanted.size(), " but got element with rank ", shape.rank());
    for (int d = 0; d < shape.rank(); ++d) {
      int64_t& size = dims[static_cast<size_t>(d)];
      if (wanted[static_cast<size_t>(d)] < 0)
        size = std::max(size, shape[d]);
      else if (shape[d] > size)
        fail(Code::data_loss, "Attempted to pad to a smaller size than the input element: component ", component,
             " has shape ", shape, ", which does not fit into ", size, " in dimension ", d);
    }
  }
  Shape each(dims);
  Tensor out(value.dtype(), each.inserted(0, static_cast<int64_t>(elements.size())));
  const size_t stride = static_cast<size_t>(each.num_elements()) * size_of(value.dtype());
  char* to = static_cast<char*>(out.raw());
  for (const Element& element : elements) {
    require(element[component].dtype() == value.dtype(), "component ", component, " has type ",
            element[component].dtype(), ", its padding ", value.dtype());
    if (element[component].shape() != each) fill_with(value, to, each.num_elements());
    place(element[component], each, to);
    to += stride;
  }
  return out;
}

class PaddedBatch final : public UnaryDataset {
 public:
  PaddedBatch(Signature signature, DatasetPtr input, int64_t size, Padding padding, bool drop_remainder)
      : UnaryDataset(std::move(signature), std::move(input)),
        size_(size),
        padding_(std::make_shared<const Padding>(std::move(padding))),
        drop_remainder_(drop_remainder) {
    require(size > 0, "Batch size must be greater than zero.");
  }
  int64_t cardinality() const override {
    int64_t n = input()->cardinality();
    return n < 0 ? n : n / size_ + (n % size_ == 0 || drop_remainder_ ? 0 : 1);
  }
  std::unique_ptr<DatasetIterator> iterate(const Making& making) const override {
    return std::make_unique<Walk>(input()->iterate(making), size_, padding_, drop_remainder_);
  }

 private:
  struct Walk final : UnaryIterator {
    Walk(std::unique_ptr<DatasetIterator> input, int64_t size, std::shared_ptr<const Padding> padding, bool drop)
        : UnaryIterator(std::move(input)), size(static_cast<size_t>(size)), padding(std::move(padding)), drop(drop) {}
    Pulled next(Pull& pull, Element& out) override {
      try {
        while (!ended && elements.size() < size) {
          pull.look();
          Element element;
          Pulled pulled = input_->next(pull, element);
          if (pulled == Pulled::later) return pulled;
          if (pulled == Pulled::end)
            ended = true;
          else
            elements.push_back(std::move(element));
        }
        if (elements.empty() || (drop && elements.size() < size)) {
          elements.clear();
          return Pulled::end;
        }
        out.resize(padding->values.size());
        for (size_t i = 0; i < out.size(); ++i)
          out[i] = padded_rows(elements, i, padding->shapes[i], padding->values[i]);
      } catch (...) {
        elements.clear();
        throw;
      }
      elements.clear();
      return Pulled::element;
    }
    void save(StateWriter& out) override {
      out.tag("PaddedBatchDataset");
      out.integer(ended);
      out.integer(static_cast<int64_t>(elements.size()));
      for (const Element& element : elements) out.element(element);
      input_->save(out);
    }
    void restore(StateReader& in) override {
      in.tag("PaddedBatchDataset");
      ended = in.integer() != 0;
      elements.clear();
      for (int64_t n = in.count(); n > 0; --n) elements.push_back(in.element());
      input_->restore(in);
    }
    const size_t size;
    const std::shared_ptr<const Padding> padding;
    const bool drop;
    std::vector<Element> elements;
    bool ended = false;
  };
  const int64_t size_;
  const std::shared_ptr<const Padding> padding_;
  const bool drop_remainder_;
};

void padded_batch(Context& ctx) {
  DatasetPtr input = dataset_input(ctx, 0);
  Signature signature = declared_signature(ctx.def(), "Toutput_types");
  require(signature.types == input->signature().types, "the node declares elements of types ", str(signature.types),
          ", but its input has ", str(input->signature().types));
  const int n = static_cast<int>(input->width());
  const bool drops = ctx.num_inputs() == 3 + 2 * n;
  require(drops || ctx.num_inputs() == 2 + 2 * n, "a padded batch of ", n, " components has ", ctx.num_inputs(),
          " inputs");
  Padding padding;
  for (int i = 0; i < n; ++i) {
    const Tensor& shape = ctx.input(2 + i);
    require(shape.rank() == 1, "All padded shapes must be vectors, got shape ", shape.shape());
    padding.shapes.push_back(to_int64s(shape));
    const Tensor& value = ctx.input(2 + n + i);
    require(value.num_elements() == 1, "All padding values must be scalars, got shape ", value.shape());
    require(value.dtype() == signature.types[static_cast<size_t>(i)], "padding value ", i, " has type ", value.dtype(),
            ", the component ", signature.types[static_cast<size_t>(i)]);
    require(is_plain(value.dtype()) || value.dtype() == DType::string, "elements of type ", value.dtype(),
            " cannot be padded");
    padding.values.push_back(value.owned());
  }
  set_dataset<PaddedBatch>(ctx, std::move(signature), std::move(input), int_input(ctx, 1, "batch_size"),
                           std::move(padding), drops && bool_input(ctx, 2 + 2 * n, "drop_remainder"));
}

REGISTER(kernel("PaddedBatchDataset").function<padded_batch>());
REGISTER(kernel("PaddedBatchDatasetV2").function<padded_batch>());

}  // namespace
}  // namespace thalweg
