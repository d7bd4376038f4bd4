// Inflate: decompresses zlib (RFC 1950) and gzip (RFC 1952) streams of deflated data (RFC 1951) as they are read.
//
// Our own, because a fresh machine has no zlib to link to (docs/decisions/0009-compressed-files.md). Damaged input
// gives a DataLoss error that names the file and the place, after the output of all bytes before the damage; it never
// reads or writes out of bounds, and always comes to an end. The checksum at the end of a stream is verified. Several
// gzip members in a row are one stream; bytes after a zlib stream are ignored, as in TensorFlow.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "error.h"
#include "io/byte_source.h"
#include "io/compression.h"
#include "io/prefix_codes.h"

namespace thalweg {

class Inflate : public ByteSource {
 public:
  // Errors call the input `name`.
  Inflate(std::string name, std::unique_ptr<ByteSource> input, Compression format);
  size_t read(char* to, size_t size) override;
  // Backwards from the beginning of the input; forwards from here.
  void seek(uint64_t position) override;

 private:
  enum class State { member, block, stored, coded, trailer, ended };

  [[noreturn]] void corrupted(const char* what) const;
  void restart();
  void produce();
  void advance();
  bool begin_member();
  void begin_block();
  void begin_stored();
  void read_codes();
  void copy_stored(size_t limit);
  void decode(size_t limit);
  void check_trailer();
  // Bits, least significant first. `refill` makes at least 56 of them available, zeros behind the end of the input.
  void refill();
  void refill_slowly();
  bool refill_input();
  uint32_t take(int count);
  // Whether bits were taken that are behind the end of the input.
  bool overrun() const { return past_end_ != 0 && past_end_ * 8 > count_; }

  std::string name_;
  std::unique_ptr<ByteSource> source_;
  const Compression format_;
  State state_ = State::member;
  bool last_block_ = false;
  bool first_member_ = true;
  std::optional<Error> failure_;  // thrown once all output is served

  std::unique_ptr<unsigned char[]> input_;
  size_t in_ = 0, in_end_ = 0;
  uint64_t input_position_ = 0;  // of the end of `input_` in the file
  bool input_ended_ = false;
  uint64_t bits_ = 0;
  uint32_t count_ = 0;     // of bits
  uint32_t past_end_ = 0;  // bytes of zeros in `bits_` that were not in the input

  // The last 32 KiB, which matches refer to, and the output after them.
  std::unique_ptr<unsigned char[]> output_;
  size_t produced_ = 0, served_ = 0;
  size_t history_start_ = 0;  // where this member's bytes begin
  uint64_t position_ = 0;     // of `served_` in all of the output
  uint64_t member_size_ = 0;
  uint32_t checksum_ = 0;
  size_t stored_left_ = 0;
  PrefixCodes literals_, distances_;
};

}  // namespace thalweg
