// Datasets that give the elements of their input unchanged: with options for its stages, or options that do nothing.
#include "data/dataset.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

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

// A number of threads, which is checked and not needed: zero lets the runtime choose.
void pass_on_with_threads(Context& ctx) {
  const int64_t threads = int_input(ctx, 1, "the number of threads");
  require(threads >= 0, "the number of threads must not be negative, got ", threads);
  pass_on(ctx);
}

REGISTER(kernel("OptionsDataset").function<with_options>());
REGISTER(kernel("OptimizeDataset").function<pass_on>());
REGISTER(kernel("ModelDataset").function<pass_on>());
REGISTER(kernel("MaxIntraOpParallelismDataset").function<pass_on_with_threads>());
REGISTER(kernel("ExperimentalMaxIntraOpParallelismDataset").function<pass_on_with_threads>());
REGISTER(kernel("PrivateThreadPoolDataset").function<pass_on_with_threads>());
REGISTER(kernel("ExperimentalPrivateThreadPoolDataset").function<pass_on_with_threads>());

}  // namespace
}  // namespace thalweg
