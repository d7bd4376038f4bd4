// Dataset: an immutable recipe for a sequence of elements; DatasetIterator: one walk along that sequence.
//
// An element is a row of tensors whose types, and as far as known shapes, the dataset declares. Iterators form a tree
// like the datasets they were made from, and are *pulled*: `next` fills `out` and returns `element`, returns `end`, or
// returns `later` when it has to wait for work of another thread or kernel. It never blocks. After `later` the waker
// that the iterator was made with is called, once, from any thread and without locks held, when it is worth pulling
// again; the stages keep partial results in their members. An Error thrown by `next` concerns one element: the next
// pull continues after it.
//
// A tree is pulled by one thread at a time, so its stages need no locks. A stage that works ahead (prefetch, parallel
// map) has a tree of its own below it, and guards only the border.
//
// `out` may hold anything before the call, and is resized by the callee: callers that reuse it spare an allocation.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/iterator_state.h"
#include "executor/step.h"
#include "kernel/kernel.h"
#include "random/streams.h"

namespace thalweg {

using Element = std::vector<Tensor>;

enum class Pulled : uint8_t { element, end, later };

class Waker {
 public:
  virtual ~Waker() = default;
  virtual void wake() = 0;
};

// The arguments of making an iterator.
struct Making {
  Device& device;
  std::shared_ptr<Waker> waker;  // of the consumer
  bool deterministic = true;     // whether parallel stages keep the order of their input
  std::shared_ptr<RandomStreams> streams = std::make_shared<RandomStreams>();  // of the traversal

  Making woken_by(std::shared_ptr<Waker> other) const { return {device, std::move(other), deterministic, streams}; }
};

// The context of a pull: the step whose thread makes it. Functions run within that step.
struct Pull {
  Step& step;
  // For loops that may take any number of elements to make one: lets the caller handle signals now and then, and throws
  // CancelledError once the step has ended.
  void look() {
    if (++looks % 64 != 0) return;
    if (step.interrupted()) fail(Code::cancelled, "the step was cancelled");
    step.tick();
  }
  uint32_t looks = 0;
};

class DatasetIterator {
 public:
  virtual ~DatasetIterator() = default;
  virtual Pulled next(Pull& pull, Element& out) = 0;
  // The position, so that `restore` on a fresh iterator of an equal dataset goes on from there.
  virtual void save(StateWriter& out) = 0;
  virtual void restore(StateReader& in) = 0;
  // A component of the element that the next pull returns, if that is there already. Shares its memory.
  virtual std::optional<Tensor> peek(size_t component) {
    (void)component;
    return std::nullopt;
  }
  // Whether a pull after a wake costs next to nothing, so that the thread that woke may do it.
  virtual bool buffered() const { return false; }
};

// Element types and shapes.
struct Signature {
  std::vector<DType> types;
  std::vector<PartialShape> shapes;
};

class Dataset : public Resource {
 public:
  static constexpr int64_t kInfinite = -1, kUnknown = -2;

  explicit Dataset(Signature signature) : signature_(std::move(signature)) {}
  const char* kind() const override { return "a dataset"; }
  const Signature& signature() const { return signature_; }
  size_t width() const { return signature_.types.size(); }

  virtual std::unique_ptr<DatasetIterator> iterate(const Making& making) const = 0;
  virtual int64_t cardinality() const { return kUnknown; }
  // The dataset `rounds` times over (for ever if negative), if this kind has a way of its own to do that; else null.
  virtual std::shared_ptr<Dataset> repeated(int64_t /*rounds*/) const { return nullptr; }
  // Whether a pull may run functions of the user's, which wait for whatever they like, on the pulling thread. A stage
  // that works ahead pulls such an input with threads of its own only, one element at a time.
  virtual bool pulls_may_wait() const { return runs_python_; }
  // While it is made: whether it, or a dataset that it is made of, calls functions with kernels written in Python.
  void set_runs_python(bool runs) { runs_python_ = runs; }

 private:
  const Signature signature_;
  bool runs_python_ = false;
};

using DatasetPtr = std::shared_ptr<const Dataset>;

// A dataset made from one other.
class UnaryDataset : public Dataset {
 public:
  UnaryDataset(Signature signature, DatasetPtr input) : Dataset(std::move(signature)), input_(std::move(input)) {}
  const DatasetPtr& input() const { return input_; }
  int64_t cardinality() const override { return input_->cardinality(); }

 private:
  const DatasetPtr input_;
};

// An iterator whose position is that of its input, and perhaps more.
class UnaryIterator : public DatasetIterator {
 public:
  explicit UnaryIterator(std::unique_ptr<DatasetIterator> input) : input_(std::move(input)) {}
  void save(StateWriter& out) override { input_->save(out); }
  void restore(StateReader& in) override { input_->restore(in); }

 protected:
  std::unique_ptr<DatasetIterator> input_;
};

// Datasets travel as variant scalars: handles without names.
Tensor tensor_from_dataset(DatasetPtr dataset);
DatasetPtr dataset_from_tensor(const Tensor& tensor);

// For kernels: input i as a dataset, or as one number, truth or string; the declared signature; and the result.
DatasetPtr dataset_input(Context& ctx, int i);
int64_t int_input(Context& ctx, int i, const char* what);
bool bool_input(Context& ctx, int i, const char* what);
const std::string& string_input(Context& ctx, int i, const char* what);
Signature declared_signature(const NodeDef& def, const char* types = "output_types");
// The signature of an op that hands elements of `input` on: the declared types must be the input's.
Signature same_types(Context& ctx, const Dataset& input);
// Whether a function among the attributes has kernels written in Python, or a pull of an input dataset may wait.
bool runs_python(Context& ctx);
inline void set_made_dataset(Context& ctx, std::shared_ptr<Dataset> made) {
  made->set_runs_python(runs_python(ctx));
  ctx.set_output(0, tensor_from_dataset(std::move(made)));
}
template <typename D, typename... Args>
void set_dataset(Context& ctx, Args&&... args) {
  set_made_dataset(ctx, std::make_shared<D>(std::forward<Args>(args)...));
}

std::string str(const std::vector<DType>& types);

}  // namespace thalweg
