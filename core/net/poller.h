// Poller: the threads that wait for sockets, and handle what they find on the spot.
//
// All of them wait on one epoll set. A descriptor is armed for one event: the thread that gets it handles it alone, and
// arms it again when it is ready for the next one. A thread that has read a frame runs the step that the frame starts,
// so that a frame's way to its kernel has no wake-up of another thread in it. When the last waiting thread gets an
// event, another thread is started; kernels that take long, or wait for Python's lock, never keep sockets unread.
// Threads end when more than a few wait.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace thalweg::net {

class Poller {
 public:
  // Handles an event of a descriptor, which is then disarmed. Must not throw.
  using Handle = std::function<void(uint32_t events)>;

  // The process's own. Never destroyed.
  static Poller& shared();

  // Adds a descriptor, disarmed; the number by which it is armed and removed.
  uint64_t add(int fd, Handle handle);
  // Waits for one event out of `events` (EPOLLIN, EPOLLOUT). Callable from any thread, also from the handler.
  void arm(uint64_t number, uint32_t events);
  // Forgets the descriptor. The handler may still be running on another thread.
  void remove(uint64_t number);

 private:
  static constexpr int kMostThreads = 256;
  static constexpr int kMostWaiting = 8;
  struct Watched {
    explicit Watched(Handle handle) : handle(std::move(handle)) {}
    const Handle handle;
    std::mutex mutex;  // guards `fd`
    int fd = -1;       // -1 when removed
  };
  Poller();
  void loop();
  void start_thread();
  std::shared_ptr<Watched> find(uint64_t number);

  int epoll_;
  std::atomic<int> waiting_{0};
  std::atomic<int> threads_{0};
  std::mutex mutex_;  // guards everything below
  uint64_t last_ = 0;
  std::unordered_map<uint64_t, std::shared_ptr<Watched>> watched_;
};

}  // namespace thalweg::net
