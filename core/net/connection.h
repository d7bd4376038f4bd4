// Connection: frames to and from one peer.
//
// `send` never blocks: it writes what the socket takes at once, on the caller's thread, and leaves the rest to the
// poller. Frames arrive on the poller's threads, one after the other, in the order in which they were sent; work that
// they make possible runs when they have been handled (thread/run_soon.h). A connection is lost once, for whatever
// reason comes first, and then its owner is told; every later `send` throws that reason. Tensors that were lent to the
// peer stay for a while (net/loans.h). Thread-safe; nothing of the owner, and no tensor's end, runs with the lock held.
//
// A thread that waits for a short step claims the connections to the tasks of the step and reads from them itself, with
// `read_claimed`: no other thread has to be woken for what comes (net/step_waiter.h).
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>

#include "net/frame.h"
#include "net/frame_reader.h"
#include "net/handshake.h"
#include "net/poller.h"

namespace thalweg::net {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  class Owner {
   public:
    virtual ~Owner() = default;
    // Throwing Error ends the connection.
    virtual void received(const std::shared_ptr<Connection>& connection, Frame frame) = 0;
    virtual void lost(const std::shared_ptr<Connection>& connection, const Error& why) = 0;
  };

  // The owner must stay until it has been told of the loss, and handled what came before; `keeper`, if there is one,
  // keeps it as long as that.
  static std::shared_ptr<Connection> make(Socket socket, Greeting greeting, Owner& owner, const Limits& limits = {},
                                          std::shared_ptr<void> keeper = nullptr);
  ~Connection();
  Connection(const Connection&) = delete;
  // Begins to read, unless the connection is lost already. Frames may be sent before.
  void start();

  const Identity& peer() const { return peer_; }
  const std::string& host() const { return host_; }
  // Tells it from all other connections of this process.
  uint64_t number() const { return number_; }
  // The peer's name for messages.
  std::string name() const { return peer_.task.empty() ? "a client" : "task '" + peer_.task + "'"; }
  bool shares_memory() const { return loans_ != nullptr; }
  bool is_lost() const { return is_lost_.load(); }
  // The reason of the loss, if it is lost.
  std::optional<Error> why_lost();
  void send(Frame frame);

  // Takes reading over from the poller; false if another thread has done that, or the connection is lost.
  bool claim();
  // Gives reading back to the poller. Any thread may do so for whoever has claimed the connection.
  void release();
  // Reads what there is; work of step `step` that this makes possible runs before it returns. False if the connection
  // is not claimed any more.
  bool read_claimed(int64_t step);
  // How many connections of this process are claimed.
  static int num_claimed();
  // For `poll`; -1 when lost. Valid as long as the connection is claimed.
  int reading_fd();

  // Ends the connection; the owner is told.
  void close(const Error& why);
  // For the owner's heartbeats: times of the last bytes that came, and that were sent.
  Clock::time_point last_received() const { return Clock::time_point(Clock::duration(received_.load())); }
  Clock::time_point last_sent() const { return Clock::time_point(Clock::duration(sent_.load())); }
  // Neither the peer's silence nor its not reading counts until now: this process did not look.
  void excuse() { received_ = sent_ = Clock::now().time_since_epoch().count(); }
  // Whether bytes of the peer wait in the socket: it is this process that does not read, for want of a processor.
  bool has_unread();
  // Bytes that wait until the peer reads.
  size_t backlog() const { return backlog_.load(); }
  // The clock of this process minus that of the peer, in nanoseconds: for traces of several hosts.
  int64_t clock_offset() const { return clock_offset_.load(); }
  void set_clock_offset(int64_t nanoseconds) { clock_offset_.store(nanoseconds); }
  int64_t bytes_received() const { return bytes_received_.load(); }
  int64_t bytes_sent() const { return bytes_sent_.load(); }
  // Frames that carried tensors of steps, in both directions.
  int64_t messages_received() const { return messages_received_.load(); }
  int64_t messages_sent() const { return messages_sent_.load(); }
  // Bytes of tensors that one side has read in the memory of the other; they are in no other count.
  int64_t bytes_lent() const { return loans_ ? loans_->bytes_lent() : 0; }
  int64_t bytes_borrowed() const { return loans_ ? loans_->bytes_borrowed() : 0; }
  size_t loans() { return loans_ ? loans_->outstanding() : 0; }

  // Counts a step that the peer has started here; false if it has `most` of them already.
  bool begin_step(size_t most);
  void end_step() { steps_.fetch_sub(1, std::memory_order_relaxed); }

 private:
  Connection(Socket socket, Greeting greeting, Owner& owner, const Limits& limits);
  void readable();
  // Reads what there is, lets others read again, and runs the work of a step (0: of any) that it has made possible.
  void read(const Socket& socket, int64_t step);
  // Reads what comes within microseconds, over and over; false if nothing has come. The connection is claimed.
  bool spin(const Socket& socket);
  void set_claimed(bool is_claimed);
  void writable();
  // Writes what the socket takes. Called with the lock. Frames with tensors go to `written` when they are done with, to
  // be destroyed without the lock: a tensor that was borrowed from a peer is then given back, by a frame to that peer.
  void write(std::vector<Unsent>& written);

  const uint64_t number_;
  const Identity peer_;
  const std::string host_;
  Owner& owner_;
  const size_t most_backlog_;
  std::unique_ptr<Loans> loans_;  // set by `make`, before any other thread knows the connection
  std::optional<FrameReader> reader_;
  std::atomic<bool> is_lost_{false};
  std::atomic<bool> expects_more_{false};  // soon after what has come
  std::atomic<uint32_t> arrivals_{0};
  std::atomic<Clock::rep> received_, sent_;
  std::atomic<int64_t> bytes_received_{0}, bytes_sent_{0}, clock_offset_{0};
  std::atomic<int64_t> messages_received_{0}, messages_sent_{0};
  std::atomic<size_t> backlog_{0};
  std::atomic<size_t> steps_{0};  // that the peer has started, and that have not ended

  std::mutex mutex_;  // guards everything below
  uint64_t read_number_ = 0, write_number_ = 0;
  bool is_reading_ = false;         // some thread is
  bool is_claimed_ = false;         // the poller is not
  std::shared_ptr<void> keeper_;    // of the owner; null when lost
  std::shared_ptr<Socket> socket_;  // null when lost; a thread that reads keeps it open
  Socket writing_;                  // a second descriptor of the same socket: reading and writing are armed apart
  std::deque<Unsent> unsent_;
  std::optional<Error> why_;
};

}  // namespace thalweg::net
