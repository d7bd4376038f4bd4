// shuffle: a buffer from which elements leave in random order. shuffle_and_repeat mixes the rounds, too.
#include <mutex>

#include "data/dataset.h"
#include "data/seeds.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

// The source of an iterator's seeds: new ones for each round, or the same ones again.
class RoundSeeds {
 public:
  RoundSeeds(uint64_t seed, uint64_t seed2, bool reshuffle) : generator_(seed, seed2), reshuffle_(reshuffle) {}
  SeedGenerator next() {
    std::lock_guard lock(mutex_);
    if (!reshuffle_) return generator_;
    uint64_t a = generator_.next();
    return SeedGenerator(a, generator_.next());
  }
  void save(StateWriter& out) {
    std::lock_guard lock(mutex_);
    generator_.save(out);
  }
  void restore(StateReader& in) {
    std::lock_guard lock(mutex_);
    generator_.restore(in);
  }

 private:
  std::mutex mutex_;
  SeedGenerator generator_;
  const bool reshuffle_;
};

class Shuffle final : public UnaryDataset {
 public:
  Shuffle(Signature signature, DatasetPtr input, int64_t size, int64_t rounds, uint64_t seed, uint64_t seed2,
          bool reshuffle)
      : UnaryDataset(std::move(signature), std::move(input)),
        size_(size),
        rounds_(rounds),
        seeds_(std::make_shared<RoundSeeds>(seed, seed2, reshuffle)) {
    require(size > 0, "buffer_size must be greater than zero.");
  }
  int64_t cardinality() const override {
    int64_t n = input()->cardinality();
    if (rounds_ == 1) return n;
    if (rounds_ == 0 || n == 0) return 0;
    int64_t product;
    if (rounds_ < 0 || n < 0) return n == kUnknown ? kUnknown : kInfinite;
    return __builtin_mul_overflow(n, rounds_, &product) ? INT64_MAX : product;
  }
  std::unique_ptr<DatasetIterator> iterate(const Making& making) const override {
    return std::make_unique<Walk>(input(), making, static_cast<size_t>(size_), rounds_, seeds_);
  }

 private:
  struct Walk final : DatasetIterator {
    Walk(DatasetPtr input, const Making& making, size_t size, int64_t rounds, std::shared_ptr<RoundSeeds> seeds)
        : dataset(std::move(input)),
          making(making),
          capacity(size),
          left(rounds),
          seeds(std::move(seeds)),
          generator(this->seeds->next()) {}

    Pulled next(Pull& pull, Element& out) override {
      while (buffer.size() < capacity && left != 0) {
        pull.look();
        if (!round) round = dataset->iterate(making);
        Pulled pulled = round->next(pull, spare);
        if (pulled == Pulled::later) return pulled;
        if (pulled == Pulled::element) {
          round_has_elements = true;
          buffer.push_back(std::move(spare));
          if (!recycled.empty()) {
            spare = std::move(recycled.back());
            recycled.pop_back();
          }
          continue;
        }
        round.reset();
        if (left < 0 && !round_has_elements) left = 0;
        if (left > 0) --left;
        round_has_elements = false;
      }
      if (buffer.empty()) return Pulled::end;
      size_t chosen = generator.below(buffer.size());
      std::swap(out, buffer[chosen]);
      std::swap(buffer[chosen], buffer.back());
      buffer.back().clear();
      if (recycled.empty()) recycled.push_back(std::move(buffer.back()));
      buffer.pop_back();
      return Pulled::element;
    }
    void save(StateWriter& out) override {
      out.tag("ShuffleDataset");
      seeds->save(out);
      generator.save(out);
      out.integer(left);
      out.integer(round_has_elements);
      out.integer(static_cast<int64_t>(buffer.size()));
      for (const Element& element : buffer) out.element(element);
      out.integer(round != nullptr);
      if (round) round->save(out);
    }
    void restore(StateReader& in) override {
      in.tag("ShuffleDataset");
      seeds->restore(in);
      generator.restore(in);
      left = in.integer();
      round_has_elements = in.integer() != 0;
      buffer.clear();
      for (int64_t n = in.count(); n > 0; --n) buffer.push_back(in.element());
      round.reset();
      if (in.integer() != 0) {
        round = dataset->iterate(making);
        round->restore(in);
      }
    }
    const DatasetPtr dataset;
    const Making making;
    const size_t capacity;
    int64_t left;  // rounds over the input to go
    const std::shared_ptr<RoundSeeds> seeds;
    SeedGenerator generator;
    std::unique_ptr<DatasetIterator> round;
    std::vector<Element> buffer;
    Element spare;
    std::vector<Element> recycled;  // at most one
    bool round_has_elements = false;
  };
  const int64_t size_, rounds_;
  const std::shared_ptr<RoundSeeds> seeds_;
};

void shuffle(Context& ctx) {
  DatasetPtr input = dataset_input(ctx, 0);
  Signature signature = same_types(ctx, *input);
  auto [seed, seed2] = seeds_input(ctx, 2);
  bool reshuffle = ctx.def().attr<bool>("reshuffle_each_iteration", true);
  set_dataset<Shuffle>(ctx, std::move(signature), std::move(input), int_input(ctx, 1, "buffer_size"), 1, seed, seed2,
                       reshuffle);
}

void shuffle_and_repeat(Context& ctx) {
  DatasetPtr input = dataset_input(ctx, 0);
  Signature signature = same_types(ctx, *input);
  auto [seed, seed2] = seeds_input(ctx, 2);
  set_dataset<Shuffle>(ctx, std::move(signature), std::move(input), int_input(ctx, 1, "buffer_size"),
                       int_input(ctx, 4, "count"), seed, seed2, true);
}

REGISTER(kernel("ShuffleDataset").function<shuffle>());
REGISTER(kernel("ShuffleAndRepeatDataset").function<shuffle_and_repeat>());

}  // namespace
}  // namespace thalweg
