// Datasets whose elements are given: one element, the slices of tensors, a range of integers, random integers.
#include "data/dataset.h"
#include "data/seeds.h"
#include "kernel/registry.h"

namespace thalweg {
namespace {

// Slices up to this size are copied: a copy of its own can be overwritten by the next kernel, and needs no count that
// several threads share. Larger ones refer to the whole tensor.
constexpr size_t kCopiedBytes = 512;

class Tensors final : public Dataset {
 public:
  Tensors(Signature signature, Element element) : Dataset(std::move(signature)), element_(std::move(element)) {}
  int64_t cardinality() const override { return 1; }

  std::unique_ptr<DatasetIterator> iterate(const Making&) const override { return std::make_unique<Walk>(element_); }

 private:
  struct Walk final : DatasetIterator {
    explicit Walk(const Element& element) : element(element) {}
    Pulled next(Pull&, Element& out) override {
      if (done) return Pulled::end;
      done = true;
      out = element;
      return Pulled::element;
    }
    void save(StateWriter& out) override {
      out.tag("TensorDataset");
      out.integer(done);
    }
    void restore(StateReader& in) override {
      in.tag("TensorDataset");
      done = in.integer() != 0;
    }
    const Element element;
    bool done = false;
  };
  const Element element_;
};

Element all_inputs(Context& ctx) {
  Element out;
  for (int i = 0; i < ctx.num_inputs(); ++i) out.push_back(ctx.input(i).owned());
  return out;
}

void check_components(const Element& components, const Signature& signature, bool slices) {
  require(components.size() == signature.types.size(), "a dataset of ", signature.types.size(), " components got ",
          components.size());
  for (size_t i = 0; i < components.size(); ++i) {
    const Shape& shape = components[i].shape();
    require(!slices || shape.rank() > 0, "component ", i, " is a scalar, which has no slices");
    Shape each = slices ? shape.removed(0) : shape;
    require(signature.shapes[i].accepts(each), "component ", i, " has elements of shape ", each, ", declared is ",
            signature.shapes[i]);
  }
}

void tensors(Context& ctx) {
  Signature signature = declared_signature(ctx.def(), "Toutput_types");
  Element components = all_inputs(ctx);
  check_components(components, signature, false);
  set_dataset<Tensors>(ctx, std::move(signature), std::move(components));
}

class Slices final : public Dataset {
 public:
  Slices(Signature signature, Element components)
      : Dataset(std::move(signature)), components_(std::make_shared<const Components>(std::move(components))) {}
  int64_t cardinality() const override { return components_->count; }

  std::unique_ptr<DatasetIterator> iterate(const Making&) const override { return std::make_unique<Walk>(components_); }

