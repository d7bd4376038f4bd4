// Making queues, or finding those of the same name: the ops that give a handle to a queue.
#include <random>

#include "kernel/handle_kernel.h"
#include "kernel/registry.h"
#include "resource/queue_fifo.h"
#include "resource/queue_padding.h"
#include "resource/queue_priority.h"
#include "resource/queue_shuffle.h"

namespace thalweg {
namespace {

template <typename T>
std::string list_of(const std::vector<T>& items) {
  std::string out;
  for (const T& item : items) out += (out.empty() ? "" : ", ") + cat(item);
  return "[" + out + "]";
}

// The base of all kinds; Q is the queue's class. The look-up accepts any Queue: `check` reports one of another kind.
template <typename Q>
struct Create : HandleKernel<Queue> {
  explicit Create(const Construction& c) : HandleKernel(c) {
    options.name = name();
    options.capacity = c.attr<int64_t>("capacity", -1);
    if (options.capacity < 0) options.capacity = Queue::kUnbounded;
    options.dtypes = c.attr<std::vector<DType>>("component_types", {});
    options.shapes = c.attr<std::vector<PartialShape>>("shapes", {});
  }
  // Called by the constructors of the subclasses, once the options are complete.
  void finish(const Construction& c) {
    require(!options.dtypes.empty(), "a queue must have at least one component");
    require(options.shapes.empty() || options.shapes.size() == options.dtypes.size(), "a queue with ",
            options.dtypes.size(), " components must be given as many shapes, got ", options.shapes.size());
    prepare(c);
  }
  void check(const Queue& found) const override {
    auto* same = dynamic_cast<const Q*>(&found);
    require(same != nullptr && std::string_view(found.kind()) == kind(), "Shared queue '", name(), "' has type '",
            found.kind(), "' that does not match the type of this node, '", kind(), "'");
    check_options(*same);
  }

  virtual const char* kind() const = 0;
  virtual void check_options(const Q& queue) const {
    const Queue::Options& have = queue.options();
    require(have.capacity == options.capacity, "Shared queue '", name(), "' has capacity ", have.capacity,
            " but requested capacity was ", options.capacity);
    require(have.dtypes == options.dtypes, "Shared queue '", name(), "' has component types ", list_of(have.dtypes),
            " but requested component types were ", list_of(options.dtypes));
    require(list_of(have.shapes) == list_of(options.shapes), "Shared queue '", name(), "' has component shapes ",
            list_of(have.shapes), " but requested component shapes were ", list_of(options.shapes));
  }

  Queue::Options options;
};

struct CreateFifo : Create<FifoQueue> {
  explicit CreateFifo(const Construction& c) : Create(c) { finish(c); }
  const char* kind() const override { return "FIFOQueue"; }
  std::shared_ptr<Queue> make() const override { return std::make_shared<FifoQueue>(options); }
};

struct CreatePadding : Create<PaddingFifoQueue> {
  explicit CreatePadding(const Construction& c) : Create(c) {
    require(options.shapes.size() == options.dtypes.size(),
            "Shapes must be provided for all components of a PaddingFIFOQueue, but received ", options.shapes.size(),
            " shapes for ", options.dtypes.size(), " components");
    for (const PartialShape& shape : options.shapes)
      require(shape.known_rank, "the components of a PaddingFIFOQueue must have shapes of known rank, got ", shape);
    finish(c);
  }
  const char* kind() const override { return "PaddingFIFOQueue"; }
  std::shared_ptr<Queue> make() const override { return std::make_shared<PaddingFifoQueue>(options); }
};

struct CreatePriority : Create<PriorityQueue> {
  explicit CreatePriority(const Construction& c) : Create(c) {
    options.dtypes.insert(options.dtypes.begin(), DType::int64);
    if (!options.shapes.empty() || options.dtypes.size() == 1)
      options.shapes.insert(options.shapes.begin(), PartialShape{true, {}});
    finish(c);
  }
  const char* kind() const override { return "PriorityQueue"; }
  std::shared_ptr<Queue> make() const override { return std::make_shared<PriorityQueue>(options); }
};

struct CreateShuffle : Create<RandomShuffleQueue> {
  explicit CreateShuffle(const Construction& c)
      : Create(c),
        shuffle{c.attr<int64_t>("min_after_dequeue", 0), c.attr<int64_t>("seed", 0), c.attr<int64_t>("seed2", 0)} {
    require(shuffle.min_after_dequeue >= 0, "min_after_dequeue ", shuffle.min_after_dequeue, " must be >= 0");
    require(shuffle.min_after_dequeue < options.capacity, "min_after_dequeue ", shuffle.min_after_dequeue,
            " must be < capacity ", options.capacity);
    finish(c);
  }
  const char* kind() const override { return "RandomShuffleQueue"; }
  std::shared_ptr<Queue> make() const override {
    auto seed = static_cast<uint64_t>(shuffle.seed), seed2 = static_cast<uint64_t>(shuffle.seed2);
    if (seed == 0 && seed2 == 0) {
      std::random_device device;
      seed = static_cast<uint64_t>(device()) << 32 | device();
      seed2 = static_cast<uint64_t>(device()) << 32 | device();
    }
    return std::make_shared<RandomShuffleQueue>(options, shuffle, Philox(seed, seed2));
  }
  void check_options(const RandomShuffleQueue& queue) const override {
    Create::check_options(queue);
    const RandomShuffleQueue::Shuffle& have = queue.shuffle();
    require(have.min_after_dequeue == shuffle.min_after_dequeue, "Shared queue '", name(), "' has min_after_dequeue ",
            have.min_after_dequeue, " but requested min_after_dequeue was ", shuffle.min_after_dequeue);
    require(have == shuffle, "Shared queue '", name(), "' has random seeds (", have.seed, ", ", have.seed2,
            ") but requested seeds are (", shuffle.seed, ", ", shuffle.seed2, ").");
  }
  RandomShuffleQueue::Shuffle shuffle;
};

REGISTER(kernel("FIFOQueueV2").make<CreateFifo>());
REGISTER(kernel("PaddingFIFOQueueV2").make<CreatePadding>());
REGISTER(kernel("PriorityQueueV2").make<CreatePriority>());
REGISTER(kernel("RandomShuffleQueueV2").make<CreateShuffle>());

}  // namespace
}  // namespace thalweg
