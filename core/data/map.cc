// map, filter and take_while, one element at a time.
#include "data/function_call.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

class Map final : public UnaryDataset {
 public:
  Map(Signature signature, DatasetPtr input, Called called)
      : UnaryDataset(std::move(signature), std::move(input)), called_(std::move(called)) {}
  std::unique_ptr<DatasetIterator> iterate(const Making& making) const override {
    return std::make_unique<Walk>(input()->iterate(making), called_, making);
  }

 private:
  struct Walk final : UnaryIterator {
    Walk(std::unique_ptr<DatasetIterator> input, const Called& called, const Making& making)
        : UnaryIterator(std::move(input)), call(called, making) {}
    Pulled next(Pull& pull, Element& out) override {
      if (!call.pending()) {
        Pulled pulled = input_->next(pull, args);
        if (pulled != Pulled::element) return pulled;
      }
      return call.finish(pull, args, out) ? Pulled::element : Pulled::later;
    }
    void save(StateWriter& out) override {
      out.tag("MapDataset");
      call.save(out);
      input_->save(out);
    }
    void restore(StateReader& in) override {
      in.tag("MapDataset");
      call.restore(in);
      input_->restore(in);
    }
    Element args;
    FunctionCall call;
  };
  const Called called_;
};

void map(Context& ctx) {
  DatasetPtr input = dataset_input(ctx, 0);
  Signature signature = declared_signature(ctx.def());
  Element captured = inputs_between(ctx, 1, ctx.num_inputs());
  auto function = function_attr(ctx, "f", input->signature().types, captured, &signature.types);
  set_dataset<Map>(ctx, std::move(signature), std::move(input),
                   Called{std::move(function), std::make_shared<const Element>(std::move(captured))});
}

bool truth(const Element& results) {
  require(results.size() == 1 && results[0].dtype() == DType::boolean && results[0].num_elements() == 1,
          "Filter predicate `f` must return a scalar bool.");
  return *results[0].flat<bool>();
}

// The elements for which the predicate holds; with `stop`, up to the first for which it does not.
template <bool stop>
class Filter final : public UnaryDataset {
 public:
  Filter(Signature signature, DatasetPtr input, Called called)
      : UnaryDataset(std::move(signature), std::move(input)), called_(std::move(called)) {}
  int64_t cardinality() const override { return kUnknown; }
  std::unique_ptr<DatasetIterator> iterate(const Making& making) const override {
    return std::make_unique<Walk>(input()->iterate(making), called_, making);
  }

 private:
  static constexpr const char* kTag = stop ? "TakeWhileDataset" : "FilterDataset";
  struct Walk final : UnaryIterator {
    Walk(std::unique_ptr<DatasetIterator> input, const Called& called, const Making& making)
        : UnaryIterator(std::move(input)), call(called, making) {}
    Pulled next(Pull& pull, Element& out) override {
      while (!stopped) {
        pull.look();
        if (!call.pending()) {
          Pulled pulled = input_->next(pull, element);
          if (pulled != Pulled::element) return pulled;
          args = element;
        }
        if (!call.finish(pull, args, results)) return Pulled::later;
        if (truth(results)) {
          std::swap(out, element);
          element.clear();
          return Pulled::element;
        }
        stopped = stop;
      }
      return Pulled::end;
    }
    void save(StateWriter& out) override {
      out.tag(kTag);
      out.integer(stopped);
      call.save(out);
      input_->save(out);
    }
    void restore(StateReader& in) override {
      in.tag(kTag);
      stopped = in.integer() != 0;
      call.restore(in);
      if (call.pending()) element = call.args();
      input_->restore(in);
    }
    Element element, args, results;
    FunctionCall call;
    bool stopped = false;
  };
  const Called called_;
};

template <bool stop>
void filter(Context& ctx) {
  DatasetPtr input = dataset_input(ctx, 0);
  Signature signature = same_types(ctx, *input);
  Element captured = inputs_between(ctx, 1, ctx.num_inputs());
  std::vector<DType> boolean{DType::boolean};
  auto function = function_attr(ctx, "predicate", input->signature().types, captured, &boolean);
  set_dataset<Filter<stop>>(ctx, std::move(signature), std::move(input),
                            Called{std::move(function), std::make_shared<const Element>(std::move(captured))});
}

REGISTER(kernel("MapDataset").function<map>());
REGISTER(kernel("ExperimentalMapDataset").function<map>());
REGISTER(kernel("FilterDataset").function<filter<false>>());
REGISTER(kernel("TakeWhileDataset").function<filter<true>>());
REGISTER(kernel("ExperimentalTakeWhileDataset").function<filter<true>>());

}  // namespace
}  // namespace thalweg
