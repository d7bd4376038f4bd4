// Mutated frames and handshakes, by seeds: whatever arrives is read or refused. (tests/fuzz/native goes further.)
#include "net_mutations.h"

#include <unistd.h>

#include <future>

namespace {

using namespace native_tests;

TEST(mutated_frames_are_read_or_refused) {
  const auto samples = sample_frames();
  Loans loans(nullptr, std::make_shared<PeerArena>(dup(SharedArena::get()->reading_fd())), [](uint64_t) {});
  size_t found = 0;
  for (uint64_t seed = 0; seed < 20000; ++seed) {
    Random random(seed);
    std::string bytes;
    for (size_t i = random(4) + 1; i > 0; --i) bytes += samples[random(samples.size())];
    mutate(bytes, random);
    found += read_hostile(bytes, random, random(2) ? &loans : nullptr);
  }
  CHECK(found > 10000);
}

TEST(random_bytes_are_refused) {
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    Random random(seed);
    std::string bytes(random(300) + 1, '\0');
    for (char& c : bytes) c = static_cast<char>(random(256));
    read_hostile(bytes, random);
  }
}

TEST(mutated_handshakes_never_admit_anybody) {
  std::string good(kMagic, sizeof kMagic), hello;
  Writer(hello).text("c").text("/job:w").put(uint64_t{1}).put(uint8_t{0});
  Writer(good).text(hello + std::string(16, 'r')).text(std::string(32, 'p'));
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    Random random(seed);
    std::string bytes = good;
    mutate(bytes, random);
    auto [in, out] = socket_pair();
    write_text(in, bytes);
    shutdown(in.fd(), SHUT_WR);
    try {
      answer(out, {"c", "/job:ps", 1}, "k", nullptr, true, Clock::now() + 20s);
    } catch (const Error& error) {
      CHECK(error.code() == Code::unavailable || error.code() == Code::unauthenticated);
      continue;
    }
    check::fail(__FILE__, __LINE__, cat("seed ", seed, " was admitted"));
  }
}

}  // namespace
