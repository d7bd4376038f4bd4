// Datasets that hand on the elements of others: without errors, without repetitions, chosen by an index, as they are.
#include <unordered_set>

#include "data/dataset.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

class IgnoreErrors final : public UnaryDataset {
 public:
  using UnaryDataset::UnaryDataset;
  int64_t cardinality() const override { return input()->cardinality() == kInfinite ? kInfinite : kUnknown; }
  std::unique_ptr<DatasetIterator> iterate(const Making& making) const override {
    return std::make_unique<Walk>(input()->iterate(making));
  }

 private:
  // An input that gives nothing but errors, such as one whose file is gone, has no end.
  static constexpr int kMostInARow = 100000;
  struct Walk final : UnaryIterator {
    using UnaryIterator::UnaryIterator;
    Pulled next(Pull& pull, Element& out) override {
      for (int errors = 0;; ++errors) {
        try {
          return input_->next(pull, out);
        } catch (const Error& error) {
          if (error.code() == Code::cancelled || errors == kMostInARow) throw;
        }
      }
    }
  };
};

void ignore_errors(Context& ctx) {
  DatasetPtr input = dataset_input(ctx, 0);
  Signature signature = same_types(ctx, *input);
  set_dataset<IgnoreErrors>(ctx, std::move(signature), std::move(input));
}

class Unique final : public UnaryDataset {
 public:
  Unique(Signature signature, DatasetPtr input) : UnaryDataset(std::move(signature), std::move(input)) {
    require(width() == 1, "Unique datasets must have one component, got ", width());
    DType type = this->signature().types[0];
    require(type == DType::int32 || type == DType::int64 || type == DType::string,
            "`tf.data.experimental.unique()` only supports inputs with type int32, int64, or string, got ", type);
  }
  int64_t cardinality() const override { return kUnknown; }
  std::unique_ptr<DatasetIterator> iterate(const Making& making) const override {
    return std::make_unique<Walk>(input()->iterate(making));
  }

 private:
  struct Walk final : UnaryIterator {
    using UnaryIterator::UnaryIterator;
    Pulled next(Pull& pull, Element& out) override {
      while (true) {
        Pulled pulled = input_->next(pull, out);
        if (pulled != Pulled::element || seen.insert(key(out[0])).second) return pulled;
      }
    }
    static std::string key(const Tensor& value) {
      require(value.num_elements() == 1, "`unique` takes scalars, got shape ", value.shape());
      if (value.dtype() == DType::string) return *value.strings();
      return std::string(static_cast<const char*>(value.raw()), value.bytes());
    }
    void save(StateWriter& out) override {
      out.tag("UniqueDataset");
      out.integer(static_cast<int64_t>(seen.size()));
      for (const std::string& each : seen) out.text(each);
      input_->save(out);
    }
    void restore(StateReader& in) override {
      in.tag("UniqueDataset");
      seen.clear();
      for (int64_t n = in.count(); n > 0; --n) seen.insert(in.text());
      input_->restore(in);
    }
    std::unordered_set<std::string> seen;
  };
};

void unique(Context& ctx) {
  DatasetPtr input = dataset_input(ctx, 0);
  Signature signature = same_types(ctx, *input);
  set_dataset<Unique>(ctx, std::move(signature), std::move(input));
}

// The element of the dataset that the selector names.
class Directed final : public UnaryDataset {
 public:
  Directed(Signature signature, DatasetPtr selector, std::vector<DatasetPtr> inputs, bool stop_on_empty)
      : UnaryDataset(std::move(signature), std::move(selector)),
        inputs_(std::move(inputs)),
        stop_on_empty_(stop_on_empty) {
    require(input()->signature().types == std::vector<DType>{DType::int64},
            "The selector dataset must have elements of one int64, got ", str(input()->signature().types));
  }
  int64_t cardinality() const override { return kUnknown; }
  std::unique_ptr<DatasetIterator> iterate(const Making& making) const override {
    return std::make_unique<Walk>(*this, making);
  }

 private:
  struct Walk final : UnaryIterator {
    Walk(const Directed& dataset, const Making& making)
        : UnaryIterator(dataset.input()->iterate(making)), stop_on_empty(dataset.stop_on_empty_) {
      for (const DatasetPtr& input : dataset.inputs_) inputs.push_back(input->iterate(making));
      open = static_cast<int64_t>(inputs.size());
    }
    Pulled next(Pull& pull, Element& out) override {
      while (open > 0) {
        if (chosen < 0) {
          Pulled pulled = input_->next(pull, choice);
          if (pulled == Pulled::end) break;
          if (pulled == Pulled::later) return pulled;
          int64_t index = to_int64(choice[0]);
          require(index >= 0 && index < static_cast<int64_t>(inputs.size()), "Selector index out of range: ", index,
                  " >= ", inputs.size());
          chosen = index;
        }
        auto& input = inputs[static_cast<size_t>(chosen)];
        if (input) {
          Pulled pulled;
          try {
            pulled = input->next(pull, out);
          } catch (...) {
            chosen = -1;
            throw;
          }
          if (pulled == Pulled::later) return pulled;
          if (pulled == Pulled::element) {
            chosen = -1;
            return pulled;
          }
          input.reset();
          --open;
          if (stop_on_empty) break;
        }
        chosen = -1;
      }
      open = 0;
      return Pulled::end;
    }
    void save(StateWriter& out) override {
      out.tag("DirectedInterleaveDataset");
      out.integer(open);
      out.integer(chosen);
      for (auto& input : inputs) {
        out.integer(input != nullptr);
        if (input) input->save(out);
      }
      input_->save(out);
    }
    void restore(StateReader& in) override {
      in.tag("DirectedInterleaveDataset");
      open = in.integer();
      chosen = std::clamp<int64_t>(in.integer(), -1, static_cast<int64_t>(inputs.size()) - 1);
      for (auto& input : inputs) {
        if (in.integer() == 0) input.reset();
        if (input) input->restore(in);
      }
      input_->restore(in);
    }
    std::vector<std::unique_ptr<DatasetIterator>> inputs;
    const bool stop_on_empty;
    Element choice;
    int64_t open, chosen = -1;
  };
  const std::vector<DatasetPtr> inputs_;
  const bool stop_on_empty_;
};

