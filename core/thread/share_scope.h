// ShareScope: while it lives, kernels of this thread use only their share of the cores: for devices that work at the
// same time. Two devices on two cores then run one loop each instead of four threads that displace each other.
#pragma once

#include <atomic>

namespace thalweg {

class ShareScope {
 public:
  // `active` is how many threads share the cores at the moment; it may change meanwhile and must outlive the scope.
  explicit ShareScope(const std::atomic<int>& active);
  ~ShareScope();
  ShareScope(const ShareScope&) = delete;

 private:
  const std::atomic<int>* before_;
};

}  // namespace thalweg
