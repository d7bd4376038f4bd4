// The handshake: what two processes say to each other before the first frame.
//
//     caller  →  "thalweg" 1, hello
//     server  →  hello, proof
//     caller  →  proof
//     server  →  an empty text, or the error that tells why the caller is refused
//
// A hello has the cluster's name, the task's name (empty for a client), its incarnation, whether it offers shared
// memory, and 16 random bytes. A proof is the HMAC of both hellos under the cluster's key, with the side's name, so
// that neither a recorded proof nor one sent back is worth anything. Without a key the proofs show nothing, and any
// process that reaches the port is admitted. Over a Unix socket each side then passes the descriptor of its arena.
//
// Blocking, with a deadline; all lengths are limited. Errors: UnauthenticatedError for a wrong key,
// FailedPreconditionError for another cluster, UnavailableError for anything that is no handshake.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "net/loans.h"
#include "net/socket.h"

namespace thalweg::net {

struct Identity {
  std::string cluster;
  std::string task;  // "/job:ps/replica:0/task:0"; empty for a client
  uint64_t incarnation = 0;
};

struct Greeting {
  Identity peer;
  std::shared_ptr<PeerArena> arena;  // null unless the peer shares its memory
  bool http2 = false;                // the caller speaks HTTP/2: there was no handshake, only `kHttp2` has been read
  Socket encrypted{};                // replaces the caller's socket if the connection is encrypted (net/encryption.h)
  std::string host{};                // where the peer is: its address, or its user if it is here (peer_host)
};

constexpr char kMagic[8] = {'t', 'h', 'a', 'l', 'w', 'e', 'g', 2};
// The first bytes of a connection that speaks HTTP/2, as many as the magic has.
constexpr std::string_view kHttp2 = "PRI * HT";

// `local`: whether the socket is one of this host, over which descriptors can be passed.
Greeting call(const Socket& socket, const Identity& own, std::string_view key, SharedArena* arena, bool local,
              Clock::time_point until);
Greeting answer(const Socket& socket, const Identity& own, std::string_view key, SharedArena* arena, bool local,
                Clock::time_point until);
// Speaks with a caller that is not to be admitted, so that the caller learns why, and throws `why`.
[[noreturn]] void refuse(const Socket& socket, const Error& why, Clock::time_point until);

}  // namespace thalweg::net