 private:
  struct Component {
    Tensor all;
    Shape shape;
    size_t bytes;
    bool copied;
  };
  struct Components {
    explicit Components(Element tensors) {
      count = tensors.empty() ? 0 : tensors[0].dim(0);
      for (Tensor& t : tensors) {
        require(t.dim(0) == count, "all components must have as many slices as the first, ", count,
                ", but one has shape ", t.shape());
        Shape shape = t.shape().removed(0);
        size_t bytes = static_cast<size_t>(shape.num_elements()) * size_of(t.dtype());
        bool copied = bytes <= kCopiedBytes || !is_plain(t.dtype());
        each.push_back({std::move(t), std::move(shape), bytes, copied});
      }
    }
    int64_t count;
    std::vector<Component> each;
  };
  struct Walk final : DatasetIterator {
    explicit Walk(std::shared_ptr<const Components> components) : components(std::move(components)) {}
    Pulled next(Pull&, Element& out) override {
      if (at >= components->count) return Pulled::end;
      out.resize(components->each.size());
      for (size_t i = 0; i < out.size(); ++i) {
        const Component& c = components->each[i];
        char* from = static_cast<char*>(c.all.raw()) + static_cast<size_t>(at) * c.bytes;
        if (c.copied) {
          out[i] = Tensor(c.all.dtype(), c.shape);
          copy_elements(c.all.dtype(), out[i].raw(), from, c.shape.num_elements());
        } else {
          c.all.buffer()->ref();
          out[i] = Tensor(c.all.dtype(), c.shape, c.all.buffer(), from);
        }
      }
      ++at;
      return Pulled::element;
    }
    void save(StateWriter& out) override {
      out.tag("TensorSliceDataset");
      out.integer(at);
    }
    void restore(StateReader& in) override {
      in.tag("TensorSliceDataset");
      at = std::clamp<int64_t>(in.integer(), 0, components->count);
    }
    const std::shared_ptr<const Components> components;
    int64_t at = 0;
  };
  const std::shared_ptr<const Components> components_;
};

void slices(Context& ctx) {
  Signature signature = declared_signature(ctx.def(), "Toutput_types");
  Element components = all_inputs(ctx);
  check_components(components, signature, true);
  set_dataset<Slices>(ctx, std::move(signature), std::move(components));
}

class Range final : public Dataset {
 public:
  Range(int64_t start, int64_t stop, int64_t step)
      : Dataset({{DType::int64}, {PartialShape{true, {}}}}), start_(start), step_(step) {
    require(step != 0, "step must be a non-zero integer.");
    // In unsigned arithmetic the distance between any two integers fits.
    uint64_t distance = step > 0 ? (stop > start ? uint64_t(stop) - uint64_t(start) : 0)
                                 : (stop < start ? uint64_t(start) - uint64_t(stop) : 0);
    uint64_t stride = step > 0 ? uint64_t(step) : 0 - uint64_t(step);
    uint64_t count = distance == 0 ? 0 : (distance - 1) / stride + 1;
    count_ = static_cast<int64_t>(std::min<uint64_t>(count, INT64_MAX));
  }
  int64_t cardinality() const override { return count_; }
  std::unique_ptr<DatasetIterator> iterate(const Making&) const override {
    return std::make_unique<Walk>(start_, step_, count_);
  }

 private:
  struct Walk final : DatasetIterator {
    Walk(int64_t start, int64_t step, int64_t count) : start(start), step(step), count(count) {}
    Pulled next(Pull&, Element& out) override {
      if (at >= count) return Pulled::end;
      out.resize(1);
      out[0] = Tensor::scalar(static_cast<int64_t>(uint64_t(start) + uint64_t(at) * uint64_t(step)));
      ++at;
      return Pulled::element;
    }
    void save(StateWriter& out) override {
      out.tag("RangeDataset");
      out.integer(at);
    }
    void restore(StateReader& in) override {
      in.tag("RangeDataset");
      at = std::max<int64_t>(in.integer(), 0);
    }
    const int64_t start, step, count;
    int64_t at = 0;
  };
  const int64_t start_, step_;
  int64_t count_;
};

void range(Context& ctx) {
  set_dataset<Range>(ctx, int_input(ctx, 0, "start"), int_input(ctx, 1, "stop"), int_input(ctx, 2, "step"));
}

class RandomIntegers final : public Dataset {
 public:
  RandomIntegers(uint64_t seed, uint64_t seed2)
      : Dataset({{DType::int64}, {PartialShape{true, {}}}}), generator_(seed, seed2) {}
  int64_t cardinality() const override { return kInfinite; }
  std::unique_ptr<DatasetIterator> iterate(const Making&) const override { return std::make_unique<Walk>(generator_); }

 private:
  struct Walk final : DatasetIterator {
    explicit Walk(SeedGenerator generator) : generator(generator) {}
    Pulled next(Pull&, Element& out) override {
      out.resize(1);
      out[0] = Tensor::scalar(static_cast<int64_t>(generator.next()));
      return Pulled::element;
    }
    void save(StateWriter& out) override {
      out.tag("RandomDataset");
      generator.save(out);
    }
    void restore(StateReader& in) override {
      in.tag("RandomDataset");
      generator.restore(in);
    }
    SeedGenerator generator;
  };
  const SeedGenerator generator_;
};

void random_integers(Context& ctx) {
  auto [seed, seed2] = seeds_input(ctx, 0);
  set_dataset<RandomIntegers>(ctx, seed, seed2);
}

REGISTER(kernel("TensorDataset").function<tensors>());
REGISTER(kernel("TensorSliceDataset").function<slices>());
REGISTER(kernel("RangeDataset").function<range>());
REGISTER(kernel("RandomDataset").function<random_integers>());
REGISTER(kernel("ExperimentalRandomDataset").function<random_integers>());

}  // namespace
}  // namespace thalweg
