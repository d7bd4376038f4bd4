// The one family of errors: a code with TensorFlow's numbers, a message, and the node that failed.
//
// Kernels and the runtime report failures by throwing Error. The executor catches it at the node boundary, adds the
// node, and the first failure of a step wins. Nothing may throw inside a parallel region.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

namespace thalweg {

enum class Code : int {
  ok = 0,
  cancelled = 1,
  unknown = 2,
  invalid_argument = 3,
  deadline_exceeded = 4,
  not_found = 5,
  already_exists = 6,
  permission_denied = 7,
  resource_exhausted = 8,
  failed_precondition = 9,
  aborted = 10,
  out_of_range = 11,
  unimplemented = 12,
  internal = 13,
  unavailable = 14,
  data_loss = 15,
  unauthenticated = 16,
};

class Error : public std::runtime_error {
 public:
  Error(Code code, const std::string& message) : std::runtime_error(message), code_(code), message_(message) {}
  Code code() const { return code_; }
  // All of the message: what() ends at the first zero byte, which a user's text may contain.
  const std::string& message() const { return message_; }
  const std::string& node() const { return node_; }
  const std::string& op() const { return op_; }
  // Names the node that failed; keeps the first one named.
  void set_node(const std::string& node, const std::string& op) {
    if (node_.empty()) {
      node_ = node;
      op_ = op;
    }
  }

 private:
  Code code_;
  std::string message_;
  std::string node_;
  std::string op_;
};

template <typename... Parts>
std::string cat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

template <typename... Parts>
[[noreturn]] void fail(Code code, const Parts&... parts) {
  throw Error(code, cat(parts...));
}

// Checks what comes from the user: both sides of a mismatch belong into the message.
template <typename... Parts>
inline void require(bool condition, const Parts&... parts) {
  if (!condition) [[unlikely]]
    fail(Code::invalid_argument, parts...);
}

}  // namespace thalweg
