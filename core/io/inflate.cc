// Inflating: headers and blocks as a small state machine, codes through two-level tables, eight bytes of input a time.
#include "io/inflate.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "error.h"
#include "io/stream_checksums.h"

namespace thalweg {
namespace {

using namespace prefix_codes;

constexpr size_t kWindow = 32 * 1024;
constexpr size_t kChunk = 128 * 1024;
constexpr size_t kInputBytes = 64 * 1024;
// A match may write this far beyond the limit of decoding: its length, and the last copied word.
constexpr size_t kSlack = 258 + 16;
constexpr int kLiteralRoot = 10, kDistanceRoot = 8;

constexpr std::array<uint32_t, 288> literal_symbols() {
  std::array<uint32_t, 288> out{};
  for (uint32_t i = 0; i < 256; ++i) out[i] = entry(literal, 0, i);
  out[256] = entry(end_of_block, 0, 0);
  for (uint32_t i = 0, start = 3; i < 28; ++i) {
    uint32_t extra = i < 8 ? 0 : i / 4 - 1;
    out[257 + i] = entry(base, extra, start);
    start += 1u << extra;
  }
  out[285] = entry(base, 0, 258);
  out[286] = out[287] = entry(invalid, 0, 0);
  return out;
}

constexpr std::array<uint32_t, 32> distance_symbols() {
  std::array<uint32_t, 32> out{};
  for (uint32_t i = 0, start = 1; i < 30; ++i) {
    uint32_t extra = i < 4 ? 0 : i / 2 - 1;
    out[i] = entry(base, extra, start);
    start += 1u << extra;
  }
  out[30] = out[31] = entry(invalid, 0, 0);
  return out;
}

constexpr std::array<uint32_t, 19> length_symbols() {
  std::array<uint32_t, 19> out{};
  for (uint32_t i = 0; i < 19; ++i) out[i] = entry(literal, 0, i);
  return out;
}

constexpr auto kLiteralSymbols = literal_symbols();
constexpr auto kDistanceSymbols = distance_symbols();
constexpr auto kLengthSymbols = length_symbols();

// Copies the match at `distance` before `to`; may write up to 15 bytes more.
inline void copy_match(unsigned char* to, size_t distance, size_t length) {
  const unsigned char* from = to - distance;
  if (distance >= 8) {
    unsigned char* const end = to + length;
    do {
      std::memcpy(to, from, 8);
      to += 8;
      from += 8;
    } while (to < end);
  } else if (distance == 1) {
    std::memset(to, *from, length);
  } else {
    for (size_t i = 0; i < length; ++i) to[i] = from[i];
  }
}

}  // namespace

Inflate::Inflate(std::string name, std::unique_ptr<ByteSource> input, Compression format)
    : name_(std::move(name)), source_(std::move(input)), format_(format) {
  input_ = std::make_unique_for_overwrite<unsigned char[]>(kInputBytes);
  output_ = std::make_unique_for_overwrite<unsigned char[]>(kWindow + kChunk + kSlack);
}

void Inflate::corrupted(const char* what) const {
  fail(Code::data_loss, name_, "; corrupted compressed data near byte ", input_position_ - (in_end_ - in_), ": ", what);
}

size_t Inflate::read(char* to, size_t size) {
  if (size == 0) return 0;
  while (served_ == produced_) {
    if (failure_) throw *failure_;
    if (state_ == State::ended) return 0;
    produce();
  }
  size_t count = std::min(size, produced_ - served_);
  std::memcpy(to, output_.get() + served_, count);
  served_ += count;
  position_ += count;
  return count;
}

void Inflate::seek(uint64_t position) {
  if (position < position_) restart();
  while (position_ < position) {
    if (served_ == produced_) {
      if (failure_) throw *failure_;
      if (state_ == State::ended) return;
      produce();
      continue;
    }
    auto step = static_cast<size_t>(std::min<uint64_t>(position - position_, produced_ - served_));
    served_ += step;
    position_ += step;
  }
}

void Inflate::restart() {
  source_->seek(0);
  state_ = State::member;
  first_member_ = true;
  failure_.reset();
  in_ = in_end_ = 0;
  input_position_ = 0;
  input_ended_ = false;
  bits_ = count_ = past_end_ = 0;
  produced_ = served_ = history_start_ = 0;
  position_ = 0;
}

// Produces more output, if there is any; goes through as many states as that takes.
void Inflate::produce() {
  if (produced_ >= kWindow + kChunk) {
    size_t shift = produced_ - kWindow;
    std::memmove(output_.get(), output_.get() + shift, kWindow);
    produced_ = served_ = kWindow;
    history_start_ -= std::min(history_start_, shift);
  }
  const size_t start = produced_;
  try {
    advance();
  } catch (const Error& error) {
    failure_ = error;
  }
  if (size_t made = produced_ - start) {
    member_size_ += made;
    const unsigned char* at = output_.get() + start;
    checksum_ = format_ == Compression::gzip ? crc32(at, made, checksum_) : adler32(at, made, checksum_);
  }
}

void Inflate::advance() {
  constexpr size_t limit = kWindow + kChunk;
  switch (state_) {
    case State::member:
      state_ = begin_member() ? State::block : State::ended;
      break;
    case State::block:
      begin_block();
      break;
    case State::stored:
      copy_stored(limit);
      break;
    case State::coded:
      decode(limit);
      break;
    case State::trailer:
      check_trailer();
      break;
    case State::ended:
      break;
  }
}

bool Inflate::begin_member() {
  refill();
  // An empty file is an empty stream: TensorFlow reads nothing from it, too.
  if (past_end_ * 8 >= count_) return false;
  if (format_ == Compression::zlib) {
    uint32_t method = take(8), flags = take(8);
    if (overrun()) corrupted("the header is cut off");
    if ((method & 15) != 8 || (method >> 4) > 7 || (method << 8 | flags) % 31 != 0) corrupted("no zlib header");
    if ((flags & 32) != 0) corrupted("it needs a preset dictionary");
    checksum_ = 1;
  } else {
    if (take(8) != 0x1f || take(8) != 0x8b)
      corrupted(first_member_ ? "no gzip header" : "no gzip header after a member");
    const uint32_t method = take(8), flags = take(8);
    if (overrun()) corrupted("the header is cut off");
    if (method != 8) corrupted("an unknown compression method");
    if ((flags & 0xe0) != 0) corrupted("unknown flags in the gzip header");
    for (int i = 0; i < 6; ++i) take(8);  // Time and origin.
    auto next = [&] {
      uint32_t byte = take(8);
      if (overrun()) corrupted("the header is cut off");
      return byte;
    };
    if ((flags & 4) != 0) {
      uint32_t extra = next();
      extra |= next() << 8;
      for (; extra > 0; --extra) next();
    }
    for (uint32_t text : {8u, 16u}) {
      if ((flags & text) == 0) continue;
      while (next() != 0) {
      }
    }
    if ((flags & 2) != 0) next(), next();
    if (overrun()) corrupted("the header is cut off");
    checksum_ = 0;
  }
  first_member_ = false;
  member_size_ = 0;
  history_start_ = produced_;
  last_block_ = false;
  return true;
}

void Inflate::begin_block() {
  if (last_block_) {
    state_ = State::trailer;
    return;
  }
  last_block_ = take(1) != 0;
  switch (take(2)) {
    case 0:
      begin_stored();
      break;
    case 1: {
      std::array<uint8_t, 288> lengths;
      for (int i = 0; i < 288; ++i) lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
      std::array<uint8_t, 32> fives;
      fives.fill(5);
      literals_.build(lengths.data(), 288, kLiteralRoot, kLiteralSymbols.data());
      distances_.build(fives.data(), 32, kDistanceRoot, kDistanceSymbols.data());
      state_ = State::coded;
      break;
    }
    case 2:
      read_codes();
      state_ = State::coded;
      break;
    default:
      corrupted("an invalid type of block");
  }
  if (overrun()) corrupted("it is cut off");
}

void Inflate::begin_stored() {
  take(static_cast<int>(count_ % 8));
  uint32_t length = take(16), inverse = take(16);
  if (overrun()) corrupted("it is cut off");
  if (length != (~inverse & 0xffff)) corrupted("the length of a stored block does not match its inverse");
  stored_left_ = length;
  state_ = State::stored;
}

void Inflate::read_codes() {
  static constexpr uint8_t kOrder[19] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
  const int literals = static_cast<int>(take(5)) + 257, distances = static_cast<int>(take(5)) + 1;
  const int count = static_cast<int>(take(4)) + 4;
  if (literals > 286 || distances > 30) corrupted("too many codes");
  std::array<uint8_t, 19> of_lengths{};
  for (int i = 0; i < count; ++i) of_lengths[kOrder[i]] = static_cast<uint8_t>(take(3));
  if (!literals_.build(of_lengths.data(), 19, 7, kLengthSymbols.data())) corrupted("invalid code lengths");
  std::array<uint8_t, 286 + 30> lengths{};
  for (int i = 0; i < literals + distances;) {
    refill();
    uint32_t e = literals_.entries[bits_ & ((1u << literals_.root_bits) - 1)];
    if (kind_of(e) == invalid) corrupted("an invalid code of a code length");
    take(static_cast<int>(length_of(e)));
    uint32_t symbol = value_of(e), repeat = 1;
    uint8_t value = 0;
    if (symbol < 16) {
      value = static_cast<uint8_t>(symbol);
    } else if (symbol == 16) {
      if (i == 0) corrupted("it repeats a code length before the first");
      value = lengths[i - 1];
      repeat = 3 + take(2);
    } else {
      repeat = symbol == 17 ? 3 + take(3) : 11 + take(7);
    }
    if (overrun()) corrupted("it is cut off");
    if (repeat > static_cast<uint32_t>(literals + distances - i)) corrupted("too many code lengths");
    std::fill_n(lengths.begin() + i, repeat, value);
    i += static_cast<int>(repeat);
  }
  if (lengths[256] == 0) corrupted("a block without a code for its end");
  if (!literals_.build(lengths.data(), literals, kLiteralRoot, kLiteralSymbols.data()))
    corrupted("invalid literal and length codes");
  if (!distances_.build(lengths.data() + literals, distances, kDistanceRoot, kDistanceSymbols.data()))
    corrupted("invalid distance codes");
}

void Inflate::copy_stored(size_t limit) {
  while (stored_left_ > 0 && produced_ < limit) {
    if (count_ >= 8) {  // The bytes in the bit buffer come first.
      output_[produced_++] = static_cast<unsigned char>(take(8));
      if (overrun()) corrupted("it is cut off");
      --stored_left_;
      continue;
    }
    bits_ = 0;  // The fast refill leaves bits of the next bytes above those that it counts.
    if (in_ == in_end_ && !refill_input()) corrupted("it is cut off");
    size_t step = std::min({stored_left_, limit - produced_, in_end_ - in_});
    std::memcpy(output_.get() + produced_, input_.get() + in_, step);
    produced_ += step;
    in_ += step;
    stored_left_ -= step;
  }
  if (stored_left_ == 0) state_ = State::block;
}

void Inflate::decode(size_t limit) {
  const uint32_t* const literals = literals_.entries.data();
  const uint32_t* const distances = distances_.entries.data();
  const uint64_t literal_mask = (uint64_t{1} << literals_.root_bits) - 1;
  const uint64_t distance_mask = (uint64_t{1} << distances_.root_bits) - 1;
  unsigned char* const output = output_.get();
  size_t at = produced_;
  auto drop = [this](uint32_t count) {
    bits_ >>= count;
    count_ -= count;
  };
  auto look_up = [&](const uint32_t* table, uint64_t mask) {
    uint32_t e = table[bits_ & mask];
    if (kind_of(e) == second_table) [[unlikely]] {
      drop(length_of(e));
      e = table[value_of(e) + (bits_ & ((uint64_t{1} << extra_of(e)) - 1))];
    }
    drop(length_of(e));
    return e;
  };
  auto broken = [&](size_t sound, const char* what) {
    produced_ = sound;
    corrupted(what);
  };
  while (at < limit) {
    const size_t start = at;
    refill();
    uint32_t e = look_up(literals, literal_mask);
    if (kind_of(e) == literal) {
      // 56 bits hold the codes of three literals.
      output[at++] = static_cast<unsigned char>(value_of(e));
      e = look_up(literals, literal_mask);
      if (kind_of(e) == literal) {
        output[at++] = static_cast<unsigned char>(value_of(e));
        if (overrun()) [[unlikely]]
          broken(start, "it is cut off");
        continue;
      }
      refill();
    }
    if (kind_of(e) == base) {
      // A length and a distance take 48 bits at most, of which the code of the length is gone.
      size_t length = value_of(e) + (bits_ & ((1u << extra_of(e)) - 1));
      drop(extra_of(e));
      uint32_t d = look_up(distances, distance_mask);
      if (kind_of(d) != base) [[unlikely]]
        broken(start, overrun() ? "it is cut off" : "an invalid distance code");
      size_t distance = value_of(d) + (bits_ & ((1u << extra_of(d)) - 1));
      drop(extra_of(d));
      if (overrun()) [[unlikely]]
        broken(start, "it is cut off");
      if (distance > at - history_start_) [[unlikely]]
        broken(at, "a distance that reaches before the beginning");
      copy_match(output + at, distance, length);
      at += length;
      continue;
    }
    if (overrun()) broken(start, "it is cut off");
    if (kind_of(e) != end_of_block) broken(at, "an invalid literal or length code");
    state_ = State::block;
    break;
  }
  produced_ = at;
}

void Inflate::check_trailer() {
  take(static_cast<int>(count_ % 8));
  uint32_t stored = take(16);
  stored |= take(16) << 16;
  if (format_ == Compression::zlib) {
    if (overrun()) corrupted("its checksum is cut off");
    stored = __builtin_bswap32(stored);
    if (stored != checksum_) corrupted("its checksum does not match");
    state_ = State::ended;
    return;
  }
  uint32_t size = take(16);
  size |= take(16) << 16;
  if (overrun()) corrupted("its checksum is cut off");
  if (stored != checksum_) corrupted("its checksum does not match");
  if (size != static_cast<uint32_t>(member_size_)) corrupted("its size does not match");
  state_ = State::member;
}

inline void Inflate::refill() {
  if (in_end_ - in_ >= 8) [[likely]] {
    uint64_t word;
    std::memcpy(&word, input_.get() + in_, 8);
    bits_ |= word << count_;
    in_ += (63 - count_) >> 3;
    count_ |= 56;
  } else {
    refill_slowly();
  }
}

void Inflate::refill_slowly() {
  while (count_ < 56) {
    if (in_ == in_end_ && !refill_input()) {
      ++past_end_;
    } else {
      bits_ |= static_cast<uint64_t>(input_[in_++]) << count_;
    }
    count_ += 8;
  }
}

bool Inflate::refill_input() {
  if (input_ended_) return false;
  in_ = 0;
  in_end_ = source_->read(reinterpret_cast<char*>(input_.get()), kInputBytes);
  input_position_ += in_end_;
  input_ended_ = in_end_ == 0;
  return !input_ended_;
}

uint32_t Inflate::take(int count) {
  if (count_ < static_cast<uint32_t>(count)) refill();
  auto out = static_cast<uint32_t>(bits_ & ((uint64_t{1} << count) - 1));
  bits_ >>= count;
  count_ -= static_cast<uint32_t>(count);
  return out;
}

}  // namespace thalweg
