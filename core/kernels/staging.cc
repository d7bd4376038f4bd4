// Stage, Unstage and their siblings: ops that meet in a staging area by its name.
#include "resource/staging.h"

#include "executor/step.h"
#include "kernel/completion.h"
#include "kernel/handle_kernel.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

// The area that the attributes name: looked up once in the session's own container, else in each step.
template <typename Area>
class Place {
 public:
  explicit Place(const Construction& c)
      : named_(c),
        limits_{c.attr<int64_t>("capacity", 0), c.attr<int64_t>("memory_limit", 0)},
        dtypes_(c.attr<std::vector<DType>>("dtypes")) {
    require(limits_.elements >= 0 && limits_.bytes >= 0, "capacity and memory_limit must not be negative, got ",
            limits_.elements, " and ", limits_.bytes);
    if (named_.lasts()) area_ = find(c.device());
  }
  std::shared_ptr<Area> operator()(Context& ctx) const { return area_ ? area_ : find(ctx.device()); }
  size_t components() const { return dtypes_.size(); }
  DType dtype(size_t i) const { return dtypes_[i]; }

 private:
  std::shared_ptr<Area> find(Device& device) const {
    return named_.find<Area>(device, [this] {
      if constexpr (std::is_same_v<Area, StagingArea>)
        return std::make_shared<Area>(limits_);
      else
        return std::make_shared<Area>(limits_, dtypes_.size());
    });
  }
  NamedResource named_;
  StagingLimits limits_;
  std::vector<DType> dtypes_;
  std::shared_ptr<Area> area_;
};

std::vector<Tensor> inputs_from(Context& ctx, int first) {
  std::vector<Tensor> out;
  for (int i = first; i < ctx.num_inputs(); ++i) out.push_back(ctx.input(i));
  return out;
}

// Tensors become outputs if they have their types: two nodes may declare different types for one area.
StagingStore::Taken to_outputs(std::shared_ptr<AsyncContext> ctx) {
  return [ctx = std::move(ctx)](std::optional<Error> error, StagingStore::Tuple values) {
    if (error) return ctx->fail(*std::move(error));
    if (static_cast<int>(values.size()) != ctx->num_outputs())
      return ctx->fail(Error(Code::invalid_argument, cat("the staged element has ", values.size(),
                                                         " tensors, this op has ", ctx->num_outputs(), " outputs")));
    for (size_t i = 0; i < values.size(); ++i)
      if (values[i].dtype() != ctx->output_dtype(static_cast<int>(i)))
        return ctx->fail(
            Error(Code::invalid_argument, cat("tensor ", i, " of the staged element has type ", values[i].dtype(),
                                              ", this op expects ", ctx->output_dtype(static_cast<int>(i)))));
    set_outputs(*ctx, std::move(values));
    ctx->done();
  };
}

int64_t scalar(const Tensor& t, const char* what) {
  require(t.num_elements() == 1, what, " must be a scalar, got shape ", t.shape());
  return to_int64(t);
}

std::vector<int64_t> indices_of(const Tensor& t) {
  require(t.rank() <= 1, "indices must be a vector, got shape ", t.shape());
  return to_int64s(t);
}

template <typename Area>
struct OnArea : AsyncKernel {
  explicit OnArea(const Construction& c) : area(c) {}
  Place<Area> area;
};

struct Stage : OnArea<StagingArea> {
  using OnArea::OnArea;
  void start(std::shared_ptr<AsyncContext> ctx) override {
    Cancellation& cancellation = ctx->step().cancellation();
    area(*ctx)->put(inputs_from(*ctx, 0), cancellation, completion(ctx));
  }
};

struct Unstage : OnArea<StagingArea> {
  using OnArea::OnArea;
  void start(std::shared_ptr<AsyncContext> ctx) override {
    area(*ctx)->get(ctx->step().cancellation(), to_outputs(ctx));
  }
};

struct StagePeek : OnArea<StagingArea> {
  using OnArea::OnArea;
  void start(std::shared_ptr<AsyncContext> ctx) override {
    area(*ctx)->peek(scalar(ctx->input(0), "index"), ctx->step().cancellation(), to_outputs(ctx));
  }
};

struct MapStage : OnArea<MapStagingArea> {
  using OnArea::OnArea;
  void start(std::shared_ptr<AsyncContext> ctx) override {
    std::vector<int64_t> indices = indices_of(ctx->input(1));
    for (size_t i = 0; i < indices.size() && static_cast<int>(i) + 2 < ctx->num_inputs(); ++i) {
      DType given = ctx->input(static_cast<int>(i) + 2).dtype();
      bool known = indices[i] >= 0 && indices[i] < static_cast<int64_t>(area.components());
      require(!known || area.dtype(indices[i]) == given, "Tensor at index '", i, "' has type ", given, ", component ",
              indices[i], " has another");
    }
    area(*ctx)->put(scalar(ctx->input(0), "key"), std::move(indices), inputs_from(*ctx, 2), ctx->step().cancellation(),
                    completion(ctx));
  }
};

template <bool copy>
struct MapUnstage : OnArea<MapStagingArea> {
  using OnArea::OnArea;
  void start(std::shared_ptr<AsyncContext> ctx) override {
    int64_t key = scalar(ctx->input(0), "key");
    auto where = area(*ctx);
    if constexpr (copy)
      where->peek(key, indices_of(ctx->input(1)), ctx->step().cancellation(), to_outputs(ctx));
    else
      where->get(key, indices_of(ctx->input(1)), ctx->step().cancellation(), to_outputs(ctx));
  }
};

struct MapUnstageNoKey : OnArea<MapStagingArea> {
  using OnArea::OnArea;
  void start(std::shared_ptr<AsyncContext> ctx) override {
    area(*ctx)->get_any(indices_of(ctx->input(0)), ctx->step().cancellation(), to_outputs(ctx));
  }
};

template <typename Area, auto query>
struct Query : Kernel {
  explicit Query(const Construction& c) : area(c) {}
  void compute(Context& ctx) override {
    if constexpr (std::is_void_v<decltype((std::declval<Area&>().*query)())>)
      (*area(ctx).*query)();
    else
      ctx.set_output(0, Tensor::scalar(static_cast<int32_t>((*area(ctx).*query)())));
  }
  Place<Area> area;
};

REGISTER(kernel("Stage").make<Stage>());
REGISTER(kernel("Unstage").make<Unstage>());
REGISTER(kernel("StagePeek").make<StagePeek>());
REGISTER(kernel("StageSize").make<Query<StagingArea, &StagingArea::size>>());
REGISTER(kernel("StageClear").make<Query<StagingArea, &StagingArea::clear>>());

// Elements are always kept in the order of their keys, so the two families are one.
int register_maps() {
  for (const char* family : {"Map", "OrderedMap"}) {
    kernel(cat(family, "Stage")).make<MapStage>();
    kernel(cat(family, "Unstage")).make<MapUnstage<false>>();
    kernel(cat(family, "Peek")).make<MapUnstage<true>>();
    kernel(cat(family, "UnstageNoKey")).make<MapUnstageNoKey>();
    kernel(cat(family, "Size")).make<Query<MapStagingArea, &MapStagingArea::size>>();
    kernel(cat(family, "IncompleteSize")).make<Query<MapStagingArea, &MapStagingArea::incomplete_size>>();
    kernel(cat(family, "Clear")).make<Query<MapStagingArea, &MapStagingArea::clear>>();
  }
  return 0;
}
REGISTER(register_maps());

}  // namespace
}  // namespace thalweg
