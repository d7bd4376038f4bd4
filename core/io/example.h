// tf.Example and tf.SequenceExample as bytes: walking over their maps and decoding their lists in place.
//
//   Example { Features features = 1; }                       Features { map<string, Feature> feature = 1; }
//   SequenceExample { Features context = 1; FeatureLists feature_lists = 2; }
//   FeatureLists { map<string, FeatureList> feature_list = 1; }   FeatureList { repeated Feature feature = 1; }
//   Feature { oneof: BytesList bytes_list = 1; FloatList float_list = 2; Int64List int64_list = 3; }
//
// Nothing is copied or allocated on the way. The bytes are not trusted: every length is checked, and each function
// returns false at the first malformed byte. Fields may come in any order, unknown ones are skipped, repeated numbers
// may be packed or not, and a message given twice is merged, which for bytes means: joined (`Joiner`).
#pragma once

#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace thalweg::example {

// The kinds of list that a Feature can hold, by their field numbers.
enum class Kind : uint8_t { none = 0, bytes = 1, floats = 2, ints = 3 };

class Cursor {
 public:
  explicit Cursor(std::string_view bytes) : at_(bytes.data()), end_(at_ + bytes.size()) {}
  bool done() const { return at_ == end_; }
  const char* at() const { return at_; }

  bool varint(uint64_t* out) {
    if (at_ != end_ && static_cast<uint8_t>(*at_) < 0x80) [[likely]] {
      *out = static_cast<uint8_t>(*at_++);
      return true;
    }
    return long_varint(out);
  }
  // Field number and wire type. Numbers have at most 29 bits, and there is no field 0.
  bool tag(uint32_t* out) {
    uint64_t value;
    if (!varint(&value) || value >> 32 != 0 || value < 8) return false;
    *out = static_cast<uint32_t>(value);
    return true;
  }
  bool take(uint64_t size, std::string_view* out) {
    if (size > static_cast<uint64_t>(end_ - at_)) return false;
    *out = {at_, static_cast<size_t>(size)};
    at_ += size;
    return true;
  }
  bool bytes(std::string_view* out) {
    uint64_t size;
    return varint(&size) && take(size, out);
  }
  // Skips the value of an unknown field. Groups, which are deprecated, count as malformed.
  bool skip(uint32_t tag) {
    uint64_t number;
    std::string_view ignored;
    switch (tag & 7) {
      case 0:
        return varint(&number);
      case 1:
        return take(8, &ignored);
      case 2:
        return bytes(&ignored);
      case 5:
        return take(4, &ignored);
      default:
        return false;
    }
  }

 private:
  bool long_varint(uint64_t* out) {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && at_ != end_; shift += 7) {
      auto byte = static_cast<uint8_t>(*at_++);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) {
        *out = value;
        return true;
      }
    }
    return false;
  }

  const char* at_;
  const char* end_;
};

inline constexpr uint32_t bytes_tag(uint32_t field) { return field << 3 | 2; }

// Whether a message is exactly one field of bytes with this (one-byte) tag, and then its content. Nearly all messages
// inside an Example are; the functions below try this first.
inline bool is_one_field(std::string_view message, uint32_t tag, std::string_view* content) {
  if (message.size() < 2 || static_cast<uint8_t>(message[0]) != tag) return false;
  size_t length = static_cast<uint8_t>(message[1]), head = 2;
  if (length >= 0x80) {
    if (message.size() < 3 || static_cast<uint8_t>(message[2]) >= 0x80) return false;
    length = (length & 0x7f) | static_cast<size_t>(static_cast<uint8_t>(message[2])) << 7;
    head = 3;
  }
  if (head + length != message.size()) return false;
  *content = message.substr(head);
  return true;
}

// Keeps the joined bytes of messages that came in several pieces; rare, but allowed.
class Joiner {
 public:
  void add(std::string_view more, std::string_view* whole) {
    if (whole->empty())
      *whole = more;
    else if (!more.empty())
      *whole = joined_.emplace_back(std::string(*whole).append(more));
  }
  void clear() {
    if (!joined_.empty()) joined_.clear();
  }

