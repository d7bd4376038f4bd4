// scan: a function of a state and an element gives the next state and an output. reduce: the state at the end.
#include "data/function_call.h"
#include "data/iterator.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

// A dataset that folds its input with a function and an initial state.
class Folding : public UnaryDataset {
 public:
  Folding(Signature signature, DatasetPtr input, std::shared_ptr<const Function> function, Element captured,
          Element state)
      : UnaryDataset(std::move(signature), std::move(input)),
        function_(std::move(function)),
        captured_(std::make_shared<const Element>(std::move(captured))),
        state_(std::move(state)) {}

 protected:
  struct FoldingWalk : UnaryIterator {
    FoldingWalk(const Folding& dataset, const Making& making)
        : UnaryIterator(dataset.input()->iterate(making)),
          state(dataset.state_),
          call(dataset.function_, dataset.captured_, making) {}
    // Arguments of the next call: the state, then the element.
    void set_args() {
      args = state;
      for (Tensor& component : element) args.push_back(std::move(component));
    }
    Element state, element, args;
    FunctionCall call;
  };

 private:
  const std::shared_ptr<const Function> function_;
  const std::shared_ptr<const Element> captured_;
  const Element state_;
};

class Scan final : public Folding {
 public:
  using Folding::Folding;
  std::unique_ptr<DatasetIterator> iterate(const Making& making) const override {
    return std::make_unique<Walk>(*this, making);
  }

 private:
  struct Walk final : FoldingWalk {
    using FoldingWalk::FoldingWalk;
    Pulled next(Pull& pull, Element& out) override {
      if (!call.pending()) {
        Pulled pulled = input_->next(pull, element);
        if (pulled != Pulled::element) return pulled;
        set_args();
      }
      if (!call.finish(pull, args, results)) return Pulled::later;
      for (size_t i = 0; i < state.size(); ++i) state[i] = std::move(results[i]);
      out.assign(std::make_move_iterator(results.begin() + static_cast<int64_t>(state.size())),
                 std::make_move_iterator(results.end()));
      return Pulled::element;
    }
    void save(StateWriter& out) override {
      out.tag("ScanDataset");
      out.element(state);
      call.save(out);
      input_->save(out);
    }
    void restore(StateReader& in) override {
      in.tag("ScanDataset");
      state = in.element();
      call.restore(in);
      input_->restore(in);
    }
    Element results;
  };
};

std::vector<DType> types_of(const Element& element) {
  std::vector<DType> out;
  for (const Tensor& t : element) out.push_back(t.dtype());
  return out;
}

void scan(Context& ctx) {
  DatasetPtr input = dataset_input(ctx, 0);
  Signature signature = declared_signature(ctx.def());
  int states = static_cast<int>(ctx.def().attr<std::vector<DType>>("Tstate").size());
  Element state = inputs_between(ctx, 1, 1 + states), captured = inputs_between(ctx, 1 + states, ctx.num_inputs());
  std::vector<DType> arguments = types_of(state), results = arguments;
  arguments.insert(arguments.end(), input->signature().types.begin(), input->signature().types.end());
  results.insert(results.end(), signature.types.begin(), signature.types.end());
  auto function = function_attr(ctx, "f", arguments, captured, &results);
  set_dataset<Scan>(ctx, std::move(signature), std::move(input), std::move(function), std::move(captured),
                    std::move(state));
}

// One element: the state at the end of the input.
class Reduction final : public Folding {
 public:
  using Folding::Folding;
  std::unique_ptr<DatasetIterator> iterate(const Making& making) const override {
    return std::make_unique<Walk>(*this, making);
  }

 private:
  struct Walk final : FoldingWalk {
    using FoldingWalk::FoldingWalk;
    Pulled next(Pull& pull, Element& out) override {
      while (true) {
        if (!call.pending()) {
          Pulled pulled = input_->next(pull, element);
          if (pulled == Pulled::later) return pulled;
          if (pulled == Pulled::end) break;
          set_args();
          state.clear();  // so that the function may write into it
        }
        if (!call.finish(pull, args, state)) return Pulled::later;
        if (pull.step.interrupted()) fail(Code::cancelled, "the step was cancelled");
        pull.step.tick();
      }
      out = state;
      return Pulled::element;
    }
  };
};

void deliver_state(AsyncContext& ctx, Element* element) {
  for (int i = 0; i < ctx.num_outputs(); ++i) ctx.set_output(i, std::move((*element)[static_cast<size_t>(i)]));
}

struct Reduce : AsyncKernel {
  explicit Reduce(const Construction& c)
      : states(static_cast<int>(c.attr<std::vector<DType>>("Tstate").size())), signature(declared_signature(c.def())) {}
  void start(std::shared_ptr<AsyncContext> ctx) override {
    std::shared_ptr<Traversal> traversal;
    try {
      DatasetPtr input = dataset_input(*ctx, 0);
      Element state = inputs_between(*ctx, 1, 1 + states);
      Element captured = inputs_between(*ctx, 1 + states, ctx->num_inputs());
      std::vector<DType> arguments = types_of(state), results = arguments;
      require(results == signature.types, "the state has types ", str(results), ", the op declares ",
              str(signature.types));
      arguments.insert(arguments.end(), input->signature().types.begin(), input->signature().types.end());
      auto function = function_attr(*ctx, "f", arguments, captured, &results);
      auto reduction = std::make_shared<const Reduction>(signature, std::move(input), std::move(function),
                                                         std::move(captured), std::move(state));
      traversal = Traversal::begin(*reduction, ctx->device());
    } catch (Error& error) {
      ctx->fail(std::move(error));
      return;
    }
    traversal->request(std::move(ctx), deliver_state);
  }
  const int states;
  const Signature signature;
};

REGISTER(kernel("ScanDataset").function<scan>());
REGISTER(kernel("ExperimentalScanDataset").function<scan>());
REGISTER(kernel("ReduceDataset").make<Reduce>());

}  // namespace
}  // namespace thalweg
