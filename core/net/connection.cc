// Reading and writing frames without blocking.
#include "net/connection.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "thread/run_soon.h"

namespace thalweg::net {
namespace {

std::atomic<uint64_t> last_number{0};

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

Connection::Connection(Socket socket, Greeting greeting, Owner& owner)
    : number_(++last_number),
      peer_(std::move(greeting.peer)),
      owner_(owner),
      arena_(std::move(greeting.arena)),
      socket_(std::make_shared<Socket>(std::move(socket))),
      writing_(dup(socket_->fd())) {
  if (!writing_) fail(Code::resource_exhausted, "a connection needs two descriptors: ", std::strerror(errno));
  received_ = sent_ = Clock::now().time_since_epoch().count();
}

Connection::~Connection() = default;

void Connection::start() {
  Poller& poller = Poller::shared();
  auto self = shared_from_this();
  if (arena_)
    loans_ = std::make_shared<Loans>(SharedArena::get(), std::move(arena_),
                                     [lender = weak_from_this()](uint64_t number) { give_back(lender, number); });
  reader_.emplace(loans_.get());
  write_number_ = poller.add(writing_.fd(), [self](uint32_t) { self->writable(); });
  read_number_ = poller.add(socket_->fd(), [self](uint32_t) { self->readable(); });
  poller.arm(read_number_, EPOLLIN);
}

void Connection::readable() {
  std::shared_ptr<Socket> socket;
  {
    std::lock_guard lock(mutex_);
    if (!socket_) return;
    socket = socket_;
  }
  SoonScope soon;
  auto self = shared_from_this();
  try {
    bool more = false;
    received_.store(Clock::now().time_since_epoch().count());
    const bool open = reader_->read(
        *socket,
        [&](Frame frame) {
          if (frame.kind == FrameKind::give_back) {
            if (loans_) loans_->returned(frame.number);
          } else if (frame.kind != FrameKind::heartbeat) {
            owner_.received(self, std::move(frame));
          }
        },
        more);
    if (!open) fail(Code::unavailable, name(), " closed the connection: its process has ended");
  } catch (const Error& error) {
    close(error);
    return;
  } catch (const std::exception& exception) {
    close(Error(Code::internal, exception.what()));
    return;
  }
  Poller::shared().arm(read_number_, EPOLLIN);
}

void Connection::writable() {
  std::optional<Error> failed;
  {
    std::lock_guard lock(mutex_);
    if (why_) return;
    try {
      write();
    } catch (const Error& error) {
      failed = error;
    }
  }
  if (failed) close(*failed);
}

void Connection::send(Frame frame) {
  Unsent unsent(std::move(frame), loans_.get());
  std::optional<Error> failed;
  {
    std::lock_guard lock(mutex_);
    if (why_) throw *why_;
    const bool idle = unsent_.empty();
    unsent_.push_back(std::move(unsent));
    try {
      if (idle) write();
    } catch (const Error& error) {
      failed = error;
    }
  }
  if (failed) {
    close(*failed);
    throw *failed;
  }
}

void Connection::write() {
  constexpr int kPieces = 64;
  while (!unsent_.empty()) {
    iovec pieces[kPieces];
    int count = 0;
    for (auto at = unsent_.begin(); at != unsent_.end() && count < kPieces; ++at)
      count += at->pieces(pieces + count, kPieces - count);
    msghdr message{};
    message.msg_iov = pieces;
    message.msg_iovlen = static_cast<size_t>(count);
    const ssize_t written = sendmsg(writing_.fd(), &message, MSG_NOSIGNAL);
    if (written < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return Poller::shared().arm(write_number_, EPOLLOUT);
      fail(Code::unavailable, "the connection to ", name(), " failed: ", std::strerror(errno));
    }
    sent_.store(Clock::now().time_since_epoch().count());
    bytes_sent_.fetch_add(written, std::memory_order_relaxed);
    for (size_t left = static_cast<size_t>(written); left > 0 || (!unsent_.empty() && unsent_.front().empty());) {
      Unsent& first = unsent_.front();
      const size_t taken = std::min(left, first.left());
      first.wrote(taken);
      left -= taken;
      if (first.empty()) unsent_.pop_front();
    }
  }
}

void Connection::close(const Error& why) {
  std::deque<Unsent> dropped;
  {
    std::lock_guard lock(mutex_);
    if (why_) return;
    why_ = why;
    is_lost_.store(true);
    dropped.swap(unsent_);
    Poller::shared().remove(read_number_);
    Poller::shared().remove(write_number_);
    shutdown(socket_->fd(), SHUT_RDWR);
    socket_.reset();
    writing_ = Socket();
  }
  SoonScope soon;
  owner_.lost(shared_from_this(), why);
}

}  // namespace thalweg::net
