// Tells callers that speak TLS from those that do not.
#include "net/encryption.h"

namespace thalweg::net {

Greeting answer_encrypted(const Socket& caller, bool local, const Encrypt& encrypt, const std::string& task,
                          const std::function<Greeting(const Socket&)>& greet, Clock::time_point until) {
  constexpr char kTls = 0x16;  // the first byte of a TLS client: a record of the handshake
  if (local) {
    if (is_trusted_user(caller)) return greet(caller);
    refuse(caller,
           Error(Code::unauthenticated, cat("task '", task, "' refuses the connection: a ", peer_host(caller),
                                            " of this host has to use TCP with TLS")),
           until);
  }
  char first;
  peek(caller, &first, until);
  if (first != kTls)
    refuse(caller,
           Error(Code::unauthenticated,
                 cat("task '", task,
                     "' refuses the connection: it admits only callers that use TLS, and the caller does "
                     "not (its THALWEG_TLS_CERTIFICATE, THALWEG_TLS_KEY and THALWEG_TLS_AUTHORITY are not set)")),
           until);
  Socket encrypted = encrypt(caller, "", until);
  tune(encrypted);
  Greeting greeting = greet(encrypted);
  greeting.encrypted = std::move(encrypted);
  return greeting;
}

}  // namespace thalweg::net
