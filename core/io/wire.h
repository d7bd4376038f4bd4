// Protobuf's wire format, as much of it as small messages need: writing fields, and walking over the fields of
// untrusted bytes. Fields with default values are left out by the caller, as proto3 does.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace thalweg::wire {

enum class Kind : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

inline void put_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}
inline void put_key(std::string& out, int field, Kind kind) {
  put_varint(out, static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(kind));
}
inline void put_number(std::string& out, int field, uint64_t value) {
  put_key(out, field, Kind::varint);
  put_varint(out, value);
}
inline void put_bytes(std::string& out, int field, std::string_view value) {
  put_key(out, field, Kind::bytes);
  put_varint(out, value.size());
  out.append(value);
}
inline void put_float(std::string& out, int field, float value) {
  put_key(out, field, Kind::fixed32);
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}
inline void put_double(std::string& out, int field, double value) {
  put_key(out, field, Kind::fixed64);
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Walks over the fields of a message. `next` is false at the end and at the first malformed byte; `ok` tells them
// apart.
class Reader {
 public:
  explicit Reader(std::string_view message) : rest_(message) {}
  bool next() {
    uint64_t key;
    if (rest_.empty() || !varint(&key)) return false;
    field_ = static_cast<int64_t>(key >> 3);
    kind_ = static_cast<Kind>(key & 7);
    uint64_t size;
    switch (kind_) {
      case Kind::varint:
        value_ = {};
        return field_ > 0 ? varint(&number_) : bad();
      case Kind::fixed64:
        return take(8);
      case Kind::fixed32:
        return take(4);
      case Kind::bytes:
        return varint(&size) && take(size);
    }
    return bad();
  }
  bool ok() const { return ok_; }
  int64_t field() const { return field_; }
  Kind kind() const { return kind_; }
  // The content of a field of bytes, or of a fixed number of them.
  std::string_view value() const { return value_; }
  // The content of a field of a varint.
  uint64_t number() const { return number_; }

 private:
  bool bad() {
    ok_ = false;
    rest_ = {};
    return false;
  }
  bool take(uint64_t size) {
    if (size > rest_.size() || field_ <= 0) return bad();
    value_ = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return true;
  }
  bool varint(uint64_t* out) {
    *out = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) return bad();
      auto byte = static_cast<uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      *out |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return true;
    }
    return bad();
  }

  std::string_view rest_;
  std::string_view value_;
  uint64_t number_ = 0;
  int64_t field_ = 0;
  Kind kind_ = Kind::varint;
  bool ok_ = true;
};

}  // namespace thalweg::wire
