// WeightCache: a value derived from a kernel's weights (another layout, a transformed copy), kept until the weights
// change.
//
// A pass marks the kernels of steps that change no variables (passes/keep_weights.py); for them, weights are packed
// once and not for every step. The stamps of the source tensors' buffers tell whether they are still the same: a buffer
// gets another stamp when a variable is updated in place. Only tensors that come straight from variables and constants
// may be sources, because other buffers are overwritten without notice. Thread-safe.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "tensor/tensor.h"

namespace thalweg {

template <typename Made>
class WeightCache {
 public:
  // make(), or its earlier result for the same sources and the same variant (sizes, or other parameters of `make`).
  template <typename Make>
  std::shared_ptr<const Made> get(std::initializer_list<const Tensor*> sources, const std::vector<int64_t>& variant,
                                  const Make& make) {
    std::vector<int64_t> key = variant;
    for (const Tensor* source : sources) {
      key.push_back(static_cast<int64_t>(source->buffer()->stamp()));
      key.push_back(reinterpret_cast<int64_t>(source->raw()));
    }
    {
      std::lock_guard lock(mutex_);
      if (made_ && key == key_) return made_;
    }
    auto made = std::make_shared<const Made>(make());
    std::lock_guard lock(mutex_);
    key_ = std::move(key);
    made_ = made;
    return made;
  }

 private:
  std::mutex mutex_;
  std::vector<int64_t> key_;
  std::shared_ptr<const Made> made_;
};

}  // namespace thalweg
