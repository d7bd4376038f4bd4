// Datasets that leave elements of their input out, by position: take, skip, shard.
#include "data/dataset.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

int64_t bounded(int64_t cardinality, int64_t count) {
  if (cardinality == Dataset::kInfinite) return count;
  return cardinality < 0 ? cardinality : std::min(cardinality, count);
}

class Take final : public UnaryDataset {
 public:
  Take(Signature signature, DatasetPtr input, int64_t count)
      : UnaryDataset(std::move(signature), std::move(input)), count_(count) {}
  int64_t cardinality() const override {
    if (count_ == 0) return 0;
    return count_ < 0 ? input()->cardinality() : bounded(input()->cardinality(), count_);
  }
  std::unique_ptr<DatasetIterator> iterate(const Making& making) const override {
    return std::make_unique<Walk>(input()->iterate(making), count_);
  }

 private:
  struct Walk final : UnaryIterator {
    Walk(std::unique_ptr<DatasetIterator> input, int64_t count) : UnaryIterator(std::move(input)), left(count) {}
    Pulled next(Pull& pull, Element& out) override {
      if (left == 0 || !input_) return Pulled::end;
      Pulled pulled = input_->next(pull, out);
      if (pulled == Pulled::element && left > 0) --left;
      if (pulled == Pulled::end) left = 0;
      return pulled;
    }
    void save(StateWriter& out) override {
      out.tag("TakeDataset");
      out.integer(left);
      input_->save(out);
    }
    void restore(StateReader& in) override {
      in.tag("TakeDataset");
      left = in.integer();
      input_->restore(in);
    }
    int64_t left;  // negative: all
  };
  const int64_t count_;
};

void take(Context& ctx) {
  DatasetPtr input = dataset_input(ctx, 0);
  Signature signature = same_types(ctx, *input);
  set_dataset<Take>(ctx, std::move(signature), std::move(input), int_input(ctx, 1, "count"));
}

class Skip final : public UnaryDataset {
 public:
  Skip(Signature signature, DatasetPtr input, int64_t count)
      : UnaryDataset(std::move(signature), std::move(input)), count_(count) {}
  int64_t cardinality() const override {
    int64_t n = input()->cardinality();
    return count_ < 0 ? 0 : n < 0 ? n : std::max<int64_t>(0, n - count_);
  }
  std::unique_ptr<DatasetIterator> iterate(const Making& making) const override {
    return std::make_unique<Walk>(input()->iterate(making), count_);
  }

 private:
  struct Walk final : UnaryIterator {
    Walk(std::unique_ptr<DatasetIterator> input, int64_t count) : UnaryIterator(std::move(input)), left(count) {}
    Pulled next(Pull& pull, Element& out) override {
      if (left < 0) return Pulled::end;  // a negative count skips everything
      while (left > 0) {
        Pulled pulled = input_->next(pull, out);
        if (pulled != Pulled::element) {
          if (pulled == Pulled::end) left = 0;
          return pulled;
        }
        --left;
      }
      return input_->next(pull, out);
    }
    void save(StateWriter& out) override {
      out.tag("SkipDataset");
      out.integer(left);
      input_->save(out);
    }
    void restore(StateReader& in) override {
      in.tag("SkipDataset");
      left = in.integer();
      input_->restore(in);
    }
    int64_t left;
  };
  const int64_t count_;
};

void skip(Context& ctx) {
  DatasetPtr input = dataset_input(ctx, 0);
  Signature signature = same_types(ctx, *input);
  set_dataset<Skip>(ctx, std::move(signature), std::move(input), int_input(ctx, 1, "count"));
}

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
        Pulled pulled = input_->next(pull, out);
        if (pulled != Pulled::element) return pulled;
        bool mine = at == index;
        at = at + 1 == shards ? 0 : at + 1;
        if (mine) return pulled;
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

REGISTER(kernel("TakeDataset").function<take>());
REGISTER(kernel("SkipDataset").function<skip>());
REGISTER(kernel("ShardDataset").function<shard>());

}  // namespace
}  // namespace thalweg
