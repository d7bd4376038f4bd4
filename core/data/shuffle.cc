// shuffle: a buffer from which elements leave in random order. shuffle_and_repeat fills it beyond the end of a round,
// but a round's elements leave before those of the next.
//
// The order is TensorFlow's for the same seeds, number for number.
#include <deque>
#include <mutex>

#include "data/dataset.h"
#include "data/seeds.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

// The source of an iterator's seeds: new ones for each iterator, or the same ones again.
class IteratorSeeds {
 public:
  IteratorSeeds(uint64_t seed, uint64_t seed2, bool reshuffle) : generator_(seed, seed2), reshuffle_(reshuffle) {}
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
        seed_(seed),
        seed2_(seed2),
        reshuffle_(reshuffle),
        seeds_(std::make_shared<IteratorSeeds>(seed, seed2, reshuffle)) {
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
  // As TensorFlow fuses the two: one generator for all rounds.
  std::shared_ptr<Dataset> repeated(int64_t rounds) const override {
    if (!reshuffle_) return nullptr;
    return std::make_shared<Shuffle>(signature(), input(), size_, rounds, seed_, seed2_, false);
  }
  std::unique_ptr<DatasetIterator> iterate(const Making& making) const override {
    return std::make_unique<Walk>(input(), making, static_cast<size_t>(size_), rounds_, seeds_);
  }

 private:
  struct Walk final : DatasetIterator {
    Walk(DatasetPtr input, const Making& making, size_t size, int64_t rounds, std::shared_ptr<IteratorSeeds> seeds)
        : dataset(std::move(input)),
          making(making),
          capacity(size),
          left(rounds),
          seeds(std::move(seeds)),
          generator(this->seeds->next()) {}

    Pulled next(Pull& pull, Element& out) override {
      while (end - slices.front() < capacity && left != 0) {
        pull.look();
        if (!round) round = dataset->iterate(making);
        Pulled pulled = round->next(pull, spare);
        if (pulled == Pulled::later) return pulled;
        if (pulled == Pulled::element) {
          round_has_elements = true;
          const size_t slot = end++ % capacity;
          if (slot == buffer.size()) buffer.emplace_back();
          std::swap(buffer[slot], spare);
          continue;
        }
        round.reset();
        if (left < 0 && !round_has_elements) left = 0;
        if (left > 0) --left;
        if (round_has_elements && left != 0) slices.push_back(end);
        round_has_elements = false;
      }
      while (slices.size() > 1 && slices[0] == slices[1]) slices.pop_front();
      const size_t stop = slices.size() > 1 ? slices[1] : end;
      if (slices[0] == stop) return Pulled::end;
      const size_t first = slices[0]++;
      Element& chosen = buffer[(first + generator.below(stop - first)) % capacity];
      std::swap(out, chosen);
      std::swap(chosen, buffer[first % capacity]);
      buffer[first % capacity].clear();
      return Pulled::element;
    }
    void save(StateWriter& out) override {
      out.tag("ShuffleDataset, Philox");
      seeds->save(out);
      generator.save(out);
      out.integer(left);
      out.integer(round_has_elements);
      out.integer(static_cast<int64_t>(end - slices.front()));
      for (size_t i = slices.front(); i != end; ++i) out.element(buffer[i % capacity]);
      out.integer(static_cast<int64_t>(slices.size() - 1));
      for (size_t i = 1; i < slices.size(); ++i) out.integer(static_cast<int64_t>(slices[i] - slices.front()));
      out.integer(round != nullptr);
      if (round) round->save(out);
    }
    void restore(StateReader& in) override {
      in.tag("ShuffleDataset, Philox");
      seeds->restore(in);
      generator.restore(in);
      left = in.integer();
      round_has_elements = in.integer() != 0;
      buffer.clear();
      for (int64_t n = in.count(); n > 0; --n) buffer.push_back(in.element());
      require(buffer.size() <= capacity, "The state of a shuffle has more elements than its buffer_size");
      end = buffer.size();
      slices = {0};
      for (int64_t n = in.count(); n > 0; --n) {
        const auto start = static_cast<size_t>(in.integer());
        require(start >= slices.back() && start <= end, "The state of a shuffle has rounds outside of its buffer");
        slices.push_back(start);
      }
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
    const std::shared_ptr<IteratorSeeds> seeds;
    SeedGenerator generator;
    std::unique_ptr<DatasetIterator> round;
    // A ring: the i-th element of all is in slot i % capacity, from slices.front() to end. A slice is the part of a
    // round that is in the buffer; the list has where each begins.
    std::vector<Element> buffer;
    std::deque<size_t> slices{0};
    size_t end = 0;
    Element spare;
    bool round_has_elements = false;
  };
  const int64_t size_, rounds_;
  const uint64_t seed_, seed2_;
  const bool reshuffle_;
  const std::shared_ptr<IteratorSeeds> seeds_;
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
                       int_input(ctx, 4, "count"), seed, seed2, false);
}

REGISTER(kernel("ShuffleDataset").function<shuffle>());
REGISTER(kernel("ShuffleAndRepeatDataset").function<shuffle_and_repeat>());

}  // namespace
}  // namespace thalweg
