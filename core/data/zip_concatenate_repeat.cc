// Datasets that join others: zip, concatenate, repeat.
#include "data/dataset.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

class Zip final : public Dataset {
 public:
  Zip(Signature signature, std::vector<DatasetPtr> inputs) : Dataset(std::move(signature)), inputs_(std::move(inputs)) {
    std::vector<DType> types;
    for (const DatasetPtr& input : inputs_)
      types.insert(types.end(), input->signature().types.begin(), input->signature().types.end());
    require(types == this->signature().types, "the node declares elements of types ", str(this->signature().types),
            ", but its inputs have ", str(types));
  }
  int64_t cardinality() const override {
    int64_t least = kInfinite;
    for (const DatasetPtr& input : inputs_) {
      int64_t n = input->cardinality();
      if (n == kUnknown) return kUnknown;
      if (n != kInfinite) least = least == kInfinite ? n : std::min(least, n);
    }
    return least;
  }
  std::unique_ptr<DatasetIterator> iterate(const Making& making) const override {
    auto walk = std::make_unique<Walk>();
    for (const DatasetPtr& input : inputs_) walk->inputs.push_back(input->iterate(making));
    walk->parts.resize(inputs_.size());
    return walk;
  }

 private:
  struct Walk final : DatasetIterator {
    Pulled next(Pull& pull, Element& out) override {
      if (ended) return Pulled::end;
      for (; gathered < inputs.size(); ++gathered) {
        Pulled pulled = Pulled::element;
        try {
          pulled = inputs[gathered]->next(pull, parts[gathered]);
        } catch (const Error& e) {
          // The row is lost as a whole; the other inputs are pulled all the same, so that they stay in step.
          parts[gathered].clear();
          if (!error) error = e;
        }
        if (pulled == Pulled::later) return pulled;
        if (pulled == Pulled::end) ended = true;
      }
      gathered = 0;
      if (error) throw *std::exchange(error, std::nullopt);
      if (ended) return Pulled::end;
      out.clear();
      for (Element& part : parts)
        for (Tensor& component : part) out.push_back(std::move(component));
      return Pulled::element;
    }
    void save(StateWriter& out) override {
      out.tag("ZipDataset");
      out.integer(ended);
      out.integer(static_cast<int64_t>(gathered));
      for (size_t i = 0; i < gathered; ++i) out.element(parts[i]);
      for (auto& input : inputs) input->save(out);
    }
    void restore(StateReader& in) override {
      in.tag("ZipDataset");
      ended = in.integer() != 0;
      gathered = std::min(static_cast<size_t>(in.count()), inputs.size());
      for (size_t i = 0; i < gathered; ++i) parts[i] = in.element();
      for (auto& input : inputs) input->restore(in);
    }
    std::vector<std::unique_ptr<DatasetIterator>> inputs;
    std::vector<Element> parts;
    size_t gathered = 0;  // inputs that have given their part of the next element
    std::optional<Error> error;
    bool ended = false;
  };
  const std::vector<DatasetPtr> inputs_;
};

void zip(Context& ctx) {
  std::vector<DatasetPtr> inputs;
  for (int i = 0; i < ctx.num_inputs(); ++i) inputs.push_back(dataset_input(ctx, i));
  set_dataset<Zip>(ctx, declared_signature(ctx.def()), std::move(inputs));
}

class Concatenation final : public Dataset {
 public:
  Concatenation(Signature signature, DatasetPtr first, DatasetPtr second)
      : Dataset(std::move(signature)), first_(std::move(first)), second_(std::move(second)) {}
  int64_t cardinality() const override {
    int64_t a = first_->cardinality(), b = second_->cardinality();
    if (a == kInfinite || b == kInfinite) return kInfinite;
    return a < 0 || b < 0 ? kUnknown : a + b;
  }
  std::unique_ptr<DatasetIterator> iterate(const Making& making) const override {
    return std::make_unique<Walk>(first_->iterate(making), second_->iterate(making));
  }

