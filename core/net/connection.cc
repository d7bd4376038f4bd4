// Reading and writing frames without blocking.
#include "net/connection.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "net/spin.h"
#include "thread/run_soon.h"

namespace thalweg::net {
namespace {

std::atomic<uint64_t> last_number{0};
std::atomic<int> claimed{0};

// Work that took less lets a thread look for the next frame before it sleeps. After a vain look, every so many
// arrivals are followed by another one.
constexpr std::chrono::microseconds kShort{200};
constexpr uint32_t kArrivals = 8;

// Tells the lender that a tensor is no longer read. Borrowed tensors may outlive the connection.
void give_back(const std::weak_ptr<Connection>& lender, uint64_t number) {
  auto connection = lender.lock();
  if (!connection) return;
  try {
    connection->send({FrameKind::give_back, 0, 0, number, {}, {}});
  } catch (const Error&) {
    // A lost connection ends its loans.
  }
}

}  // namespace

Connection::Connection(Socket socket, Greeting greeting, Owner& owner, const Limits& limits)
    : number_(++last_number),
      peer_(std::move(greeting.peer)),
      host_(std::move(greeting.host)),
      owner_(owner),
      most_backlog_(limits.backlog),
      socket_(std::make_shared<Socket>(std::move(socket))),
      writing_(fcntl(socket_->fd(), F_DUPFD_CLOEXEC, 0)) {
  if (!writing_) fail(Code::resource_exhausted, "a connection needs two descriptors: ", std::strerror(errno));
  received_ = sent_ = Clock::now().time_since_epoch().count();
}

Connection::~Connection() = default;

std::shared_ptr<Connection> Connection::make(Socket socket, Greeting greeting, Owner& owner, const Limits& limits,
                                             std::shared_ptr<void> keeper) {
  auto arena = std::move(greeting.arena);
  std::shared_ptr<Connection> made(new Connection(std::move(socket), std::move(greeting), owner, limits));
  if (arena)
    made->loans_ = std::make_unique<Loans>(
        SharedArena::get(), std::move(arena),
        [lender = std::weak_ptr<Connection>(made)](uint64_t number) { give_back(lender, number); });
  made->keeper_ = std::move(keeper);
  made->reader_.emplace(made->loans_.get(), limits);
  return made;
}

void Connection::start() {
  Poller& poller = Poller::shared();
  auto self = shared_from_this();
  std::lock_guard lock(mutex_);
  if (why_) return;
  write_number_ = poller.add(writing_.fd(), [self](uint32_t) { self->writable(); });
  read_number_ = poller.add(socket_->fd(), [self](uint32_t) { self->readable(); });
  if (!unsent_.empty()) poller.arm(write_number_, EPOLLOUT);
  poller.arm(read_number_, EPOLLIN);
}

void Connection::readable() {
  const bool spins = expects_more_ && Spin::shared().begin();
  std::shared_ptr<Socket> socket;
  std::shared_ptr<void> keeper;
  {
    std::lock_guard lock(mutex_);
    if (socket_ && !is_reading_ && !is_claimed_) {
      is_reading_ = true;
      socket = socket_;
      keeper = keeper_;
      if (spins) set_claimed(true);  // The poller has disarmed the socket.
    }
  }
  // Work that a frame makes possible may take long: then other threads read from the connection meanwhile.
  std::optional<LongWorkScope> claimed;
  if (socket && spins) claimed.emplace([this] { release(); });
  if (socket) {
    const auto began = Clock::now();
    read(*socket, 0);
    if (Clock::now() - began > kShort)
      expects_more_ = false;
    else if (!spins)
      expects_more_ = ++arrivals_ % kArrivals == 0;
  }
  if (!spins) return;
  if (socket) {
    if (!spin(*socket)) expects_more_ = false;
    release();
  }
  Spin::shared().end();
}

bool Connection::spin(const Socket& socket) {
  bool found = false;
  pollfd waiting{socket.fd(), POLLIN, 0};
  for (Spin::Turn turn; !Spin::shared().is_wanted() && turn.pause();) {
    if (poll(&waiting, 1, 0) <= 0) continue;
    if (!read_claimed(0)) break;
    found = true;
    turn.progress();
  }
  return found;
}

void Connection::read(const Socket& socket, int64_t step) {
  SoonScope soon(step);  // What the frames make possible runs when others may read again.
  auto self = shared_from_this();
  try {
    received_.store(Clock::now().time_since_epoch().count());
    const bool open = reader_->read(
        socket,
        [&](Frame frame) {
          if (frame.kind == FrameKind::give_back) {
            if (loans_) loans_->returned(frame.number);
          } else if (frame.kind != FrameKind::heartbeat) {
            if (frame.kind == FrameKind::tensor) messages_received_.fetch_add(1, std::memory_order_relaxed);
            owner_.received(self, std::move(frame));
          }
        },
        bytes_received_);
    if (!open) fail(Code::unavailable, name(), " closed the connection: its process has ended");
  } catch (const Error& error) {
    close(error);
  } catch (const std::exception& exception) {
    close(Error(Code::internal, exception.what()));
  }
  std::lock_guard lock(mutex_);
  is_reading_ = false;
  if (socket_ && !is_claimed_) Poller::shared().arm(read_number_, EPOLLIN);
}

void Connection::set_claimed(bool is_claimed) {
  is_claimed_ = is_claimed;
  claimed += is_claimed ? 1 : -1;
}

bool Connection::claim() {
  std::lock_guard lock(mutex_);
  if (!socket_ || is_claimed_ || read_number_ == 0) return false;
  set_claimed(true);
  if (!is_reading_) Poller::shared().arm(read_number_, 0);
  return true;
}

void Connection::release() {
  std::lock_guard lock(mutex_);
  if (!is_claimed_) return;
  set_claimed(false);
  if (socket_ && !is_reading_) Poller::shared().arm(read_number_, EPOLLIN);
}

bool Connection::read_claimed(int64_t step) {
  std::shared_ptr<Socket> socket;
  std::shared_ptr<void> keeper;
  {
    std::lock_guard lock(mutex_);
    if (!socket_ || !is_claimed_) return false;
    if (is_reading_) return true;  // What the poller began before the claim.
    is_reading_ = true;
    socket = socket_;
    keeper = keeper_;
  }
  read(*socket, step);
  return true;
}

int Connection::num_claimed() { return claimed.load(); }

int Connection::reading_fd() {
  std::lock_guard lock(mutex_);
  return socket_ ? socket_->fd() : -1;
}

void Connection::writable() {
  std::optional<Error> failed;
  std::vector<Unsent> written;
  {
    std::lock_guard lock(mutex_);
    if (why_) return;
    try {
      write(written);
    } catch (const Error& error) {
      failed = error;
    }
  }
  if (failed) close(*failed);
}

void Connection::send(Frame frame) {
  const bool has_step_tensors = frame.kind == FrameKind::tensor;
  Unsent unsent(std::move(frame), loans_.get());
  std::optional<Error> failed;
  std::vector<Unsent> written;
  {
    std::lock_guard lock(mutex_);
    if (why_) throw *why_;
    if (has_step_tensors) messages_sent_.fetch_add(1, std::memory_order_relaxed);
    const bool idle = unsent_.empty();
    const size_t waiting = backlog_.fetch_add(unsent.left()) + unsent.left();
    unsent_.push_back(std::move(unsent));
    try {
      if (!idle && waiting > most_backlog_)
        fail(Code::resource_exhausted, name(), " does not read what it is sent: ", waiting, " bytes wait");
      if (idle) write(written);
    } catch (const Error& error) {
      failed = error;
    }
  }
  if (failed) {
    close(*failed);
    throw *failed;
  }
}

void Connection::write(std::vector<Unsent>& written) {
  constexpr int kPieces = 64;
  while (!unsent_.empty()) {
    iovec pieces[kPieces];
    int count = 0;
    for (auto at = unsent_.begin(); at != unsent_.end() && count < kPieces; ++at)
      count += at->pieces(pieces + count, kPieces - count);
    msghdr message{};
    message.msg_iov = pieces;
    message.msg_iovlen = static_cast<size_t>(count);
    const ssize_t taken = sendmsg(writing_.fd(), &message, MSG_NOSIGNAL);
    if (taken < 0) {
      if (errno == EINTR) continue;
      // Before `start` there is no number to arm.
      if (errno == EAGAIN || errno == EWOULDBLOCK) return Poller::shared().arm(write_number_, EPOLLOUT);
      fail(Code::unavailable, "the connection to ", name(), " failed: ", std::strerror(errno));
    }
    sent_.store(Clock::now().time_since_epoch().count());
    bytes_sent_.fetch_add(taken, std::memory_order_relaxed);
    backlog_.fetch_sub(static_cast<size_t>(taken));
    for (size_t left = static_cast<size_t>(taken); left > 0;) {
      Unsent& first = unsent_.front();
      const size_t part = std::min(left, first.left());
      first.wrote(part);
      left -= part;
      if (!first.empty()) continue;
      if (first.has_tensors()) written.push_back(std::move(first));
      unsent_.pop_front();
    }
  }
}

bool Connection::begin_step(size_t most) {
  if (steps_.fetch_add(1, std::memory_order_relaxed) < most) return true;
  end_step();
  return false;
}

bool Connection::has_unread() {
  std::lock_guard lock(mutex_);
  char byte;
  return socket_ && recv(socket_->fd(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
}

std::optional<Error> Connection::why_lost() {
  std::lock_guard lock(mutex_);
  return why_;
}

void Connection::close(const Error& why) {
  auto self = shared_from_this();
  std::shared_ptr<void> keeper;
  std::deque<Unsent> dropped;
  {
    std::lock_guard lock(mutex_);
    if (why_) return;
    why_ = why;
    keeper = std::move(keeper_);
    is_lost_.store(true);
    dropped.swap(unsent_);
    Poller::shared().remove(read_number_);
    Poller::shared().remove(write_number_);
    shutdown(socket_->fd(), SHUT_RDWR);
    socket_.reset();
    writing_ = Socket();
  }
  if (loans_) loans_->end();
  // No SoonScope: this may be the heartbeats' thread, which must not run kernels.
  owner_.lost(self, why);
}

}  // namespace thalweg::net
