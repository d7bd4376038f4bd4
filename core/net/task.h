// Task: this process as a member of a cluster, or as a client of one: its connections, the steps that peers can start,
// the steps that are running, and calls.
//
// Frames of the step path (run, tensor, done, cancel) are handled where they arrive and never enter Python. Calls do:
// they create sessions and register steps. A peer that sends nothing for `patience`, or reads nothing of what it is
// sent, is taken for dead, cut off or stopped; a thread of its own sends heartbeats, so that a task with a long kernel
// is not. Frames that no task would send, and more than the limits allow (net/limits.h), end a connection.
//
// Thread-safe. `close` ends all connections, steps and calls; the object must be held by a shared pointer.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "net/call_queue.h"
#include "net/callers.h"
#include "net/collectives.h"
#include "net/connection.h"
#include "net/encryption.h"
#include "net/forwarder.h"
#include "net/open_calls.h"
#include "net/runnable.h"
#include "net/step_table.h"

namespace thalweg::net {

struct TaskOptions {
  Identity identity;
  std::string key;            // the cluster's; empty: any process is admitted
  bool shares_memory = true;  // with tasks of this host
  std::chrono::milliseconds patience{3000};
  Limits limits;
  Encrypt encrypt{};  // null: TCP connections are not encrypted
  // Told of callers that were refused for lack of a key or certificate: their address, and why. May block.
  std::function<void(const std::string& host, const Error& why)> refused{};
  // Methods that wait for nobody: their calls do not wait behind those that do.
  std::unordered_set<std::string> prompt_methods{};
};

class Task final : public Connection::Owner, public std::enable_shared_from_this<Task> {
 public:
  using Answer = OpenCalls::Answer;
  // Handles a call of a peer, on a thread that may block.
  using Calls =
      std::function<void(const std::shared_ptr<Connection>&, std::string method, std::string payload, Answer)>;
  // A connection is lost: for whoever keeps something for the peer. On a thread that may block.
  using Lost = std::function<void(const std::shared_ptr<Connection>&, const Error&)>;

  Task(TaskOptions options, Calls calls, Lost lost);
  ~Task() override;
  const Identity& identity() const { return options_.identity; }

  // Admits peers at a TCP port, and those of this host by a Unix socket; the port.
  int listen(const std::string& host, int port);
  // Passes callers that speak HTTP/2 on to a Unix socket, by its abstract name; before `listen`.
  void forward_http2(const std::string& name);
  // Connects to a task at "host:port". `tcp`: also on this host. Blocks until the handshake is done.
  std::shared_ptr<Connection> connect(const std::string& address, std::chrono::milliseconds timeout, bool tcp = false);
  // A connection to this incarnation of a task, whichever side has made it; null if there is none.
  std::shared_ptr<Connection> find(const std::string& task, uint64_t incarnation);
  std::vector<std::shared_ptr<Connection>> connections();
  void close();

  // Makes a step known to peers: its number.
  uint64_t add(std::shared_ptr<Runnable> runnable);
  void remove(uint64_t number);
  void call(const std::shared_ptr<Connection>& peer, const std::string& method, const std::string& payload,
            Answer answer);
  StepTable& steps() { return steps_; }
  // Whether a single step is running, or known, here, and no call waits for its answer.
  bool waits_for_one_step();
  // Gives all connections back to the poller that waiting threads have claimed (net/step_waiter.h).
  void release_claims();
  const std::shared_ptr<Collectives>& collectives() const { return collectives_; }

  void received(const std::shared_ptr<Connection>& from, Frame frame) override;
  void lost(const std::shared_ptr<Connection>& peer, const Error& why) override;

 private:
  // A socket at which peers call. `mutex` guards it: `close` waits until nobody accepts from it.
  struct Listening {
    std::mutex mutex;
    Socket socket;
    uint64_t number = 0;  // in the poller
    bool is_local = false;
  };

  void watch(Listening& listening, Socket socket, bool is_local);
  void accept(Listening& listening);
  Greeting greet(const Socket& caller, bool is_local);
  void admit(Socket socket, Greeting greeting);
  std::shared_ptr<Connection> adopt(Socket socket, Greeting greeting, bool called = false);
  // Whether a peer has sent nothing, or read nothing, for too long.
  void check(Connection& connection, Clock::time_point now);
  void answer_call(const std::shared_ptr<Connection>& from, const Frame& frame);
  void run(const std::shared_ptr<Connection>& from, Frame frame);
  void beat();
  std::shared_ptr<Runnable> runnable(uint64_t number);

  const TaskOptions options_;
  const Calls calls_;
  const Lost lost_;
  SharedArena* const arena_;
  StepTable steps_;
  const std::shared_ptr<Collectives> collectives_;
  Callers callers_;
  OpenCalls open_calls_;
  CallQueue calls_to_run_, prompt_calls_to_run_;
  Listening tcp_, unix_;

  std::mutex mutex_;  // guards everything below
  std::condition_variable wake_;
  bool closed_ = false;
  std::thread heart_;
  std::shared_ptr<Forwarder> forwarder_;  // null: callers that speak HTTP/2 are refused
  std::vector<std::shared_ptr<Connection>> connections_;
  std::unordered_map<uint64_t, std::shared_ptr<Runnable>> runnables_;
};

// How a run frame says how its step is to be observed. `clock_offset`: of the connection that it goes to.
void put_options(Frame& frame, const StepOptions& options, int64_t clock_offset);

}  // namespace thalweg::net
