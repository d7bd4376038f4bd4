// Handshakes within limits.
#include "net/callers.h"

#include <sys/socket.h>

#include <algorithm>

#include "thread/thread_pool.h"

namespace thalweg::net {
namespace {

constexpr size_t kAddresses = 4;

// Never destroyed, as the process's own pool.
ThreadPool& pool() {
  static ThreadPool* threads = new ThreadPool(512);
  return *threads;
}

}  // namespace

// The thread that speaks with the caller finds its socket closed, and removes it.
void Callers::hang_up(Caller& caller) {
  caller.gone = true;
  shutdown(caller.socket.fd(), SHUT_RDWR);
}

// Called with the lock.
void Callers::make_room(const std::string& host) {
  auto is_here = [](const Caller& each) { return !each.gone; };
  auto is_same = [&](const Caller& each) { return !each.gone && each.host == host; };
  if (static_cast<size_t>(std::count_if(callers_.begin(), callers_.end(), is_same)) >= of_one_)
    hang_up(*std::find_if(callers_.begin(), callers_.end(), is_same));
  else if (static_cast<size_t>(std::count_if(callers_.begin(), callers_.end(), is_here)) >= kAddresses * of_one_)
    hang_up(*std::find_if(callers_.begin(), callers_.end(), is_here));
}

void Callers::add(Socket socket, Greet greet, Admit admit) {
  Place place;
  {
    std::lock_guard lock(mutex_);
    if (closed_) return;
    std::string host = peer_host(socket);
    make_room(host);
    callers_.push_back({std::move(host), std::move(socket)});
    place = std::prev(callers_.end());
  }
  // `admit` keeps the owner of this object.
  pool().submit([this, place, greet = std::move(greet), admit = std::move(admit)] {
    std::optional<Greeting> greeting;
    try {
      greeting = greet(place->socket);
    } catch (const std::exception&) {
      // The caller is told why in the handshake, if it speaks the protocol; else it only loses its connection.
    }
    Socket admitted;
    {
      std::lock_guard lock(mutex_);
      if (!place->gone) admitted = std::move(place->socket);
      callers_.erase(place);
    }
    if (!greeting || !admitted) return;
    try {
      admit(std::move(admitted), std::move(*greeting));
    } catch (const std::exception&) {
      // As above.
    }
  });
}

void Callers::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
  for (Caller& each : callers_)
    if (!each.gone) hang_up(each);
}

size_t Callers::size() {
  std::lock_guard lock(mutex_);
  return callers_.size();
}

}  // namespace thalweg::net
