// Numbers and texts in the bodies of frames: little-endian, texts with a length of 32 bits in front.
//
// Parser reads bytes of a peer: each length is checked before it is used, and InvalidArgumentError is thrown at the
// first that does not fit.
#pragma once

#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "error.h"

namespace thalweg::net {

class Writer {
 public:
  explicit Writer(std::string& out) : out_(out) {}
  template <typename T>
  Writer& put(T value) {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
    out_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Writer& text(std::string_view value) {
    require(value.size() < (size_t{1} << 31), "a text of ", value.size(), " bytes is too long to be sent");
    put(static_cast<uint32_t>(value.size()));
    return bytes(value);
  }
  Writer& bytes(std::string_view value) {
    out_.append(value);
    return *this;
  }

 private:
  std::string& out_;
};

class Parser {
 public:
  explicit Parser(std::string_view bytes) : rest_(bytes) {}
  template <typename T>
  T take() {
    static_assert(std::is_arithmetic_v<T>);
    T value;
    std::memcpy(&value, bytes(sizeof value).data(), sizeof value);
    return value;
  }
  std::string_view text() { return bytes(take<uint32_t>()); }
  std::string_view bytes(size_t size) {
    require(size <= rest_.size(), "a frame ends early: ", rest_.size(), " bytes are left of ", size);
    std::string_view found = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return found;
  }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view rest_;
};

// An error with its node, in the body of a frame.
inline void put_error(Writer& writer, const Error& error) {
  writer.put(static_cast<uint8_t>(error.code())).text(error.message()).text(error.node()).text(error.op());
}
inline Error take_error(Parser& parser) {
  const auto code = parser.take<uint8_t>();
  require(code >= 1 && code <= 16, "a frame has the error code ", int{code});
  Error error(static_cast<Code>(code), std::string(parser.text()));
  const std::string node(parser.text());
  error.set_node(node, std::string(parser.text()));
  return error;
}

}  // namespace thalweg::net
