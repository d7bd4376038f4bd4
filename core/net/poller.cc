// The epoll set and its threads.
#include "net/poller.h"

#include <sys/epoll.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>

#include "error.h"

namespace thalweg::net {

Poller& Poller::shared() {
  static Poller* poller = new Poller;
  return *poller;
}

Poller::Poller() : epoll_(epoll_create1(EPOLL_CLOEXEC)) {
  if (epoll_ < 0) fail(Code::resource_exhausted, "epoll_create1: ", std::strerror(errno));
  for (int i = 0; i < 2; ++i) start_thread();
}

void Poller::start_thread() {
  if (threads_.fetch_add(1) >= kMostThreads) {
    threads_.fetch_sub(1);
    return;
  }
  waiting_.fetch_add(1);
  try {
    std::thread([this] { loop(); }).detach();
  } catch (const std::system_error&) {
    // The system has no more threads: those that there are go on, and the next event tries again.
    waiting_.fetch_sub(1);
    threads_.fetch_sub(1);
  }
}

uint64_t Poller::add(int fd, Handle handle) {
  auto made = std::make_shared<Watched>(std::move(handle));
  std::lock_guard lock(mutex_);
  const uint64_t number = ++last_;
  epoll_event event{};
  event.events = EPOLLONESHOT;
  event.data.u64 = number;
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0)
    fail(Code::resource_exhausted, "epoll_ctl: ", std::strerror(errno));
  made->fd = fd;
  watched_[number] = std::move(made);
  return number;
}

std::shared_ptr<Poller::Watched> Poller::find(uint64_t number) {
  std::lock_guard lock(mutex_);
  auto found = watched_.find(number);
  return found == watched_.end() ? nullptr : found->second;
}

void Poller::arm(uint64_t number, uint32_t events) {
  auto watched = find(number);
  if (!watched) return;
  epoll_event event{};
  event.events = events | EPOLLONESHOT;
  event.data.u64 = number;
  std::lock_guard lock(watched->mutex);
  if (watched->fd >= 0) epoll_ctl(epoll_, EPOLL_CTL_MOD, watched->fd, &event);
}

void Poller::remove(uint64_t number) {
  std::shared_ptr<Watched> gone;  // destroyed without the lock
  {
    std::lock_guard lock(mutex_);
    auto found = watched_.find(number);
    if (found == watched_.end()) return;
    gone = std::move(found->second);
    watched_.erase(found);
  }
  std::lock_guard lock(gone->mutex);
  epoll_ctl(epoll_, EPOLL_CTL_DEL, gone->fd, nullptr);
  gone->fd = -1;
}

void Poller::loop() {
  while (true) {
    epoll_event event{};
    if (epoll_wait(epoll_, &event, 1, -1) != 1) continue;
    auto watched = find(event.data.u64);
    if (waiting_.fetch_sub(1) == 1) start_thread();
    if (watched) watched->handle(event.events);
    watched.reset();
    if (waiting_.fetch_add(1) < kMostWaiting) continue;
    waiting_.fetch_sub(1);
    threads_.fetch_sub(1);
    return;
  }
}

}  // namespace thalweg::net
