// Connections, frames and heartbeats of a task.
#include "net/task.h"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>

#include "net/encoding.h"
#include "random/entropy.h"
#include "thread/run_soon.h"
#include "thread/thread_pool.h"

namespace thalweg::net {
namespace {

constexpr std::chrono::milliseconds kHandshake(5000);
constexpr std::chrono::milliseconds kWithoutDescriptors(100);
constexpr uint8_t kTraced = 1, kChecked = 2;  // flags of run frames

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

TaskOptions checked(TaskOptions options) {
  require(options.patience >= std::chrono::milliseconds(60), "the patience with silent peers is ",
          options.patience.count(), " ms, and must be at least 60");
  return options;
}

// For calls, apart from the process's own pool: some of them wait for other tasks. Never destroyed.
constexpr size_t kCallThreads = 256, kCallThreadsOfHost = 192;
ThreadPool& call_pool() {
  static ThreadPool* pool = new ThreadPool(kCallThreads);
  return *pool;
}

// For calls that wait for nobody.
constexpr size_t kPromptThreads = 16, kPromptThreadsOfHost = 12, kPromptThreadsOfPeer = 4;
ThreadPool& prompt_pool() {
  static ThreadPool* pool = new ThreadPool(kPromptThreads);
  return *pool;
}

}  // namespace

void put_options(Frame& frame, const StepOptions& options, int64_t clock_offset) {
  if (options.checked) frame.flags |= kChecked;
  if (!options.traced) return;
  frame.flags |= kTraced;
  Writer(frame.body).put(options.clock_offset + clock_offset);
}

Task::Task(TaskOptions options, Calls calls, Lost lost)
    : options_(checked(std::move(options))),
      calls_(std::move(calls)),
      lost_(std::move(lost)),
      arena_(options_.shares_memory ? SharedArena::get() : nullptr),
      steps_(options_.identity.task, options_.limits),
      collectives_(std::make_shared<Collectives>(options_.identity.task, options_.limits)),
      callers_(options_.limits.handshakes),
      open_calls_(options_.limits.calls),
      calls_to_run_(call_pool(), {kCallThreads, kCallThreadsOfHost, options_.limits.call_threads}),
      prompt_calls_to_run_(prompt_pool(), {kPromptThreads, kPromptThreadsOfHost, kPromptThreadsOfPeer}) {}

Task::~Task() {
  if (heart_.joinable()) heart_.detach();
}

int Task::listen(const std::string& host, int port) {
  Socket tcp = listen_tcp(host, port);
  Socket local = listen_unix(port);
  std::lock_guard lock(mutex_);
  if (closed_ || tcp_.number != 0) fail(Code::failed_precondition, "the task is closed, or listens already");
  watch(tcp_, std::move(tcp), false);
  if (local) watch(unix_, std::move(local), true);
  return port;
}

void Task::watch(Listening& listening, Socket socket, bool is_local) {
  std::lock_guard lock(listening.mutex);
  listening.socket = std::move(socket);
  listening.is_local = is_local;
  listening.number = Poller::shared().add(listening.socket.fd(), [weak = weak_from_this(), &listening](uint32_t) {
    if (auto self = weak.lock()) self->accept(listening);
  });
  Poller::shared().arm(listening.number, EPOLLIN);
}

void Task::accept(Listening& listening) {
  auto self = shared_from_this();
  std::lock_guard lock(listening.mutex);
  if (!listening.socket) return;
  while (Socket socket = accept_from(listening.socket)) {
    tune(socket);
    auto greet = [self, local = listening.is_local](const Socket& caller) { return self->greet(caller, local); };
    auto admit = [self](Socket caller, Greeting greeting) { self->admit(std::move(caller), std::move(greeting)); };
    callers_.add(std::move(socket), greet, admit);
  }
  if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
    // The caller stays in the socket's queue: armed at once, the socket would be reported at once, again and again.
    Timers::shared().at(Clock::now() + kWithoutDescriptors,
                        [number = listening.number] { Poller::shared().arm(number, EPOLLIN); });
    return;
  }
  Poller::shared().arm(listening.number, EPOLLIN);
}

