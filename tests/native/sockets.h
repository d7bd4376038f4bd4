// Socket pairs, frames as bytes, and owners of connections, for native tests of the network.
#pragma once

#include <sys/socket.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "check.h"
#include "net/connection.h"
#include "net/encoding.h"
#include "net/frame_reader.h"

namespace native_tests {

using namespace thalweg;
using namespace thalweg::net;
using namespace std::chrono_literals;

inline std::pair<Socket, Socket> socket_pair() {
  int fds[2];
  CHECK_EQUAL(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
  return {Socket(fds[0]), Socket(fds[1])};
}

inline void write_text(const Socket& socket, std::string_view bytes) {
  write_all(socket, bytes.data(), bytes.size(), Clock::now() + 10s);
}

// The bytes of a frame, taken `step` at a time.
inline std::string bytes_of(Frame frame, size_t step = SIZE_MAX, Loans* loans = nullptr) {
  Unsent unsent(std::move(frame), loans);
  std::string bytes;
  while (!unsent.empty()) {
    iovec piece;
    CHECK_EQUAL(unsent.pieces(&piece, 1), 1);
    const size_t taken = std::min(step, piece.iov_len);
    bytes.append(static_cast<const char*>(piece.iov_base), taken);
    unsent.wrote(taken);
  }
  return bytes;
}

// The frames that a reader makes of bytes which arrive `step` at a time.
inline std::vector<Frame> frames_of(std::string_view bytes, size_t step = 1 << 16, Loans* loans = nullptr,
                                    Limits limits = {}) {
  auto [in, out] = socket_pair();
  FrameReader reader(loans, limits);
  std::vector<Frame> found;
  std::atomic<int64_t> read{0};
  const size_t all = bytes.size();
  while (!bytes.empty()) {
    const std::string_view piece = bytes.substr(0, step);
    write_text(in, piece);
    bytes.remove_prefix(piece.size());
    CHECK(reader.read(out, [&](Frame frame) { found.push_back(std::move(frame)); }, read));
  }
  CHECK_EQUAL(static_cast<size_t>(read), all);
  return found;
}

inline void check_same(const Tensor& a, const Tensor& b) {
  CHECK_EQUAL(a.defined(), b.defined());
  if (!a.defined()) return;
  CHECK_EQUAL(a.dtype(), b.dtype());
  CHECK(a.shape() == b.shape());
  if (a.dtype() == DType::string)
    for (int64_t i = 0; i < a.num_elements(); ++i) CHECK_EQUAL(a.strings()[i], b.strings()[i]);
  else
    CHECK(std::memcmp(a.raw(), b.raw(), a.bytes()) == 0);
}

inline Tensor counting(int64_t count, Shape shape) {
  Tensor tensor(DType::int32, std::move(shape));
  for (int64_t i = 0; i < count; ++i) tensor.flat<int32_t>()[i] = static_cast<int32_t>(i * 2654435761u);
  return tensor;
}
inline Tensor counting(int64_t count) { return counting(count, Shape{count}); }

// Remembers what it is told.
class Recorder : public Connection::Owner {
 public:
  void received(const std::shared_ptr<Connection>& connection, Frame frame) override {
    if (on_frame) return on_frame(connection, std::move(frame));
    std::lock_guard lock(mutex_);
    frames.push_back(std::move(frame));
    changed_.notify_all();
  }
  void lost(const std::shared_ptr<Connection>&, const Error& why) override {
    std::lock_guard lock(mutex_);
    losses.push_back(why);
    changed_.notify_all();
  }
  template <typename Condition>
  void wait(const Condition& condition) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, 30s, condition)) check::fail(__FILE__, __LINE__, "waited in vain");
  }
  void wait_for_frames(size_t count) {
    wait([&] { return frames.size() >= count; });
  }
  size_t num_frames() {
    std::lock_guard lock(mutex_);
    return frames.size();
  }
  void wait_for_loss() {
    wait([&] { return !losses.empty(); });
  }

  std::function<void(const std::shared_ptr<Connection>&, Frame)> on_frame;
  std::vector<Frame> frames;
  std::vector<Error> losses;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

template <typename Condition>
void wait_until(const Condition& condition) {
  for (int i = 0; !condition(); ++i) {
    if (i > 30000) check::fail(__FILE__, __LINE__, "waited in vain");
    std::this_thread::sleep_for(1ms);
  }
}

}  // namespace native_tests
