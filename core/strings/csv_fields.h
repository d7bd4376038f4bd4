// CsvFields: the fields of one record of comma-separated values, in order, quoted as RFC 4180 says.
//
// A value is valid until the next call. Malformed records are InvalidArgument errors.
#pragma once

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
    for (; at_ < record_.size() && record_[at_] != delimiter_; ++at_) {
      char c = record_[at_];
      require(c != '\n' && c != '\r' && !(quotes_ && c == '"'), "Unquoted fields cannot have quotes/CRLFs inside");
    }
    value_ = record_.substr(begin, at_ - begin);
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