Greeting Task::greet(const Socket& caller, bool is_local) {
  const auto until = Clock::now() + kHandshake;
  auto answer = [&](const Socket& socket) {
    return net::answer(socket, options_.identity, options_.key, arena_, is_local, until);
  };
  try {
    if (!options_.encrypt) return answer(caller);
    return answer_encrypted(caller, is_local, options_.encrypt, options_.identity.task, answer, until);
  } catch (const Error& error) {
    const bool is_refusal = error.code() == Code::unauthenticated || error.code() == Code::failed_precondition;
    if (is_refusal && options_.refused) options_.refused(peer_host(caller), error);
    throw;
  }
}

void Task::admit(Socket socket, Greeting greeting) {
  greeting.host = peer_host(socket);
  if (greeting.encrypted) socket = std::move(greeting.encrypted);
  if (!greeting.http2) {
    adopt(std::move(socket), std::move(greeting), true);
    return;
  }
  std::unique_lock lock(mutex_);
  std::shared_ptr<Forwarder> forwarder = forwarder_;
  lock.unlock();
  if (forwarder) forwarder->take(std::move(socket), kHttp2);
}

void Task::forward_http2(const std::string& name) {
  std::lock_guard lock(mutex_);
  if (closed_ || tcp_.number != 0) fail(Code::failed_precondition, "the task is closed, or listens already");
  forwarder_ = std::make_shared<Forwarder>(name);
}

std::shared_ptr<Connection> Task::connect(const std::string& address, std::chrono::milliseconds timeout, bool tcp) {
  const auto [host, port] = parse_address(address);
  const auto until = Clock::now() + timeout;
  Socket socket = tcp ? Socket() : connect_unix(host, port);
  const bool local = static_cast<bool>(socket);
  if (!local) socket = connect_tcp(host, port, until);
  tune(socket);
  try {
    if (!local && options_.encrypt) {
      socket = options_.encrypt(socket, host, until);
      tune(socket);
    }
    Greeting greeting = net::call(socket, options_.identity, options_.key, arena_, local, until);
    greeting.host = host;
    return adopt(std::move(socket), std::move(greeting));
  } catch (const Error& error) {
    throw Error(error.code(), cat("cannot connect to ", address, ": ", error.message()));
  }
}

std::shared_ptr<Connection> Task::adopt(Socket socket, Greeting greeting, bool called) {
  auto connection =
      Connection::make(std::move(socket), std::move(greeting), *this, options_.limits, shared_from_this());
  {
    std::lock_guard lock(mutex_);
    if (closed_) fail(Code::cancelled, "the task is closed");
    if (called && connections_.size() >= options_.limits.connections)
      fail(Code::resource_exhausted, "the task has ", connections_.size(), " connections");
    connections_.push_back(connection);
    if (!heart_.joinable()) heart_ = std::thread([self = shared_from_this()] { self->beat(); });
  }
  try {
    connection->start();
  } catch (const Error& error) {
    connection->close(error);
    throw;
  }
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
  for (Listening* each : {&tcp_, &unix_}) {
    std::lock_guard lock(each->mutex);
    Poller::shared().remove(each->number);
    each->socket = Socket();
  }
  callers_.close();
  if (forwarder_) forwarder_->close();
  const Error why(Code::cancelled, cat("task '", options_.identity.task, "' was closed"));
  for (const auto& run : steps_.runs()) run->abort(why);
  collectives_->close(why);
  for (const auto& connection : connections) connection->close(why);
  if (!heart.joinable()) return;
  // The heartbeats' thread itself closes the task if it is told so by someone who learns of a loss.
  if (heart.get_id() == std::this_thread::get_id())
    heart.detach();
  else
    heart.join();
}

bool Task::waits_for_one_step() { return open_calls_.none_waits() && steps_.size() == 1; }

void Task::release_claims() {
  if (Connection::num_claimed() == 0) return;
  for (const auto& each : connections()) each->release();
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
  Frame frame = open_calls_.begin(peer, method, payload, std::move(answer));
  release_claims();
  open_calls_.send(peer, std::move(frame));
}

