// Bytes for mutation tests and fuzzers of the network: frames of all kinds, mutated by a seed, read in pieces of any
// size.
#pragma once

#include "lists.h"

namespace native_tests {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  // Below `end`.
  size_t operator()(size_t end) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return end == 0 ? 0 : state_ % end;
  }

 private:
  uint64_t state_;
};

inline std::vector<std::string> sample_frames() {
  Tensor strings(DType::string, Shape{3});
  strings.strings()[1] = "text";
  std::string at(16, '\0'), error, call;
  Writer writer(error);
  put_error(writer, Error(Code::aborted, "why"));
  Writer(call).text("method");
  return {bytes_of({FrameKind::call, 0, 0, 1, call + "payload", {}}),
          bytes_of({FrameKind::answer, 1, 0, 1, error, {}}),
          bytes_of({FrameKind::run, 0, 5, 77, "", {counting(6, Shape{2, 3}), strings, Tensor()}}),
          bytes_of({FrameKind::done, 0, 5, 0, std::string(4, '\0'), {counting(40), counting(0)}}),
          bytes_of({FrameKind::cancel, 0, 5, 0, error, {}}),
          bytes_of({FrameKind::tensor, 0, 5, 99, at, {Tensor::scalar<double>(2)}}),
          bytes_of({FrameKind::tensor, 0, 6, 99, at, {strings}}),
          bytes_of({FrameKind::tensor, 0, 7, 99, at, {nested_lists()}}),
          list_frame(list_head(2) + element_head(Place::in_frame, 3) + element_head(Place::in_frame, 2),
                     std::string(20, 'e')),
          list_frame(list_head(3) + lent_element(100, 4096) + element_head(Place::in_frame, 1) + lent_element(9, 0),
                     std::string(4, 'e')),
          bytes_of({FrameKind::give_back, 0, 0, 3, {}, {}}),
          bytes_of({FrameKind::heartbeat, 0, 0, 0, {}, {}})};
}

// Changes, removes, repeats or inserts some bytes; numbers become extreme ones.
inline void mutate(std::string& bytes, Random& random) {
  constexpr uint64_t kExtreme[] = {0, 1, 0x7f, 0xff, 0xffff, 0x7fffffff, 0xffffffff, uint64_t{1} << 62, ~uint64_t{0}};
  for (size_t i = random(4) + 1; i > 0 && !bytes.empty(); --i) {
    const size_t at = random(bytes.size());
    switch (random(5)) {
      case 0:
        bytes[at] = static_cast<char>(random(256));
        break;
      case 1:
        bytes[at] ^= static_cast<char>(1 << random(8));
        break;
      case 2: {
        const uint64_t number = kExtreme[random(std::size(kExtreme))];
        std::memcpy(bytes.data() + at, &number, std::min(bytes.size() - at, size_t{1} << random(4)));
        break;
      }
      case 3:
        bytes.erase(at, random(20) + 1);
        break;
      default:
        bytes.insert(at, bytes.substr(random(bytes.size()), random(40)));
    }
  }
}

// Reads bytes in pieces whose sizes a random number decides. Frames that are refused are refused with
// InvalidArgumentError, or with ResourceExhaustedError if they are larger than the machine's memory.
inline size_t read_hostile(std::string_view bytes, Random& random, Loans* loans = nullptr) {
  auto [in, out] = socket_pair();
  Limits limits;
  limits.elements = 1 << 24;
  FrameReader reader(loans, limits);
  std::atomic<int64_t> read{0};
  size_t found = 0;
  try {
    while (!bytes.empty()) {
      const std::string_view piece = bytes.substr(0, random(2) ? random(70) + 1 : random(10000) + 1);
      write_text(in, piece);
      bytes.remove_prefix(piece.size());
      reader.read(out, [&](Frame) { ++found; }, read);
    }
  } catch (const Error& error) {
    if (error.code() != Code::invalid_argument && error.code() != Code::resource_exhausted) throw;
  }
  return found;
}

}  // namespace native_tests
