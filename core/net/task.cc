// Connections, frames, calls and heartbeats of a task.
#include "net/task.h"

#include <sys/epoll.h>

#include <algorithm>

#include "net/encoding.h"
#include "random/entropy.h"
#include "thread/run_soon.h"
#include "thread/thread_pool.h"

namespace thalweg::net {
namespace {

constexpr std::chrono::milliseconds kHandshake(5000);
constexpr uint8_t kTraced = 1, kChecked = 2;  // flags of run frames
constexpr uint8_t kFailed = 1;                // of done frames and answers

StepOptions take_options(const Frame& frame) {
  StepOptions options{.traced = (frame.flags & kTraced) != 0, .checked = (frame.flags & kChecked) != 0};
  if (options.traced) options.clock_offset = Parser(frame.body).take<int64_t>();
  return options;
}

void put_result(Writer& writer, const StepResult& result) {
  writer.text(result.stats).put(static_cast<uint32_t>(result.findings.size()));
  for (const auto& [node, what] : result.findings) writer.text(node).text(what);
}

void take_result(Parser& parser, StepResult& result) {
  result.stats = parser.text();
  const auto count = parser.take<uint32_t>();
  for (uint32_t i = 0; i < count; ++i) {
    std::string node(parser.text());
    result.findings.emplace_back(std::move(node), std::string(parser.text()));
  }
}

}  // namespace

void put_options(Frame& frame, const StepOptions& options, int64_t clock_offset) {
  if (options.checked) frame.flags |= kChecked;
  if (!options.traced) return;
  frame.flags |= kTraced;
  Writer(frame.body).put(options.clock_offset + clock_offset);
}

Task::Task(TaskOptions options, Calls calls, Lost lost)
    : options_(std::move(options)),
      calls_(std::move(calls)),
      lost_(std::move(lost)),
      arena_(options_.shares_memory ? SharedArena::get() : nullptr),
      steps_(options_.identity.task) {}

Task::~Task() {
  if (heart_.joinable()) heart_.detach();
}

int Task::listen(const std::string& host, int port) {
  Socket tcp = listen_tcp(host, port);
  Socket local = listen_unix(port);
  std::lock_guard lock(mutex_);
  if (closed_ || tcp_) fail(Code::failed_precondition, "the task is closed, or listens already");
  tcp_ = std::move(tcp);
  unix_ = std::move(local);
  auto watch = [this](const Socket& socket, bool is_local, uint64_t& number) {
    auto weak = weak_from_this();
    number = Poller::shared().add(socket.fd(), [weak, &socket, is_local, &number](uint32_t) {
      auto self = weak.lock();
      if (!self) return;
      self->accept(socket, is_local);
      Poller::shared().arm(number, EPOLLIN);
    });
    Poller::shared().arm(number, EPOLLIN);
  };
  watch(tcp_, false, tcp_number_);
  if (unix_) watch(unix_, true, unix_number_);
  return port;
}

void Task::accept(const Socket& listening, bool local) {
  while (Socket socket = accept_from(listening)) {
    if (handshakes_.fetch_add(1) >= kMostHandshakes) {
      handshakes_.fetch_sub(1);
      continue;  // closes it
    }
    // Blocks, for some seconds if the caller is slow.
    auto shared = std::make_shared<Socket>(std::move(socket));
    ThreadPool::shared().submit([self = shared_from_this(), shared, local] {
      try {
        tune(*shared);
        Greeting greeting = net::answer(*shared, self->options_.identity, self->options_.key, self->arena_, local,
                                        Clock::now() + kHandshake);
        self->adopt(std::move(*shared), std::move(greeting));
      } catch (const std::exception&) {
        // The caller is told why in the handshake, if it speaks the protocol; else it only loses its connection.
      }
      self->handshakes_.fetch_sub(1);
    });
  }
}

std::shared_ptr<Connection> Task::connect(const std::string& address, std::chrono::milliseconds timeout, bool tcp) {
  const auto [host, port] = parse_address(address);
  const auto until = Clock::now() + timeout;
  Socket socket = tcp ? Socket() : connect_unix(host, port);
  const bool local = static_cast<bool>(socket);
  if (!local) socket = connect_tcp(host, port, until);
  tune(socket);
  try {
    Greeting greeting = net::call(socket, options_.identity, options_.key, arena_, local, until);
    return adopt(std::move(socket), std::move(greeting));
  } catch (const Error& error) {
    throw Error(error.code(), cat("cannot connect to ", address, ": ", error.message()));
  }
}

std::shared_ptr<Connection> Task::adopt(Socket socket, Greeting greeting) {
  auto connection = std::make_shared<Connection>(std::move(socket), std::move(greeting), *this);
  {
    std::lock_guard lock(mutex_);
    if (closed_) fail(Code::cancelled, "the task is closed");
    connections_.push_back(connection);
    if (!heart_.joinable()) heart_ = std::thread([self = shared_from_this()] { self->beat(); });
  }
  connection->start();
  return connection;
}

std::shared_ptr<Connection> Task::find(const std::string& task, uint64_t incarnation) {
  std::lock_guard lock(mutex_);
  for (const auto& each : connections_)
    if (each->peer().task == task && each->peer().incarnation == incarnation && !each->is_lost()) return each;
  return nullptr;
}

std::vector<std::shared_ptr<Connection>> Task::connections() {
  std::lock_guard lock(mutex_);
  return connections_;
}

void Task::close() {
  std::vector<std::shared_ptr<Connection>> connections;
  std::unordered_map<uint64_t, std::shared_ptr<Runnable>> runnables;
  std::thread heart;
  {
    std::lock_guard lock(mutex_);
    if (closed_) return;
    closed_ = true;
    connections = connections_;
    runnables.swap(runnables_);
    heart.swap(heart_);
  }
  wake_.notify_all();
  Poller::shared().remove(tcp_number_);
  Poller::shared().remove(unix_number_);
  const Error why(Code::cancelled, cat("task '", options_.identity.task, "' was closed"));
  for (const auto& run : steps_.runs()) run->abort(why);
  for (const auto& connection : connections) connection->close(why);
  if (heart.joinable()) heart.join();
  std::lock_guard lock(mutex_);
  tcp_ = Socket();
  unix_ = Socket();
}

uint64_t Task::add(std::shared_ptr<Runnable> runnable) {
  std::lock_guard lock(mutex_);
  if (closed_) fail(Code::cancelled, "the task is closed");
  // Random: a number of an earlier incarnation means nothing here.
  uint64_t number = 0;
  while (number == 0 || runnables_.contains(number)) number = entropy64();
  runnables_[number] = std::move(runnable);
  return number;
}

void Task::remove(uint64_t number) {
  std::shared_ptr<Runnable> gone;
  std::lock_guard lock(mutex_);
  auto found = runnables_.find(number);
  if (found == runnables_.end()) return;
  gone = std::move(found->second);
  runnables_.erase(found);
}

std::shared_ptr<Runnable> Task::runnable(uint64_t number) {
  std::lock_guard lock(mutex_);
  auto found = runnables_.find(number);
  return found == runnables_.end() ? nullptr : found->second;
}

void Task::call(const std::shared_ptr<Connection>& peer, const std::string& method, const std::string& payload,
                Answer answer) {
  Frame frame{FrameKind::call, 0, 0, 0, {}, {}};
  Writer(frame.body).text(method);
  frame.body += payload;
  uint64_t number;
  {
    std::lock_guard lock(mutex_);
    number = frame.number = ++last_call_;
    pending_[number] = {peer, std::move(answer)};
  }
  try {
    peer->send(std::move(frame));
  } catch (const Error& error) {
    std::unique_lock lock(mutex_);
    auto found = pending_.find(number);
    if (found == pending_.end()) return;  // `lost` has answered
    Answer unanswered = std::move(found->second.answer);
    pending_.erase(found);
    lock.unlock();
    unanswered(error, {});
  }
}

void Task::received(const std::shared_ptr<Connection>& from, Frame frame) {
  Parser parser(frame.body);
  switch (frame.kind) {
    case FrameKind::run:
      run(from, std::move(frame));
      return;
    case FrameKind::tensor: {
      require(frame.tensors.size() == 1, "a tensor frame has ", frame.tensors.size(), " tensors");
      FrameIteration at;
      at.frame = parser.take<uint64_t>();
      at.iteration = parser.take<int64_t>();
      steps_.deliver(from, static_cast<int64_t>(frame.step), frame.number, at, std::move(frame.tensors[0]));
      return;
    }
    case FrameKind::done: {
      StepResult result;
      if (frame.flags & kFailed)
        result.error = take_error(parser);
      else
        take_result(parser, result);
      result.fetches = std::move(frame.tensors);
      if (auto found = steps_.find(static_cast<int64_t>(frame.step))) found->part_done(from, std::move(result));
      return;
    }
    case FrameKind::cancel:
      steps_.cancel(static_cast<int64_t>(frame.step), take_error(parser));
      return;
    case FrameKind::call: {
      std::string method(parser.text());
      std::string payload(parser.rest());
      auto answer = [from, number = frame.number](std::optional<Error> error, std::string bytes) {
        Frame reply{FrameKind::answer, static_cast<uint8_t>(error ? kFailed : 0), 0, number, {}, {}};
        if (error) {
          Writer writer(reply.body);
          put_error(writer, *error);
        } else {
          reply.body = std::move(bytes);
        }
        try {
          from->send(std::move(reply));
        } catch (const Error&) {
          // The caller has been told of the loss.
        }
      };
      ThreadPool::shared().submit([self = shared_from_this(), from, method = std::move(method),
                                   payload = std::move(payload), answer = std::move(answer)]() mutable {
        self->calls_(from, std::move(method), std::move(payload), std::move(answer));
      });
      return;
    }
    case FrameKind::answer: {
      Answer answer;
      {
        std::lock_guard lock(mutex_);
        auto found = pending_.find(frame.number);
        if (found == pending_.end() || found->second.peer != from) return;
        answer = std::move(found->second.answer);
        pending_.erase(found);
      }
      if (frame.flags & kFailed)
        answer(take_error(parser), {});
      else
        answer(std::nullopt, std::move(frame.body));
      return;
    }
    default:
      fail(Code::invalid_argument, "a frame of kind ", static_cast<int>(frame.kind), " was not expected");
  }
}

void Task::run(const std::shared_ptr<Connection>& from, Frame frame) {
  auto done = [from, step = frame.step](StepResult result) {
    Frame reply{FrameKind::done, static_cast<uint8_t>(result.error ? kFailed : 0), step, 0, {}, {}};
    Writer writer(reply.body);
    if (result.error)
      put_error(writer, *result.error);
    else
      put_result(writer, result);
    reply.tensors = std::move(result.fetches);
    try {
      try {
        from->send(std::move(reply));
      } catch (const Error& error) {
        if (error.code() != Code::invalid_argument) throw;
        // A fetch that cannot leave its task.
        Frame failed{FrameKind::done, kFailed, step, 0, {}, {}};
        Writer text(failed.body);
        put_error(text, error);
        from->send(std::move(failed));
      }
    } catch (const Error&) {
      // The starter is gone, and with it the step.
    }
  };
  try {
    auto found = runnable(frame.number);
    if (!found)
      fail(Code::aborted, "task '", options_.identity.task,
           "' has no such step: it was restarted, or the session was closed");
    found->start(static_cast<int64_t>(frame.step), std::move(frame.tensors), take_options(frame), from, done);
  } catch (const Error& error) {
    done({error, {}, {}, {}});
  }
}

void Task::lost(const std::shared_ptr<Connection>& peer, const Error& why) {
  std::vector<Answer> unanswered;
  {
    std::lock_guard lock(mutex_);
    std::erase(connections_, peer);
    for (auto at = pending_.begin(); at != pending_.end();) {
      if (at->second.peer != peer) {
        ++at;
        continue;
      }
      unanswered.push_back(std::move(at->second.answer));
      at = pending_.erase(at);
    }
  }
  steps_.forget(peer);
  for (const auto& run : steps_.runs()) run->lost(peer, why);
  for (Answer& answer : unanswered) answer(why, {});
  if (lost_) ThreadPool::shared().submit([self = shared_from_this(), peer, why] { self->lost_(peer, why); });
}

// Sends signs of life, and looks for those of the peers.
void Task::beat() {
  const auto interval = options_.patience / 6;
  auto last = Clock::now();
  std::unique_lock lock(mutex_);
  while (!closed_) {
    wake_.wait_for(lock, interval);
    if (closed_) return;
    const auto connections = connections_;
    lock.unlock();
    const auto now = Clock::now();
    // This process was stopped, or got no processor: the peers' silence is its own.
    const bool late = now - last > 2 * interval;
    for (const auto& each : connections) {
      if (late) {
        each->excuse();
      } else if (now - each->last_received() > options_.patience - interval) {
        each->close(
            Error(Code::unavailable,
                  cat(each->name(), " has sent nothing for ",
                      std::chrono::duration_cast<std::chrono::milliseconds>(now - each->last_received()).count(),
                      " ms: it is stopped, hung or cut off")));
        continue;
      }
      if (now - each->last_sent() < interval) continue;
      try {
        each->send({FrameKind::heartbeat, 0, 0, 0, {}, {}});
      } catch (const Error&) {
      }
    }
    steps_.expire(now);
    last = now;
    lock.lock();
  }
}

}  // namespace thalweg::net
