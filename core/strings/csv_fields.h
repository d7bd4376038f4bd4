// CsvFields: the fields of one record of comma-separated values, in order, quoted as RFC 4180 says.
//
// A value is valid until the next call. Malformed records are InvalidArgument errors.
#pragma once

#include <immintrin.h>

#include <bit>
#include <cstring>
#include <string>
#include <string_view>

#include "error.h"

namespace thalweg {

class CsvFields {
 public:
  CsvFields(std::string_view record, char delimiter, bool quotes)
      : record_(record), delimiter_(delimiter), quotes_(quotes), more_(!record.empty()) {}

  bool next() {
    if (!more_) return false;
    if (quotes_ && at_ < record_.size() && record_[at_] == '"')
      quoted();
    else
      plain();
    // Behind a delimiter there is a field, if only an empty one.
    more_ = at_ < record_.size();
    ++at_;
    return true;
  }
  std::string_view value() const { return value_; }

 private:
  void plain() {
    size_t begin = at_;
    at_ = next_special(begin);
    require(at_ == record_.size() || record_[at_] == delimiter_, "Unquoted fields cannot have quotes/CRLFs inside");
    value_ = record_.substr(begin, at_ - begin);
  }

  // The place of the next delimiter, quote or line end; the record's size if none is left. Compares sixteen bytes at
  // once; the last sixteen may overlap those before.
  size_t next_special(size_t from) const {
    constexpr size_t kWidth = sizeof(__m128i);
    const size_t size = record_.size();
    for (; from + kWidth <= size; from += kWidth)
      if (unsigned found = specials(record_.data() + from)) return from + static_cast<size_t>(std::countr_zero(found));
    if (size >= kWidth && from < size) {
      const size_t seen = kWidth - (size - from);
      const unsigned found = specials(record_.data() + size - kWidth) >> seen;
      return found ? from + static_cast<size_t>(std::countr_zero(found)) : size;
    }
    for (; from < size; ++from)
      if (char c = record_[from]; c == delimiter_ || c == '\n' || c == '\r' || (quotes_ && c == '"')) break;
    return from;
  }
  unsigned specials(const char* at) const {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
    auto are = [&](char c) { return _mm_cmpeq_epi8(bytes, _mm_set1_epi8(c)); };
    const __m128i ends = _mm_or_si128(are('\n'), are('\r'));
    const __m128i others = _mm_or_si128(are(delimiter_), are(quotes_ ? '"' : delimiter_));
    return static_cast<unsigned>(_mm_movemask_epi8(_mm_or_si128(ends, others)));
  }

  void quoted() {
    size_t begin = ++at_;
    bool doubled = false;
    for (;; ++at_) {
      const void* found = at_ < record_.size() ? std::memchr(record_.data() + at_, '"', record_.size() - at_) : nullptr;
      require(found != nullptr, "Quoted field has to end with quote followed by delim or end");
      at_ = static_cast<size_t>(static_cast<const char*>(found) - record_.data());
      if (at_ + 1 == record_.size() || record_[at_ + 1] == delimiter_) break;
      require(record_[at_ + 1] == '"', "Quote inside a string has to be escaped by another quote");
      doubled = true;
      ++at_;
    }
    value_ = record_.substr(begin, at_ - begin);
    ++at_;
    if (!doubled) return;
    unescaped_.clear();
    for (size_t i = 0; i < value_.size(); ++i) {
      unescaped_.push_back(value_[i]);
      if (value_[i] == '"') ++i;
    }
    value_ = unescaped_;
  }

  std::string_view record_;
  char delimiter_;
  bool quotes_;
  bool more_;
  size_t at_ = 0;
  std::string_view value_;
  std::string unescaped_;
};

}  // namespace thalweg
