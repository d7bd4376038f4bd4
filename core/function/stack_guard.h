// Whether the calling thread's stack is nearly used up: recursion must end in an error, never in a crash.
#pragma once

#include <pthread.h>

#include <algorithm>
#include <cstdint>

namespace thalweg {

inline bool stack_is_low() {
  // Where the system sets no limit to a stack, or a very large one, memory would be the limit: recursion ends at kMost.
  // It is counted from the thread's first call: the C library's data at the top of a stack may be large.
#ifdef __SANITIZE_THREAD__
  // The sanitizer keeps the calls behind every allocation: gigabytes for those of a deep recursion.
  static constexpr size_t kMost = size_t{512} << 10;
#else
  static constexpr size_t kMost = size_t{16} << 20;
#endif
  // The address that the stack must not grow below. The rest is for the deepest kernel.
  static const auto find_limit = []() -> uintptr_t {
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes) != 0) return 0;
    void* lowest = nullptr;
    size_t size = 0;
    pthread_attr_getstack(&attributes, &lowest, &size);
    pthread_attr_destroy(&attributes);
    const uintptr_t end = reinterpret_cast<uintptr_t>(lowest) + std::min<size_t>(size / 4, 1 << 20);
    return std::max(end, reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) - kMost);
  };
  thread_local const uintptr_t limit = find_limit();
  return reinterpret_cast<uintptr_t>(__builtin_frame_address(0)) < limit;
}

}  // namespace thalweg