 private:
  std::deque<std::string> joined_;
};

// The fields 1 and 2 of a message that has nothing else of interest: an Example, a SequenceExample, an entry of a map.
inline bool read_pair(std::string_view message, Joiner& joiner, std::string_view* first, std::string_view* second) {
  *first = *second = {};
  if (is_one_field(message, bytes_tag(1), first)) return true;
  Cursor cursor(message);
  while (!cursor.done()) {
    uint32_t tag;
    std::string_view value;
    if (!cursor.tag(&tag)) return false;
    if (tag == bytes_tag(1) || tag == bytes_tag(2)) {
      if (!cursor.bytes(&value)) return false;
      joiner.add(value, tag == bytes_tag(1) ? first : second);
    } else if (!cursor.skip(tag)) {
      return false;
    }
  }
  return true;
}

// One entry of a map. A key given twice within it is replaced, a value given twice merged.
inline bool read_entry(std::string_view entry, Joiner& joiner, std::string_view* key, std::string_view* value) {
  // A short key, then the value: the usual order.
  if (size_t n = entry.size(), length = n > 3 ? static_cast<uint8_t>(entry[1]) : n;
      length < 0x80 && length + 3 < n && static_cast<uint8_t>(entry[0]) == bytes_tag(1) &&
      is_one_field(entry.substr(length + 2), bytes_tag(2), value)) {
    *key = entry.substr(2, length);
    return true;
  }
  Cursor cursor(entry);
  *key = *value = {};
  while (!cursor.done()) {
    uint32_t tag;
    std::string_view bytes;
    if (!cursor.tag(&tag)) return false;
    if (tag == bytes_tag(1)) {
      if (!cursor.bytes(key)) return false;
    } else if (tag == bytes_tag(2)) {
      if (!cursor.bytes(&bytes)) return false;
      joiner.add(bytes, value);
    } else if (!cursor.skip(tag)) {
      return false;
    }
  }
  return true;
}

// Calls visit(content) for each field 1 of a message: the entries of a map, the Features of a FeatureList. Stops, with
// false, when `visit` returns false.
template <typename Visit>
bool each_field_1(std::string_view message, Visit&& visit) {
  Cursor cursor(message);
  while (!cursor.done()) {
    uint32_t tag;
    std::string_view content;
    if (!cursor.tag(&tag)) return false;
    if (tag == bytes_tag(1)) {
      if (!cursor.bytes(&content) || !visit(content)) return false;
    } else if (!cursor.skip(tag)) {
      return false;
    }
  }
  return true;
}

// Which kind of list a Feature holds, and its bytes. Of several kinds the last one counts.
inline bool read_feature(std::string_view feature, Joiner& joiner, Kind* kind, std::string_view* list) {
  if (!feature.empty()) {
    auto tag = static_cast<uint8_t>(feature[0]);
    if ((tag == bytes_tag(1) || tag == bytes_tag(2) || tag == bytes_tag(3)) && is_one_field(feature, tag, list)) {
      *kind = static_cast<Kind>(tag >> 3);
      return true;
    }
  }
  Cursor cursor(feature);
  *kind = Kind::none;
  *list = {};
  while (!cursor.done()) {
    uint32_t tag;
    std::string_view value;
    if (!cursor.tag(&tag)) return false;
    if (tag == bytes_tag(1) || tag == bytes_tag(2) || tag == bytes_tag(3)) {
      if (!cursor.bytes(&value)) return false;
      auto found = static_cast<Kind>(tag >> 3);
      if (found != *kind) *list = {};
      *kind = found;
      joiner.add(value, list);
    } else if (!cursor.skip(tag)) {
      return false;
    }
  }
  return true;
}

// The values of a list go to a sink: `put(value)` one by one, `put_floats(bytes, count)` for packed floats.
template <typename Sink>
bool read_bytes_list(std::string_view list, Sink&& sink) {
  return each_field_1(list, [&](std::string_view value) {
    sink.put(value);
    return true;
  });
}

