// Datasets that leave elements of their input out, by position: take, skip, shard.
#include "data/dataset.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

// Counts elements down; saves the count beside the position of its input.
struct CountingIterator : UnaryIterator {
  CountingIterator(std::unique_ptr<DatasetIterator> input, int64_t count, const char* tag)
      : UnaryIterator(std::move(input)), left(count), tag(tag) {}
  void save(StateWriter& out) override {
    out.tag(tag);
    out.integer(left);
    input_->save(out);
  }
  void restore(StateReader& in) override {
    in.tag(tag);
    left = in.integer();
    input_->restore(in);
  }
  int64_t left;
  const char* const tag;
};

// `Walk` gives the count its meaning.
template <typename Walk>
class Counting final : public UnaryDataset {
 public:
  Counting(Signature signature, DatasetPtr input, int64_t count)
      : UnaryDataset(std::move(signature), std::move(input)), count_(count) {}
  int64_t cardinality() const override { return Walk::cardinality(input()->cardinality(), count_); }
  std::unique_ptr<DatasetIterator> iterate(const Making& making) const override {
    return std::make_unique<Walk>(input()->iterate(making), count_);
  }
  static void make(Context& ctx) {
    DatasetPtr input = dataset_input(ctx, 0);
    Signature signature = same_types(ctx, *input);
    set_dataset<Counting>(ctx, std::move(signature), std::move(input), int_input(ctx, 1, "count"));
  }

 private:
  const int64_t count_;
};

struct Take final : CountingIterator {
  Take(std::unique_ptr<DatasetIterator> input, int64_t count)
      : CountingIterator(std::move(input), count, "TakeDataset") {}
  // A negative count takes all.
  static int64_t cardinality(int64_t n, int64_t count) {
    if (count == 0) return 0;
    if (count < 0) return n;
    if (n == Dataset::kInfinite) return count;
    return n < 0 ? n : std::min(n, count);
  }
  Pulled next(Pull& pull, Element& out) override {
    if (left == 0 || !input_) return Pulled::end;
    Pulled pulled = input_->next(pull, out);
    if (pulled == Pulled::element && left > 0) --left;
    if (pulled == Pulled::end) left = 0;
    return pulled;
  }
};

struct Skip final : CountingIterator {
  Skip(std::unique_ptr<DatasetIterator> input, int64_t count)
      : CountingIterator(std::move(input), count, "SkipDataset") {}
  // A negative count skips everything.
  static int64_t cardinality(int64_t n, int64_t count) {
    return count < 0 ? 0 : n < 0 ? n : std::max<int64_t>(0, n - count);
  }
  Pulled next(Pull& pull, Element& out) override {
    if (left < 0) return Pulled::end;
    while (left > 0) {
      pull.look();
      Pulled pulled = input_->next(pull, out);
      if (pulled != Pulled::element) {
        if (pulled == Pulled::end) left = 0;
        return pulled;
      }
      --left;
    }
    return input_->next(pull, out);
  }
};

class Shard final : public UnaryDataset {
 public:
  Shard(Signature signature, DatasetPtr input, int64_t shards, int64_t index)
      : UnaryDataset(std::move(signature), std::move(input)), shards_(shards), index_(index) {
    require(shards >= 1, "Number of shards must be greater than zero (currently num_shards = ", shards, ").");
    require(index >= 0 && index < shards, "Index must be between 0 and ", shards - 1, " (currently index = ", index,
            ").");
  }
  int64_t cardinality() const override {
    int64_t n = input()->cardinality();
    return n < 0 ? n : n / shards_ + (index_ < n % shards_ ? 1 : 0);
  }
  std::unique_ptr<DatasetIterator> iterate(const Making& making) const override {
    return std::make_unique<Walk>(input()->iterate(making), shards_, index_);
  }

 private:
  struct Walk final : UnaryIterator {
    Walk(std::unique_ptr<DatasetIterator> input, int64_t shards, int64_t index)
        : UnaryIterator(std::move(input)), shards(shards), index(index) {}
    Pulled next(Pull& pull, Element& out) override {
      while (true) {
        pull.look();
        Pulled pulled = input_->next(pull, out);
        if (pulled != Pulled::element) return pulled;
        bool in_shard = at == index;
        at = at + 1 == shards ? 0 : at + 1;
        if (in_shard) return pulled;
      }
    }
    void save(StateWriter& out) override {
      out.tag("ShardDataset");
      out.integer(at);
      input_->save(out);
    }
    void restore(StateReader& in) override {
      in.tag("ShardDataset");
      at = in.integer();
      input_->restore(in);
    }
    const int64_t shards, index;
    int64_t at = 0;
  };
  const int64_t shards_, index_;
};

void shard(Context& ctx) {
  DatasetPtr input = dataset_input(ctx, 0);
  Signature signature = same_types(ctx, *input);
  set_dataset<Shard>(ctx, std::move(signature), std::move(input), int_input(ctx, 1, "num_shards"),
                     int_input(ctx, 2, "index"));
}

REGISTER(kernel("TakeDataset").function<Counting<Take>::make>());
REGISTER(kernel("SkipDataset").function<Counting<Skip>::make>());
REGISTER(kernel("ShardDataset").function<shard>());

}  // namespace
}  // namespace thalweg
