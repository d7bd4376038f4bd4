// The bytes of protobufs and tables: variable-length and fixed-width integers, and protobuf fields.
//
// Readers work on untrusted bytes: they never read beyond the end, and throw DataLoss with the name `what` of the data.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "error.h"

namespace thalweg::proto {

inline void put_varint(std::string& out, uint64_t value) {
  while (value >= 0x80) {
    out.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out.push_back(static_cast<char>(value));
}

inline void put_fixed32(std::string& out, uint32_t value) { out.append(reinterpret_cast<const char*>(&value), 4); }
inline void put_fixed64(std::string& out, uint64_t value) { out.append(reinterpret_cast<const char*>(&value), 8); }

// Protobuf fields. A number that is 0 is left out, as proto3 does.
inline void put_number(std::string& out, int field, uint64_t value) {
  if (value == 0) return;
  put_varint(out, static_cast<uint64_t>(field) << 3);
  put_varint(out, value);
}
inline void put_bytes(std::string& out, int field, std::string_view value) {
  put_varint(out, static_cast<uint64_t>(field) << 3 | 2);
  put_varint(out, value.size());
  out.append(value);
}

class Reader {
 public:
  Reader(std::string_view bytes, std::string_view what) : rest_(bytes), what_(what) {}
  bool done() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }

  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      unsigned char byte = static_cast<unsigned char>(bytes(1)[0]);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    bad("a number of more than 64 bits");
  }
  uint32_t fixed32() {
    uint32_t value;
    std::memcpy(&value, bytes(4).data(), 4);
    return value;
  }
  std::string_view bytes(uint64_t count) {
    if (count > rest_.size()) bad("an end in the middle of a value");
    std::string_view out = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return out;
  }
  [[noreturn]] void bad(std::string_view problem) const {
    fail(Code::data_loss, "corrupted ", what_, ": found ", problem);
  }

 private:
  std::string_view rest_;
  std::string_view what_;
};

// One field of a message after the other: number, and the value as a number or as bytes.
class Fields {
 public:
  Fields(std::string_view message, std::string_view what) : reader_(message, what) {}
  bool next() {
    if (reader_.done()) return false;
    uint64_t tag = reader_.varint();
    field = static_cast<int>(tag >> 3 & 0xffffffff);
    number = 0;
    text = {};
    type = static_cast<int>(tag & 7);
    switch (type) {
      case 0:
        number = reader_.varint();
        break;
      case 1:
        reader_.bytes(8);
        break;
      case 2:
        text = reader_.bytes(reader_.varint());
        break;
      case 5:
        number = reader_.fixed32();
        break;
      default:
        reader_.bad("a protobuf field of an unknown kind");
    }
    return true;
  }
  int field = 0;
  int type = 0;
  uint64_t number = 0;
  std::string_view text;

 private:
  Reader reader_;
};

}  // namespace thalweg::proto
