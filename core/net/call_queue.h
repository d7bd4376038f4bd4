// CallQueue: calls of peers that wait for one of a limited number of threads, on which they may block.
//
// Threads are shared fairly: connections take turns, and neither one connection nor all connections of one host can
// occupy every thread, however many calls they make and however long these wait. Calls of one connection begin in the
// order in which they came. Thread-safe; work runs without the lock, and must keep this object alive.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <unordered_map>

#include "thread/thread_pool.h"

namespace thalweg::net {

class CallQueue {
 public:
  // How many threads may be occupied by all calls, by those of one host, and by those of one connection.
  struct Shares {
    size_t all, of_host, of_connection;
  };

  // The pool must outlive this object.
  CallQueue(ThreadPool& pool, Shares shares) : pool_(pool), shares_(shares) {}

  // `connection`: its number.
  void add(uint64_t connection, const std::string& host, std::function<void()> work);
  // Drops what a connection has asked for and has not begun.
  void forget(uint64_t connection);
  // How many calls run or wait.
  size_t size();

 private:
  struct Line {
    std::string host;
    size_t running = 0;
    std::deque<std::function<void()>> waiting;
  };
  using Lines = std::unordered_map<uint64_t, Line>;

  // All of them are called with the lock.
  void begin_some();
  void begin(Lines::iterator line);
  void remove_if_empty(Lines::iterator line);
  void ended(uint64_t connection);

  ThreadPool& pool_;
  const Shares shares_;
  std::mutex mutex_;  // guards everything below
  size_t running_ = 0;
  Lines lines_;                                    // of connections with calls that run or wait
  std::unordered_map<std::string, size_t> hosts_;  // how many calls of each run
  std::list<uint64_t> turns_;                      // connections with calls that wait; whose turn it is first
};

}  // namespace thalweg::net
