// EntryLayout: the bytes before the values in an entry of an Example's map, remembered from the example before.
//
// The k-th entries of two examples mostly have the same key and kind of list, and differ in the values and in the four
// lengths around them:
//
//   0a L  0a K key  12 V  {0a | 12 | 1a} B  [0a P]  values
//
// so that one comparison of these bytes, with the lengths shifted by as much as the entry is longer, takes the place of
// decoding five messages. Entries with lengths of more than one byte are recognized only if they are as long as before.
// Other entries have to be decoded by the functions of example.h.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "io/example.h"

namespace thalweg::example {

class EntryLayout {
 public:
  // Remembers the entry that begins at `at` (with its tag); keeps nothing if it is not written as above.
  void learn(const char* at, const char* end, int found) {
    *this = {};
    uint8_t lengths[kBytes] = {};
    const char* const start = at;
    bool is_short = true;
    uint64_t inner = static_cast<uint64_t>(end - at);
    // A tag and the length of what follows, which has to reach exactly to the end.
    auto nested = [&](uint32_t tag) {
      if (end - at < 2 || static_cast<uint8_t>(*at) != tag) return false;
      int64_t place = at - start + 1;
      Cursor cursor({at + 1, static_cast<size_t>(end - at - 1)});
      if (place >= kBytes || !cursor.varint(&inner) || inner > static_cast<uint64_t>(end - cursor.at())) return false;
      is_short &= cursor.at() == at + 2;
      lengths[place] = 0xff;
      at = cursor.at();
      return true;
    };
    if (!nested(bytes_tag(1))) return;
    end = at + inner;
    auto first_length = static_cast<uint8_t>(start[1]);
    if (end - at < 2 || static_cast<uint8_t>(*at) != bytes_tag(1) || static_cast<uint8_t>(at[1]) >= 0x80) return;
    auto key = static_cast<int64_t>(at[1]);
    if (end - at < 2 + key) return;
    at += 2 + key;
    if (!nested(bytes_tag(2)) || at + inner != end || at == end) return;
    auto tag = static_cast<uint8_t>(*at);
    if (tag != bytes_tag(1) && tag != bytes_tag(2) && tag != bytes_tag(3)) return;
    if (!nested(tag) || at + inner != end) return;
    if (tag != bytes_tag(1) && (!nested(bytes_tag(1)) || at + inner != end)) return;
    if (at - start > kBytes) return;
    if (is_short) std::memcpy(&lengths_, lengths, kBytes);
    std::memcpy(&bytes_, start, static_cast<size_t>(at - start));
    for (int64_t i = 0; i < at - start; ++i) mask_[i] = 0xff;
    first_length_ = first_length;
    prefix_ = static_cast<uint32_t>(at - start);
    size_ = end - at;
    is_short_ = is_short;
    kind_ = static_cast<Kind>(tag >> 3);
    found_ = found;
  }

  // Whether such an entry begins at `at`, and then its values; the next entry begins where they end.
  bool matches(const char* at, const char* end, std::string_view* values) const {
    if (prefix_ > static_cast<uint64_t>(end - at) || prefix_ == 0) return false;
    char near_end[kBytes];
    const char* from = at;
    if (end - at < kBytes) [[unlikely]]
      from = static_cast<const char*>(std::memcpy(near_end, at, static_cast<size_t>(end - at)));
    auto longer = static_cast<uint8_t>(static_cast<uint8_t>(from[1]) - first_length_);
    Bytes there;
    std::memcpy(&there, from, kBytes);
    Words different = (Words)((there ^ (bytes_ + (lengths_ & longer))) & mask_);
    if ((different[0] | different[1] | different[2] | different[3]) != 0) return false;
    // If the first length has one byte and the last is not negative, then those in between have one byte as well.
    int64_t size = size_ + (is_short_ ? static_cast<uint8_t>(from[1]) - int64_t{first_length_} : 0);
    if (size < 0 || size > end - at - prefix_ || (is_short_ && (from[1] & 0x80))) return false;
    *values = {at + prefix_, static_cast<size_t>(size)};
    return true;
  }

  Kind kind() const { return kind_; }
  int found() const { return found_; }

 private:
  static constexpr int64_t kBytes = 32;
  using Bytes = uint8_t __attribute__((vector_size(kBytes)));
  using Words = uint64_t __attribute__((vector_size(kBytes)));
  Bytes bytes_ = {};
  Bytes lengths_ = {};  // 255 in the bytes that are lengths to be shifted
  Bytes mask_ = {};     // 255 in the bytes before the values
  uint8_t first_length_ = 0;
  int64_t size_ = 0;     // of the values
  uint32_t prefix_ = 0;  // the bytes before the values; 0: no entry is remembered
  bool is_short_ = false;
  Kind kind_ = Kind::none;
  int found_ = -1;
};

}  // namespace thalweg::example