void directed(Context& ctx) {
  std::vector<DatasetPtr> inputs;
  for (int i = 1; i < ctx.num_inputs(); ++i) inputs.push_back(dataset_input(ctx, i));
  Signature signature = declared_signature(ctx.def());
  for (const DatasetPtr& input : inputs) same_types(ctx, *input);
  set_dataset<Directed>(ctx, std::move(signature), dataset_input(ctx, 0), std::move(inputs),
                        ctx.def().attr<bool>("stop_on_empty_dataset", false));
}

// The elements whose last component, a bool, is true, without it.
class FilterByLast final : public UnaryDataset {
 public:
  FilterByLast(Signature signature, DatasetPtr input) : UnaryDataset(std::move(signature), std::move(input)) {
    const std::vector<DType>& types = this->input()->signature().types;
    require(!types.empty() && types.back() == DType::boolean &&
                std::vector<DType>(types.begin(), types.end() - 1) == this->signature().types,
            "the input must have the declared components and a bool, got ", str(types));
  }
  int64_t cardinality() const override { return kUnknown; }
  std::unique_ptr<DatasetIterator> iterate(const Making& making) const override {
    return std::make_unique<Walk>(input()->iterate(making));
  }

 private:
  struct Walk final : UnaryIterator {
    using UnaryIterator::UnaryIterator;
    Pulled next(Pull& pull, Element& out) override {
      while (true) {
        Pulled pulled = input_->next(pull, out);
        if (pulled != Pulled::element) return pulled;
        require(out.back().num_elements() == 1, "the last component must be a scalar, got shape ", out.back().shape());
        bool keep = *out.back().flat<bool>();
        out.pop_back();
        if (keep) return pulled;
      }
    }
  };
};

void filter_by_last(Context& ctx) {
  set_dataset<FilterByLast>(ctx, declared_signature(ctx.def()), dataset_input(ctx, 0));
}

// The input itself, with options for the stages below.
class WithOptions final : public UnaryDataset {
 public:
  WithOptions(Signature signature, DatasetPtr input, bool deterministic)
      : UnaryDataset(std::move(signature), std::move(input)), deterministic_(deterministic) {}
  std::unique_ptr<DatasetIterator> iterate(const Making& making) const override {
    Making changed = making;
    changed.deterministic = deterministic_;
    return input()->iterate(changed);
  }

 private:
  const bool deterministic_;
};

void with_options(Context& ctx) {
  DatasetPtr input = dataset_input(ctx, 0);
  Signature signature = same_types(ctx, *input);
  if (ctx.def().attr<std::string>("serialized_options") == "deterministic=0")
    set_dataset<WithOptions>(ctx, std::move(signature), std::move(input), false);
  else
    ctx.set_output(0, ctx.take_input(0));
}

void pass_on(Context& ctx) {
  dataset_input(ctx, 0);
  ctx.set_output(0, ctx.take_input(0));
}

REGISTER(kernel("IgnoreErrorsDataset").function<ignore_errors>());
REGISTER(kernel("ExperimentalIgnoreErrorsDataset").function<ignore_errors>());
REGISTER(kernel("UniqueDataset").function<unique>());
REGISTER(kernel("ExperimentalUniqueDataset").function<unique>());
REGISTER(kernel("DirectedInterleaveDataset").function<directed>());
REGISTER(kernel("ExperimentalDirectedInterleaveDataset").function<directed>());
REGISTER(kernel("FilterByLastComponentDataset").function<filter_by_last>());
REGISTER(kernel("OptionsDataset").function<with_options>());
REGISTER(kernel("OptimizeDataset").function<pass_on>());
REGISTER(kernel("ModelDataset").function<pass_on>());
REGISTER(kernel("MaxIntraOpParallelismDataset").function<pass_on>());
REGISTER(kernel("ExperimentalMaxIntraOpParallelismDataset").function<pass_on>());
REGISTER(kernel("PrivateThreadPoolDataset").function<pass_on>());
REGISTER(kernel("ExperimentalPrivateThreadPoolDataset").function<pass_on>());

}  // namespace
}  // namespace thalweg