void Task::received(const std::shared_ptr<Connection>& from, Frame frame) {
  Parser parser(frame.body);
  switch (frame.kind) {
    case FrameKind::run:
      run(from, std::move(frame));
      return;
    case FrameKind::tensor: {
      require(!frame.tensors.empty(), "a tensor frame has no tensor");
      FrameIteration at;
      at.frame = parser.take<uint64_t>();
      at.iteration = parser.take<int64_t>();
      uint64_t key = frame.number;
      for (size_t i = 0; i < frame.tensors.size(); ++i) {
        if (i > 0) key = parser.take<uint64_t>();
        steps_.deliver(from, static_cast<int64_t>(frame.step), key, at, std::move(frame.tensors[i]));
      }
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
      steps_.cancel(static_cast<int64_t>(frame.step), take_error(parser), from.get());
      return;
    case FrameKind::call:
      answer_call(from, frame);
      return;
    case FrameKind::answer:
      open_calls_.answered(from, std::move(frame));
      return;
    case FrameKind::collective:
      collectives_->received(from, std::move(frame));
      return;
    default:
      fail(Code::invalid_argument, "a frame of kind ", static_cast<int>(frame.kind), " was not expected");
  }
}

void Task::answer_call(const std::shared_ptr<Connection>& from, const Frame& frame) {
  Parser parser(frame.body);
  std::string method(parser.text());
  std::string payload(parser.rest());
  Answer answer = open_calls_.called(from, frame.number);
  if (!answer) return;
  // The task has to live until the answer is given.
  auto hold = [self = shared_from_this(), answer = std::move(answer)](std::optional<Error> error, std::string bytes) {
    answer(std::move(error), std::move(bytes));
  };
  CallQueue& queue = options_.prompt_methods.contains(method) ? prompt_calls_to_run_ : calls_to_run_;
  queue.add(from->number(), from->host(),
            [self = shared_from_this(), from, method = std::move(method), payload = std::move(payload),
             answer = std::move(hold)]() mutable {
              self->calls_(from, std::move(method), std::move(payload), std::move(answer));
            });
}

void Task::run(const std::shared_ptr<Connection>& from, Frame frame) {
  const bool is_counted = from->begin_step(options_.limits.steps);
  auto done = [from, is_counted, step = frame.step](StepResult result) {
    if (is_counted) from->end_step();
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
    if (!is_counted)
      fail(Code::resource_exhausted, "task '", options_.identity.task, "' runs ", options_.limits.steps, " steps that ",
           from->name(), " has started, and starts no more of them until one has ended");
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
  {
    std::lock_guard lock(mutex_);
    std::erase(connections_, peer);
  }
  steps_.forget(peer);
  for (const auto& run : steps_.runs()) run->lost(peer, why);
  collectives_->lost(peer, why);
  open_calls_.lost(peer, why);
  for (CallQueue* queue : {&calls_to_run_, &prompt_calls_to_run_}) queue->forget(peer->number());
  if (lost_) ThreadPool::shared().submit([self = shared_from_this(), peer, why] { self->lost_(peer, why); });
}

void Task::check(Connection& connection, Clock::time_point now) {
  const auto interval = options_.patience / 6;
  auto since = [&](Clock::time_point then) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(now - then).count();
  };
  if (now - connection.last_received() > options_.patience - interval) {
    // A busy machine may let this thread run and those that read wait.
    if (connection.has_unread()) return connection.excuse();
    connection.close(
        Error(Code::unavailable, cat(connection.name(), " has sent nothing for ", since(connection.last_received()),
                                     " ms: it is stopped, hung or cut off")));
  }
  // Heartbeats leave several times as often, unless others wait before them.
  else if (connection.backlog() > 0 && now - connection.last_sent() > options_.patience - interval)
    connection.close(
        Error(Code::unavailable, cat(connection.name(), " has read nothing for ", since(connection.last_sent()),
                                     " ms: ", connection.backlog(), " bytes wait for it")));
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
    release_claims();  // Whoever has claimed them may be in a long kernel, and reads nothing meanwhile.
    // This process was stopped, or got no processor: the peers' silence is its own.
    const bool late = now - last > 2 * interval;
    for (const auto& each : connections) {
      if (late)
        each->excuse();
      else
        check(*each, now);
      if (each->is_lost() || each->backlog() > 0 || (!late && now - each->last_sent() < interval)) continue;
      try {
        each->send({FrameKind::heartbeat, 0, 0, 0, {}, {}});
      } catch (const Error&) {
        // The owner has been told of the loss.
      }
    }
    steps_.expire(now);
    collectives_->watch(now);
    if (arena_ != nullptr) arena_->relax(now);
    last = now;
    lock.lock();
  }
}

}  // namespace thalweg::net