// Decodes the values of a list that is packed, or those of a list of bytes.
template <typename T, typename Sink>
bool read_values(std::string_view values, Sink&& sink) {
  if constexpr (std::is_same_v<T, std::string>) {
    return read_bytes_list(values, sink);
  } else if constexpr (std::is_same_v<T, float>) {
    if (values.size() % sizeof(float) != 0) return false;
    sink.put_floats(values.data(), static_cast<int64_t>(values.size() / sizeof(float)));
    return true;
  } else {
    uint64_t number;
    for (Cursor numbers(values); !numbers.done(); sink.put(static_cast<int64_t>(number)))
      if (!numbers.varint(&number)) return false;
    return true;
  }
}

template <typename Sink>
bool read_float_list(std::string_view list, Sink&& sink) {
  Cursor cursor(list);
  while (!cursor.done()) {
    uint32_t tag;
    std::string_view value;
    if (!cursor.tag(&tag)) return false;
    if (tag == bytes_tag(1)) {
      if (!cursor.bytes(&value) || !read_values<float>(value, sink)) return false;
    } else if (tag == (1 << 3 | 5)) {
      if (!cursor.take(sizeof(float), &value)) return false;
      sink.put_floats(value.data(), 1);
    } else if (!cursor.skip(tag)) {
      return false;
    }
  }
  return true;
}

template <typename Sink>
bool read_int64_list(std::string_view list, Sink&& sink) {
  Cursor cursor(list);
  while (!cursor.done()) {
    uint32_t tag;
    uint64_t number;
    std::string_view packed;
    if (!cursor.tag(&tag)) return false;
    if (tag == bytes_tag(1)) {
      if (!cursor.bytes(&packed) || !read_values<int64_t>(packed, sink)) return false;
    } else if (tag == (1 << 3 | 0)) {
      if (!cursor.varint(&number)) return false;
      sink.put(static_cast<int64_t>(number));
    } else if (!cursor.skip(tag)) {
      return false;
    }
  }
  return true;
}

// A sink that appends to a vector.
template <typename T, typename Vector = std::vector<T>>
struct Appended {
  Vector& out;
  void put(std::string_view value)
    requires std::is_same_v<T, std::string>
  {
    out.emplace_back(value);
  }
  void put(int64_t value)
    requires std::is_same_v<T, int64_t>
  {
    out.push_back(value);
  }
  void put_floats(const char* bytes, int64_t count) {
    if (count == 0) return;
    size_t before = out.size();
    out.resize(before + static_cast<size_t>(count));
    std::memcpy(out.data() + before, bytes, static_cast<size_t>(count) * sizeof(float));
  }
};

// A sink that fills a row of known length; `seen` also counts values beyond the room.
template <typename T>
struct Filled {
  T* out;
  int64_t room;
  int64_t seen = 0;
  void put(std::string_view value)
    requires std::is_same_v<T, std::string>
  {
    if (seen < room) out[seen].assign(value);
    ++seen;
  }
  void put(int64_t value)
    requires std::is_same_v<T, int64_t>
  {
    if (seen < room) out[seen] = value;
    ++seen;
  }
  void put_floats(const char* bytes, int64_t count) {
    if (seen < room) {
      int64_t fits = count < room - seen ? count : room - seen;
      std::memcpy(out + seen, bytes, static_cast<size_t>(fits) * sizeof(float));
    }
    seen += count;
  }
};

// Decodes a list of the kind that T stands for.
template <typename T, typename Sink>
bool read_list(std::string_view list, Sink&& sink) {
  if constexpr (std::is_same_v<T, std::string>)
    return read_bytes_list(list, sink);
  else if constexpr (std::is_same_v<T, float>)
    return read_float_list(list, sink);
  else
    return read_int64_list(list, sink);
}

template <typename T>
inline constexpr Kind kind_of = std::is_same_v<T, std::string> ? Kind::bytes
                                : std::is_same_v<T, float>     ? Kind::floats
                                                               : Kind::ints;

}  // namespace thalweg::example
