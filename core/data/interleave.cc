// flat_map and interleave: the elements of datasets that a function makes of the input's elements, taking turns.
//
// Up to `cycle_length` of them are open; each gives `block_length` elements in its turn, and when it ends its place is
// taken by the next. With parallel calls, the first so many places are read ahead in the background. A sloppy one
// passes over a place that is not ready.
#include "data/background.h"
#include "data/function_call.h"
#include "data/stages.h"
#include "kernel/registry.h"
#include "thread/parallel.h"

namespace thalweg {
namespace {

struct Cycle {
  int64_t length = 1;
  int64_t block = 1;
  int64_t parallel = 0;
  int64_t ahead = 1;  // elements to read ahead per place
  enum class Order { strict, sloppy, by_options } order = Order::by_options;
};

constexpr int64_t kMostPlaces = 1 << 16;

class Interleave final : public UnaryDataset {
 public:
  Interleave(Signature signature, DatasetPtr input, std::shared_ptr<const Function> function, Element captured,
             Cycle cycle)
      : UnaryDataset(std::move(signature), std::move(input)),
        function_(std::move(function)),
        captured_(std::make_shared<const Element>(std::move(captured))),
        cycle_(cycle) {}
  int64_t cardinality() const override { return kUnknown; }
  std::unique_ptr<DatasetIterator> iterate(const Making& making) const override {
    return std::make_unique<Walk>(*this, making);
  }

 private:
  struct Place {
    Element args;  // the arguments that the dataset was made from, to make it again
    std::unique_ptr<DatasetIterator> iterator;
  };
  struct Walk final : UnaryIterator {
    Walk(const Interleave& dataset, const Making& making)
        : UnaryIterator(input_of(dataset, making)),
          making(making),
          types(dataset.signature().types),
          cycle(dataset.cycle_),
          sloppy(is_sloppy(cycle, making)),
          call(dataset.function_, dataset.captured_, making),
          places(static_cast<size_t>(std::min(cycle.length, kMostPlaces))) {}

    static bool is_sloppy(const Cycle& cycle, const Making& making) {
      return cycle.parallel > 0 && (cycle.order == Cycle::Order::sloppy ||
                                    (cycle.order == Cycle::Order::by_options && !making.deterministic));
    }
    // A sloppy one goes on with the open places while the input waits for the user.
    static std::unique_ptr<DatasetIterator> input_of(const Interleave& dataset, const Making& making) {
      if (is_sloppy(dataset.cycle_, making) && dataset.input()->pulls_may_wait())
        return prefetched(*dataset.input(), making, 1);
      return dataset.input()->iterate(making);
    }

