// Hellos, proofs, and the passing of arenas.
#include "net/handshake.h"

#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <optional>

#include "net/encoding.h"
#include "net/sha256.h"
#include "random/entropy.h"

namespace thalweg::net {
namespace {

constexpr size_t kLongest = 4096;
constexpr size_t kRandom = 16;

void write_text(const Socket& socket, std::string_view text, Clock::time_point until) {
  std::string bytes;
  Writer(bytes).text(text);
  write_all(socket, bytes.data(), bytes.size(), until);
}

// What the protocol does not allow is UnavailableError, as anything else that is no handshake.
[[noreturn]] void fail_to_understand() { fail(Code::unavailable, "the other side does not speak this protocol"); }

std::string read_text(const Socket& socket, Clock::time_point until) {
  uint32_t size = 0;
  read_all(socket, &size, sizeof size, until);
  if (size > kLongest) fail_to_understand();
  std::string text(size, '\0');
  read_all(socket, text.data(), size, until);
  return text;
}

std::string hello_of(const Identity& own, bool shares) {
  std::string bytes;
  Writer writer(bytes);
  writer.text(own.cluster).text(own.task).put(own.incarnation).put(static_cast<uint8_t>(shares));
  writer.put(entropy64()).put(entropy64());
  return bytes;
}

struct Hello {
  Identity identity;
  bool shares = false;
};

Hello read_hello(const std::string& bytes) {
  Parser parser(bytes);
  Hello hello;
  try {
    hello.identity.cluster = parser.text();
    hello.identity.task = parser.text();
    hello.identity.incarnation = parser.take<uint64_t>();
    hello.shares = parser.take<uint8_t>() != 0;
    parser.bytes(kRandom);
  } catch (const Error&) {
    fail_to_understand();
  }
  if (!parser.rest().empty()) fail_to_understand();
  return hello;
}

// The text of a server that has proved nothing yet: it cannot choose any error that it likes.
Error read_refusal(const std::string& bytes) {
  try {
    Parser parser(bytes);
    const Error error = take_error(parser);
    const bool known = error.code() == Code::unauthenticated || error.code() == Code::failed_precondition;
    return Error(known ? error.code() : Code::unavailable, error.message());
  } catch (const Error&) {
    fail_to_understand();
  }
}

std::string proof(std::string_view key, const char* side, const std::string& callers, const std::string& servers) {
  std::string message;
  Writer(message).text(side).text(callers).text(servers);
  const Digest digest = hmac_sha256(key, message);
  return std::string(digest.begin(), digest.end());
}

bool proves(const std::string& given, const std::string& wanted) {
  Digest a{}, b{};
  if (given.size() != a.size()) return false;
  std::memcpy(a.data(), given.data(), a.size());
  std::memcpy(b.data(), wanted.data(), b.size());
  return equal(a, b);
}

void pass_arena(const Socket& socket, const SharedArena& arena) {
  char byte = 0;
  iovec piece{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  const int fd = arena.reading_fd();
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  // One byte always fits into an idle socket.
  if (sendmsg(socket.fd(), &message, MSG_NOSIGNAL) != 1) fail(Code::unavailable, "shared memory could not be passed");
}

std::shared_ptr<PeerArena> receive_arena(const Socket& socket, Clock::time_point until) {
  // The byte is looked at first, so that the descriptor arrives with the call that waits for nothing.
  char byte;
  peek(socket, &byte, until);
  iovec piece{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(4 * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (recvmsg(socket.fd(), &message, MSG_CMSG_CLOEXEC) != 1) fail(Code::unavailable, "no shared memory was passed");
  int fd = -1;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int each;
      std::memcpy(&each, CMSG_DATA(header) + i * sizeof(int), sizeof each);
      if (fd < 0)
        fd = each;
      else
        ::close(each);
    }
  }
  if (fd < 0) fail(Code::unavailable, "no shared memory was passed");
  return std::make_shared<PeerArena>(fd);
}

std::string refusal_of(const Error& why) {
  std::string bytes;
  Writer writer(bytes);
  put_error(writer, why);
  return bytes;
}

// Reads what a caller says first. A caller that speaks TLS is answered with TLS's alert "unexpected message".
std::string read_magic(const Socket& socket, Clock::time_point until) {
  constexpr char kTls = 0x16;
  constexpr unsigned char kAlert[] = {0x15, 3, 3, 0, 2, 2, 10};
  std::string magic(sizeof kMagic, '\0');
  read_all(socket, magic.data(), magic.size(), until);
  if (magic[0] == kTls) {
    write_all(socket, kAlert, sizeof kAlert, until);
    fail(Code::unauthenticated, "the caller speaks TLS, and this task was started without TLS");
  }
  return magic;
}

// Both sides do the same at the end.
Greeting exchange_arenas(const Socket& socket, Hello peer, SharedArena* arena, bool offers, Clock::time_point until) {
  Greeting greeting;
  greeting.peer = std::move(peer.identity);
  if (!offers || !peer.shares) return greeting;
  pass_arena(socket, *arena);
  greeting.arena = receive_arena(socket, until);
  return greeting;
}

}  // namespace

Greeting call(const Socket& socket, const Identity& own, std::string_view key, SharedArena* arena, bool local,
              Clock::time_point until) {
  const bool offers = local && arena != nullptr;
  const std::string hello = hello_of(own, offers);
  std::string first(kMagic, sizeof kMagic);
  Writer(first).text(hello);
  write_all(socket, first.data(), first.size(), until);
  const std::string answered = read_text(socket, until);
  const std::string shown = read_text(socket, until);
  Hello peer = read_hello(answered);
  // The caller proves itself in any case: the server then says in words what is wrong.
  write_text(socket, proof(key, "caller", hello, answered), until);
  const std::string refusal = read_text(socket, until);
  if (!refusal.empty()) throw read_refusal(refusal);
  if (!proves(shown, proof(key, "server", hello, answered)))
    fail(Code::unauthenticated, "task '", peer.identity.task, "' does not know the cluster's key");
  return exchange_arenas(socket, std::move(peer), arena, offers, until);
}

Greeting answer(const Socket& socket, const Identity& own, std::string_view key, SharedArena* arena, bool local,
                Clock::time_point until) {
  const std::string magic = read_magic(socket, until);
  if (magic == kHttp2) {
    Greeting none;
    none.http2 = true;
    return none;
  }
  if (std::memcmp(magic.data(), kMagic, sizeof kMagic) != 0)
    fail(Code::unavailable, "a caller does not speak this protocol, or another version of it");
  const std::string called = read_text(socket, until);
  Hello peer = read_hello(called);
  const bool offers = local && arena != nullptr;
  const std::string hello = hello_of(own, offers);
  write_text(socket, hello, until);
  write_text(socket, proof(key, "server", called, hello), until);
  const std::string shown = read_text(socket, until);
  std::optional<Error> refused;
  if (!proves(shown, proof(key, "caller", called, hello)))
    refused.emplace(Code::unauthenticated,
                    cat("task '", own.task, "' refuses the connection: the caller does not know the cluster's key"));
  else if (peer.identity.cluster != own.cluster && !peer.identity.task.empty())
    refused.emplace(Code::failed_precondition,
                    cat("task '", own.task, "' belongs to the cluster '", own.cluster, "', and the caller to '",
                        peer.identity.cluster.substr(0, 200), "'"));
  write_text(socket, refused ? refusal_of(*refused) : "", until);
  if (refused) throw *refused;
  return exchange_arenas(socket, std::move(peer), arena, offers, until);
}

void refuse(const Socket& socket, const Error& why, Clock::time_point until) {
  char magic[sizeof kMagic];
  read_all(socket, magic, sizeof magic, until);
  if (std::memcmp(magic, kMagic, sizeof magic) != 0) throw why;
  read_text(socket, until);
  write_text(socket, hello_of({}, false), until);  // Nothing about this task.
  write_text(socket, std::string(sizeof(Digest), '\0'), until);
  read_text(socket, until);
  write_text(socket, refusal_of(why), until);
  throw why;
}

}  // namespace thalweg::net
