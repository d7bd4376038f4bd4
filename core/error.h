// The one family of errors: a code with TensorFlow's numbers, a message, and the node that failed.
//
// Kernels and the runtime report failures by throwing Error. The executor catches it at the node boundary, adds the
// node, and the first failure of a step wins. Nothing may throw inside a parallel region.
//
// Messages are put together in error.cc from references to their parts: a check compiles to a branch and a call.
#pragma once

#include <initializer_list>
#include <ostream>
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
  Error(Code code, const std::string& message);
  Error(const Error&);
  Error& operator=(const Error&);
  ~Error() override;
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

// A part of a message: a reference to anything that can be written to a stream.
class MessagePart {
 public:
  template <typename T>
  MessagePart(const T& value) : value_(&value), write_(&write_as<T>) {}
  template <size_t n>
  MessagePart(const char (&text)[n]) : value_(text), write_(&write_text) {}
  void write(std::ostream& out) const { write_(out, value_); }

 private:
  template <typename T>
  static void write_as(std::ostream& out, const void* value) {
    out << *static_cast<const T*>(value);
  }
  static void write_text(std::ostream& out, const void* text);

  const void* value_;
  void (*write_)(std::ostream&, const void*);
};

std::string concatenated(std::initializer_list<MessagePart> parts);
[[noreturn, gnu::cold]] void throw_error(Code code, std::initializer_list<MessagePart> parts);

template <typename... Parts>
inline std::string cat(const Parts&... parts) {
  return concatenated({MessagePart(parts)...});
}

template <typename... Parts>
[[noreturn]] inline void fail(Code code, const Parts&... parts) {
  throw_error(code, {MessagePart(parts)...});
}

// Checks user input: both sides of a mismatch belong into the message.
template <typename... Parts>
inline void require(bool condition, const Parts&... parts) {
  if (!condition) [[unlikely]]
    throw_error(Code::invalid_argument, {MessagePart(parts)...});
}

}  // namespace thalweg