 private:
  struct Walk final : DatasetIterator {
    Walk(std::unique_ptr<DatasetIterator> first, std::unique_ptr<DatasetIterator> second)
        : first(std::move(first)), second(std::move(second)) {}
    Pulled next(Pull& pull, Element& out) override {
      if (first) {
        Pulled pulled = first->next(pull, out);
        if (pulled != Pulled::end) return pulled;
        first.reset();
      }
      return second->next(pull, out);
    }
    void save(StateWriter& out) override {
      out.tag("ConcatenateDataset");
      out.integer(first != nullptr);
      if (first) first->save(out);
      second->save(out);
    }
    void restore(StateReader& in) override {
      in.tag("ConcatenateDataset");
      if (in.integer() == 0) first.reset();
      if (first) first->restore(in);
      second->restore(in);
    }
    std::unique_ptr<DatasetIterator> first, second;
  };
  const DatasetPtr first_, second_;
};

void concatenate(Context& ctx) {
  DatasetPtr first = dataset_input(ctx, 0), second = dataset_input(ctx, 1);
  Signature signature = same_types(ctx, *first);
  same_types(ctx, *second);
  set_dataset<Concatenation>(ctx, std::move(signature), std::move(first), std::move(second));
}

class Repeat final : public UnaryDataset {
 public:
  Repeat(Signature signature, DatasetPtr input, int64_t count)
      : UnaryDataset(std::move(signature), std::move(input)), count_(count) {}
  int64_t cardinality() const override {
    int64_t n = input()->cardinality();
    if (count_ == 0 || n == 0) return 0;
    if (count_ < 0) return n == kUnknown ? kUnknown : kInfinite;
    int64_t product;
    if (n < 0) return n;
    return __builtin_mul_overflow(n, count_, &product) ? INT64_MAX : product;
  }
  std::unique_ptr<DatasetIterator> iterate(const Making& making) const override {
    return std::make_unique<Walk>(input(), making, count_);
  }

 private:
  struct Walk final : DatasetIterator {
    Walk(DatasetPtr input, const Making& making, int64_t count)
        : dataset(std::move(input)), making(making), left(count) {}
    Pulled next(Pull& pull, Element& out) override {
      while (left != 0) {
        pull.look();
        if (!round) round = dataset->iterate(making);
        Pulled pulled = round->next(pull, out);
        if (pulled == Pulled::element) round_has_elements = true;
        if (pulled != Pulled::end) return pulled;
        round.reset();
        // Repeating nothing forever would never return.
        if (left < 0 && !round_has_elements) left = 0;
        if (left > 0) --left;
        round_has_elements = false;
      }
      return Pulled::end;
    }
    void save(StateWriter& out) override {
      out.tag("RepeatDataset");
      out.integer(left);
      out.integer(round_has_elements);
      out.integer(round != nullptr);
      if (round) round->save(out);
    }
    void restore(StateReader& in) override {
      in.tag("RepeatDataset");
      left = in.integer();
      round_has_elements = in.integer() != 0;
      round.reset();
      if (in.integer() != 0) {
        round = dataset->iterate(making);
        round->restore(in);
      }
    }
    const DatasetPtr dataset;
    const Making making;
    std::unique_ptr<DatasetIterator> round;
    int64_t left;  // rounds to go, the current one included; negative: forever
    bool round_has_elements = false;
  };
  const int64_t count_;
};

void repeat(Context& ctx) {
  DatasetPtr input = dataset_input(ctx, 0);
  Signature signature = same_types(ctx, *input);
  int64_t count = int_input(ctx, 1, "count");
  if (auto made = input->repeated(count)) return set_made_dataset(ctx, std::move(made));
  set_dataset<Repeat>(ctx, std::move(signature), std::move(input), count);
}

REGISTER(kernel("ZipDataset").function<zip>());
REGISTER(kernel("ConcatenateDataset").function<concatenate>());
REGISTER(kernel("RepeatDataset").function<repeat>());

}  // namespace
}  // namespace thalweg
