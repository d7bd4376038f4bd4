// Datasets that drop elements of their input: ignore_errors, unique, and the filter by a last component that is a bool.
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
        pull.look();
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
        pull.look();
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

REGISTER(kernel("IgnoreErrorsDataset").function<ignore_errors>());
REGISTER(kernel("ExperimentalIgnoreErrorsDataset").function<ignore_errors>());
REGISTER(kernel("UniqueDataset").function<unique>());
REGISTER(kernel("ExperimentalUniqueDataset").function<unique>());
REGISTER(kernel("FilterByLastComponentDataset").function<filter_by_last>());

}  // namespace
}  // namespace thalweg
