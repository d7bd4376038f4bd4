// DirectedInterleave: each element comes from the input dataset that a selector dataset names.
#include "data/dataset.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

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

REGISTER(kernel("DirectedInterleaveDataset").function<directed>());
REGISTER(kernel("ExperimentalDirectedInterleaveDataset").function<directed>());

}  // namespace
}  // namespace thalweg
