// Calls, and the frames that answer them.
#include "net/open_calls.h"

#include <vector>

#include "net/encoding.h"

namespace thalweg::net {
namespace {

constexpr size_t kUnreadRefusals = 1 << 20;  // bytes

}  // namespace

Frame OpenCalls::begin(const std::shared_ptr<Connection>& peer, const std::string& method, const std::string& payload,
                       Answer answer) {
  Frame frame{FrameKind::call, 0, 0, 0, {}, {}};
  Writer(frame.body).text(method);
  frame.body += payload;
  std::lock_guard lock(mutex_);
  frame.number = ++last_;
  waiting_[frame.number] = {peer, std::move(answer)};
  return frame;
}

void OpenCalls::send(const std::shared_ptr<Connection>& peer, Frame frame) {
  const uint64_t number = frame.number;
  try {
    peer->send(std::move(frame));
  } catch (const Error& error) {
    // Otherwise `lost` has answered.
    if (Answer answer = take(number, nullptr)) answer(error, {});
  }
}

bool OpenCalls::none_waits() {
  std::lock_guard lock(mutex_);
  return waiting_.empty();
}

OpenCalls::Answer OpenCalls::take(uint64_t number, const Connection* peer) {
  std::lock_guard lock(mutex_);
  auto found = waiting_.find(number);
  if (found == waiting_.end() || (peer != nullptr && found->second.peer.get() != peer)) return {};
  Answer answer = std::move(found->second.answer);
  waiting_.erase(found);
  return answer;
}

void OpenCalls::answered(const std::shared_ptr<Connection>& from, Frame frame) {
  Answer answer = take(frame.number, from.get());
  if (!answer) return;
  if (!(frame.flags & kFailed)) return answer(std::nullopt, std::move(frame.body));
  std::optional<Error> error;
  try {
    Parser parser(frame.body);
    error = take_error(parser);
  } catch (const Error& unreadable) {
    answer(Error(Code::unavailable, cat(from->name(), " sent an answer that cannot be read")), {});
    throw;
  }
  answer(std::move(error), {});
}

OpenCalls::Answer OpenCalls::called(const std::shared_ptr<Connection>& from, uint64_t number) {
  std::unique_lock lock(mutex_);
  if (from->is_lost()) return {};
  size_t& unanswered = unanswered_[from->number()];
  if (unanswered >= most_) {
    lock.unlock();
    const Error refused(Code::resource_exhausted, cat("the task has ", most_, " calls of ", from->name(),
                                                      " that it has not answered yet, and takes no more"));
    if (from->backlog() > kUnreadRefusals) throw refused;
    reply(*from, number, refused, {});
    return {};
  }
  ++unanswered;
  return [this, from, number](std::optional<Error> error, std::string bytes) {
    has_answered(*from);
    reply(*from, number, error, std::move(bytes));
  };
}

void OpenCalls::reply(Connection& to, uint64_t number, const std::optional<Error>& failed, std::string bytes) {
  auto send = [&](const std::optional<Error>& error) {
    Frame frame{FrameKind::answer, static_cast<uint8_t>(error ? kFailed : 0), 0, number, {}, {}};
    Writer writer(frame.body);
    if (error)
      put_error(writer, *error);
    else
      frame.body = std::move(bytes);
    to.send(std::move(frame));
  };
  try {
    try {
      send(failed);
    } catch (const Error& unsendable) {
      if (unsendable.code() != Code::invalid_argument) throw;
      send(unsendable);  // The answer is too long.
    }
  } catch (const Error&) {
    // The caller has been told of the loss.
  }
}

void OpenCalls::has_answered(const Connection& from) {
  std::lock_guard lock(mutex_);
  auto found = unanswered_.find(from.number());
  if (found != unanswered_.end() && --found->second == 0) unanswered_.erase(found);
}

void OpenCalls::lost(const std::shared_ptr<Connection>& peer, const Error& why) {
  std::vector<Answer> unanswered;
  {
    std::lock_guard lock(mutex_);
    unanswered_.erase(peer->number());
    for (auto at = waiting_.begin(); at != waiting_.end();) {
      if (at->second.peer != peer) {
        ++at;
        continue;
      }
      unanswered.push_back(std::move(at->second.answer));
      at = waiting_.erase(at);
    }
  }
  for (Answer& answer : unanswered) answer(why, {});
}

}  // namespace thalweg::net
