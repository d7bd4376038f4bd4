// batch and unbatch.
#include "data/batch_buffer.h"
#include "data/stages.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

class Batch final : public UnaryDataset {
 public:
  Batch(Signature signature, DatasetPtr input, int64_t size, bool drop_remainder)
      : UnaryDataset(std::move(signature), std::move(input)), size_(size), drop_remainder_(drop_remainder) {
    require(size > 0, "Batch size must be greater than zero.");
  }
  int64_t cardinality() const override {
    int64_t n = input()->cardinality();
    return n < 0 ? n : n / size_ + (n % size_ == 0 || drop_remainder_ ? 0 : 1);
  }
  std::unique_ptr<DatasetIterator> iterate(const Making& making) const override {
    return std::make_unique<Walk>(input()->iterate(making), size_, drop_remainder_);
  }

 private:
  struct Walk final : UnaryIterator {
    Walk(std::unique_ptr<DatasetIterator> input, int64_t size, bool drop_remainder)
        : UnaryIterator(std::move(input)), batch(size), drop_remainder(drop_remainder) {}
    Pulled next(Pull& pull, Element& out) override {
      if (ended) return Pulled::end;
      try {
        while (!batch.full()) {
          pull.look();
          Pulled pulled = input_->next(pull, element);
          if (pulled == Pulled::later) return pulled;
          if (pulled == Pulled::end) {
            ended = true;
            break;
          }
          batch.add(element);
        }
      } catch (...) {
        batch.clear();  // the batch is lost as a whole
        throw;
      }
      if (batch.size() == 0 || (drop_remainder && !batch.full())) {
        batch.clear();
        return Pulled::end;
      }
      batch.take(out);
      return Pulled::element;
    }
    void save(StateWriter& out) override {
      out.tag("BatchDataset");
      out.integer(ended);
      batch.save(out);
      input_->save(out);
    }
    void restore(StateReader& in) override {
      in.tag("BatchDataset");
      ended = in.integer() != 0;
      batch.restore(in);
      input_->restore(in);
    }
    Element element;
    BatchBuffer batch;
    const bool drop_remainder;
    bool ended = false;
  };
  const int64_t size_;
  const bool drop_remainder_;
};

void batch(Context& ctx) {
  DatasetPtr input = dataset_input(ctx, 0);
  Signature signature = same_types(ctx, *input);
  bool drop = ctx.num_inputs() > 2 && bool_input(ctx, 2, "drop_remainder");
  set_dataset<Batch>(ctx, std::move(signature), std::move(input), int_input(ctx, 1, "batch_size"), drop);
}

class Unbatch final : public UnaryDataset {
 public:
  using UnaryDataset::UnaryDataset;
  int64_t cardinality() const override {
    int64_t n = input()->cardinality();
    if (n <= 0 || input()->signature().shapes.empty()) return n;
    const PartialShape& shape = input()->signature().shapes[0];
    if (!shape.known_rank || shape.dims.empty() || shape.dims[0] < 0) return kUnknown;
    int64_t product;
    return __builtin_mul_overflow(n, shape.dims[0], &product) ? INT64_MAX : product;
  }
  std::unique_ptr<DatasetIterator> iterate(const Making& making) const override {
    return std::make_unique<Walk>(input()->iterate(making));
  }

 private:
  struct Walk final : UnaryIterator {
    using UnaryIterator::UnaryIterator;
    Pulled next(Pull& pull, Element& out) override {
      while (at >= rows) {
        pull.look();
        Pulled pulled = input_->next(pull, current);
        if (pulled != Pulled::element) return pulled;
        at = 0;
        rows = 0;
        for (size_t i = 0; i < current.size(); ++i) {
          require(current[i].rank() > 0, "Unbatch requires inputs of at least rank 1, but component ", i,
                  " is a scalar.");
          require(i == 0 || current[i].dim(0) == current[0].dim(0), "Input element must have the same batch size in ",
                  "each component. Component 0 had size ", current[0].dim(0), " but component ", i, " had size ",
                  current[i].dim(0), ".");
        }
        if (!current.empty()) rows = current[0].dim(0);
      }
      out.resize(current.size());
      for (size_t i = 0; i < current.size(); ++i) {
        const Tensor& all = current[i];
        Shape shape = all.shape().removed(0);
        size_t bytes = static_cast<size_t>(shape.num_elements()) * size_of(all.dtype());
        const char* from = static_cast<const char*>(all.raw()) + static_cast<size_t>(at) * bytes;
        out[i] = Tensor(all.dtype(), shape);
        copy_elements(all.dtype(), out[i].raw(), from, shape.num_elements());
      }
      if (++at == rows) current.clear();
      return Pulled::element;
    }
    void save(StateWriter& out) override {
      out.tag("UnbatchDataset");
      out.integer(rows - at);
      if (at < rows) {
        Element rest;
        for (const Tensor& all : current) rest.push_back(all.rows(at, rows - at));
        out.element(rest);
      }
      input_->save(out);
    }
    void restore(StateReader& in) override {
      in.tag("UnbatchDataset");
      at = 0;
      rows = in.integer();
      if (rows > 0) {
        current = in.element();
        for (const Tensor& all : current)
          if (all.rank() == 0 || all.dim(0) != rows)
            fail(Code::data_loss, "the saved position of an iterator is damaged: a batch that cannot be");
      }
      input_->restore(in);
    }
    Element current;
    int64_t at = 0, rows = 0;
  };
};

void unbatch(Context& ctx) {
  DatasetPtr input = dataset_input(ctx, 0);
  Signature signature = same_types(ctx, *input);
  set_dataset<Unbatch>(ctx, std::move(signature), std::move(input));
}

REGISTER(kernel("BatchDataset").function<batch>());
REGISTER(kernel("BatchDatasetV2").function<batch>());
REGISTER(kernel("UnbatchDataset").function<unbatch>());
REGISTER(kernel("ExperimentalUnbatchDataset").function<unbatch>());

}  // namespace

DatasetPtr batched(Signature signature, DatasetPtr input, int64_t size, bool drop_remainder) {
  return std::make_shared<const Batch>(std::move(signature), std::move(input), size, drop_remainder);
}

}  // namespace thalweg