    Pulled next(Pull& pull, Element& out) override {
      size_t passed = 0;  // places in a row that were not ready
      while (!ended || open > 0) {
        pull.look();
        Place& place = places[at];
        if (!place.iterator && ended) {
          advance();
          ++passed;
          continue;
        }
        const bool filling = !place.iterator;
        Pulled pulled = filling ? fill(pull, place) : place.iterator->next(pull, out);
        if (pulled == Pulled::later) {
          if (!sloppy || ++passed >= places.size()) return pulled;
          advance();
          continue;
        }
        passed = 0;
        if (filling) continue;
        if (pulled == Pulled::element) {
          if (++in_block == cycle.block) advance();
          return pulled;
        }
        place = Place();
        --open;
        advance();
      }
      return Pulled::end;
    }
    Pulled fill(Pull& pull, Place& place) {
      if (!call.pending()) {
        Pulled pulled = input_->next(pull, element);
        if (pulled == Pulled::end) ended = true;
        if (pulled != Pulled::element) return pulled;
        args = element;
      }
      if (!call.finish(pull, args, results)) return Pulled::later;
      place.iterator = made(results, at);
      place.args = std::move(element);
      ++open;
      return Pulled::element;
    }
    std::unique_ptr<DatasetIterator> made(const Element& from, size_t where) const {
      require(from.size() == 1, "the function of an interleave or flat_map must return one dataset");
      DatasetPtr dataset = dataset_from_tensor(from[0]);
      require(dataset->signature().types == types, "the function returned a dataset with elements of types ",
              str(dataset->signature().types), ", declared are ", str(types));
      if (static_cast<int64_t>(where) < cycle.parallel) return prefetched(*dataset, making, cycle.ahead);
      return dataset->iterate(making);
    }
    void advance() {
      in_block = 0;
      at = at + 1 == places.size() ? 0 : at + 1;
    }
    void save(StateWriter& out) override {
      out.tag("InterleaveDataset");
      out.integer(ended);
      out.integer(static_cast<int64_t>(at));
      out.integer(in_block);
      out.integer(open);
      for (size_t i = 0; i < places.size(); ++i) {
        if (!places[i].iterator) continue;
        out.integer(static_cast<int64_t>(i));
        out.element(places[i].args);
        places[i].iterator->save(out);
      }
      call.save(out);
      input_->save(out);
    }
    void restore(StateReader& in) override {
      in.tag("InterleaveDataset");
      ended = in.integer() != 0;
      at = std::min(static_cast<size_t>(std::max<int64_t>(0, in.integer())), places.size() - 1);
      in_block = in.integer();
      places = std::vector<Place>(places.size());
      OwnStep step;
      Pull pull{step};
      const int64_t saved = in.count();
      for (open = 0; open < saved; ++open) {
        auto i = static_cast<size_t>(in.integer());
        if (i >= places.size()) fail(Code::data_loss, "the saved position of an iterator is damaged");
        places[i].args = in.element();
        args = places[i].args;
        if (!call.finish(pull, args, results))
          fail(Code::unimplemented, "an interleave whose function waits cannot be restored");
        places[i].iterator = made(results, i);
        places[i].iterator->restore(in);
      }
      call.restore(in);
      if (call.pending()) element = call.args();
      input_->restore(in);
    }
    const Making making;
    const std::vector<DType> types;
    const Cycle cycle;
    const bool sloppy;
    FunctionCall call;
    std::vector<Place> places;
    Element element, args, results;
    size_t at = 0;
    int64_t in_block = 0, open = 0;
    bool ended = false;
  };
  const std::shared_ptr<const Function> function_;
  const std::shared_ptr<const Element> captured_;
  const Cycle cycle_;
};

// The last `extra` inputs are the cycle's numbers.
void make(Context& ctx, int extra, Cycle cycle) {
  DatasetPtr input = dataset_input(ctx, 0);
  Signature signature = declared_signature(ctx.def());
  Element captured = inputs_between(ctx, 1, ctx.num_inputs() - extra);
  std::vector<DType> variant{DType::variant};
  auto function = function_attr(ctx, "f", input->signature().types, captured, &variant);
  set_dataset<Interleave>(ctx, std::move(signature), std::move(input), std::move(function), std::move(captured), cycle);
}

void flat_map(Context& ctx) { make(ctx, 0, {}); }

int64_t count(Context& ctx, int i, const char* what, bool chosen = false) {
  int64_t n = int_input(ctx, i, what);
  if (chosen && n == kAutotune) return std::max(2, intra_op_threads());
  require(n > 0, what, " must be greater than zero.");
  return n;
}

Cycle::Order order_of(Context& ctx) {
  if (ctx.def().attr<bool>("sloppy", false)) return Cycle::Order::sloppy;
  std::string order = ctx.def().attr<std::string>("deterministic", "default");
  if (order == "true") return Cycle::Order::strict;
  return order == "false" ? Cycle::Order::sloppy : Cycle::Order::by_options;
}

void interleave(Context& ctx) {
  int n = ctx.num_inputs();
  make(ctx, 2, {count(ctx, n - 2, "cycle_length", true), count(ctx, n - 1, "block_length")});
}

int64_t ahead_of(int64_t block) { return std::clamp<int64_t>(2 * block, 16, 1024); }

void parallel_interleave(Context& ctx) {
  int n = ctx.num_inputs();
  Cycle cycle{count(ctx, n - 3, "cycle_length", true), count(ctx, n - 2, "block_length"),
              count(ctx, n - 1, "num_parallel_calls", true)};
  cycle.ahead = ahead_of(cycle.block);
  cycle.order = order_of(ctx);
  make(ctx, 3, cycle);
}

void buffered_parallel_interleave(Context& ctx) {
  int n = ctx.num_inputs();
  Cycle cycle{count(ctx, n - 5, "cycle_length", true), count(ctx, n - 4, "block_length"),
              count(ctx, n - 1, "num_parallel_calls", true)};
  int64_t ahead = int_input(ctx, n - 3, "buffer_output_elements");
  cycle.ahead = ahead > 0 ? ahead : ahead_of(cycle.block);
  cycle.order = order_of(ctx);
  make(ctx, 5, cycle);
}

void legacy_parallel_interleave(Context& ctx) {
  int n = ctx.num_inputs();
  Cycle cycle{count(ctx, n - 5, "cycle_length"), count(ctx, n - 4, "block_length")};
  cycle.parallel = cycle.length;
  cycle.order = bool_input(ctx, n - 3, "sloppy") ? Cycle::Order::sloppy : Cycle::Order::strict;
  cycle.ahead = count(ctx, n - 2, "buffer_output_elements", true);
  require(int_input(ctx, n - 1, "prefetch_input_elements") >= kAutotune, "prefetch_input_elements must be >= 0");
  make(ctx, 5, cycle);
}

REGISTER(kernel("FlatMapDataset").function<flat_map>());
REGISTER(kernel("InterleaveDataset").function<interleave>());
REGISTER(kernel("ParallelInterleaveDatasetV2").function<parallel_interleave>());
REGISTER(kernel("ParallelInterleaveDatasetV3").function<parallel_interleave>());
REGISTER(kernel("ParallelInterleaveDatasetV4").function<buffered_parallel_interleave>());
REGISTER(kernel("ParallelInterleaveDataset").function<legacy_parallel_interleave>());
REGISTER(kernel("ExperimentalParallelInterleaveDataset").function<legacy_parallel_interleave>());

}  // namespace
}  // namespace thalweg
