// Encryption of TCP connections. The core has no TLS of its own: a function of the program takes a connected socket,
// agrees on keys with the other side, and returns one end of a local socket pair whose bytes it carries
// (dist/tls_relay.py).
//
// Sockets of this host are not encrypted: their bytes never leave the kernel. Where encryption is on, they admit
// processes of this user and of root only, because a caller there shows no certificate.
#pragma once

#include <functional>
#include <string>

#include "net/handshake.h"

namespace thalweg::net {

// `host`: the one that was connected to; empty for a caller. Blocks, at most until `until`; throws
// UnauthenticatedError if the other side shows no valid certificate. Leaves `socket` open: it may be closed then.
using Encrypt = std::function<Socket(const Socket& socket, const std::string& host, Clock::time_point until)>;

// Greets a caller at a port where encryption is on. `greet` is the handshake without encryption, over a socket.
Greeting answer_encrypted(const Socket& caller, bool local, const Encrypt& encrypt, const std::string& task,
                          const std::function<Greeting(const Socket&)>& greet, Clock::time_point until);

}  // namespace thalweg::net
