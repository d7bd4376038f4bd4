// The kinds of readers: how a file is cut into records, and their keys.
#pragma once

#include <string>

#include "io/fixed_length_reader.h"
#include "io/line_reader.h"
#include "io/record_reader.h"
#include "resource/reader.h"

namespace thalweg {

// The work itself is the record.
class IdentityReader : public Reader {
 public:
  using Reader::Reader;
  const char* kind() const override { return "an IdentityReader"; }

 protected:
  void open(const std::string& work) override { work_ = work; }
  void close() override {}
  bool next(std::string& key, std::string& value) override {
    key = value = work_;
    return true;
  }
  bool one_record_each() const override { return true; }

 private:
  std::string work_;
};

// The content of a file, under its name. Read when it is opened, so that a file that cannot be read is passed over.
class WholeFileReader : public Reader {
 public:
  using Reader::Reader;
  const char* kind() const override { return "a WholeFileReader"; }

 protected:
  void open(const std::string& work) override;
  void close() override { content_.clear(); }
  bool next(std::string& key, std::string& value) override;
  bool one_record_each() const override { return true; }

 private:
  std::string path_, content_;
};

// Lines, under "file:number", counted from 1.
class TextLineReader : public Reader {
 public:
  TextLineReader(std::string name, int64_t skip_header_lines)
      : Reader(std::move(name)), skip_header_lines_(skip_header_lines) {}
  const char* kind() const override { return "a TextLineReader"; }

 protected:
  void open(const std::string& work) override;
  void close() override { lines_.reset(); }
  bool next(std::string& key, std::string& value) override;

 private:
  const int64_t skip_header_lines_;
  std::optional<LineReader> lines_;
  int64_t number_ = 0;
};

// Records of one size, under "file:number", counted from 0.
class FixedLengthRecordReader : public Reader {
 public:
  FixedLengthRecordReader(std::string name, const FixedLengthFormat& format, Compression compression)
      : Reader(std::move(name)), format_(format), compression_(compression) {}
  const char* kind() const override { return "a FixedLengthRecordReader"; }

 protected:
  void open(const std::string& work) override;
  void close() override { records_.reset(); }
  bool next(std::string& key, std::string& value) override;

 private:
  const FixedLengthFormat format_;
  const Compression compression_;
  std::optional<FixedLengthReader> records_;
  int64_t number_ = 0;
};

// The records of a TFRecord file, under "file:offset".
class TFRecordReader : public Reader {
 public:
  TFRecordReader(std::string name, Compression compression) : Reader(std::move(name)), compression_(compression) {}
  const char* kind() const override { return "a TFRecordReader"; }

 protected:
  void open(const std::string& work) override { records_.emplace(work, compression_); }
  void close() override { records_.reset(); }
  bool next(std::string& key, std::string& value) override;

 private:
  const Compression compression_;
  std::optional<RecordReader> records_;
};

}  // namespace thalweg
