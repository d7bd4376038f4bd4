// oneDNN as the kernels see it: one engine, a stream per thread, and a cache of primitives that threads share.
//
// No function of oneDNN may run before `onednn_engine()` has been called once: it caps the instruction set at the best
// that really works on this machine (compute/lanes/instruction_set.h).
//
// A primitive is costly to make (some 100 microseconds) and cheap to run. `PrimitiveCache` keeps the most recently used
// ones by key: kind, types, sizes, strides, threads. Primitives get their scratch memory from the caller, so that one
// of them may run on many threads at the same time.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "oneapi/dnnl/dnnl.hpp"
#include "tensor/dtype.h"
#include "thread/parallel.h"

namespace thalweg {

// The engine of the CPU. Thread-safe.
const dnnl::engine& onednn_engine();

// The calling thread's stream. Work on it is done when the call that submitted it returns.
dnnl::stream& onednn_stream();

// oneDNN's name of an element type; undef if it has none.
dnnl::memory::data_type onednn_type(DType dtype);

// While it lives, oneDNN uses this many threads, or the number of an earlier OnednnThreads that is still alive. (The
// number that a thread may use changes while its devices share the cores; a primitive is made and run with one number.)
class OnednnThreads {
 public:
  explicit OnednnThreads(int wanted);
  ~OnednnThreads();
  OnednnThreads(const OnednnThreads&) = delete;
  OnednnThreads& operator=(const OnednnThreads&) = delete;

  int count() const { return count_; }

 private:
  int count_ = 1, before_ = 0, outer_ = 0;
  std::optional<ParallelMeter::Loop> metered_;
};

// The key of a primitive in the cache.
using PrimitiveKey = std::vector<int64_t>;

// A primitive and the layouts of its arguments, in the order in which `run` takes them. Without a primitive
// (`!available`) oneDNN has no implementation: that is cached, too.
struct CachedPrimitive {
  bool available = false;
  dnnl::primitive primitive;
  std::vector<std::pair<int, dnnl::memory::desc>> arguments;  // (DNNL_ARG_..., layout)
  dnnl::memory::desc scratchpad;

  // Runs it on the calling thread's stream, and waits. `data` holds one pointer per argument.
  void run(std::initializer_list<const void*> data) const;
};

class PrimitiveCache {
 public:
  static PrimitiveCache& global();
  explicit PrimitiveCache(size_t capacity) : capacity_(capacity) {}

  // The primitive of a key, made by `make` if it is not cached. Two threads may both make it; one of the two is kept.
  std::shared_ptr<const CachedPrimitive> get(const PrimitiveKey& key, const std::function<CachedPrimitive()>& make);
  size_t size() const;

 private:
  struct Hash {
    size_t operator()(const PrimitiveKey& key) const {
      uint64_t h = 1469598103934665603ull;
      for (int64_t part : key) h = (h ^ static_cast<uint64_t>(part)) * 0x9e3779b97f4a7c15ull, h ^= h >> 29;
      return h;
    }
  };
  using Recent = std::list<std::pair<PrimitiveKey, std::shared_ptr<const CachedPrimitive>>>;

  mutable std::mutex mutex_;
  size_t capacity_;
  Recent recent_;  // Most recently used first.
  std::unordered_map<PrimitiveKey, Recent::iterator, Hash> by_key_;
};

}  // namespace thalweg
